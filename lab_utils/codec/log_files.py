"""The log as it lies on a broker's disk: batches by topic, and where each partition's log ends.

Read from the segment files, past the broker: also what no reader may see yet, and also when the
broker is dead. It knows no process and no protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab_utils.codec.batches import Batch, DamagedBatch, read_segment
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


def batches(folder: Path) -> list[Batch]:
    """The batches of one partition, oldest first; raises StageError for a damaged log."""
    try:
        return [batch for path in sorted(folder.glob("*.log")) for batch in read_segment(path)]
    except DamagedBatch as error:
        raise StageError(f"{folder.name}: {error}. This broker's log is damaged.") from error


def log_end(folder: Path) -> int:
    """The offset that the next record of this partition will have."""
    found = batches(folder)
    if found:
        return found[-1].base_offset + max(found[-1].count, 1)
    return min((int(path.stem) for path in folder.glob("*.log")), default=0)


def end_of(data: Path, topic: str, partition: int) -> int | None:
    """Where one partition's log ends on this broker; None if it is not there."""
    return next((log_end(path) for number, path in partitions(data, topic) if number == partition),
                None)  # fmt: skip


def rows(data: Path, broker_id: int, topic: str) -> list[dict[str, Any]]:
    """The batches of a topic on one broker, as JSON."""
    return [
        {
            "broker": broker_id,
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
            "values": [_text(record.value) for record in batch.records],
        }
        for partition, folder in partitions(data, topic)
        for batch in batches(folder)
    ]


def rows_of_leaders(
    folders: Mapping[int, Path], topic: str, leaders: Mapping[int, int]
) -> list[dict[str, Any]]:
    """The batches of a topic as JSON, of each partition those of its leader.

    folders  the data folder of each broker; where nobody leads, the first that has batches counts
    """
    found = {broker: rows(data, broker, topic) for broker, data in folders.items()}
    first = next((broker for broker, has in found.items() if has), NO_LEADER)
    return [
        row
        for broker, has in found.items()
        for row in has
        if broker == _leader(leaders.get(row["partition"], NO_LEADER), first)
    ]


def _leader(leader: int, first: int) -> int:
    return leader if leader != NO_LEADER else first


def _text(value: bytes | None) -> str | None:
    return value.decode("utf-8", errors="backslashreplace") if value is not None else None
