"""What the ledger holds of a frame."""

from __future__ import annotations

import json

import pytest

from lab_utils.codec.frames import Response, read_request
from lab_utils.ledger.events import Event
from lab_utils.proxy.witness import (
    VALUES_LIMIT,
    Sighting,
    request_events,
    response_events,
)
from tests.codec.samples import sample_request
from tests.proxy import wire

SEEN = Sighting("b1-1", 1, "forwarded", 123)


def events_of(frame: bytes) -> list[Event]:
    return list(request_events(read_request(frame), SEEN))


def test_produce_request_as_an_event() -> None:
    """All that the labs ask of a Produce request is in one row."""
    records = wire.batch([b"4"], producer_id=1000, producer_epoch=0, sequence=4)
    frame = wire.produce(7, records, topic="orders", partition=2)

    expected = Event(
        run="03-b",
        source="wire",
        actor="producer-1",
        kind="request",
        at_ns=123,
        topic="orders",
        partition=2,
        value="4",
        producer_id=1000,
        producer_epoch=0,
        sequence=4,
        records=1,
        api="Produce",
        correlation_id=7,
        fate="forwarded",
        detail={
            "connection": "b1-1",
            "broker": "1",
            "version": "3",
            "bytes": str(len(frame)),
            "acks": "-1",
        },
    )
    assert [expected] == events_of(frame)


def test_values_of_a_batch() -> None:
    """Several records are a list of values; bytes that are no text are shown as escapes."""
    (event,) = events_of(wire.produce(1, wire.batch([b"0", b"\xff", None])))

    assert (3, None) == (event.records, event.value)
    assert ["0", "\\xff", None] == json.loads(event.detail["values"])


@pytest.mark.parametrize("attributes", [1, 2, 3, 4])
def test_compressed_batch_has_no_values(attributes: int) -> None:
    """A compressed batch is counted and not unpacked."""
    records = wire.batch([b"0", b"1"], attributes=attributes, records=b"packed")
    (event,) = events_of(wire.produce(1, records))

    assert (2, False) == (event.records, "values" in event.detail)


@pytest.mark.parametrize(("count", "expected"), [(VALUES_LIMIT, True), (VALUES_LIMIT + 1, False)])
def test_big_batch_has_no_values(count: int, expected: bool) -> None:
    """A batch of more than a hundred records is counted and not unpacked."""
    (event,) = events_of(wire.produce(1, wire.batch([b"v"] * count)))

    assert (count, expected) == (event.records, "values" in event.detail)


def test_records_that_are_none() -> None:
    """A client may send nonsense as records; the event then has no values."""
    (event,) = events_of(wire.produce(1, wire.batch([b"0"], records=b"\xff" * 9)))

    assert (1, None) == (event.records, event.value)


def test_produce_without_a_batch() -> None:
    """An empty record set is a request with no records."""
    (event,) = events_of(wire.produce(1, b""))

    assert (0, None) == (event.records, event.sequence)


def test_produce_response_as_an_event() -> None:
    """The answer has the partition's own offset and no error."""
    response = Response(wire.produce_answer(7, offset=12), read_request(wire.produce(7)))
    (event,) = response_events(response, SEEN)

    assert ("orders", 0, 12, None) == (event.topic, event.partition, event.offset, event.error)


def test_produce_response_with_an_error() -> None:
    """An error comes with offset -1 on the wire, which is no offset in the ledger."""
    answer = wire.produce_answer(7, error=2, offset=-1)
    (event,) = response_events(Response(answer, read_request(wire.produce(7))), SEEN)

    assert (None, "CORRUPT_MESSAGE") == (event.offset, event.error)


def test_offset_commit_as_an_event() -> None:
    """A commit of one partition says which offset it commits."""
    (event,) = events_of(sample_request("OffsetCommit", 8))

    assert ("a name", 3, 3) == (event.topic, event.partition, event.offset)
    assert "a group_id" == event.detail["group_id"]


def test_end_txn_as_an_event() -> None:
    """The end of a transaction says whose it is and how it ends."""
    (event,) = events_of(sample_request("EndTxn", 1))

    assert (3, 3) == (event.producer_id, event.producer_epoch)
    assert ("True", "a transactional_id") == (
        event.detail["committed"], event.detail["transactional_id"],
    )  # fmt: skip


def test_heartbeat_answer_as_an_event() -> None:
    """The error of an API without topics is at the top."""
    request = read_request(wire.heartbeat(1))
    (event,) = response_events(Response(wire.heartbeat_answer(1, error=27), request), SEEN)

    assert ("Heartbeat", "REBALANCE_IN_PROGRESS") == (event.api, event.error)


def test_frame_that_cannot_be_read_is_opaque() -> None:
    """A body that is none is recorded with what its first line says."""
    (event,) = events_of(wire.request(12, 0, 5, b"\x00"))

    assert ("opaque", "Heartbeat", 5) == (event.kind, event.api, event.correlation_id)
    assert "request" == event.detail["side"]
