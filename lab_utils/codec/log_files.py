"""The log as it lies on a broker's disk: batches by topic, and where each partition's log ends.

Read from the segment files, past the broker: also what no reader may see yet, and also when the
broker is dead. Batches are given out one by one, so that a log of any size takes little memory. It
knows no process and no protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from lab_utils.codec.batches import HEADER, LENGTH_COUNTS_FROM, Batch, DamagedBatch, read_segment
from lab_utils.codec.metadata_log import NO_LEADER
from lab_utils.codec.transaction_log import entries
from lab_utils.errors import BadArgument, StageError


def partitions(data: Path, topic: str) -> list[tuple[int, Path]]:
    """The partitions of a topic that this broker has, each with its folder."""
    if not topic or any(character in topic for character in "/\\*?["):
        raise BadArgument(f"a topic's name has letters, digits, '.', '_' and '-'; got {topic!r}.")
    found = []
    for folder in data.glob(f"{topic}-*"):
        name, _, number = folder.name.rpartition("-")
        if name == topic and number.isdigit():
            found.append((int(number), folder))
    return sorted(found)


def batches(folder: Path) -> Iterator[Batch]:
    """The batches of one partition, oldest first; raises StageError for a damaged log."""
    try:
        for path in sorted(folder.glob("*.log")):
            yield from read_segment(path)
    except DamagedBatch as error:
        raise StageError(f"{folder.name}: {error}. This broker's log is damaged.") from error


class LogEnd:
    """Where one partition's log ends on one broker, followed as it grows.

    A look reads the headers of the batches that have come since the last one. It begins anew where
    the last batch that it knows is no longer in its place: a log may be cut back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._at = 0
        self._header = b""
        self._end = 0

    def look(self) -> int | None:
        """The offset that the next record will have; None if the log is not there."""
        path = max(self._folder.glob("*.log"), default=None)
        if path is None:
            return None
        with suppress(FileNotFoundError), path.open("rb") as file:  # a topic may be deleted
            file.seek(self._at)
            if path != self._path or file.read(len(self._header)) != self._header:
                self._path, self._at, self._header, self._end = path, 0, b"", int(path.stem)
            self._follow(file, path.stat().st_size)
        return self._end

    def _follow(self, file: BinaryIO, size: int) -> None:
        at = self._at
        while at + HEADER.size <= size:
            file.seek(at)
            header = file.read(HEADER.size)
            base_offset, length, _, _, _, _, last_offset_delta, *_ = HEADER.unpack(header)
            if not 0 < length <= size - at - LENGTH_COUNTS_FROM:
                return
            self._at, self._header, self._end = at, header, base_offset + last_offset_delta + 1
            at += LENGTH_COUNTS_FROM + length


def rows_of_leaders(
    folders: Mapping[int, Path], topic: str, leaders: Mapping[int, int]
) -> Iterator[dict[str, Any]]:
    """The batches of a topic as JSON, of each partition those of its leader, one by one.

    folders  the data folder of each broker; where nobody leads, the first that has batches counts
    """
    found = {broker: partitions(data, topic) for broker, data in folders.items()}
    has = (broker for broker, logs in found.items() if any(any(batches(it)) for _, it in logs))
    first = next(has, NO_LEADER)
    for broker, logs in found.items():
        for partition, folder in logs:
            leader = leaders.get(partition, NO_LEADER)
            if broker == (first if leader == NO_LEADER else leader):
                yield from (_row(broker, partition, topic, batch) for batch in batches(folder))


def _row(broker: int, partition: int, topic: str, batch: Batch) -> dict[str, Any]:
    return {
        "broker": broker,
        "partition": partition,
        "base_offset": batch.base_offset,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": batch.sequence,
        "records": batch.count,
        "is_control": batch.is_control,
        "is_transactional": batch.is_transactional,
        "entries": entries(topic, batch),
        "marker": batch.marker,
        "timestamp_ms": batch.timestamp_ms,
        "compression": batch.compression,
        "bytes": batch.size,
    }
