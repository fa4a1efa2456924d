"""Kafka's requests and responses, read from the bytes that crossed the wire.

    length │ API key │ version │ correlation id │ client id │ (tags) │ body      a request
    length │ correlation id │ (tags) │ body                                      its response

The first line is read by hand, because every frame needs it; the body is read when somebody asks,
and is None when it cannot be read. kio reads it, but for Produce: that carries the data, up to a
megabyte in each request, and kio would copy the records out; here they are found and left where
they lie. kio generates one dataclass for each version of each message; what the lab asks for is
named alike in all of them. A frame is never changed here: what a fault makes of it is in
answers.py. It knows nothing of sockets, of faults or of the ledger.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Any, Final
from uuid import UUID

from lab_utils.codec.batches import Batch, DamagedBatch, Record, read_headers, read_records
from lab_utils.codec.cursor import (
    API_NAMES,
    Cursor,
    ErrorCode,
    entity_reader,
    load_request_schema,
    load_response_schema,
)

LENGTH: Final = struct.Struct(">i")
REQUEST_START: Final = struct.Struct(">ihhih")
RESPONSE_START: Final = struct.Struct(">ii")

PRODUCE_VERSIONS: Final = range(3, 14)  # all that Kafka 4 takes
PRODUCE_FLEXIBLE_FROM: Final = 9
PRODUCE_TOPIC_ID_FROM: Final = 13
NO_PARTITION: Final = -1
# Batches of more records are not unpacked: nobody but the broker knows what they bring.
RECORDS_LIMIT: Final = 100
# A broker takes one batch for each partition.
BATCHES_LIMIT: Final = 10
# A request of more items is not read: a consumer of a thousand partitions names a thousand.
REQUEST_ITEMS: Final = 5_000
# A response of more bytes may hold more than ITEMS_MAX.
SMALL: Final = 64 * 1024
# What is kept of names: of a client's so many bytes; Kafka takes no topic's that is longer.
CLIENT_ID_LIMIT: Final = 1_000
TOPIC_LIMIT: Final = 249
# The bytes that a field of fixed length takes; what is in no table has its length before it.
WIDTHS: Final = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4,
    "timedelta_i32": 4, "int64": 8, "timedelta_i64": 8, "datetime_i64": 8, "float64": 8,
    "uuid": 16,
}  # fmt: skip

TopicNames = Mapping[UUID, str]


class Unreadable(ValueError):
    """These bytes are no frame of Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Produced:
    """What a Produce request brings to one partition, and where its records end in the frame."""

    topic: str
    partition: int
    batches: tuple[Batch, ...]
    end: int


@dataclass(frozen=True, slots=True)
class PartitionProduceData:
    """What goes to one partition: the bytes of the frame from `start` to `end`."""

    index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicProduceData:
    """What goes to one topic; version 13 names it by id."""

    name: str | None
    topic_id: UUID | None
    partition_data: tuple[PartitionProduceData, ...]


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """A Produce request, without its records. The names of the fields are kio's."""

    transactional_id: str | None
    acks: int
    topic_data: tuple[TopicProduceData, ...]


@dataclass(eq=False)
class Request:
    """One request frame, length and all. What was read of it stays when the frame is forgotten."""

    frame: bytes
    api: str
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    topic_names: TopicNames

    @property
    def run(self) -> str:
        """The run that the sender belongs to: its client id up to the first dot."""
        return self.client_id.partition(".")[0] if "." in self.client_id else ""

    @property
    def client(self) -> str:
        """The sender's name within its run."""
        return self.client_id.partition(".")[2] if "." in self.client_id else self.client_id

    @cached_property
    def body(self) -> Any:
        """The request as kio's dataclass, or a ProduceRequest; None if it cannot be read."""
        return self._read()

    @cached_property
    def topic_partitions(self) -> tuple[tuple[str, int], ...]:
        """The partitions that the request names; -1 stands for a topic named without one."""
        return tuple(topic_partitions(self.body, self.topic_names))

    @property
    def has_response(self) -> bool:
        """Will the broker answer? It does, but for a Produce with acks=0."""
        return not (self.api == "Produce" and self.body is not None and self.body.acks == 0)

    @cached_property
    def produced(self) -> tuple[Produced, ...]:
        """What a Produce request brings, partition by partition; nothing for other requests."""
        return tuple(self._produced()) if self.api == "Produce" and self.body else ()

    @property
    def is_packed(self) -> bool:
        """Does a Produce request bring records that are compressed?"""
        return any(batch.compression for item in self.produced for batch in item.batches)

    def records(self, item: Produced) -> Iterator[Record]:
        """The records for one partition: none of what is compressed, or more than RECORDS_LIMIT."""
        if any(batch.compression for batch in item.batches):
            return
        if sum(batch.count for batch in item.batches) > RECORDS_LIMIT:
            return
        try:
            for batch in item.batches:
                yield from read_records(self.frame, batch)
        except ValueError:
            return  # a client may send what is no record; the broker will say so

    def brings(self, value: str) -> bool:
        """Does a Produce request bring a record of this value, as far as it is unpacked?"""
        wanted = value.encode()
        return any(it.value == wanted for item in self.produced for it in self.records(item))

    @cached_property
    def named(self) -> dict[str, Any]:
        """Topic and partition of a request that names exactly one, and the offset it commits."""
        if len(self.topic_partitions) != 1:
            return {}
        topic, partition = self.topic_partitions[0]
        if len(topic) > TOPIC_LIMIT:
            return {}
        if partition == NO_PARTITION:
            return {"topic": topic}
        return {"topic": topic, "partition": partition, "offset": self._committed_offset()}

    def forget_frame(self) -> None:
        """Read what its answer is told with, then let the bytes go, and what was read of them.

        They are a megabyte each, and waiting for its answer a request needs none of them: with
        the memory used again at once, the proxy takes 0.7 s of processor for a gigabyte, not 1.1.
        """
        _ = self.named
        self.__dict__.update(frame=b"", body=None, topic_partitions=(), produced=())

    def forget_parts(self) -> None:
        """Let go what was read of a frame that waits to be sent: it is read again then."""
        if self.frame:
            for part in ("body", "topic_partitions", "produced", "named"):
                self.__dict__.pop(part, None)

    def _read(self) -> Any:
        try:
            schema = _request_schema(self.api_key, self.version)
            start = _body_start(schema, self.frame)
            if self.api == "Produce":
                return _read_produce(self.frame, start, self.version)
            flexible = schema.__flexible__
            sizes = Cursor(self.frame, start, flexible=flexible, items_max=REQUEST_ITEMS)
            _check_sizes(schema, sizes)
            return entity_reader(schema)(self.frame, start)[0]
        except Exception:  # kio has an error of its own for each way to be unreadable.
            return None

    def _produced(self) -> Iterator[Produced]:
        for topic in self.body.topic_data:
            name = topic_name(topic, self.topic_names) or ""
            for data in topic.partition_data:
                headers = _headers(self.frame, data.start, data.end)
                yield Produced(name, data.index, headers, data.end)

    def _committed_offset(self) -> int | None:
        if self.api not in ("OffsetCommit", "TxnOffsetCommit"):
            return None
        found = [part for topic in self.body.topics for part in topic.partitions]
        assert [partition_of(part) for part in found] == [self.topic_partitions[0][1]]
        return int(found[0].committed_offset)


@dataclass(frozen=True)
class Response:
    """One response frame, length and all, and the request that it answers."""

    frame: bytes
    request: Request

    @cached_property
    def body(self) -> Any:
        """The response as kio's dataclass, or None if it cannot be read."""
        request = self.request
        # A broker that does not know the client's version of ApiVersions answers in version 0.
        versions = (request.version, 0) if request.api == "ApiVersions" else (request.version,)
        bodies = (self._read(version) for version in versions)
        return next((body for body in bodies if body is not None), None)

    @cached_property
    def error(self) -> str | None:
        """The name of the first error in the response, if there is one."""
        code = first_error(self.body)
        return None if code is None else error_name(code)

    @property
    def is_in_part(self) -> bool:
        """Has the broker done a part of what was asked, and refused the rest?"""
        done = {code is ErrorCode.none for code in _results(self.body)}
        return self.error is not None and True in done

    def _read(self, version: int) -> Any:
        try:
            schema = _response_schema(self.request.api_key, version)
            start = _body_start(schema, self.frame)
            if len(self.frame) > SMALL:
                _check_sizes(schema, Cursor(self.frame, start, flexible=schema.__flexible__))
            return entity_reader(schema)(self.frame, start)[0]
        except Exception:  # As above.
            return None


def read_request(frame: bytes, topic_names: TopicNames | None = None) -> Request:
    """The request in a frame; Unreadable if it does not begin as one."""
    try:
        _, api_key, version, correlation_id, size = REQUEST_START.unpack_from(frame)
    except struct.error:
        raise Unreadable(f"{len(frame)} bytes are too few for a request") from None
    if api_key not in API_NAMES:
        raise Unreadable(f"API key {api_key} is unknown")
    length = min(max(size, 0), CLIENT_ID_LIMIT)
    client_id = frame[REQUEST_START.size : REQUEST_START.size + length]
    return Request(
        frame,
        API_NAMES[api_key],
        api_key,
        version,
        correlation_id,
        client_id.decode("utf-8", errors="replace"),
        topic_names if topic_names is not None else {},
    )


def topic_ids(response: Response) -> dict[UUID, str]:
    """The topic ids that a response puts names to; later versions name topics by id alone."""
    if response.request.api not in ("Metadata", "CreateTopics") or response.body is None:
        return {}
    return {
        topic.topic_id: topic.name
        for topic in response.body.topics
        if getattr(topic, "topic_id", None) and topic.name
    }


def error_name(code: ErrorCode) -> str:
    """Kafka's own name of an error.

    >>> error_name(ErrorCode.corrupt_message)
    'CORRUPT_MESSAGE'
    """
    return code.name.upper()


def _body_start(schema: Any, frame: bytes) -> int:
    """Where the body begins: behind the header, which has a form of its own for each version."""
    return LENGTH.size + int(entity_reader(schema.__header_schema__)(frame, LENGTH.size)[1])


# kio looks a schema up by name each time.
_request_schema = cache(load_request_schema)
_response_schema = cache(load_response_schema)


def _headers(frame: bytes, start: int, end: int) -> tuple[Batch, ...]:
    try:
        found = tuple(islice(read_headers(frame, start, end), BATCHES_LIMIT + 1))
    except DamagedBatch:
        return ()
    return found if len(found) <= BATCHES_LIMIT else ()


def _read_produce(frame: bytes, start: int, version: int) -> ProduceRequest:
    """The Produce request whose body begins at `start`."""
    if version not in PRODUCE_VERSIONS:
        raise ValueError(f"version {version} of Produce is unknown")
    is_flexible = version >= PRODUCE_FLEXIBLE_FROM
    cursor = Cursor(frame, start, flexible=is_flexible, items_max=REQUEST_ITEMS)

    def topic() -> TopicProduceData:
        by_id = version >= PRODUCE_TOPIC_ID_FROM
        name, topic_id = (None, cursor.uuid()) if by_id else (cursor.text(), None)
        data = TopicProduceData(name, topic_id, cursor.array(partition))
        cursor.tags()
        return data

    def partition() -> PartitionProduceData:
        index, size = cursor.int32(), cursor.size()
        data = PartitionProduceData(index, cursor.skip(size), cursor.at)
        cursor.tags()
        return data

    transactional_id, acks, _timeout = cursor.text(), cursor.int16(), cursor.int32()
    return ProduceRequest(transactional_id, acks, cursor.array(topic))


@dataclass(frozen=True, slots=True)
class _Column:
    """What a field of a message is on the wire.

    kind  a name of kio's, if the field or its items are no messages themselves
    part  the dataclass of what it holds otherwise
    """

    tag: int | None
    kind: str
    part: Any
    is_array: bool
    is_nullable: bool


def _check_sizes(schema: Any, cursor: Cursor) -> None:
    """Raise ValueError for an array of more items than there are bytes, or than are read.

    kio makes room for as many as a request says before it reads the first: 60 bytes that announce
    two thousand million items would take 17 GB, or end the process where there is no such memory.
    """
    columns = _columns(schema)
    tagged = {column.tag: column for column in columns if column.tag is not None}
    for column in columns:
        if column.tag is None:
            _check_column(column, cursor)
    for tag, value in cursor.tags().items():
        if tag in tagged:
            _check_column(tagged[tag], Cursor(value))


def _check_column(column: _Column, cursor: Cursor) -> None:
    is_single_part = column.part is not None and not column.is_array
    if is_single_part and column.is_nullable and cursor.int8() < 0:
        return
    for _ in range(cursor.count() if column.is_array else 1):
        if column.part is not None:
            _check_sizes(column.part, cursor)
        elif column.kind in WIDTHS:
            cursor.skip(WIDTHS[column.kind])
        elif column.kind == "string":
            cursor.text()
        else:
            cursor.skip(cursor.size())


@cache
def _columns(schema: Any) -> tuple[_Column, ...]:
    hints, found = typing.get_type_hints(schema), []
    for field in fields(schema):
        kinds = [hints[field.name], *typing.get_args(hints[field.name])]
        array = next((kind for kind in kinds if typing.get_origin(kind) is tuple), None)
        of = [typing.get_args(array)[0]] if array else kinds
        part = next((kind for kind in of if is_dataclass(kind)), None)
        kind, tag = field.metadata.get("kafka_type", ""), field.metadata.get("tag")
        found.append(_Column(tag, kind, part, array is not None, type(None) in kinds))
    return tuple(found)


def topic_name(entity: Any, names: Mapping[UUID, str]) -> str | None:
    """The topic that a part of a message is about, or None if it is about none.

    A topic id whose name was never seen is given as text.
    """
    if "Topic" not in type(entity).__name__:
        return None
    for column in ("name", "topic"):
        if (name := getattr(entity, column, None)) is not None:
            return str(name)
    topic_id = getattr(entity, "topic_id", None)
    return names.get(topic_id, str(topic_id)) if topic_id is not None else None


def topic_partitions(entity: Any, names: Mapping[UUID, str]) -> Iterator[tuple[str, int]]:
    """Each partition that a message names; NO_PARTITION for a topic named without one."""
    if entity is None:
        return
    topic = topic_name(entity, names)
    if topic is None:
        yield from ((name, NO_PARTITION) for name in getattr(entity, "topic_names", ()))
        for part in parts(entity):
            yield from topic_partitions(part, names)
        return
    yield from ((topic, partition) for partition in partitions(entity) or [NO_PARTITION])


def partitions(topic: Any) -> list[int]:
    """The partitions that stand below a topic, as numbers or as parts with a number."""
    found: list[int] = []
    for column in fields(topic):
        below = getattr(topic, column.name)
        if isinstance(below, tuple) and "partition" in column.name:
            found.extend(item if isinstance(item, int) else partition_of(item) for item in below)
    return found


def partition_of(part: Any) -> int:
    """The number of the partition that a part of a message is about."""
    for column in ("partition_index", "index", "partition"):
        if (number := getattr(part, column, None)) is not None:
            return int(number)
    return NO_PARTITION


def first_error(entity: Any) -> ErrorCode | None:
    """The first error that a message carries, from the top down, or None."""
    if entity is None:
        return None
    for column in _names(entity.__class__):
        value = getattr(entity, column)
        if isinstance(value, ErrorCode) and value is not ErrorCode.none:
            return value
    errors = (first_error(part) for part in parts(entity))
    return next((error for error in errors if error is not None), None)


def _results(entity: Any) -> Iterator[ErrorCode]:
    """The error codes of the lowest parts: what became of each thing that was asked."""
    below = [code for part in parts(entity) for code in _results(part)]
    own = (getattr(entity, column) for column in _names(entity.__class__))
    yield from below or (code for code in own if isinstance(code, ErrorCode))


def parts(entity: Any) -> Iterator[Any]:
    """The messages that one holds in its arrays."""
    for column in _names(entity.__class__):
        value = getattr(entity, column)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            yield from value


@cache
def _names(entity_type: Any) -> tuple[str, ...]:
    return tuple(column.name for column in fields(entity_type))
