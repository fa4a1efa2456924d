"""The stage server: a process of its own that owns the brokers, so that a kernel may die.

    GET    /state                     brokers, armed faults, open runs
    POST   /runs {run, folder}        DELETE /runs/<run>
    GET    /faults                    POST /faults {run, fault}     DELETE /faults[/<id>]
    POST   /brokers/<id>/<verb>       start · stop · kill · pause · resume · power_cut
    POST   /links/<a>/<b>/<verb>      cut · hold · heal
    POST   /settle {topics, whole}    returns when the controller has decided
    GET    /partitions?topic=T        leader, ISR, ELR, epochs
    POST   /heal                      every link is whole, every broker runs
    POST   /reset                     no fault is armed, every broker runs
    GET    /log?topic=T               the record batches in the segment files
    GET    /events[?after=N]          the latest events; live to who accepts text/event-stream
    POST   /shutdown

It listens on loopback. Each request brings the token of server.json (which only its owner can
read) as `Authorization: Bearer` or `X-Lab-Token`, or is answered 401 and nothing is done. It ends
when its owner's process ends, when it is told to, or after an idle hour.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import orjson
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets

from lab_utils.errors import BadArgument, LabError
from lab_utils.machine.prepare import prepare
from lab_utils.machine.quick_start import Kafka
from lab_utils.proxy.faults import from_json
from lab_utils.single_server import Life
from lab_utils.stage.cluster import Cluster
from lab_utils.stage.event_log import as_columns

IDLE_S: Final = 3600
LOOK_S: Final = 0.5
HEARTBEAT_S: Final = 10
STREAM_S: Final = 60


class Handler(web.RequestHandler):
    """One request: its token, its JSON, its errors."""

    @property
    def cluster(self) -> Cluster:
        """The cluster of this stage."""
        cluster: Cluster = self.settings["cluster"]
        return cluster

    def prepare(self) -> None:
        """Turn away who has no token."""
        given = self.request.headers.get("X-Lab-Token") or self.request.headers.get(
            "Authorization", ""
        ).removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.settings["token"].encode()):
            self.set_status(401)
            self.finish({"error": "no token, or not the one of this stage's server.json."})
            return
        self.settings["end"].spoken_to_at = time.monotonic()

    def body(self) -> dict[str, Any]:
        """The request's JSON object. Raises BadArgument."""
        try:
            body = orjson.loads(self.request.body or b"{}")
        except orjson.JSONDecodeError as error:
            raise BadArgument(f"the body must be JSON: {error}.") from error
        if not isinstance(body, dict):
            raise BadArgument(f"the body must be a JSON object; got {type(body).__name__}.")
        return body

    def field(self, name: str) -> str:
        """A text of the request's JSON object. Raises BadArgument."""
        value = self.body().get(name)
        if not isinstance(value, str):
            raise BadArgument(f"the body must have the text {name!r}; got {value!r}.")
        return value

    def reply(self, **columns: Any) -> None:
        """Answer in JSON."""
        self.set_header("Content-Type", "application/json")
        self.finish(orjson.dumps(columns))

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


class StateHandler(Handler):
    """GET /state."""

    def get(self) -> None:
        """The state of everything."""
        self.reply(**self.cluster.state(), name=self.settings["name"])


class RunsHandler(Handler):
    """POST /runs, DELETE /runs/<run>."""

    def post(self, _: str | None) -> None:
        """Open a run."""
        self.cluster.open_run(self.field("run"), Path(self.field("folder")))
        self.reply()

    async def delete(self, run: str | None) -> None:
        """Close a run, and mend what is broken if it names topics; answer what fired."""
        topics = self.get_query_arguments("topic")
        self.reply(**await self.cluster.close_run(run or "", topics))


class FaultsHandler(Handler):
    """GET, POST, DELETE /faults."""

    def get(self, _: str | None) -> None:
        """What is armed."""
        self.reply(faults=self.cluster.armed())

    async def post(self, _: str | None) -> None:
        """Arm a fault."""
        body = self.body()
        fault = from_json(body.get("fault", {}))
        self.reply(id=await self.cluster.arm(str(body.get("run", "")), fault))

    def delete(self, fault_id: str | None) -> None:
        """Disarm one fault, or all."""
        self.reply(cleared=self.cluster.clear(fault_id))


class BrokersHandler(Handler):
    """POST /brokers/<id>/<verb>."""

    async def post(self, broker_id: str, verb: str) -> None:
        """Do something to a broker; answers when it is done."""
        await self.cluster.do(int(broker_id), verb)
        self.reply(**self.cluster.state())


class LinksHandler(Handler):
    """POST /links/<a>/<b>/<verb>."""

    def post(self, a: str, b: str, verb: str) -> None:
        """Cut, hold or heal a link."""
        self.cluster.link(int(a), int(b), verb)
        self.reply(**self.cluster.state())


class SettleHandler(Handler):
    """POST /settle {topics, whole}."""

    async def post(self) -> None:
        """Wait until the controller has decided about these topics; answer whether it has."""
        body = self.body()
        topics = [str(topic) for topic in body.get("topics", [])]
        settled = await self.cluster.settle(topics, whole=bool(body.get("whole")))
        self.reply(settled=settled)


class PartitionsHandler(Handler):
    """GET /partitions?topic=T."""

    def get(self) -> None:
        """What the controller has decided about a topic."""
        found = self.cluster.partitions(self.get_query_argument("topic"))
        self.reply(partitions=[asdict(partition) for partition in found])


class HealHandler(Handler):
    """POST /heal."""

    async def post(self) -> None:
        """Heal brokers and links; faults stay armed."""
        await self.cluster.heal()
        self.reply(**self.cluster.state())


class ResetHandler(Handler):
    """POST /reset."""

    async def post(self) -> None:
        """Heal everything."""
        await self.cluster.reset()
        self.reply(**self.cluster.state())


class LogHandler(Handler):
    """GET /log?topic=T."""

    async def get(self) -> None:
        """The batches of a topic."""
        topic = self.get_query_argument("topic")
        self.reply(batches=await asyncio.to_thread(self.cluster.batches, topic))


class EventsHandler(Handler):
    """GET /events: what is kept of the latest events, and then each as it comes."""

    async def get(self) -> None:
        """All events after number `after`: once in JSON, or live as server-sent events.

        A stream ends after a minute, and its reader comes again with the last number: behind
        jupyter-server-proxy a reader that has left is never noticed.
        """
        after = int(self.get_query_argument("after", str(self.cluster.event_log.seen)))
        if "text/event-stream" in self.request.headers.get("Accept", ""):
            await self._stream(after)
        else:
            self.reply(events=self._since(after), seen=self.cluster.event_log.seen)

    async def _stream(self, after: int) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-store")
        ends_at = time.monotonic() + STREAM_S
        news = asyncio.Event()
        stop = self.cluster.event_log.watch(news.set)
        try:
            with suppress(StreamClosedError):
                while time.monotonic() < ends_at:
                    news.clear()
                    after = self._send_since(after)
                    await self.flush()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), HEARTBEAT_S)
        finally:
            stop()

    def _since(self, after: int) -> list[dict[str, Any]]:
        return [
            {"number": number, **as_columns(event)}
            for number, event in self.cluster.event_log.events
            if number > after
        ]

    def _send_since(self, after: int) -> int:
        self.write(": alive\n")
        for number, event in self.cluster.event_log.events:
            if number > after:
                data = orjson.dumps(as_columns(event)).decode()
                self.write(f"id: {number}\ndata: {data}\n\n")
                after = number
        return after


class ShutdownHandler(Handler):
    """POST /shutdown."""

    def post(self) -> None:
        """End this server and all that it owns."""
        self.reply()
        self.settings["end"].end()


class End:
    """When the server ends: when it is told to, its owner is gone, or nobody has spoken to it."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._over = asyncio.Event()
        self.spoken_to_at = time.monotonic()

    def end(self) -> None:
        """It is over."""
        self._over.set()

    async def wait(self, look: Callable[[], object]) -> None:
        """Return when it is over; call `look` twice a second until then."""
        while not (self._life.is_forsaken() or self._is_idle()):
            look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_S)
                return

    def _is_idle(self) -> bool:
        return not self._life.has_owner and time.monotonic() - self.spoken_to_at > IDLE_S


def application(cluster: Cluster, end: End, name: str, token: str) -> web.Application:
    """The routes."""
    routes = [
        (r"/state", StateHandler),
        (r"/runs(?:/([\w.-]+))?", RunsHandler),
        (r"/faults(?:/(\w+))?", FaultsHandler),
        (r"/brokers/(\d+)/(\w+)", BrokersHandler),
        (r"/links/(\d+)/(\d+)/(\w+)", LinksHandler),
        (r"/settle", SettleHandler),
        (r"/partitions", PartitionsHandler),
        (r"/heal", HealHandler),
        (r"/reset", ResetHandler),
        (r"/log", LogHandler),
        (r"/events", EventsHandler),
        (r"/shutdown", ShutdownHandler),
    ]
    settings = {"cluster": cluster, "end": end, "name": name, "token": token}
    return web.Application(routes, log_function=lambda _: None, **settings)  # type: ignore[arg-type]


async def serve(life: Life, kafka: Kafka, brokers: int) -> None:
    """Serve one stage until its end."""
    cluster = Cluster(kafka, life.folder)
    end = End(life)
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, end.end)
    over = asyncio.ensure_future(end.wait(cluster.keep_guardian))
    opened = asyncio.ensure_future(cluster.open(brokers))
    try:
        await asyncio.wait({opened, over}, return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            opened.result()
            await _answer(life, cluster, end, over)
    finally:
        life.say("ending")
        opened.cancel()
        await cluster.close()
        await asyncio.gather(opened, over, return_exceptions=True)


async def _answer(life: Life, cluster: Cluster, end: End, over: asyncio.Future[None]) -> None:
    token = secrets.token_urlsafe(32)
    server = HTTPServer(application(cluster, end, life.folder.name, token))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    life.say(
        "serving",
        url=f"http://127.0.0.1:{sockets[0].getsockname()[1]}",
        token=token,
        bootstrap=cluster.bootstrap,
        direct=cluster.direct,
        brokers=len(cluster.state()["brokers"]),
    )
    await over
    server.stop()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--brokers", type=int, default=1, help="How many brokers.")
@click.option("--lock", type=int, required=True, help="The folder's lock, an open file.")
@click.option("--owner", type=int, default=None, help="End with this process.")
def main(folder: Path, brokers: int, lock: int, owner: int | None) -> None:
    """Run the server of the stage in this folder."""
    with Life(folder, lock, owner) as life:
        asyncio.run(serve(life, prepare(), brokers))


if __name__ == "__main__":
    main()
