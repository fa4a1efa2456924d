"""The counts of a run, in plain Python: what a run's one-line summary says.

They count; they judge nothing. The findings of the audit are the judgement's ground.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lab_utils.ledger.events import Event


@dataclass(frozen=True, slots=True)
class Counts:
    """How many orders met which outcome.

    sent          calls of produce()
    acked         delivery reports without an error
    failed        delivery reports that rule the record out
    unknown       delivery reports that do not: the record may be in the log or not
    stored        records that an independent reader found in the log
    duplicated    values that are in the log more than once
    lost          values that were acked and are not in the log; None if it was not read to its end
    """

    sent: int
    acked: int
    failed: int
    unknown: int
    stored: int
    duplicated: int
    lost: int | None

    def __str__(self) -> str:
        always = [f"{self.sent} sent", f"{self.acked} acked", f"{self.stored} in the log"]
        others = ("failed", "unknown", "duplicated", "lost")
        return ", ".join(always + [f"{n} {name}" for name in others if (n := getattr(self, name))])


def count(rows: Iterable[Event]) -> Counts:
    """Count the outcomes of one run's events."""
    rows = list(rows)
    client = Counter(row.kind for row in rows if row.source == "client")
    log = [row for row in rows if row.source == "log"]
    copies = Counter(row.value for row in log if row.kind == "record")
    acked = {row.value for row in rows if (row.source, row.kind) == ("client", "acked")}
    return Counts(
        sent=client["sent"],
        acked=client["acked"],
        failed=client["failed"],
        unknown=client["unknown"],
        stored=copies.total(),
        duplicated=sum(1 for times in copies.values() if times > 1),
        lost=len(acked - copies.keys()) if was_drained(log) else None,
    )


def was_drained(rows: Iterable[Event]) -> bool:
    """Was every partition of the log read to its end?"""
    ends = [row.detail.get("drained") for row in rows if (row.source, row.kind) == ("log", "end")]
    return bool(ends) and all(drained == "true" for drained in ends)
