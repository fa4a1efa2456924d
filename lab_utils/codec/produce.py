"""A Produce request, read where it lies: its records are found and not copied.

Produce carries the data, up to a megabyte in each request, and the proxy reads every one. kio's
reader would copy the records out; this one notes where they are. Field names are kio's. It reads
versions 3 to 13, all that Kafka 4 takes; a test holds it equal to kio in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

from kio.serial.readers import (
    read_compact_array_length,
    read_compact_string,
    read_compact_string_nullable,
    read_int16,
    read_int32,
    read_legacy_array_length,
    read_legacy_string,
    read_nullable_legacy_string,
    read_unsigned_varint,
    read_uuid,
)

VERSIONS: Final = range(3, 14)
FLEXIBLE_FROM: Final = 9
TOPIC_ID_FROM: Final = 13

Item = TypeVar("Item")


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
    """A Produce request, without its records."""

    transactional_id: str | None
    acks: int
    topic_data: tuple[TopicProduceData, ...]


def read_produce(frame: bytes, start: int, version: int) -> ProduceRequest:
    """The Produce request whose body begins at `start`. Raises ValueError if it is none."""
    if version not in VERSIONS:
        raise ValueError(f"version {version} of Produce is unknown")
    return _Cursor(frame, start, version).request()


class _Cursor:
    """A place in the frame, moved by each read."""

    def __init__(self, frame: bytes, at: int, version: int) -> None:
        self._frame = frame
        self._at = at
        self._flexible = version >= FLEXIBLE_FROM
        self._by_id = version >= TOPIC_ID_FROM

    def request(self) -> ProduceRequest:
        read = read_compact_string_nullable if self._flexible else read_nullable_legacy_string
        transactional_id = self._read(read)
        acks = self._read(read_int16)
        self._read(read_int32)  # the time-out
        return ProduceRequest(transactional_id, acks, self._array(self._topic))

    def _topic(self) -> TopicProduceData:
        name = topic_id = None
        if self._by_id:
            topic_id = self._read(read_uuid)
        else:
            name = self._read(read_compact_string if self._flexible else read_legacy_string)
        topic = TopicProduceData(name, topic_id, self._array(self._partition))
        self._skip_tags()
        return topic

    def _partition(self) -> PartitionProduceData:
        index = self._read(read_int32)
        size = self._read(read_unsigned_varint) - 1 if self._flexible else self._read(read_int32)
        start = self._at
        self._at += max(size, 0)
        if self._at > len(self._frame):
            raise ValueError(f"{size} bytes of records run over the end of the frame")
        self._skip_tags()
        return PartitionProduceData(index, start, start + max(size, 0))

    def _read(self, reader: Callable[[bytes, int], tuple[Any, int]]) -> Any:
        value, size = reader(self._frame, self._at)
        self._at += size
        return value

    def _array(self, item: Callable[[], Item]) -> tuple[Item, ...]:
        read = read_compact_array_length if self._flexible else read_legacy_array_length
        return tuple(item() for _ in range(self._read(read) or 0))

    def _skip_tags(self) -> None:
        if self._flexible:
            for _ in range(self._read(read_unsigned_varint)):
                self._read(read_unsigned_varint)
                self._at += self._read(read_unsigned_varint)
