"""The controller's own log: who leads, who is in sync, who is fenced, and since when.

    __cluster_metadata-0 ── records ──▶ Change(topic, partition, leader, isr, elr, epochs)

A KRaft controller decides by appending to this log, so this is not a poll of what a broker
believes but the decision itself, with its time. The records' layout is Kafka's (metadata/src/main/
resources/common/metadata of 4.3); what is not needed is stepped over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from lab_utils.codec.batches import read_segment
from lab_utils.codec.cursor import Cursor

TOPIC: Final = 2
PARTITION: Final = 3
PARTITION_CHANGE: Final = 5
REMOVE_TOPIC: Final = 9
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
    names: dict[UUID | None, str] = field(default_factory=dict)  # of the topics that there are
    _path: Path | None = None
    _read_to: int = 0

    def news(self) -> list[Decision]:
        """The decisions since the last call, oldest first."""
        path = max(self.folder.glob("*.log"), default=None)
        if path != self._path:
            self._path, self._read_to = path, 0
        found: list[Decision] = []
        if path is None or path.stat().st_size <= self._read_to:
            return found
        for batch in read_segment(path, self._read_to):
            self._read_to += batch.size
            for record in () if batch.is_control else batch.records:
                found += self._read(record.value or b"", batch.timestamp_ms)
        return found

    def _read(self, value: bytes, timestamp_ms: int) -> Iterator[Decision]:
        cursor = Cursor(value)
        cursor.unsigned()  # the version of the frame
        kind, version = cursor.unsigned(), cursor.unsigned()
        if kind == TOPIC:
            name = cursor.text() or ""
            self.names[cursor.uuid()] = name
        elif kind == REMOVE_TOPIC:
            self._removed(self.names.pop(cursor.uuid(), ""))
        elif kind == PARTITION:
            yield self._decided(self._new(cursor, version), timestamp_ms)
        elif kind == PARTITION_CHANGE:
            yield self._decided(self._changed(cursor), timestamp_ms)
        elif kind in (REGISTER_BROKER, REGISTRATION_CHANGE):
            yield from self._fencing(cursor, kind, timestamp_ms)

    def _removed(self, topic: str) -> None:
        for key in [key for key in self.partitions if key[0] == topic]:
            del self.partitions[key]

    def _decided(self, partition: Partition, timestamp_ms: int) -> Decision:
        self.partitions[partition.topic, partition.partition] = partition
        return Decision(timestamp_ms, partition)

    def _new(self, cursor: Cursor, version: int) -> Partition:
        number, topic = cursor.int32(), cursor.uuid()
        replicas, isr = _numbers(cursor), _numbers(cursor)
        _numbers(cursor)  # being removed
        _numbers(cursor)  # being added
        leader, leader_epoch, partition_epoch = cursor.int32(), cursor.int32(), cursor.int32()
        if version >= 1:
            cursor.array(cursor.uuid)  # log directories
        tags = cursor.tags()
        return Partition(
            self.names.get(topic, str(topic)), number, leader, replicas, isr,
            _numbers(Cursor(tags[1])) if 1 in tags else (), leader_epoch, partition_epoch,
        )  # fmt: skip

    def _changed(self, cursor: Cursor) -> Partition:
        number, topic = cursor.int32(), cursor.uuid()
        name = self.names.get(topic, str(topic))
        old = self.partitions.get((name, number), Partition(name, number))
        tags = {tag: Cursor(value) for tag, value in cursor.tags().items()}
        new = replace(old, partition_epoch=old.partition_epoch + 1)
        if 0 in tags:
            new = replace(new, isr=_numbers(tags[0]))
        if 1 in tags:
            new = replace(new, leader=tags[1].int32(), leader_epoch=old.leader_epoch + 1)
        if 2 in tags:
            new = replace(new, replicas=_numbers(tags[2]))
        if 5 in tags:
            new = replace(new, is_recovering=tags[5].int8() == 1)
        if 6 in tags:
            new = replace(new, elr=_numbers(tags[6]))
        return new

    def _fencing(self, cursor: Cursor, kind: int, timestamp_ms: int) -> Iterator[Decision]:
        broker = cursor.int32()
        if kind == REGISTER_BROKER:
            is_fenced = True  # until it has caught up with the metadata
        else:
            cursor.int64()
            change = cursor.tags().get(0)
            if change is None:
                return
            is_fenced = Cursor(change).int8() == 1
        (self.fenced.add if is_fenced else self.fenced.discard)(broker)
        yield Decision(timestamp_ms, broker=broker, is_fenced=is_fenced)


def _numbers(cursor: Cursor) -> tuple[int, ...]:
    return cursor.array(cursor.int32)
