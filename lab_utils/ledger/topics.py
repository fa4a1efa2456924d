"""What a ledger has of one topic of a run: its settings, how far it was read, and who was given it.

The survey (audit/survey.py) fills it in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from lab_utils.ledger.acts import ANY, Decision

# A set, a dictionary or a list for each key.
SETS: Final[Any] = partial(defaultdict, set)
DICTS: Final[Any] = partial(defaultdict, dict)
LISTS: Final[Any] = partial(defaultdict, list)


@dataclass(frozen=True, slots=True)
class End:
    """How far one partition was read back, by a reader of one isolation level.

    drained      did it come to the end, or if it is read_committed as far as it may go?
    start        the first offset that the log still has
    last_stable  where a read_committed reader stops, if that is known
    """

    drained: bool
    at_ns: int
    start: int
    offset: int | None
    last_stable: int | None

    @property
    def read_committed(self) -> bool:
        """Did a read_committed reader come as far as it may go?"""
        return self.last_stable is not None and self.drained

    @property
    def settled(self) -> bool:
        """Does a read_committed reader come to the end of the log?"""
        is_stable = self.offset is None or (self.last_stable or 0) >= self.offset
        return self.read_committed and is_stable


@dataclass(slots=True)
class TopicFacts:
    """What is known of one topic of a run.

    lives      the settings that it had one after the other; `settings` are the last
    ends       partition -> how far it was read back
    stable     partition -> how far read_committed readers came, where anybody says that
    acked_in   the partitions that something was acked in
    named      client, or None for all of them and the log -> kind -> how many events, and how many
               of them have a key, and a value
    said_by    kind -> who said events of it
    begun_at_ns  when it was first sent to, or anybody was acked or given something of it
    tells_visible  does the log say which of its records a read_committed reader is given?
    began      group -> when anybody of it first read, was assigned, moved or committed
    given      group -> partition -> the lowest and the highest offset that was delivered to it, and
               when something last was
    committed  group -> partition -> when it first committed a position, and which
    ahead      group -> partition -> the offsets, from and up to, that a position passed over which
               the group had committed before it was given anything at or after them
    bookmarks  group -> partition -> what the broker held for it when that was last read
    lowest     the same, whenever it was read: the lowest
    highest    group -> partition -> the highest position that it is known to have committed
    went_back  was a group given what is before a position that it had committed?
    told       group -> partition -> when a member last committed a position, and which
    since      group -> partition -> where the work begins that a told bookmark is held against
    decisions  partition -> what the controller decided about it
    sought     group -> partition in which its program chose an offset -> the offsets, from and up
               to, that it passed over by this
    reread     group -> these, and those in which it went to the beginning
    placed     group -> the partitions that it was given something of, or chose
    subscribed the groups whose consumers were assigned partitions by their group
    """

    settings: dict[str, str] = field(default_factory=dict)
    lives: list[dict[str, str]] = field(default_factory=list)
    ends: dict[int, End] = field(default_factory=dict)
    stable: dict[int, End] = field(default_factory=dict)
    tells_visible: bool = False
    said_by: dict[str, set[str | None]] = field(default_factory=SETS)
    acked_in: set[int] = field(default_factory=set)
    named: dict[str | None, dict[str, Counter[str]]] = field(default_factory=DICTS)
    was_sent_in_transactions: bool = False
    actors: dict[str, set[str]] = field(default_factory=SETS)
    began: dict[str, int] = field(default_factory=dict)
    given: dict[str, dict[int, tuple[int, int, int]]] = field(default_factory=DICTS)
    committed: dict[str, dict[int, tuple[int, int]]] = field(default_factory=DICTS)
    ahead: dict[str, dict[int, list[tuple[int, int]]]] = field(default_factory=DICTS)
    bookmarks: dict[str, dict[int, int]] = field(default_factory=DICTS)
    lowest: dict[str, dict[int, int]] = field(default_factory=DICTS)
    highest: dict[str, dict[int, int]] = field(default_factory=DICTS)
    went_back: bool = False
    since: dict[str, dict[int, int]] = field(default_factory=DICTS)
    told: dict[str, dict[int, tuple[int, int]]] = field(default_factory=DICTS)
    decisions: dict[int, list[Decision]] = field(default_factory=LISTS)
    sought: dict[str, dict[int, list[tuple[int, int]]]] = field(default_factory=DICTS)
    reread: dict[str, set[int]] = field(default_factory=SETS)
    placed: dict[str, set[int]] = field(default_factory=SETS)
    subscribed: set[str] = field(default_factory=set)
    producer_ids: tuple[int, int] | None = None
    epochs: set[int] = field(default_factory=set)
    begun_at_ns: int = ANY

    @property
    def first_send(self) -> int:
        """When something was first sent, or given to a consumer; -ANY if some sends are unknown."""
        acked, sent = (self.said_by.get(kind, set()) for kind in ("acked", "sent"))
        return self.begun_at_ns if acked <= sent else -ANY

    def last_look(self, *, is_of_log: bool) -> int:
        """When its log was read, or if that was later its consumers were last given some of it.

        What happened afterwards explains nothing that they saw; ANY if nobody looked.
        """
        looks = [end.at_ns for end in self.ends.values()]
        if not (is_of_log and looks):
            looks += [at for given in self.given.values() for *_, at in given.values()]
        return max(looks, default=ANY)

    @property
    def are_idempotent(self) -> str | None:
        """Has every batch of the log a producer id, or none? None where both are, or no batch."""
        if self.producer_ids is None or min(self.producer_ids) < 0 <= max(self.producer_ids):
            return None
        return "true" if min(self.producer_ids) >= 0 else "false"

    def decided(self, partition: int | None) -> Collection[list[Decision]]:
        """What the controller decided about the partition, or about each one."""
        of_all = self.decisions
        return of_all.values() if partition is None else [of_all.get(partition, [])]

    @property
    def is_transactional(self) -> bool:
        """May the log hold what a read_committed reader is not given?"""
        return self.tells_visible or self.was_sent_in_transactions

    @property
    def is_compacted(self) -> bool:
        """Did the topic keep the last record of each key, and no more for certain, at any time?"""
        return any("compact" in it.get("cleanup.policy", "") for it in self.lives)

    def works(self, group: str) -> bool:
        """Would the ledger have what this group worked on?

        Who works for all, as the lab's own programs say it, is in no group.
        """
        workers, members = self.said_by.get("processed", set()), self.actors.values()
        return bool(workers & self.actors.get(group, set()) or workers.difference(*members))

    def resumed(self, group: str) -> Iterator[tuple[int, int]]:
        """The positions, by partition, that a group had committed when it was given more.

        It reads on from there, and is reset only if the log has lost the position.
        """
        for number, (at_ns, position) in self.committed[group].items():
            start = self.ends[number].start if number in self.ends else 0
            if position >= start and self.given[group].get(number, (0, 0, at_ns))[2] > at_ns:
                yield number, position

    def may_be_behind(self, unknown: int) -> bool:
        """May a group be behind what it committed, or of other groups than those, `unknown`?"""
        return self.went_back or any(
            held < self.highest[group].get(number, unknown)
            for group, at in self.lowest.items()
            for number, held in at.items()
        )

    def hold_told(self) -> None:
        """Where nobody read a bookmark, take what members committed, of what they were given."""
        for group, at in self.told.items():
            for number in () if group in self.bookmarks else at.keys() & self.given[group].keys():
                self.bookmarks[group][number] = at[number][1]
                self.since[group][number] = self.given[group][number][0]

    def pass_over(
        self, group: str, number: int, moves: Iterable[tuple[int, int | None, int]]
    ) -> None:
        """Note what a group passed over, as its program moved it and it went on from there.

        It is reset, and goes on anywhere, where the log does not have the offset that was chosen.
        """
        start = self.ends[number].start if number in self.ends else 0
        for first, chosen, given in moves:
            there = given if chosen is None or chosen < start else min(chosen, given)
            self.sought[group][number].append((first, there))

    def stops(self) -> Iterator[tuple[int, int, int, int]]:
        """Where a read_committed reader stops before the end: partition, there, the end, when."""
        for number, it in self.stable.items():
            if it.last_stable is not None and it.offset is not None and it.last_stable < it.offset:
                yield number, it.last_stable, it.offset, it.at_ns

    @property
    def all_drained(self) -> bool:
        """Was each partition that was read, or acked in, read to its end?"""
        is_read = self.ends and self.acked_in <= self.ends.keys()
        return bool(is_read) and all(end.drained for end in self.ends.values())
