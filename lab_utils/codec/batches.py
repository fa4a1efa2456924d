"""Record batches as bytes, from a Produce request or from a segment file of the log.

    base offset │ length │ leader epoch │ magic 2 │ CRC-32C │ attributes … records
                                                            └── what the CRC covers ──▶

It reads format version 2, the only one that Kafka 4 writes. A damaged batch is refused with its
place; records of a compressed batch stay packed. It knows nothing of requests or of the ledger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c
from kio.serial.readers import read_signed_varint, read_signed_varlong

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max
# timestamp, producer id, producer epoch, base sequence, number of records
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
LENGTH_COUNTS_FROM: Final = 12
CRC_COUNTS_FROM: Final = 21
RECORDS_START: Final = HEADER.size
MAGIC: Final = 2

COMPRESSION: Final = 0b111
IS_CONTROL: Final = 0b100000
IS_TRANSACTIONAL: Final = 0b10000
MARKERS: Final = {0: "ABORT", 1: "COMMIT"}


class DamagedBatch(ValueError):
    """These bytes are no whole, sound record batch."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a batch, with its own offset and timestamp."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch.

    count          how many records the batch says it holds
    records        the records, or none if the batch is compressed
    sequence       the first record's sequence number, -1 without idempotence
    marker         COMMIT or ABORT if the batch is a transaction's marker
    timestamp_ms   the largest timestamp of the batch
    """

    base_offset: int
    producer_id: int
    producer_epoch: int
    sequence: int
    count: int
    timestamp_ms: int
    is_transactional: bool
    is_control: bool
    is_compressed: bool
    marker: str | None
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The fixed part of a batch, and where the batch ends in its bytes."""

    base_offset: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int
    count: int
    attributes: int
    crc: int
    start: int
    end: int

    @property
    def is_compressed(self) -> bool:
        """Are the records packed?"""
        return bool(self.attributes & COMPRESSION)


def read_header(data: bytes, start: int = 0) -> BatchHeader:
    """The header of the batch that starts at `start`.

    Raises DamagedBatch when the bytes end too early or are of another format.
    """
    if len(data) - start < HEADER.size:
        raise DamagedBatch(f"at byte {start}: {len(data) - start} bytes are no batch header")
    (offset, length, _, magic, crc, attributes, _, base_ms, max_ms, producer, epoch, sequence,
     count) = HEADER.unpack_from(data, start)  # fmt: skip
    end = start + LENGTH_COUNTS_FROM + length
    if magic != MAGIC or length < HEADER.size - LENGTH_COUNTS_FROM or end > len(data):
        raise DamagedBatch(f"at byte {start}: format {magic}, length {length} of {len(data)}")
    return BatchHeader(
        offset, base_ms, max_ms, producer, epoch, sequence, count, attributes, crc, start, end
    )


def read_headers(data: bytes, start: int, end: int) -> Iterator[BatchHeader]:
    """The headers of all batches of the record set that lies from `start` to `end`."""
    while start < end:
        header = read_header(data, start)
        yield header
        start = header.end


def read_batch(data: bytes, start: int = 0) -> tuple[Batch, int]:
    """The batch that starts at `start`, and where it ends; its CRC is checked."""
    header = read_header(data, start)
    if crc32c(memoryview(data)[start + CRC_COUNTS_FROM : header.end]) != header.crc:
        raise DamagedBatch(f"at byte {start}: offset {header.base_offset} fails its CRC")
    records = () if header.is_compressed else tuple(read_records(data, header))
    is_control = bool(header.attributes & IS_CONTROL)
    batch = Batch(
        header.base_offset,
        header.producer_id,
        header.producer_epoch,
        header.sequence,
        header.count,
        header.max_timestamp_ms,
        bool(header.attributes & IS_TRANSACTIONAL),
        is_control,
        header.is_compressed,
        _marker(records) if is_control else None,
        records,
    )
    return batch, header.end


def read_records(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """The records of an uncompressed batch, unpacked one by one."""
    at = header.start + RECORDS_START
    for _ in range(header.count):
        length, size = read_signed_varint(data, at)
        at += size
        yield _record(data, at + 1, header)  # the byte left out is an unused attribute
        at += length


def read_segment(path: Path) -> list[Batch]:
    """All whole batches of a segment file of the log.

    A broker may be writing: an incomplete batch at the end is left out. Raises DamagedBatch for a
    batch in the file that fails its CRC.
    """
    data = path.read_bytes()
    batches, start = [], 0
    while _is_whole(data, start):
        batch, start = read_batch(data, start)
        batches.append(batch)
    return batches


def _is_whole(data: bytes, start: int) -> bool:
    """Is there a batch here, to its last byte? A preallocated rest of zeros is none."""
    if len(data) - start < HEADER.size:
        return False
    length = int.from_bytes(data[start + 8 : start + LENGTH_COUNTS_FROM], "big")
    return 0 < length <= len(data) - start - LENGTH_COUNTS_FROM


def _record(data: bytes, at: int, header: BatchHeader) -> Record:
    since_base_ms, size = read_signed_varlong(data, at)
    since_base_offset, more = read_signed_varint(data, at + size)
    key, at = _bytes(data, at + size + more)
    value, _ = _bytes(data, at)
    return Record(
        header.base_offset + since_base_offset, header.base_timestamp_ms + since_base_ms, key, value
    )


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, size = read_signed_varint(data, at)
    at += size
    if length < 0:
        return None, at
    if at + length > len(data):
        raise DamagedBatch(f"at byte {at}: a field of {length} bytes runs over the end")
    return data[at : at + length], at + length


def _marker(records: tuple[Record, ...]) -> str | None:
    """A control record's key is two numbers, version and type; only two types end a transaction."""
    key = records[0].key if records else None
    return MARKERS.get(int.from_bytes(key[2:4], "big")) if key else None
