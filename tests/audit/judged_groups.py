"""Histories of groups with their judgement: who resumed, who was sent past an order, by whom."""

from __future__ import annotations

from dataclasses import replace

from tests.audit.judged_acts import EARLIEST, LATEST, PRODUCER, STARTED, Judged
from tests.histories import (
    acked,
    asked,
    bookmark,
    created,
    delivered,
    end,
    log,
    offsets,
    out,
    placed,
    power_cut,
    processed,
    sent,
    told,
    topic,
)

# Of a group that nobody recorded a producer for: it resumed at 1, and was given what is after that.
JUMPED = [
    created("consumer-1", group__id="a", **EARLIEST), placed("assigned"), delivered("0", 0),
    processed("0", 0, actor="consumer-1"), placed("committed", offset=1),
    created("consumer-1", group__id="a", **EARLIEST), placed("assigned"), delivered("2", 2),
    processed("2", 2, actor="consumer-1"), placed("committed", offset=3),
    *log("0", "1", "2"), bookmark(3, group="a"),
]  # fmt: skip
AHEAD = [*JUMPED[:4], placed("committed", offset=2), *JUMPED[5:]]
BACK_AND_ON = [*JUMPED[:6], placed("sought", offset=2), *JUMPED[7:]]
RESUMING: Judged = {
    "resumed before it, and given what is after it": (
        [PRODUCER, *JUMPED], "skipped-processing", "breach", None,
    ),
    "the same, and the program committed a position after it": (
        [PRODUCER, *AHEAD], "skipped-processing", "allowed", None,
    ),
    "the same, and another client committed one, of which nobody knows the group": (
        [PRODUCER, *JUMPED[:5], placed("committed", "tool", offset=2), *JUMPED[5:]],
        "skipped-processing", "undecided", None,
    ),
    "the same, and its group is another one": (
        [PRODUCER, created("tool", group__id="b", **EARLIEST), *JUMPED[:5],
         placed("committed", "tool", offset=2), *JUMPED[5:]],
        "skipped-processing", "breach", None,
    ),
    "the same, and it committed one of another partition": (
        [PRODUCER, *JUMPED[:5], placed("committed", "tool", offset=2, partition=1), *JUMPED[5:]],
        "skipped-processing", "breach", None,
    ),
    "the same, and the program chose what is after it": (
        [PRODUCER, *BACK_AND_ON], "skipped-processing", "allowed", None,
    ),
    "the same, and an administrator moved the bookmark": (
        [PRODUCER, *JUMPED[:5], asked("OffsetDelete"), *JUMPED[5:]],
        "skipped-processing", "allowed", None,
    ),
    "the same, and a replica that was not in sync led": (
        [PRODUCER, topic(1, unclean__leader__election__enable="true"), *JUMPED],
        "skipped-processing", "allowed", "unclean.leader.election.enable=true",
    ),
    "the same, and a member may have died with it in hand": (
        [PRODUCER, *(replace(it, detail=it.detail | {"enable.auto.commit": "true"})
                     if it.kind == "created" else it for it in JUMPED)],
        "skipped-processing", "allowed", "enable.auto.commit=true",
    ),
    "the same, and nobody knows whether it was aborted": (
        JUMPED, "skipped-processing", "undecided", None,
    ),
    "the bookmark is after all that it was given": (
        [PRODUCER, *JUMPED[:5], *JUMPED[-5:]], "skipped-processing", "allowed", None,
    ),
    "the same of a group that resumed, and would begin at the end": (
        [PRODUCER, created("consumer-1", role="consumer", group__id="a"), *JUMPED[1:5],
         placed("assigned"), delivered("1", 1), processed("1", 1, actor="consumer-1"),
         *JUMPED[-5:]],
        "skipped-processing", "allowed", None,
    ),
}  # fmt: skip
# Its transaction was aborted, and the bookmark is after the input all the same.
BY_HAND = created("consumer-1", group__id="a", **EARLIEST)
LEFT = [PRODUCER, delivered("0", 0), out(1, "0"), offsets(1, 1), told("aborted", 1)]
BY_WHOM: Judged = {
    "nobody says that he committed the input of an aborted output": (
        [BY_HAND, *LEFT, bookmark(1, group="a")], "aborted-output", "undecided", None,
    ),
    "the same, and its consumer commits by itself": (
        [created("consumer-1", role="consumer", group__id="a"), *LEFT, bookmark(1, group="a")],
        "aborted-output", "allowed", "enable.auto.commit=true",
    ),
    "the same as the first, and its consumer says so": (
        [BY_HAND, *LEFT, placed("committed", offset=1), bookmark(1, group="a")],
        "aborted-output", "allowed", "not rewinding after the abort",
    ),
    "the same, and what it committed is not after the input": (
        [BY_HAND, *LEFT, placed("committed", offset=0), bookmark(1, group="a")],
        "aborted-output", "undecided", None,
    ),
    "the same as the first, and a later transaction committed it": (
        [BY_HAND, *LEFT, offsets(2, 1), told("committed", 2), bookmark(1, group="a")],
        "aborted-output", "allowed", "not rewinding after the abort",
    ),
}  # fmt: skip
# The same of a group that never committed: it began at 0, and passed over what is at 1.
OVER_1 = [PRODUCER, *JUMPED[:4], *JUMPED[7:9], *JUMPED[-5:]]
BEGAN_AT_1 = [
    PRODUCER,
    JUMPED[0],
    placed("assigned"),
    delivered("1", 1),
    processed("1", 1, actor="consumer-1"),
    *log("0", "1"),
    bookmark(2, group="a"),
]
OTHER_THERE = [PRODUCER, *JUMPED[:4], delivered("x", 1), processed("x", 1, actor="consumer-1"),
               *log("0", "1"), bookmark(2, group="a")]  # fmt: skip
PASSED_OVER: Judged = {
    "passed over by a group that had begun before it": (
        OVER_1, "skipped-processing", "breach", None,
    ),
    "the same, and its program moved it there": (
        [*OVER_1[:5], placed("sought", offset=2), *OVER_1[5:]],
        "skipped-processing", "allowed", None,
    ),
    "the same, and it begins at the end": (
        [PRODUCER, LATEST, *OVER_1[2:]],
        "skipped-processing", "allowed", "auto.offset.reset=latest",
    ),
    "passed over by a group that began after it, and it may be of before": (
        BEGAN_AT_1, "skipped-processing", "allowed", None,
    ),
    "the same, and it was acked in this run": (
        [acked("0", 0), *BEGAN_AT_1], "skipped-processing", "breach", None,
    ),
    "its group was given another order in its place": (
        OTHER_THERE, "skipped-processing", "breach", None,
    ),
    "the same, and what had been there was cut off": (
        [topic(1, unclean__leader__election__enable="true"), *OTHER_THERE],
        "skipped-processing", "allowed", "unclean.leader.election.enable=true",
    ),
    "its group was given it, and writes down no values": (
        [*OTHER_THERE[:5], replace(OTHER_THERE[5], value=None), *OTHER_THERE[7:]],
        "skipped-processing", "allowed", "enable.auto.commit=false",
    ),
}  # fmt: skip
BY_HAND = {"group__id": "a", **EARLIEST}
MEMBERS = [created("consumer-1", **BY_HAND), created("consumer-2", **BY_HAND)]
COMMIT = placed("committed", offset=2)
BEHIND = [*MEMBERS, *(delivered(str(it), it) for it in range(2)), COMMIT]
AGAIN = [placed("assigned", "consumer-2"), delivered("1", 1, "consumer-2")]
HELD_1 = bookmark(1, group="a")
LOST_COMMITS: Judged = {
    "committed, and the broker holds an earlier position": (
        [*BEHIND, HELD_1], "lost-commit", "breach", None,
    ),
    "the same, and a member commits in the background": (
        [created("consumer-3", group__id="a", role="consumer"), *BEHIND,
         delivered("0", 0, "consumer-3"), HELD_1],
        "lost-commit", "undecided", None,
    ),
    "the same, and nobody recorded how its members are set": (
        [delivered("0", 0), offsets(1, 2, "a"), told("committed", 1), HELD_1],
        "lost-commit", "undecided", None,
    ),
    "the same as the first, and an administrator changed positions": (
        [*BEHIND, asked("OffsetDelete"), HELD_1], "lost-commit", "allowed", None,
    ),
    "the same, and a program moved it that records nothing": (
        [*BEHIND, asked("OffsetCommit"), HELD_1], "lost-commit", "allowed", None,
    ),
    "the same, and the broker refused that": (
        [*BEHIND, asked("OffsetCommit"),
         replace(asked("OffsetCommit"), kind="response", error="UNKNOWN_MEMBER_ID"), HELD_1],
        "lost-commit", "breach", None,
    ),
    "the same as the first, and the topic was deleted": (
        [*BEHIND, asked("DeleteTopics"), HELD_1], "lost-commit", "allowed", None,
    ),
    "the same, and a broker lost its power": (
        [*BEHIND, power_cut(), HELD_1], "lost-commit", "undecided", None,
    ),
    "the same, and the program moved after it": (
        [*BEHIND, placed("sought", offset=0), HELD_1], "lost-commit", "undecided", None,
    ),
    "the same, and it moved before": (
        [*BEHIND[:-1], placed("sought", offset=0), COMMIT, HELD_1], "lost-commit", "breach", None,
    ),
    "the same, and who committed, too, is in nobody knows which group": (
        [*BEHIND, placed("committed", "tool", offset=1), HELD_1],
        "lost-commit", "undecided", None,
    ),
    "committed, and another member begins before it": (
        [*BEHIND, *AGAIN], "lost-commit", "breach", None,
    ),
    "the same, and who was not in sync may lead": (
        [topic(None, unclean__leader__election__enable="true"), *BEHIND, *AGAIN],
        "lost-commit", "allowed", "unclean.leader.election.enable=true",
    ),
    "the same, and it is the broker that holds an earlier one": (
        [topic(None, unclean__leader__election__enable="true"), *BEHIND, HELD_1],
        "lost-commit", "breach", None,
    ),
    "the same, and nobody recorded that it was assigned": (
        [MEMBERS[0], *BEHIND[2:], MEMBERS[1], AGAIN[1]], "lost-commit", "undecided", None,
    ),
    "it committed past all that it had been given": (
        [*BEHIND[:-1], placed("committed", offset=9), *AGAIN],
        "lost-commit", "allowed", "auto.offset.reset=earliest",
    ),
    "the same, and the log goes on to there": (
        [*BEHIND[:-1], placed("committed", offset=9), *AGAIN, end(offset=9)],
        "lost-commit", "breach", None,
    ),
}  # fmt: skip
GROUP = [PRODUCER, created("consumer-1", group__id="a", **EARLIEST), acked("1", 1)]
BACK, PAST = placed("sought", offset=0), placed("sought", offset=2)
END = placed("sought", detail={"to": "end"})
TWO_MOVED = [created("consumer-2", group__id="a", **EARLIEST), BACK,
             placed("sought", "consumer-2", offset=2)]  # fmt: skip
MOVES: Judged = {
    "moved past the order and back, and it was passed over after a rebalance": (
        [*GROUP, PAST, BACK, delivered("0", 0), placed("assigned"), delivered("2", 2)],
        "unseen", "breach", None,
    ),
    "moved back first, and then past the order": (
        [*GROUP, BACK, delivered("0", 0), PAST, delivered("2", 2)], "unseen", "allowed", None,
    ),
    "moved on when the order had been passed over": (
        [*GROUP, delivered("0", 0), delivered("2", 2), placed("sought", offset=3),
         delivered("3", 3)],
        "unseen", "breach", None,
    ),
    "moved past the order, and then to the bookmark": (
        [*GROUP, PAST, placed("sought", detail={"to": "bookmark"}), delivered("2", 2)],
        "unseen", "breach", None,
    ),
    "moved to the end": ([*GROUP, END, delivered("2", 2)], "unseen", "allowed", None),
    "moved to the end, and back to the order": (
        [*GROUP, END, placed("sought", offset=1), delivered("2", 2)], "unseen", "breach", None,
    ),
    "moved to what was not there, and reset": (
        [*GROUP, placed("sought", offset=9), delivered("2", 2)], "unseen", "allowed", None,
    ),
    "two of a group are moved, and one is given what is before the order": (
        [*GROUP, *TWO_MOVED, delivered("0", 0), delivered("2", 2, "consumer-2")],
        "unseen", "allowed", None,
    ),
    "the same, and it is the other one that passes the order over": (
        [*GROUP, *TWO_MOVED, delivered("0", 0), delivered("2", 2)], "unseen", "breach", None,
    ),
}  # fmt: skip
# Two orders that stood in the log before a power cut and after it, and a group that is given one.
ON_ONE = [PRODUCER, topic(1, replicas=1), created("consumer-1", group__id="a", **EARLIEST)]
TWO_ACKED = [sent("1"), acked("1", 0), sent("2"), acked("2", 1)]
GIVEN_2 = [placed("assigned"), delivered("2", 1)]
STOOD: Judged = {
    "passed over by a group that began when its broker was back from a power cut": (
        [*ON_ONE, *TWO_ACKED, power_cut(), STARTED, *GIVEN_2, *log("1", "2")],
        "unseen", "breach", None,
    ),
    "the same, and nobody says that it was back": (
        [*ON_ONE, *TWO_ACKED, power_cut(), *GIVEN_2, *log("1", "2")], "unseen", "breach", None,
    ),
    "the same, and one has lost its power that was back before the first send": (
        [*ON_ONE, power_cut(2), replace(STARTED, actor="broker-2"), *TWO_ACKED, power_cut(),
         *GIVEN_2, *log("1", "2")],
        "unseen", "breach", None,
    ),
    "the same, and one loses its power when everybody has looked": (
        [*ON_ONE, *TWO_ACKED, power_cut(), *GIVEN_2, *log("1", "2"), power_cut()],
        "unseen", "breach", None,
    ),
    "the same, and its group had begun before": (
        [*ON_ONE, *TWO_ACKED, GIVEN_2[0], power_cut(), STARTED, *GIVEN_2, *log("1", "2")],
        "unseen", "allowed", "replicas=1",
    ),
    "the same, and its group had committed a position before": (
        [*ON_ONE, *TWO_ACKED, placed("committed", offset=0), power_cut(), STARTED, *GIVEN_2,
         *log("1", "2")],
        "unseen", "allowed", "replicas=1",
    ),
    "the same, and it was acked after that": (
        [*ON_ONE, *TWO_ACKED[:1], power_cut(), STARTED, *TWO_ACKED[1:], *GIVEN_2, *log("1", "2")],
        "unseen", "allowed", "replicas=1",
    ),
    "the same, and it was acked once more after that, as where it was lost and stored again": (
        [*ON_ONE, *TWO_ACKED, power_cut(), STARTED, sent("1"), acked("1", 0), *GIVEN_2,
         *log("1", "2")],
        "unseen", "allowed", "replicas=1",
    ),
    "the same, and the log was read before": (
        [*ON_ONE, *TWO_ACKED, *log("1", "2"), power_cut(), STARTED, *GIVEN_2],
        "unseen", "allowed", "replicas=1",
    ),
    "the same, and power was cut once more when its group had begun": (
        [*ON_ONE, *TWO_ACKED, power_cut(), STARTED, GIVEN_2[0], power_cut(), *GIVEN_2,
         *log("1", "2")],
        "unseen", "allowed", "replicas=1",
    ),
    "the same, and its topic was deleted": (
        [*ON_ONE, *TWO_ACKED, power_cut(), STARTED, asked("DeleteTopics"), *GIVEN_2,
         *log("1", "2")],
        "unseen", "allowed", None,
    ),
}  # fmt: skip
OF_GROUPS: Judged = {**BY_WHOM, **LOST_COMMITS, **MOVES, **PASSED_OVER, **RESUMING, **STOOD}
