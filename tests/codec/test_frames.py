"""Requests and responses, from bytes that were written out by hand or by kio."""

from __future__ import annotations

import pkgutil
import struct
import subprocess
import sys
from collections.abc import Callable
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader

from lab_utils import codec
from lab_utils.codec import frames
from lab_utils.codec.cursor import API_KEYS, ITEMS_MAX, Cursor
from lab_utils.codec.frames import REQUEST_ITEMS, Response, Unreadable, read_request, topic_ids
from tests.called import call
from tests.codec.samples import TOPIC_ID, sample_answer, sample_request, versions
from tests.proxy import wire


@pytest.mark.parametrize(
    ("client_id", "run", "client"),
    [("03-b.a.b", "03-b", "a.b"), ("rdkafka", "", "rdkafka"), ("", "", ""), (".x", "", "x")],
)
def test_first_line_of_a_request(client_id: str, run: str, client: str) -> None:
    """API, version, correlation id and sender; its run is what stands before the first dot."""
    request = read_request(wire.heartbeat(7, client_id))

    assert ("Heartbeat", 0, 7) == (request.api, request.version, request.correlation_id)
    assert (run, client) == (request.run, request.client)


def test_request_without_a_client_id() -> None:
    """A null client id belongs to nobody."""
    request = read_request(wire.frame(struct.pack(">hhih", 12, 0, 1, -1)))

    assert ("", "") == (request.run, request.client)


@pytest.mark.parametrize("payload", [b"", b"\x00\x00", struct.pack(">hhih", 999, 0, 1, -1)])
def test_what_is_no_request(payload: bytes) -> None:
    """Too short, or an API that Kafka does not have."""
    with pytest.raises(Unreadable):
        read_request(wire.frame(payload))


@pytest.mark.parametrize("version", versions("Produce"))
def test_produce_is_read_as_kio_reads_it(version: int) -> None:
    """In each version that kio knows, the reader that copies nothing finds what kio finds."""
    frame = sample_request("Produce", version)
    schema = load_request_schema(API_KEYS["Produce"], version)
    start = 4 + entity_reader(schema.__header_schema__)(frame, 4)[1]
    expected = entity_reader(schema)(frame, start)[0]
    body = read_request(frame).body

    (topic,), (expected_topic,) = body.topic_data, expected.topic_data
    (data,), (expected_data,) = topic.partition_data, expected_topic.partition_data

    assert expected.acks == body.acks
    assert expected.transactional_id == body.transactional_id
    assert getattr(expected_topic, "name", None) == topic.name
    assert getattr(expected_topic, "topic_id", None) == topic.topic_id
    assert expected_data.index == data.index
    assert expected_data.records == frame[data.start : data.end]


@pytest.mark.parametrize("cut", [1, 40, 90])
def test_produce_that_ends_too_early(cut: int) -> None:
    """A request whose records run over its end has no body."""
    whole = wire.produce(1)[4:-cut]

    assert read_request(wire.frame(whole)).body is None


@pytest.mark.parametrize(("acks", "expected"), [(-1, True), (1, True), (0, False)])
def test_only_acks_0_gets_no_answer(acks: int, expected: bool) -> None:
    """A broker answers every request but a Produce that asked it not to."""
    assert expected == read_request(wire.produce(1, acks=acks)).has_response


@pytest.mark.parametrize(
    ("api", "version", "number"),
    [("OffsetCommit", 8, 3), ("TxnOffsetCommit", 3, 3), ("AddPartitionsToTxn", 0, 3),
     ("Fetch", 11, 3), ("ListOffsets", 6, 3), ("Produce", 9, 3), ("OffsetFetch", 8, 3),
     ("WriteTxnMarkers", 1, 3), ("DeleteTopics", 4, -1), ("DeleteTopics", 6, -1)],
)  # fmt: skip
def test_partitions_of_any_request(api: str, version: int, number: int) -> None:
    """Topics and partitions are found in each API, however it nests them, or topics alone."""
    ((topic, partition),) = set(read_request(sample_request(api, version)).topic_partitions)

    assert topic.startswith("a ")
    assert number == partition


def test_topic_named_by_id() -> None:
    """An id is given its name once a Metadata response has told it."""
    frame = sample_request("Produce", 13)

    assert "orders" == read_request(frame, {TOPIC_ID: "orders"}).produced[0].topic
    assert str(TOPIC_ID) == read_request(frame).produced[0].topic


def test_metadata_names_topic_ids() -> None:
    """A Metadata response of version 10 puts a name to each topic id."""
    request = read_request(sample_request("Metadata", 10))
    body = (
        b"\x00\x00\x00\x00"  # throttle time
        b"\x01"  # no brokers
        b"\x00"  # no cluster id
        b"\xff\xff\xff\xff"  # no controller
        b"\x02"  # one topic
        b"\x00\x00"  # no error
        b"\x07orders" + UUID(int=1).bytes + b"\x00"  # not internal
        b"\x01"  # no partitions
        b"\x00\x00\x00\x00"  # authorized operations
        b"\x00"  # tags
        b"\x00\x00\x00\x00"  # authorized operations
        b"\x00"  # tags
    )
    response = Response(wire.frame(b"\x00\x00\x00\x01" + b"\x00" + body), request)

    assert {UUID(int=1): "orders"} == topic_ids(response)


ANSWERS = {
    "no error": (wire.produce(1), wire.produce_answer(1), None),
    "in the partition that carries it": (
        wire.produce(1), wire.produce_answer(1, error=2), "CORRUPT_MESSAGE",
    ),
    "in the oldest version, by a broker that does not know the client's": (
        sample_request("ApiVersions", 4), wire.frame(struct.pack(">ihi", 1, 35, 0)),
        "UNSUPPORTED_VERSION",
    ),
    "of another shape, so without a body": (wire.produce(1), wire.frame(b"\0\0\0\1"), None),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "answer", "error"), ANSWERS.values(), ids=ANSWERS)
def test_error_of_a_response(request_: bytes, answer: bytes, error: str | None) -> None:
    """The error is found where it stands."""
    assert error == Response(answer, read_request(request_)).error


LONG_ARRAYS = [
    wire.request(API_KEYS["Metadata"], 1, 1, b"\x7f\xff\xff\xff"),
    wire.request(API_KEYS["Fetch"], 12, 1, bytes(22) + b"\xff\xff\xff\xff\x07"),
    wire.request(API_KEYS["DescribeTopicPartitions"], 0, 1, b"\x00\xff\xff\xff\xff\x07"),
    wire.request(API_KEYS["JoinGroup"], 0, 1, wire.string("g") + bytes(8) + b"\x7f\xff\xff\xff"),
]


def test_arrays_longer_than_their_request() -> None:
    """Two thousand million items in a few bytes: the body is unread, and no room is made for it.

    kio makes the room first. A process that may have no more memory is ended by that.
    """
    code = f"""if True:
        import resource
        from lab_utils.codec.frames import read_request
        resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
        print([read_request(frame).body for frame in {LONG_ARRAYS}])"""
    done = call([sys.executable, "-c", code])

    assert ("[None, None, None, None]\n", 0) == (done.stdout, done.returncode), done.stderr[:300]


def test_sizes_of_every_request_hold() -> None:
    """What kio writes is read again: the check of the sizes refuses no request as it should be."""
    every = [(api, version) for api in API_KEYS for version in versions(api)]
    no_cursor = read_request(sample_request("DescribeTopicPartitions", 0, cursor=None))

    assert [] == [each for each in every if read_request(sample_request(*each)).body is None]
    assert (no_cursor.body is None, no_cursor.body and no_cursor.body.cursor) == (False, None)


def test_sizes_of_every_response_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a large one are looked at, too, and are as kio writes them."""
    every = [(api, version) for api in API_KEYS for version in versions(api)]
    answers = {each: (sample_request(*each), sample_answer(*each)) for each in every}
    read = [each for each, (asked, told) in answers.items() if body_of(asked, told) is not None]
    monkeypatch.setattr(frames, "SMALL", 0)

    assert read == [each for each in read if body_of(*answers[each]) is not None]
    assert len(read) > 300


def body_of(asked: bytes, told: bytes) -> object:
    return Response(told, read_request(asked)).body


def metadata(topics: int) -> bytes:
    """A request, version 1, about so many topics, each of one letter."""
    return wire.request(3, 1, 1, struct.pack(">i", topics) + wire.string("a") * topics)


def produce(partitions: int) -> bytes:
    """A request, version 3, with nothing for so many partitions."""
    topic = wire.string("a") + struct.pack(">i", partitions) + bytes(8) * partitions
    return wire.request(0, 3, 1, struct.pack(">hhii", -1, 1, 1000, 1) + topic)


@pytest.mark.parametrize("request_of", [metadata, produce])
def test_items_that_nobody_needs(request_of: Callable[[int], bytes]) -> None:
    """A request of very many items is not read: in memory they take sixty times their bytes."""
    most = REQUEST_ITEMS - (request_of is produce)  # its topic is an item, too

    assert read_request(request_of(most)).body is not None
    assert read_request(request_of(most + 1)).body is None


def test_tags_that_nobody_needs() -> None:
    """As many tagged fields as items, and no more."""
    most, more = (bytes([it & 127 | 128, it >> 7 & 127 | 128, it >> 14]) + bytes(2 * it)
                  for it in (ITEMS_MAX, ITEMS_MAX + 1))  # fmt: skip

    assert {0: b""} == Cursor(most).tags()
    with pytest.raises(ValueError, match="20001 items"):
        Cursor(more).tags()


def test_response_of_many_items() -> None:
    """It is not read either; one with as many as a stage may have is."""
    asked = read_request(metadata(1))

    def answer(partitions: int) -> bytes:
        of_topic = struct.pack(">h", 0) + wire.string("a") + b"\x00" + struct.pack(">i", partitions)
        partition = struct.pack(">hiiii", 0, 0, 1, 0, 0)
        head = struct.pack(">iiii", 1, 0, 1, 1)  # no broker, a controller, one topic
        return wire.frame(head + of_topic + partition * partitions)

    assert Response(answer(ITEMS_MAX - 1), asked).body is not None
    assert Response(answer(ITEMS_MAX), asked).body is None


def test_batches_that_no_broker_takes() -> None:
    """A partition is brought one batch; of very many none is looked at."""
    few, many = (read_request(wire.produce(1, wire.batch([b"0"]) * number)) for number in (2, 9999))

    assert [2, 0] == [len(request.produced[0].batches) for request in (few, many)]


def test_what_a_request_keeps() -> None:
    """When it has been sent, what its answer is told with; before, its frame alone."""
    commit = read_request(sample_request("OffsetCommit", 2))
    whole = commit.frame
    commit.forget_parts()
    offset = {"topic": "a name", "partition": 3, "offset": 3}
    assert (whole, offset) == (commit.frame, commit.named)
    commit.forget_frame()
    commit.forget_parts()

    assert (b"", None, offset) == (commit.frame, commit.body, commit.named)
    assert 1000 == len(read_request(wire.heartbeat(1, "x" * 30_000)).client_id)
    assert {} == read_request(wire.produce(1, topic="t" * 250)).named


def test_kio_finds_no_hypothesis() -> None:
    """No module of the codec loads hypothesis, which is installed here, or hides it from others.

    Each of them may be the first to load kio.
    """
    names = [module.name for module in pkgutil.iter_modules(codec.__path__)]
    code = f"""if True:
        import importlib, sys
        for name in {names}:
            importlib.import_module("lab_utils.codec." + name)
            for loaded in [it for it in sys.modules if it.startswith(("kio", "lab_utils.codec"))]:
                del sys.modules[loaded]
        importlib.import_module("lab_utils.codec." + name)
        print("kio" in sys.modules, "hypothesis" in sys.modules)
        import hypothesis.strategies"""

    assert "True False\n" == subprocess.check_output([sys.executable, "-c", code], text=True)
