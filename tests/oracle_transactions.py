"""The rules about transactions a second time, in plain Python, to be right by reading."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from lab_utils.ledger.events import Event
from tests.oracle import Found

Transaction = tuple[str, str]  # the producer, and the number
OUTCOMES = ("txn_committed", "txn_aborted")


def oracle_of_transactions(events: Iterable[Event]) -> Counter[Found]:
    """Everything that is to be found about transactions in the events of one run."""
    rows = sorted(events, key=lambda row: row.at_ns)
    rules = (_aborted, _precommitted, _torn, _cycles, _zombies, _hanging, _stuck)
    return Counter(found for rule in rules for found in rule(rows))


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
