"""The rules of the findings about consuming a second time, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from lab_utils.ledger.events import Event
from tests.oracle import Found, in_log, said


def oracle_of_consuming(events: Iterable[Event]) -> Counter[Found]:
    """Everything that is to be found about consuming in the events of one run."""
    rows = sorted(events, key=lambda row: row.at_ns)
    rules = (_skipped, _repeated, _applied_again, _polls)
    return Counter(found for rule in rules for found in rule(rows))


def _readable(rows: list[Event]) -> set[tuple[str | None, int | None, str | None, int]]:
    transactional = {row.topic for row in rows if row.kind == "marker"}
    plain = [row for row in in_log(rows) if row.topic not in transactional]
    seen = plain + [row for row in rows if row.kind == "visible"]
    return {(row.topic, row.partition, row.value, row.offset or 0) for row in seen}


def _skipped(rows: list[Event]) -> Iterator[Found]:
    worked = {row.topic for row in said(rows, "processed")}
    done = {(r.topic, r.partition, r.value, r.offset) for r in said(rows, "processed")}
    for copy in _readable(rows) - done:
        topic, partition, value, offset = copy
        ends = [
            row.offset or 0 for row in rows
            if row.source == "log" and row.kind == "committed" and row.detail["when"] == "end"
            and (row.topic, row.partition) == (topic, partition)
        ]  # fmt: skip
        if topic in worked and ends and offset < max(ends):
            yield "skipped-processing", topic, partition, value, (offset,), None


def _repeated(rows: list[Event]) -> Iterator[Found]:
    work = Counter((r.topic, r.partition, r.value, r.offset) for r in said(rows, "processed"))
    for (topic, partition, value, offset), times in work.items():
        if times > 1:
            there = (topic, partition, value, offset)
            theirs = [
                r.actor for r in said(rows, "processed")
                if (r.topic, r.partition, r.value, r.offset) == there
            ]  # fmt: skip
            actors = ", ".join(sorted(set(theirs)))
            yield "duplicate-effect", topic, partition, value, (offset or 0,), actors


def _applied_again(rows: list[Event]) -> Iterator[Found]:
    effects = [row for row in rows if row.kind == "effect"]
    for actor, value in {(row.actor, row.value) for row in effects}:
        theirs = [row for row in effects if (row.actor, row.value) == (actor, value)]
        if sum(row.records or 0 for row in theirs) > 1:
            yield "duplicate-effect", None, None, value, None, actor


def _polls(rows: list[Event]) -> Iterator[Found]:
    """Each delivery beside the one before it, which a rebalance or a seek makes forgotten."""
    before: dict[tuple[str, str | None, int | None], int] = {}
    for row in rows:
        here = row.actor, row.topic, row.partition
        if row.source == "client" and row.kind in ("assigned", "sought"):
            before.pop(here, None)
        if row.source != "client" or row.kind != "delivered" or row.offset is None:
            continue
        last = before.get(here)
        if last is not None and row.offset <= last:
            offsets = last, row.offset
            yield "nonmonotonic-poll", row.topic, row.partition, row.value, offsets, row.actor
        for topic, partition, value, offset in _readable(rows):
            is_here = (topic, partition) == (row.topic, row.partition)
            if last is not None and is_here and last < offset < row.offset:
                yield "poll-skip", topic, partition, value, (offset,), row.actor
        before[here] = row.offset
