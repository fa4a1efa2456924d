"""The rules of the findings a second time, in plain Python, to be right by reading.

A finding is (finding, topic, partition, value, offsets, actor, circumstances), of the events of one
run. The rules are grouped as the modules of lab_utils/audit are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from lab_utils.ledger.events import Event
from lab_utils.ledger.own_errors import DECLINED, OWN_ERRORS
from tests.oracle_acts import (
    began_since,
    fenced_commits,
    invisible,
    lost_commits,
    outlived,
    records_at,
    shown_to,
    stood,
    told_positions,
    was_before,
    was_sent_since,
    was_told_since,
)
from tests.oracle_facts import (
    Found,
    Rows,
    Run,
    Transaction,
    actors,
    as_sorted,
    by_start,
    came_as_far,
    found,
    is_drained,
    last_read,
    may_be_of,
    of,
    order,
    place,
    places,
    reachable,
    same,
    sent_offsets,
)

# Producing.


def lost(run: Run) -> Iterator[Found]:
    for them in run.orders:
        topic, _, value = them
        acks = same(run.said("acked"), them)
        missing, is_deleted, is_superseded, was_read = [], True, True, False
        is_outlived = False
        lost: Rows = []
        for (name, partition), end in run.ends.items():
            all_here = [row for row in acks if row.partition == partition]
            here = [row for row in all_here if was_before(row, end)]
            there = [it for it in run.copies(them) if it[0] == partition]
            if name == topic and is_drained(end) and len(here) > len(there):
                missing.append(partition)
                lost += [row for row in all_here if (row.partition, row.offset) not in there]
                # A copy is there for one of the acks of its place, and explains none of the others.
                at = [(row.partition, row.offset) for row in all_here]
                bare = [
                    row for number, row in enumerate(all_here)
                    if at[number] not in there or at[number] in at[:number]
                ]  # fmt: skip
                before = [row for row in bare if (row.offset or 0) < run.start(topic, partition)]
                is_deleted &= len(before) >= len(here) - len(there)
                gone = [row for row in bare if run.superseded(row)]
                is_superseded &= len(gone) >= len(here) - len(there)
                is_outlived |= outlived(run, gone)
                read = places(same(run.gone, them) + run.given(them))
                seen = sum(it[0] == partition and it not in there for it in read)
                was_read |= len(here) - len(there) > max(0, len(bare) - seen)
        if missing:
            why = ["superseded"] if is_superseded else []
            why += ["outlived"] if is_superseded and is_outlived else []
            why += ["deleted"] if is_deleted else []
            why += ["read"] if was_read else []
            why += ["sent since"] if was_sent_since(run, them) else []
            offsets = [offset for _, offset in places(acks)]
            by = actors(lost or acks)
            yield found("lost-write", topic, min(missing), value, offsets, by, *why)


def duplicates(run: Run) -> Iterator[Found]:
    for them in run.orders:
        where, sends = run.copies(them), same(run.said("sent"), them)
        if len(where) > 1:
            topic, _, value = them
            partitions = {partition for partition, _ in where}
            visible = places(same(run.kind("log", "visible"), them))
            why = []
            if len(sends) >= len(where):
                why.append("sent again")
                settled = all(run.is_settled(topic, partition) for partition in partitions)
                if run.has_transactions(topic) and settled and len(visible) < min(2, len(where)):
                    why.append("aborted")
            if not sends:
                why.append("nobody recorded its sends")
            yield found(
                "duplicate", topic, min(partitions) if len(partitions) == 1 else None, value,
                sorted(offset for _, offset in where), actors(sends), *why,
            )  # fmt: skip


def errors(run: Run) -> Iterator[Found]:
    """Reported as errors alone: a phantom if it is in the log, unavailable if it is nowhere."""
    for them in run.orders:
        topic, _, value = them
        reports = same(run.said("failed", "unknown"), them)
        if same(run.said("acked"), them) or not reports:
            continue
        where = run.copies(them)
        silent = max(len(same(run.said("sent"), them)) - len(reports), 0)
        if len(where) > silent:
            offsets = sorted({offset for _, offset in where})
            declined = all(row.error in DECLINED for row in reports)
            why = [] if declined else ["was on its way"]
            by = actors([row for row in reports if row.error not in DECLINED] or reports)
            yield found("phantom", topic, where[0][0], value, offsets, by, *why)
        refused = [row for row in reports if row.error not in OWN_ERRORS]
        given = same(run.said("delivered") + run.gone, them)
        is_read = run.all_drained(topic) and run.was_read_since(topic, reports)
        if refused and not where and not given and is_read and not run.may_be_compacted(them):
            yield found("unavailable", topic, None, value, (), actors(refused))


def certain_place(run: Run, them: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Where an order is that was sent once: where its ack said, or where its only copy is."""
    where = run.copies(them)
    if len(same(run.said("sent"), them)) != 1:
        return None
    confirmed = [it for it in places(same(run.said("acked"), them)) if it in where]
    if confirmed:
        return confirmed[0]
    return where[0] if len(where) == 1 else None


def backwards(run: Run) -> Iterator[Found]:
    """Of two neighbours in the order of sending, the later one has the lower offset."""
    sequences = defaultdict(list)
    for row in run.said("sent"):
        if at := certain_place(run, order(row)):
            sequences[row.actor, row.producer_id, row.topic, at[0]].append((row, at[1]))
    for (actor, _, topic, partition), sequence in sequences.items():
        for (before, earlier), (row, offset) in pairwise(sequence):
            if offset < earlier:
                at = (earlier, offset)
                why = [] if same(run.said("acked"), order(before)) else ["not acked"]
                yield found("nonmonotonic-send", topic, partition, row.value, at, actor, *why)


# Consuming.


def unseen(run: Run) -> Iterator[Found]:
    for them in run.orders:
        topic, _, value = them
        acks = same(run.said("acked"), them)
        for name, members in run.consumers(topic).items() if acks else ():
            given = [row for row in run.given(them) if row in members]
            if len(places(given)) >= run.can_be_given(them):
                continue
            where = set(places(acks)) | set(run.copies(them))
            delivered = [row for row in members if row.kind == "delivered"]
            if all(row.kind != "assigned" for row in members):  # they read what they chose
                chosen = {row.partition for row in members}
                if not chosen & {partition for partition, _ in where}:
                    continue
            passed = any(
                row.partition == partition and (row.offset or 0) > offset
                for row in delivered
                for partition, offset in where
            )
            moved = any(run.is_moved_over(topic, name, *it) for it in where)
            chose = any(run.has_sought(topic, number, name, "end") for number, _ in where)
            has_begun = {row.partition for row in delivered} & {partition for partition, _ in where}
            if has_begun and not passed:
                why = "late"
            elif moved or (chose and not passed):
                why = "sought"
            elif any(run.is_ahead(topic, name, *it) for it in where):
                why = "ahead"
            elif not passed:
                why = "not begun"
            else:
                resumed = any(run.has_resumed(topic, name, *it) for it in where)
                why = "resumed" if resumed else "passed"
            at = places(acks)
            yield found(
                "unseen", topic, at[0][0] if at else None, value, sorted(it for _, it in at),
                actors(members), why, *stood(run, them, name, given),
            )  # fmt: skip


def deliveries(run: Run) -> Iterator[Found]:
    handed = defaultdict(list)
    for row in run.said("delivered"):
        handed[(*place(row), run.group(row.actor), order(row))].append(row)
    for (*at, offset, name, (_, _, value)), times in handed.items():
        if len(times) > records_at(run, times[0]):
            why = ["sought"] if run.has_sought(*at, name, "beginning", "end") else []
            yield found("duplicate-delivery", *at, value, (offset,), actors(times), *why)


def skipped(run: Run) -> Iterator[Found]:
    worked = run.said("processed")
    held_places = run.what_is_held
    for at, record in run.readable.items():
        topic, partition, offset = at
        done = [row for row in worked if place(row) == at and row.value in (None, record.value)]
        there = [r for r in run.said("delivered") if place(r) == at]
        given = [run.group(r.actor) for r in there]
        itself = [run.group(r.actor) for r in there if r.value in (None, record.value)]
        for (name, theirs, number), bookmark in run.bookmarks().items():
            if (theirs, number) != (topic, partition) or bookmark <= offset:
                continue
            if offset < run.worked_on_since(name, topic, partition):
                continue
            is_known = name in run.consumers(topic)
            others = {r.actor for it, rows in run.consumers(topic).items() if it != name
                      for r in rows}  # fmt: skip
            did_it = any(not is_known or row.actor not in others for row in done)
            did_it = did_it and (not is_known or not given or name in given)
            works = run.works(name, topic)
            if not works:
                mine = run.said_by_group(name, topic, partition, "delivered")
                did_it = offset <= max((row.offset or 0 for row in mine), default=offset)
            copies = [it for it, r in held_places.items() if order(r) == order(record)]
            own = [row for row in worked if not is_known or row.actor not in others]
            elsewhere = [row for row in own if place(row) in copies and place(row) != at]
            acks = {place(r) for r in same(run.said("acked"), order(record)) if place(r) in copies}
            if works and len(elsewhere) >= max(1, len(acks)):
                continue
            if not did_it:
                why = ["not given"] if is_known else []
                if itself and (not is_known or name in itself):
                    why = ["given"]
                elif is_known:
                    why += run.why_not_given(topic, name, partition, offset)
                by = actors(run.consumers(topic)[name]) if is_known else None
                yield found(
                    "skipped-processing", topic, partition, record.value, (offset,), by, *why
                )


def repeated(run: Run) -> Iterator[Found]:
    for at, them in {(place(row), order(row)) for row in run.said("processed")}:
        done = [row for row in same(run.said("processed"), them) if place(row) == at]
        given = [row for row in run.said("delivered") if place(row) == at]
        groups = {run.group(row.actor) for row in given}
        if len(done) > max(1, len(groups)) * records_at(run, done[0]):
            why = run.why_again(done, given)
            yield found("duplicate-effect", *at[:2], them[2], at[2:], actors(done), *why)


def applied_again(run: Run) -> Iterator[Found]:
    effects = run.kind("sink", "effect")
    for actor, them in {(row.actor, order(row)) for row in effects}:
        theirs = [row for row in effects if (row.actor, order(row)) == (actor, them)]
        asked = [
            row for row in run.said("sent") + run.kind("workload", "order")
            if row.value == them[2] and run.told(row) != ["txn_aborted"]
        ]  # fmt: skip
        with_its_key = [row for row in asked if row.key == them[1] is not None]
        wanted = [*Counter(it.topic for it in asked).values()]
        wanted += Counter(it.topic for it in with_its_key).values()
        times = sum(1 if row.records is None else row.records for row in theirs)
        if times > min(wanted, default=1):
            yield found("duplicate-effect", them[0], None, them[2], None, actor)


def polls(run: Run) -> Iterator[Found]:
    """Each delivery beside the one before it, which a rebalance, seek or start makes forgotten."""
    before: dict[tuple[Any, ...], tuple[int, int | None]] = {}
    placed: dict[tuple[Any, ...], int] = {}
    taken: dict[tuple[Any, ...], int] = {}
    started: dict[str, int] = {}
    events = run.said("delivered", "assigned", "sought", "revoked", "lost", "created")
    for row in sorted(events, key=lambda it: (it.at_ns, it.kind == "delivered", it.offset or 0)):
        here = row.actor, row.topic, row.partition
        if row.kind == "created":
            if row.detail.get("role") == "consumer":
                started[row.actor] = row.at_ns
            continue
        if row.kind != "delivered" or row.offset is None:
            (taken if row.kind in ("revoked", "lost") else placed)[here] = row.at_ns
            continue
        # What it was given when it was placed it may have been given before that.
        at_ns, last = before.get(here, (0, None))
        anew = max(placed.get(here, -1), started.get(row.actor, -1))
        is_taken = taken.get(here, -1) > anew
        last = None if is_taken or at_ns <= max(anew, taken.get(here, -1)) else last
        if last is not None and row.offset <= last:
            at = last, row.offset
            yield found("nonmonotonic-poll", row.topic, row.partition, row.value, at, row.actor)
        if last is not None:
            over = {
                at[2]: record.value for at, record in shown_to(run, row.actor).items()
                if at[:2] == here[1:] and last < at[2] < row.offset
            }  # fmt: skip
            for offset in sorted(over)[-1:]:
                why = ["deleted"] if run.start(row.topic, row.partition) > last + 1 else []
                yield found("poll-skip", *here[1:], over[offset], (offset,), row.actor, *why)
        before[here] = row.at_ns, row.offset


# Replication.


def inconsistent(run: Run) -> Iterator[Found]:
    spoken = [row for row in run.said("acked", "delivered") if row.offset is not None] + run.gone
    for at in {place(row) for row in spoken}:
        topic, partition, offset = at
        here = [row for row in spoken if place(row) == at]
        here.sort(key=as_sorted)
        names = list(dict.fromkeys((row.key, row.value) for row in here))
        records = [row for row in run.kind("log", "record", "visible") if place(row) == at]
        held = [(row.key, row.value) for row in sorted(records, key=as_sorted)]
        if held:
            others = [it for it in names if it != held[0]]
        else:
            others = names if run.holds_nothing(at) else names[1:]
        for key, value in others:
            speakers = [row for row in here if (row.key, row.value) == (key, value)]
            why = ["holds nothing"] if run.holds_nothing(at) else []
            why += ["superseded"] if why and run.superseded(speakers[0]) else []
            is_gone = "superseded" in why and outlived(run, speakers)
            why += ["outlived"] if is_gone else []
            why += ["acked alone"] if {row.kind for row in speakers} == {"acked"} else []
            why += ["sent since"] * was_told_since(run, (topic, key, value), speakers)
            yield found(
                "inconsistent-offsets", topic, partition, value, (offset,), actors(speakers), *why
            )


# Isolation.


def aborted(run: Run) -> Iterator[Found]:
    for them in run.orders:
        read = run.given(them) + same(run.kind("log", "visible"), them)
        seen = {
            ((place(row)[1:],), row.actor, "visible" if row.kind == "visible" else "")
            for row in read if run.is_aborted(them)
        } or {
            ((place(row)[1:],), row.actor, "passed over")
            for row in run.given(them) if run.is_aborted_copy(row)
        } or run.given_too_often(them, read)  # fmt: skip
        for at, actor, why in seen:
            parts = {partition for partition, _ in at}
            yield found(
                "aborted-read", them[0], min(parts) if len(parts) == 1 else None, them[2],
                sorted(offset for _, offset in at), actor, *filter(None, [why]),
                *began_since(run, same(run.said("sent"), them), [them[0]]),
            )  # fmt: skip


def precommitted(run: Run) -> Iterator[Found]:
    for them in run.orders:
        sends = same(run.said("sent"), them)
        if not sends or not all(map(of, sends)):
            continue
        if any("txn_aborted" in run.told(row) for row in sends):
            continue
        calls = [at for row in sends for at in run.asked(row)]
        is_asked = all(run.asked(row) for row in sends)
        is_hidden = run.copies(them) and not same(run.kind("log", "visible"), them)
        for _, partition, offset, actor in {
            (*place(row), row.actor)
            for row in run.given(them)
            if (min(send.at_ns for send in sends) <= row.at_ns < min(calls) if is_asked
                else is_hidden and run.is_read_committed(row.topic, row.partition)
                and not run.is_passed_by(row)
                and row.at_ns < run.stops[row.topic, row.partition].at_ns)
        }:  # fmt: skip
            yield found("precommitted-read", them[0], partition, them[2], (offset,), actor)


def members(run: Run) -> dict[Transaction, list[tuple[Event, bool]]]:
    """The stored copies of orders that were sent once, by transaction; can each be read?

    A transaction of which there are several is none of them.
    """
    found = defaultdict(list)
    for row in run.said("sent"):
        transaction = of(row)
        if transaction is None or len(same(run.said("sent"), order(row))) != 1:
            continue
        if run.are_several(row):
            continue
        visible = places(same(run.kind("log", "visible"), order(row)))
        seen = set()
        for record in run.kept(same(run.kind("log", "record"), order(row))):
            if place(record) not in seen and not run.is_passed_by(record):
                seen.add(place(record))
                can_be_read = (record.partition, record.offset) in visible
                if can_be_read or not run.is_followed(record):
                    found[transaction].append((record, can_be_read))
    return found


def torn(run: Run) -> Iterator[Found]:
    for transaction, records in members(run).items():
        settled = [
            (record.topic, can_be_read) for record, can_be_read in records
            if run.is_settled(record.topic, record.partition)
            and (can_be_read or not run.came_later(record))
        ]  # fmt: skip
        known = {can_be_read for _, can_be_read in settled}
        sends = [row for row in run.said("sent") if of(row) == transaction]
        ends = [run.told(row) for row in sends]
        why = began_since(run, sends, {topic for topic, _ in settled})
        if known == {True, False} or (known == {False} and ["txn_committed"] in ends):
            yield found("torn-transaction", None, None, None, None, transaction[0], *why)


def cycles(run: Run) -> Iterator[Found]:
    """Every pair of transactions is compared, and every way is gone."""
    edges: dict[str, set[tuple[Transaction, Transaction]]] = {"ww": set(), "wr": set(), "rw": set()}
    writes = [
        (transaction, record)
        for transaction, records in members(run).items()
        for record, can_be_read in records
        if can_be_read
    ]
    for one, a in writes:
        for other, b in writes:
            if (a.topic, a.partition) == (b.topic, b.partition) and place(a) < place(b):
                edges["ww"].add((one, other))
    for row in run.said("txn_offsets_sent"):
        reader = of(row)
        if reader is None or run.told(row) != ["txn_committed"]:
            continue
        for topic_partition, position in sent_offsets(row):
            # As Adya has it: the last that was read, and the first that was not.
            there = sorted(
                (record.offset or 0, writer) for writer, record in writes
                if f"{record.topic}-{record.partition}" == topic_partition
            )  # fmt: skip
            read = [writer for offset, writer in there if offset < position]
            unread = [writer for offset, writer in there if offset >= position]
            edges["wr"] |= {(writer, reader) for writer in read[-1:]}
            edges["rw"] |= {(reader, writer) for writer in unread[:1]}
    known: set[tuple[Transaction, Transaction]] = set()
    for name, which in (("G0", "ww"), ("G1c", "wr"), ("G2", "rw")):
        known |= {(one, other) for one, other in edges[which] if one != other}
        reach = reachable(known)
        components = {
            frozenset(node for pair in reach for node in pair
                      if (one, node) in reach and (node, one) in reach)
            for one, other in edges[which]
            if one != other and (other, one) in reach
        }  # fmt: skip
        for _ in components:
            yield found(name)


def zombies(run: Run) -> Iterator[Found]:
    written = {
        (row.topic, row.partition, row.producer_id or 0, row.offset or 0, row.producer_epoch or 0,
         row.kind)
        for row in run.kind("log", "batch", "marker")
        if row.producer_id is not None
    }  # fmt: skip
    for *them, offset, epoch, _ in written:
        before = [e for *theirs, at, e, _ in written if theirs == them and at < offset]
        topic, partition, producer_id = them
        if producer_id >= 0 and max(before, default=-1) > epoch:
            yield found("zombie-effect", topic, partition, None, (offset,))
    for actor, _ in fenced_commits(run):
        yield found("zombie-effect", actor=actor)


def stops(run: Run) -> Iterator[Found]:
    """Where a read_committed reader stops: at what is over to its coordinator, or at the rest."""
    for (topic, partition), end in run.stops.items():
        at = int(end.detail.get("last_stable", -1))
        if at < 0 or end.offset is None or at >= end.offset:
            continue
        over = {
            row.producer_id
            for row in run.kind("log", "batch")
            if place(row) == (topic, partition, at) and run.is_over(row.producer_id, end.at_ns)
        }
        for _ in over:
            yield found("hanging-transaction", topic, partition, None, (at, end.offset))
        if not over:
            yield found("stuck-lso", topic, partition, None, (at, end.offset))


def abandoned(run: Run) -> Iterator[Found]:
    """Input that a later commit is behind, and whose output was aborted and not sent again."""
    positions = [(row, *sent) for row in run.said("txn_offsets_sent") for sent in sent_offsets(row)]
    for end in run.said("txn_aborted"):
        sends = [row for row in run.said("sent") if of(row) == of(end)]
        firsts = [
            row for row in sends
            if run.is_aborted(order(row)) and of(row) == run.first_transaction(order(row))
        ]  # fmt: skip
        for where in {here for row, here, _ in positions if row.actor == end.actor and firsts}:
            topic, _, number = where.rpartition("-")
            partition = int(number)
            gaps, is_told = [], False
            for name in sorted(run.consumers(topic)):
                its = [it for it in positions if it[1] == where and may_be_of(it[0], name)]
                if not any(row.actor == end.actor for row, *_ in its):
                    continue
                committed = [
                    (ended.at_ns, position) for row, _, position in its
                    for ended in run.said("txn_committed")
                    if of(ended) == of(row) and run.told(row) == ["txn_committed"]
                ]  # fmt: skip
                given = run.said_by_group(name, topic, partition, "delivered")
                bookmarks = {
                    its_name: bookmark for (its_name, *at), bookmark in run.bookmarks().items()
                    if at == [topic, partition]
                    and (its_name == name or run.nobody_knows(topic, its_name, name))
                }  # fmt: skip
                before = [position for at, position in committed if at < end.at_ns]
                later = [position for at, position in committed if at > end.at_ns]
                by_hand = told_positions(run, bookmarks, topic, partition)
                read = [row.offset or 0 for row in given if row.at_ns < end.at_ns]
                again = [row.offset or 0 for row in given if row.at_ns > end.at_ns]
                if read:
                    start = max(before) if before else min(read)
                    is_told |= max([*later, *by_hand], default=-1) > start
                    later += bookmarks.values()
                    stop = min([*([max(later)] if later else []), max(read) + 1, *again])
                    is_skipped = bool(later) and stop > start and max(later) > start
                    gaps.append((start, stop - 1, is_skipped))
            if gaps and all(is_skipped for *_, is_skipped in gaps):
                at, why = gaps[0][:2], [] if is_told else ["bookmark alone"]
                yield found("aborted-output", topic, partition, None, at, end.actor, *why)


# Inconclusive.

ACTS = (
    "sent", "acked", "failed", "unknown", "delivered", "processed", "stored", "committed",
    "txn_initialised",
)  # fmt: skip


def inconclusive(run: Run) -> Iterator[Found]:
    kinds = Counter((row.actor, row.kind) for row in run.rows if row.source == "fault")
    for actor in {actor for actor, _ in kinds}:
        never = kinds[actor, "armed"] and not kinds[actor, "fired"]
        if kinds[actor, "unfired"] or never:
            yield found("inconclusive", actor=actor)
    read = {topic for topic, _ in run.ends}
    unread = {(row.topic,) for row in run.said("sent") if row.topic not in read}
    acked = {place(row)[:2] for row in run.said("acked") if row.topic in read}
    unfinished = {at for at, end in run.ends.items() if not is_drained(end)}
    unfinished |= {at for at, end in run.stops.items() if not came_as_far(end)}
    for at in unread | (acked - run.ends.keys()) | unfinished:
        yield found("inconclusive", *at)
    if run.rows and not run.said(*ACTS) and not run.kind("sink", "effect"):
        yield found("inconclusive")


RULES = {
    "producing": (lost, duplicates, errors, backwards, unseen),
    "consuming": (deliveries, skipped, repeated, applied_again, polls, lost_commits),
    "replication": (inconsistent, invisible),
    "isolation": (aborted, precommitted, torn, cycles, zombies, stops, abandoned),
    "inconclusive": (inconclusive,),
}


def oracle(events: Iterable[Event], module: str) -> Counter[Found]:
    """Everything that the rules of a module of the audit find in the events of one run."""
    rows, gone = last_read(sorted(events, key=lambda row: row.at_ns))
    run = Run(by_start(rows), gone)
    return Counter(found for rule in RULES[module] for found in rule(run))
