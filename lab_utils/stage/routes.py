"""What the stage answers over HTTP.

    GET    /state                     brokers, armed faults, open runs
    POST   /runs {run, folder, owner} DELETE /runs/<run>[?topic=T]
    GET    /past                      the topics of runs long past, which may be deleted
    POST   /faults {run, fault}       DELETE /faults[/<id>]
    POST   /brokers/<id>/<verb>       start · stop · kill · pause · resume · power_cut
    POST   /links/<a>/<b>/<verb>      cut · hold · slow · heal
    POST   /settle {topics, whole}    returns when the controller has decided
    GET    /partitions?topic=T        leader, ISR, ELR, epochs
    POST   /heal                      every link is whole, every broker runs
    POST   /reset                     no fault is armed, every broker runs
    GET    /log?topic=T               the record batches in the segment files
    GET    /events[?after=N]          the latest events, all after number N
    POST   /shutdown

Each request brings the token of server.json (which only its owner can read) as `Authorization:
Bearer` or `X-Lab-Token`, or is answered 401 before its body is read. A request that cannot be met
is answered 400 with a sentence. An answer of any length leaves in pieces. One that takes long is
announced every few seconds (102), so that a server that is stopped is told from one that works.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import orjson
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.httputil import split_host_and_port
from tornado.iostream import IOStream

from lab_utils.errors import BadArgument, LabError
from lab_utils.proxy.faults import from_json
from lab_utils.stage.cluster import Cluster
from lab_utils.stage.event_log import as_columns

if TYPE_CHECKING:
    from lab_utils.stage.server import End

BODY_LIMIT: Final = 64 * 1024
HEADER_LIMIT: Final = 16 * 1024
BUFFER_LIMIT: Final = 128 * 1024
# A body that is begun, or a connection that is kept, and on which nothing more comes.
SILENCE_S: Final = 60
# How often a client that waits is told that its answer will come.
SIGN_S: Final = 5
PROCESSING: Final = b"HTTP/1.1 102 Processing\r\n\r\n"
CONNECTIONS: Final = 100
PIECE: Final = 64 * 1024
# What is answered while the brokers end: a page that asks often would be shown an error for each,
# and one that was told the state before asks for the events then.
AT_THE_END: Final = ("/state", "/events", "/shutdown")
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]", "::1")


@web.stream_request_body
class Handler(web.RequestHandler):
    """One request: its token, its JSON, its errors. What it does is in ROUTES."""

    def initialize(self, calls: dict[str, Call]) -> None:
        """The function for each method; tornado calls this and what follows."""
        self._calls = calls
        self._body = bytearray()
        self.cluster: Cluster = self.settings["cluster"]

    def prepare(self) -> None:
        """Turn away who has no token, and a page that took a name of its own to loopback."""
        host, _ = split_host_and_port(self.request.headers.get("Host", ""))
        # jupyter-server-proxy passes the browser's Host on; Jupyter has checked it by its rules.
        if host.lower() not in LOOPBACK and "X-ProxyContextPath" not in self.request.headers:
            self._refuse(403, f"the stage is asked for at 127.0.0.1 alone; this names {host!r}.")
            return
        given = self.request.headers.get("X-Lab-Token") or self.request.headers.get(
            "Authorization", ""
        ).removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.settings["token"].encode()):
            self._refuse(401, "no token, or not the one of this stage's server.json.")
            return
        if self.settings["end"].is_over and self.request.path not in AT_THE_END:
            self._refuse(503, "this stage is ending. Run the notebook's first cell again.")
            return
        self.settings["end"].spoken_to_at = time.monotonic()
        self.settings["trusted"].add(self.request.connection.stream)  # type: ignore[union-attr]

    def data_received(self, chunk: bytes) -> None:
        """Take in a piece of the body; there are BODY_LIMIT bytes of it at most."""
        self._body += chunk

    async def get(self, *parts: str | None) -> None:
        """Do what the route says for this method."""
        method = self.request.method or ""
        if method not in self._calls:
            raise web.HTTPError(405 if self._calls else 404)
        said = self._calls[method](self, *parts)
        if inspect.isawaitable(said):
            in_pieces = self._calls[method] in IN_PIECES  # nothing may be said between them
            said = await (said if in_pieces else self._until_done(asyncio.ensure_future(said)))
        if said is not None:
            self.set_header("Content-Type", "application/json")
            self.finish(orjson.dumps(said))

    post = get
    delete = get

    async def _until_done(self, work: asyncio.Future[Any]) -> Any:
        """What the work comes to; a kernel that waits for it is told that it is still done."""
        while not (await asyncio.wait({work}, timeout=SIGN_S))[0]:
            stream = self.request.connection.stream  # type: ignore[union-attr]
            if not stream.closed():
                stream.write(PROCESSING)
        return work.result()

    def field(self, name: str, kind: type, *default: Any) -> Any:
        """A field of the request's JSON object. Raises BadArgument."""
        try:
            body = orjson.loads(self._body or b"{}")
        except orjson.JSONDecodeError as error:
            raise BadArgument(f"the body must be JSON: {error}.") from error
        if not isinstance(body, dict):
            raise BadArgument(f"the body must be a JSON object; got {type(body).__name__}.")
        value = body.get(name, *default)
        if not isinstance(value, kind):
            what = {str: "text", list: "list", dict: "object", bool: "truth value"}[kind]
            raise BadArgument(f"the body must have the {what} {name!r}; got {value!r:.200}.")
        return value

    def write_error(self, status_code: int, **details: Any) -> None:
        """Answer a LabError with its sentence and 400, anything else as what it is."""
        error = details.get("exc_info", (None, None))[1]
        if isinstance(error, LabError):
            self.set_status(400)
            self.finish({"error": str(error), "kind": type(error).__name__})
        else:
            self.finish({"error": f"{status_code} {self._reason}: {error}", "kind": "StageError"})

    def log_exception(self, *details: Any) -> None:
        """A LabError is an answer; only other exceptions go to the log."""
        if not isinstance(details[1], LabError):
            super().log_exception(*details)

    def _refuse(self, status: int, why: str) -> None:
        self.set_status(status)
        self.set_header("Connection", "close")  # what else comes on it is not read
        self.finish({"error": why})


Call = Callable[..., Any]


def _state(request: Handler) -> dict[str, Any]:
    said = {"name": request.settings["name"], "ending": request.settings["end"].is_over}
    return request.cluster.state() | said


def _open_run(request: Handler, _: None) -> dict[str, Any]:
    run, folder = request.field("run", str), Path(request.field("folder", str))
    is_examined = request.field("examined", bool, False)
    request.cluster.open_run(run, folder, request.field("owner", str, ""))
    request.cluster.board.is_examining = is_examined
    return {}


async def _close_run(request: Handler, run: str | None) -> dict[str, Any]:
    topics = request.get_query_arguments("topic")
    return {"trouble": await request.cluster.close_run(run or "", topics)}


async def _arm(request: Handler, _: None) -> dict[str, Any]:
    fault = from_json(request.field("fault", dict))
    return {"id": await request.cluster.arm(request.field("run", str, ""), fault)}


def _state_after(act: Call) -> Call:
    """Let a cluster act on the parts of the path; what it then is is the answer."""

    async def answer(request: Handler, *parts: str) -> dict[str, Any]:
        done = act(request.cluster, *parts)
        if inspect.isawaitable(done):
            await done
        return request.cluster.state()

    return answer


async def _settle(request: Handler) -> dict[str, Any]:
    topics = request.field("topics", list, [])
    if not all(isinstance(topic, str) for topic in topics):
        raise BadArgument(f"topics must be a list of texts; got {topics!r:.200}.")
    whole = request.field("whole", bool, False)
    return {"settled": await request.cluster.settle(topics, whole=whole)}


def _partitions(request: Handler) -> dict[str, Any]:
    found = request.cluster.partitions(request.get_query_argument("topic"))
    return {"partitions": [asdict(partition) for partition in found]}


def _past(request: Handler) -> dict[str, Any]:
    topics = {each.topic for each in request.cluster.partitions()}
    return {"topics": request.cluster.event_log.past(topics)}


async def _log(request: Handler) -> None:
    """Answer the batches of a topic."""
    batches = request.cluster.batches(request.get_query_argument("topic"))
    await _answer(request, b'{"batches":[', iter(batches))


async def _answer(request: Handler, begin: bytes, rows: Iterator[dict[str, Any]]) -> None:
    """Answer rows piece by piece: a topic may be larger than memory, and a reader may not read."""
    request.set_header("Content-Type", "application/json")
    piece, separator = await asyncio.to_thread(_piece, rows), begin
    while piece:
        request.write(separator + piece)
        await request.flush()
        piece, separator = await asyncio.to_thread(_piece, rows), b","
    request.finish((b"" if separator == b"," else begin) + b"]}")


def _piece(rows: Iterator[dict[str, Any]]) -> bytes:
    """The next rows in JSON, separated by commas; empty at the end."""
    texts, size = [], 0
    for row in rows:
        texts.append(orjson.dumps(row))
        size += len(texts[-1])
        if size > PIECE:
            break
    return b",".join(texts)


async def _events(request: Handler) -> None:
    """All events after number `after`."""
    log = request.cluster.event_log
    given = request.get_query_argument("after", str(log.seen))
    if not given.isdecimal() or len(given) > 18:
        raise BadArgument(f"after must be the number of an event; got {given!r:.100}.")
    found = log.since(int(given))
    rows = ({"number": number, **as_columns(event)} for number, event in found)
    await _answer(request, b'{"seen":%d,"events":[' % log.seen, rows)


IN_PIECES: Final = (_log, _events)


def _shutdown(request: Handler) -> dict[str, Any]:
    request.settings["end"].end()
    return {}


ROUTES: Final[dict[str, dict[str, Call]]] = {
    r"/state": {"GET": _state},
    r"/runs(?:/([\w.-]+))?": {"POST": _open_run, "DELETE": _close_run},
    r"/faults(?:/(\w+))?": {"POST": _arm, "DELETE": _state_after(Cluster.clear)},
    r"/brokers/(\d{1,9})/(\w+)": {
        "POST": _state_after(lambda cluster, broker, verb: cluster.do(int(broker), verb)),
    },
    r"/links/(\d{1,9})/(\d{1,9})/(\w+)": {
        "POST": _state_after(lambda cluster, a, b, verb: cluster.link(int(a), int(b), verb)),
    },
    r"/settle": {"POST": _settle},
    r"/partitions": {"GET": _partitions},
    r"/past": {"GET": _past},
    r"/heal": {"POST": _state_after(Cluster.heal)},
    r"/reset": {"POST": _state_after(Cluster.reset)},
    r"/log": {"GET": _log},
    r"/events": {"GET": _events},
    r"/shutdown": {"POST": _shutdown},
}


class Server(HTTPServer):
    """An HTTP server with at most so many connections.

    For one more, the oldest makes room that has not shown the token; if all have, it is refused.
    """

    def initialize(self, application: web.Application, **limits: Any) -> None:  # type: ignore[override]
        """Begin without a connection; tornado calls this and what follows."""
        super().initialize(application, **limits)
        self._streams: list[IOStream] = []
        self._trusted: WeakSet[IOStream] = application.settings["trusted"]

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a connection that has come."""
        self._streams = [it for it in self._streams if not it.closed()] + [stream]
        if len(self._streams) > CONNECTIONS:
            next(it for it in self._streams if it not in self._trusted).close()
        super().handle_stream(stream, address)


def http_server(cluster: Cluster, end: End, name: str, token: str) -> HTTPServer:
    """The server of these routes; what it keeps of requests has bounds."""
    settings = {"cluster": cluster, "end": end, "name": name, "token": token}
    application = web.Application(
        [(pattern, Handler, {"calls": calls}) for pattern, calls in ROUTES.items()],
        default_handler_class=Handler,
        default_handler_args={"calls": {}},
        log_function=lambda _: None,
        trusted=WeakSet[IOStream](),
        **settings,  # type: ignore[arg-type]
    )
    return Server(
        application,
        max_header_size=HEADER_LIMIT,
        max_body_size=BODY_LIMIT,
        max_buffer_size=BUFFER_LIMIT,
        body_timeout=SILENCE_S,
        idle_connection_timeout=SILENCE_S,
    )
