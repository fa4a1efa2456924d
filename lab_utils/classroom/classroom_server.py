"""The classroom's server: seats tell, the projector looks.

    POST /join {code}                      a seat and its token
    POST /tell {lab, cell, predicted} …    with the seat's token; see Room.tell
    GET  /board                            with the teacher's token
    POST /close {lab, cell, closed}        with the teacher's token
    GET  /                                 the projector's page, which holds no secret

A token comes as `Authorization: Bearer`. A request that cannot be met is answered with a sentence.
"""

from __future__ import annotations

import asyncio
import hmac
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
from tornado import web
from tornado.httpserver import HTTPServer

from lab_utils.classroom.room import Refused, Room
from lab_utils.errors import BadArgument, LabError, SetupError

PAGE: Final = Path(__file__).with_name("projector.html")
SCRIPT: Final = Path(__file__).with_name("projector.js")
BODY_LIMIT: Final = 8 * 1024
SILENCE_S: Final = 30
# Requests a second, and at once, of a seat; and of an address, behind which may be a whole room.
OF_A_SEAT: Final = (2.0, 30)
OF_AN_ADDRESS: Final = (5.0, 300)
NOTHING_ELSEWHERE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


class Limits:
    """How many requests each caller has left; they come back with time.

    Callers are seats and addresses: whoever could make up others would have no limit.
    """

    def __init__(self, a_second: float, at_once: int) -> None:
        self._a_second = a_second
        self._at_once = at_once
        self._left: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (at_once, 0.0))

    def take(self, caller: str, now: float) -> bool:
        """Take one, if one is left at this time in seconds."""
        left, then = self._left[caller]
        left = min(self._at_once, left + (now - then) * self._a_second)
        self._left[caller] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class Handler(web.RequestHandler):
    """One request to the room; what it asks for is in `ask`."""

    def initialize(self, ask: Callable[[Handler, dict[str, Any]], object]) -> None:
        """What this route does; tornado calls this and what follows."""
        self._ask = ask
        self.room: Room = self.settings["room"]

    def set_default_headers(self) -> None:
        """Nothing is kept, framed or guessed."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")

    def post(self) -> None:
        """Take a JSON object, and answer with one."""
        try:
            given = orjson.loads(self.request.body)
        except orjson.JSONDecodeError as error:
            raise BadArgument(f"the body must be JSON: {error}.") from error
        if not isinstance(given, dict):
            raise BadArgument("the body must be a JSON object.")
        self._answer(given)

    def get(self) -> None:
        """Answer with a JSON object."""
        self._answer({})

    @property
    def token(self) -> str:
        """The token that came with the request."""
        return self.request.headers.get("Authorization", "").removeprefix("Bearer ")

    def limit(self, name: str, caller: str) -> None:
        """Answer 429 to a caller who asks too much."""
        if not self.settings[name].take(caller, time.monotonic()):
            raise web.HTTPError(429, reason="Too many requests: wait a little")

    def require_teacher(self) -> None:
        """Answer 401 to who is not the projector."""
        if not hmac.compare_digest(self.token.encode(), self.room.teacher.encode()):
            raise Refused("this is the teacher's: open the address that ./lab classroom printed.")

    def write_error(self, status_code: int, **details: Any) -> None:
        """Answer a LabError with its sentence, anything else with what it is."""
        error = details.get("exc_info", (None, None))[1]
        if isinstance(error, LabError):
            self.set_status(401 if isinstance(error, Refused) else 400)
            self.finish({"error": str(error)})
        else:
            self.finish({"error": f"{status_code} {self._reason}"})

    def log_exception(self, *details: Any) -> None:
        """A LabError is an answer; only other exceptions go to the log."""
        if not isinstance(details[1], LabError):
            super().log_exception(*details)

    def _answer(self, given: dict[str, Any]) -> None:
        said = self._ask(self, given)
        self.set_header("Content-Type", "application/json")
        self.finish(orjson.dumps(said or {}))


class Page(web.RequestHandler):
    """The projector's page and its script."""

    def initialize(self, path: Path, kind: str) -> None:
        """Which file this is; tornado calls this and what follows."""
        self._path, self._kind = path, kind

    def get(self) -> None:
        """Send the file."""
        self.set_header("Content-Type", f"{self._kind}; charset=utf-8")
        self.set_header("Content-Security-Policy", NOTHING_ELSEWHERE)
        self.set_header("Cache-Control", "no-store")
        self.finish(self._path.read_bytes())


def _join(request: Handler, given: dict[str, Any]) -> object:
    request.limit("of_an_address", str(request.request.remote_ip))
    seat = request.room.join(given.get("code"))
    return {"seat": seat.name, "token": seat.token}


def _tell(request: Handler, given: dict[str, Any]) -> None:
    request.limit("of_a_seat", request.room.seat(request.token).name)
    request.room.tell(request.token, given)


def _board(request: Handler, _: dict[str, Any]) -> object:
    request.require_teacher()
    return request.room.board()


def _close(request: Handler, given: dict[str, Any]) -> None:
    request.require_teacher()
    request.room.close(request.room.vote(given), closed=bool(given.get("closed", True)))


def application(room: Room) -> web.Application:
    """What answers."""
    asked = {"/join": _join, "/tell": _tell, "/board": _board, "/close": _close}
    return web.Application(
        [
            *((path, Handler, {"ask": ask}) for path, ask in asked.items()),
            ("/", Page, {"path": PAGE, "kind": "text/html"}),
            ("/projector.js", Page, {"path": SCRIPT, "kind": "text/javascript"}),
        ],
        room=room,
        of_a_seat=Limits(*OF_A_SEAT),
        of_an_address=Limits(*OF_AN_ADDRESS),
        log_function=lambda _: None,
    )


def serve(room: Room, host: str, port: int, ready: Callable[[int], object]) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP, then write what the room knows; how many results.

    `ready` is told the port when seats may come. Raises SetupError if the address cannot be
    listened to.
    """

    async def until_the_end() -> int:
        server = HTTPServer(
            application(room),
            max_body_size=BODY_LIMIT,
            max_header_size=BODY_LIMIT,
            idle_connection_timeout=SILENCE_S,
            body_timeout=SILENCE_S,
        )
        try:
            server.listen(port, host)
        except OSError as error:
            raise SetupError(
                f"nobody can listen at {host}:{port}: {error.strerror}. Name an address of this "
                "machine with --host, another port with --port."
            ) from error
        ended = asyncio.Event()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
        ready(port)
        await ended.wait()
        return room.write()  # Here, where a second Ctrl-C ends nothing.

    return asyncio.run(until_the_end())
