"""Random histories, for each module of the audit those that have its findings now and then."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import OFFSET_INVALID

from lab_utils.ledger.events import Event
from tests.audit import chance as st
from tests.histories import (
    FINISHED,
    MARKER,
    OPEN,
    TOPIC,
    acked,
    bookmark,
    both,
    created,
    decision,
    delivered,
    effect,
    end,
    failed,
    fault,
    log,
    noted,
    order,
    out,
    placed,
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
from tests.histories import offsets as offsets_of

# Orders are told apart by key and value, of which each may be missing or empty.
VALUES = st.sampled_from(["1", "2", "3", "1", "2", "", None])
GROUPS = st.sampled_from(["group", "a", "b"])
KEYS = st.sampled_from([None, None, None, "a", ""])
WENT = st.builds(
    lambda to, partition: placed("sought", partition=partition, detail={"to": to}),
    st.sampled_from(["beginning", "end", "bookmark"]), st.sampled_from([0, 0, 1]),
)  # fmt: skip


def is_created_once(rows: list[Event]) -> bool:
    """No client is made twice."""
    made = Counter(row.actor for row in rows if row.kind == "created")
    return max(made.values(), default=1) == 1


def session_step(kind: str, number: int, offset: int) -> list[Event]:
    """What a consumer does, or a transaction for its group."""
    if kind == "sends":
        return [offsets_of(number, offset), told("committed", number)]
    is_given = kind == "delivered"
    return [delivered(str(offset), offset) if is_given else placed(kind, offset=offset)]


def producing() -> st.Drawn:
    """Orders on their way into a log of two partitions, and out again."""
    values, keys = VALUES, KEYS
    partitions = st.sampled_from([0, 0, 1])
    offsets = st.integers(0, 3)
    producers = st.sampled_from(["producer-1", "producer-2"])
    consumers = st.sampled_from(["consumer-1", "consumer-2"])
    topics = st.sampled_from([TOPIC, TOPIC, TOPIC, "others"])
    happenings = st.one_of(
        st.builds(order, st.just("1")),
        st.builds(sent, values, actor=producers, key=keys, topic=topics),
        st.builds(
            acked,
            values,
            st.none() | offsets,
            actor=producers,
            partition=partitions,
            key=keys,
            topic=topics,
        ),
        st.builds(
            failed,
            values,
            st.sampled_from(["NOT_ENOUGH_REPLICAS", "MSG_SIZE_TOO_LARGE", "_QUEUE_FULL"]),
            actor=producers,
        ),
        st.builds(unknown, values, actor=producers, key=keys),
        st.builds(sent_in, st.sampled_from([1, 2]), values, actor=producers, key=keys),
        st.builds(told, st.sampled_from(["committed", "aborted"]), st.sampled_from([1, 2])),
        st.builds(
            delivered, values, offsets, consumers, partition=partitions, key=keys, topic=topics
        ),
        st.builds(placed, st.sampled_from(["assigned", "sought"]), consumers, partition=partitions),
        WENT,
        st.builds(placed, st.just("committed"), consumers, partition=partitions, offset=offsets),
        st.builds(
            lambda actor, group: created(actor, group__id=group), consumers, st.sampled_from("ab")
        ),
        st.builds(fault, st.sampled_from(["armed", "fired", "unfired"])),
        st.builds(record, values, offsets, partitions, keys),
        st.builds(end, st.booleans(), partitions, st.none() | offsets, st.sampled_from([0, 0, 1])),
    )
    # Three orders of one producer with an offset each, drawn: half of these go backwards somewhere.
    # The log then holds what is drawn of them there.
    produced = st.builds(
        lambda places, kept: [
            *map(sent, "123"),
            *map(acked, "123", places),
            *(record(value, at) for value, at in zip("123", places, strict=True)
              if at is not None and value in kept),
        ],
        st.lists(st.none() | offsets, min_size=3, max_size=3),
        st.lists(st.sampled_from("123")),
    )  # fmt: skip
    # A session of one consumer, placed anew in the middle of it, with a bookmark or without.
    session = st.builds(
        lambda steps: [
            *(acked(str(offset), offset) for offset in range(4)),
            *(row for number, (kind, offset) in enumerate(steps)
              for row in session_step(kind, number, offset)),
        ],
        st.lists(
            st.tuples(
                st.sampled_from(["assigned", "committed", "sends", "delivered", "delivered"]),
                offsets,
            ),
            min_size=2, max_size=5,
        ),
    )  # fmt: skip
    policy = st.builds(topic, st.none(), st.just(1), st.sampled_from(["compact", "delete"]))
    return st.builds(
        lambda given, first, then: given + first + then,
        st.lists(policy, max_size=1),
        st.one_of(st.just([]), produced, session),
        st.lists(happenings, max_size=14),
    ).filter(is_created_once)


def consuming() -> st.Drawn:
    """Polls, work, bookmarks and effects, beside a log."""
    values, keys = VALUES, KEYS
    partitions = st.sampled_from([0, 0, 1])
    offsets = st.integers(0, 3)
    consumers = st.sampled_from(["consumer-1", "consumer-2"])
    happenings = st.one_of(
        st.builds(delivered, values, offsets, consumers, partition=partitions, key=keys),
        st.builds(
            placed,
            st.sampled_from(["assigned", "sought", "revoked", "lost"]),
            consumers,
            partition=partitions,
        ),
        WENT,
        st.builds(
            lambda actor, group: created(actor, group__id=group), consumers, st.sampled_from("ab")
        ),
        st.builds(processed, values, offsets, partition=partitions, key=keys),
        st.builds(bookmark, offsets, st.sampled_from(["end", "crash"]), partitions, GROUPS),
        st.builds(sent, values, key=keys, topic=st.sampled_from([TOPIC, "others"])),
        st.builds(acked, values, offsets, partition=partitions, key=keys),
        st.builds(
            effect,
            st.sampled_from("012"),
            st.integers(0, 2),
            st.sampled_from(["bookings", "refunds"]),
        ),
        st.builds(record, values, offsets, partitions, keys),
        st.builds(visible, st.sampled_from("0123"), offsets),
        st.builds(end, st.just(True), partitions, st.none(), st.sampled_from([0, 2])),
        st.sampled_from([MARKER, OPEN]),
    )
    # A log that is read in any order and with any gaps, by a group with any bookmark.
    polled = st.builds(
        lambda given, at: [
            created("consumer-1", group__id="a"), *log(*"0123"),
            *(delivered(str(offset), offset) for offset in given), bookmark(at, group="a"),
        ],
        st.lists(offsets, max_size=4),
        st.integers(0, 4),
    )  # fmt: skip
    return st.builds(
        lambda first, then: first + then, st.just([]) | polled, st.lists(happenings, max_size=12)
    ).filter(lambda rows: is_created_once(rows) and has_one_log(rows))


def has_one_log(rows: list[Event]) -> bool:
    """A log holds one record at a place, whoever reads it."""
    read = [row for row in rows if row.kind in ("record", "visible")]
    places = {(row.topic, row.partition, row.offset) for row in read}
    records = {(row.topic, row.partition, row.offset, row.key, row.value) for row in read}
    return len(places) == len(records)


ENDS = ("txn_committed", "txn_aborted")


def is_possible(rows: list[Event]) -> bool:
    """A transaction ends once, and a log has one entry at an offset."""
    ends = [(row.actor, row.detail["transaction"]) for row in rows if row.kind in ENDS]
    if not (has_one_log(rows) and is_created_once(rows)):
        return False
    entries = [row.offset for row in rows if row.kind == "transaction"]
    return all(len(each) == len(set(each)) for each in (ends, entries))


def transactions() -> st.Drawn:
    """Transactions of two producers, and what a log took of them."""
    values = st.sampled_from("1234")
    partitions = st.sampled_from([0, 0, 1])
    offsets = st.integers(0, 4)
    numbers = st.integers(1, 2)
    producers = st.sampled_from(["producer-1", "producer-2"])
    happenings = st.one_of(
        st.builds(
            lambda *them, actor: sent_in(*them, actor=actor), numbers, values, actor=producers
        ),
        st.builds(sent_in, st.just(0), values),
        st.builds(
            told, st.sampled_from(["committed", "aborted"]), numbers, st.integers(0, 12), producers
        ),
        st.builds(delivered, values, offsets, partition=partitions),
        st.builds(record, values, offsets, partitions),
        st.builds(visible, values, offsets, partitions),
        st.builds(
            stop, offsets, offsets, partitions, st.sampled_from([True, True, False]),
            st.sampled_from([True, True, False]),
        ),
        st.builds(
            offsets_of, numbers, st.sampled_from([0, 1, 2, 3, 4, OFFSET_INVALID]),
            st.sampled_from([None, None, "a", "b"]), actor=producers,
        ),
        st.builds(bookmark, offsets, group=GROUPS),
        st.builds(
            lambda actor, group: created(actor, group__id=group),
            st.sampled_from(["consumer-1", "consumer-2"]), st.sampled_from("ab"),
        ),
        st.builds(delivered, values, offsets, st.just("consumer-2")),
        st.builds(
            written, st.sampled_from(["batch", "marker"]), offsets, st.integers(0, 2),
            st.sampled_from([-1, 7, 8]), partitions,
        ),
        st.builds(
            noted, st.sampled_from(["Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort"]),
            offsets, st.sampled_from([7, 8]),
        ),
    )  # fmt: skip
    # Two transactions of two orders each, somewhere in the log: half are torn or interleaved.
    places = st.tuples(st.integers(0, 3), partitions, st.booleans())
    transactions = st.builds(
        lambda where, ends: (
            [
                *(stop(5, 5, partition) for partition in ends),
                *(
                    told("committed", number, 9, actor=f"producer-{1 + at}")
                    for at, number in enumerate(ends[:1])
                ),
                *(
                    delivered(value, offset, partition=partition)
                    for value, (offset, partition, _) in zip("12", where[:2], strict=True)
                    if len(ends) > 1
                ),
            ]
            + [
                event
                for value, (offset, partition, is_visible) in zip("1234", where, strict=True)
                for event in [
                    sent_in(1, value, actor=f"producer-{1 + int(value) % 2}"),
                    *(both if is_visible else lambda *place: [record(*place)])(
                        value, offset, partition
                    ),
                ]
            ]
        ),
        st.lists(places, min_size=4, max_size=4),
        st.lists(st.integers(0, 1), max_size=3),
    )
    # Where a reader stops, and what the coordinator noted of the batch that begins there.
    stopped = st.builds(
        lambda at, state, ids: [
            written("batch", at, 0, ids[0]), noted(state, 1, ids[1]), stop(at, 4),
        ],
        st.integers(0, 3), st.sampled_from(["Ongoing", "CompleteCommit", "CompleteAbort"]),
        st.tuples(st.sampled_from([7, 8]), st.sampled_from([7, 8])),
    )  # fmt: skip

    # Transactions that write by turns: there are circles of two, three and four.
    writing = st.builds(
        lambda turns: [
            event
            for at, (actor, number, partition) in enumerate(turns)
            for event in [
                sent_in(number, str(at), actor=actor), *both(str(at), at, partition),
            ]
        ],
        st.lists(st.tuples(producers, numbers, st.integers(0, 2)), min_size=4, max_size=8),
    )  # fmt: skip
    # Programs that read and write the same topic, each a transaction: some have not read others.
    reading = st.builds(
        lambda pairs: [
            event
            for number, (actor, position) in enumerate(pairs)
            for event in [
                sent_in(number, str(number), actor=actor), *both(str(number), number),
                offsets_of(number, position, actor=actor), told("committed", number, actor=actor),
            ]
        ][:],
        st.lists(st.tuples(producers, st.integers(0, 3)), min_size=2, max_size=3),
    )  # fmt: skip
    # A program that works by transactions, some of which are aborted: it rewinds or it does not.
    working = st.builds(
        lambda steps: [
            event
            for number, (value, ending, position) in enumerate(steps, start=1)
            for event in [
                delivered(str(value), value), out(number, str(value)),
                *([offsets_of(number, position)] if position else []), told(ending, number),
            ]
        ],
        st.lists(
            st.tuples(
                st.integers(0, 2), st.sampled_from(["committed", "aborted"]), st.integers(0, 3)
            ),
            min_size=2, max_size=4,
        ),
    )  # fmt: skip

    # What a log took of one producer id, in this order of epochs.
    epochs = st.builds(
        lambda taken: [written("batch", offset, epoch) for offset, epoch in enumerate(taken)],
        st.lists(st.integers(0, 2), min_size=2, max_size=4),
    )

    return st.builds(
        lambda first, then: first + then,
        st.one_of(st.just([]), transactions, epochs, writing, reading, working, stopped),
        st.lists(happenings, max_size=12),
    ).filter(is_possible)


def replicas() -> st.Drawn:
    """Decisions of a controller and watermarks, between acks."""
    happenings = st.one_of(
        st.builds(acked, VALUES, st.none() | st.integers(0, 3), key=KEYS),
        st.builds(
            decision,
            st.sampled_from(["1", "1 2", "1 2 3", "2", ""]),
            st.sampled_from(["1", "2", ""]),
        ),
        st.builds(watermark, st.integers(0, 3)),
        st.just(FINISHED),
    )
    return st.builds(
        lambda first, then, last: [*first, *then, *log(*last)],
        st.lists(st.builds(topic, st.none() | st.integers(1, 3), st.integers(1, 3)), max_size=1),
        st.lists(happenings, max_size=10),
        st.lists(st.sampled_from("123"), max_size=4),
    )


# What another program does not write down: nothing is left out, or all of these kinds.
SILENT = st.sampled_from([
    (), (), (), ("batch", "marker", "transaction"), ("record", "visible", "end"), ("end",),
    ("created",), ("sent",), ("acked",), ("assigned", "sought", "revoked", "lost"),
])  # fmt: skip


def by_anyone(histories: st.Drawn) -> st.Drawn:
    """The same, in the ledger of the lab or of another program, which says less."""
    return st.builds(
        lambda rows, silent: [row for row in rows if row.kind not in silent], histories, SILENT
    )


HISTORIES = {
    "producing": by_anyone(producing()), "consuming": by_anyone(consuming()),
    "isolation": by_anyone(transactions()),
    "replication": by_anyone(st.one_of(replicas(), producing(), consuming())),
    "inconclusive": by_anyone(producing()),
}  # fmt: skip
