"""A query of a learner's on recorded events: a plan that is asked elsewhere, or a stream.

    query(events) ── no Spark ──▶ plan, as bytes ── is it harmless? ──▶ anybody's Spark ──▶ rows
    records of the ledger ── a file for each batch ──▶ Spark's file source ──▶ query ──▶ rows

A plan says what is to be done; it is data, whoever wrote it. One that only picks, counts, joins and
sorts what is in the ledger may be asked on a Spark that others use, too; what else there is, Java
to call, files to read and Python to run, is refused by not being listed here. A stream is any
function from a streaming DataFrame to another one. It runs on the Spark of the notebooks, in
append mode, in the same batches each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import orjson

from lab_utils.audit.session import read_events, small_ledger, spark, unasked
from lab_utils.errors import BadArgument, LabError, WaitTimeout, within
from lab_utils.ledger.events import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

QUERY_S: Final = 120
SIZE_MAX: Final = 1_000_000
SCHEMA: Final = "value STRING, timestamp TIMESTAMP"

# Where the ledger is in a plan, until somebody asks it.
PLACE: Final = "file:///ledger"
PLAN_BYTES_MAX: Final = 50_000
PARTS_MAX: Final = 2_000
# What a plan may consist of: of each message of Spark Connect the fields. A `common` has where in
# the program a part was made, which is left out, and the number by which others refer to it.
SCALARS: Final = {"null", "boolean", "byte", "short", "integer", "long", "float", "double",
                  "decimal", "string", "date", "timestamp", "timestamp_ntz"}  # fmt: skip
PARTS: Final[Mapping[str, set[str]]] = {
    "Relation": {"common", "read", "project", "filter", "join", "set_op", "sort", "limit",
                 "aggregate", "offset", "deduplicate", "subquery_alias", "to_df", "drop",
                 "with_columns", "with_columns_renamed", "fill_na", "drop_na"},
    "RelationCommon": {"plan_id"},
    "Project": {"input", "expressions"},
    "Filter": {"input", "condition"},
    "Join": {"left", "right", "join_condition", "join_type", "using_columns"},
    "SetOperation": {"left_input", "right_input", "set_op_type", "is_all", "by_name",
                     "allow_missing_columns"},
    "Sort": {"input", "order", "is_global"},
    "Limit": {"input", "limit"},
    "Offset": {"input", "offset"},
    "Aggregate": {"input", "group_type", "grouping_expressions", "aggregate_expressions"},
    "Deduplicate": {"input", "column_names", "all_columns_as_keys"},
    "SubqueryAlias": {"input", "alias"},
    "ToDF": {"input", "column_names"},
    "Drop": {"input", "columns", "column_names"},
    "WithColumns": {"input", "aliases"},
    "WithColumnsRenamed": {"input", "renames"},
    "WithColumnsRenamed.Rename": {"col_name", "new_col_name"},
    "NAFill": {"input", "cols", "values"},
    "NADrop": {"input", "cols", "min_non_nulls"},
    "Expression": {"common", "literal", "unresolved_attribute", "unresolved_function",
                   "expression_string", "unresolved_star", "alias", "cast", "sort_order", "window",
                   "unresolved_extract_value"},
    "ExpressionCommon": set(),
    "Expression.Literal": SCALARS,
    "Expression.Literal.Decimal": {"value", "precision", "scale"},
    "Expression.UnresolvedAttribute": {"unparsed_identifier", "plan_id", "is_metadata_column"},
    "Expression.UnresolvedFunction": {"function_name", "arguments", "is_distinct"},
    "Expression.ExpressionString": {"expression"},
    "Expression.UnresolvedStar": {"unparsed_target", "plan_id"},
    "Expression.Alias": {"expr", "name"},
    "Expression.Cast": {"expr", "type", "type_str"},
    "Expression.SortOrder": {"child", "direction", "null_ordering"},
    "Expression.Window": {"window_function", "partition_spec", "order_spec", "frame_spec"},
    "Expression.Window.WindowFrame": {"frame_type", "lower", "upper"},
    "Expression.Window.WindowFrame.FrameBoundary": {"current_row", "unbounded", "value"},
    "Expression.UnresolvedExtractValue": {"child", "extraction"},
    "DataType": SCALARS,
    **{f"DataType.{name}": set() for name in (
        "NULL", "Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Date",
        "Timestamp", "TimestampNTZ", "String")},
    "DataType.Decimal": {"precision", "scale"},
}  # fmt: skip
# Functions of what they are given alone. Not listed: those that call Java (reflect), or make much
# of little (sequence, repeat). How long a plan takes is for whoever asks it to bound.
FUNCTIONS: Final = frozenset((
    "!", "%", "*", "+", "-", "/", "<", "<=", "<=>", "<>", "=", "==", ">", ">=", "abs", "and",
    "any", "any_value", "array", "array_contains", "array_distinct", "array_join", "array_size",
    "avg", "bool_and", "bool_or", "cardinality", "cast", "ceil", "coalesce", "collect_list",
    "collect_set", "concat", "contains", "count", "count_if", "decimal", "dense_rank",
    "element_at", "endswith", "every", "first", "first_value", "floor", "greatest", "if",
    "ifnull", "in", "int", "isnotnull", "isnull", "lag", "last", "last_value", "lead", "least",
    "length", "like", "lower", "max", "max_by", "mean", "min", "min_by", "mod", "named_struct",
    "negative", "not", "nth_value", "nullif", "nvl", "nvl2", "or", "percent_rank", "rank",
    "round", "row_number", "size", "some", "sort_array", "startswith", "string", "struct",
    "substr", "substring", "sum", "trim", "upper", "when",
))  # fmt: skip
# What may stand before a bracket in an expression that is a text.
BEFORE_A_BRACKET: Final = FUNCTIONS | {"", "(", ",", "[", "between", "by", "case", "distinct",
                                       "else", "filter", "over", "then"}  # fmt: skip
# What a query begins with in such an expression, by Spark's grammar (MAP and REDUCE let a shell
# perform a script), and what names a function by a text.
REFUSED: Final = frozenset((
    "exists", "from", "identifier", "lateral", "map", "reduce", "select", "table", "transform",
    "using", "values", "with",
))  # fmt: skip
# A text, a number, a word, or a sign; no comment, no quoted name, no backslash.
TOKENS: Final = re.compile(
    r"""(?:\s|'[^'\\]*+'|"[^"\\]*+"|(?P<word>[A-Za-z_]\w*+)|\d++|(?P<sign>[-=!<>+*/%(),.\[\]]))""",
    re.ASCII,
)
COMMENTS: Final = ("--", "/*")
TYPE: Final = re.compile(r"[a-z]{1,20}(\(\d{1,2}(, ?\d{1,2})?\))?", re.ASCII | re.IGNORECASE)


class NeedsSpark(LabError):
    """A query asked Spark for something before it was whole."""


def planned(query: Callable[[DataFrame], Any]) -> tuple[Any, bytes]:
    """What a query returns for a ledger, and the plan of it; none if it is no DataFrame.

    Raises NeedsSpark if it asked for anything, whatever it made of the answer, and what it raises.
    """
    from pyspark.sql.connect.dataframe import DataFrame as Connected

    with unasked() as (session, asked):
        raised: Exception | None = None
        returned, plan = None, b""
        try:
            returned = query(small_ledger(session, PLACE))
            if isinstance(returned, Connected):
                plan = _relation(returned).SerializeToString()
        except Exception as error:  # a learner's code may raise anything
            raised = error
    if asked:
        raise NeedsSpark(f"the query asked for {asked[0]}.") from raised
    if raised is not None:
        raise raised
    return returned, plan


def rows_of(plan: bytes, folder: Path, most: int) -> list[Row]:
    """What a plan finds in the ledger in `folder`, up to so many rows.

    Raises BadArgument if the plan is none, or may do anything but look into the ledger.
    """
    from pyspark.sql.connect.dataframe import DataFrame as Connected
    from pyspark.sql.connect.plan import LogicalPlan

    with unasked() as (nobody, _):
        placed = _relation(small_ledger(nobody, PLACE)).read
    events: Any = read_events(folder)
    relation = harmless(plan, placed, _relation(events).read)

    class Given(LogicalPlan):
        def plan(self, _: Any) -> Any:
            return relation

    return Connected(Given(None), events._session).limit(most).collect()


def _relation(frame: Any) -> Any:
    return frame._plan.plan(frame._session.client)


def harmless(plan: bytes, placed: Any, read: Any) -> Any:
    """The Relation in these bytes, with `read` where it has `placed`.

    Raises BadArgument for anything that is not listed, and what protobuf raises for other bytes.
    """
    from pyspark.sql.connect.proto import Relation

    if len(plan) > PLAN_BYTES_MAX:
        raise BadArgument(f"the plan has {len(plan)} bytes, more than {PLAN_BYTES_MAX}.")
    relation = Relation.FromString(plan)
    parts = 0
    left = [relation]
    while left:
        part = left.pop()
        parts += 1
        if parts > PARTS_MAX:
            raise BadArgument(f"the plan has more than {PARTS_MAX} parts.")
        if isinstance(part, Relation) and part.WhichOneof("rel_type") == "read":
            if part.read != placed:
                raise BadArgument("the plan reads something other than the ledger.")
            part.read.CopyFrom(read)
            part.common.ClearField("origin")
        else:
            left += _parts(part)
    relation.DiscardUnknownFields()
    return relation


def _parts(message: Any) -> Iterator[Any]:
    """The messages in a message; raises BadArgument for a field that is not listed."""
    if hasattr(message, "common"):
        message.common.ClearField("origin")
    kind = message.DESCRIPTOR.full_name.removeprefix("spark.connect.")
    for field, value in message.ListFields():
        if field.name not in PARTS.get(kind, ()) and value is not False:
            raise BadArgument(f"the plan has {kind}.{field.name}.")
        if (check := CHECKS.get(field.name)) and not check(value):
            raise BadArgument(f"the plan has {field.name} {value!r}.")
        if field.message_type is not None:
            yield from value if field.is_repeated else [value]


def _is_harmless_text(text: str) -> bool:
    """Does an expression ask for nothing but what is in its row, with functions that are listed?"""
    if any(mark in text for mark in COMMENTS):
        return False
    before, at = "", 0
    while at < len(text):
        found = TOKENS.match(text, at)
        if found is None:
            return False
        at = found.end()
        word, sign = (found["word"] or "").lower(), found["sign"]
        if word in REFUSED:
            return False
        if sign == "(" and before not in BEFORE_A_BRACKET:
            return False
        if not found.group().isspace():
            before = word or sign or "a value"
    return True


CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "expression": _is_harmless_text,
    "function_name": lambda name: name.lower() in FUNCTIONS,
    "type_str": lambda name: TYPE.fullmatch(name) is not None,
}


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: the records it read, the rows that came out, and what it left as state.

    records    value and time of each
    watermark  the one that it began with, as text; empty if the query has none
    state      how many rows the query remembers after it
    """

    records: tuple[tuple[str, str], ...]
    watermark: str
    rows: tuple[dict[str, Any], ...]
    state: int


def streamed(
    query: Callable[[DataFrame], DataFrame], rows: Sequence[Event], size: int
) -> list[Batch]:
    """Let a query read the orders of a run as a stream, `size` records in a batch.

    After the last record Spark may plan one more batch, without any, to clean up the state. Raises
    BadArgument for a query that is none, and what Spark raises.
    """
    within("size", size, 1, SIZE_MAX)
    if not callable(query):
        raise BadArgument(
            f"a query is a function that takes a DataFrame; got {query!r:.200}. Pass the function "
            "itself, without calling it."
        )
    records = [
        (row.value or "", _time(int(row.detail["timestamp_ms"])))
        for row in rows
        if (row.source, row.kind, row.topic) == ("log", "record", f"{row.run}-orders")
    ]
    given = [tuple(records[at : at + size]) for at in range(0, len(records), size)]
    with TemporaryDirectory(prefix="lab-stream-", ignore_cleanup_errors=True) as folder:
        _write(Path(folder) / "in", given)
        progress, out = _performed(query, Path(folder))
    return list(_batches(given, progress, out))


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _write(folder: Path, given: Sequence[tuple[tuple[str, str], ...]]) -> None:
    """A file for each batch; Spark reads the oldest first."""
    folder.mkdir()
    for number, records in enumerate(given):
        path = folder / f"{number:06}.json"
        lines = (orjson.dumps({"value": value, "timestamp": at}) for value, at in records)
        path.write_bytes(b"\n".join(lines))
        os.utime(path, (number, number))


def _performed(
    query: Callable[[DataFrame], DataFrame], folder: Path
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Run the query to the end of its files: the progress of each batch, and the rows."""
    files = spark().readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    found = query(files.json(str(folder / "in")))
    if not getattr(found, "isStreaming", False):
        raise BadArgument(
            f"the query returned {found!r}, and that is no streaming DataFrame. Return what the "
            "methods of the one that it is given return, as in orders.dropDuplicates()."
        )
    name = f"streamed_{uuid4().hex}"
    writer = found.writeStream.format("memory").queryName(name).outputMode("append")
    running = writer.option("checkpointLocation", str(folder / "state"))
    started = running.trigger(availableNow=True).start()
    try:
        if not started.awaitTermination(QUERY_S):
            raise WaitTimeout(f"waited {QUERY_S} s for the streaming query to end; it was stopped.")
        rows = [row.asDict() for row in spark().table(name).collect()]
        return list(started.recentProgress), rows
    finally:
        started.stop()
        spark().catalog.dropTempView(name)


def _batches(
    given: Sequence[tuple[tuple[str, str], ...]],
    progress: Sequence[Any],
    out: Sequence[dict[str, Any]],
) -> Iterator[Batch]:
    """Put together what was read, what came out, and what was kept, batch by batch."""
    read = iter(given)  # a file a batch; the last batch may have none
    shown = 0
    for each in progress:
        rows = max(0, int(each["sink"]["numOutputRows"]))
        yield Batch(
            next(read, ()),
            str(each["eventTime"].get("watermark", "")),
            tuple(out[shown : shown + rows]),
            sum(int(it["numRowsTotal"]) for it in each["stateOperators"]),
        )
        shown += rows
