"""Each finding's smallest histories, and their near misses: the smallest that must not be flagged.

module: finding: name: (the smallest history, its near misses)
"""

from __future__ import annotations

from lab_utils.ledger.events import Event
from tests.audit.commit_cases import LOST_COMMITS, OF_TWO_GROUPS
from tests.audit.poll_cases import POLLS
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
    position,
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

Cases = dict[str, dict[str, tuple[list[Event], ...]]]
WORKED = [delivered("0", 0), processed("0", 0)]
TWO_KEYS = [sent("1", key="a"), sent("1", key="b")]
COMPACT = topic(None, 1, "compact")
ONE_ABORTED = [record("0", 0), record("1", 1), MARKER, visible("1", 1)]


INCONCLUSIVE: Cases = {
    "inconclusive": {
        "the fault never fired": (
            [fault("armed"), fault("unfired")],
            [sent("1"), fault("armed"), fault("fired"), *log("1")],
        ),
        "the log was not drained": (
            [sent("1"), *log("1", drained=False)],
            [sent("1"), end(drained=False), *log("1")],
        ),
        "the log was not read": ([sent("1")], [sent("1"), end()]),
        "a partition of it was not read": (
            [acked("1", 0), end(partition=1)], [acked("1", 0), end()],
        ),
        "nothing was done": (
            [order("1"), end()],
            [order("1"), sent("1"), *log("1")],
            # a sink has an effect
            [effect("1"), end()],
        ),
        "only assigned": (
            [placed("assigned"), end()], [placed("assigned"), delivered("1", 0), end()],
        ),
        "the other reader timed out": (
            [sent("1"), *both("1", 0), stop(0, 1, committed=False)],
            [sent("1"), *both("1", 0), stop(0, 1, committed=False), stop(1, 1)],
        ),
    },
}  # fmt: skip

# An offset that no number of 64 bits holds together with a partition, as the prefilter has them.
FAR = 2**44
PRODUCING: Cases = {
    "lost-write": {
        "acked when the log had been read": (
            [sent("1"), acked("1", 0), *log()], [sent("1"), *log(), acked("1", 0)],
            # acked and not in the log
            [sent("1"), acked("1", 0), *log(drained=False)],
            # unknown is never lost
            [sent("1"), unknown("1"), *log()],
        ),
        "found, and not when the log was read again": (
            [acked("1", 0), acked("2", 1), *log("1", "2"), *log("1")],
            [acked("1", 0), acked("2", 1), *log("1", "2"), *log("1", "2")],
            # another time only what had come since
            [acked("1", 0), acked("2", 1), *log("1"), record("2", 1), end()],
            # it did not come to the end
            [acked("1", 0), acked("2", 1), *log("1", "2"), *log("1", drained=False)],
        ),
        "acked late, at an offset that was read": (
            [sent("1"), end(offset=1), acked("1", 0)],
            [sent("1"), end(offset=0), acked("1", 0)],
        ),
        "one of two equal orders": (
            [sent("1"), sent("1"), acked("1", 0), acked("1", 1), *log("1")],
            [sent("1"), sent("1"), acked("1", 0), acked("1", 1), *log("1", "1")],
        ),
        "a tombstone": (
            [sent(None, key="a"), acked(None, 0, key="a"), record(None, 0, key="b"), end()],
            [sent(None, key="a"), acked(None, 0, key="a"), record(None, 0, key="a"), end()],
        ),
        "an empty text": (
            [sent(""), acked("", 0), *log()], [sent(""), acked("", 0), *log("")],
        ),
        "acked without an offset": (
            [sent("1"), acked("1", None), *log()],
            [sent("1"), acked("1", None), *log("1")],
        ),
        "only a read_committed reader was there": (
            [sent("1"), acked("1", 0), visible("2", 0), end()],
            [sent("1"), acked("1", 0), visible("1", 0), end()],
        ),
        "a gap in offsets is no loss": (
            [sent("1"), acked("1", 1), record("2", 2), end()],
            [sent("1"), acked("1", 1), record("1", 1), record("2", 3), end()],
        ),
    },
    "unseen": {
        "given one of two equal orders twice": (
            [acked("1", 0), acked("1", 1), delivered("1", 0), delivered("1", 0)],
            [acked("1", 0), acked("1", 1), delivered("1", 0), delivered("1", 1)],
        ),
        "given an equal order of an earlier run": (
            [acked("1", 2), delivered("1", 0), record("1", 2), end(offset=3, start=2)],
            [acked("1", 0), delivered("1", 0), record("1", 2), end(offset=3, start=2)],
        ),
        "assigned by the program, and given nothing": (
            [placed("sought", offset=0), acked("1", 0)],
            [placed("sought", offset=0, partition=1), acked("1", 0)],
        ),
        "a partition that the program did not assign": (
            [placed("assigned"), delivered("0", 0), acked("1", 0, partition=1)],
            [placed("sought", offset=0), delivered("0", 0), acked("1", 0, partition=1)],
        ),
        "a bookmark past it, to which the program then went": (
            [acked("1", 0), placed("committed", offset=2),
             placed("sought", detail={"to": "bookmark"})],
            [acked("1", 0), delivered("1", 0), placed("committed", offset=2),
             placed("sought", detail={"to": "bookmark"})],
        ),
        "a new group that begins too late": (
            [acked("0", 0), acked("1", 1), placed("assigned"), delivered("1", 1)],
            [acked("0", 0), acked("1", 1), placed("assigned"), delivered("0", 0),
             delivered("1", 1)],
        ),
        "a second group": (
            [created("consumer-2", group__id="b"), acked("1", 0), delivered("1", 0),
             placed("assigned", "consumer-2")],
            [created("consumer-2", group__id="b"), acked("1", 0), delivered("1", 0),
             delivered("1", 0, actor="consumer-2")],
        ),
        "of a log that was read while it still had it": (
            [*log("0", "1", "2"), acked("1", 1), placed("assigned"), delivered("0", 0),
             delivered("2", 2), end(offset=3)],
            [*log("0", "1", "2"), acked("1", 1), placed("assigned"), delivered("0", 0),
             delivered("2", 2), end(offset=3, start=2)],
            # the same of a log that tells what is visible
            [*both("1", 1), acked("1", 1), placed("assigned"), delivered("0", 0),
             delivered("2", 2), end(offset=3, start=2)],
        ),
        "behind a transaction that is still open": (
            [*log("0", "1"), written("batch", 0, 0), acked("1", 1), placed("assigned")],
            [*log("0", "1"), OPEN, acked("1", 1), placed("assigned")],
        ),
        "aborted, and so not to be seen": (
            [sent_in(1, "1"), acked("1", 0), told("committed", 1), placed("assigned")],
            [sent_in(1, "1"), acked("1", 0), told("aborted", 1), placed("assigned")],
        ),
        "visible, whatever its program was told of the end": (
            [sent_in(1, "1"), acked("1", 0), *both("1", 0), end(), placed("assigned")],
            [sent_in(1, "1"), acked("1", 0), *both("0", 1), record("1", 0), end(),
             placed("assigned")],
            # aborted, as its program was told
            [sent_in(1, "1"), told("aborted", 1), acked("1", 0), *both("1", 0), end(),
             placed("assigned")],
        ),
        "acked, and others were delivered": (
            [sent("1"), acked("1", 0), delivered("2", 1)],
            [sent("1"), acked("1", 0), delivered("1", 0)],
            # nobody consumes
            [sent("1"), acked("1", 0), *log("1")],
        ),
    },
    "duplicate": {
        "an empty text, stored twice": (
            [sent(""), *log("", "")], [sent(""), record(None, 0), *log("")[1:], end()],
        ),
        "at two places, when the log was read for the last time": (
            [*log("0", "1"), *log("0", "1", "1")], [*log("0", "1"), *log("0", "2", "1")],
        ),
        "two offsets": (
            [sent("1"), acked("1", 1), *log("1", "1")],
            [sent("1"), acked("1", 1), record("1", 0), record("1", 0), end()],
        ),
        "two partitions": (
            [sent("1"), record("1", 0, partition=0), record("1", 0, partition=1), end()],
            [sent("1"), record("1", 0, partition=0), record("2", 0, partition=1), end()],
        ),
    },
    "phantom": {
        "declined and sent again": (
            [sent("1"), failed("1", "_QUEUE_FULL"), *log("1")],
            [sent("1"), failed("1", "_QUEUE_FULL"), sent("1"), *log("1")],
        ),
        "timed out and stored": (
            [sent("1"), unknown("1"), *log("1")],
            [sent("1"), unknown("1"), sent("1"), acked("1", 0), *log("1")],
        ),
    },
    "unavailable": {
        "reported when the log had been read": (
            [sent("1"), unknown("1"), *log()],
            [sent("1"), *log(), unknown("1")],
            # and sent since
            [*log(), sent("1"), unknown("1")],
        ),
        "it may be in a partition that nobody read": (
            [sent("1"), unknown("1"), acked("0", 0, partition=1), *log(), end(partition=1)],
            [sent("1"), unknown("1"), acked("0", 0, partition=1), *log()],
        ),
        "its program aborted the transaction before it had left the client": (
            [sent("1"), unknown("1", "TimeoutException"), *log()],
            [sent("1"), unknown("1", "TransactionAbortedException"), *log()],
        ),
        "refused, and somebody was given it": (
            [sent("1"), failed("1"), *log()],
            [sent("1"), failed("1"), delivered("1", 0), *log()],
            # it was in the log
            [sent("1"), *log("1"), failed("1"), *log("2")],
            # refused and not stored
            [sent("1"), failed("1"), *log(drained=False)],
            # the client declined it, or was closed; no broker takes it, or what this producer sends
            *([sent("1"), failed("1", error=it), *log()] for it in (
                "SerializationException", "_DESTROY", "MSG_SIZE_TOO_LARGE", "INVALID_RECORD",
                "RecordTooLargeException", "_FENCED", "CLUSTER_AUTHORIZATION_FAILED")),
        ),
        "not in a compacted topic, where it may have been": (
            [COMPACT, sent("1", key="k"), unknown("1", key="k"), *log("2")],
            [COMPACT, sent("1", key="k"), unknown("1", key="k"), record("2", 1, key="k"), end()],
            [COMPACT, sent(None, key="k"), unknown("1", key="k"), end()],
            [COMPACT, sent(None, key="k"), unknown(None, key="k"), end()],
        ),
        "declined by the client itself": (
            [sent("1"), unknown("1"), *log()],
            [sent("1"), failed("1", error="_QUEUE_FULL"), *log()],
        ),
    },
    "nonmonotonic-send": {
        "unknown, and seen out of place": (
            [sent("1"), sent("2"), unknown("1"), acked("2", 0), *log("2", "1")],
            [sent("1"), sent("2"), unknown("1"), acked("2", 0), *log("2", "1", "1")],
        ),
        "at an offset that the prefilter cannot pack together with its partition": (
            [sent("1"), sent("2"), record("1", FAR), record("2", FAR - 1), end()],
            [sent("1"), sent("2"), record("1", FAR - 1), record("2", FAR), end()],
        ),
        "the later is before the earlier": (
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
        "the later is before the earlier, of one of two producers under one name": (
            [sent("1", producer_id=7), sent("2", producer_id=7), *log("2", "1")],
            [sent("1", producer_id=7), sent("2", producer_id=8), *log("2", "1")],
        ),
    },
}  # fmt: skip

GROUPED = created("consumer-1", group__id="group")
BY_MEMBER = {"actor": "consumer-1"}
HANDED = [GROUPED, *log("0", "1"), delivered("0", 0), delivered("1", 1)]
IN_ANOTHER_GROUP = (
    created("consumer-2", group__id="works"),
    delivered("0", 0, "consumer-2"),
    processed("0", 0, actor="consumer-2"),
    bookmark(1, group="works"),
)
CONSUMING: Cases = {
    **LOST_COMMITS,
    **POLLS,
    "duplicate-delivery": {
        "one offset twice": (
            [acked("1", 0), delivered("1", 0), delivered("1", 0)],
            [acked("1", 1), delivered("1", 0), delivered("1", 1)],
            # groups that nobody knows
            [delivered("1", 0), delivered("1", 0, "consumer-2")],
        ),
        "an equal order in its place, as in a topic that was created anew": (
            [acked("1", 0), delivered("1", 0), acked("1", 0), delivered("1", 0), delivered("1", 0)],
            [acked("1", 0), delivered("1", 0), acked("1", 0), delivered("1", 0)],
        ),
        "another record at the offset": (
            [delivered("1", 0), delivered("1", 0), delivered("2", 0)],
            [delivered("1", 0), delivered("2", 0)],
        ),
        "two groups": (
            [
                created("consumer-1", group__id="a"), created("consumer-2", group__id="a"),
                delivered("1", 0), delivered("1", 0, actor="consumer-2"),
            ],
            [
                created("consumer-1", group__id="a"), created("consumer-2", group__id="b"),
                delivered("1", 0), delivered("1", 0, actor="consumer-2"),
            ],
        ),
        "what was given was an equal order": (
            [delivered(None, 0, key="a"), delivered(None, 0, key="a")],
            [delivered(None, 0, key="a"), delivered(None, 1, key="a")],
        ),
    },
    "skipped-processing": {
        "a duplicate that the program knew": (
            [acked("1", 0), acked("1", 1), *log("1", "1"), processed("1", 0), bookmark(2)],
            [acked("1", 1), *log("1", "1"), processed("1", 0), bookmark(2)],
        ),
        "the bookmark was set forward, or back, between two readings": (
            [*log("0", "1"), processed("0", 0), bookmark(1), bookmark(2)],
            [*log("0", "1"), processed("0", 0), bookmark(2), bookmark(1)],
        ),
        "the bookmark is ahead of the work": (
            [*log("0", "1"), processed("0", 0), bookmark(1, "crash"), bookmark(2)],
            [*log("0", "1"), processed("0", 0), bookmark(1)],
            # only the last bookmark counts
            [*log("0", "1"), processed("0", 0), bookmark(2, "crash"), bookmark(1)],
        ),
        "nobody read the bookmark, and a member has committed it": (
            [*HANDED, processed("0", 0, **BY_MEMBER), position(1), position(2)],
            [*HANDED, processed("0", 0, **BY_MEMBER), position(2), position(1)],
            # the broker was asked
            [*HANDED, processed("0", 0, **BY_MEMBER), position(2), bookmark(1)],
            # what an earlier run was given
            [GROUPED, *log("0", "1"), delivered("1", 1), processed("1", 1, **BY_MEMBER),
             position(2)],
        ),
        "nobody read the bookmark of this group, and that of another": (
            [*HANDED, processed("0", 0, **BY_MEMBER), position(2), bookmark(0, group="other")],
            [*HANDED, processed("0", 0, **BY_MEMBER), position(1), bookmark(2, group="other")],
        ),
        **OF_TWO_GROUPS,
        "what the log had lost when it ended": (
            [*log("0", "1"), processed("1", 1), bookmark(2), end(offset=2)],
            [*log("0", "1"), processed("1", 1), bookmark(2), end(offset=2, start=1)],
        ),
        "the work for what a truncation took away is not for what is there now": (
            [*log("1"), processed("0", 0), bookmark(1)],
            [*log("1"), processed("0", 0), processed("1", 0), bookmark(1)],
            # who says where it worked, and not on what
            [*log("1"), processed(None, 0), bookmark(1)],
        ),
        "a group of which nobody says that it worked, beside one that works": (
            [GROUPED, *log("0", "1", "2"), delivered("0", 0), bookmark(2), *IN_ANOTHER_GROUP],
            [GROUPED, *log("0", "1", "2"), delivered("0", 0), delivered("1", 1), bookmark(2),
             *IN_ANOTHER_GROUP],
        ),
        "what promises no work skips none": (
            [*log("0", "1"), delivered("0", 0), processed("1", 1), bookmark(2)],
            [*log("0", "1"), delivered("0", 0), delivered("1", 1), bookmark(2)],
        ),
        "committed beyond what was given, where nobody says that work was done": (
            [GROUPED, *log("0", "1", "2"), delivered("0", 0), bookmark(2)],
            [GROUPED, *log("0", "1", "2"), delivered("0", 0), delivered("1", 1), bookmark(2)],
            # what an earlier run was given
            [GROUPED, *log("0", "1", "2"), delivered("2", 2), bookmark(3)],
        ),
        "aborted records are no work": (
            [*ONE_ABORTED, visible("0", 0), processed("1", 1), bookmark(3)],
            [*ONE_ABORTED, processed("1", 1), bookmark(3)],
        ),
        "records of an open transaction are no work": (
            [*log("0", "1"), written("batch", 0, 0), *map(visible, "01", range(2)),
             processed("1", 1), bookmark(2)],
            [*log("0", "1"), OPEN, visible("1", 1), processed("1", 1), bookmark(2)],
        ),
    },
    "duplicate-effect": {
        "two equal orders, two effects": (
            [sent("1"), sent("1", topic="results"), sent("1", topic="results"),
             effect("1", times=2)],
            [sent("1"), sent("1"), effect("1", times=2)],
        ),
        "equal values of two keys": (
            [*TWO_KEYS, effect("1", times=2, key="a"), effect("1", key="b")],
            [*TWO_KEYS, effect("1", key="a"), effect("1", key="b")],
            [*TWO_KEYS, effect("1", times=2)],
        ),
        "aborted and sent again": (
            [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), effect("1", times=2)],
            [sent_in(1, "1"), told("committed", 1), sent_in(2, "1"), effect("1", times=2)],
            # aborted each time, and an effect of what a read_uncommitted reader was given
            [sent_in(1, "1"), told("aborted", 1), effect("1")],
        ),
        "two groups did the work": (
            [delivered("0", 0), processed("0", 0), processed("0", 0)],
            [created("consumer-2", group__id="b"), delivered("0", 0), processed("0", 0),
             delivered("0", 0, "consumer-2"), processed("0", 0)],
            # done twice
            [delivered("0", 0), delivered("0", 0), processed("0", 0)],
        ),
        "an equal order in its place": (
            [acked("0", 0), *WORKED, acked("1", 0), *WORKED],
            [acked("0", 0), *WORKED, acked("0", 0), *WORKED],
        ),
        "two offsets are two records": (
            [processed("0", 0), processed("0", 1), processed("0", 1)],
            [processed("0", 0), processed("0", 1)],
        ),
        "two rows in a table": (
            [effect("0"), effect("0")], [effect("0"), effect("0", table="refunds")],
        ),
        "a counter at two": ([effect("0", times=2)], [effect("0", times=1)]),
    },
}  # fmt: skip

REPLICAS: Cases = {
    "inconsistent-offsets": {
        "two polls at one offset": (
            [delivered("1", 0), delivered("2", 0, "consumer-2")],
            [delivered("1", 0), delivered("2", 1, "consumer-2")],
        ),
        "where two were told of one place, the key of each counts": (
            [
                COMPACT,
                acked("1", 0, key="k"),
                acked(None, 1, key="k"),
                delivered("1", 1),
                end(offset=2),
            ],
            [
                COMPACT,
                acked("1", 0, key="k"),
                acked("2", 1, key="k"),
                record("1", 0, key="k"),
                record("2", 1, key="k"),
                end(offset=2),
            ],
        ),
        "given, and the log holds another": (
            [delivered("1", 0), *log("2")],
            [delivered("1", 0), *log("1")],
        ),
        "given, and the log ends before it": (
            [delivered("1", 0), end(offset=0)],
            [end(offset=0), delivered("1", 0)],
        ),
        "found, and later another one": (
            [*log("1"), *log("2")],
            [*log("1"), *log("1", "2")],
            # deleted by then
            [*log("1"), record("2", 1), end(offset=2, start=1)],
        ),
        "found, and later nothing": (
            [*log("2", "1"), record("2", 0), end(offset=1)],
            [record("2", 0), end(offset=1), *log("2", "1")],
        ),
        "acked, and there is nothing": (
            [acked("1", 0), record("1", 1), end(offset=2)],
            [acked("1", 2), record("1", 1), end(offset=2)],
            # what the log has no more
            [acked("1", 0), record("1", 1), end(offset=2, start=1)],
        ),
        "another order has its offset": (
            [acked("1", 0), *log("2")],
            [acked("1", 0), *log("1", "2")],
            # nobody has its offset
            [acked("1", 1), *log("2")],
        ),
    },
    "invisible-ack": {
        "nobody leads": (
            [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
            [topic(2), watermark(0), acked("1", 0), decision("", leader=""), FINISHED],
            # acked after the end
            [topic(2), decision("1"), watermark(0), FINISHED, acked("1", 0)],
            # acked below the floor
            [topic(2), decision("1 2"), watermark(0), acked("1", 0), FINISHED],
            # as others write a list
            [topic(2), decision("[1,2]"), watermark(0), acked("1", 0), FINISHED],
            # the floor is capped at the replicas
            [topic(2, replicas=1), decision("1"), watermark(0), acked("1", 0), FINISHED],
            # a floor that nobody set
            [topic(None), decision("1"), watermark(0), acked("1", 0), FINISHED],
            # the watermark of the leader before
            [topic(2), watermark(0, "kafka1"), acked("1", 0), decision("2", leader=2), FINISHED],
        ),
        "seen before the controller decided": (
            [topic(2), watermark(0), acked("1", 0), decision("1"), FINISHED],
            [topic(2), watermark(1), acked("1", 0), decision("1"), FINISHED],
        ),
        "sent since, and seen before the controller decided, of a broker that is called kafka1": (
            [topic(2), watermark(0, "kafka1"), decision("1"), sent("1"), acked("1", 0), FINISHED],
            [topic(2), watermark(0, "kafka"), decision("1"), sent("1"), acked("1", 0), FINISHED],
        ),
        "readable before the end": (
            [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED, watermark(1)],
            [topic(2), decision("1"), watermark(0), acked("1", 0), watermark(1), FINISHED],
        ),
    },
}

# By the module of the audit that has the findings.
CASES = {
    "producing": PRODUCING, "consuming": CONSUMING, "replication": REPLICAS,
    "isolation": TRANSACTIONS, "inconclusive": INCONCLUSIVE,
}  # fmt: skip
