"""Histories with the judgement of one of their findings, and what allows it."""

from __future__ import annotations

from dataclasses import replace

from lab_utils.ledger.events import Event
from tests.audit.judged_acts import MORE, OF_B, OTHER
from tests.audit.judged_groups import OF_GROUPS
from tests.audit.judged_since import SINCE
from tests.audit.judged_transactions import EVERYTHING, OF_TRANSACTIONS, STARTED, UNCLEAN
from tests.histories import (
    FINISHED,
    acked,
    asked,
    bookmark,
    created,
    decision,
    delivered,
    effect,
    end,
    failed,
    log,
    offsets,
    order,
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

PLAIN = created("producer-1", role="producer", enable__idempotence="false")
NO_RETRIES = created("producer-1", role="producer", retries="0")
NAMESAKES = [created("consumer-1", role="consumer", group__id=name) for name in "aba"]
ACKS_1 = created("producer-1", role="producer", acks="1")
ALL = created("producer-1", role="producer")
ABORTED = [sent_in(1, "1"), told("aborted", 1), written("marker", 1, 0)]
NO_VALUE = [ALL, sent("1"), acked(None, 0)]
COMPACTED = [PLAIN, topic(None, 1, "compact")]
WAS_ACKED = [sent("1"), acked("1", 0)]
EXPIRES = topic(None, 1, retention__ms="1000")
SWAPPED = [sent("1"), sent("2"), acked("2", 0), *log("2", "1")]
TWICE = [sent("1"), acked("1", 1), *log("1", "1")]
MEMBER = {"role": "consumer", "group__id": "group"}
GIVEN = [*log("0", "1"), delivered("0", 0), delivered("1", 1), processed("0", 0), bookmark(2)]
NOT_GIVEN = [*log("0", "1"), delivered("1", 1), processed("1", 1), bookmark(2)]
LATE = created("consumer-1", role="consumer", group__id="a", auto__offset__reset="earliest")
LATEST = created("consumer-1", role="consumer", group__id="a", auto__offset__reset="latest")
KEPT = [ALL, record("2", 2), record("3", 3), end(offset=4, start=2)]
AGAIN = [placed("assigned"), delivered("2", 2)]
# Order 1 is acked, and a group was given what is before it.
UP_TO_1 = [ALL, acked("1", 1), delivered("0", 0)]
RESUMED = [LATEST, *UP_TO_1, placed("committed", offset=1), *AGAIN]
FORGOT = asked("DeleteGroups", topic=None)
GONE, NOT_HELD = asked("DeleteTopics"), [PLAIN, acked("1", 0), *log()]
ON_1 = [topic(1, replicas=1), decision("1", replicas="1"), *NOT_HELD]
MOVED = asked("OffsetCommit", detail={"outside": "true"})
NO_TOPIC = replace(GONE, kind="response", error="UNKNOWN_TOPIC_OR_PARTITION")
IN_USE = replace(FORGOT, kind="response", error="NON_EMPTY_GROUP")
FENCED = replace(MOVED, kind="response", error="UNKNOWN_MEMBER_ID")
# A group that passes over the first of two orders, of a log of which nobody knows what it holds.
PASSED = [LATE, acked("1", 0, key="k"), acked("2", 1, key="k"), placed("assigned"),
          delivered("2", 1, key="k")]  # fmt: skip
OVER_1 = [*log("0", "1", "2"), placed("assigned"), delivered("0", 0), delivered("2", 2)]
MANUAL = replace(LATEST, detail={**LATEST.detail, "enable.auto.commit": "false"})
BY_AGE = replace(LATEST, detail={**LATEST.detail, "auto.offset.reset": "by_duration:PT1H"})
IN_COMPACTED = [*COMPACTED, sent("1", key="k"), acked("1", 0, key="k")]
BEFORE_ABORTED = [*IN_COMPACTED, sent_in(1, "2", key="k"), acked("2", 1, key="k"),
                  told("aborted", 1), record("2", 1, key="k"), end(offset=3)]  # fmt: skip
BY_COMPACTION = "lost-write", "allowed", "cleanup.policy=compact"
LOST = "lost-write", "breach", None
TWO_ACKS = [acked("1", 0, key="k"), acked("1", 1, key="k"), record("1", 0, key="k")]
# name: (history, finding, its judgement, what allows it)
JUDGED: dict[str, tuple[list[Event], str, str, str | None]] = {
    **MORE, **OF_GROUPS, **SINCE, **OF_TRANSACTIONS,
    "purged while it waited for its retry": (
        [PLAIN, sent("1"), failed("1", "_PURGE_QUEUE"), *log("1")],
        "phantom", "allowed", "message.timeout.ms=300000",
    ),
    "one of them has an empty value": (
        [PLAIN, sent(""), acked("", 0), sent("1"), acked("1", 1), *log()],
        "lost-write", "breach", None,
    ),
    "declined": (
        [PLAIN, sent("1"), failed("1", "_QUEUE_FULL"), *log("1")], "phantom", "breach", None,
    ),
    "declined by one client, and timed out for another": (
        [created("producer-1", role="producer", message__timeout__ms="1"), OTHER, sent("1"),
         failed("1", "_QUEUE_FULL"), sent("1", actor="producer-2"),
         unknown("1", actor="producer-2"), *log("1")],
        "phantom", "allowed", "message.timeout.ms=300000",
    ),
    "too large at its last try": (
        [PLAIN, sent("1"), failed("1", "MSG_SIZE_TOO_LARGE"), *log("1")],
        "phantom", "allowed", "message.timeout.ms=300000",
    ),
    "the earlier one was not acked": (
        [NO_RETRIES, *SWAPPED, unknown("1")],
        "nonmonotonic-send", "allowed", "enable.idempotence=false",
    ),
    "both were acked": (
        [NO_RETRIES, *SWAPPED, acked("1", 1)], "nonmonotonic-send", "breach", None,
    ),
    "its only replica lost power": ([power_cut(), *ON_1], "lost-write", "allowed", "replicas=1"),
    "a broker without it did": ([power_cut(3), *ON_1], "lost-write", "breach", None),
    "its only replica lost power when the log had been read": ([*ON_1, power_cut()], *LOST),
    "its topic was deleted when the log had been read": ([*NOT_HELD, GONE], *LOST),
    "its groups were deleted when all was over": ([*RESUMED, FORGOT], "unseen", "breach", None),
    "a new group begins with what is an hour old": (
        [BY_AGE, *UP_TO_1, *AGAIN], "unseen", "allowed", "auto.offset.reset=by_duration:pt1h",
    ),
    "the same, and it resumed": ([BY_AGE, *RESUMED[1:]], "unseen", "breach", None),
    "no room in the buffer of a Java client": (
        [PLAIN, sent("1"), failed("1", "BufferExhaustedException"), *log("1")],
        "phantom", "breach", None,
    ),
    "passed over, where each of the replicas has it": (
        [ALL, *PASSED], "unseen", "breach", None,
    ),
    "passed over, or lost by the leader that alone had it": (
        [ACKS_1, *PASSED], "unseen", "undecided", None,
    ),
    "passed over by its group, as it was acked by a leader alone, and is there": (
        [ACKS_1, *PASSED, record("1", 0, key="k"), record("2", 1, key="k"), end()],
        "unseen", "breach", None,
    ),
    "passed over, or lost, as nobody knows how its producer was set": (
        PASSED, "unseen", "undecided", None,
    ),
    "passed over, or compacted": ([*COMPACTED, *PASSED], "unseen", "undecided", None),
    "passed over, or deleted by retention": (
        [PLAIN, EXPIRES, *PASSED], "unseen", "undecided", None,
    ),
    "passed over, or aborted, as nobody knows what was": (
        [STARTED, LATE, *OVER_1], "poll-skip", "undecided", None,
    ),
    "passed over by one who may be given what was aborted": (
        [STARTED, EVERYTHING, created("consumer-1", **EVERYTHING.detail), *OVER_1],
        "poll-skip", "breach", None,
    ),
    "acked by a program that writes down no value": (
        [*NO_VALUE, end()], "lost-write", "undecided", None,
    ),
    "the same, and another program does": (
        [*NO_VALUE, sent("2", actor="b"), acked("2", 1, actor="b"), end()],
        "lost-write", "undecided", None,
    ),
    "the same, and the log holds it": (
        [*NO_VALUE, record("1", 0)], "inconsistent-offsets", "undecided", None,
    ),
    "the same, and a consumer was given it": (
        [*NO_VALUE, LATE, delivered("1", 0), delivered("2", 1)], "unseen", "undecided", None,
    ),
    "read by a program that writes down no key": (
        [ALL, sent("1", key="k"), acked("1", 0, key="k"), *log("1")],
        "lost-write", "undecided", None,
    ),
    "a tombstone, acked as it was sent": ([*NO_VALUE, sent(None), record("2", 1), end()], *LOST),
    "a key, where another producer sends none": (
        [ALL, sent("1", key="k"), acked("1", 0, key="k"), sent("2", actor="b"),
         acked("2", 1, actor="b"), record("2", 1), end()],
        "lost-write", "breach", None,
    ),
    "lost, as no producer has transactions, whoever read the log": (
        [ALL, sent("1"), acked("1", 0), visible("2", 1), end()], "lost-write", "breach", None,
    ),
    "stopped by a transaction of a producer that nobody recorded": (
        [PLAIN, stop(0, 2)], "stuck-lso", "undecided", None,
    ),
    "one of two that had to have it": (
        [PLAIN, topic(2), power_cut(), power_cut(), sent("1"), acked("1", 0), *log()],
        "lost-write", "breach", None,
    ),
    "its topic was deleted": ([GONE, *NOT_HELD], "lost-write", "allowed", None),
    "another was deleted": ([replace(GONE, topic="b"), *NOT_HELD], "lost-write", "breach", None),
    "its topic was there no more": ([GONE, NO_TOPIC, *NOT_HELD], "lost-write", "breach", None),
    "it was deleted at the first request of two": (
        [GONE, GONE, NO_TOPIC, *NOT_HELD], "lost-write", "allowed", None,
    ),
    "a request to delete it timed out": (
        [GONE, replace(NO_TOPIC, error="REQUEST_TIMED_OUT"), *NOT_HELD],
        "lost-write", "allowed", None,
    ),
    "it was deleted, and a fault answered": (
        [GONE, replace(NO_TOPIC, fate="replaced"), *NOT_HELD], "lost-write", "allowed", None,
    ),
    "each that had to have it": (
        [PLAIN, topic(2), power_cut(), power_cut(2), sent("1"), acked("1", 0), *log()],
        "lost-write", "allowed", "min.insync.replicas=2",
    ),
    "compacted, and a later record of its key is there": (
        [*COMPACTED, acked("1", 0, key="k"), record("2", 1, key="k"), end(offset=2)],
        *BY_COMPACTION,
    ),
    "the last record of a compacted topic's key": (
        [*COMPACTED, acked("1", 0, key="k"), acked("2", 1, key="k"), record("1", 0, key="k"),
         end(offset=2)],
        "lost-write", "breach", None,
    ),
    "compacted, and the later record has another key": (
        [*COMPACTED, acked("1", 0, key="k"), record("2", 1, key="other"), end(offset=2)],
        "inconsistent-offsets", "breach", None,
    ),
    "compacted since, and it has no key": (
        [*COMPACTED, acked("1", 0), end(offset=2)], *BY_COMPACTION,
    ),
    "compacted since, and nothing is at its offset": (
        [*COMPACTED, acked("1", 0), end(offset=2)],
        "inconsistent-offsets", "allowed", "cleanup.policy=compact",
    ),
    "an old tombstone": ([*COMPACTED, acked(None, 0, key="k"), end(offset=2)], *BY_COMPACTION),
    "the same in a topic that is not compacted": (
        [PLAIN, acked("1", 0, key="k"), record("2", 1, key="k"), end(offset=2)],
        "lost-write", "breach", None,
    ),
    "deleted by retention": (
        [PLAIN, EXPIRES, acked("1", 0), end(offset=2, start=1)],
        "lost-write", "allowed", "retention.ms=1000",
    ),
    "lost behind what retention deleted": (
        [PLAIN, EXPIRES, acked("1", 1), end(offset=2, start=1)], "lost-write", "breach", None,
    ),
    "a hole behind what retention deleted": (
        [PLAIN, EXPIRES, acked("1", 1), end(offset=3, start=1)],
        "inconsistent-offsets", "breach", None,
    ),
    "lost beside what was deleted": (
        [PLAIN, sent("1"), acked("1", 0), sent("1"), acked("1", 1), end(offset=2, start=1)],
        "lost-write", "breach", None,
    ),
    "acked by a leader alone": (
        [ACKS_1, acked("1", 0), *log("2")], "inconsistent-offsets", "allowed", "acks=1",
    ),
    "of equal orders of two producers, the one that needed all": (
        [ACKS_1, OTHER, acked("1", 0), acked("1", 1, actor="producer-2"), *log("1")],
        "lost-write", "breach", None,
    ),
    "of equal orders of two producers, the one that needed the leader": (
        [ACKS_1, OTHER, acked("1", 0, actor="producer-2"), acked("1", 1), *log("1")],
        "lost-write", "allowed", "acks=1",
    ),
    "given to a consumer, and so replicated": (
        [ACKS_1, LATE, acked("1", 0), delivered("1", 0), *log("2")],
        "inconsistent-offsets", "breach", None,
    ),
    "a consumer by the name of the log's reader": (
        [EVERYTHING, *ABORTED, delivered("1", 0, "reader")],
        "aborted-read", "allowed", "isolation.level=read_uncommitted",
    ),
    "the log's reader by another name": (
        [EVERYTHING, *ABORTED, replace(visible("1", 0), actor="auditor")],
        "aborted-read", "breach", None,
    ),
    "nobody recorded its sends": (
        [written("batch", 0, 0), *log("1", "1")], "duplicate", "undecided", None,
    ),
    "nobody has a sequence": (
        [written("batch", 0, 0, -1), *log("1", "1")],
        "duplicate", "allowed", "enable.idempotence=false",
    ),
    "the program went back": (
        [LATE, delivered("1", 0), placed("sought", offset=0), delivered("1", 0)],
        "duplicate-delivery", "allowed", None,
    ),
    "the program went back to the beginning": (
        [LATE, delivered("1", 0), placed("sought", detail={"to": "beginning"}), delivered("1", 0)],
        "duplicate-delivery", "allowed", None,
    ),
    "the program went back and did the work again": (
        [LATE, delivered("1", 0), processed("1", 0), placed("sought", offset=0),
         delivered("1", 0), processed("1", 0)],
        "duplicate-effect", "allowed", None,
    ),
    "the program went back in another partition": (
        [LATE, delivered("1", 0), processed("1", 0), placed("sought", offset=0, partition=1),
         delivered("1", 0), processed("1", 0)],
        "duplicate-effect", "allowed", "enable.auto.commit=true",
    ),
    "the program did the work twice for one delivery": (
        [LATE, delivered("1", 0), processed("1", 0), processed("1", 0)],
        "duplicate-effect", "allowed", None,
    ),
    "the program went to where the bookmark is": (
        [LATE, delivered("1", 0), placed("sought", detail={"to": "bookmark"}), delivered("1", 0)],
        "duplicate-delivery", "allowed", "enable.auto.commit=true",
    ),
    "a bookmark, and so no reset to the latest offset": (RESUMED, "unseen", "breach", None),
    "the bookmark of another member": (
        [MANUAL, replace(MANUAL, actor="consumer-2"), *UP_TO_1,
         placed("committed", "consumer-2", offset=1), *AGAIN],
        "unseen", "breach", None,
    ),
    "the bookmark of another member, which a timer may have moved since": (
        [LATEST, replace(LATEST, actor="consumer-2"), *UP_TO_1,
         placed("committed", "consumer-2", offset=1), *AGAIN],
        "unseen", "allowed", "enable.auto.commit=true",
    ),
    "in the hands of a member that died before it wrote that down": (
        [LATE, *UP_TO_1, LATE, *AGAIN], "unseen", "allowed", "enable.auto.commit=true",
    ),
    "the same, and nobody died": ([LATE, *UP_TO_1, *AGAIN], "unseen", "breach", None),
    "the same, and its bookmark is after it": (
        [created("consumer-1", auto__offset__reset="earliest", **MEMBER), *NOT_GIVEN,
         created("consumer-1", auto__offset__reset="earliest", **MEMBER)],
        "skipped-processing", "allowed", "enable.auto.commit=true",
    ),
    "passed over, or deleted by an administrator": (
        [asked("DeleteRecords"), ALL, *PASSED], "unseen", "undecided", None,
    ),
    "no bookmark": (
        [LATEST, *UP_TO_1, *AGAIN], "unseen", "allowed", "auto.offset.reset=latest",
    ),
    "the bookmark of another group": (
        [LATEST, *UP_TO_1, placed("committed", "consumer-2", offset=1), *AGAIN],
        "unseen", "allowed", "auto.offset.reset=latest",
    ),
    "a bookmark that an administrator deleted": ([FORGOT, *RESUMED], "unseen", "allowed", None),
    "a group in use that nobody could delete": (
        [FORGOT, IN_USE, *RESUMED], "unseen", "breach", None,
    ),
    "one of two groups was in use": (
        [FORGOT, replace(IN_USE, detail={"in_part": "true"}), *RESUMED], "unseen", "allowed", None,
    ),
    "a bookmark that nobody could move": ([MOVED, FENCED, *RESUMED], "unseen", "breach", None),
    "a bookmark that an administrator moved": ([MOVED, *RESUMED], "unseen", "allowed", None),
    "a bookmark that a program moved which records nothing": (
        [replace(MOVED, detail={}), *RESUMED], "unseen", "allowed", None,
    ),
    "a bookmark that it moved in a transaction": (
        [replace(MOVED, api="TxnOffsetCommit", detail={}), *RESUMED], "unseen", "allowed", None,
    ),
    "a bookmark that its own consumer moved": (
        [replace(MOVED, actor="consumer-1", detail={}), *RESUMED], "unseen", "breach", None,
    ),
    "one moved in another topic": ([replace(MOVED, topic="b"), *RESUMED], "unseen", "breach", None),
    "a bookmark in another partition": (
        [LATEST, *UP_TO_1, placed("committed", partition=1, offset=1), *AGAIN],
        "unseen", "allowed", "auto.offset.reset=latest",
    ),
    "a bookmark that came after": (
        [LATEST, *UP_TO_1, *AGAIN, placed("committed", offset=1)],
        "unseen", "allowed", "auto.offset.reset=latest",
    ),
    "a bookmark after the order": (
        [LATEST, *UP_TO_1, placed("committed", offset=2), *AGAIN],
        "unseen", "allowed", None,
    ),
    "a bookmark that the log has no more": (
        [LATEST, *UP_TO_1, placed("committed", offset=0), *AGAIN,
         record("1", 1), end(offset=3, start=1)],
        "unseen", "allowed", "auto.offset.reset=latest",
    ),
    "a bookmark of a log that was truncated": (
        [topic(2, unclean__leader__election__enable="true"), LATE, acked("1", 1),
         delivered("0", 0), placed("committed", offset=1), *AGAIN],
        "unseen", "allowed", "unclean.leader.election.enable=true",
    ),
    "a bookmark that the program set ahead": (
        [LATE, ALL, acked("0", 0), placed("committed", offset=1), delivered("1", 1)],
        "unseen", "allowed", None,
    ),
    "a bookmark that a transaction set ahead": (
        [LATE, ALL, acked("0", 0), offsets(1, 1, "a"), told("committed", 1), delivered("1", 1)],
        "unseen", "allowed", None,
    ),
    "the same, by a producer that is started again and sets another in its own first": (
        [LATE, STARTED, acked("0", 0), offsets(1, 1, "a"), told("committed", 1), delivered("1", 1),
         STARTED, offsets(1, 2, "a"), told("committed", 1, 8)],
        "unseen", "allowed", None,
    ),
    "the same, and nobody recorded of which group": (
        [LATE, ALL, acked("0", 0), offsets(1, 1), told("committed", 1), delivered("1", 1)],
        "unseen", "allowed", None,
    ),
    "the same, of another group": (
        [LATE, ALL, acked("0", 0), offsets(1, 1, "b"), told("committed", 1), delivered("1", 1)],
        "unseen", "breach", None,
    ),
    "the same, and the transaction was aborted": (
        [LATE, ALL, acked("0", 0), offsets(1, 1, "a"), told("aborted", 1), delivered("1", 1)],
        "unseen", "breach", None,
    ),
    "a bookmark of a transaction, from which the group went on": (
        [LATEST, *UP_TO_1, offsets(1, 1, "a"), told("committed", 1), *AGAIN],
        "unseen", "breach", None,
    ),
    "a bookmark at the order, and nothing but what is after it": (
        [LATE, ALL, acked("0", 0), placed("committed", offset=0), delivered("1", 1)],
        "unseen", "breach", None,
    ),
    "a bookmark that the program set ahead in the middle": (
        [LATE, *UP_TO_1, placed("committed", offset=2), delivered("2", 2)],
        "unseen", "allowed", None,
    ),
    "a bookmark set ahead, and back again": (
        [LATE, *UP_TO_1, placed("committed", offset=2),
         placed("committed", offset=1), delivered("2", 2)],
        "unseen", "breach", None,
    ),
    "a bookmark set ahead of the order, by the member of another group": (
        [LATE, OF_B, *UP_TO_1, placed("committed", "consumer-2", offset=2),
         delivered("2", 2)], "unseen", "breach", None,
    ),
    "a bookmark ahead, after the group had passed the order": (
        [LATE, *UP_TO_1, delivered("2", 2), placed("committed", offset=3)],
        "unseen", "breach", None,
    ),
    "a bookmark ahead, of a group that did not begin there": (
        [LATE, ALL, acked("1", 1), placed("committed", offset=3), delivered("0", 0),
         delivered("2", 2)],
        "unseen", "breach", None,
    ),
    "assigned where it begins, and given nothing": (
        [LATEST, placed("sought", detail={"to": "beginning"}), acked("1", 0)],
        "unseen", "allowed", "auto.offset.reset=latest",
    ),
    "assigned where the order is, and given what is after it": (
        [LATE, ALL, placed("sought", offset=1), acked("1", 1), delivered("2", 2)],
        "unseen", "breach", None,
    ),
    "assigned after the order": (
        [LATE, placed("sought", offset=2), acked("1", 1), delivered("2", 2)],
        "unseen", "allowed", None,
    ),
    "assigned before the start of the log": (
        [LATE, placed("sought", offset=0), acked("2", 2), *KEPT, delivered("3", 3)],
        "unseen", "allowed", None,
    ),
    "assigned by number, and given nothing": (
        [LATEST, placed("sought", offset=0), acked("1", 0)], "unseen", "allowed", None,
    ),
    "reset to the end, for what came next was deleted": (
        [LATEST, delivered("0", 0), delivered("3", 3), *KEPT],
        "poll-skip", "allowed", "auto.offset.reset=latest",
    ),
    "stored the other way round by two producers under one name": (
        [STARTED, STARTED, *SWAPPED], "nonmonotonic-send", "undecided", None,
    ),
    "stored the other way round by a producer under the name of a consumer": (
        [STARTED, created("producer-1", role="consumer"), *SWAPPED],
        "nonmonotonic-send", "breach", None,
    ),
    "given to two consumers under one name, in two groups": (
        [*NAMESAKES[:2], placed("assigned"), delivered("0", 0), delivered("0", 0)],
        "nonmonotonic-poll", "undecided", None,
    ),
    "given again to a consumer that was started again in its group": (
        [*NAMESAKES[::2], placed("assigned"), delivered("0", 0), delivered("0", 0)],
        "nonmonotonic-poll", "breach", None,
    ),
    "reset to the beginning": (
        [LATE, placed("assigned"), delivered("0", 0), delivered("3", 3), *KEPT],
        "poll-skip", "breach", None,
    ),
    "passed over by a consumer of whom no assignment was recorded": (
        [LATE, delivered("0", 0), delivered("3", 3), *KEPT], "poll-skip", "undecided", None,
    ),
    "given again to a consumer of whom no assignment was recorded": (
        [LATE, delivered("0", 0), delivered("0", 0)], "nonmonotonic-poll", "undecided", None,
    ),
    "given again after a new start, and again in that": (
        [LATE, placed("assigned"), delivered("0", 0), LATE, delivered("0", 0), delivered("0", 0)],
        "nonmonotonic-poll", "breach", None,
    ),
    "given again to a consumer that was assigned something": (
        [LATE, delivered("0", 0), delivered("0", 0), placed("assigned")],
        "nonmonotonic-poll", "breach", None,
    ),
    "passed over by a consumer of whom nothing is known, where a lagging replica may lead": (
        [UNCLEAN, *log("0", "1", "2"), delivered("0", 0), delivered("2", 2)],
        "poll-skip", "allowed", "unclean.leader.election.enable=true",
    ),
    "lost by a producer of whom nothing is known, where a lagging replica may lead": (
        [UNCLEAN, sent("1"), acked("1", 0), *log()],
        "lost-write", "allowed", "unclean.leader.election.enable=true",
    ),
    "lost by a producer of whom no more is known than that it is not idempotent": (
        [sent("1"), acked("1", 0), written("batch", 0, 0, producer_id=-1), *log()],
        "lost-write", "undecided", None,
    ),
    "lost by a producer of whom no more is known than that it is idempotent": (
        [sent("1"), acked("1", 0), written("batch", 0, 0), *log()], "lost-write", "breach", None,
    ),
    "aborted, and taken away from a compacted topic": (
        [*COMPACTED, sent_in(1, "1", key="k"), acked("1", 0, key="k"), told("aborted", 1),
         end(offset=2)],
        *BY_COMPACTION,
    ),
    "what came after it in a compacted topic was aborted": (BEFORE_ABORTED, *LOST),
    "the same, and nothing is at its offset": (
        BEFORE_ABORTED, "inconsistent-offsets", "breach", None,
    ),
    "a tombstone of its key was stored, or not": (
        [*IN_COMPACTED, sent(None, key="k"), end(offset=2)], *BY_COMPACTION,
    ),
    "a tombstone of its key was declined": (
        [*IN_COMPACTED, sent(None, key="k"), failed(None, "_QUEUE_FULL", key="k"), end(offset=2)],
        "lost-write", "breach", None,
    ),
    "of two equal ones compaction keeps the last": ([*COMPACTED, *TWO_ACKS, end(offset=2)], *LOST),
    "of two equal ones retention deleted the first": (
        [PLAIN, *TWO_ACKS, end(offset=2, start=1)], "lost-write", "breach", None,
    ),
    "acked, and the watermark was seen before its followers were lost": (
        [ALL, topic(2), watermark(0), *WAS_ACKED, decision("1"), FINISHED],
        "invisible-ack", "undecided", None,
    ),
    "the same, and seen since": (
        [ALL, topic(2), *WAS_ACKED, decision("1"), watermark(0), FINISHED],
        "invisible-ack", "breach", None,
    ),
    "the same, and another led before": (
        [ALL, topic(2), decision("1 2", 2), *WAS_ACKED, decision("1"), watermark(0), FINISHED],
        "invisible-ack", "undecided", None,
    ),
    "what came next is there": (
        [LATEST, placed("assigned"), delivered("1", 1), delivered("3", 3), *KEPT],
        "poll-skip", "breach", None,
    ),
    "an effect, and no consumer was seen": (
        [order("1"), effect("1", times=2)], "duplicate-effect", "allowed", None,
    ),
    "stored twice by a client that was idempotent only after its restart": (
        [PLAIN, *TWICE, created("producer-1", role="producer", enable__idempotence="True")],
        "duplicate", "allowed", "enable.idempotence=false",
    ),
    "given, whatever a new group begins with": (
        [created("consumer-1", **MEMBER), *GIVEN],
        "skipped-processing", "allowed", "enable.auto.commit=true",
    ),
    "not given to a group that began at the end": (
        [created("consumer-1", **MEMBER), *NOT_GIVEN],
        "skipped-processing", "allowed", "auto.offset.reset=largest",
    ),
    "not given to the group of the bookmark, which began at the beginning": (
        [created("consumer-1", auto__offset__reset="earliest", **MEMBER),
         created("consumer-2", role="consumer", group__id="b"),
         delivered("0", 0, "consumer-2"), delivered("1", 1, "consumer-2"), *NOT_GIVEN],
        "skipped-processing", "allowed", None,
    ),
}  # fmt: skip
