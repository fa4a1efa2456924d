"""The transaction coordinator's own log, `__transaction_state`: what it decided, and when.

    key     version │ transactional.id
    value   version │ producer id, epoch, timeout, state, partitions, timestamps │ tagged fields

Read from the segment files, past the broker. Kafka's TransactionLogKey.json (version 0) and
TransactionLogValue.json (versions 0 and 1) say what is where. It knows no ledger.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from lab_utils.codec.batches import Batch
from lab_utils.codec.cursor import Cursor

TOPIC: Final = "__transaction_state"
PARTITIONS: Final = 50  # transaction.state.log.num.partitions
STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort",
    "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
FLEXIBLE_FROM: Final = 1


def entries(topic: str, batch: Batch) -> list[dict[str, Any]]:
    """What the coordinator wrote in this batch, as JSON; nothing for any other topic."""
    if topic != TOPIC:
        return []
    return [
        {"offset": record.offset, "transactional_id": name, **_value(record.value)}
        for record in batch.records
        if record.value is not None and (name := _name(record.key)) is not None
    ]


def partition_of(transactional_id: str) -> int:
    """The partition of the log that an id belongs to; its leader is the id's coordinator.

    Java's String.hashCode, its absolute value, modulo the number of partitions.

    The hashes of the last two are negative; the last one has no positive counterpart.

    >>> partition_of("payments"), partition_of(""), partition_of("ledger")
    (13, 0, 39)
    >>> partition_of("polygenelubricants")
    0
    """
    code = 0
    for (unit,) in struct.iter_unpack(">H", transactional_id.encode("utf-16-be")):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    # Kafka's Utils.abs gives 0 for that one.
    return 0 if signed == -(1 << 31) else abs(signed) % PARTITIONS


def _name(key: bytes | None) -> str | None:
    """The transactional.id of a key of version 0; None for any other key."""
    cursor = Cursor(key or b"", flexible=False)
    return cursor.text() if key and cursor.int16() == 0 else None


def _value(value: bytes) -> dict[str, Any]:
    version = Cursor(value).int16()
    cursor = Cursor(value, 2, flexible=version >= FLEXIBLE_FROM)
    producer_id, epoch, timeout_ms = cursor.int64(), cursor.int16(), cursor.int32()
    state = cursor.int8()

    def places() -> list[str]:
        topic = cursor.text()
        found = [f"{topic}-{number}" for number in cursor.array(cursor.int32)]
        cursor.tags()
        return found

    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "timeout_ms": timeout_ms,
        "state": STATES[state] if 0 <= state < len(STATES) else str(state),
        "partitions": sorted(place for topic in cursor.array(places) for place in topic),
        "updated_ms": cursor.int64(),
    }
