"""The finding of a run as one sentence: the title of its pictures.

It looks for the worst first and says what the wire shows of its cause. A picture's title, not a
judgement: the audit decides what is a breach. Plain Python over the rows of one run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property

from lab_utils.ledger.counts import was_drained
from lab_utils.ledger.events import Event
from lab_utils.views.causes import was_recognised, why_again, why_gone
from lab_utils.views.exchanges import Exchange, exchanges
from lab_utils.views.wording import counted, listed, shown

NAMED_LIMIT = 4


def headline(rows: Sequence[Event]) -> str:
    """What happened in this run, worst first, in one sentence without a full stop."""
    run = _Run(rows)
    findings = (_lost, _duplicated, _reordered, _stored_once, _unplaced, _unsure, _unproven)
    return next(filter(None, (finding(run) for finding in findings)), "") or _calm(run)


class _Run:
    """The rows of a run, sorted by what they are about."""

    def __init__(self, rows: Sequence[Event]) -> None:
        self.rows = rows
        self.is_drained = was_drained(rows)

    def of(self, source: str, kind: str) -> list[Event]:
        return [row for row in self.rows if (row.source, row.kind) == (source, kind)]

    @cached_property
    def sent(self) -> list[str]:
        return [row.value or "" for row in self.of("client", "sent")]

    @cached_property
    def log(self) -> list[Event]:
        records = self.of("log", "record")
        return sorted(records, key=lambda row: (row.partition or 0, row.offset or 0))

    @cached_property
    def copies(self) -> Counter[str]:
        return Counter(row.value or "" for row in self.log)

    @cached_property
    def carried_by(self) -> dict[str, list[Exchange]]:
        """For each value, the exchanges that carried it."""
        found = defaultdict(list)
        for exchange in exchanges(self.rows):
            for value in exchange.values:
                found[value].append(exchange)
        return found

    def why_again(self, values: Sequence[str]) -> str:
        return why_again(values, self.carried_by, self.sent)


def _lost(run: _Run) -> str:
    acked = dict.fromkeys(row.value or "" for row in run.of("client", "acked"))
    lost = [value for value in acked if not run.copies[value]]
    if not lost or not run.is_drained:
        return ""
    cause = why_gone(lost, run.carried_by)
    return _say("{orders} {were} acked and {are} not in the log", lost, cause)


def _duplicated(run: _Run) -> str:
    doubled = [value for value, times in run.copies.items() if times > 1]
    if not doubled:
        return ""
    times = {run.copies[value] for value in doubled}
    often = "twice" if times == {2} else "more than once"
    return _say("{orders} {were} stored " + often, doubled, run.why_again(doubled))


def _reordered(run: _Run) -> str:
    place = {value: number for number, value in reversed(list(enumerate(run.sent)))}
    latest: dict[int | None, str] = {}
    late: dict[str, str] = {}
    for row in run.log:
        value, ahead = row.value or "", latest.get(row.partition)
        if ahead is not None and place.get(value, -1) < place.get(ahead, -1):
            late.setdefault(value, ahead)
        else:
            latest[row.partition] = value
    if not late:
        return ""
    behind, values = next(iter(late.values())), list(late)
    what = "{orders} {were} stored after order {behind}"
    return _say(what, values, run.why_again(values), behind=shown(behind))


def _stored_once(run: _Run) -> str:
    again = [
        value for value, found in run.carried_by.items()
        if len(found) > 1 and run.copies[value] == 1
    ]  # fmt: skip
    if not again:
        return ""
    cause = run.why_again(again)
    if all(was_recognised(value, run.carried_by) for value in again):
        whose = "its sequence number" if len(again) == 1 else "their sequence numbers"
        cause = f"the broker knew {whose}"
    often = "twice" if {len(run.carried_by[value]) for value in again} == {2} else "more than once"
    return _say("{orders} crossed the wire " + often + " and {were} stored once", again, cause)


def _unplaced(run: _Run) -> str:
    acked = [row for row in run.of("client", "acked") if row.offset is None]
    stored = [row.value or "" for row in acked if run.copies[row.value or ""]]
    return (
        _say("{orders} {were} acked without an offset and {are} in the log", stored)
        if stored
        else ""
    )


def _unsure(run: _Run) -> str:
    unsure = dict.fromkeys(row.value or "" for row in run.of("client", "unknown"))
    stored = [value for value in unsure if run.copies[value]]
    if stored:
        return _say("{orders} {are} in the log, and the client cannot know it", stored)
    failed = dict.fromkeys(row.value or "" for row in run.of("client", "failed"))
    absent = [value for value in unsure | failed if not run.copies[value]]
    if not absent or not run.is_drained:
        return ""
    return _say("{orders} {were} not acked and {are} not in the log", list(absent))


def _unproven(run: _Run) -> str:
    if run.of("fault", "armed") and not run.of("fault", "fired"):
        return "The fault never fired, so this run proves nothing"
    return ""


def _calm(run: _Run) -> str:
    found = exchanges(run.rows)
    if run.log and run.is_drained:
        return f"{counted(len(run.copies), 'order')} sent, and each is stored once"
    return f"{counted(len(found), 'Produce request')} crossed the wire"


def _say(what: str, values: Sequence[str], cause: str = "", **names: str) -> str:
    """The sentence with the orders by name, or with their number if they are many."""
    many = len(values) > 1
    orders = f"Order{'s' if many else ''} {listed([shown(value, 16) for value in values])}"
    if len(values) > NAMED_LIMIT:
        orders = counted(len(values), "order")
    were, are = ("were", "are") if many else ("was", "is")
    said = what.format(orders=orders, were=were, are=are, **names)
    return f"{said}: {cause}" if cause else said
