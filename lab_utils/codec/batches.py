"""Record batches as bytes, from a Produce request or from a segment file of the log.

    base offset │ length │ leader epoch │ magic 2 │ CRC-32C │ attributes … records
                                                            └── what the CRC covers ──▶

It reads format version 2, the only one that Kafka 4 writes. A damaged batch is refused with its
place; records of a compressed batch stay packed. It knows nothing of requests or of the ledger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from crc32c import crc32c

from lab_utils.codec.cursor import Cursor

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max
# timestamp, producer id, producer epoch, base sequence, number of records
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
LENGTH_COUNTS_FROM: Final = 12
CRC_COUNTS_FROM: Final = 21
RECORDS_START: Final = HEADER.size
MAGIC: Final = 2

COMPRESSION: Final = 0b111
# As `compression.type` calls them, by what stands in the attributes.
COMPRESSIONS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
IS_CONTROL: Final = 0b100000
IS_TRANSACTIONAL: Final = 0b10000
MARKERS: Final = {0: "ABORT", 1: "COMMIT"}


class DamagedBatch(ValueError):
    """These bytes are no whole, sound record batch."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a batch, with its own offset."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a record batch, where it lies in its bytes, and what was unpacked of it.

    count          how many records the batch says it holds
    sequence       the first record's sequence number, -1 without idempotence
    timestamp_ms   the largest timestamp of the batch
    records        the records; none if the batch is compressed, or if only its header was read
    """

    base_offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int
    count: int
    attributes: int
    crc: int
    start: int
    end: int
    records: tuple[Record, ...] = ()

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return self.end - self.start

    @property
    def compression(self) -> str | None:
        """How they are packed, in the word of `compression.type`; None if they are not."""
        kind = self.attributes & COMPRESSION
        return COMPRESSIONS.get(kind, str(kind)) if kind else None

    @property
    def is_transactional(self) -> bool:
        """Is it a part of a transaction?"""
        return bool(self.attributes & IS_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Did the broker write it itself?"""
        return bool(self.attributes & IS_CONTROL)

    @property
    def marker(self) -> str | None:
        """COMMIT or ABORT if it is a transaction's marker.

        A control record's key is two numbers, version and type; only two types end a transaction.
        """
        key = self.records[0].key if self.is_control and self.records else None
        return MARKERS.get(int.from_bytes(key[2:4], "big")) if key else None


def read_header(data: bytes, start: int = 0) -> Batch:
    """The header of the batch that starts at `start`.

    Raises DamagedBatch when the bytes end too early or are of another format.
    """
    if len(data) - start < HEADER.size:
        raise DamagedBatch(f"{len(data) - start} bytes are no batch header")
    (offset, length, _, magic, crc, attributes, _, _, max_ms, producer, epoch, sequence,
     count) = HEADER.unpack_from(data, start)  # fmt: skip
    end = start + LENGTH_COUNTS_FROM + length
    if magic != MAGIC or length < HEADER.size - LENGTH_COUNTS_FROM or end > len(data):
        raise DamagedBatch(f"format {magic}, length {length} of {len(data)}")
    return Batch(offset, max_ms, producer, epoch, sequence, count, attributes, crc, start, end)


def read_headers(data: bytes, start: int, end: int) -> Iterator[Batch]:
    """The headers of all batches of the record set that lies from `start` to `end`."""
    while start < end:
        header = read_header(data, start)
        yield header
        start = header.end


def read_batch(data: bytes) -> Batch:
    """The batch that these bytes begin with, and its records; its CRC is checked."""
    batch = read_header(data)
    if crc32c(memoryview(data)[CRC_COUNTS_FROM : batch.end]) != batch.crc:
        raise DamagedBatch(f"offset {batch.base_offset} fails its CRC")
    if batch.compression:
        return batch
    return replace(batch, records=tuple(read_records(data, batch)))


def read_records(data: bytes, header: Batch) -> Iterator[Record]:
    """The records of an uncompressed batch, unpacked one by one; raises DamagedBatch."""
    cursor = Cursor(data, header.start + RECORDS_START)
    try:
        for _ in range(header.count):
            end = cursor.varint() + cursor.at
            yield _record(cursor, header)
            if end < cursor.at:
                raise ValueError(f"a record ends at byte {end}, inside its fields")
            cursor.skip(end - cursor.at)  # its headers
    except ValueError as error:
        raise DamagedBatch(f"offset {header.base_offset}: {error}") from None


def read_segment(path: Path, start: int = 0) -> Iterator[Batch]:
    """The whole batches of a segment file of the log, one by one, from this byte on.

    A broker may be writing: an incomplete batch at the end is left out, and a preallocated rest of
    zeros is none. Raises DamagedBatch for a batch in the file that fails its CRC.
    """
    with path.open("rb") as file:
        file.seek(start)
        while len(begin := file.read(LENGTH_COUNTS_FROM)) == LENGTH_COUNTS_FROM:
            length = int.from_bytes(begin[8:], "big", signed=True)
            rest = file.read(max(length, 0))
            if length <= 0 or len(rest) < length:
                return
            try:
                batch = read_batch(begin + rest)
            except DamagedBatch as error:
                raise DamagedBatch(f"{path.name} at byte {start}: {error}") from None
            yield batch
            start += batch.size


def _record(cursor: Cursor, header: Batch) -> Record:
    cursor.skip(1)  # an unused attribute
    cursor.varlong()  # its timestamp
    offset = header.base_offset + cursor.varint()
    return Record(offset, cursor.take(cursor.varint()), cursor.take(cursor.varint()))
