"""Cuts a stream of bytes into Kafka's frames: four bytes of length, then that many.

It owns the memory that a socket reads into. A large frame is read straight into its place, and
is copied once, when it is whole. A length that no Kafka frame has means that this is no Kafka:
from there on the bytes are handed on as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LENGTH_BYTES: Final = 4
FRAME_LIMIT: Final = 64 * 1024 * 1024
RECEIVE: Final = 256 * 1024
# A buffer that grew for a large frame is kept for the next one up to this size.
KEPT: Final = 2 * 1024 * 1024


class FrameBuffer:
    """What has been received on one side of a connection and is not a whole frame yet."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.is_raw = False
        self._limit = limit
        self._buffer = bytearray(RECEIVE)
        self._start = 0
        self._end = 0

    def free(self) -> memoryview:
        """Where the next bytes are to be received; never empty."""
        return memoryview(self._buffer)[self._end :]

    def received(self, count: int) -> Iterator[bytes]:
        """Take in `count` bytes; give out the frames that are whole now, length and all."""
        self._end += count
        while size := self._whole():
            start = self._start
            self._start += size
            # Not kept in a name here: the next frame then takes the memory that this one had.
            yield bytes(memoryview(self._buffer)[start : start + size])
        self._make_room()

    def _whole(self) -> int:
        """The size of the whole frame that stands first, or 0."""
        received = self._end - self._start
        size = self._size()
        if size is not None and not LENGTH_BYTES <= size <= self._limit:
            self.is_raw = True
        if self.is_raw:
            return received
        return size if size is not None and size <= received else 0

    def _size(self) -> int | None:
        """How long the first frame will be; None as long as its length is not there."""
        if self.is_raw or self._end - self._start < LENGTH_BYTES:
            return None
        length = self._buffer[self._start : self._start + LENGTH_BYTES]
        return LENGTH_BYTES + int.from_bytes(length, "big", signed=True)

    def _make_room(self) -> None:
        """Move the rest to the front of a buffer that its frame fits into."""
        room = max(RECEIVE, self._size() or 0)
        fits = room <= len(self._buffer) <= max(room, KEPT)
        if fits and not self._start:
            return
        rest = bytes(memoryview(self._buffer)[self._start : self._end])
        if not fits:
            self._buffer = bytearray(room)
        self._buffer[: len(rest)] = rest
        self._start, self._end = 0, len(rest)
