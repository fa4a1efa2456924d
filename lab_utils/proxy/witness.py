"""The witness of one connection: what it writes into the ledger of each frame that crosses.

A Produce request and its response are one event for each partition, those of DeleteTopics one for
each topic; anything else is one event, with topic and partition when it names exactly one. What
cannot be read is `opaque`. It keeps who the connection belongs to, which the first readable request
tells; it knows nothing of sockets, and never waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from lab_utils.codec.frames import Produced, Request, Response, error_name, topic_name
from lab_utils.ledger.events import Event, value_text

if TYPE_CHECKING:
    from lab_utils.proxy.armed import Record


# What else a request may say at its top, kept as text in the detail.
KEPT: Final = ("acks", "committed", "group_id", "transactional_id")


class WireWitness:
    """What one connection adds to the ledger."""

    def __init__(self, connection: str, broker: int, record: Record) -> None:
        self.connection = connection
        self._place = {"connection": connection, "broker": str(broker)}
        self._record = record
        self._made_ns = time.monotonic_ns()
        self.run = ""
        self._client: str | None = None
        self._unread: set[str] = set()

    def request(self, request: Request, fate: str, at_ns: int, **detail: str) -> None:
        """A request, and what was done with it."""
        detail |= _kept(request.body)
        event = self._event("request", request, request.frame, fate, at_ns, **detail)
        for each in _of_request(request, event):
            self._record(each)

    def response(self, response: Response, fate: str, at_ns: int, **detail: str) -> None:
        """A response, and what was done with it."""
        event = self._event("response", response.request, response.frame, fate, at_ns, **detail)
        for each in _of_response(response, event):
            self._record(each)

    def unread(self, side: str, frame: bytes, *, in_pieces: bool) -> None:
        """A frame that cannot be read; what comes in pieces is written down once."""
        if in_pieces and side in self._unread:
            return
        self._unread.add(side)
        detail = {"side": side, "bytes": str(len(frame))}
        self._unnamed("opaque", time.monotonic_ns(), detail, fate="forwarded")

    def meet(self, request: Request) -> None:
        """Learn whose connection this is; its making is written down now."""
        if self._client is None:
            self.run, self._client = request.run, request.client
            self._unnamed("connected", self._made_ns, {})

    def closed(self, by: str) -> None:
        """The connection is over; it is of no interest if nobody ever spoke on it."""
        if self._client is not None:
            self._unnamed("closed", time.monotonic_ns(), {"by": by})

    def _event(
        self, kind: str, request: Request, frame: bytes, fate: str, at_ns: int, **detail: str
    ) -> Event:
        """What is said of any frame: whose it is, where it was seen, and what was done with it."""
        size = {"version": str(request.version), "bytes": str(len(frame))}
        return Event(
            run=request.run,
            source="wire",
            actor=request.client,
            kind=kind,
            at_ns=at_ns,
            api=request.api,
            correlation_id=request.correlation_id,
            fate=fate,
            detail=self._place | detail | size,
        )

    def _unnamed(
        self, kind: str, at_ns: int, detail: dict[str, str], fate: str | None = None
    ) -> None:
        """Record what is about the connection, or about a frame that nobody can read."""
        self._record(
            Event(
                run=self.run,
                source="wire",
                actor=self._client or "",
                kind=kind,
                at_ns=at_ns,
                fate=fate,
                detail=self._place | detail,
            )
        )


def _of_request(request: Request, event: Event) -> Iterator[Event]:
    """The events of a request, each made of what is said of its frame."""
    if request.body is None:
        yield replace(event, kind="opaque", detail=event.detail | {"side": event.kind})
    elif request.produced:
        yield from (_produced(event, request, item) for item in request.produced)
    elif request.api == "DeleteTopics" and request.topic_partitions:
        yield from (replace(event, topic=topic) for topic, _ in request.topic_partitions)
    else:
        yield replace(event, **request.named, **_numbers(request.body))


def _of_response(response: Response, event: Event) -> Iterator[Event]:
    """The events of a response, with what its request named."""
    request = response.request
    if response.body is None:
        yield replace(event, kind="opaque", detail=event.detail | {"side": event.kind})
    elif request.api == "Produce":
        yield from _answered(event, response)
    elif request.api == "DeleteTopics" and response.body.responses:
        yield from (_told(event, request, topic) for topic in response.body.responses)
    else:
        numbers = _numbers(response.body)
        detail = event.detail | ({"in_part": "true"} if response.is_in_part else {})
        yield replace(event, error=response.error, detail=detail, **request.named, **numbers)


def _produced(event: Event, request: Request, item: Produced) -> Event:
    """What one partition gets of a Produce request."""
    first = item.batches[0] if item.batches else None
    carried = list(request.records(item))
    keys, values = [value_text(it.key) for it in carried], [value_text(it.value) for it in carried]
    is_plain = len(carried) == 1 and values[0] is not None
    more = {} if is_plain or not carried else {"values": orjson.dumps(values).decode()}
    if more and any(key is not None for key in keys):
        more["keys"] = orjson.dumps(keys).decode()
    if packed := next(filter(None, (batch.compression for batch in item.batches)), None):
        more["compression"] = packed
    return replace(
        event,
        topic=item.topic,
        partition=item.partition,
        producer_id=first.producer_id if first else None,
        producer_epoch=first.producer_epoch if first else None,
        sequence=first.sequence if first else None,
        records=sum(batch.count for batch in item.batches),
        key=keys[0] if is_plain else None,
        value=values[0] if is_plain else None,
        detail=event.detail | more,
    )


def _answered(event: Event, response: Response) -> Iterator[Event]:
    """What one partition is told in answer to a Produce request."""
    for topic in response.body.responses:
        for partition in topic.partition_responses:
            yield replace(
                _told(event, response.request, topic, partition),
                partition=partition.index,
                offset=partition.base_offset if partition.base_offset >= 0 else None,
            )


def _told(event: Event, request: Request, topic: Any, partition: Any = None) -> Event:
    """What is said of a topic, or of one partition of it."""
    code = (partition or topic).error_code
    name = topic_name(topic, request.topic_names)
    return replace(event, topic=name, error=error_name(code) if code else None)


def _numbers(body: Any) -> dict[str, Any]:
    """The producer id and epoch that a request or response carries at its top."""
    return {
        name: None if (number := _top(body, name)) is None else int(number)
        for name in ("producer_id", "producer_epoch")
    }


def _kept(body: Any) -> dict[str, str]:
    found = ((name, _top(body, name)) for name in KEPT)
    return {name: str(value) for name, value in found if value is not None}


def _top(body: Any, name: str) -> Any:
    """A field at the top of a message; AddPartitionsToTxn has some under a longer name."""
    return getattr(body, name, getattr(body, f"v3_and_below_{name}", None))
