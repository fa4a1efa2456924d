"""One side of a proxied connection, as asyncio drives it: bytes in, whole frames out; its port.

It knows a transport and a frame buffer; what the frames mean is the relay's business. Two bounds
hold for all sides together, whatever is sent. The frames of one side are worked off for TURN_S at a
time, so that nobody waits long for the loop. When all hold more than MEMORY_LIMIT, the side that
holds the most is cut.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from lab_utils.codec.frame_buffer import FrameBuffer

log = logging.getLogger(__name__)

# How much may wait to be written before the other side is asked to stop.
WAITING_BYTES_LIMIT: Final = 2 * 1024 * 1024
MEMORY_LIMIT: Final = 48 * 1024 * 1024
TURN_S: Final = 0.002

_sides: Final[set[Side]] = set()


@dataclass(eq=False, kw_only=True)
class Side(asyncio.BufferedProtocol):
    """The connection to the client, or the one to the broker.

    on_worked_off  what had come is worked off, after the loop has done other work in between
    on_crowded     this side holds too much: cut the connection
    beside         the bytes that are held elsewhere of what came in here
    """

    on_made: Callable[[], object]
    on_frame: Callable[[bytes], object]
    on_room: Callable[[], object]
    on_lost: Callable[[], object]
    on_crowded: Callable[[], object]
    on_worked_off: Callable[[], object] = lambda: None
    beside: Callable[[], int] = lambda: 0

    def __post_init__(self) -> None:
        self.is_connected = False
        self.is_open = False  # may it be written to?
        self.is_full = False
        self.is_behind = False  # are there frames that have come and were not handed on?
        self._frames = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._wanted = True
        self._continues = False
        self.connecting: asyncio.Task[None] | None = None

    @property
    def is_raw(self) -> bool:
        """Did something come that is no Kafka, so that the rest passes in pieces?"""
        return self._frames.is_raw

    @property
    def held_bytes(self) -> int:
        """The memory that this side takes: what came, what is to leave, what waits beside it."""
        leaving = self._transport.get_write_buffer_size() if self._transport else 0
        return self._frames.held_bytes + leaving + self.beside()

    def write(self, frame: bytes) -> None:
        """Send a frame, if there is still somebody to send it to."""
        if self.is_open and self._transport is not None:
            self._transport.write(memoryview(frame))
            self._relieve_if_due()

    def listen(self, wanted: bool) -> None:
        """Read on, or leave what comes in the socket until there is room for it."""
        self._wanted = wanted
        if wanted and self.is_behind and not self._continues:
            self._continues = True
            asyncio.get_running_loop().call_soon(self._work_off)
        if not self.is_open or self._transport is None:
            return
        if wanted and not self.is_behind:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def close(self) -> None:
        """Close the connection when what was written has left."""
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Send what was written and then the end of the stream; the other end closes at that."""
        self.is_open = False
        self._wanted = True  # what comes until then is read, and is of no interest
        if self._transport is not None and self.is_connected:
            self._transport.resume_reading()
            self._transport.write_eof()
        elif self.connecting is not None:
            self.connecting.cancel()

    def abort(self) -> None:
        """Close the connection now, or make none."""
        self.is_open = False
        self._frames = FrameBuffer()
        if self._transport is not None:
            self._transport.abort()
        elif self.connecting is not None:
            self.connecting.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls this and what follows."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WAITING_BYTES_LIMIT)
        self.is_connected = self.is_open = True
        _sides.add(self)
        self.on_made()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where the next bytes go."""
        return self._frames.free()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on the frames that are whole now, or as many as there is time for."""
        self._frames.received(nbytes)
        self._work_off()

    def pause_writing(self) -> None:
        """The other end reads more slowly than we write."""
        self.is_full = True
        self.on_room()

    def resume_writing(self) -> None:
        """The other end has caught up."""
        self.is_full = False
        self.on_room()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """The other end is gone."""
        _sides.discard(self)
        self.is_connected = self.is_open = self.is_full = False
        self._let_go()
        self.on_lost()

    def _work_off(self) -> None:
        was_behind, self._continues = self.is_behind, True
        ends_at = time.monotonic() + TURN_S
        while (frame := self._frames.take()) is not None:
            self.on_frame(frame)
            if not self._wanted or time.monotonic() > ends_at:
                break
        self.is_behind, self._continues = frame is not None, False
        self._frames.settle()
        self._let_go()
        if was_behind and not self.is_behind:
            self.on_worked_off()
        self.listen(self._wanted)
        self._relieve_if_due()

    def _relieve_if_due(self) -> None:
        """See whether all hold too much, if this one holds more than its share of what they may."""
        if self.held_bytes * len(_sides) > MEMORY_LIMIT:
            _relieve()

    def _let_go(self) -> None:
        """Give up a part of a frame whose rest will not come; its memory is not counted any more.

        A relay is a circle of objects: what it held would stay until the collector comes.
        """
        if not self.is_connected and not self.is_behind:
            self._frames = FrameBuffer()


class Listener:
    """A port on loopback. Each client is connected to `upstream`, or refused where that is None."""

    def __init__(self) -> None:
        self.upstream: tuple[str, int] | None = None
        self._server: asyncio.Server | None = None
        self._connecting: set[asyncio.Task[None]] = set()

    async def listen(self, near: Callable[[], Side]) -> int:
        """Listen, with a near side for each client; return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(near, "127.0.0.1", 0, backlog=1024)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        for connecting in list(self._connecting):
            connecting.cancel()
        self.cut_all()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def cut_all(self) -> None:
        """Cut every connection that there is; new ones are welcome."""
        raise NotImplementedError

    def connect(self, far: Side, refuse: Callable[[], object]) -> None:
        """Connect this side to what is upstream; call `refuse` where that is not possible."""
        connecting = asyncio.get_running_loop().create_task(self._connect(far, refuse))
        far.connecting = connecting
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, far: Side, refuse: Callable[[], object]) -> None:
        if self.upstream is not None:
            with suppress(OSError):
                await asyncio.get_running_loop().create_connection(lambda: far, *self.upstream)
                return
        refuse()


def _relieve() -> None:
    """Cut the sides that hold the most until all together hold what they may."""
    held = {side: side.held_bytes for side in _sides}
    while sum(held.values()) > MEMORY_LIMIT:
        most = max(held, key=held.__getitem__)
        log.warning("a connection that held %d bytes was cut: there are more than %d in all",
                    held.pop(most), MEMORY_LIMIT)  # fmt: skip
        _sides.discard(most)
        most.on_crowded()
