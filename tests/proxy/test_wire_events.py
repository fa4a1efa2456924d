"""What the ledger holds of a frame."""

from __future__ import annotations

import struct

import pytest

from lab_utils.codec.frames import RECORDS_LIMIT, Response, read_request
from lab_utils.ledger.events import Event
from lab_utils.proxy.witness import WireWitness
from tests.codec.samples import sample_request
from tests.proxy import wire


def events_of(frame: bytes) -> list[Event]:
    """The events of a request."""
    events: list[Event] = []
    WireWitness("b1-1", 1, events.append).request(read_request(frame), "forwarded", 123)
    return events


def told_by(answer: bytes, request: bytes) -> list[Event]:
    """The events of an answer to this request."""
    events: list[Event] = []
    response = Response(answer, read_request(request))
    WireWitness("b1-1", 1, events.append).response(response, "forwarded", 123)
    return events


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


MANY = [b"v"] * RECORDS_LIMIT
# a record set: how many records the event counts, its one value, its list of values, and what is
# said of their compression, in the word of compression.type; what nobody knows by its number
RECORDS = {
    "several, with bytes that are no text": (
        wire.batch([b"0", b"\xff", None]), 3, None, '["0","\\\\xff",null]', None),
    "one of a transaction": (wire.batch([b"0"], attributes=16), 1, "0", None, None),
    "as many as are unpacked": (
        wire.batch(MANY), RECORDS_LIMIT, None, '["v"' + ',"v"' * (RECORDS_LIMIT - 1) + "]", None),
    "more than are unpacked": (wire.batch([*MANY, b"v"]), RECORDS_LIMIT + 1, None, None, None),
    "no records in it": (wire.batch([b"0"], records=b"\xff" * 9), 1, None, None, None),
    "no batch": (b"", 0, None, None, None),
    **{
        f"compressed, kind {kind}": (
            wire.batch([b"0", b"1"], attributes=kind, records=b"packed"), 2, None, None, said)
        for kind, said in enumerate(("gzip", "snappy", "lz4", "zstd", "5"), start=1)
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("records", "count", "value", "values", "compression"), RECORDS.values(), ids=RECORDS
)
def test_records(
    records: bytes, count: int, value: str | None, values: str | None, compression: str | None
) -> None:
    """Records are counted; they are unpacked if they are few, whole, and not compressed."""
    (event,) = events_of(wire.produce(1, records))

    assert (count, value, values) == (event.records, event.value, event.detail.get("values"))
    assert compression == event.detail.get("compression")


@pytest.mark.parametrize(
    ("code", "given", "offset", "error"), [(0, 12, 12, None), (2, -1, None, "CORRUPT_MESSAGE")]
)
def test_produce_response(code: int, given: int, offset: int | None, error: str | None) -> None:
    """The answer has the partition's own offset or its error, and -1 is no offset."""
    answer = wire.produce_answer(7, error=code, offset=given)
    (event,) = told_by(answer, wire.produce(7))

    assert ("orders", 0, offset, error) == (event.topic, event.partition, event.offset, event.error)


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
    (event,) = told_by(wire.heartbeat_answer(1, error=27), wire.heartbeat(1))

    assert ("Heartbeat", "REBALANCE_IN_PROGRESS") == (event.api, event.error)


def named(*names: str, errors: tuple[int, ...] = ()) -> bytes:
    """An array of names; in an answer each has an error."""
    codes = [struct.pack(">h", code) for code in errors] or [b""] * len(names)
    pairs = zip(names, codes, strict=True)
    return struct.pack(">i", len(names)) + b"".join(wire.string(name) + it for name, it in pairs)


def answered(request: bytes, results: bytes) -> list[Event]:
    """The events of an answer that has a throttle time, and these results."""
    return told_by(wire.frame(struct.pack(">ii", 1, 0) + results), request)


def test_each_topic_of_delete_topics_is_an_event() -> None:
    """One may be deleted where the other is not there: each has its own error."""
    request = wire.request(20, 3, 1, named("a", "b") + struct.pack(">i", 1000))
    told = answered(request, named("a", "b", errors=(0, 3)))

    assert ["a", "b"] == [event.topic for event in events_of(request)]
    assert [("a", None), ("b", "UNKNOWN_TOPIC_OR_PARTITION")] == [
        (event.topic, event.error) for event in told
    ]


@pytest.mark.parametrize(("codes", "said"), [((68, 69), None), ((0, 68), "true"), ((0, 0), None)])
def test_done_in_part(codes: tuple[int, int], said: str | None) -> None:
    """An answer that refuses one group, and not the other, says so."""
    request = wire.request(42, 0, 1, named("a", "b"))
    (event,) = answered(request, named("a", "b", errors=codes))

    assert said == event.detail.get("in_part")


def test_frame_that_cannot_be_read_is_opaque() -> None:
    """A body that is none is recorded with what its first line says."""
    (event,) = events_of(wire.request(12, 0, 5, b"\x00"))

    assert ("opaque", "Heartbeat", 5) == (event.kind, event.api, event.correlation_id)
    assert "request" == event.detail["side"]
