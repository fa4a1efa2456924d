"""A real proxy in a loop of its own, a listener that answers in frames, and plain sockets.

The listener stands where the broker would: it answers Heartbeat and Produce, and can be told to
keep its answers back.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from lab_utils.ledger.events import Event
from lab_utils.proxy.armed import FaultBoard
from lab_utils.proxy.faults import Fault
from lab_utils.proxy.proxy import Proxy
from lab_utils.waiting import wait_until
from tests.proxy import wire

RUN = "03-b"
Result = TypeVar("Result")


class Listener(asyncio.Protocol):
    """One connection of the listener."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A relay has connected."""
        self.transport: Any = transport
        self._rig.listeners.append(self)

    def data_received(self, data: bytes) -> None:
        """Take in whole frames, and answer each."""
        self._bytes += data
        while len(self._bytes) >= 4 and len(self._bytes) >= 4 + (size := self._size()):
            self._rig.received.append(self._bytes[: 4 + size])
            self._bytes = self._bytes[4 + size :]
            if not self._rig.is_silent:
                self.answer(self._rig.received[-1])

    def answer(self, frame: bytes) -> None:
        """Answer one request."""
        api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
        make = {0: wire.produce_answer, 12: wire.heartbeat_answer}.get(api_key)
        if make is not None:
            self.transport.write(make(correlation_id))

    def connection_lost(self, error: Exception | None) -> None:
        """The relay is gone."""
        self._rig.lost += 1

    def _size(self) -> int:
        return int(struct.unpack_from(">i", self._bytes)[0])


class Client:
    """A client as a plain socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._received = self.socket.makefile("rb")

    def send(self, *frames: bytes) -> None:
        """Send these frames back to back."""
        self.socket.sendall(b"".join(frames))

    def receive(self) -> bytes:
        """The next frame, or nothing when the connection was closed."""
        try:
            start = self._received.read(4)
            return start + self._received.read(struct.unpack(">i", start)[0]) if start else b""
        except ConnectionResetError:
            return b""

    def receive_all(self) -> list[bytes]:
        """All frames until the connection is closed."""
        return list(iter(self.receive, b""))

    def close(self) -> None:
        """Leave."""
        self._received.close()
        self.socket.close()


class Rig:
    """The proxy under test and what stands on both sides of it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.received: list[bytes] = []
        self.listeners: list[Listener] = []
        self.lost = 0
        self.is_silent = False
        self._clients: list[Client] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.board = FaultBoard(self.events.append)
        self.proxy = Proxy(self.board, self.events.append, 1, {})
        self._server: Any = None
        self.port = self._await(self._start())

    def client(self) -> Client:
        """A new client."""
        self._clients.append(Client(self.port))
        return self._clients[-1]

    def arm(self, fault: Fault, run: str = RUN) -> str:
        """Arm a fault for the clients of a run."""
        return self.call(lambda: self.board.arm(run, fault).id)

    def disarm(self) -> list[tuple[str, Fault, int]]:
        """End all faults of the run."""
        return self.call(lambda: self.board.disarm(RUN))

    def answer(self, frame: bytes) -> None:
        """Let the listener give an answer that it kept back, when it has received the request."""
        wait_until(lambda: frame in self.received, "the request", timeout_s=60)
        self.call(lambda: self.listeners[-1].answer(frame))

    def stop_listening(self) -> None:
        """Let the broker die: its port is closed and its connections are cut."""

        def die() -> None:
            self._server.close()
            for listener in self.listeners:
                listener.transport.abort()

        self.call(die)

    def events_of(self, source: str, kind: str, count: int = 1) -> list[Event]:
        """The events of this kind, oldest first, when there are as many as expected."""

        def found() -> list[Event]:
            found = [e for e in self.events.copy() if (e.source, e.kind) == (source, kind)]
            return sorted(found, key=lambda event: event.at_ns)

        what = f"{count} {source} {kind} events"
        wait_until(
            lambda: len(found()) >= count, what, timeout_s=60, last_seen=lambda _: str(found())
        )
        return found()

    def call(self, function: Callable[[], Result]) -> Result:
        """Call something in the proxy's loop."""

        async def run() -> Result:
            return function()

        return self._await(run())

    def turn(self) -> int:
        """How many frames the listener was given while the loop made one turn."""

        async def run() -> int:
            before = len(self.received)
            turned = self._loop.create_future()
            self._loop.call_soon(turned.set_result, None)
            await turned
            return len(self.received) - before

        return int(self._await(run()))

    def close(self) -> None:
        """End everything, and see that nothing of the proxy is left."""
        for client in self._clients:
            client.close()
        self._await(self.proxy.stop())
        self.call(self._server.close)
        wait_until(lambda: self.lost == len(self.listeners), "connections to end", timeout_s=60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> int:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Listener(self), "127.0.0.1", 0
        )
        self.proxy.upstream = self._server.sockets[0].getsockname()[:2]
        return await self.proxy.start()

    def _await(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=60)
