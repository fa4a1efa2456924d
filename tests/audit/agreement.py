"""What Spark finds in many histories at once: one ledger, one job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lab_utils.audit.session import read_events
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from tests.histories import in_run
from tests.oracle import Found

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Query = Callable[["DataFrame"], "DataFrame"]
# name: the finding, its smallest history, its near miss
Cases = Mapping[str, tuple[str, list[Event], list[Event]]]


def spark_findings(
    folder: Path, runs: Mapping[str, list[Event]], query: Query
) -> dict[str, Counter[Found]]:
    """What a query finds in each run, in the words of the oracle."""
    write_ledger(folder, [row for run, rows in runs.items() for row in in_run(run, rows)])
    found: dict[str, Counter[Found]] = defaultdict(Counter)
    for row in query(read_events(folder)).collect():
        at = None if row.offsets is None else tuple(row.offsets)
        found[row.run][row.finding, row.topic, row.partition, row.value, at, row.actor] += 1
    return found


def spark_findings_of_cases(folder: Path, cases: Cases, query: Query) -> dict[str, Counter[Found]]:
    """What a query finds in every literal history, by `name: smallest` and `name: near miss`."""
    smallest = {f"{name}: smallest": case[1] for name, case in cases.items()}
    near_misses = {f"{name}: near miss": case[2] for name, case in cases.items()}
    return spark_findings(folder, smallest | near_misses, query)
