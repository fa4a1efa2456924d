"""Each call of produce(), what its report said, and where its record is in the log.

Pure shaping for orders_by_offset.py: events in, calls and columns out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab_utils.ledger.counts import was_drained
from lab_utils.ledger.events import Event
from lab_utils.views.table import Table

# Where a record is: its partition and its offset.
Place = tuple[int, int]


@dataclass(slots=True)
class Call:
    """One call of produce(): its value, the report on it if one came, its places in the log."""

    value: str
    attempt: int = 1
    report: Event | None = None
    places: list[Place] = field(default_factory=list)
    is_foreign: bool = False

    @property
    def is_acked(self) -> bool:
        """Did the client report success?"""
        return self.report is not None and self.report.kind == "acked"

    @property
    def told(self) -> str:
        """What the program was told."""
        if self.is_foreign:
            return "never sent by this run"
        if self.report is None:
            return "no report"
        if self.report.error:
            return f"{self.report.kind}: {self.report.error}"
        offset = self.report.offset
        return "acked, no offset" if offset is None else f"acked, offset {offset}"


@dataclass(frozen=True, slots=True)
class Orders:
    """All calls in their order, the places of transaction markers, and the copies of each value."""

    calls: list[Call]
    markers: dict[Place, str]
    copies: dict[str, int]
    is_drained: bool

    def outcome(self, call: Call) -> str:
        """What became of a call, as a key of palette.ORDER; empty if there is nothing to draw."""
        if call.is_foreign:
            return "foreign"
        if not call.places:
            gone = call.is_acked and self.is_drained and not self.copies.get(call.value)
            return "lost" if gone else ""
        if self.copies[call.value] > 1:
            return "twice"
        return "once" if call.is_acked else "unacked"

    def table(self) -> Table:
        """The calls as a table; those that stand out are marked."""
        rows = [
            (call.value, call.attempt, _partitions(call), _offsets(call), call.told)
            for call in self.calls
        ]
        odd = {at for at, call in enumerate(self.calls) if self.outcome(call) != "once"}
        columns = ("order", "attempt", "partition", "offsets in the log", "the report")
        about = "Calls of produce() in their order, and where their records are."
        return Table(columns, rows, about, frozenset(odd))


def orders(rows: Sequence[Event]) -> Orders:
    """The calls of a run and what became of them."""
    ordered = sorted(rows, key=lambda row: row.at_ns)
    calls = _calls(ordered)
    records: dict[str, list[Place]] = defaultdict(list)
    for row in ordered:
        if (row.source, row.kind) == ("log", "record"):
            records[row.value or ""].append((row.partition or 0, row.offset or 0))
    by_value: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_value[call.value].append(call)
    for value, places in records.items():
        if value not in by_value:
            calls.append(Call(value, is_foreign=True))
        _place(by_value.get(value) or calls[-1:], sorted(places))
    copies = {value: len(places) for value, places in records.items()}
    return Orders(calls, _markers(rows), copies, was_drained(rows))


def _calls(ordered: Sequence[Event]) -> list[Call]:
    """The calls, each with its report; what a crash ended gets none."""
    calls = []
    waiting: dict[tuple[str, str | None], list[Call]] = defaultdict(list)
    for row in ordered:
        who = (row.actor, row.value)
        if row.source == "workload" and row.kind in ("crashed", "restarted"):
            waiting.clear()
        if row.source == "client" and row.kind == "sent":
            calls.append(Call(row.value or "", row.attempt or 1))
            waiting[who].append(calls[-1])
        if row.source == "client" and row.kind in ("acked", "failed", "unknown") and waiting[who]:
            waiting[who].pop(0).report = row
    return calls


def _place(calls: Sequence[Call], places: Sequence[Place]) -> None:
    """Give each record of one value to a call: first to the one whose report names its place.

    What is left goes to those that have none yet, in order; the rest are copies of the first.
    """
    rest = []
    for place in places:
        named = [call for call in calls if call.report and place == _named(call.report)]
        if named:
            named[0].places.append(place)
        else:
            rest.append(place)
    for place in rest:
        without = [call for call in calls if not call.places]
        [*without, calls[0]][0].places.append(place)
    for call in calls:
        call.places.sort()


def _named(report: Event) -> Place:
    return (report.partition or 0, -1 if report.offset is None else report.offset)


def _markers(rows: Sequence[Event]) -> dict[Place, str]:
    """Transaction markers by their place: COMMIT or ABORT."""
    return {
        (row.partition or 0, row.offset or 0): row.detail.get("type", "?")
        for row in rows
        if (row.source, row.kind) == ("log", "marker")
    }


def _partitions(call: Call) -> str:
    return ", ".join(dict.fromkeys(str(partition) for partition, _ in call.places))


def _offsets(call: Call) -> str:
    return ", ".join(str(offset) for _, offset in call.places)
