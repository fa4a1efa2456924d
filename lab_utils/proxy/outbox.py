"""What is on its way to the broker on one connection: in order, the first one holding the rest.

It counts the bytes that wait, so that the relay can stop reading before they are too many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf

from lab_utils.proxy.exchange import Exchange


class Outbox:
    """Frames that are to be sent, each with its exchange, or without one if nobody can read it."""

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self._frames: deque[tuple[bytes, Exchange | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._frames)

    def put(self, frame: bytes, exchange: Exchange | None = None) -> None:
        """Add a frame at the end; it is held if it is to wait, or one before it is held."""
        if exchange is not None:
            last = self._frames[-1][1] if self._frames else None
            exchange.request_was_held = exchange.send_at > 0 or (
                last is not None and last.request_was_held
            )
        self._frames.append((frame, exchange))
        self.waiting_bytes += len(frame)

    def leaving(self, now: float) -> Iterator[tuple[bytes, Exchange | None]]:
        """Take out what may be sent now."""
        while self._frames and self.next_at() <= now:
            frame, exchange = self._frames.popleft()
            self.waiting_bytes -= len(frame)
            yield frame, exchange

    def next_at(self) -> float:
        """When the first frame may be sent; never, if there is none."""
        if not self._frames:
            return inf
        exchange = self._frames[0][1]
        return exchange.send_at if exchange else 0.0

    def clear(self) -> None:
        """Give up what is left: there is nobody to send it to."""
        self._frames.clear()
        self.waiting_bytes = 0
