"""Cuts a stream of bytes into Kafka's frames: four bytes of length, then that many.

All connections receive into one piece of memory; a connection owns memory only while a part of a
frame waits for its rest, and about as much as has come. A length is believed when its bytes are
there: four bytes that announce a gigabyte take nothing. A length that is below zero or above the
limit means that this is no Kafka, or nothing that the lab can read: from there on the bytes are
handed on as they come, and a broker closes the connection if it is more than it takes (100 MB).
"""

from __future__ import annotations

from typing import Final

LENGTH_BYTES: Final = 4
FRAME_LIMIT: Final = 16 * 1024 * 1024
RECEIVE: Final = 256 * 1024
LEAST: Final = 16 * 1024

# One loop reads one socket at a time, and what is left of it is moved before the next is read.
_RECEIVED: Final = bytearray(RECEIVE)
# Memory that large frames have given back, for the next ones: to make it anew costs more than all
# the rest.
SPARES: Final = 4
SPARE_BYTES: Final = 2 * 1024 * 1024
_spare: Final[list[bytearray]] = []


class FrameBuffer:
    """What has been received on one side of a connection and is not a whole frame yet."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.is_raw = False
        self._limit = limit
        self._buffer = _RECEIVED
        self._start = 0
        self._end = 0

    @property
    def held_bytes(self) -> int:
        """The memory that is this connection's own."""
        return 0 if self._buffer is _RECEIVED else len(self._buffer)

    def free(self) -> memoryview:
        """Where the next bytes are to be received; never empty."""
        return memoryview(self._buffer)[self._end :]

    def received(self, count: int) -> None:
        """Take in `count` bytes; `take` until there is nothing to take, and then `settle`."""
        self._end += count

    def take(self) -> bytes | None:
        """The first frame that is whole, length and all; None if there is none."""
        size = self._whole()
        if not size:
            return None
        start = self._start
        self._start += size
        return bytes(memoryview(self._buffer)[start : self._start])

    def settle(self) -> None:
        """Keep what is left in memory of its own, with room for as much again."""
        left = self._end - self._start
        if not left:
            self._change_to(_RECEIVED)
            self._start = self._end = 0
            return
        wanted = max(left + 1, min(self._size() or 0, max(2 * left, LEAST)))
        is_large_enough = self._buffer is not _RECEIVED and wanted <= len(self._buffer)
        if is_large_enough and (not self._start or self._end < len(self._buffer)):
            return
        rest = memoryview(self._buffer)[self._start : self._end]
        if is_large_enough:
            rest = memoryview(bytes(rest))  # it lies where it is to go
        else:
            self._change_to(_room_for(wanted))
        self._buffer[:left] = rest
        self._start, self._end = 0, left

    def _change_to(self, buffer: bytearray) -> None:
        is_of_use = self._buffer is not _RECEIVED and len(self._buffer) <= SPARE_BYTES
        if is_of_use and len(_spare) < SPARES:
            _spare.append(self._buffer)
        self._buffer = buffer

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


def _room_for(size: int) -> bytearray:
    """Memory for a frame: what another connection has given back, if it is large enough."""
    at = next((at for at, spare in enumerate(_spare) if len(spare) >= size), None)
    return bytearray(size) if at is None else _spare.pop(at)
