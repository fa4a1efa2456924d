"""Any ledger: JSONL or Parquet, written by the lab or by another program, checked row by row.

    PATH ... ──▶ rows ──┬──▶ events    the columns of Event: what the audit judges
                        └──▶ rejected  what is no event: counted by file and reason, the first
                                       ones with their line

Spark does the work: no loop in Python sees a line. docs/ledger.md describes the format, and
`rejected` is how a ledger of another program learns where it does not keep to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from lab_utils.audit.facts import sql
from lab_utils.errors import LedgerError
from lab_utils.ledger.events import (
    FATES,
    IN_DETAIL,
    KINDS,
    LIMITS,
    NEEDED,
    SCHEMA,
    SPARK_TYPES,
    Event,
    spark_schema,
)
from lab_utils.ledger.json_lines import (
    BLANK,
    HALF,
    MORE_THAN_ONE,
    REST_LOST,
    TWICE,
    TWICE_IN_DETAIL,
    refuse_half_a_pair,
)
from lab_utils.ledger.on_disk import JSONL, PARQUET, is_local, local_files, refuse_copies, unread

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

WITNESS: Final = "([^/]*?)[.](jsonl|jsonl[.]gz|parquet)$"

COLUMNS: Final = {
    column.name: SPARK_TYPES[str(column.type).removesuffix(" | None")] for column in fields(Event)
}
NUMBERS: Final = [name for name, kind in COLUMNS.items() if kind == "BIGINT"]
TEXTS: Final = [name for name, kind in COLUMNS.items() if kind == "STRING"]
DETAIL: Final = COLUMNS["detail"]
# In the order in which a reader wants to hear of them.
REQUIRED: Final = ("run", "source", "actor", "kind", "at_ns")
# Kinds that are nothing without the place of a record.
PLACED: Final = ("delivered", "processed", "record", "batch", "marker", "visible", "seen")
# By an offset below 0 a client says that it knows none, or names where it begins to read: of
# librdkafka's numbers, those up to -2000 count from the end.
READ_AS: Final = {
    "offset": "if(offset < 0, NULL, offset)",
    "detail": "if(kind = 'sought' AND offset < 0 AND detail['to'] IS NULL, map_concat("
    "map_filter(coalesce(detail, map()), (name, _) -> name <> 'to'), map('to',"
    " CASE WHEN offset = -2 THEN 'beginning' WHEN offset IN (-1000, -1001) THEN 'bookmark'"
    " ELSE 'end' END)), detail)",
}

# How many rejected rows are named with their line, and from how many files at most.
SHOWN: Final = 20
SHOWN_FILES: Final = 5
EXCERPT: Final = 100
# The names of a ledger's columns are looked at in the first rows of each part, and in one of these.
SAMPLED: Final = (100, 1000)


class Rejected(NamedTuple):
    """What no finding rests on.

    counts  how many rows of each file have which reason
    first   some of the first ones: file, line (in Parquet the row, from 1), reason, excerpt
    """

    counts: Counter[tuple[str, str]]
    first: list[tuple[str, int, str, str]]


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger that has been read.

    events    one row an event, the columns of Event
    unknown   names of columns that the format does not have, or a line twice; they were left out
    """

    events: DataFrame
    rejected: Rejected
    unknown: list[str]


class Listed(NamedTuple):
    """The files of a ledger: where Spark begins to look, and how many bytes of each format.

    namesakes  have two of the files one name, whatever their formats are?
    unread     files that may be a ledger and are not read, for their names
    columns    names that Parquet files have in those of their folders, as run=a
    """

    roots: list[str]
    jsonl: int
    parquet: int
    namesakes: bool
    unread: list[str]
    columns: set[str]


def listed(spark: SparkSession, paths: Sequence[str]) -> Listed:
    """The files of a ledger. Raises LedgerError if there is none at one of the paths."""
    roots, files, names = [], Counter[tuple[str, ...]](), Counter[str]()
    local: dict[str, int] = {}
    others: dict[str, None] = {}
    columns: set[str] = set()
    for path in paths:
        found = local_files(path) if is_local(path) else _remote_files(spark, path)
        if not found:
            raise LedgerError(
                f"there is no ledger at {path}: no file there ends in .jsonl, .jsonl.gz or "
                ".parquet. Name a run's folder, a folder of such folders, or a file."
            )
        roots.append(root(path))
        local |= found if is_local(path) else {}
        others |= dict.fromkeys(unread(path) if is_local(path) else ())
        for name, size in found.items():
            if name.endswith(PARQUET):
                columns |= {*re.findall("/([^/=]+)=[^/]*(?=/)", name)} & {*COLUMNS}
            files[JSONL if name.endswith(JSONL) else PARQUET] += size
            names[re.sub(f".*/{WITNESS}", r"\1", name, flags=re.DOTALL)] += 1
    if not files.total():
        raise LedgerError(
            f"there is no ledger at {', '.join(paths)}: each file there is empty. Run the program "
            "that records it, to its end; docs/ledger.md shows one."
        )
    refuse_copies(local)
    shared = max(names.values()) > 1
    return Listed(roots, files[JSONL], files[PARQUET], shared, [*others], columns)


def root(path: str | Path) -> str:
    """A path as Spark reads it, whatever its cluster's own file system is."""
    return literal(f"file://{Path(path).absolute()}") if is_local(str(path)) else str(path)


def literal(path: str) -> str:
    r"""A path that Spark takes as it is: it reads [a], {b}, * and ? as patterns.

    >>> literal("/runs/00[1]")
    '/runs/00\\[1\\]'
    """
    return re.sub(r"([][{}*?\\])", r"\\\1", path)


def _remote_files(spark: SparkSession, path: str) -> dict[str, int]:
    from pyspark.errors import PySparkException

    try:
        rows = _reader(spark, "*").format("binaryFile").load(path).select("path", "length")
        return {row[0]: row[1] for row in rows.collect() if row[0].endswith(JSONL + PARQUET)}
    except PySparkException as error:
        said = str(error).splitlines()[0]
        raise LedgerError(f"Spark cannot list {path}: {said}") from None


@contextmanager
def broken_files_named() -> Iterator[None]:
    """Raises LedgerError where Spark cannot read a file."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if not _is_broken_file(error):
            raise
        raise LedgerError(
            f"a file of the ledger is torn, or not what its name says: {str(error).splitlines()[0]}"
            " Nothing was judged without it. Take it out, or write it again; of a torn .gz "
            '"gzip -dc FILE.jsonl.gz > FILE.jsonl" saves what is whole.'
        ) from None


def _is_broken_file(error: PySparkException) -> bool:
    return (error.getCondition() or "").startswith("FAILED_READ_FILE")


@broken_files_named()
def read(spark: SparkSession, files: Listed, place: str) -> Ledger:
    """Read a ledger; JSONL is compacted to Parquet at `place`, from where it is judged.

    Raises LedgerError if the ledger is of a newer schema, or if a file or its columns cannot be
    read.
    """
    parts = []
    unknown: set[str] = set()
    rejected = Rejected(Counter(), [])
    if files.jsonl:
        survey = _surveyed(spark, files.roots)
        refuse_half_a_pair(survey.halves)
        rejected.counts.update(survey.joined)
        unknown |= survey.unknown
        rows, counts = _compacted(spark, files.roots, place, survey)
        parts.append(rows)
        rejected.counts.update(counts)
        rejected.first.extend(_first_lines(spark, rejected.counts))
    if files.parquet:
        raw = _parquet(spark, files.roots)
        for name in sorted(files.columns - {*raw.columns}):
            raise LedgerError(
                f"the Parquet files have {name} in the names of their folders, as {name}=…, and in "
                "no column: each event would be judged without it. Write it into the files, too."
            )
        kept = _KEPT if _is_kept(raw) else ()
        unknown |= {name for name in raw.columns if name not in (*COLUMNS, "schema", *kept)}
        _, counts = _counted(rows := parquet_rows(raw))
        parts.append(rows if counts else parquet_rows(raw, is_clean=True))
        rejected.counts.update(counts)
        rejected.first.extend(_first_rows(rows) if counts else ())
    said = reduce(lambda some, more: some.union(more), (it.select(*_SAID, "file") for it in parts))
    if files.namesakes:
        _refuse_two_of_a_name(said)
    _refuse_what_was_told_twice(said)
    events = reduce(lambda some, more: some.unionByName(more), map(whole_events, parts))
    return Ledger(events, rejected, sorted(unknown))


def _compacted(
    spark: SparkSession, roots: Sequence[str], place: str, survey: Survey
) -> tuple[DataFrame, Counter[tuple[str, str]]]:
    from pyspark.errors import PySparkException

    json_rows(spark, roots).write.mode("overwrite").parquet(place)
    try:
        rows = spark.read.parquet(literal(place))
        written, counts = _counted(rows)
    except PySparkException:
        written = 0
    lines = sum(survey.lines.values())
    if written != lines and survey.arrays:
        raise LedgerError(
            f"{readable(min(survey.arrays))} has a JSON array where a ledger has one object a "
            "line. Write each event into a line of its own, for example by "
            "\"jq -c 'arrays[], objects' FILE > EVENTS.jsonl\"."
        )
    if written != lines:
        # Workers that do not share the folder write to disks of their own, and nobody complains.
        raise LedgerError(
            f"{lines:,} lines were read, and {written:,} are in {readable(place)}. Either the "
            "ledger still grows, or Spark's workers do not share that folder: name one that they "
            "share as --out."
        )
    return rows, counts


def whole_events(rows: DataFrame) -> DataFrame:
    """The rows that are events, with the columns of Event."""
    return rows.where("wrong IS NULL").select(*COLUMNS)


def json_rows(spark: SparkSession, roots: Sequence[str]) -> DataFrame:
    """The lines of JSONL files: the columns of Event, schema, wrong and file.

    A row with `wrong` is no event; its other columns are null.
    """
    reader = _reader(spark, "*.{jsonl,jsonl.gz}").schema(_JSON).option("mode", "PERMISSIVE")
    # As UTF-8 and nothing else: of UTF-16 Spark reads the texts, and empties the numbers in detail.
    reader = reader.option("encoding", "UTF-8")
    lines = reader.option("columnNameOfCorruptRecord", "_bad").json(list(roots))
    return _checked(
        lines.selectExpr("*", "_metadata.file_path AS file"), _wrong(), "schema", "file"
    )


def parquet_rows(raw: DataFrame, *, is_clean: bool = False) -> DataFrame:
    """The rows of Parquet files: the columns of Event, schema, wrong, file and row.

    If they are known to be clean none is looked at again: each query would do that.
    """
    given = {field.name: field.dataType.simpleString() for field in raw.schema.fields}
    typed: list[str] = []
    lost = ["WHEN wrong IS NOT NULL THEN wrong"] if _is_kept(raw) else []
    for name, wanted in {**COLUMNS, "schema": "BIGINT"}.items():
        value = _converted(name, given[name], wanted) if name in given else "NULL"
        value = name if is_clean and given.get(name) == wanted.lower().replace(" ", "") else value
        typed.append(f"CAST({value} AS {wanted}) AS {name}")
        if name in given:
            # pandas has no other way to leave a number out than NaN.
            there = f"NOT isnan({name})" if given[name] in ("float", "double") else "true"
            lost.append(
                f"WHEN {name} IS NOT NULL AND {there} AND {value} IS NULL "
                f"THEN '{_wrong_type(name)}'"
            )
    bad = f"CASE {' '.join(lost)} END AS _bad" if lost else "CAST(NULL AS STRING) AS _bad"
    place = ("_metadata.file_path AS file", "_metadata.row_index AS row")
    wrong = "CAST(NULL AS STRING)" if is_clean else _wrong("_bad")
    return _checked(raw.selectExpr(*typed, bad, *place), wrong, "schema", "file", "row")


# What a compacted ledger has besides: a row that was rejected then is rejected again.
_KEPT: Final = ("wrong", "file")
_JSON: Final = f"{spark_schema()}, schema BIGINT, _bad STRING"


def _is_kept(raw: DataFrame) -> bool:
    """Has an audit compacted these rows? A program may have a column `wrong` of its own."""
    given = {field.name: field.dataType.simpleString() for field in raw.schema.fields}
    return [given.get(it) for it in (*_KEPT, "schema")] == ["string", "string", "bigint"]


def _parquet(spark: SparkSession, roots: Sequence[str]) -> DataFrame:
    from pyspark.errors import PySparkException

    # pandas writes times as timestamps of nanoseconds, which Spark reads as numbers, or not at all.
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    reader = _reader(spark, "*.parquet").option("mergeSchema", "true")
    try:
        raw = reader.parquet(*roots)
        columns = raw.columns  # Connect reads the schema when it is asked for it.
    except PySparkException as error:
        if _is_broken_file(error):
            raise
        said = " ".join(str(error).split())
        raise LedgerError(
            f"the Parquet files cannot be read as one ledger: {said} A column stands in a file "
            "once, in all files with one type, and a time is a whole number of nanoseconds. Write "
            "them so, or audit them one by one."
        ) from None
    if "_metadata" in columns:
        raise LedgerError(
            "the Parquet files have a column _metadata, a name of Spark's. Rename it."
        )
    return raw


def _reader(spark: SparkSession, names: str) -> DataFrameReader:
    """A reader of the files of these names, in folders of any depth."""
    return spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", names)


def _converted(name: str, given: str, wanted: str) -> str:
    """A Parquet column as the type of the format; what does not fit becomes null."""
    kind = given.partition("(")[0].partition("<")[0]
    text = f"CAST({name} AS STRING)"
    if wanted == DETAIL:
        if kind in ("string", "binary"):
            return f"from_json({text}, '{DETAIL}')"
        if kind == "struct":
            return f"from_json(to_json({name}), '{DETAIL}')"
        return name if kind in ("map", "variant") else "NULL"
    if wanted == "STRING":
        if kind in ("array", "map", "struct"):
            return f"to_json({name})"
        if kind in ("float", "double"):
            return f"if(isnan({name}), NULL, {text})"
        return f"if(is_valid_utf8({text}), {text}, NULL)" if kind in ("string", "binary") else text
    if kind in ("float", "double", "decimal"):
        number = f"try_cast({name} AS BIGINT)"
        return f"if({name} = {number}, {number}, NULL)"
    return name if kind in ("tinyint", "smallint", "int", "bigint") else "NULL"


def _wrong_type(name: str) -> str:
    if name in TEXTS:
        return f"{name} is no text"
    return "detail is no object" if name == "detail" else f"{name} is no whole number"


def _checked(rows: DataFrame, wrong: str, *others: str) -> DataFrame:
    """Rows with the reason why each is no event, if it is none, and then without its columns."""
    found = rows.selectExpr("*", f"{wrong} AS wrong")
    kept = (f"if(wrong IS NULL, {READ_AS.get(name, name)}, NULL) AS {name}" for name in COLUMNS)
    return found.selectExpr(*kept, "wrong", *others)


def _wrong(bad: str = "") -> str:
    """Why a row is no event, as SQL; `bad` says it of what Spark could not read, if not the JSON.

    The JSON is looked at again only where Spark has found it wanting.
    """
    missing = " ".join(f"WHEN {name} IS NULL THEN '{name} is missing'" for name in REQUIRED)
    needed = " ".join(
        f"WHEN {name} IS NULL AND source || ' ' || kind IN ({_kinds(of)}) THEN '{name} is missing'"
        for name, of in NEEDED.items()
    )
    limits = " ".join(
        f"WHEN NOT {name} BETWEEN -{limit} AND {limit} THEN '{name} is too large'"
        for name, limit in LIMITS.items()
    )
    details = " ".join(
        f"WHEN kind = '{kind}' AND detail['{name}'] IS NOT NULL AND NOT coalesce("
        + is_right.format(f"detail['{name}']") + f", false) THEN '{name} in detail is {what}'"
        for kind, names in IN_DETAIL.items()
        for name, (is_right, what) in names.items()
    )  # fmt: skip
    return (
        f"CASE WHEN _bad IS NOT NULL THEN {bad or _WRONG_JSON} {missing} {TWICE_IN_DETAIL} "
        f"WHEN NOT source || ' ' || kind IN ({_kinds(KINDS)}) THEN 'unknown source and kind' "
        f"WHEN NOT fate IN {FATES} THEN 'unknown fate' {needed} {limits} {details} "
        f"WHEN offset < 0 AND kind IN {PLACED} THEN 'offset is below 0' "
        f"WHEN partition < 0 AND source || ' ' || kind IN ({_kinds(NEEDED['partition'])})"
        " THEN 'partition is below 0' END"
    )


def _kinds(of: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"'{source} {kind}'" for source, kinds in of.items() for kind in kinds)


_NO_UTF_8: Final = "no UTF-8"


def _wrong_json() -> str:
    said = "from_json(_bad, 'MAP<STRING, STRING>')"
    types = (
        f"WHEN {name} IS NULL AND {said}['{name}'] IS NOT NULL THEN '{_wrong_type(name)}'"
        for name in (*NUMBERS, "detail", "schema")
    )
    return (
        f"CASE WHEN NOT is_valid_utf8(_bad) THEN '{_NO_UTF_8}' "
        f"WHEN {said} IS NULL THEN 'no whole JSON object' {' '.join(types)} "
        "ELSE 'no event' END"
    )


_WRONG_JSON: Final = _wrong_json()


def torn_files(spark: SparkSession, folder: Path) -> list[str]:
    """The files of a folder that hold lines which are no events, and how many each."""
    _, counts = _counted(json_rows(spark, [root(folder)]))
    lines: Counter[str] = Counter()
    for (file, _), count in counts.items():
        lines[Path(readable(file)).name] += count
    return [f"{name} ({count} lines)" for name, count in sorted(lines.items())]


def _lines(spark: SparkSession, roots: Iterable[str]) -> DataFrame:
    """The lines of JSONL files as text: line, file, block and id, which grows with the line."""
    return (
        _reader(spark, "*.{jsonl,jsonl.gz}")
        .text(list(roots))
        .selectExpr(
            "value AS line", "_metadata.file_path AS file", "_metadata.file_block_start AS block",
            "monotonically_increasing_id() AS id",
        )
    )  # fmt: skip


class Survey(NamedTuple):
    """What the text of JSONL files shows, and Spark's reader of JSON does not say.

    lines    how many there are in each file
    joined   lines with more than one event, as in Rejected
    arrays   the files with lines that begin like an array, of which Spark makes any number of rows
    halves   how many lines of each file have half of a surrogate pair
    unknown  names of columns that are not the format's, or stand twice in a line, in a sample: to
             read those of every line takes as long as all the rest
    """

    lines: dict[str, int]
    joined: dict[tuple[str, str], int]
    arrays: list[str]
    halves: dict[str, int]
    unknown: set[str]


def _surveyed(spark: SparkSession, roots: Sequence[str]) -> Survey:
    known = ", ".join(f"'{name}'" for name in (*COLUMNS, "schema"))
    first, one_in = SAMPLED
    sampled = f"(id & ((1L << 33) - 1) < {first} OR pmod(xxhash64(line), {one_in}) = 0)"
    names = "json_object_keys(line)"
    twice = f"filter({names}, (name, at) -> array_position({names}, name) <= at)"
    others = (
        f"if({sampled}, concat(array_except({names}, array({known})),"
        f" transform({twice}, name -> name || ' ({TWICE})')), NULL)"
    )
    found = sql(
        _lines(spark, roots).where(f"NOT {BLANK}"), ["file"],
        "count(*) AS n",
        f"count_if({MORE_THAN_ONE}) AS joined",
        "bool_or(startswith(ltrim(line), '[')) AS is_array",
        f"count_if({HALF}) AS halves",
        f"collect_set({others}) AS others",
    )  # fmt: skip
    rows = found.collect()
    return Survey(
        {row["file"]: row["n"] for row in rows},
        {(row["file"], REST_LOST): row["joined"] for row in rows if row["joined"]},
        [row["file"] for row in rows if row["is_array"]],
        {readable(row["file"]): row["halves"] for row in rows if row["halves"]},
        {name for row in rows for names in row["others"] for name in names},
    )


# What tells an event from all others.
_SAID: Final = ["run", "actor", "kind", "at_ns", "topic", "partition", "offset", "key", "value"]


def _refuse_two_of_a_name(said: DataFrame) -> None:
    """Two ledgers with runs of one name would be judged as one: acked here, not in that log."""
    named = said.select("run", "file").where("run IS NOT NULL").distinct()
    witnesses = named.selectExpr("*", f"regexp_extract(file, '{WITNESS}', 1) AS witness")
    twice = sql(witnesses, ["run", "witness"], "array_sort(collect_list(file)) AS files")
    for row in twice.where("size(files) > 1").orderBy("run", "witness").limit(1).collect():
        one, other = map(readable, row["files"][:2])
        raise LedgerError(
            f"the run {row['run']!r:.200} is in {one} and in {other}: two ledgers with a run of "
            "one name, whose events would be judged as one. Audit them one by one, or give the "
            "files of one run different names."
        )


def _refuse_what_was_told_twice(said: DataFrame) -> None:
    """A client is told of one record once at one time: what stands there twice was copied."""
    told = said.where("kind IN ('acked', 'delivered') AND offset IS NOT NULL")
    twice = sql(told, _SAID, "count(*) AS times", "min(file) AS file").where("times > 1")
    for row in twice.limit(1).collect():
        raise LedgerError(
            f"{readable(row['file'])} has a copy of events: {row['kind']} by {row['actor']!r:.200} "
            f"at offset {row['offset']} of {row['topic']!r:.99}, {row['times']} times at one time. "
            "Each would be judged as an event of its own. Delete the copies, then run the audit "
            "again; what did happen twice has a time each."
        )


def _counted(rows: DataFrame) -> tuple[int, Counter[tuple[str, str]]]:
    """How many rows there are, and how many of each file are rejected for which reason.

    Raises LedgerError if one is of a newer schema.
    """
    groups = sql(rows, ["file", "wrong"], "count(*)", "max(schema)")
    found = [tuple(row) for row in groups.collect()]
    newest = max((schema or SCHEMA for *_, schema in found), default=SCHEMA)
    if newest > SCHEMA:
        raise LedgerError(
            f"the ledger is of schema {newest}, and this version of the lab knows schemas up to "
            f"{SCHEMA}: it would misread what is new. Update the lab, then run the audit again."
        )
    wrong = Counter({(file, reason): count for file, reason, count, _ in found if reason})
    return sum(count for _, _, count, _ in found), wrong


def _first_lines(
    spark: SparkSession, counts: Counter[tuple[str, str]]
) -> Iterator[tuple[str, int, str, str]]:
    """The first rejected lines of some files; read once more, for only text has lines."""
    files = sorted({file for file, _ in counts})[:SHOWN_FILES]
    if not files:
        return
    lines = _lines(spark, [literal(unquote(file)) for file in files])
    parsed = lines.where(f"NOT {BLANK}").selectExpr(
        "*", f"from_json(line, '{_JSON}', "
        "map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_bad')) AS event",
    )  # fmt: skip
    reason = (
        f"CASE WHEN NOT is_valid_utf8(line) THEN '{_NO_UTF_8}' "
        f"WHEN {MORE_THAN_ONE} THEN '{REST_LOST}' ELSE {_wrong()} END AS reason"
    )
    found = parsed.selectExpr("line", "file", "block", "id", "event.*")
    shown = f"make_valid_utf8(left(line, {EXCERPT})) AS excerpt"
    rejected = found.selectExpr("file", "block", "id", reason, shown).where("reason IS NOT NULL")
    rows = rejected.limit(SHOWN).collect()
    # A block is read in one piece: its lines follow those of the blocks before it.
    blocks = sql(lines, ["file", "block"], "min(id) AS first", "count(*) AS n")
    sizes = {(row["file"], row["block"]): row for row in blocks.collect()}
    for row in sorted(rows, key=lambda it: (it["file"], it["block"], it["id"])):
        before = sum(
            other["n"]
            for (file, block), other in sizes.items()
            if file == row["file"] and block < row["block"]
        )
        line = before + row["id"] - sizes[row["file"], row["block"]]["first"] + 1
        yield row["file"], line, row["reason"], row["excerpt"]


def _first_rows(rows: DataFrame) -> Iterator[tuple[str, int, str, str]]:
    found = rows.where("wrong IS NOT NULL").select("file", "row", "wrong").limit(SHOWN)
    for row in found.collect():
        yield row["file"], row["row"] + 1, row["wrong"], ""


def readable(file: str) -> str:
    """A file as a person writes it: Spark names it as a URL.

    >>> readable("file:/runs/a%20b.jsonl"), readable("s3a://bucket/b.jsonl")
    ('/runs/a b.jsonl', 's3a://bucket/b.jsonl')
    """
    return re.sub("^file:/+", "/", unquote(file))
