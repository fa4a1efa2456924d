"""Each finding's smallest histories, and their near misses: the smallest that has no finding."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from tests.audit.transaction_cases import TRANSACTIONS
from tests.histories import (
    FINISHED,
    MARKER,
    OPEN,
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
    order,
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

# name: (finding, its smallest history, its near misses)
Cases = dict[str, tuple[str, list[Event], *tuple[list[Event], ...]]]


INCONCLUSIVE: Cases = {
    "the fault never fired": (
        "inconclusive",
        [fault("armed"), fault("unfired")],
        [sent("1"), fault("armed"), fault("fired"), *log("1")],
    ),
    "the log was not drained": (
        "inconclusive",
        [sent("1"), *log("1", drained=False)],
        [sent("1"), end(drained=False), *log("1")],
    ),
    "the log was not read": ("inconclusive", [sent("1")], [sent("1"), end()]),
    "a partition of it was not read": (
        "inconclusive", [acked("1", 0), end(partition=1)], [acked("1", 0), end()],
    ),
    "nothing was done": (
        "inconclusive",
        [order("1"), end()],
        [order("1"), sent("1"), *log("1")],
        # a sink has an effect
        [effect("1"), end()],
    ),
    "only assigned": (
        "inconclusive", [placed("assigned"), end()], [placed("assigned"), delivered("1", 0), end()],
    ),
    "the other reader timed out": (
        "inconclusive",
        [sent("1"), *both("1", 0), stop(0, 1, committed=False)],
        [sent("1"), *both("1", 0), stop(0, 1, committed=False), stop(1, 1)],
    ),
}  # fmt: skip

PRODUCING: Cases = {
    "acked when the log had been read": (
        "lost-write", [sent("1"), acked("1", 0), *log()], [sent("1"), *log(), acked("1", 0)],
        # acked and not in the log
        [sent("1"), acked("1", 0), *log(drained=False)],
    ),
    "acked late, at an offset that was read": (
        "lost-write",
        [sent("1"), end(offset=1), acked("1", 0)],
        [sent("1"), end(offset=0), acked("1", 0)],
    ),
    "given one of two equal orders twice": (
        "unseen",
        [acked("1", 0), acked("1", 1), delivered("1", 0), delivered("1", 0)],
        [acked("1", 0), acked("1", 1), delivered("1", 0), delivered("1", 1)],
    ),
    "assigned by the program, and given nothing": (
        "unseen",
        [placed("sought", offset=0), acked("1", 0)],
        [placed("sought", offset=0, partition=1), acked("1", 0)],
    ),
    "a partition that the program did not assign": (
        "unseen",
        [placed("assigned"), delivered("0", 0), acked("1", 0, partition=1)],
        [placed("sought", offset=0), delivered("0", 0), acked("1", 0, partition=1)],
    ),
    "one of two equal orders": (
        "lost-write",
        [sent("1"), sent("1"), acked("1", 0), acked("1", 1), *log("1")],
        [sent("1"), sent("1"), acked("1", 0), acked("1", 1), *log("1", "1")],
    ),
    "a tombstone": (
        "lost-write",
        [sent(None, key="a"), acked(None, 0, key="a"), record(None, 0, key="b"), end()],
        [sent(None, key="a"), acked(None, 0, key="a"), record(None, 0, key="a"), end()],
    ),
    "an empty text": (
        "lost-write", [sent(""), acked("", 0), *log()], [sent(""), acked("", 0), *log("")],
    ),
    "an empty text, stored twice": (
        "duplicate", [sent(""), *log("", "")], [sent(""), record(None, 0), *log("")[1:], end()],
    ),
    "declined and sent again": (
        "phantom",
        [sent("1"), failed("1", "_QUEUE_FULL"), *log("1")],
        [sent("1"), failed("1", "_QUEUE_FULL"), sent("1"), *log("1")],
    ),
    "refused, and somebody was given it": (
        "unavailable",
        [sent("1"), failed("1"), *log()],
        [sent("1"), failed("1"), delivered("1", 0), *log()],
        # refused and not stored
        [sent("1"), failed("1"), *log(drained=False)],
        # too large for the broker, or for the client
        [sent("1"), failed("1", error="MSG_SIZE_TOO_LARGE"), *log()],
    ),
    "unknown, and seen out of place": (
        "nonmonotonic-send",
        [sent("1"), sent("2"), unknown("1"), acked("2", 0), *log("2", "1")],
        [sent("1"), sent("2"), unknown("1"), acked("2", 0), *log("2", "1", "1")],
    ),
    "a new group that begins too late": (
        "unseen",
        [acked("0", 0), acked("1", 1), placed("assigned"), delivered("1", 1)],
        [acked("0", 0), acked("1", 1), placed("assigned"), delivered("0", 0), delivered("1", 1)],
    ),
    "a second group": (
        "unseen",
        [created("consumer-2", group__id="b"), acked("1", 0), delivered("1", 0),
         placed("assigned", "consumer-2")],
        [created("consumer-2", group__id="b"), acked("1", 0), delivered("1", 0),
         delivered("1", 0, actor="consumer-2")],
    ),
    "behind a transaction that is still open": (
        "unseen",
        [*log("0", "1"), written("batch", 0, 0), acked("1", 1), placed("assigned")],
        [*log("0", "1"), OPEN, acked("1", 1), placed("assigned")],
    ),
    "aborted, and so not to be seen": (
        "unseen",
        [sent_in(1, "1"), acked("1", 0), told("committed", 1), placed("assigned")],
        [sent_in(1, "1"), acked("1", 0), told("aborted", 1), placed("assigned")],
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
        # nobody consumes
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
    "timed out and stored": (
        "phantom",
        [sent("1"), unknown("1"), *log("1")],
        [sent("1"), unknown("1"), sent("1"), acked("1", 0), *log("1")],
    ),
    "the later is before the earlier": (
        "nonmonotonic-send",
        [sent("1"), sent("2"), acked("2", 0), acked("1", 1), *log("2", "1")],
        [sent("1"), sent("2"), acked("2", 1), acked("1", 0), *log("1", "2")],
        # a truncated order has no place
        [sent("1"), sent("2"), acked("1", 1), acked("2", 0), *log("2")],
        # two producers have no order
        [
            sent("1"), sent("2", actor="producer-2"),
            acked("2", 0, actor="producer-2"), acked("1", 1), *log("2", "1"),
        ],
        # two partitions have no order
        [sent("1"), sent("2"), acked("1", 1), acked("2", 0, partition=1), end()],
    ),
    "declined by the client itself": (
        "unavailable",
        [sent("1"), unknown("1"), *log()],
        [sent("1"), failed("1", error="_QUEUE_FULL"), *log()],
    ),
}  # fmt: skip

GROUPED = created("consumer-1", group__id="group")
CONSUMING: Cases = {
    "groups that nobody knows": (
        "duplicate-delivery",
        [delivered("1", 0), delivered("1", 0)],
        [delivered("1", 0), delivered("1", 0, "consumer-2")],
    ),
    "a duplicate that the program knew": (
        "skipped-processing",
        [acked("1", 0), acked("1", 1), *log("1", "1"), processed("1", 0), bookmark(2)],
        [acked("1", 1), *log("1", "1"), processed("1", 0), bookmark(2)],
    ),
    "two equal orders, two effects": (
        "duplicate-effect",
        [sent("1"), sent("1", topic="results"), sent("1", topic="results"), effect("1", times=2)],
        [sent("1"), sent("1"), effect("1", times=2)],
    ),
    "one offset twice": (
        "duplicate-delivery",
        [acked("1", 0), delivered("1", 0), delivered("1", 0)],
        [acked("1", 1), delivered("1", 0), delivered("1", 1)],
    ),
    "another record at the offset": (
        "duplicate-delivery",
        [delivered("1", 0), delivered("1", 0), delivered("2", 0)],
        [delivered("1", 0), delivered("2", 0)],
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
    "two groups did the work": (
        "duplicate-effect",
        [delivered("0", 0), processed("0", 0), processed("0", 0)],
        [created("consumer-2", group__id="b"), delivered("0", 0), processed("0", 0),
         delivered("0", 0, "consumer-2"), processed("0", 0)],
        # done twice
        [delivered("0", 0), delivered("0", 0), processed("0", 0)],
    ),
    "backwards, without a seek": (
        "nonmonotonic-poll",
        [delivered("1", 1), delivered("0", 0)],
        [delivered("1", 1), placed("sought", offset=None), delivered("0", 0)],
        # backwards
        [delivered("1", 1), placed("sought", offset=0), delivered("0", 0)],
    ),
    "what was given was an equal order": (
        "duplicate-delivery",
        [delivered(None, 0, key="a"), delivered(None, 0, key="a")],
        [delivered(None, 0, key="a"), delivered(None, 1, key="a")],
    ),
    "a tombstone was passed over": (
        "poll-skip",
        [record("0", 0), record(None, 1, key="a"), record("2", 2), delivered("0", 0),
         delivered("2", 2)],
        [record("0", 0), record(None, 1, key="a"), record("2", 2), delivered("0", 0),
         delivered(None, 1, key="a"), delivered("2", 2)],
    ),

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
    "committed beyond what was given, where nobody says that work was done": (
        "skipped-processing",
        [GROUPED, *log("0", "1", "2"), delivered("0", 0), bookmark(2)],
        [GROUPED, *log("0", "1", "2"), delivered("0", 0), delivered("1", 1), bookmark(2)],
    ),
    "what an earlier run was given": (
        "skipped-processing",
        [GROUPED, *log("0", "1", "2"), delivered("0", 0), bookmark(3)],
        [GROUPED, *log("0", "1", "2"), delivered("2", 2), bookmark(3)],
    ),
    "aborted records are no work": (
        "skipped-processing",
        [record("0", 0), record("1", 1), MARKER, visible("1", 1), visible("0", 0),
         processed("1", 1), bookmark(3)],
        [record("0", 0), record("1", 1), MARKER, visible("1", 1), processed("1", 1), bookmark(3)],
    ),
    "records of an open transaction are no work": (
        "skipped-processing",
        [*log("0", "1"), written("batch", 0, 0), visible("1", 1), processed("1", 1), bookmark(2)],
        [*log("0", "1"), OPEN, visible("1", 1), processed("1", 1), bookmark(2)],
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
    "over a record, and the log begins behind where it was": (
        "poll-skip",
        [record("2", 2), record("3", 3), end(start=2), delivered("0", 0), delivered("3", 3)],
        [record("2", 2), record("3", 3), end(start=2), delivered("0", 0), delivered("2", 2)],
    ),
    "over what was aborted": (
        "poll-skip",
        [*log("0", "1", "2"), MARKER, *map(visible, "012", range(3)), delivered("0", 0),
         delivered("2", 2)],
        [*log("0", "1", "2"), MARKER, visible("0", 0), visible("2", 2), delivered("0", 0),
         delivered("2", 2)],
    ),
}  # fmt: skip

REPLICAS: Cases = {
    "two polls at one offset": (
        "inconsistent-offsets",
        [delivered("1", 0), delivered("2", 0, "consumer-2")],
        [delivered("1", 0), delivered("2", 1, "consumer-2")],
    ),
    "nobody leads": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
        [topic(2), watermark(0), acked("1", 0), decision("", leader=""), FINISHED],
        # acked after the end
        [topic(2), decision("1"), watermark(0), FINISHED, acked("1", 0)],
        # acked below the floor
        [topic(2), decision("1 2"), watermark(0), acked("1", 0), FINISHED],
        # the floor is capped at the replicas
        [topic(2, replicas=1), decision("1"), watermark(0), acked("1", 0), FINISHED],
        # a floor that nobody set
        [topic(None), decision("1"), watermark(0), acked("1", 0), FINISHED],
    ),
    "the watermark of the leader before": (
        "invisible-ack",
        [topic(2), watermark(0), acked("1", 0), decision("1"), FINISHED],
        [topic(2), watermark(0), acked("1", 0), decision("2", leader=2), FINISHED],
    ),
    "what the log has no more": (
        "inconsistent-offsets",
        [acked("1", 0), end(offset=2)],
        [acked("1", 0), end(offset=2, start=1)],
    ),
    "given, and the log holds another": (
        "inconsistent-offsets",
        [delivered("1", 0), *log("2")],
        [delivered("1", 0), *log("1")],
    ),
    "given, and the log ends before it": (
        "inconsistent-offsets",
        [delivered("1", 0), end(offset=0)],
        [end(offset=0), delivered("1", 0)],
    ),
    "acked, and there is nothing": (
        "inconsistent-offsets",
        [acked("1", 0), record("1", 1), end(offset=2)],
        [acked("1", 2), record("1", 1), end(offset=2)],
    ),
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
    "readable before the end": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED, watermark(1)],
        [topic(2), decision("1"), watermark(0), acked("1", 0), watermark(1), FINISHED],
    ),
}

# By the module of the audit that has the findings.
CASES = {
    "producing": PRODUCING, "consuming": CONSUMING, "replication": REPLICAS,
    "isolation": TRANSACTIONS, "inconclusive": INCONCLUSIVE,
}  # fmt: skip
