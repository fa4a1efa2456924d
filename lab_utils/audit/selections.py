"""What the findings are made of: selections of the ledger, groups, and the columns of a finding.

Each is one step of a query, with a name, so that a finding reads like its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Query = Callable[["DataFrame"], "DataFrame"]

# The columns of a finding, with the types of those that a finding may leave empty.
FINDING_COLUMNS: Final = {
    "run": "STRING",
    "finding": "STRING",
    "topic": "STRING",
    "partition": "BIGINT",
    "value": "STRING",
    "offsets": "ARRAY<BIGINT>",
    "actor": "STRING",
    "evidence": "STRING",
}

TOPIC: Final = ["run", "topic"]
PARTITION: Final = [*TOPIC, "partition"]
ORDER: Final = [*TOPIC, "value"]
COPY: Final = [*PARTITION, "value"]
PRODUCED: Final = ["run", "actor", "topic", "value"]


class Rule(NamedTuple):
    """One finding: its query, and what decides when it is asked and how it is judged.

    needs    kinds of events without which it has no answer, and a query costs time even then;
             "acked, assigned delivered" is acked and one of the other two
    promise  what is broken where no setting allows the finding; empty if it proves nothing
    role     whose configuration decides: the producer's or the consumer's
    """

    query: Query
    needs: str
    promise: str
    role: str

    def can_answer(self, kinds: Collection[str]) -> bool:
        """Could events of these kinds have the finding?"""
        needs = self.needs.split(",") if self.needs else []
        return all(set(need.split()) & set(kinds) for need in needs)


# Each finding by its name; a query adds itself.
RULES: Final[dict[str, Rule]] = {}


def finding(
    name: str, needs: str = "", *, promise: str = "", role: str = "producer"
) -> Callable[[Query], Query]:
    """Register a query as the finding of this name; see Rule."""

    def register(query: Query) -> Query:
        RULES[name] = Rule(query, needs, promise, role)
        return query

    return register


def found_by(
    rules: Iterable[Rule], events: DataFrame, kinds: Collection[str] | None = None
) -> DataFrame:
    """What the rules find, in one query; of all, or of those that events of `kinds` can answer."""
    asked = [rule for rule in rules if kinds is None or rule.can_answer(kinds)]
    return reduce(lambda some, more: some.unionByName(more), [it.query(events) for it in asked])


def client(events: DataFrame, *kinds: str) -> DataFrame:
    """What clients said of these kinds; an event of a record without a value names no order."""
    named = ", ".join(f"'{kind}'" for kind in kinds)
    about_orders = "value IS NOT NULL OR kind = 'assigned'"
    return events.where(f"source = 'client' AND kind IN ({named}) AND ({about_orders})")


def stored(events: DataFrame) -> DataFrame:
    """Every record that the honest reader found in the log, once for each place."""
    records = events.where("source = 'log' AND kind = 'record' AND value IS NOT NULL")
    return records.select(*COPY, "offset").distinct()


def read_to_the_end(events: DataFrame) -> DataFrame:
    """The partitions whose log was read to its end."""
    ends = events.where("source = 'log' AND kind = 'end' AND detail['drained'] = 'true'")
    return ends.select(PARTITION).distinct()


def undrained(events: DataFrame) -> DataFrame:
    """The partitions whose log was read, and never to its end."""
    ends = events.where("source = 'log' AND kind = 'end'").select(PARTITION).distinct()
    return ends.join(read_to_the_end(events), PARTITION, "left_anti")


def reported_as_errors(events: DataFrame, leaving_out: Sequence[str] = ()) -> DataFrame:
    """Orders with a report of failed or unknown and none of acked; their errors in one text."""
    wanted = "error IS NOT NULL" + "".join(f" AND error <> '{error}'" for error in leaving_out)
    reports = client(events, "failed", "unknown").where(wanted)
    never_acked = reports.join(client(events, "acked"), ORDER, "left_anti")
    return grouped(never_acked, ORDER, listed("error"), listed("actor"))


def grouped(rows: DataFrame, keys: list[str], *columns: str) -> DataFrame:
    """One row for each group; the columns are SQL aggregates."""
    from pyspark.sql import functions

    if not columns:
        return rows.select(keys).distinct()
    return rows.groupBy(keys).agg(*map(functions.expr, columns))


def ordered(column: str, name: str, *, collect: str = "collect_set") -> str:
    """An SQL aggregate: the values of a column in a group, in order, as an array."""
    return f"array_sort({collect}({column})) AS {name}"


def listed(column: str) -> str:
    """An SQL aggregate: the different values of a column in a group, as one text."""
    return f"array_join(array_sort(collect_set({column})), ', ') AS {column}"


def as_finding(rows: DataFrame, name: str, evidence: str) -> DataFrame:
    """The rows as findings of this name; `evidence` is SQL for a sentence about the order."""
    about_order = "value" in rows.columns
    sentence = f"'order ' || value || ' ' || {evidence}" if about_order else evidence
    given = {"finding": f"'{name}'", "evidence": sentence}
    values = {it: given.get(it, it if it in rows.columns else "NULL") for it in FINDING_COLUMNS}
    return rows.selectExpr(
        *(f"CAST({values[it]} AS {kind}) AS {it}" for it, kind in FINDING_COLUMNS.items())
    )
