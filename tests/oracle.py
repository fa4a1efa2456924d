"""The rules of the findings a second time, in plain Python, to be right by reading.

A finding is (finding, topic, partition, value, offsets, actor), of the events of one run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from lab_utils.audit.findings import OWN_ERRORS
from lab_utils.ledger.events import Event

Found = tuple[str, str | None, int | None, str | None, tuple[int, ...] | None, str | None]


def oracle(events: Iterable[Event]) -> Counter[Found]:
    """Everything that is to be found in the events of one run."""
    rows = sorted(events, key=lambda row: row.at_ns)
    rules = (
        _lost, _unseen, _duplicates, _deliveries, _errors, _backwards, _inconclusive
    )  # fmt: skip
    return Counter(found for rule in rules for found in rule(rows))


def said(rows: list[Event], *kinds: str) -> list[Event]:
    return [row for row in rows if row.source == "client" and row.kind in kinds and row.value]


def in_log(rows: list[Event]) -> list[Event]:
    return [row for row in rows if row.source == "log" and row.kind == "record"]


def drained(rows: list[Event]) -> dict[tuple[str | None, int | None], bool]:
    """For each partition that was read: was it ever read to its end?"""
    seen: dict[tuple[str | None, int | None], bool] = {}
    for row in rows:
        if (row.source, row.kind) == ("log", "end"):
            place = row.topic, row.partition
            seen[place] = seen.get(place, False) or row.detail["drained"] == "true"
    return seen


def _copy(row: Event) -> tuple[str | None, int | None, str | None]:
    return row.topic, row.partition, row.value


def _actors(rows: Iterable[Event]) -> str:
    return ", ".join(sorted({row.actor for row in rows}))


def _offsets(rows: Iterable[Event]) -> tuple[int, ...]:
    return tuple(sorted({row.offset for row in rows if row.offset is not None}))


def _lost(rows: list[Event]) -> Iterator[Found]:
    stored = {_copy(row) for row in in_log(rows)}
    for copy in {_copy(row) for row in said(rows, "acked")} - stored:
        if drained(rows).get(copy[:2]):
            acks = [row for row in said(rows, "acked") if _copy(row) == copy]
            yield "lost-write", *copy, _offsets(acks), _actors(acks)


def _unseen(rows: list[Event]) -> Iterator[Found]:
    read = {r.topic for r in rows if r.source == "client" and r.kind in ("assigned", "delivered")}
    seen = {_copy(row) for row in said(rows, "delivered")}
    for copy in {_copy(row) for row in said(rows, "acked")} - seen:
        if copy[0] in read:
            acks = [row for row in said(rows, "acked") if _copy(row) == copy]
            yield "unseen", *copy, _offsets(acks), _actors(acks)


def _duplicates(rows: list[Event]) -> Iterator[Found]:
    places = defaultdict(set)
    for row in in_log(rows):
        places[row.topic, row.value].add((row.partition, row.offset))
    for (topic, value), where in places.items():
        if len(where) > 1:
            partitions = {partition for partition, _ in where}
            offsets = tuple(sorted(offset or 0 for _, offset in where))
            senders = _actors(r for r in said(rows, "sent") if (r.topic, r.value) == (topic, value))
            partition = min(p or 0 for p in partitions) if len(partitions) == 1 else None
            yield "duplicate", topic, partition, value, offsets, senders or None


def _deliveries(rows: list[Event]) -> Iterator[Found]:
    group = {row.actor: row.detail.get("group.id") for row in rows if row.kind == "created"}
    handed = defaultdict(list)
    for row in said(rows, "delivered"):
        handed[(*_copy(row), row.offset, group.get(row.actor))].append(row)
    for (*copy, offset, _), times in handed.items():
        if len(times) > 1:
            topic, partition, value = copy
            yield "duplicate-delivery", topic, partition, value, (offset,), _actors(times)


def _errors(rows: list[Event]) -> Iterator[Found]:
    """Reported as errors alone: a phantom if it is in the log, unavailable if it is in no log."""
    acked = {(row.topic, row.value) for row in said(rows, "acked")}
    errors = said(rows, "failed", "unknown")
    for topic, value in {(row.topic, row.value) for row in errors} - acked:
        theirs = [row for row in errors if (row.topic, row.value) == (topic, value)]
        copies = [row for row in in_log(rows) if (row.topic, row.value) == (topic, value)]
        refusals = [row for row in theirs if row.error not in OWN_ERRORS]
        ends = [was for (of, _), was in drained(rows).items() if of == topic]
        if copies:
            first = min(row.partition or 0 for row in copies)
            yield "phantom", topic, first, value, _offsets(copies), _actors(theirs)
        elif refusals and ends and all(ends):
            yield "unavailable", topic, None, value, (), _actors(refusals)


def _backwards(rows: list[Event]) -> Iterator[Found]:
    """Of two neighbours in the order of sending, the later one has the lower offset.

    Neighbours are orders that are in the log where their one ack said.
    """
    there = {(row.topic, row.partition, row.value, row.offset) for row in in_log(rows)}
    sends = Counter((row.actor, row.topic, row.value) for row in said(rows, "sent"))
    acks = defaultdict(list)
    for row in said(rows, "acked"):
        acks[row.actor, row.topic, row.value].append(row)
    last: dict[tuple[str, str | None, int | None], Event] = {}
    for row in said(rows, "sent"):
        reports = acks[row.actor, row.topic, row.value]
        if sends[row.actor, row.topic, row.value] == len(reports) == 1:
            ack = reports[0]
            if (*_copy(ack), ack.offset) not in there:
                continue
            before = last.get((row.actor, row.topic, ack.partition))
            if before and before.offset is not None and ack.offset < before.offset:
                offsets = before.offset, ack.offset
                yield "nonmonotonic-send", *_copy(ack), offsets, row.actor
            last[row.actor, row.topic, ack.partition] = ack


def _inconclusive(rows: list[Event]) -> Iterator[Found]:
    kinds = Counter((row.actor, row.kind) for row in rows if row.source == "fault")
    for actor in {actor for actor, _ in kinds}:
        never = kinds[actor, "armed"] and not kinds[actor, "fired"]
        if kinds[actor, "unfired"] or never:
            yield "inconclusive", None, None, None, None, actor
    for (topic, partition), was_drained in drained(rows).items():
        if not was_drained:
            yield "inconclusive", topic, partition, None, None, None
    for topic in {row.topic for row in said(rows, "sent")} - {topic for topic, _ in drained(rows)}:
        yield "inconclusive", topic, None, None, None, None
    if any(row.kind == "order" for row in rows) and not said(rows, "sent", "delivered"):
        yield "inconclusive", None, None, None, None, None
