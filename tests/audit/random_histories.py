"""Random histories, for each module of the audit those that have its findings now and then.

What Hypothesis draws in a minute takes a second here. Nothing is shrunk: of the histories that
differ the smallest is shown, and many are small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from confluent_kafka import OFFSET_INVALID

from lab_utils.ledger.events import Event
from tests.histories import (
    FINISHED,
    MARKER,
    OPEN,
    TOPIC,
    acked,
    asked,
    bookmark,
    both,
    created,
    decision,
    delivered,
    effect,
    end,
    failed,
    fault,
    in_run,
    initialised,
    log,
    noted,
    offsets,
    order,
    out,
    placed,
    power_cut,
    processed,
    record,
    sent,
    sent_in,
    stop,
    told,
    topic,
    unknown,
    visible,
    watermark,
    written,
)  # fmt: skip
from tests.oracle_facts import by_start


class _Chance(Random):
    """Draws what histories are made of."""

    def value(self) -> Any:
        """Orders are told apart by key and value, of which each may be missing or empty."""
        return self.choice(["1", "2", "3", "1", "2", "", None])

    def key(self) -> Any:
        return self.choice([None, None, None, "a", ""])

    def topic(self) -> str:
        return self.choice([TOPIC, TOPIC, TOPIC, "others"])

    def partition(self) -> int:
        return self.choice([0, 0, 1])

    def offset(self, most: int = 3) -> int:
        return self.randint(0, most)

    def producer(self) -> str:
        return self.choice(["producer-1", "producer-2"])

    def consumer(self) -> str:
        return self.choice(["consumer-1", "consumer-2"])

    def ending(self) -> str:
        return self.choice(["committed", "aborted"])

    def maybe(self, it: Any) -> Any:
        return self.choice([it, None])

    def of(self, *ways: Callable[[], Any]) -> Any:
        """What one of these draws."""
        return self.choice(ways)()

    def act(self) -> Event:
        """What may take a log or a position away, or ends that."""
        where = {"topic": self.topic(), "fate": self.choice(["forwarded", "forwarded", "dropped"])}
        deleted, made = (
            asked("DeleteTopics", **where),
            replace(asked("CreateTopics"), kind="response"),
        )
        error = self.choice(["UNKNOWN_TOPIC_OR_PARTITION", "NOT_CONTROLLER"])
        answer = replace(deleted, kind="response", fate="forwarded", error=error)
        cut = power_cut(self.choice([1, 1, 2]))
        return self.choice([
            cut, cut, replace(cut, kind="started"), replace(cut, kind="started"), deleted,
            replace(deleted, topic=None), answer, replace(answer, fate="replaced"),
            replace(answer, detail={"in_part": "true"}), made,
            replace(made, error="TOPIC_ALREADY_EXISTS"),
            asked(self.choice(["DeleteGroups", "DeleteRecords"]), topic=None),
        ])  # fmt: skip

    def over(self) -> list[Event]:
        """A power cut that is over, or one that is not; mostly none."""
        cut = power_cut()
        return self.choice([[], [], *[[cut, replace(cut, kind="started")]] * 3, [cut]])

    def among(self, rows: list[Event], *ways: Callable[[], Event]) -> list[Event]:
        """These rows, and some of what these draw somewhere between them."""
        rows = [*rows]
        for row in self.many(4, *ways, least=1):
            rows.insert(self.randint(0, len(rows)), row)
        return rows

    def many(self, most: int, *ways: Callable[[], Any], least: int = 0) -> list[Any]:
        return [self.of(*ways) for _ in range(self.randint(least, most))]

    def member(self) -> Event:
        level = self.choice(["read_committed", "read_uncommitted"])
        return created(self.consumer(), role="consumer", group__id=self.choice("ab"),
                       isolation__level=level)  # fmt: skip

    def went(self) -> Event:
        to = self.choice(["beginning", "end", "bookmark"])
        return placed("sought", partition=self.partition(), detail={"to": to})

    def bookmark(self, *of: Any, offset: int) -> Event:
        return bookmark(offset, *of, group=self.choice(["group", "a", "b"]))


Draw = Callable[[_Chance], list[Event]]


def has_one_log(rows: list[Event]) -> bool:
    """A log holds one record at a place, whoever reads it."""
    read = [row for row in rows if row.kind in ("record", "visible")]
    places = {(row.topic, row.partition, row.offset) for row in read}
    records = {(row.topic, row.partition, row.offset, row.key, row.value) for row in read}
    return len(places) == len(records)


def is_possible(rows: list[Event]) -> bool:
    """A transaction of a start ends once, or both ways; a log has one entry at an offset."""
    ended = [
        row for row in by_start(in_run("", rows)) if row.kind in ("txn_committed", "txn_aborted")
    ]
    ends = [(row.actor, row.detail["transaction"], row.kind) for row in ended]
    entries = [row.offset for row in rows if row.kind == "transaction"]
    return has_one_log(rows) and all(len(it) == len(set(it)) for it in (ends, entries))


def producing(c: _Chance) -> list[Event]:
    """Orders on their way into a log of two partitions, and out again."""
    errors = ["NOT_ENOUGH_REPLICAS", "MSG_SIZE_TOO_LARGE", "_QUEUE_FULL"]

    def named() -> dict[str, Any]:
        return {"key": c.key(), "topic": c.topic()}

    def produced() -> list[Event]:
        """Three orders of one producer with an offset each: half of these go backwards somewhere.

        The log then holds what is drawn of them there.
        """
        places, kept = [c.maybe(c.offset()) for _ in "123"], c.many(3, lambda: c.choice("123"))
        held = [(value, at) for value, at in zip("123", places, strict=True)
                if at is not None and value in kept]  # fmt: skip
        return [
            *c.over(),
            *map(sent, "123"),
            *map(acked, "123", places),
            *(record(*it) for it in held),
        ]

    def session() -> list[Event]:
        """One consumer, placed anew in the middle of it, with a bookmark or without.

        The log may begin after what it was given, which may be equal orders of an earlier run.
        """
        rows = [acked(str(offset), offset) for offset in range(4)]
        rows += c.many(1, lambda: end(False, offset=4, start=2))
        for number in range(c.randint(2, 5)):
            kind = c.choice(["assigned", "committed", "sends", "delivered", "delivered"])
            offset = c.offset()
            if kind == "sends":  # a transaction for its group
                rows += [offsets(number, offset), told("committed", number)]
            elif kind == "delivered":
                rows.append(delivered(c.choice([str(offset), "2", "3"]), offset))
            else:
                rows.append(placed(kind, offset=offset))
        return rows

    def kept() -> list[Event]:
        """Orders that stand in the log, and a group that begins before a power cut or after it."""
        rows = [sent("1"), acked("1", 0), sent("2"), acked("2", 1), placed("assigned")]
        cut = power_cut()
        for act in (cut, c.choice([cut, replace(cut, kind="started")])):
            rows.insert(c.randint(1, len(rows)), act)
        rows += c.many(1, lambda: sent("1"), lambda: acked("1", c.offset()))
        return [*rows, *c.many(2, lambda: delivered("2", 1)), *log(*c.choice(["12", "12", "2"]))]

    def compacted() -> list[Event]:
        """Orders of one key, acked at any place, and tombstones of it that may be stored or not."""
        tombstone = {"key": "a", "actor": c.producer()}
        return [
            topic(None, 1, "compact"),
            *c.many(3, lambda: acked(c.choice("112"), c.maybe(c.offset()), key="a")),
            *c.many(
                2,
                lambda: sent(None, **tombstone),
                lambda: sent_in(1, None, **tombstone),
                lambda: failed(None, c.choice(errors), **tombstone),
                lambda: acked(None, c.offset(), **tombstone),
            ),
            *c.many(1, lambda: acked(None, c.offset(), **tombstone)),
            *c.many(2, lambda: record(c.choice("12"), c.offset(), key="a")),
            end(offset=4, start=c.choice([0, 0, 1])),
        ]

    return [
        *c.many(1, lambda: topic(None, 1, c.choice(["compact", "delete"]))),
        *c.of(list, produced, produced, session, compacted, kept),
        *c.many(
            14,
            lambda: order("1"),
            lambda: sent(c.value(), actor=c.producer(), producer_id=c.choice([None, -1, 7]),
                         **named()),
            lambda: acked(c.value(), c.maybe(c.offset()), actor=c.producer(),
                          partition=c.partition(), **named()),
            lambda: failed(c.value(), c.choice(errors), actor=c.producer()),
            lambda: unknown(c.value(), actor=c.producer(), key=c.key()),
            lambda: sent_in(c.choice([1, 2]), c.value(), actor=c.producer(), key=c.key()),
            lambda: told(c.ending(), c.choice([1, 2])),
            lambda: delivered(c.value(), c.offset(), c.consumer(), partition=c.partition(),
                              **named()),
            lambda: placed(c.choice(["assigned", "sought"]), c.consumer(), partition=c.partition()),
            c.went,
            lambda: placed("committed", c.consumer(), partition=c.partition(), offset=c.offset()),
            c.member,
            lambda: fault(c.choice(["armed", "fired", "unfired"])),
            lambda: record(c.value(), c.offset(), c.partition(), c.key()),
            lambda: end(c.choice([True, False]), c.partition(), c.maybe(c.offset()),
                        c.choice([0, 0, 1])),
        ),
    ]  # fmt: skip


UNCOMMITTED = created("consumer-1", role="consumer", isolation__level="read_uncommitted")


def consuming(c: _Chance) -> list[Event]:
    """Polls, work, bookmarks and effects, beside a log."""
    kinds = ["assigned", "sought", "revoked", "lost"]

    def polled() -> list[Event]:
        """A log that is read in any order and with any gaps, by a group with any bookmark."""
        given = [delivered(str(offset), offset) for offset in c.many(4, c.offset)]
        bookmarked = bookmark(c.offset(4), group="a")
        return [created("consumer-1", group__id="a"), *log(*"0123"), *given, bookmarked]

    def resumed() -> list[Event]:
        """One consumer that commits and is placed now and then, and may be given no order twice."""
        began = [created("consumer-1", group__id="a"), *log(*"0123"), delivered("0", 0)]
        began += c.many(1, lambda: placed("committed", offset=c.offset(2)), least=1)

        def went_on(offset: int) -> Event:
            return c.choice([
                placed("committed", offset=offset), placed("sought", offset=offset),
                placed("sought", detail={"to": "end"}), delivered("3", 3),
                *[delivered(str(offset), offset)] * 3,
            ])  # fmt: skip

        rows = [*began, *map(went_on, sorted(c.offset() for _ in range(c.randint(1, 4))))]
        return [*rows, bookmark(c.choice([3, 4]), group="a")]

    def behind() -> list[Event]:
        """Two of a group that commit, move and begin anew; some positions are a transaction's."""
        rows = [created(f"consumer-{it}", role="consumer", group__id="a") for it in "12"]
        for _ in range(c.randint(3, 8)):
            who, offset = c.consumer(), c.offset()
            rows += c.choice([
                [placed("committed", who, offset=offset)], [delivered(str(offset), offset, who)],
                [placed("assigned", who)], [placed("assigned", who), delivered("1", 1, who)],
                [placed("sought", who, detail={"to": c.choice(["beginning", "bookmark"])})],
                [offsets(1, offset, c.choice(["a", "a", None])), told(c.ending(), 1)],
                [created(who, role="consumer", group__id="a")],
            ])  # fmt: skip
        return [*rows, *c.many(1, lambda: end(offset=c.offset())), bookmark(c.offset(), group="a")]

    def hidden() -> list[Event]:
        """A log of which not all is visible, read with any gaps by who is given all of it."""
        seen = [visible(it, int(it)) for it in "0123" if c.random() < 0.5]
        given = [delivered(str(at), at) for at in range(4) if c.random() < 0.5]
        return [UNCOMMITTED, *log(*"0123"), *seen, MARKER, *given]

    def anew() -> list[Event]:
        """An order that may take its place again, and be given and worked on again."""
        again = [acked("0", 0), delivered("0", 0), processed("0", 0)]
        return [created("consumer-1", group__id="a"), *(c.choice(again) for _ in range(6)),
                *log("0")]  # fmt: skip

    return [
        *c.of(list, polled, resumed, behind, hidden, anew),
        *c.many(
            12,
            lambda: delivered(c.value(), c.offset(), c.consumer(), partition=c.partition(),
                              key=c.key()),
            lambda: placed(c.choice(kinds), c.consumer(), partition=c.partition()),
            c.went,
            c.member,
            lambda: processed(c.maybe(c.value()), c.offset(), partition=c.partition(), key=c.key(),
                              actor=c.choice(["workload", c.consumer()])),
            lambda: c.bookmark(c.choice(["end", "crash"]), c.partition(), offset=c.offset()),
            lambda: placed("committed", c.consumer(), partition=c.partition(), offset=c.offset()),
            lambda: sent(c.value(), key=c.key(), topic=c.choice([TOPIC, "others"])),
            lambda: acked(c.value(), c.offset(), partition=c.partition(), key=c.key()),
            lambda: effect(c.choice("012"), c.offset(2), c.choice(["bookings", "refunds"]),
                           key=c.key()),
            lambda: record(c.value(), c.offset(), c.partition(), c.key()),
            lambda: visible(c.choice("0123"), c.offset()),
            lambda: end(True, c.partition(), None, c.choice([0, 2])),
            lambda: c.choice([MARKER, OPEN]),
        ),
    ]  # fmt: skip


def transactions(c: _Chance) -> list[Event]:
    """Transactions of two producers, and what a log took of them."""
    states = ["Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort"]
    mostly = [True, True, False]

    def number() -> int:
        return c.choice([1, 2])

    def value() -> str:
        return c.choice("1234")

    def pairs() -> list[Event]:
        """Two transactions of two orders each, somewhere in the log: half are torn or interleaved.

        Where both partitions were read, a consumer was given the orders of the first.
        """
        where = [(c.offset(), c.partition(), c.choice([True, False])) for _ in range(4)]
        read = c.many(3, lambda: c.choice([0, 1]))
        rows = []
        for it, (offset, partition, is_visible) in zip("1234", where, strict=True):
            rows.append(sent_in(1, it, actor=f"producer-{1 + int(it) % 2}"))
            rows += both(it, offset, partition) if is_visible else [record(it, offset, partition)]
        rows += [told("committed", it, 9) for it in read[:1]]
        if len(read) > 1:
            rows += [
                delivered(it, offset, partition=partition)
                for it, (offset, partition, _) in zip("12", where[:2], strict=True)
            ]
        # Some readers came when not all of it was there.
        ends = [c.choice([2, 5, 5]) for _ in read]
        return rows + [stop(at, at, partition) for at, partition in zip(ends, read, strict=True)]

    def epochs() -> list[Event]:
        """What a log took of one producer id, in this order of epochs."""
        taken = c.many(4, lambda: c.offset(2), least=2)
        return [written("batch", offset, epoch) for offset, epoch in enumerate(taken)]

    def writing() -> list[Event]:
        """Transactions that write by turns: there are circles of two, three and four."""
        rows = []
        for at in range(c.randint(4, 8)):
            rows.append(sent_in(number(), str(at), actor=c.producer()))
            rows += both(str(at), at, c.offset(2))
        return rows

    def reading() -> list[Event]:
        """Programs that read and write the same topic, each a transaction: some read no other."""
        rows = []
        for it in range(c.randint(2, 3)):
            who = {"actor": c.producer()}
            rows += [sent_in(it, str(it), **who), *both(str(it), it)]
            rows += [offsets(it, c.offset(), **who), told("committed", it, **who)]
        return rows

    def working() -> list[Event]:
        """A program that works by transactions, some of which are aborted: it may rewind then."""
        rows = []
        for it in range(1, 1 + c.randint(2, 4)):
            given, position = c.offset(2), c.offset()
            rows += [delivered(str(given), given), out(it, str(given))]
            rows += [offsets(it, position)] if position else []
            rows.append(told(c.ending(), it))
        return rows

    def reused() -> list[Event]:
        """An order in a topic that may hold an equal one of an earlier run, before its start."""
        rows = [sent_in(1, "1"), acked("1", c.offset()), delivered("1", c.offset())]
        return [*rows, told(c.ending(), 1, 3), end(offset=4, start=c.choice([0, 2]))]

    def again() -> list[Event]:
        """An order that is sent in two transactions; one copy of it or both may be hidden."""
        rows = [*topic_or_not(), sent_in(1, "1"), told(c.ending(), 1, 1)]
        rows += [sent_in(c.choice([2, 2, 2, 0]), "1"), told(c.ending(), 2, 3)]
        rows.append(delivered("1", c.choice([0, 2])))
        rows += c.choice([both("1", 0), [record("1", 0)], [record("1", 0)]])
        rows += c.choice([both("1", 2), both("1", 2), [record("1", 2)]])
        return [*rows, stop(c.choice([4, 4, 2]), c.choice([4, 4, 2]), start=c.choice([0, 0, 2]))]

    def begun() -> list[Event]:
        """Transactions that begin before a power cut or after it, and a log that mixes their ends.

        The first order is sent in one of them, or in both.
        """
        rows = [told("began", 1), told("began", 2), *c.many(1, lambda: sent_in(2, "5"))]
        cut = c.choice([0, 0, 0, 1, 2])
        rows = [*rows[:cut], *c.over(), *rows[cut:], sent_in(1, "5"), sent_in(1, "6")]
        rows += [told(c.ending(), it, 9) for it in (1, 2)]
        rows += [*c.choice([both("5", 0), [record("5", 0)]]), *both("6", 1)]
        return [*rows, *c.many(1, lambda: delivered("5", 0)), stop(2, 2)]

    def topic_or_not() -> list[Event]:
        return [topic(None, 1, "compact")] if c.random() < 0.1 else []

    def stopped() -> list[Event]:
        """Where a reader stops, and what the coordinator noted of the batch that begins there."""
        at, state = c.offset(), c.choice(["Ongoing", "CompleteCommit", "CompleteAbort", "Empty"])
        batch = written("batch", at, 0, c.choice([7, 8]))
        return [batch, noted(state, 1, c.choice([7, 8])), stop(at, 4)]

    def fenced() -> list[Event]:
        """A producer's transaction, and another producer that may take its id before the end."""
        ids = [c.choice("tttu") for _ in "12"]
        rows = [created(f"producer-{at}", role="producer", transactional__id=it)
                for at, it in enumerate(ids, 1)]  # fmt: skip
        where = c.choice([0, 2, 3, 3, 3])
        steps = [initialised(c.offset(2)), sent_in(1, "1"), acked("1", 0)]
        # No call begins when it has returned.
        steps.insert(where, initialised(c.offset(2 + where), actor="producer-2"))
        return [*rows, *steps, told(c.choice(["committed", "committed", "failed"]), 1, c.offset(6))]

    return [
        *c.of(list, pairs, epochs, writing, reading, working, reused, again, stopped, fenced,
              begun),
        *c.many(
            12,
            lambda: sent_in(number(), value(), actor=c.producer()),
            lambda: sent_in(0, value()),
            lambda: told(c.choice(["committed", "aborted", "began", "failed"]), number(),
                         c.choice([c.offset(12), c.offset(12), None]), c.producer(),
                         c.choice(["commit_transaction", "abort_transaction", None])),
            lambda: delivered(value(), c.offset(4), partition=c.partition()),
            lambda: record(value(), c.offset(4), c.partition()),
            lambda: visible(value(), c.offset(4), c.partition()),
            lambda: stop(c.offset(4), c.offset(4), c.partition(), c.choice(mostly),
                         c.choice(mostly), c.choice([0, 0, 1])),
            lambda: end(c.choice(mostly), c.partition(), c.offset(4)),
            lambda: offsets(number(), c.choice([0, 1, 2, 3, 4, OFFSET_INVALID]),
                            c.choice([None, None, "a", "b"]), actor=c.producer()),
            lambda: c.bookmark(offset=c.offset(4)),
            c.member,
            lambda: created(c.producer(), role="producer"),
            lambda: delivered(value(), c.offset(4), "consumer-2"),
            lambda: written(c.choice(["batch", "marker"]), c.offset(4), c.offset(2),
                            c.choice([-1, 7, 8]), c.partition()),
            lambda: noted(c.choice(states), c.offset(4), c.choice([7, 8])),
        ),
    ]  # fmt: skip


def replicas(c: _Chance) -> list[Event]:
    """Decisions of a controller and watermarks, between acks."""
    isrs = ["1", "1 2", "1 2 3", "2", ""]

    def sent_once() -> list[Event]:
        """An order that may be acked, found and given where the log holds another one at last."""
        rows = [sent("4"), *c.many(2, lambda: acked("4", c.offset(1), actor=c.producer()))]
        rows += c.many(1, lambda: delivered("4", c.offset(1)))
        rows.insert(c.randint(0, len(rows)), rows.pop(c.randint(0, len(rows) - 1)))
        return [*c.over(), *rows, *c.many(1, lambda: record("4", 1), end)]

    return [
        *c.many(1, lambda: topic(c.maybe(c.randint(1, 3)), c.randint(1, 3))),
        *c.many(
            10,
            lambda: acked(c.value(), c.maybe(c.offset()), key=c.key()),
            lambda: sent(c.value(), key=c.key()),
            lambda: decision(c.choice(isrs), c.choice(["1", "2", ""])),
            lambda: watermark(c.offset()),
            lambda: FINISHED,
        ),
        *c.of(list, sent_once),
        *log(*c.many(4, lambda: c.choice("123"))),
    ]


# What another program does not write down: nothing is left out, or all of these kinds.
SILENT = [
    (), (), (), ("batch", "marker", "transaction"), ("record", "visible", "end"), ("end",),
    ("created",), ("sent",), ("acked",), ("assigned", "sought", "revoked", "lost"),
]  # fmt: skip
MODULES: dict[str, list[Draw]] = {
    "producing": [producing], "consuming": [consuming], "isolation": [transactions],
    "replication": [replicas, producing, consuming], "inconclusive": [producing],
}  # fmt: skip
# How many of the histories have something that was done to brokers, topics or groups.
WITH_ACTS = 0.3
# What a history of each kind must be to have happened.
IS_KEPT = {consuming: has_one_log, transactions: is_possible}


def history(module: str, seed: object) -> list[Event]:
    """A history for a module of the audit, as the lab or another program writes it down."""
    chance = _Chance(str(seed))
    draw, silent = chance.choice(MODULES[module]), chance.choice(SILENT)
    is_kept = IS_KEPT.get(draw, lambda _: True)
    while True:
        rows = draw(chance)
        if chance.random() < WITH_ACTS:
            rows = chance.among(rows, chance.act)
        rows = [row for row in rows if row.kind not in silent]
        if is_kept(rows):
            return rows
