"""The controller's own diary: who leads, who is in sync, who is fenced, and since when.

    __cluster_metadata-0 ── records ──▶ Change(topic, partition, leader, isr, elr, epochs)

A KRaft controller decides by appending to this log, so this is not a poll of what a broker
believes but the decision itself, with its time. The records' layout is Kafka's (metadata/src/main/
resources/common/metadata of 4.3); what is not needed is stepped over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from lab_utils.codec.batches import read_segment

TOPIC: Final = 2
PARTITION: Final = 3
PARTITION_CHANGE: Final = 5
REGISTER_BROKER: Final = 0
REGISTRATION_CHANGE: Final = 17
NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class Partition:
    """What the controller has decided for a partition; leader -1 is nobody.

    elr  the eligible leader replicas: not in sync, and known to hold all that was committed
    """

    topic: str
    partition: int
    leader: int = NO_LEADER
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    leader_epoch: int = 0
    partition_epoch: int = 0
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision and its time: about a partition, or about whether a broker is fenced."""

    timestamp_ms: int
    partition: Partition | None = None
    broker: int | None = None
    is_fenced: bool = False


@dataclass
class MetadataLog:
    """The metadata log of one controller, followed as it grows."""

    folder: Path
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    _names: dict[UUID, str] = field(default_factory=dict)
    _next: int = 0
    _size: int = -1

    def news(self) -> list[Decision]:
        """The decisions since the last call, oldest first."""
        path = max(self.folder.glob("*.log"), default=None)
        size = path.stat().st_size if path else -1
        if path is None or size == self._size:
            return []
        self._size = size
        found: list[Decision] = []
        for batch in read_segment(path):
            if batch.is_control or batch.base_offset < self._next:
                continue
            self._next = batch.base_offset + batch.count
            for record in batch.records:
                found += self._read(record.value or b"", batch.timestamp_ms)
        return found

    def _read(self, value: bytes, timestamp_ms: int) -> Iterator[Decision]:
        reader = _Reader(value)
        reader.varint()  # the version of the frame
        kind, version = reader.varint(), reader.varint()
        if kind == TOPIC:
            name = reader.text()
            self._names[reader.uuid()] = name
        elif kind == PARTITION:
            yield self._decided(self._new(reader, version), timestamp_ms)
        elif kind == PARTITION_CHANGE:
            yield self._decided(self._changed(reader), timestamp_ms)
        elif kind in (REGISTER_BROKER, REGISTRATION_CHANGE):
            yield from self._fencing(reader, kind, timestamp_ms)

    def _decided(self, partition: Partition, timestamp_ms: int) -> Decision:
        self.partitions[partition.topic, partition.partition] = partition
        return Decision(timestamp_ms, partition)

    def _new(self, reader: _Reader, version: int) -> Partition:
        number, topic = reader.int32(), reader.uuid()
        replicas, isr = reader.int32s(), reader.int32s()
        reader.int32s()  # being removed
        reader.int32s()  # being added
        leader, leader_epoch, partition_epoch = reader.int32(), reader.int32(), reader.int32()
        if version >= 1:
            reader.uuids()  # log directories
        tags = reader.tags()
        return Partition(
            self._names.get(topic, str(topic)), number, leader, replicas, isr,
            _Reader(tags[1]).int32s() if 1 in tags else (), leader_epoch, partition_epoch,
        )  # fmt: skip

    def _changed(self, reader: _Reader) -> Partition:
        number, topic = reader.int32(), reader.uuid()
        name = self._names.get(topic, str(topic))
        old = self.partitions.get((name, number), Partition(name, number))
        tags = {tag: _Reader(value) for tag, value in reader.tags().items()}
        new = replace(old, partition_epoch=old.partition_epoch + 1)
        if 0 in tags:
            new = replace(new, isr=tags[0].int32s())
        if 1 in tags:
            new = replace(new, leader=tags[1].int32(), leader_epoch=old.leader_epoch + 1)
        if 2 in tags:
            new = replace(new, replicas=tags[2].int32s())
        if 5 in tags:
            new = replace(new, is_recovering=tags[5].int8() == 1)
        if 6 in tags:
            new = replace(new, elr=tags[6].int32s())
        return new

    def _fencing(self, reader: _Reader, kind: int, timestamp_ms: int) -> Iterator[Decision]:
        broker = reader.int32()
        if kind == REGISTER_BROKER:
            is_fenced = True  # until it has caught up with the metadata
        else:
            reader.int64()
            change = reader.tags().get(0)
            if change is None:
                return
            is_fenced = _Reader(change).int8() == 1
        (self.fenced.add if is_fenced else self.fenced.discard)(broker)
        yield Decision(timestamp_ms, broker=broker, is_fenced=is_fenced)


class _Reader:
    """Kafka's flexible encoding, as far as these records need it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int8(self) -> int:
        return int(self._unpack(">b"))

    def int32(self) -> int:
        return int(self._unpack(">i"))

    def int64(self) -> int:
        return int(self._unpack(">q"))

    def varint(self) -> int:
        """An unsigned varint."""
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def uuid(self) -> UUID:
        return UUID(bytes=self._bytes(16))

    def text(self) -> str:
        return self._bytes(self.varint() - 1).decode()

    def int32s(self) -> tuple[int, ...]:
        """A compact array; null is empty."""
        return tuple(self.int32() for _ in range(self.varint() - 1))

    def uuids(self) -> tuple[UUID, ...]:
        return tuple(self.uuid() for _ in range(self.varint() - 1))

    def tags(self) -> dict[int, bytes]:
        return {self.varint(): self._bytes(self.varint()) for _ in range(self.varint())}

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def _unpack(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self._bytes(struct.calcsize(layout)))
        return int(value)
