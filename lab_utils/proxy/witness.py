"""The proxy's pen: writes down what happens on one connection, and which fault did it.

It keeps who the connection belongs to, which the first readable request tells. The callbacks it
is given are cheap; it never waits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lab_utils.ledger.events import Event
from lab_utils.proxy.wire_events import Sighting, opaque_event, request_events, response_events

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request, Response
    from lab_utils.proxy.armed import Record


class WireWitness:
    """What one connection adds to the ledger."""

    def __init__(self, connection: str, broker: int, record: Record) -> None:
        self.connection = connection
        self._broker = broker
        self._record = record
        self._made_ns = time.monotonic_ns()
        self.run = ""
        self._client: str | None = None
        self._unread: set[str] = set()

    def request(self, request: Request, fate: str, at_ns: int, **detail: str) -> None:
        """A request, and what was done with it."""
        for event in request_events(request, self._sighting(fate, at_ns, detail)):
            self._record(event)

    def response(self, response: Response, fate: str, at_ns: int, **detail: str) -> None:
        """A response, and what was done with it."""
        for event in response_events(response, self._sighting(fate, at_ns, detail)):
            self._record(event)

    def unread(self, side: str, frame: bytes, *, in_pieces: bool) -> None:
        """A frame that cannot be read; what comes in pieces is written down once."""
        if in_pieces and side in self._unread:
            return
        self._unread.add(side)
        seen = self._sighting("forwarded", time.monotonic_ns(), {})
        self._record(opaque_event(self.run, self._client or "", side, frame, seen))

    def meet(self, request: Request) -> None:
        """Learn whose connection this is; its making is written down now."""
        if self._client is None:
            self.run, self._client = request.run, request.client
            self._connection_event("connected", self._made_ns, {})

    def closed(self, by: str) -> None:
        """The connection is over; it is of no interest if nobody ever spoke on it."""
        if self._client is not None:
            self._connection_event("closed", time.monotonic_ns(), {"by": by})

    def _sighting(self, fate: str, at_ns: int, detail: Mapping[str, str]) -> Sighting:
        return Sighting(self.connection, self._broker, fate, at_ns, detail)

    def _connection_event(self, kind: str, at_ns: int, detail: dict[str, str]) -> None:
        place = {"connection": self.connection, "broker": str(self._broker)}
        self._record(
            Event(
                run=self.run,
                source="wire",
                actor=self._client or "",
                kind=kind,
                at_ns=at_ns,
                detail=place | detail,
            )
        )
