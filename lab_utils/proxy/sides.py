"""One side of a proxied connection, as asyncio drives it: bytes in, whole frames out.

It knows a transport and a frame buffer; what the frames mean is the relay's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from lab_utils.codec.frame_buffer import FrameBuffer

# How much may wait to be written before the other side is asked to stop.
WAITING_BYTES_LIMIT: Final = 8 * 1024 * 1024


class Side(asyncio.BufferedProtocol):
    """The connection to the client, or the one to the broker."""

    def __init__(
        self,
        *,
        on_made: Callable[[], object],
        on_frame: Callable[[bytes], object],
        on_room: Callable[[], object],
        on_lost: Callable[[], object],
    ) -> None:
        self.is_made = False
        self.is_open = False
        self.is_lost = False
        self.is_full = False
        self._frames = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._on_made = on_made
        self._on_frame = on_frame
        self._on_room = on_room
        self._on_lost = on_lost

    @property
    def is_raw(self) -> bool:
        """Did something come that is no Kafka, so that the rest passes in pieces?"""
        return self._frames.is_raw

    def write(self, frame: bytes) -> None:
        """Send a frame, if there is still somebody to send it to."""
        if self.is_open and self._transport is not None:
            self._transport.write(frame)

    def listen(self, wanted: bool) -> None:
        """Read on, or leave what comes in the socket until there is room for it."""
        if not self.is_open or self._transport is None:
            return
        if wanted and not self._transport.is_reading():
            self._transport.resume_reading()
        elif not wanted and self._transport.is_reading():
            self._transport.pause_reading()

    def close(self) -> None:
        """Close the connection when what was written has left."""
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Send what was written and then the end of the stream; the other end closes at that."""
        self.is_open = False
        if self._transport is None or self.is_lost:
            return
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def abort(self) -> None:
        """Close the connection now."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls this and what follows."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WAITING_BYTES_LIMIT)
        self.is_made = self.is_open = True
        self._on_made()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where the next bytes go."""
        return self._frames.free()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on the frames that are whole now."""
        for frame in self._frames.received(nbytes):
            self._on_frame(frame)

    def pause_writing(self) -> None:
        """The other end reads more slowly than we write."""
        self.is_full = True
        self._on_room()

    def resume_writing(self) -> None:
        """The other end has caught up."""
        self.is_full = False
        self._on_room()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """The other end is gone."""
        self.is_open = False
        self.is_lost = True
        self._on_lost()
