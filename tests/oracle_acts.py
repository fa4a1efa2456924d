"""What the oracle knows of what was done to brokers and topics, and of what a client is set to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from lab_utils.audit.contracts.defaults import effective
from lab_utils.audit.facts import EXPIRY
from lab_utils.ledger.events import Event
from tests.oracle_facts import (
    Found,
    Rows,
    Run,
    Transaction,
    actors,
    found,
    of,
    order,
    place,
    places,
    same,
    sent_offsets,
)


def ends_power_cut(row: Event, cut: Event) -> bool:
    return (row.source, row.kind, row.actor) == ("broker", "started", cut.actor)


def ends_deletion(row: Event, asked: Event) -> bool:
    is_answer = (row.source, row.kind, row.api) == ("wire", "response", "CreateTopics")
    return is_answer and row.topic == asked.topic and not row.error and row.fate != "replaced"


def deletions(run: Run, topic: str | None) -> list[Event]:
    """Each request to delete this topic, or one without a name, that was not refused."""
    left = []
    for name in {topic, None}:
        of_it = [row for row in run.rows if (row.api, row.topic) == ("DeleteTopics", name)]
        asked = [row for row in of_it if row.kind == "request" and row.fate != "dropped"]
        for no in (row for row in of_it if row.kind == "response" and is_refusal(row)):
            before = [row for row in asked if row.at_ns <= no.at_ns]
            if asked:
                asked.remove(before[-1] if before else asked[0])
        left += asked
    return left


def is_refusal(row: Event) -> bool:
    is_whole = row.fate != "replaced" and row.detail.get("in_part") != "true"
    return is_whole and row.error == "UNKNOWN_TOPIC_OR_PARTITION"


def was_sent_since(run: Run, them: tuple[Any, ...]) -> bool:
    """Was an order sent each time when all power cuts and deletions of its topic were over?"""
    sends = [row.at_ns for row in same(run.said("sent"), them)]
    if len(sends) < len(same(run.said("acked"), them)):
        return False
    return is_over(run, them[0], sends)


def is_over(run: Run, topic: str | None, times: list[int]) -> bool:
    """Were there power cuts or deletions of this topic, and were all over before these times?"""
    acts = [(row, ends_power_cut) for row in run.rows if row.kind == "power_cut"] + [
        (row, ends_deletion) for row in deletions(run, topic)
    ]
    return bool(acts) and all(
        any(act.at_ns < row.at_ns < min(times, default=0) and ends(row, act) for row in run.rows)
        for act, ends in acts
    )


def floor(row: Event) -> int:
    return min(int(row.detail.get("min.insync.replicas", 1)), int(row.detail["replicas"]))


def invisible(run: Run) -> Iterator[Found]:
    over = [row.at_ns for row in run.rows if row.kind in ("finished", "raised")]
    run = Run([row for row in run.rows if over and row.at_ns <= max(over)])
    acks = [row for row in run.said("acked") if row.offset is not None]
    for them in {(order(row), place(row)) for row in acks}:
        (topic, _, value), (_, partition, offset) = them
        before = [
            row for row in run.rows
            if row.source == "broker" and (row.topic, row.partition) == (topic, partition)
        ]  # fmt: skip
        decisions = [row for row in before if row.kind == "partition"]
        marks = [row for row in before if row.kind == "watermark"]
        floors = [floor(row) for row in run.rows if row.kind == "topic" and row.topic == topic]
        if not (decisions and marks and floors):
            continue
        in_sync = len(re.findall("[0-9]+", decisions[-1].detail["isr"]))
        if re.sub(r"^\D*(?=\d+$)", "", marks[-1].actor) != decisions[-1].detail["leader"]:
            continue
        if in_sync < floors[-1] and offset >= (marks[-1].offset or 0):
            theirs = [row for row in acks if (order(row), place(row)) == them]
            sends = [row.at_ns for row in same(run.said("sent"), them[0])]
            is_after = min(sends, default=-1) > decisions[-1].at_ns
            leaders = {row.detail["leader"] for row in decisions}
            is_stale = marks[-1].at_ns < decisions[-1].at_ns or len(leaders) > 1
            why = ["seen before"] if is_stale and not is_after else []
            yield found("invisible-ack", topic, partition, value, (offset,), actors(theirs), *why)


def outlived(run: Run, gone: Rows) -> bool:
    """Is one of these a tombstone of which the log has an older record, and not aborted?"""
    held = run.kept(run.kind("log", "record", "visible"))
    return any(
        row.value is None and row.key is not None and row.offset is not None
        and (not run.ends_of(row) or bool(run.ends_of(row) & {"txn_committed", "no transaction"}))
        and any((it.topic, it.partition, it.key) == (row.topic, row.partition, row.key)
                and (it.offset or 0) < row.offset for it in held)
        for row in gone
    )  # fmt: skip


def was_told_since(run: Run, them: tuple[Any, ...], told: Rows) -> bool:
    """Was an order first sent, and this told of it, when all that takes its log away was over?"""
    sends = same(run.said("sent"), them)
    acked = {row.actor for row in told if row.kind == "acked"}
    times = [row.at_ns for row in sends + [row for row in told if row.kind != "acked"]]
    return bool(sends) and acked <= {row.actor for row in sends} and is_over(run, them[0], times)


def began_since(run: Run, sends: Rows, topics: Iterable[str | None]) -> list[str]:
    """Did each transaction of these begin when all that takes these logs away was over?"""
    began = [
        [it.at_ns for it in run.said("txn_began") if of(it) == of(row) is not None]
        for row in sends
    ]  # fmt: skip
    is_since = all(began) and all(is_over(run, it, [*map(min, began)]) for it in topics)
    return ["sent since"] if is_since else []


def power_cuts(run: Run, topic: str | None) -> list[int]:
    """When power was cut, but for what was over at the first send, or after the last look."""
    began = [row for row in run.said("sent", "acked", "delivered") if row.topic == topic]
    said = {kind: {row.actor for row in began if row.kind == kind} for kind in ("sent", "acked")}
    first = min(row.at_ns for row in began) if began and said["acked"] <= said["sent"] else -1
    looks = [end.at_ns for (name, _), end in run.ends.items() if name == topic]
    looks += [row.at_ns for row in began if row.kind == "delivered"]
    return [
        row.at_ns for row in run.rows
        if row.kind == "power_cut" and row.at_ns <= max(looks, default=row.at_ns)
        and not any(row.at_ns < it.at_ns < first and ends_power_cut(it, row) for it in run.rows)
    ]  # fmt: skip


def stood(run: Run, them: tuple[Any, ...], name: str, given: Rows) -> list[str]:
    """Were there copies that no power cut took away, which a group that began later lacks?"""
    topic, cuts = them[0], power_cuts(run, them[0])
    theirs = run.said("assigned", "sought", "delivered", "committed")
    began = [row.at_ns for row in theirs if row.topic == topic and run.group(row.actor) == name]
    if not cuts or min(began) < max(cuts):
        return []
    acks = same(run.said("acked"), them)
    held = run.kept(same(run.kind("log", "record", "visible"), them))
    kept = 0
    for at in set(places(held)):
        acked = [row.at_ns for row in acks if place(row)[1:] == at]
        found = [row.at_ns for row in held if place(row)[1:] == at]
        kept += bool(acked) and max(acked) < min(cuts) and max(found) > max(cuts)
    return ["stood"] if len(places(given)) + len(acks) - kept < run.can_be_given(them) else []


def was_before(ack: Event, end: Event) -> bool:
    """Was this acked before the log was read, or for a place before the end that was read?"""
    is_within = None not in (ack.offset, end.offset) and (ack.offset or 0) < (end.offset or 0)
    return ack.at_ns < end.at_ns or is_within


def records_at(run: Run, row: Event) -> int:
    """How many records of this order have been at its place, one after the other, at the least."""
    acks = [it for it in same(run.said("acked"), order(row)) if place(it) == place(row)]
    return max(1, len(acks))


def shown_to(run: Run, actor: str) -> dict[tuple[Any, ...], Event]:
    """What this consumer may be given, by its place: a read_uncommitted one all that is held."""
    lives = [row.detail for row in run.said("created") if row.actor == actor]
    levels = {effective(it)["isolation.level"] for it in lives if it.get("role") == "consumer"}
    if levels != {"read_uncommitted"}:
        return run.readable
    return {at: row for at, row in run.what_is_held.items() if run.kept([row])}


def told_positions(run: Run, groups: Iterable[str], topic: str, partition: int) -> list[int]:
    """The positions that members of these groups last committed by themselves."""
    found = []
    for name in groups:
        told = [
            (row.at_ns, row.offset)
            for row in run.said("committed")
            if row.offset is not None
            and run.group(row.actor) == name
            and (row.topic, row.partition) == (topic, partition)
        ]
        found += [offset for _, offset in sorted(told)[-1:]]
    return found


def fenced_commits(run: Run) -> set[Transaction]:
    """Transactions that hold something, committed by a producer that another had fenced."""
    topics = run.kind("workload", "topic")
    unclean = "unclean.leader.election.enable"
    if any(row.kind == "power_cut" for row in run.rows):
        return set()
    if any(row.detail.get(unclean, "false") != "false" for row in topics):
        return set()
    lives = run.said("created")
    ids = {
        row.actor: row.detail["transactional.id"]
        for row in lives
        if "transactional.id" in row.detail and sum(it.actor == row.actor for it in lives) == 1
    }
    starts = run.said("txn_initialised")
    found = set()
    for sent in run.said("sent"):
        transaction, sends = of(sent), same(run.said("sent"), order(sent))
        mine = [row for row in sends if row.actor == sent.actor]
        acks = [row for row in same(run.said("acked"), order(sent)) if row.actor == sent.actor]
        asked = min(run.asked(sent), default=0)
        own = [row.at_ns for row in starts if row.actor == sent.actor and row.at_ns <= asked]
        if not transaction or len(mine) > 1 or not acks or not own or sent.actor not in ids:
            continue
        if run.told(sent) != ["txn_committed"]:
            continue
        for row in starts:
            is_other = row.actor != sent.actor and ids.get(row.actor) == ids[sent.actor]
            if is_other and max(own) < int(row.detail.get("called_at_ns", 0)) <= row.at_ns < asked:
                found.add(transaction)
    return found


Commit = tuple[int, int, str]  # when, minus the offset, and by whom


def commits(run: Run) -> dict[tuple[Any, ...], list[Commit]]:
    """What the groups that have a name committed, by group, topic and partition."""
    by_place = defaultdict(list)
    for row in run.said("committed"):
        if row.offset is not None:
            at = run.group(row.actor), row.topic, row.partition
            by_place[at].append((row.at_ns, -row.offset, row.actor))
    for row in run.said("txn_offsets_sent"):
        ends = [it.at_ns for it in run.said("txn_committed") if of(it) == of(row)]
        if "group" not in row.detail or run.told(row) != ["txn_committed"]:
            continue
        for where, position in sent_offsets(row):
            topic, _, number = where.rpartition("-")
            by_place[row.detail["group"], topic, int(number)].append(
                (max(ends), -position, row.actor)
            )
    return {at: them for at, them in by_place.items() if not at[0].startswith("the group of ")}


def lost_commits(run: Run) -> Iterator[Found]:
    """Where a group was, beside the last position that it had committed before."""
    known = commits(run)
    for row in run.kind("log", "committed"):
        before = [it for it in known.get((row.actor, *place(row)[:2]), ()) if it[0] < row.at_ns]
        if row.detail["when"] == "end" and row.offset is not None and before:
            yield from behind(run, row.actor, row, max(before), row.at_ns, "held")
    began: dict[tuple[Any, ...], Event] = {}
    for row in run.said("delivered"):
        placed = [
            (it.at_ns, "moved" if is_move(it) else it.kind)
            for it in run.said("assigned", "sought", "revoked", "lost", "created")
            if it.actor == row.actor and it.at_ns <= row.at_ns
            and (it.detail.get("role") == "consumer" if it.kind == "created"
                 else place(it)[:2] == place(row)[:2])
        ]  # fmt: skip
        at_ns, kind = max(placed, default=(row.at_ns, ""))
        if kind in ("assigned", "created") and at_ns < row.at_ns and row.offset is not None:
            key = row.actor, *place(row)[:2], at_ns, kind
            began[key] = min(began.get(key, row), row, key=lambda it: it.offset or 0)
    for (actor, topic, partition, at_ns, kind), row in began.items():
        name = run.group(actor)
        before = [it for it in known.get((name, topic, partition), ()) if it[0] < at_ns]
        if before:
            yield from behind(run, name, row, max(before), at_ns, kind)


def is_move(row: Event) -> bool:
    return row.kind == "sought" and row.detail.get("to") != "bookmark"


def behind(
    run: Run, name: str, row: Event, last: Commit, at_ns: int, kind: str
) -> Iterator[Found]:  # fmt: skip
    """The finding, if this group was there after its last commit."""
    position, at = -last[1], row.offset or 0
    if at >= position:
        return
    said = run.said_by_group(name, row.topic, row.partition, "sought", "delivered")
    moves = [it.at_ns for it in said if is_move(it) and it.at_ns < at_ns]
    given = [it.offset or 0 for it in said if it.kind == "delivered"]
    end = run.ends.get((row.topic, row.partition))
    stop = max((end.offset if end else 0) or 0, max(given, default=-1) + 1)
    why = {
        "began": kind != "held",
        "unplaced": kind == "created",
        "moved": max(moves, default=-1) > last[0],
        "expired": at_ns - last[0] >= EXPIRY,
        "past the end": kind != "held" and position > stop,
    }
    by = actors(run.consumers(row.topic).get(name, ()))
    yield found(
        "lost-commit", row.topic, row.partition, None, (at, position), by,
        *(it for it, is_so in why.items() if is_so),
    )  # fmt: skip
