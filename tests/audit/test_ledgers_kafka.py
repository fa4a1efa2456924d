"""Any ledger: what is read of it, and what is left out, by file, line and reason."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab_utils.audit.ledgers import (
    SAMPLED,
    Ledger,
    listed,
    parquet_rows,
    read,
    readable,
    whole_events,
)
from lab_utils.audit.session import spark
from lab_utils.errors import LedgerError
from lab_utils.ledger.store import write_ledger
from tests.histories import acked, in_run, log, sent

pytestmark = pytest.mark.kafka

SENT = {"run": "r", "source": "client", "actor": "p", "kind": "sent", "at_ns": 1, "topic": "t",
        "value": "1"}  # fmt: skip
ACKED = SENT | {"kind": "acked", "partition": 0, "offset": 0}
WHOLE = json.dumps(SENT)
NO_OFFSETS = "offsets in detail is no list of topic-partition:offset"


def line(**columns: Any) -> str:
    return json.dumps(ACKED | columns)


# What a line is, and why it is no event; None if it is one.
LINES: list[tuple[str | bytes, str | None]] = [
    (WHOLE, None),
    (WHOLE[:40], "no whole JSON object"),
    ("", None),
    (line(offset="5"), "offset is no whole number"),
    (line(offset=5.5), "offset is no whole number"),
    (line(offset=True), "offset is no whole number"),
    (line(offset=2**63), "offset is no whole number"),
    (line(offset=2**63 - 1), "offset is too large"),
    (line(offset=2**62), None),
    (line(records=2**31 + 1), "records is too large"),
    (line(offset=-1001), None),
    (line(kind="delivered", offset=-1001), "offset is below 0"),
    (line(partition=-1), "partition is below 0"),
    (line(kind="sought", offset=-2), None),
    (line(at_ns=None), "at_ns is missing"),
    ('{"run":"r","source":"client","actor":"p","kind":"acked"}', "at_ns is missing"),
    (line(at_ns="1"), "at_ns is no whole number"),
    (line(run=None), "run is missing"),
    (line(kind="asked"), "unknown source and kind"),
    (line(source="wire"), "unknown source and kind"),
    (line(fate="lost"), "unknown fate"),
    (line(topic=None), "topic is missing"),
    (line(partition=None), "partition is missing"),
    (line(offset=None), None),
    (line(source="log", kind="transaction", offset=None), "offset is missing"),
    (line(kind="delivered", offset=None), "offset is missing"),
    # as a misspelt setting of a client: the verdict is undecided
    (line(source="workload", kind="topic", detail={"replicas": "3.5"}), None),
    (line(source="log", kind="end", detail={"start": " 5"}), None),
    (line(kind="sought", partition=None), "partition is missing"),
    (
        line(kind="txn_failed", topic=None, partition=None, detail={"called_at_ns": "now"}),
        "called_at_ns in detail is no whole number",
    ),
    (line(detail="acks=all"), "detail is no object"),
    # As Python writes a boolean, and people a word.
    (
        line(source="log", kind="end", detail={"drained": "True"}),
        "drained in detail is neither true nor false",
    ),
    (
        line(kind="created", detail={"role": "Producer"}),
        "role in detail is neither producer nor consumer",
    ),
    (
        line(kind="sought", detail={"to": "latest"}),
        "to in detail is none of beginning, bookmark, end",
    ),
    (line(kind="sought", detail={"to": "end"}), None),
    (line(kind="txn_offsets_sent", detail={"offsets": ["t-0:1", "t-1:-1001"]}), None),
    *(
        (line(kind="txn_offsets_sent", detail={"offsets": it}), NO_OFFSETS)
        for it in ("t-0:1", {"t-0": 1}, ["t:0:1"], [["t", 0, 1]])
    ),
    (line(detail={"acks": 1, "none": None}), None),
    (line(at_ns=2, value="}{ and \u2028 and \x00"), None),
    ('["a", "list"]', "no whole JSON object"),
    ("null", "no whole JSON object"),
    (WHOLE + WHOLE, "more in the line than one event; only the first was read"),
    (WHOLE + " " + WHOLE, "more in the line than one event; only the first was read"),
    *(
        (WHOLE + more, "more in the line than one event; only the first was read")
        for more in ("x", "," + WHOLE, ",\t" + WHOLE, "] " + WHOLE)
    ),
    (line(at_ns=4, value=[{"a": 1}, {"b": {}}], detail={"a": {}, "b": {}}), None),
    (WHOLE[:-1] + ', "detail": {"a": "1", "b": "2", "a": "1"}}', "a name twice in detail"),
    ("\t \r", None),
    (b'{"run":"r","source":"client","actor":"\xff","kind":"sent","at_ns":1}', "no UTF-8"),
    (line(schema="new"), "schema is no whole number"),
    (line(at_ns=3, schema=1), None),
]


def written(path: Path, *lines: str | bytes) -> Path:
    """A file of these lines; the last one has no end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(it if isinstance(it, bytes) else it.encode() for it in lines))
    return path


def ledger(tmp_path: Path, *paths: Path) -> Ledger:
    files = listed(spark(), [str(path) for path in paths])
    return read(spark(), files, f"file://{tmp_path}/compacted")


def test_each_line_that_is_no_event_is_counted_and_named(tmp_path: Path) -> None:
    """By its reason and its number; every other line is an event."""
    file = written(tmp_path / "ledger" / "a b.jsonl", *(text for text, _ in LINES))
    got = ledger(tmp_path, file)
    wrong = [(number, reason) for number, (_, reason) in enumerate(LINES, 1) if reason]

    assert wrong[:20] == [(number, reason) for _, number, reason, _ in got.rejected.first]
    assert Counter(reason for _, reason in wrong) == {
        reason: count for (_, reason), count in got.rejected.counts.items()
    }
    assert len(wrong) == sum(got.rejected.counts.values())
    assert {str(file)} == {readable(name) for name, _ in got.rejected.counts}
    # A line with more than one event has one, too, and an empty line is none.
    assert len(LINES) - 2 - len(wrong) + 6 == got.events.count()


def test_an_offset_below_0(tmp_path: Path) -> None:
    """It is none, as clients say it, and where a reader begins it is a name."""
    numbers = [-1, -2, -1000, -1001, -2003]
    lines = [line(kind="sought", offset=it, detail={"to": None, "by": "x"}) for it in numbers]
    got = ledger(tmp_path, written(tmp_path / "a.jsonl", line(offset=-1), *lines)).events

    assert [(None, None)] + [
        (None, {"by": "x", "to": to}) for to in ("end", "beginning", "bookmark", "bookmark", "end")
    ] == [(row.offset, row.detail) for row in got.collect()]


def test_lines_are_numbered_across_the_parts_of_a_file(tmp_path: Path) -> None:
    """Spark reads a large file in parts; a line has the number that an editor gives it."""
    lines = [WHOLE] * 6_000
    lines[2_345] = lines[5_999] = "torn"
    written(tmp_path / "ledger" / "large.jsonl", *lines)
    spark().conf.set("spark.sql.files.maxPartitionBytes", "60000")
    try:
        got = ledger(tmp_path, tmp_path / "ledger")
    finally:
        spark().conf.unset("spark.sql.files.maxPartitionBytes")

    assert [2_346, 6_000] == [number for _, number, _, _ in got.rejected.first]
    assert 5_998 == got.events.count()


def test_what_may_lie_in_a_folder(tmp_path: Path) -> None:
    """Folders of runs, of any depth and name; compressed; and nothing that is no ledger."""
    folder = tmp_path / "runs [a]*{b}"
    write_ledger(folder / "00" / "00-a", in_run("00-a", [sent("1"), acked("1", 0)]))
    write_ledger(folder / "00" / "00-b", in_run("00-b", log("1")), "log")
    (folder / "more").mkdir()
    with gzip.open(folder / "more" / "old.jsonl.gz", "wt") as file:
        file.write(WHOLE + "\n" + WHOLE[:9])
    written(folder / "notes.txt", "no ledger")
    written(folder / ".hidden" / "x.jsonl", "no ledger")
    got = ledger(tmp_path, folder)

    assert 5 == got.events.count()
    assert [2] == [number for _, number, _, _ in got.rejected.first]


def test_parquet_of_another_program(tmp_path: Path) -> None:
    """A frame of pandas has floats for numbers with gaps, structs for objects, bytes for values."""
    rows = [
        ACKED | {"value": b"1", "offset": 0, "detail": {"acks": "all"}},
        ACKED | {"value": b"2", "offset": None},
        ACKED | {"value": None, "offset": 2},
        ACKED | {"value": b"\xff", "offset": 3},
        ACKED | {"value": b"4", "offset": 4.5},
        ACKED | {"value": b"5", "kind": "delivered", "offset": -1001},
    ]
    (tmp_path / "ledger").mkdir()
    pd.DataFrame(rows).assign(more=1).to_parquet(tmp_path / "ledger" / "a.parquet")
    got = ledger(tmp_path, tmp_path / "ledger")

    assert [("1", 0, {"acks": "all"}), ("2", None, None), (None, 2, None)] == [
        (row.value, row.offset, row.detail) for row in got.events.collect()
    ]
    assert [
        (4, "value is no text"),
        (5, "offset is no whole number"),
        (6, "offset is below 0"),
    ] == [(number, reason) for _, number, reason, _ in got.rejected.first]
    assert ["more"] == got.unknown


def test_both_formats_at_once(tmp_path: Path) -> None:
    """What was compacted once is a ledger, too; what was left out then is left out again."""
    once = ledger(tmp_path, written(tmp_path / "a.jsonl", WHOLE, "torn"))
    more = written(tmp_path / "b.jsonl", line(offset=1))
    files = listed(spark(), [str(tmp_path / "compacted"), str(more)])
    got = read(spark(), files, f"file://{tmp_path}/again")

    assert 1 == once.events.count()
    assert ["acked", "sent"] == sorted(row.kind for row in got.events.collect())
    assert ["no whole JSON object"] == [reason for _, reason in got.rejected.counts]


def test_a_column_that_is_misspelt_is_named(tmp_path: Path) -> None:
    """It is left out, and said; the first lines of a file are looked at, then a sample."""
    later = [WHOLE] * SAMPLED[0] + [line(ofset=1, offset=it) for it in range(1, 11)]
    got = ledger(tmp_path, written(tmp_path / "a.jsonl", line(Offset=1), *later))

    assert ["Offset"] == got.unknown


def test_a_name_that_stands_twice_in_a_line(tmp_path: Path) -> None:
    """Its last one is read, and the report says so; one within an object of its own is no other."""
    lines = [WHOLE[:-1] + ', "value": "2"}', line(detail={"value": "3"})]
    got = ledger(tmp_path, written(tmp_path / "a.jsonl", *lines))

    assert ["1", "2"] == sorted(row.value for row in got.events.collect())
    assert ["value (twice in a line; only the last was read)"] == got.unknown


def test_utf_16(tmp_path: Path) -> None:
    """A file as PowerShell's > writes it is no ledger: numbers in its detail would be lost."""
    (tmp_path / "a.jsonl").write_bytes("\n".join([line(detail={"acks": 1})] * 2).encode("utf-16"))
    read_back = ledger(tmp_path, tmp_path / "a.jsonl")

    assert (0, 2) == (read_back.events.count(), read_back.rejected.counts.total())


def test_a_schema_from_the_future(tmp_path: Path) -> None:
    """It is refused as a whole, with what to do."""
    with pytest.raises(LedgerError, match=r"of schema 2, .* up to 1.* Update the lab"):
        ledger(tmp_path, written(tmp_path / "a.jsonl", WHOLE, line(schema=2)))


@pytest.mark.parametrize(
    ("one", "other"),
    [("ada/log.jsonl", "bob/log.jsonl"), ("ada/log.parquet", "bob/log.parquet"),
     ("ada/log.jsonl", "ada/log.jsonl.gz")],
)  # fmt: skip
def test_two_ledgers_with_a_run_of_one_name(tmp_path: Path, one: str, other: str) -> None:
    """Each witness of a run has one file: two files of one name are of two runs."""
    for name in (one, other):
        file = tmp_path / "runs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".parquet":
            pd.DataFrame([SENT]).to_parquet(file)
        else:
            (gzip.open if file.suffix == ".gz" else open)(file, "wt").write(WHOLE)
    with pytest.raises(LedgerError, match=f"'r' is in .*/{one} and in .*/{other}: two"):
        ledger(tmp_path, tmp_path / "runs")


def test_a_copy_of_a_file(tmp_path: Path) -> None:
    """Its events would count twice, whatever its name is; files of one size are no copies."""
    one, other = (written(tmp_path / f"{name}.jsonl", line(offset=int(name))) for name in "12")
    assert not listed(spark(), [str(tmp_path)]).namesakes
    other.write_bytes(one.read_bytes())

    with pytest.raises(LedgerError, match=r"2\.jsonl is a copy of .*1\.jsonl: .* Delete the copy"):
        listed(spark(), [str(tmp_path)])


@pytest.mark.parametrize("kind", ["acked", "delivered"])
def test_a_copy_of_lines(tmp_path: Path, kind: str) -> None:
    """It is refused, in one file or in two; what has its own time, place or client is no copy."""
    rows = [line(kind=kind), *(line(kind=kind, **{it: 5}) for it in ("at_ns", "offset", "actor"))]
    file = written(tmp_path / "a.jsonl", *rows, WHOLE, WHOLE, *[line(offset=None)] * 2)
    if kind == "acked":
        assert len(rows) + 4 == ledger(tmp_path, file).events.count()
    more = written(tmp_path / "b.jsonl", WHOLE, rows[2])

    with pytest.raises(LedgerError, match=rf"{file} has a copy .* {kind} .* offset 5 .* 2 times"):
        ledger(tmp_path, file, more)


@pytest.mark.parametrize("array", ["[]", f"[{WHOLE}, {WHOLE}]"])
def test_an_array_of_events(tmp_path: Path, array: str) -> None:
    """A program that writes its list as one piece of JSON is told so, and what to do."""
    file = written(tmp_path / "a.jsonl", WHOLE, array)
    with pytest.raises(LedgerError, match=f"{file} has a JSON array"):
        ledger(tmp_path, file)


@pytest.mark.parametrize("name", ["nowhere", "empty", "notes.txt", "empty.jsonl"])
def test_no_ledger(tmp_path: Path, name: str) -> None:
    """What is missing, empty or something else is named."""
    (tmp_path / "empty").mkdir()
    written(tmp_path / "notes.txt", "no ledger")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(LedgerError, match=f"there is no ledger at .*{name}"):
        listed(spark(), [str(tmp_path / name)])


def test_parquet_with_a_time(tmp_path: Path) -> None:
    """A timestamp in nanoseconds, as pandas writes it, is the number of these."""
    rows = pd.DataFrame([SENT | {"at_ns": pd.Timestamp(7, unit="ns"), "when": pd.Timestamp(7)}])
    rows.to_parquet(tmp_path / "a.parquet")
    got = ledger(tmp_path, tmp_path / "a.parquet")

    assert ([7], ["when"]) == ([row.at_ns for row in got.events.collect()], got.unknown)


def test_parquet_without_a_wrong_row_is_looked_at_once(tmp_path: Path) -> None:
    """No query asks again whether a row is one; what it asks, the files themselves can answer."""
    pq.write_table(pa.Table.from_pylist([ACKED | {"offset": -1}, SENT]), tmp_path / "a.parquet")
    found = ledger(tmp_path, tmp_path)
    plans = [
        events.where("kind = 'acked'")._explain_string()
        for events in (
            found.events,
            whole_events(parquet_rows(spark().read.parquet(str(tmp_path)))),
        )
    ]

    assert [True, False] == ["EqualTo(kind,acked)" in plan for plan in plans]
    assert [None] == [row.offset for row in found.events.where("kind = 'acked'").collect()]


def test_parquet_that_cannot_be_joined(tmp_path: Path) -> None:
    """Two files that mean different things by one column are refused in a sentence.

    So is a file with numbers of a type that Spark does not read.
    """
    for name, offset in (("a/a", 0), ("a/b", "0"), ("b/a", np.float16(0))):
        file = tmp_path / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        pd.DataFrame([ACKED | {"offset": offset}]).to_parquet(file)
    for folder, which in (("a", "offset: BIGINT.* offset: STRING"), ("b", "FLOAT16")):
        with pytest.raises(LedgerError, match=rf"as one ledger: .*{which}.* with one type"):
            ledger(tmp_path, tmp_path / folder)


@pytest.mark.parametrize("name", ["torn.jsonl.gz", "no.parquet"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    """It is named, and nothing is judged without it."""
    torn = gzip.compress(bytes(Random(0).choices(range(256), k=100_000)))[:-20]
    (tmp_path / name).write_bytes(torn)
    with pytest.raises(LedgerError, match=f"torn, or not what its name says: .*{name}.*Take it"):
        ledger(tmp_path, tmp_path)


HALVES = [r"\udcff", r"\uDCFE\udcff", r"\ud83d", r"\ud83d\ud83d\ude00"]


@pytest.mark.parametrize("half", HALVES)
def test_half_of_a_surrogate_pair(tmp_path: Path, half: str) -> None:
    """Spark reads each as a question mark: two orders would be one, and one a duplicate."""
    values = (r"\ud83d\ude00", r"\\udcff", r"\\\\ud83d", r"\ufffd")
    whole = [WHOLE.replace('"1"', f'"{it}"') for it in values]
    read_back = ledger(tmp_path, written(tmp_path / "a.jsonl", *whole)).events
    assert {json.loads(f'"{it}"') for it in values} == {it.value for it in read_back.collect()}

    file = written(tmp_path / "b.jsonl", WHOLE, WHOLE.replace('"1"', f'"{half}"'))
    with pytest.raises(LedgerError, match=f"{file} has half of a surrogate pair, .* in 1 lines"):
        ledger(tmp_path, file)


def test_parquet_with_a_detail_of_any_type(tmp_path: Path) -> None:
    """What is a map, a struct or JSON is read; all else is named, and no error of Spark's."""
    details: dict[str, Any] = {
        "text": '{"a": "1"}', "bytes": b'{"a": "1"}', "struct": {"a": "1"}, "list": [{"a": "1"}],
        "number": 5, "truth": True, "time": pd.Timestamp(7, unit="us"), "nothing": None,
    }  # fmt: skip
    got = {}
    for name, detail in details.items():
        file = tmp_path / f"{name}.parquet"
        pd.DataFrame([SENT | {"detail": detail}]).to_parquet(file)
        found = ledger(tmp_path, file)
        got[name] = [row.detail for row in found.events.collect()] or [
            reason for _, _, reason, _ in found.rejected.first
        ]
    read_as_is = {key: [{"a": "1"}] for key in ("text", "bytes", "struct")}
    refused = {key: ["detail is no object"] for key in ("list", "number", "truth", "time")}
    assert read_as_is | refused | {"nothing": [None]} == got


def test_parquet_with_columns_of_its_own(tmp_path: Path) -> None:
    """`wrong` and `file` are an audit's only where it has written them; they are named."""
    table = pa.Table.from_pylist([SENT | {"wrong": 0, "file": "x", "_bad": "y"}])
    table = table.append_column("key", pa.array([float("nan")], pa.float64()))
    pq.write_table(table, tmp_path / "a.parquet")
    got = ledger(tmp_path, tmp_path / "a.parquet")

    assert [("1", None)] == [(row.value, row.key) for row in got.events.collect()]
    assert ["_bad", "file", "wrong"] == got.unknown
    pd.DataFrame([SENT | {"_metadata": 1}]).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(LedgerError, match="a column _metadata, a name of Spark's"):
        ledger(tmp_path, tmp_path / "b.parquet")


def test_parquet_with_text_that_is_none(tmp_path: Path) -> None:
    """Arrow lets bytes pass for text, and nobody could print them."""
    texts = pa.array([b"1", b"\xff"], pa.binary()).view(pa.string())
    table = pa.Table.from_pylist([SENT, SENT])
    table = table.set_column(table.schema.get_field_index("value"), "value", texts)
    pq.write_table(table, tmp_path / "a.parquet")
    got = ledger(tmp_path, tmp_path / "a.parquet")

    assert [(2, "value is no text")] == [(row, why) for _, row, why, _ in got.rejected.first]


@pytest.mark.parametrize("column", ["topic", "key"])
def test_parquet_in_folders_that_name_a_column(tmp_path: Path, column: str) -> None:
    """A column that is in no file is not read; one that is in them, or is not ours, is."""
    files = []
    for folder, row in ((f"{column}=a", SENT | {column: "a"}), ("day=1", SENT | {"at_ns": 2})):
        files.append(tmp_path / "ledger" / folder / f"{folder}.parquet")
        files[-1].parent.mkdir(parents=True)
        pd.DataFrame([row]).to_parquet(files[-1])
    assert 2 == ledger(tmp_path, tmp_path / "ledger").events.count()
    for file in files:
        pd.read_parquet(file).drop(columns=column, errors="ignore").to_parquet(file)

    with pytest.raises(
        LedgerError, match=f"have {column} in the names .* as {column}=…, and in no"
    ):
        ledger(tmp_path, tmp_path / "ledger")
