"""The transaction coordinator's own log, `__transaction_state`: what it decided, and when.

    key     version │ transactional.id
    value   version │ producer id, epoch, timeout, state, partitions, timestamps │ tagged fields

Read from the segment files, past the broker. Kafka's TransactionLogKey.json (version 0) and
TransactionLogValue.json (versions 0 and 1) say what is where. It knows no ledger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

from lab_utils.codec.batches import Batch

TOPIC: Final = "__transaction_state"
STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort",
    "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
PRODUCER: Final = struct.Struct(">qhib")  # id, epoch, timeout, state
TIMES: Final = struct.Struct(">qq")  # last update, start
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


def partition_of(transactional_id: str, partitions: int = 50) -> int:
    """The partition of the log that an id belongs to; its leader is the id's coordinator.

    Java's String.hashCode, its absolute value, modulo transaction.state.log.num.partitions (50).

    >>> partition_of("payments"), partition_of("")
    (13, 0)
    """
    code = 0
    for (unit,) in struct.iter_unpack(">H", transactional_id.encode("utf-16-be")):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    # Kafka's Utils.abs gives 0 for the one number that has no positive counterpart.
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def _name(key: bytes | None) -> str | None:
    """The transactional.id of a key of version 0; None for any other key."""
    if key is None or key[:2] != b"\x00\x00":
        return None
    size = int.from_bytes(key[2:4], "big")
    return key[4 : 4 + size].decode("utf-8", errors="replace")


def _value(value: bytes) -> dict[str, Any]:
    is_flexible = int.from_bytes(value[:2], "big") >= FLEXIBLE_FROM
    producer_id, epoch, timeout_ms, state = PRODUCER.unpack_from(value, 2)
    fields = _Fields(value, 2 + PRODUCER.size, is_flexible)
    places = [f"{topic}-{number}" for topic, numbers in fields.topics() for number in numbers]
    updated_ms, _ = TIMES.unpack_from(value, fields.at)
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "timeout_ms": timeout_ms,
        "state": STATES[state] if 0 <= state < len(STATES) else str(state),
        "partitions": sorted(places),
        "updated_ms": updated_ms,
    }


class _Fields:
    """The part of a value whose lengths vary; `at` is where the next field begins."""

    def __init__(self, data: bytes, at: int, is_flexible: bool) -> None:
        self.at = at
        self._data = data
        self._is_flexible = is_flexible

    def topics(self) -> Iterator[tuple[str, Iterable[int]]]:
        """Each topic with its partitions."""
        for _ in range(self._size(">i")):
            name = self._take(self._size(">h")).decode("utf-8", errors="replace")
            numbers = [self._number(">i") for _ in range(self._size(">i"))]
            self._tags()
            yield name, numbers

    def _size(self, form: str) -> int:
        """A length: a fixed number once, since version 1 a varint that is one more."""
        return self._varint() - 1 if self._is_flexible else self._number(form)

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return number

    def _tags(self) -> None:
        for _ in range(self._varint() if self._is_flexible else 0):
            self._varint()
            self._take(self._varint())

    def _take(self, size: int) -> bytes:
        data = self._data[self.at : self.at + size]
        assert len(data) == size, f"the value ends at byte {len(self._data)}, inside a field"
        self.at += size
        return data
