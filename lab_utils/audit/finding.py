"""A finding: a filter over facts, and its sentence. All findings of the same facts share one pass.

    events ──▶ facts (one row an order, a place, a transaction, …) ──▶ findings

A finding says what happened and never whether it was allowed: that is in contracts. It is written
as a function that returns SQL; the function's docstring is its section in docs/findings.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from lab_utils.audit.facts import GONE
from lab_utils.errors import BadArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

# The columns of a finding. `circumstances` are words that a contract may ask for.
FINDING_COLUMNS: Final = {
    "run": "STRING",
    "finding": "STRING",
    "topic": "STRING",
    "partition": "BIGINT",
    "value": "STRING",
    "offsets": "ARRAY<BIGINT>",
    "actor": "STRING",
    "evidence": "STRING",
    "circumstances": "ARRAY<STRING>",
}
# What the rows of a run's facts give where a finding says nothing else.
INHERITED: Final = ("run", "topic")
NAMED: Final = (
    "'order ' || if({value} = '', \"''\", coalesce({value}, if({key} IS NULL, 'without a value',"
    " 'without a value, of key ' || {key})))"
)

Facts = Callable[["DataFrame", "Survey"], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a finding is, as SQL over the columns of its facts.

    where    which rows have it; with `each`, the rows that may
    each     an array: one finding for each of its elements, which is called `it`
    said     the sentence; that of a finding with a `value` begins with the order
    about    SQL for other columns of FINDING_COLUMNS; `key` is the key of the order
    """

    where: str
    said: str
    each: str | None = None
    about: Mapping[str, str] = field(default_factory=dict)

    def rows(self, name: str) -> str:
        """An SQL array of structs with FINDING_COLUMNS; NULL where there is none."""
        sentence = self.said
        if "value" in self.about:
            key = self.about.get("key", "key")
            sentence = f"{NAMED.format(value=self.about['value'], key=key)} || {sentence}"
        given = {"finding": f"'{name}'", "evidence": sentence}
        given |= {**{it: it for it in INHERITED}, **self.about}
        columns = ", ".join(
            f"'{it}', CAST({given.get(it, 'NULL')} AS {kind})"
            for it, kind in FINDING_COLUMNS.items()
        )
        row = f"named_struct({columns})"
        rows = f"transform({self.each}, it -> {row})" if self.each else f"array({row})"
        return f"if({self.where}, {rows}, NULL)"


@dataclass(frozen=True, slots=True)
class Part:
    """Where a finding is looked for: in which facts, by which SQL.

    needs    kinds of events without which it has no answer, and a query costs time even then;
             "acked, assigned delivered" is acked and one of the other two
    """

    name: str
    facts: Facts
    found: Found
    needs: str

    def can_answer(self, kinds: Collection[str]) -> bool:
        """Could events of these kinds have the finding?"""
        needs = self.needs.split(",") if self.needs else []
        return all(set(need.split()) & set(kinds) for need in needs)


@dataclass(frozen=True, slots=True)
class Rule:
    """One finding: how it is judged, and where it is looked for.

    promise  what is broken where no setting allows the finding; empty if it proves nothing
    role     whose configuration decides: the producer's or the consumer's
    function what was registered: its docstring is the finding's section of docs/findings.md
    """

    name: str
    promise: str
    role: str
    function: Callable[[], Found]
    parts: list[Part] = field(default_factory=list)

    @property
    def family(self) -> str:
        """The module that it is in."""
        return self.function.__module__.rpartition(".")[2]


# Each finding by its name; a function adds itself.
RULES: Final[dict[str, Rule]] = {}


def finding(
    name: str, facts: Facts, needs: str = "", *, promise: str = "", role: str = "producer"
) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
    """Register a function's SQL as the finding of this name; see Part and Rule.

    A name that stands already gets another place where it is looked for; it has its promise, and
    it is in this module, or BadArgument is raised.
    """

    def register(function: Callable[[], Found]) -> Callable[[], Found]:
        known = RULES.get(name)
        if known and (promise or known.function.__module__ != function.__module__):
            raise BadArgument(
                f"the finding {name!r} of {function.__name__}() exists already: it is "
                f"{known.function.__name__}() in {known.function.__module__}. Choose another name."
            )
        rule = RULES.setdefault(name, Rule(name, promise, role, function))
        rule.parts.append(Part(name, facts, function(), needs))
        return function

    return register


@dataclass(frozen=True, slots=True)
class Prefilter:
    """What leaves out of a large ledger the events that these findings do not need."""

    knows: Collection[str]
    keep: Callable[[Facts, DataFrame, Survey], DataFrame]


def found_by(
    rules: Iterable[Rule], events: DataFrame, survey: Survey, prefilter: Prefilter | None = None
) -> DataFrame:
    """What the rules find that the kinds of events can answer, in one query.

    A finding that the prefilter does not know is looked for in all events.
    Columns: FINDING_COLUMNS.
    """
    events = survey.by_start(_last_read(events) if survey.is_read_again else events)
    of_facts: dict[tuple[Facts, Prefilter | None], list[Part]] = {}
    for part in (part for rule in rules for part in rule.parts):
        if part.can_answer(survey.kinds):
            known = prefilter if prefilter and part.name in prefilter.knows else None
            of_facts.setdefault((part.facts, known), []).append(part)
    parts = [
        _found_in(facts(known.keep(facts, events, survey) if known else events, survey), asked)
        for (facts, known), asked in of_facts.items()
    ]
    return reduce(lambda some, more: some.unionByName(more), parts)


def _last_read(events: DataFrame) -> DataFrame:
    """Events, where what a log lost after it was read is GONE.

    A truncation, compaction or a deletion does that. A reader's drained ends part its readings of
    a partition. What it found is gone where a later reading that came to its end began at or before
    it, and did not find it there again.
    """
    reader = "PARTITION BY run, topic, partition, actor"
    found = "source = 'log' AND kind IN ('record', 'visible')"
    drained = "kind = 'end' AND detail['drained'] <=> 'true'"
    before = "ORDER BY at_ns RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    late = "kind = 'end' AND detail['committed_drained'] <=> 'false'"
    readings = (
        events.where(f"{found} OR source = 'log' AND {drained}")
        .selectExpr("*", f"count_if({drained}) OVER ({reader} {before}) AS reading")
        .selectExpr(
            "*",
            f"bool_or({drained}) OVER ({reader}, reading) AND (kind = 'record'"
            f" OR NOT bool_or({late}) OVER ({reader}, reading)) AS is_whole",
            f"min(offset) OVER ({reader}, reading, kind) AS first",
        )
    )
    told = readings.where(found).selectExpr(
        "*",
        f"collect_set(reading) OVER ({reader}, kind, offset, key, value) AS found_in",
        f"collect_set(if(is_whole, struct(reading, first), NULL)) OVER ({reader}, kind) AS wholes",
    )
    is_gone = (
        "exists(wholes, x -> x.reading > reading AND x.first <= offset"
        " AND NOT array_contains(found_in, x.reading))"
    )
    columns = [
        f"if({is_gone}, '{GONE}', kind) AS kind" if it == "kind" else it for it in events.columns
    ]
    return events.where(f"NOT ({found})").unionByName(told.selectExpr(*columns))


def _found_in(rows: DataFrame, parts: list[Part]) -> DataFrame:
    each = ", ".join(f"coalesce({part.found.rows(part.name)}, array())" for part in parts)
    return rows.selectExpr(f"inline(concat({each}))")


def names(said: str, *kinds: str) -> str:
    """SQL for the actors who said one of these kinds, as one text: `a, b`."""
    listed = ", ".join(f"'{kind}'" for kind in kinds)
    return joined(f"transform(filter({said}, x -> x.kind IN ({listed})), x -> x.actor)")


def joined(texts: str) -> str:
    """SQL for the different ones of an array of texts, as one text; NULL if there is none."""
    return f"nullif(array_join(array_sort(array_distinct({texts})), ', '), '')"


def passed_over(offset: str, stretches: str) -> str:
    """SQL for whether an offset is in one of the stretches of a topic's survey."""
    return f"coalesce(exists({stretches}, y -> {offset} BETWEEN y.first AND y.next - 1), false)"
