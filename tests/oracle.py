"""The rules of the findings a second time, in plain Python, to be right by reading.

A finding is (finding, topic, partition, value, offsets, actor), of the events of one run. The rules
are grouped as the modules of lab_utils/audit are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from lab_utils.audit.findings import OWN_ERRORS
from lab_utils.ledger.events import Event

Found = tuple[str, str | None, int | None, str | None, tuple[int, ...] | None, str | None]


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


Transaction = tuple[str, str]  # the producer, and the number
OUTCOMES = ("txn_committed", "txn_aborted")


def _of(row: Event) -> Transaction:
    return row.actor, row.detail.get("transaction", "")


def _kind(rows: list[Event], source: str, *kinds: str) -> list[Event]:
    return [row for row in rows if row.source == source and row.kind in kinds]


def _sends(rows: list[Event]) -> dict[tuple[str | None, str | None], list[Transaction]]:
    """For each order the transactions that it was sent in."""
    sends = defaultdict(list)
    for row in _kind(rows, "client", "sent"):
        sends[row.topic, row.value].append(_of(row))
    return sends


def _told(rows: list[Event]) -> dict[Transaction, list[Event]]:
    told = defaultdict(list)
    for row in _kind(rows, "client", *OUTCOMES):
        told[_of(row)].append(row)
    return told


def _only_in(rows: list[Event], outcome: str) -> dict[tuple[str | None, str | None], int]:
    """The orders that were sent in nothing but such transactions; when the first end was asked."""
    found = {}
    for order, transactions in _sends(rows).items():
        ends = [_told(rows)[each] for each in transactions]
        if all(end and all(row.kind == outcome for row in end) for end in ends):
            found[order] = min(int(row.detail["called_at_ns"]) for end in ends for row in end)
    return found


def _aborted(rows: list[Event]) -> Iterator[Found]:
    aborted = _only_in(rows, "txn_aborted")
    given = _kind(rows, "client", "delivered") + _kind(rows, "log", "visible")
    for *place, offset, actor in {_given(row) for row in given}:
        if (place[0], place[2]) in aborted:
            yield "aborted-read", *place, (offset,), actor


def _precommitted(rows: list[Event]) -> Iterator[Found]:
    asked_at_ns = _only_in(rows, "txn_committed")
    given = [
        row for row in _kind(rows, "client", "delivered")
        if row.at_ns < asked_at_ns.get((row.topic, row.value), 0)
    ]  # fmt: skip
    for *place, offset, actor in {_given(row) for row in given}:
        yield "precommitted-read", *place, (offset,), actor


def _given(row: Event) -> tuple[Any, ...]:
    return row.topic, row.partition, row.value, row.offset or 0, row.actor


def _members(rows: list[Event]) -> dict[Transaction, list[Event]]:
    """The records of each transaction whose orders were sent once."""
    sends = _sends(rows)
    members = defaultdict(list)
    for row in _kind(rows, "log", "record"):
        transactions = sends[row.topic, row.value]
        if len(transactions) == 1 and transactions[0][1]:
            members[transactions[0]].append(row)
    return members


def _may_be_read(rows: list[Event], record: Event) -> bool:
    place = record.topic, record.partition, record.offset, record.value
    return place in {
        (row.topic, row.partition, row.offset, row.value) for row in _kind(rows, "log", "visible")
    }


def _ends(rows: list[Event]) -> list[Event]:
    return [row for row in _kind(rows, "log", "end") if "last_stable" in row.detail]


def _is_stuck(end: Event) -> bool:
    return int(end.detail["last_stable"]) < (end.offset or 0)


def _torn(rows: list[Event]) -> Iterator[Found]:
    open_topics = {
        row.topic for row in _ends(rows) if _is_stuck(row) or row.detail["drained"] != "true"
    }
    for (actor, _), records in _members(rows).items():
        readable = [_may_be_read(rows, row) for row in records if row.topic not in open_topics]
        if any(readable) and not all(readable):
            yield "torn-transaction", None, None, None, None, actor


def _cycles(rows: list[Event]) -> Iterator[Found]:
    places = {
        transaction: [row for row in records if _may_be_read(rows, row)]
        for transaction, records in _members(rows).items()
    }

    def is_before(one: Transaction, other: Transaction) -> bool:
        return any(
            (a.topic, a.partition) == (b.topic, b.partition) and (a.offset or 0) < (b.offset or 0)
            for a in places[one]
            for b in places[other]
        )

    for one in places:
        for other in places:
            if one < other and is_before(one, other) and is_before(other, one):
                actors = ", ".join(sorted({one[0], other[0]}))
                yield "write-cycle", None, None, None, None, actors


def _zombies(rows: list[Event]) -> Iterator[Found]:
    written = _kind(rows, "log", "batch", "marker")
    places = {
        (row.topic, row.partition, row.producer_id or 0, row.offset or 0, row.producer_epoch or 0,
         row.kind)
        for row in written
    }  # fmt: skip
    for *same, offset, epoch, _ in places:
        before = [e for *theirs, at, e, _ in places if theirs == same and at < offset]
        topic, partition, producer_id = same
        if producer_id >= 0 and max(before, default=-1) > epoch:
            yield "zombie-effect", topic, partition, None, (offset,), None


def _stops(rows: list[Event]) -> set[tuple[Any, ...]]:
    """Topic, partition, where readers stop and where the log ends."""
    return {
        (row.topic, row.partition, int(row.detail["last_stable"]), row.offset or 0)
        for row in _ends(rows)
        if _is_stuck(row)
    }


def _is_over(rows: list[Event], producer_id: int | None) -> bool:
    """Is the last that the coordinator noted of this producer id an end?"""
    noted = [row for row in _kind(rows, "log", "transaction") if row.producer_id == producer_id]
    noted.sort(key=lambda row: row.offset or 0)
    return bool(noted) and noted[-1].detail["state"] in ("CompleteCommit", "CompleteAbort")


def _over_at(rows: list[Event], *place: Any) -> set[int | None]:
    """The producer ids of which a batch begins at this place, and whose transaction is over."""
    return {
        row.producer_id
        for row in _kind(rows, "log", "batch")
        if (row.topic, row.partition, row.offset) == place and _is_over(rows, row.producer_id)
    }


def _hanging(rows: list[Event]) -> Iterator[Found]:
    for topic, partition, at, end in _stops(rows):
        for _ in _over_at(rows, topic, partition, at):
            yield "hanging-transaction", topic, partition, None, (at, end), None


def _stuck(rows: list[Event]) -> Iterator[Found]:
    places = {place[:2] for place in _stops(rows) if _over_at(rows, *place[:3])}
    for topic, partition, at, end in _stops(rows):
        if (topic, partition) not in places:
            yield "stuck-lso", topic, partition, None, (at, end), None


def _reports(rows: list[Event]) -> dict[tuple[str | None, int | None, str | None, int], set[str]]:
    """Who was told that an order is at an offset."""
    told: dict[tuple[str | None, int | None, str | None, int], set[str]] = {}
    for row in said(rows, "acked"):
        if row.offset is not None:
            told.setdefault((row.topic, row.partition, row.value, row.offset), set()).add(row.actor)
    return told


def _inconsistent(rows: list[Event]) -> Iterator[Found]:
    now: dict[tuple[str | None, int | None, int | None], str] = {}
    for row in in_log(rows):
        place = (row.topic, row.partition, row.offset)
        now[place] = min(now.get(place, row.value or ""), row.value or "")
    for (topic, partition, value, offset), actors in _reports(rows).items():
        there = now.get((topic, partition, offset))
        if there is not None and there != value:
            who = ", ".join(sorted(actors))
            yield "inconsistent-offsets", topic, partition, value, (offset,), who


def _invisible(rows: list[Event]) -> Iterator[Found]:
    ends = [row.at_ns for row in rows if row.kind in ("finished", "raised")]
    if not ends:
        return
    for (topic, partition, value, offset), actors in _reports(rows).items():
        before = [
            row for row in rows
            if row.source == "broker" and row.at_ns <= max(ends)
            and (row.topic, row.partition) == (topic, partition)
        ]  # fmt: skip
        decisions = [row for row in before if row.kind == "partition"]
        marks = [row for row in before if row.kind == "watermark"]
        floors = [_floor(row) for row in rows if row.kind == "topic" and row.topic == topic]
        if not (decisions and marks and floors):
            continue
        in_sync = len(decisions[-1].detail["isr"].split(" "))
        if in_sync < max(floors) and offset >= (marks[-1].offset or 0):
            yield "invisible-ack", topic, partition, value, (offset,), ", ".join(sorted(actors))


def _floor(row: Event) -> int:
    return min(int(row.detail.get("min.insync.replicas", 1)), int(row.detail["replicas"]))


RULES = {
    "findings": (_lost, _unseen, _duplicates, _deliveries, _errors, _backwards, _inconclusive),
    "consuming": (_skipped, _repeated, _applied_again, _polls),
    "isolation": (_aborted, _precommitted, _torn, _cycles, _zombies, _hanging, _stuck),
    "failover": (_inconsistent, _invisible),
}


def oracle(events: Iterable[Event], module: str) -> Counter[Found]:
    """Everything that the rules of a module of the audit find in the events of one run."""
    rows = sorted(events, key=lambda row: row.at_ns)
    return Counter(found for rule in RULES[module] for found in rule(rows))
