"""Each finding's smallest history, and its near miss: the smallest that must not be flagged."""

from __future__ import annotations

from typing import Any

from lab_utils.ledger.events import Event
from tests.histories import (
    TOPIC,
    acked,
    client,
    created,
    delivered,
    end,
    failed,
    fault,
    log,
    order,
    record,
    sent,
    unknown,
)  # fmt: skip

# name: (finding, its smallest history, its near miss)
Cases = dict[str, tuple[str, list[Event], list[Event]]]


def processed(value: str, offset: int, **columns: Any) -> Event:
    return client("processed", value, offset=offset, **{"actor": "workload"} | columns)


def placed(kind: str, actor: str = "consumer-1", **columns: Any) -> Event:
    """The consumer was assigned the partition, or sought an offset in it."""
    return client(kind, None, actor=actor, **columns)


def bookmark(offset: int, when: str = "end", partition: int = 0) -> Event:
    return Event(
        run="", source="log", actor="group", kind="committed",
        topic=TOPIC, partition=partition, offset=offset, detail={"when": when},
    )  # fmt: skip


def effect(value: str, times: int = 1, table: str = "bookings") -> Event:
    return Event(run="", source="sink", actor=table, kind="effect", value=value, records=times)


MARKER = Event(run="", source="log", actor="broker-1", kind="marker", topic=TOPIC, partition=0)


def sent_in(transaction: int, value: str, **columns: Any) -> Event:
    """Sent in this transaction; 0 is none."""
    detail = {"transaction": str(transaction)} if transaction else {}
    return client("sent", value, detail=detail, **columns)


def told(kind: str, transaction: int, asked_at_ns: int = 0, actor: str = "producer-1") -> Event:
    """The program was told that this transaction had been `committed` or `aborted`."""
    detail = {"transaction": str(transaction), "called_at_ns": str(asked_at_ns)}
    return Event(run="", source="client", actor=actor, kind=f"txn_{kind}", detail=detail)


def visible(value: str, offset: int, partition: int = 0) -> Event:
    return Event(
        run="", source="log", actor="reader", kind="visible",
        topic=TOPIC, partition=partition, offset=offset, value=value,
    )  # fmt: skip


def both(value: str, offset: int, partition: int = 0) -> list[Event]:
    """A record that every reader is given."""
    return [record(value, offset, partition), visible(value, offset, partition)]


def stop(last_stable: int, offset: int, partition: int = 0, drained: bool = True) -> Event:
    """Where a read_committed reader stops, and where the log ends."""
    detail = {"drained": "true" if drained else "false", "last_stable": str(last_stable)}
    return Event(
        run="", source="log", actor="reader", kind="end",
        topic=TOPIC, partition=partition, offset=offset, detail=detail,
    )  # fmt: skip


def written(kind: str, offset: int, epoch: int, producer_id: int = 7, partition: int = 0) -> Event:
    return Event(
        run="", source="log", actor="broker-1", kind=kind, topic=TOPIC, partition=partition,
        offset=offset, producer_id=producer_id, producer_epoch=epoch,
    )  # fmt: skip


def noted(state: str, offset: int, producer_id: int = 7) -> Event:
    """What the coordinator wrote down of this producer id."""
    return Event(
        run="", source="log", actor="coordinator", kind="transaction", topic="__transaction_state",
        partition=0, offset=offset, producer_id=producer_id, producer_epoch=0,
        detail={"state": state},
    )  # fmt: skip


OTHER = {"actor": "producer-2"}
INTERLEAVED = [
    sent_in(1, "1"), sent_in(1, "2", **OTHER), sent_in(1, "3"),
    told("committed", 1), told("committed", 1, **OTHER),
]  # fmt: skip


def decision(isr: str, leader: int = 1) -> Event:
    """The controller decides who leads and who is in sync."""
    detail = {"leader": str(leader), "isr": isr, "replicas": "1 2 3"}
    return Event(run="", source="broker", actor="controller", kind="partition", topic=TOPIC,
                 partition=0, detail=detail)  # fmt: skip


def watermark(offset: int) -> Event:
    """Readers may read up to here."""
    return Event(run="", source="broker", actor="broker-1", kind="watermark", topic=TOPIC,
                 partition=0, offset=offset, detail={"lso": str(offset)})  # fmt: skip


def topic(floor: int | None, replicas: int = 3) -> Event:
    """The topic's own settings; without a floor, Kafka's default holds, which is 1."""
    given = {} if floor is None else {"min.insync.replicas": str(floor)}
    detail = {"replicas": str(replicas), **given}
    return Event(run="", source="workload", actor="lab", kind="topic", topic=TOPIC, detail=detail)


FINISHED = Event(run="", source="workload", actor="workload", kind="finished")

PRODUCING: Cases = {
    "acked and not in the log": (
        "lost-write",
        [sent("1"), acked("1", 0), *log()],
        [sent("1"), acked("1", 0), *log(drained=False)],
    ),
    "acked without an offset": (
        "lost-write",
        [sent("1"), acked("1", None), *log()],
        [sent("1"), acked("1", None), *log("1")],
    ),
    "unknown is never lost": (
        "lost-write",
        [sent("1"), acked("1", 0), sent("2"), *log("2")],
        [sent("1"), unknown("1"), sent("2"), *log("2")],
    ),
    "a gap in offsets is no loss": (
        "lost-write",
        [sent("1"), acked("1", 1), record("2", 2), end()],
        [sent("1"), acked("1", 1), record("1", 1), record("2", 3), end()],
    ),
    "acked, and others were delivered": (
        "unseen",
        [sent("1"), acked("1", 0), delivered("2", 1)],
        [sent("1"), acked("1", 0), delivered("1", 0)],
    ),
    "nobody consumes": (
        "unseen",
        [sent("1"), acked("1", 0), delivered("2", 1)],
        [sent("1"), acked("1", 0), *log("1")],
    ),
    "two offsets": (
        "duplicate",
        [sent("1"), acked("1", 1), *log("1", "1")],
        [sent("1"), acked("1", 1), record("1", 0), record("1", 0), end()],
    ),
    "two partitions": (
        "duplicate",
        [sent("1"), record("1", 0, partition=0), record("1", 0, partition=1), end()],
        [sent("1"), record("1", 0, partition=0), record("2", 0, partition=1), end()],
    ),
    "one offset twice": (
        "duplicate-delivery",
        [acked("1", 0), delivered("1", 0), delivered("1", 0)],
        [acked("1", 1), delivered("1", 0), delivered("1", 1)],
    ),
    "two groups": (
        "duplicate-delivery",
        [
            created("consumer-1", group__id="a"), created("consumer-2", group__id="a"),
            delivered("1", 0), delivered("1", 0, actor="consumer-2"),
        ],
        [
            created("consumer-1", group__id="a"), created("consumer-2", group__id="b"),
            delivered("1", 0), delivered("1", 0, actor="consumer-2"),
        ],
    ),
    "timed out and stored": (
        "phantom",
        [sent("1"), unknown("1"), *log("1")],
        [sent("1"), unknown("1"), sent("1"), acked("1", 0), *log("1")],
    ),
    "the later is before the earlier": (
        "nonmonotonic-send",
        [sent("1"), sent("2"), acked("2", 0), acked("1", 1), *log("2", "1")],
        [sent("1"), sent("2"), acked("2", 1), acked("1", 0), *log("1", "2")],
    ),
    "a truncated order has no place": (
        "nonmonotonic-send",
        [sent("1"), sent("2"), acked("2", 0), acked("1", 1), *log("2", "1")],
        [sent("1"), sent("2"), acked("1", 1), acked("2", 0), *log("2")],
    ),
    "two producers have no order": (
        "nonmonotonic-send",
        [sent("1"), sent("2"), acked("2", 0), acked("1", 1), *log("2", "1")],
        [
            sent("1"), sent("2", actor="producer-2"),
            acked("2", 0, actor="producer-2"), acked("1", 1), *log("2", "1"),
        ],
    ),
    "two partitions have no order": (
        "nonmonotonic-send",
        [sent("1"), sent("2"), acked("2", 0), acked("1", 1), *log("2", "1")],
        [sent("1"), sent("2"), acked("1", 1), acked("2", 0, partition=1), end()],
    ),
    "refused and not stored": (
        "unavailable",
        [sent("1"), failed("1"), *log()],
        [sent("1"), failed("1"), *log(drained=False)],
    ),
    "declined by the client itself": (
        "unavailable",
        [sent("1"), unknown("1"), *log()],
        [sent("1"), failed("1", error="_QUEUE_FULL"), *log()],
    ),
    "the fault never fired": (
        "inconclusive",
        [fault("armed"), fault("unfired")],
        [fault("armed"), fault("fired")],
    ),
    "the log was not drained": (
        "inconclusive",
        [sent("1"), *log("1", drained=False)],
        [sent("1"), end(drained=False), *log("1")],
    ),
    "the log was not read": ("inconclusive", [sent("1")], [sent("1"), end()]),
    "nothing was done": (
        "inconclusive",
        [order("1"), end()],
        [order("1"), sent("1"), *log("1")],
    ),
}  # fmt: skip

CONSUMING: Cases = {
    "the bookmark is ahead of the work": (
        "skipped-processing",
        [*log("0", "1"), processed("0", 0), bookmark(2)],
        [*log("0", "1"), processed("0", 0), bookmark(1)],
    ),
    "only the last bookmark counts": (
        "skipped-processing",
        [*log("0", "1"), processed("0", 0), bookmark(1, "crash"), bookmark(2)],
        [*log("0", "1"), processed("0", 0), bookmark(2, "crash"), bookmark(1)],
    ),
    "what promises no work skips none": (
        "skipped-processing",
        [*log("0", "1"), delivered("0", 0), processed("1", 1), bookmark(2)],
        [*log("0", "1"), delivered("0", 0), delivered("1", 1), bookmark(2)],
    ),
    "aborted records are no work": (
        "skipped-processing",
        [record("0", 0), record("1", 1), MARKER, visible("1", 1), visible("0", 0),
         processed("1", 1), bookmark(3)],
        [record("0", 0), record("1", 1), MARKER, visible("1", 1), processed("1", 1), bookmark(3)],
    ),
    "done twice": (
        "duplicate-effect",
        [delivered("0", 0), processed("0", 0), processed("0", 0)],
        [delivered("0", 0), delivered("0", 0), processed("0", 0)],
    ),
    "two offsets are two records": (
        "duplicate-effect",
        [processed("0", 0), processed("0", 1), processed("0", 1)],
        [processed("0", 0), processed("0", 1)],
    ),
    "two rows in a table": (
        "duplicate-effect",
        [effect("0"), effect("0")],
        [effect("0"), effect("0", table="refunds")],
    ),
    "a counter at two": ("duplicate-effect", [effect("0", times=2)], [effect("0", times=1)]),
    "backwards": (
        "nonmonotonic-poll",
        [delivered("1", 1), delivered("0", 0)],
        [delivered("1", 1), placed("sought", offset=0), delivered("0", 0)],
    ),
    "backwards after a rebalance": (
        "nonmonotonic-poll",
        [placed("assigned"), delivered("1", 1), delivered("1", 1)],
        [delivered("1", 1), placed("assigned"), delivered("1", 1)],
    ),
    "two consumers have no order": (
        "nonmonotonic-poll",
        [delivered("1", 1), placed("assigned", "consumer-2"), delivered("0", 0)],
        [delivered("1", 1), delivered("0", 0, "consumer-2")],
    ),
    "over a record": (
        "poll-skip",
        [*log("0", "1", "2"), delivered("0", 0), delivered("2", 2)],
        [record("0", 0), record("2", 2), delivered("0", 0), delivered("2", 2)],
    ),
    "over what was aborted": (
        "poll-skip",
        [*log("0", "1", "2"), MARKER, *map(visible, "012", range(3)), delivered("0", 0),
         delivered("2", 2)],
        [*log("0", "1", "2"), MARKER, visible("0", 0), visible("2", 2), delivered("0", 0),
         delivered("2", 2)],
    ),
}  # fmt: skip

TRANSACTIONS: Cases = {
    "aborted, and a consumer was given it": (
        "aborted-read",
        [sent_in(1, "1"), delivered("1", 0), told("aborted", 1)],
        [sent_in(1, "1"), delivered("1", 0), told("committed", 1)],
    ),
    "aborted, and read_committed": (
        "aborted-read",
        [sent_in(1, "1"), told("aborted", 1), *both("1", 0)],
        [sent_in(1, "1"), told("aborted", 1), record("1", 0)],
    ),
    "aborted and sent again": (
        "aborted-read",
        [sent_in(1, "1"), told("aborted", 1), *both("1", 0)],
        [
            sent_in(1, "1"), told("aborted", 1), record("1", 0),
            sent_in(2, "1"), told("committed", 2), *both("1", 2),
        ],
    ),
    "an end that nobody was told": (
        "aborted-read",
        [sent_in(1, "1"), told("aborted", 1), *both("1", 0)],
        [sent_in(1, "1"), *both("1", 0)],
    ),
    "given before the commit was asked": (
        "precommitted-read",
        [sent_in(1, "1"), delivered("1", 0), told("committed", 1, asked_at_ns=2)],
        [sent_in(1, "1"), delivered("1", 0), told("committed", 1, asked_at_ns=1)],
    ),
    "one half can be read": (
        "torn-transaction",
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 0, 1), stop(2, 2)],
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), *both("2", 0, 1), stop(2, 2)],
    ),
    "the other half is still open": (
        "torn-transaction",
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 0, 1), stop(1, 1, 1)],
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 0, 1), stop(0, 1, 1)],
    ),
    "the other half is another transaction": (
        "torn-transaction",
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 2)],
        [sent_in(1, "1"), sent_in(2, "2"), *both("1", 0), record("2", 2)],
    ),
    "each wrote before the other": (
        "write-cycle",
        [*INTERLEAVED, *both("1", 0), *both("2", 1), *both("3", 2)],
        [*INTERLEAVED, *both("1", 0), *both("3", 1), *both("2", 2)],
    ),
    "before in one partition, behind in another": (
        "write-cycle",
        [
            *INTERLEAVED, sent_in(1, "4", **OTHER),
            *both("1", 0), *both("2", 1), *both("4", 0, 1), *both("3", 1, 1),
        ],
        [
            *INTERLEAVED, sent_in(1, "4", **OTHER),
            *both("1", 0), *both("2", 1), *both("3", 0, 1), *both("4", 1, 1),
        ],
    ),
    "an old epoch behind a newer one": (
        "zombie-effect",
        [written("batch", 0, 0), written("marker", 1, 1), written("batch", 2, 0)],
        [written("batch", 0, 0), written("marker", 1, 1), written("batch", 2, 2)],
    ),
    "an old epoch of another producer id": (
        "zombie-effect",
        [written("batch", 0, 3), written("batch", 1, 0)],
        [written("batch", 0, 3), written("batch", 1, 0, producer_id=8)],
    ),
    "an old epoch in another partition": (
        "zombie-effect",
        [written("batch", 0, 3), written("marker", 1, 0)],
        [written("batch", 0, 3), written("marker", 1, 0, partition=1)],
    ),
    "over to its coordinator, and no marker": (
        "hanging-transaction",
        [written("batch", 0, 0), noted("Ongoing", 0), noted("CompleteCommit", 1), stop(0, 2)],
        [written("batch", 0, 0), noted("CompleteCommit", 0), noted("Ongoing", 1), stop(0, 2)],
    ),
    "another transaction is over": (
        "hanging-transaction",
        [written("batch", 1, 0), noted("CompleteAbort", 0), stop(1, 2)],
        [written("batch", 1, 0), noted("CompleteAbort", 0, producer_id=8), stop(1, 2)],
    ),
    "decided, and its markers are on their way": (
        "stuck-lso",
        [written("batch", 0, 0), noted("PrepareCommit", 0), stop(0, 1)],
        [written("batch", 0, 0), noted("CompleteCommit", 0), stop(0, 1)],
    ),
    "readers stop before the end": ("stuck-lso", [stop(0, 2)], [stop(2, 2)]),
}  # fmt: skip

REPLICAS: Cases = {
    "another order has its offset": (
        "inconsistent-offsets",
        [acked("1", 0), *log("2")],
        [acked("1", 0), *log("1", "2")],
    ),
    "nobody has its offset": (
        "inconsistent-offsets",
        [acked("1", 1), *log("2", "3")],
        [acked("1", 2), *log("2", "3")],
    ),
    "acked below the floor": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
        [topic(2), decision("1 2"), watermark(0), acked("1", 0), FINISHED],
    ),
    "readable before the end": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED, watermark(1)],
        [topic(2), decision("1"), watermark(0), acked("1", 0), watermark(1), FINISHED],
    ),
    "the floor is capped at the replicas": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
        [topic(2, replicas=1), decision("1"), watermark(0), acked("1", 0), FINISHED],
    ),
    "a floor that nobody set": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
        [topic(None), decision("1"), watermark(0), acked("1", 0), FINISHED],
    ),
}

# By the module of the audit that has the findings.
CASES = {
    "findings": PRODUCING, "consuming": CONSUMING, "isolation": TRANSACTIONS, "failover": REPLICAS,
}  # fmt: skip
