"""What the oracle sees in the events of one run: orders, places, how far each log was read."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from lab_utils.audit.facts import EXPIRY
from lab_utils.ledger.events import Event
from lab_utils.ledger.own_errors import DECLINED

Found = tuple[Any, ...]
Rows = list[Event]
Transaction = tuple[str, str]  # the producer, and the number


def order(row: Event) -> tuple[Any, ...]:
    """What makes two records the same order."""
    return row.topic, row.key, row.value


def place(row: Event) -> tuple[Any, ...]:
    return row.topic, row.partition, row.offset


def same(rows: Rows, them: tuple[Any, ...]) -> Rows:
    return [row for row in rows if order(row) == them]


def places(rows: Rows) -> list[tuple[Any, ...]]:
    """The different places of these rows, in sequence."""
    return sorted({(row.partition, row.offset) for row in rows if row.offset is not None})


def as_sorted(row: Event) -> tuple[Any, ...]:
    """What sorts before what where orders differ: nothing before everything."""
    return row.key is not None, row.key or "", row.value is not None, row.value or ""


def actors(rows: Iterable[Event]) -> str | None:
    return ", ".join(sorted({row.actor for row in rows})) or None


def found(
    name: str, topic: str | None = None, partition: int | None = None, value: str | None = None,
    offsets: Iterable[int] | None = None, actor: str | None = None, *circumstances: str,
) -> Found:  # fmt: skip
    at = None if offsets is None else tuple(offsets)
    return name, topic, partition, value, at, actor, circumstances


def is_drained(row: Event) -> bool:
    return row.detail.get("drained") == "true"


def came_as_far(row: Event) -> bool:
    """Did a read_committed reader come as far as it may go?"""
    return row.detail.get("committed_drained") == "true"


def furthest(ends: Rows, how_far: Callable[[Event], bool]) -> dict[tuple[Any, ...], Event]:
    best: dict[tuple[Any, ...], Event] = {}
    for row in ends:
        at = row.topic, row.partition
        if at not in best or how_far(row) >= how_far(best[at]):
            best[at] = row
    return best


def in_time(row: Event) -> tuple[int, bool, int]:
    """By time; of one time what was given comes last, by its offset."""
    return row.at_ns, row.kind == "delivered", -1 if row.offset is None else row.offset


def last_read(rows: Rows) -> tuple[Rows, Rows]:
    """The records that a later reading of the same reader did not find again, after all others."""

    def reader(row: Event) -> tuple[Any, ...]:
        return row.topic, row.partition, row.actor

    def reading(row: Event) -> int:
        return sum(reader(it) == reader(row) and it.at_ns < row.at_ns for it in ends)

    ends = [row for row in Run(rows).kind("log", "end") if is_drained(row)]
    found, closed = defaultdict(list), defaultdict(list)
    for row in Run(rows).kind("log", "record", "visible"):
        found[reader(row), row.kind, reading(row)].append(row)
    for row in ends:
        closed[reader(row), reading(row)].append(row.detail.get("committed_drained"))
    gone = []
    for (who, kind, number), here in found.items():
        for (other, same_kind, later), there in found.items():
            said = closed[other, later]
            is_whole = said and (kind == "record" or "false" not in said)
            if (who, kind) == (other, same_kind) and number < later and is_whole:
                first = min(row.offset or 0 for row in there)
                held = {(place(row), order(row)) for row in there}
                gone += [
                    id(row) for row in here
                    if (row.offset or 0) >= first and (place(row), order(row)) not in held
                ]  # fmt: skip
    return [row for row in rows if id(row) not in gone], [row for row in rows if id(row) in gone]


def by_start(rows: Rows) -> Rows:
    """Rows whose transactions are numbered anew with each start of their producer."""
    starts = [row for row in Run(rows).said("created") if row.detail.get("role") == "producer"]
    found = []
    for row in rows:
        at_ns = min(row.at_ns, int(row.detail.get("called_at_ns", row.at_ns)))
        start = sum(it.actor == row.actor and it.at_ns <= at_ns for it in starts)
        number = row.detail.get("transaction")
        if number is not None and start > 1 and row.source == "client":
            named = {"transaction": f"{number} (start {start})"}
            row = replace(row, detail=row.detail | named)
        found.append(row)
    return found


def of(row: Event) -> Transaction | None:
    number = row.detail.get("transaction")
    return (row.actor, number) if number is not None else None


def may_be_of(row: Event, name: str) -> bool:
    """May the offsets that a transaction sent be of this group?"""
    return row.detail.get("group") in (None, name) or name.startswith("the group of ")


def sent_offsets(row: Event) -> list[tuple[str, int]]:
    """The partitions whose offsets it sent; one of which nothing was read has none to send."""
    named = [text.rpartition(":") for text in json.loads(row.detail["offsets"])]
    return [(place, int(position)) for place, _, position in named if int(position) >= 0]


def reachable(edges: set[tuple[Transaction, Transaction]]) -> set[tuple[Transaction, Transaction]]:
    reach = set(edges)
    while True:
        more = {(a, d) for a, b in reach for c, d in reach if b == c} - reach
        if not more:
            return reach
        reach |= more


@dataclass(frozen=True)
class Run:
    """What the events of one run say of its orders, logs, readers and transactions.

    gone  the records that a reader found, and not when it read the log again
    """

    rows: Rows
    gone: Rows = field(default_factory=list)

    def kind(self, source: str, *kinds: str) -> Rows:
        """What this witness has of these kinds."""
        return [row for row in self.rows if row.source == source and row.kind in kinds]

    def said(self, *kinds: str) -> Rows:
        """What clients have of these kinds."""
        return self.kind("client", *kinds)

    @cached_property
    def orders(self) -> set[tuple[Any, ...]]:
        """Each order that anybody sent, stored or was given."""
        return {
            order(row)
            for row in self.said("sent", "acked", "failed", "unknown", "delivered")
            + self.kind("log", "record", "visible")
        }

    def copies(self, them: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The places at which the log holds the order."""
        return places(same(self.kind("log", "record", "visible"), them))

    def given(self, them: tuple[Any, ...]) -> Rows:
        """The deliveries of the order: before the start of the log an equal one may have been.

        That is of an earlier run, unless this order was acked or found there.
        """
        its = {(row.partition, row.offset) for row in same(self.said("acked"), them)}
        its |= set(self.copies(them))
        return [
            row for row in same(self.said("delivered"), them)
            if (row.partition, row.offset) in its or self.kept([row])
        ]  # fmt: skip

    # How far the log was read.

    @cached_property
    def ends(self) -> dict[tuple[Any, ...], Event]:
        """For each partition that was read its end: the last of those that came furthest."""
        return furthest(self.kind("log", "end"), is_drained)

    @cached_property
    def stops(self) -> dict[tuple[Any, ...], Event]:
        """The same of read_committed readers: an end of which nobody says that says nothing."""
        ends = self.kind("log", "end")
        said = [row for row in ends if {"last_stable", "committed_drained"} & row.detail.keys()]
        return furthest(said, came_as_far)

    def is_read_committed(self, topic: str | None, partition: int | None) -> bool:
        """Did a read_committed reader come as far as it may: to the end, or an open transaction?"""
        row = self.stops.get((topic, partition))
        return row is not None and "last_stable" in row.detail and came_as_far(row)

    def is_settled(self, topic: str | None, partition: int | None) -> bool:
        """Did a read_committed reader come to the end of the log, with nothing open?"""
        if not self.is_read_committed(topic, partition):
            return False
        row = self.stops[topic, partition]
        return row.offset is None or int(row.detail["last_stable"]) >= row.offset

    def came_later(self, row: Event) -> bool:
        """Is this record after the end to which a read_committed reader came?"""
        end = self.stops.get((row.topic, row.partition))
        return end is not None and end.offset is not None and (row.offset or 0) >= end.offset

    def start(self, topic: str | None, partition: int | None) -> int:
        """The first offset that the log still has, if that is known."""
        end = self.ends.get((topic, partition))
        return int(end.detail.get("start", 0)) if end else 0

    def is_passed_by(self, row: Event) -> bool:
        """Did a read_committed reader find the log beginning after this record?"""
        end = self.stops.get((row.topic, row.partition))
        return end is not None and (row.offset or 0) < int(end.detail.get("start", 0))

    def all_drained(self, topic: str | None) -> bool:
        """Was every partition that was read, or acked in, read to its end?"""
        of = [row for (name, _), row in self.ends.items() if name == topic]
        acked = {place(row)[:2] for row in self.said("acked") if row.topic == topic}
        is_read = {at for at in acked if at[1] is not None} <= self.ends.keys()
        return bool(of) and is_read and all(map(is_drained, of))

    def was_read_since(self, topic: str | None, rows: Rows) -> bool:
        """Was each partition that was read, read after all these?"""
        read = [row.at_ns for (name, _), row in self.ends.items() if name == topic]
        return max(row.at_ns for row in rows) < min(read, default=-1)

    def kept(self, rows: Rows) -> Rows:
        """Those of these records that the log has not lost at its beginning."""
        return [r for r in rows if (r.offset or 0) >= self.start(r.topic, r.partition)]

    def holds_nothing(self, at: tuple[Any, ...]) -> bool:
        """Was the log read to its end after this place or its delivery, and nothing found there?"""
        row = self.ends.get(at[:2])
        is_held = any(place(it) == at for it in self.kind("log", "record", "visible"))
        if row is None or is_held or not is_drained(row) or at[2] < self.start(*at[:2]):
            return False
        is_within = row.offset is not None and at[2] < row.offset
        seen = self.said("delivered") + self.gone
        given = [it.at_ns for it in seen if place(it) == at]
        return is_within or min(given, default=row.at_ns) < row.at_ns

    def superseded(self, row: Event) -> bool:
        """May a compacted topic have taken away what was acked or delivered here?"""
        # What was aborted is taken away, and supersedes nothing.
        ends = self.ends_of(row)
        may_be_aborted = bool(ends) and not ends & {"txn_committed", "no transaction"}
        return self.is_followed(row) or (self.is_compacted(row.topic) and may_be_aborted)

    def is_compacted(self, topic: str | None) -> bool:
        """Did a topic keep the last record of each key, and no more for certain, at any time?"""
        set_to = [it.detail for it in self.kind("workload", "topic") if it.topic == topic]
        return any("compact" in it.get("cleanup.policy", "") for it in set_to)

    def is_followed(self, row: Event) -> bool:
        """May it be gone from a compacted topic, aborted or not?"""
        if not self.is_compacted(row.topic):
            return False
        later = [
            it.offset for it in self.said("acked") + self.kind("log", "record", "visible")
            if (it.topic, it.partition, it.key) == (row.topic, row.partition, row.key)
            and it.offset is not None and self.ends_of(it) != {"txn_aborted"}
        ]  # fmt: skip
        is_before = row.offset is not None and row.offset < max(later, default=-1)
        has_tombstone = self.has_lost_tombstone(row.topic, row.key)
        return row.key is None or row.value is None or is_before or has_tombstone

    def may_be_compacted(self, them: tuple[Any, ...]) -> bool:
        """May an order that is not in the log have been stored, and compacted since?"""
        topic, key, value = them
        others = self.said("acked") + self.kind("log", "record", "visible")
        others += [row for row in self.said("sent") if row.value is None]
        is_followed = any((row.topic, row.key) == (topic, key) for row in others)
        return self.is_compacted(topic) and (None in (key, value) or is_followed)

    def has_lost_tombstone(self, topic: str | None, key: str | None) -> bool:
        """May a tombstone of this key have been stored, at a place that nobody knows?"""
        tombstone = topic, key, None
        sends = [row for row in self.said("sent") if order(row) == tombstone]
        told = self.said("acked") + self.kind("log", "record", "visible")
        reports = same(self.said("failed", "unknown"), tombstone)
        declined = sum(row.error in DECLINED for row in reports)
        unaccounted = len(sends) - declined - len(places(same(told, tombstone)))
        return unaccounted > 0 and not self.is_aborted(tombstone)

    def ends_of(self, row: Event) -> set[str]:
        """How the transactions ended that this order was sent in, each time that it was sent."""
        return {
            next(iter(self.told(it)), "not known") if of(it) else "no transaction"
            for it in same(self.said("sent"), order(row))
        }

    @cached_property
    def what_is_held(self) -> dict[tuple[Any, ...], Event]:
        """What the log holds, by place; at one place the first of several orders."""
        found: dict[tuple[Any, ...], Event] = {}
        for row in sorted(self.kind("log", "record", "visible"), key=as_sorted):
            found.setdefault(place(row), row)
        return found

    def tells_visible(self, topic: str | None) -> bool:
        """Does the log hold what is visible, or a transaction, ended by a marker or still open?"""
        written = self.kind("log", "marker", "batch", "visible")
        return any(
            row.topic == topic and (row.kind != "batch" or "transactional" in row.detail)
            for row in written
        )

    def has_transactions(self, topic: str | None) -> bool:
        """May the log hold what a read_committed reader is not given?"""
        sends = [row for row in self.said("sent") if row.topic == topic]
        return self.tells_visible(topic) or any(map(of, sends))

    @cached_property
    def readable(self) -> dict[tuple[Any, ...], Event]:
        """What any reader may be given, by its place."""
        found = {place(row): row for row in self.kept(self.kind("log", "visible"))}
        for row in self.kept(self.kind("log", "record")):
            if not self.has_transactions(row.topic) or place(row) in found:
                found[place(row)] = row
        return found

    # Who reads what.

    def can_be_given(self, them: tuple[Any, ...]) -> int:
        """How many acked copies of an order a read_committed reader must be given in the end."""
        topic = them[0]
        acks = len(same(self.said("acked"), them))
        sends = same(self.said("sent"), them)
        if self.all_drained(topic) and self.tells_visible(topic):
            if self.is_aborted(them):
                return 0
            return min(acks, len(places(same(self.kept(self.kind("log", "visible")), them))))
        if any(row.detail.get("transaction") for row in sends):
            committed = [row for row in sends if "txn_committed" in self.told(row)]
            acks -= len(sends) - len(committed)
        if self.all_drained(topic):
            held = self.kept(self.kind("log", "record", "visible"))
            acks = min(acks, len(places(same(held, them))))
        return acks

    def group(self, actor: str) -> str:
        """The group of a consumer; one of its own if nobody knows it."""
        made = [row for row in self.said("created") if row.actor == actor]
        known = made[-1].detail.get("group.id") if made else None
        return known or f"the group of {actor}"

    def consumers(self, topic: str | None) -> dict[str, Rows]:
        """The groups that read a topic, each with what was said by its members."""
        found = defaultdict(list)
        for row in self.said("assigned", "delivered", "sought"):
            if row.topic == topic:
                found[self.group(row.actor)].append(row)
        return found

    def works(self, name: str, topic: str | None) -> bool:
        """Do this group's members say what they worked on in the topic, or somebody in no group?"""
        workers = {row.actor for row in self.said("processed") if row.topic == topic}
        readers = self.consumers(topic)
        in_groups = {row.actor for members in readers.values() for row in members}
        mine = {row.actor for row in readers.get(name, ())}
        return bool(workers & mine or workers - in_groups)

    def bookmarks(self) -> dict[tuple[Any, ...], int]:
        """What the broker held at the end of the run, by group, topic and partition.

        Of a group whose bookmark nobody read: what a member committed last, if it was given
        something.
        """
        held: dict[tuple[Any, ...], int] = {}
        for row in sorted(self.kind("log", "committed"), key=in_time):
            if row.detail["when"] == "end" and row.offset is not None:
                held[row.actor, row.topic, row.partition] = row.offset
        told = {}
        for row in sorted(self.said("committed"), key=lambda row: (row.at_ns, row.offset)):
            at = self.group(row.actor), row.topic, row.partition
            is_read = any(it[:2] == at[:2] for it in held)
            if not is_read and self.said_by_group(*at, "delivered"):
                told[at] = row.offset or 0
        return held | told

    def worked_on_since(self, name: str, topic: str | None, partition: int | None) -> int:
        """From which offset on a group's bookmark is held against its work."""
        if any((row.actor, row.topic, row.detail["when"]) == (name, topic, "end")
               for row in self.kind("log", "committed")):  # fmt: skip
            return 0
        given = self.said_by_group(name, topic, partition, "delivered")
        return min((row.offset or 0 for row in given), default=0)

    def nobody_knows(self, topic: str | None, bookmark: str, name: str) -> bool:
        """Are the readers of a bookmark unknown, and the group of these readers?"""
        return name.startswith("the group of ") and bookmark not in self.consumers(topic)

    def said_by_group(
        self, name: str, topic: str | None, partition: int | None, *kinds: str
    ) -> Rows:
        """What the consumers of a group said of a partition."""
        return [
            row for row in self.said(*kinds)
            if (self.group(row.actor), row.topic, row.partition) == (name, topic, partition)
        ]  # fmt: skip

    def has_sought(
        self, topic: str | None, partition: int | None, name: str, *to: str
    ) -> bool:  # fmt: skip
        """Did a consumer of this group choose an offset, or go to one of these?"""
        its = self.said_by_group(name, topic, partition, "sought")
        return any(row.offset is not None or row.detail.get("to") in to for row in its)

    def is_moved_over(
        self, topic: str | None, name: str, partition: int | None, offset: int
    ) -> bool:
        """Did its program move this group over the offset, and did it go on from there?"""
        said = self.said_by_group(name, topic, partition, "delivered", "sought")
        furthest, moved = -1, dict[str, Event]()
        for row in sorted(said, key=in_time):
            if row.kind == "sought":
                moved.pop(row.actor, None)
                if row.offset is not None or row.detail.get("to") == "end":
                    moved[row.actor] = row
            elif row.offset is not None:
                move = moved.pop(row.actor, None)
                if move and furthest < offset < self._went_on(move, row.offset):
                    return True
                furthest = max(furthest, row.offset)
        return False

    def _went_on(self, moved: Event, given: int) -> int:
        """Up to where the program chose; a group whose offset is gone is reset to anywhere."""
        if moved.offset is None or moved.offset < self.start(moved.topic, moved.partition):
            return given
        return min(moved.offset, given)

    def why_again(self, done: Rows, given: Rows) -> list[str]:
        """Why the work was done again: without a new delivery, or since the program went back."""
        if given and len(done) > len(given):
            return ["given once"]
        times = Counter(self.group(row.actor) for row in given)
        went_back = any(
            self.has_sought(*place(given[0])[:2], name, "beginning", "end")
            for name, deliveries in times.items() if deliveries > 1
        )  # fmt: skip
        return ["sought"] if went_back else []

    def _there(self, topic: str | None, name: str, partition: int | None) -> Rows:
        """What a group committed in a partition, and what it was given of it."""
        by_transactions = [
            replace(done, kind="committed", offset=position)
            for row in self.said("txn_offsets_sent") for place, position in sent_offsets(row)
            for done in self.ends_told(row)[-1:]
            if self.told(row) == ["txn_committed"]
            and place == f"{topic}-{partition}" and may_be_of(row, name)
        ]  # fmt: skip
        said = self.said_by_group(name, topic, partition, "committed", "delivered")
        theirs = [row for row in said if row.offset is not None]
        return sorted(theirs + by_transactions, key=in_time)

    def is_ahead(self, topic: str | None, name: str, partition: int | None, offset: int) -> bool:
        """Had this group committed a position after the offset, and did it go on from there?"""
        theirs = self._there(topic, name, partition)
        position = 0
        for row in theirs:
            at = row.offset or 0
            if row.kind == "delivered" and at >= offset:
                return offset < position <= at
            if row.kind == "committed":
                position = at
        return bool(theirs) and theirs[-1].kind == "committed" and position > offset

    def has_resumed(self, topic: str | None, name: str, partition: int | None, offset: int) -> bool:
        """Had this group committed a position at or before the offset when it was given more?"""
        theirs = self._there(topic, name, partition)
        first = next((row for row in theirs if row.kind == "committed"), None)
        given = [row.at_ns for row in theirs if row.kind == "delivered"]
        if first is None or max(given, default=0) <= first.at_ns:
            return False
        theirs += self.said_by_group(name, topic, partition, "sought")
        times = sorted(row.at_ns for row in theirs)
        forgot = any(at + EXPIRY <= after > first.at_ns for at, after in pairwise(times))
        return not forgot and self.start(topic, partition) <= (first.offset or 0) <= offset

    def why_not_given(
        self, topic: str | None, name: str, partition: int | None, offset: int
    ) -> list[str]:
        """How this group came past what it was not given: resumed, sent past, sought, ahead."""
        given = self.said_by_group(name, topic, partition, "delivered")
        offsets = [row.offset or 0 for row in given]
        was_acked = any(place(row) == (topic, partition, offset) for row in self.said("acked"))
        resumed = self.has_resumed(topic, name, partition, offset)
        was_to_come = resumed or was_acked or min(offsets, default=offset) < offset
        sought = self.is_moved_over(topic, name, partition, offset)
        ahead = self.is_ahead(topic, name, partition, offset)
        came_past = max(offsets, default=-1) >= offset and not sought and not ahead
        why = ["resumed"] * resumed + ["sent past"] * (was_to_come and came_past)
        return why + ["sought"] * sought + ["ahead"] * (ahead and max(offsets, default=-1) > offset)

    # What programs were told of their transactions.

    def first_transaction(self, them: tuple[Any, ...]) -> Transaction:
        """The first transaction, by name, that the order was sent in."""
        return min(of(row) or ("", "") for row in same(self.said("sent"), them))

    def ends_told(self, row: Event) -> Rows:
        """Where the program was told of an end of the transaction that this is of."""
        return [it for it in self.said("txn_committed", "txn_aborted")
                if of(row) is not None and of(it) == of(row)]  # fmt: skip

    def told(self, row: Event) -> list[str]:
        """What the program was told of that end; nothing, if some of several ended otherwise."""
        return [] if self.are_several(row) else [it.kind for it in self.ends_told(row)][-1:]

    def are_several(self, row: Event) -> bool:
        """Are several transactions of this name, and not all known to have ended in one way?"""
        ends = self.ends_told(row)
        began = [it for it in self.said("txn_began") if of(it) == of(row)]
        return len({it.kind for it in ends}) > 1 or len(began) > max(1, len(ends))

    def is_aborted(self, them: tuple[Any, ...]) -> bool:
        """Was the program told each time that it sent the order that this was aborted?"""
        sends = same(self.said("sent"), them)
        return bool(sends) and all(self.told(row) == ["txn_aborted"] for row in sends)

    def is_aborted_copy(self, row: Event) -> bool:
        """Was this given from a place that read_committed readers pass over, with nothing open?

        They must be given as many copies as were committed: what they lack may be one of these.
        """
        sends = same(self.said("sent"), order(row))
        ends = [self.told(it) for it in sends]
        shown = places(same(self.kind("log", "visible"), order(row)))
        committed = ends.count(["txn_committed"])
        is_over = ["txn_aborted"] in ends or all(self.asked(it) for it in sends) or shown
        at = (row.partition, row.offset)
        is_passed = (
            self.is_settled(row.topic, row.partition)
            and not self.came_later(row)
            and self.stops[row.topic, row.partition].offset is not None
            and not self.is_passed_by(row)
            and bool(self.kept([row]))
            and at in self.copies(order(row))
            and at not in places(same(self.kind("log", "visible"), order(row)))
            and not self.superseded(row)
        )
        return (
            bool(sends) and all(map(of, sends)) and committed < len(sends)
            and len(shown) >= committed and bool(is_over) and is_passed
        )  # fmt: skip

    def given_too_often(self, them: tuple[Any, ...], read: Rows) -> set[tuple[Any, ...]]:
        """Who read an order at more places than it was not aborted; where, who, and by which kind.

        Nobody says which of the places is that of an aborted copy.
        """
        sends = same(self.said("sent"), them)
        aborts = sum(self.told(row) == ["txn_aborted"] for row in sends)
        found = {
            (tuple(sorted({place(row)[1:] for row in read if (row.actor, row.kind) == who})), *who)
            for who in {(row.actor, row.kind) for row in read}
        }
        return {
            (at, actor, "visible" if kind == "visible" else "") for at, actor, kind in found
            if 0 < aborts < len(sends) and all(map(of, sends)) and len(at) > len(sends) - aborts
        }  # fmt: skip

    def asked(self, row: Event) -> list[int]:
        """When a commit of the transaction that this is of was asked for, at the earliest."""
        if of(row) is not None and self.are_several(row):
            return [0]
        names = {None, "commit_transaction"}  # a call without a name may have been this one
        calls = self.said("txn_committed") + [
            it for it in self.said("txn_failed") if it.detail.get("call") in names
        ]
        return [int(it.detail.get("called_at_ns", 0)) for it in calls if of(it) == of(row)]

    def is_over(self, producer_id: int | None, at_ns: int) -> bool:
        """Is the last that the coordinator noted of this producer id an end, noted by then?"""
        noted = [row for row in self.kind("log", "transaction") if row.producer_id == producer_id]
        noted.sort(key=lambda row: row.offset or 0)
        ends = ("CompleteCommit", "CompleteAbort", "Empty")
        return bool(noted) and noted[-1].detail["state"] in ends and noted[-1].at_ns < at_ns
