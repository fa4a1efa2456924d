"""Record batches, from bytes that were written out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_utils.codec.batches import DamagedBatch, Record, read_batch, read_headers, read_segment
from lab_utils.codec.log_files import LogEnd
from tests.proxy.wire import batch, record

GZIP, TRANSACTIONAL, CONTROL = 1, 16, 32


def test_header_and_records_of_a_batch() -> None:
    """Each record has its own offset, and null is not the empty value."""
    records = record(0, b"a", 0) + record(1, b"", 3) + record(2, None, -1)
    data = batch([b"a", b"", None], base_offset=10, producer_id=1000, producer_epoch=2, sequence=7,
                 records=records)  # fmt: skip
    found = read_batch(data)

    assert (10, 1000, 2, 7, 3, len(data)) == (
        found.base_offset, found.producer_id, found.producer_epoch, found.sequence, found.count,
        found.end,
    )  # fmt: skip
    assert (
        Record(10, None, b"a"),
        Record(11, None, b""),
        Record(12, None, None),
    ) == found.records


def test_long_values() -> None:
    """A length that takes three bytes is read as well as one that takes one."""
    values = [bytes(70), bytes(9_000), bytes(2_000_000)]

    assert values == [found.value for found in read_batch(batch(values)).records]


@pytest.mark.parametrize("at", [21, 30, 61, -1])
def test_flipped_byte_fails_the_crc(at: int) -> None:
    """Every byte behind the CRC is covered by it; the broker itself writes the offset before it."""
    data = bytearray(batch([b"0"], base_offset=0))
    data[7] = 9
    assert 9 == read_batch(bytes(data)).base_offset

    data[at] ^= 1
    with pytest.raises(DamagedBatch, match="fails its CRC"):
        read_batch(bytes(data))


def test_compressed_batch_stays_packed() -> None:
    """A compressed batch has a count, and no records."""
    found = read_batch(batch([b"0", b"1"], attributes=GZIP, records=b"packed"))

    assert ("gzip", 2, ()) == (found.compression, found.count, found.records)


@pytest.mark.parametrize(("number", "name"), [(0, "ABORT"), (1, "COMMIT")])
def test_marker(number: int, name: str) -> None:
    """A control batch says whether its transaction was committed or aborted."""
    key = b"\x00\x00\x00" + bytes([number])
    body = b"\x00" + b"\x00" + b"\x00" + b"\x08" + key + b"\x0c" + bytes(6) + b"\x00"
    data = batch([b""], attributes=CONTROL | TRANSACTIONAL, records=bytes([len(body) * 2]) + body)

    found = read_batch(data)

    assert (name, True, True) == (found.marker, found.is_control, found.is_transactional)


def test_several_batches_in_one_record_set() -> None:
    """The headers of a record set are read one behind the other, from where it lies."""
    data = b"before" + batch([b"0"], sequence=0) + batch([b"1", b"2"], sequence=1) + b"after"

    headers = list(read_headers(data, 6, len(data) - 5))

    assert [(0, 1), (1, 2)] == [(header.sequence, header.count) for header in headers]


def test_unfinished_end_of_a_segment(tmp_path: Path) -> None:
    """A batch that the broker is still writing is left out; what is whole is read."""
    whole = batch([b"0"], base_offset=0) + batch([b"1"], base_offset=1)
    for rest in (b"", batch([b"2"])[:-1], batch([b"2"])[:11], bytes(100)):
        (tmp_path / "segment.log").write_bytes(whole + rest)

        assert [0, 1] == [found.base_offset for found in read_segment(tmp_path / "segment.log")]


def test_damaged_segment_is_refused(tmp_path: Path) -> None:
    """A whole batch with a wrong CRC is not passed over in silence."""
    damaged = batch([b"0"])[:-1] + b"\xff"
    (tmp_path / "segment.log").write_bytes(batch([b"0"]) + damaged)

    with pytest.raises(DamagedBatch, match=f"at byte {len(batch([b'0']))}"):
        list(read_segment(tmp_path / "segment.log"))


def test_log_end_follows_a_log(tmp_path: Path) -> None:
    """The end grows with whole batches alone, and is looked for anew where a log was cut back."""
    path, end = tmp_path / "00000000000000000005.log", LogEnd(tmp_path)
    assert end.look() is None  # this broker does not have the partition
    first, second = batch([b"5"], base_offset=5), batch([b"6", b"7"], base_offset=6)
    other = batch([b"six", b"7", b"8"], base_offset=6)
    seen = []
    for content in (b"", first, first + second[:-1], first + second, first, first + other):
        path.write_bytes(content)
        seen.append(end.look())
    (tmp_path / "00000000000000000009.log").touch()

    assert [5, 6, 6, 8, 6, 9, 9] == [*seen, end.look()]


def test_log_that_is_replaced_between_two_looks(tmp_path: Path) -> None:
    """A batch of the same size in the place of the last one known is another batch."""
    path, end = tmp_path / "00000000000000000000.log", LogEnd(tmp_path)
    path.write_bytes(batch([b"0"]) + batch([b"1"], base_offset=1))
    before = end.look()
    path.write_bytes(batch([b"a"] * 9) + batch([b"b"], base_offset=9))

    assert (2, 10) == (before, end.look())
