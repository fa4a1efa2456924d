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

It listens on loopback. Each request brings the token of stage.json (which only its owner can
read) as `Authorization: Bearer` or `X-Lab-Token`, or is answered 401 and nothing is done. It ends
when its owner's process ends, when it is told to, or after an idle hour.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import orjson
import psutil
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets

from lab_utils.errors import BadArgument, LabError
from lab_utils.folders import stage_folder
from lab_utils.machine.prepare import prepare
from lab_utils.proxy.faults import from_json
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
            self.finish({"error": "no token, or not the one of this stage's stage.json."})
            return
        self.settings["life"].spoken_to_at = time.monotonic()

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
        self.settings["life"].end()


class Life:
    """How long the server lives: until it is told, or its owner is gone, or it is idle."""

    def __init__(self, owner: int | None) -> None:
        self._owner = _process(owner)
        self._has_owner = owner is not None
        self._over = asyncio.Event()
        self.spoken_to_at = time.monotonic()

    def end(self) -> None:
        """It is over."""
        self._over.set()

    async def wait(self) -> None:
        """Return when it is over."""
        while not self._is_forsaken():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_S)
                return

    def _is_forsaken(self) -> bool:
        if self._has_owner:
            return self._owner is None or not self._owner.is_running()
        return time.monotonic() - self.spoken_to_at > IDLE_S


def _process(pid: int | None) -> psutil.Process | None:
    try:
        return psutil.Process(pid) if pid is not None else None
    except psutil.NoSuchProcess:
        return None


def application(cluster: Cluster, life: Life, name: str, token: str) -> web.Application:
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
    settings = {"cluster": cluster, "life": life, "name": name, "token": token}
    return web.Application(routes, log_function=lambda _: None, **settings)  # type: ignore[arg-type]


async def serve(name: str, brokers: int, owner: int | None) -> None:
    """Serve one stage until its life is over."""
    folder = stage_folder(name)
    cluster = Cluster(prepare(), folder)
    life = Life(owner)
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, life.end)
    address = folder / "stage.json"
    try:
        await cluster.open(brokers)
        token = secrets.token_urlsafe(32)
        server = HTTPServer(application(cluster, life, name, token))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        _write_privately(
            address,
            {
                "url": f"http://127.0.0.1:{sockets[0].getsockname()[1]}",
                "token": token,
                "pid": os.getpid(),
                "bootstrap": cluster.bootstrap,
                "direct": cluster.direct,
                "brokers": brokers,
            },
        )
        await life.wait()
        server.stop()
    finally:
        address.unlink(missing_ok=True)
        await cluster.close()


def _write_privately(path: Path, columns: dict[str, Any]) -> None:
    """Write a file that its owner alone can read, whole or not at all."""
    aside = path.with_suffix(".new")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(columns, file)
    aside.replace(path)


@click.command()
@click.option("--name", required=True, help="The stage's name.")
@click.option("--brokers", type=int, default=1, help="How many brokers.")
@click.option("--owner", type=int, default=None, help="End with this process.")
def main(name: str, brokers: int, owner: int | None) -> None:
    """Run a stage server."""
    stage_folder(name).mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        asyncio.run(serve(name, brokers, owner))
    except LabError as error:
        _write_privately(stage_folder(name) / "failure.json", {"error": str(error)})
        sys.exit(str(error))


if __name__ == "__main__":
    main()
