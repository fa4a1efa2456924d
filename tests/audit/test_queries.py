"""A learner's query as a plan: what may be asked on a Spark that others use, too, and what not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody does
from pyspark.sql.connect.proto import Expression, Relation

from lab_utils.audit import session
from lab_utils.audit.queries import (
    PARTS_MAX,
    PLAN_BYTES_MAX,
    NeedsSpark,
    harmless,
    planned,
    rows_of,
)
from lab_utils.errors import BadArgument
from lab_utils.grading import inside
from lab_utils.grading.cases import exercises
from lab_utils.ledger.store import write_ledger
from tests.grading.recorded import LABS, evidence
from tests.histories import in_run, log
from tests.notebooks import solutions

Query = Callable[[Any], Any]
OWN: Final = {
    each.item: each for lab in LABS for each in exercises(lab) if each.kind == "query"
}  # fmt: skip
ROWS: Final = 100


def taken(plan: bytes) -> Any:
    """The relation of a plan that reads the ledger where it is; raises BadArgument."""
    read = Relation.FromString(planned(lambda events: events)[1]).read
    return harmless(plan, read, read)


def usual(events: Any) -> Any:
    """What learners write: texts and columns, groups, windows, joins, and orders."""
    place = Window.partitionBy("partition").orderBy(F.desc("offset"))
    log = events.where("source = 'log' AND (kind IN ('record', \"marker\") OR NOT offset < 3)")
    first = log.groupBy("value").agg(
        F.min_by(F.struct("offset", "value"), "at_ns").alias("first"),
        F.expr("count(*) FILTER (WHERE kind = 'record') * (1 + 2) AS many"),
    )
    told = log.withColumn("at", F.row_number().over(place)).select("value", events["offset"], "at")
    both = told.join(first, "value", "left_anti").unionByName(told).dropDuplicates(["value"])
    case = F.when(F.col("offset").isin(1, 2), "a").otherwise(F.lit(None).cast("string"))
    return both.withColumn("case", case).na.fill(0, ["at"]).orderBy("offset").drop("at").limit(5)


def test_usual_queries_are_plans() -> None:
    """They are taken, and what a plan says of the program that made it is left out."""
    plan = planned(usual)[1]

    assert __file__ in str(Relation.FromString(plan))
    assert "origin" not in str(taken(plan))


TEXTS: Final = (
    "reflect('java.lang.System', 'exit', 1) IS NULL",
    "java_method('java.lang.Runtime', 'getRuntime') IS NULL",
    "try_reflect ('java.lang.System', 'exit', 1) IS NULL",
    "ReFlEcT\n(\t'java.lang.System', 'exit', 1) IS NULL",
    "system.builtin.reflect('java.lang.System', 'exit', 1) IS NULL",
    "`reflect`('java.lang.System', 'exit', 1) IS NULL",
    "\"reflect\"('java.lang.System', 'exit', 1) IS NULL",
    "IDENTIFIER('reflect')('java.lang.System', 'exit', 1) IS NULL",
    "offset IN (SELECT max(offset) FROM json.`/etc/passwd`)",
    "offset = (FROM text.`/etc/passwd` |> AGGREGATE count(*))",
    "EXISTS (VALUES 1)",
    "offset = (TABLE secrets)",
    "offset = (WITH a AS (VALUES 1) TABLE a)",
    # A script, which a shell would perform.
    "value = (MAP 1 USING 'touch performed' AS (a STRING))",
    "value IN (\nReduce 1 USING 'touch performed' AS (a STRING))",
    "value = ((SELECT TRANSFORM(1) USING 'touch performed' AS (a STRING)))",
    # A text that begins for us within a comment, and ends where Spark is asked.
    "offset = 1 -- '\nAND reflect('java.lang.System', 'exit', 1) IS NULL --'",
    "offset = 1 /* ' */ AND reflect('java.lang.System', 'exit', 1) IS NULL /* ' */",
    'value = \'\\\' OR reflect("java.lang.System", "exit") IS NULL OR value = \'',
    "value = r'\\' OR reflect('java.lang.System', 'exit') IS NULL",
    "value = $$'$$ OR reflect($$a$$) IS NULL OR value = $$'$$",
    "size(sequence(1, 1000000000)) > 1",
    "length(repeat('x', 1000000000)) > 1",
    "size(from_json(value, 'a INT')) > 1",
)
REFUSED: Final[dict[str, Query]] = {
    **{f"text: {text}": lambda it, text=text: it.where(text) for text in TEXTS},
    "a function that calls Java": lambda it: it.select(F.reflect(F.lit("a"), F.lit("b"))),
    "any function by its name": lambda it: it.select(F.call_function("reflect", F.lit("a"))),
    "a lambda": lambda it: it.select(F.transform(F.array("value"), lambda each: each)),
    "another file": lambda it: it.sparkSession.read.text("/etc/passwd"),
    "another file beside it": lambda it: it.crossJoin(it.sparkSession.read.text("/etc/passwd")),
    "a table": lambda it: it.sparkSession.read.table("secrets"),
    "numbers": lambda it: it.sparkSession.range(10**12),
    "a sample": lambda it: it.sample(0.1),
    "parts of its own": lambda it: it.repartition(10**6),
    "a hint": lambda it: it.hint("broadcast"),
    "a type by its text": lambda it: it.select(F.col("value").cast("struct<a: array<int>>")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    """What could do anything but look into the ledger, and what is not known to do no more."""
    with pytest.raises(BadArgument, match=r"the plan (has|reads)"):
        taken(planned(REFUSED[name])[1])


def forged(change: Callable[[Any], object]) -> bytes:
    """A plan as no client of Spark makes it."""
    relation = Relation.FromString(planned(lambda it: it.select(F.max("offset")))[1])
    change(relation)
    return relation.SerializeToString()


def many(relation: Any) -> None:
    """Let a plan have more parts than any query has, each of few bytes."""
    star = Expression(unresolved_star=Expression.UnresolvedStar())
    relation.project.expressions.extend([star] * PARTS_MAX)


FORGED: Final[dict[str, Callable[[Any], object]]] = {
    "a stream": lambda it: setattr(it.project.input.read, "is_streaming", True),
    "another place": lambda it: it.project.input.read.data_source.paths.append("/etc/passwd"),
    "an option": lambda it: it.project.input.read.data_source.options.update(wholeText="true"),
    "predicates": lambda it: it.project.input.read.data_source.predicates.append("reflect('a')"),
    "a function of somebody's": lambda it: setattr(
        it.project.expressions[0].unresolved_function, "is_user_defined_function", True
    ),
    "a function of Spark's own": lambda it: setattr(
        it.project.expressions[0].unresolved_function, "is_internal", True
    ),
    "Python": lambda it: it.map_partitions.func.python_udf.SetInParent(),
    "SQL": lambda it: setattr(it.sql, "query", "SELECT 1"),
    "an extension": lambda it: setattr(it.extension, "type_url", "a/b"),
    "too many parts": many,
    "too many bytes": lambda it: it.project.expressions[0].unresolved_function.arguments.append(
        Expression(literal=Expression.Literal(string="x" * PLAN_BYTES_MAX))
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_a_client_would_not_write(name: str) -> None:
    """A kernel may send any bytes."""
    with pytest.raises(BadArgument, match=r"the plan (has|reads)"):
        taken(forged(FORGED[name]))


def test_what_is_no_plan() -> None:
    """Other bytes are refused, and so are fields that this version does not know."""
    with pytest.raises(Exception, match="parsing"):
        taken(b"\xff\xff")

    plan = planned(lambda events: events.select("value"))[1]
    of_another_version = b"\xc2\xf4\x03\x01x"  # field 8008: one byte

    assert len(Relation.FromString(plan + of_another_version).SerializeToString()) > len(plan)
    assert taken(plan).SerializeToString() == taken(plan + of_another_version).SerializeToString()


def caught(events: Any) -> Any:
    """Goes on without what it asked for."""
    try:
        return events.where("offset > 1").limit(events.count())
    except Exception:  # whatever is raised
        return events


ASKING: Final[dict[str, Query]] = {
    "its columns": lambda it: it.select(it.columns[0]),
    "a count": lambda it: it.limit(it.count()),
    "a function in Python": lambda it: it.select(F.udf(lambda value: value)("value")),
    "a view": lambda it: it.createOrReplaceTempView("mine"),
    "SQL": lambda it: it.sparkSession.sql("SELECT 1"),
    "a setting": lambda it: it.sparkSession.conf.set("spark.sql.ansi.enabled", "false"),
    "a setting, or else": lambda it: it.limit(
        int(it.sparkSession.conf.get("spark.sql.shuffle.partitions", "1"))
    ),
    "a count, and goes on": caught,
    "rows of its own": lambda it: it.sparkSession.createDataFrame([(1,)], "a INT"),
}


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_needs_spark(name: str) -> None:
    """A query that asks Spark before it is whole is no plan, whatever it makes of the answer."""
    with pytest.raises(NeedsSpark, match="the query asked for"):
        planned(ASKING[name])


def test_what_a_query_raises_is_raised() -> None:
    """An error of its own is not one of Spark's; one that returns nothing has no plan."""
    with pytest.raises(ZeroDivisionError):
        planned(lambda _: 1 / 0)

    assert (None, b"") == planned(lambda _: None)
    assert (5, b"") == planned(lambda _: 5)


def rows(found: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(row.asDict(recursive=True), sort_keys=True) for row in found)


@pytest.mark.kafka
@pytest.mark.parametrize("item", OWN)
def test_a_plan_finds_what_the_query_finds(item: str, tmp_path: Path) -> None:
    """The labs' own queries are plans, with the same rows as on a Spark beside the cells."""
    exercise = OWN[item]
    query = solutions(item.partition(".")[0])[exercise.answer]
    _, plan = planned(query)
    for number, trial in enumerate(exercise.public):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_ledger(folder, evidence(exercise, trial, query).ledger)
        there = rows(query(session.read_events(folder)).collect())

        assert there == rows(rows_of(plan, folder, ROWS))


@pytest.mark.kafka
def test_a_plan_is_about_the_ledger_that_it_is_given(tmp_path: Path) -> None:
    """One plan, two ledgers, two answers; no more rows than are wanted, and no file but that."""
    query = planned(lambda events: events.where("kind = 'record'").select("value").distinct())[1]
    for name, values in (("one", "1"), ("two", "123")):
        (tmp_path / name).mkdir()
        write_ledger(tmp_path / name, in_run("00-a", log(*values)))

    assert [1, 3, 2] == [
        len(rows_of(query, tmp_path / name, most))
        for name, most in (("one", ROWS), ("two", ROWS), ("two", 2))
    ]
    with pytest.raises(BadArgument):
        rows_of(planned(REFUSED["another file"])[1], tmp_path / "one", ROWS)


@pytest.mark.kafka
def test_what_the_kernel_says_of_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan leaves as text, and its rows come back as those of a query do."""
    write_ledger(tmp_path, in_run("00-a", log("1", "2")))
    session.spark()

    def by_kind(events: Any) -> Any:
        return events.groupBy("kind").count()

    assert {"unplanned": "Spark is there"} == json.loads(inside.plan_query(by_kind))

    monkeypatch.setattr(session, "has_session", lambda: False)
    said = json.loads(inside.plan_query(by_kind))
    found = json.loads(inside.run_plan(said["plan"], str(tmp_path)))["rows"]

    assert {"record": 2, "end": 1} == {row["kind"]: row["count"] for row in found}
    assert {"blank": True} == json.loads(inside.plan_query(lambda _: None))
    assert "no DataFrame" in json.loads(inside.plan_query(lambda _: [1]))["raised"]
    assert ["unplanned"] == [*json.loads(inside.plan_query(lambda it: it.columns))]
    # It is no column, says Spark's client; and a line of its own raises wherever it is performed.
    assert ["unplanned"] == [*json.loads(inside.plan_query(lambda it: it.select(object())))]
    said = json.loads(inside.plan_query(lambda _: 1 / 0))
    assert {"raised": "your function raised ZeroDivisionError: division by zero"} == said
    assert ["raised"] == [*json.loads(inside.run_plan("!", str(tmp_path)))]
