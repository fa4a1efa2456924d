"""Of transactions: each finding's smallest history, and its near miss; as in tests.audit.cases."""

from __future__ import annotations

from confluent_kafka import OFFSET_INVALID

from lab_utils.ledger.events import Event
from tests.histories import (
    acked,
    bookmark,
    both,
    created,
    delivered,
    end,
    initialised,
    logged,
    noted,
    offsets,
    out,
    power_cut,
    record,
    sent_in,
    stop,
    told,
    topic,
    visible,
    written,
)  # fmt: skip

OTHER = {"actor": "producer-2"}
GROUPS = [created("consumer-1", group__id="a"), created("consumer-2", group__id="b")]
# Two transactions of an order each, and where both are in the log.
TWO = [sent_in(1, "1"), sent_in(1, "2", **OTHER)]
WRITTEN = [*TWO, *both("1", 0), *both("2", 1)]
BOTH_COMMITTED = [told("committed", 1), told("committed", 1, **OTHER)]
INTERLEAVED = [*TWO, sent_in(1, "3"), *BOTH_COMMITTED]


# A producer's transaction, and another producer that takes its transactional.id.
TAKEN = [
    created("producer-1", role="producer", transactional__id="t"),
    created("producer-2", role="producer", transactional__id="t"),
    initialised(1), sent_in(1, "1"), acked("1", 0), initialised(4, **OTHER),
]  # fmt: skip
TAKEN_AT = 6
# One transaction, of which one order can be read.
HALVES = [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0)]
# Three transactions of two orders each; the last orders of the first and the third are missing.
THREE = [
    sent_in(1, "1"), sent_in(1, "2"), sent_in(1, "3", **OTHER), sent_in(1, "4", **OTHER),
    sent_in(2, "5"), sent_in(2, "6"),
    *both("1", 0), *both("3", 1), *both("4", 0, 1), *both("5", 1, 1),
]  # fmt: skip
# Input that was given, and its output; also where that was aborted, and with another group.
WORKED = [delivered("0", 0), out(1, "0")]
GAVE_UP = [*WORKED, told("aborted", 1)]
BY_TWO = [*GROUPS, delivered("0", 0, "consumer-2"), *WORKED]
# Where a read_committed reader would stop; none came there.
UNREAD = logged("end", 2, 0, detail={"drained": "true", "last_stable": "2"})
TRIMMED_TO_0, TRIMMED_TO_2 = (
    logged("end", 2, 0, detail={"drained": "true", "committed_drained": "true",
                                "last_stable": "2", "start": start})
    for start in "02"
)  # fmt: skip
# The same, of a reader that is read_committed alone.
LATER_FROM_0, LATER_FROM_2 = (
    logged("end", 2, 0, actor="reader-2", detail={"committed_drained": "true", "last_stable": "2",
                                                  "start": start})
    for start in "02"
)  # fmt: skip
# Aborted and sent again: a read_committed reader is given the second copy alone.
SENT_AGAIN = [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), told("committed", 2, 3)]
FIRST_HIDDEN = [record("1", 0), *both("1", 2)]
# Killed in the call that commits, and sent by another again, who has committed.
TWICE_SENT = [sent_in(1, "1"), sent_in(1, "1", **OTHER), told("committed", 1, 3, **OTHER)]
# Two producers that live at once under one name begin a transaction of one number.
BOTH_BEGAN = [told("began", 1), told("began", 1)]
# A program that is started twice under one name, and numbers its transactions from 1 each time.
STARTED = created("producer-1", role="producer")
ONCE, AGAIN = ([STARTED, sent_in(1, value)] for value in "12")

# Committed, and found by a read_uncommitted reader; in a topic that keeps the last of each key.
KEYED = [topic(None, 1, "compact"), sent_in(1, "1", key="k"), told("committed", 1),
         record("1", 0, key="k")]  # fmt: skip
VISIBLE_2 = logged("visible", 2, 0, key="k", value="2")

TRANSACTIONS: dict[str, dict[str, tuple[list[Event], ...]]] = {
    "G0": {
        "a copy at each side of another": (
            [*TWO, *both("1", 0), *both("2", 1), *both("1", 2)],
            [*TWO, *both("1", 0), *both("1", 1), *both("2", 2)],
        ),
        "the same, and a copy in another partition": (
            [*TWO, *both("1", 0), *both("2", 1), *both("1", 2), *both("1", 0, 1)],
            [*TWO, *both("1", 0), *both("1", 1), *both("2", 2), *both("1", 0, 1)],
        ),
        "three in a circle": (
            [*THREE, *both("6", 0, 2), *both("2", 1, 2)],
            [*THREE, *both("2", 0, 2), *both("6", 1, 2)],
        ),
        "each wrote before the other": (
            [*INTERLEAVED, *both("1", 0), *both("2", 1), *both("3", 2)],
            [*INTERLEAVED, *both("1", 0), *both("3", 1), *both("2", 2)],
            # 1 and 3 are of two producers
            [*BOTH_BEGAN, *INTERLEAVED, *both("1", 0), *both("2", 1), *both("3", 2)],
        ),
        "before in one partition, behind in another": (
            [*WRITTEN, sent_in(1, "3"), sent_in(1, "4", **OTHER), *both("4", 0, 1),
             *both("3", 1, 1)],
            [*WRITTEN, sent_in(1, "3"), sent_in(1, "4", **OTHER), *both("3", 0, 1),
             *both("4", 1, 1)],
        ),
    },
    "G1c": {
        "each read the other": (
            [*WRITTEN, offsets(1, 2), offsets(1, 1, **OTHER), *BOTH_COMMITTED],
            [*WRITTEN, offsets(1, 1), offsets(1, 1, **OTHER), *BOTH_COMMITTED],
        ),
    },
    "torn-transaction": {
        "lost, and another start aborts its own of that number": (
            [*ONCE, told("committed", 1, 1), *AGAIN, told("aborted", 1, 4), record("1", 0),
             record("2", 2), stop(4, 4)],
            [*ONCE, told("committed", 1, 1), *AGAIN, told("aborted", 1, 4), *both("1", 0),
             record("2", 2), stop(4, 4)],
            # aborted, and another start commits
            [*ONCE, told("aborted", 1, 1), *AGAIN, told("committed", 1, 4), record("1", 0),
             *both("2", 2), stop(4, 4)],
        ),
        "lost, and told after the next start": (
            [*ONCE, *AGAIN, told("committed", 1, 1), record("1", 0), stop(2, 2)],
            [*ONCE, *AGAIN, told("committed", 1, 3), record("1", 0), stop(2, 2)],
        ),
        "visible in another partition": (
            [*HALVES, record("2", 1), visible("2", 1, 1), stop(2, 2)],
            [*HALVES, *both("2", 1), visible("2", 1, 1), stop(2, 2)],
        ),
        "found, and lost before the other reader came": (
            [sent_in(1, "1"), told("committed", 1), record("1", 0), TRIMMED_TO_0],
            [sent_in(1, "1"), told("committed", 1), record("1", 0), TRIMMED_TO_2],
        ),
        "the same, and each isolation level has a reader of its own": (
            [sent_in(1, "1"), told("committed", 1), record("1", 0), end(offset=2), LATER_FROM_0],
            [sent_in(1, "1"), told("committed", 1), record("1", 0), end(offset=2), LATER_FROM_2],
        ),
        "found, and compacted before the other reader came": (
            [*KEYED, sent_in(2, "2", key="k"), told("aborted", 2), record("2", 2, key="k"),
             stop(4, 4)],
            [*KEYED, sent_in(2, "2", key="k"), told("committed", 2), record("2", 2, key="k"),
             VISIBLE_2, stop(4, 4)],
            # acked, and never found
            [*KEYED, acked("2", 2, key="k"), stop(4, 4)],
        ),
        "what follows has another key": (
            [*KEYED, acked("2", 2, key="other"), stop(4, 4)],
            [*KEYED, acked("2", 2, key="k"), stop(4, 4)],
        ),
        "the same in a topic that is not compacted": (
            [*KEYED[1:], acked("2", 2, key="k"), stop(4, 4)],
            [*KEYED, acked("2", 2, key="k"), stop(4, 4)],
        ),
        "visible where no copy is": (
            [*HALVES, record("2", 1), visible("2", 2), stop(3, 3)],
            [*HALVES, *both("2", 1), visible("2", 2), stop(3, 3)],
        ),
        "one copy can be read": (
            [sent_in(1, "1"), *both("1", 0), record("1", 1), stop(2, 2)],
            [sent_in(1, "1"), *both("1", 0), *both("1", 1), stop(2, 2)],
        ),
        "the other half is another transaction": (
            [*HALVES, record("2", 1), stop(2, 2)],
            [sent_in(1, "1"), sent_in(2, "2"), *both("1", 0), record("2", 1), stop(2, 2)],
            # a reader that timed out saw no half
            [*HALVES, record("2", 1), stop(2, 2, committed=False)],
        ),
        "one half can be read": (
            [*HALVES, record("2", 0, 1), stop(1, 1), stop(1, 1, 1)],
            [*HALVES, *both("2", 0, 1), stop(1, 1), stop(1, 1, 1)],
            # the other half is still open
            [*HALVES, record("2", 0, 1), stop(1, 1), stop(0, 1, 1)],
            # the other half is of another producer, who was told of its end or was not
            [*HALVES, record("2", 1), told("committed", 1), told("aborted", 1), stop(2, 2)],
            [*BOTH_BEGAN, *HALVES, record("2", 1), told("committed", 1), stop(2, 2)],
        ),
        "two producers under one name, and both were committed": (
            [*BOTH_BEGAN, *HALVES, record("2", 1), told("committed", 1), told("committed", 1),
             stop(2, 2)],
            [*BOTH_BEGAN, *HALVES, *both("2", 1), told("committed", 1), told("committed", 1),
             stop(2, 2)],
        ),
        "stored before the other reader came to the end": (
            [sent_in(1, "1"), told("committed", 1), record("1", 0), stop(1, 1)],
            [sent_in(1, "1"), told("committed", 1), record("1", 0), stop(0, 0)],
            # what this reader is given all the same is not missing
            [*HALVES, record("2", 1), stop(0, 0)],
        ),
        "each isolation level has a reader of its own": (
            [*HALVES, record("2", 1), stop(2, 2, drained=False), end(offset=2)],
            [*HALVES, record("2", 1), stop(0, 2, drained=False), end(offset=2)],
            # that of read_committed came before the order was stored
            [*HALVES, stop(1, 1, drained=False), record("2", 1), end(offset=2)],
        ),
        "committed, and nothing of it can be read": (
            [sent_in(1, "1"), told("committed", 1), record("1", 0), stop(2, 2)],
            [sent_in(1, "1"), told("aborted", 1), record("1", 0), stop(2, 2)],
            # nobody says that a read_committed reader was there
            [sent_in(1, "1"), told("committed", 1), record("1", 0), UNREAD],
        ),
    },
    "precommitted-read": {
        "given, and its transaction never ended": (
            [sent_in(1, "1"), delivered("1", 0), record("1", 0), stop(0, 1)],
            [sent_in(1, "1"), delivered("1", 0), record("1", 0), stop(0, 1, committed=False)],
        ),
        "sent again, and nobody knows whether the first commit was asked for": (
            [TWICE_SENT[0], delivered("1", 0), *TWICE_SENT[1:], record("1", 0), record("1", 2),
             stop(2, 4)],
            [TWICE_SENT[0], delivered("1", 0), *TWICE_SENT[1:], *both("1", 0), *both("1", 2),
             stop(4, 4)],
        ),
        "never committed, as far as anybody knows, and deleted since": (
            [sent_in(1, "1"), delivered("1", 0), record("1", 0), stop(1, 1)],
            [sent_in(1, "1"), delivered("1", 0), TRIMMED_TO_2],
        ),
        "two clocks that do not agree": (
            [sent_in(1, "1"), delivered("1", 0), told("committed", 1, 2)],
            [delivered("1", 0), sent_in(1, "1"), told("committed", 1, 2)],
            # given before the commit was asked
            [sent_in(1, "1"), delivered("1", 0), told("committed", 1, asked_at_ns=1)],
            # one of two producers was killed in its commit, the other has committed since
            [*BOTH_BEGAN, sent_in(1, "1"), delivered("1", 0), told("committed", 1, 4)],
        ),
        "given by this run, and deleted since": (
            [sent_in(1, "1"), acked("1", 0), delivered("1", 0), told("committed", 1, 3),
             TRIMMED_TO_2],
            # an equal order of an earlier run
            [sent_in(1, "1"), acked("1", 2), delivered("1", 0), told("committed", 1, 3),
             TRIMMED_TO_2],
        ),
        "given before the reader of the log came to an open transaction": (
            [sent_in(1, "1"), delivered("1", 0), record("1", 0), stop(0, 1)],
            [sent_in(1, "1"), record("1", 0), stop(0, 1), delivered("1", 0)],
            # another reader came later, to the end
            [sent_in(1, "1"), record("1", 0), stop(0, 1, drained=False), delivered("1", 0),
             end(offset=1)],
        ),
        "given after a call that failed, which was another one": (
            [sent_in(1, "1"), told("failed", 1, 1, call="send_offsets_to_transaction"),
             delivered("1", 0), told("committed", 1, 3)],
            [sent_in(1, "1"), told("failed", 1, 1), delivered("1", 0), told("committed", 1, 3)],
            [sent_in(1, "1"), told("failed", 1, 1, call="commit_transaction"), delivered("1", 0),
             told("committed", 1, 3)],
            # nobody says when the call began
            [sent_in(1, "1"), delivered("1", 0), told("committed", 1, None), record("1", 0),
             stop(1, 1)],
        ),
        "a commit that nobody asked for": (
            [sent_in(1, "1"), delivered("1", 0), record("1", 0), stop(1, 1)],
            [sent_in(1, "1"), delivered("1", 0), *both("1", 0), stop(1, 1)],
        ),
    },
    "aborted-output": {
        "the bookmark of another group": (
            [*BY_TWO, offsets(1, 1), told("aborted", 1), bookmark(1, group="a"),
             bookmark(1, group="b")],
            [*BY_TWO, offsets(1, 1), told("aborted", 1), bookmark(1, group="b")],
        ),
        "the offsets are said to be of the one group": (
            [*BY_TWO, offsets(1, 1, "a"), told("aborted", 1), bookmark(1, group="a")],
            [*BY_TWO, offsets(1, 1), told("aborted", 1), bookmark(1, group="a")],
        ),
        "the offsets are said to be of a group, and nobody knows that of the reader": (
            [*WORKED, offsets(1, 1, "c"), told("aborted", 1), bookmark(1)],
            [*GROUPS, *WORKED, offsets(1, 1, "c"), told("aborted", 1), bookmark(1)],
        ),
        "the bookmark of a group without readers": (
            [*WORKED, offsets(1, 1), told("aborted", 1), bookmark(1, group="c")],
            [*GROUPS, *WORKED, offsets(1, 1), told("aborted", 1), bookmark(1, group="c")],
            # the bookmark is not after it
            [*WORKED, offsets(1, 1), told("aborted", 1), bookmark(0, group="c")],
        ),
        "the batch is lost": (
            [*GAVE_UP, delivered("1", 1), out(2, "1"), offsets(2, 2), told("committed", 2)],
            [*GAVE_UP, delivered("0", 0), out(2, "0"), offsets(2, 1), told("committed", 2)],
        ),
        "sent again from memory": (
            [*GAVE_UP, offsets(2, 1), told("committed", 2)],
            [*GAVE_UP, out(2, "0"), offsets(2, 1), told("committed", 2)],
        ),
    },
    "zombie-effect": {
        "a commit after another producer has taken its id": (
            [*TAKEN, told("committed", 1, TAKEN_AT)],
            # it was called before that
            [*TAKEN, told("committed", 1, TAKEN_AT - 1)],
            [*TAKEN, told("failed", 1, TAKEN_AT, call="commit_transaction")],
            # nothing was acked in it, or nobody knows in which of two
            [*TAKEN[:-2], TAKEN[-1], TAKEN[-1], told("committed", 1, TAKEN_AT)],
            [*TAKEN, sent_in(2, "1"), told("committed", 1, TAKEN_AT)],
            # the other one had taken it before, and took it again when this one had committed
            [*TAKEN[:2], initialised(1, **OTHER), *TAKEN[2:5], told("committed", 1, 6),
             initialised(7, **OTHER)],
            # it was initialised when the other had been, or while it was
            [*TAKEN[:-1], initialised(TAKEN_AT), TAKEN[-1], told("committed", 1, TAKEN_AT + 2)],
            [*TAKEN[:-1], initialised(2, **OTHER), told("committed", 1, TAKEN_AT)],
            # another id, or another start
            [*TAKEN[:1], created("producer-2", role="producer", transactional__id="u"),
             *TAKEN[2:], told("committed", 1, TAKEN_AT)],
            [TAKEN[0], *TAKEN, told("committed", 1, TAKEN_AT + 1)],
            # the coordinator may have lost what it knew
            [*TAKEN, power_cut(), told("committed", 1, TAKEN_AT)],
            [topic(None, unclean__leader__election__enable="true"), *TAKEN,
             told("committed", 1, TAKEN_AT + 1)],
        ),
        "a commit after another producer has taken its id again": (
            [*TAKEN[:2], initialised(1, **OTHER), *TAKEN[2:5], initialised(6, **OTHER),
             told("committed", 1, 7)],
            [*TAKEN[:2], initialised(1, **OTHER), *TAKEN[2:5], told("committed", 1, 7)],
        ),
        "no transaction, and an old epoch": (
            [written("batch", 0, 1), written("batch", 1, 0)],
            [written("batch", 0, 0), written("batch", 1, 1)],
            # of another producer id
            [written("batch", 0, 1), written("batch", 1, 0, producer_id=8)],
            # in another partition
            [written("batch", 0, 1), written("batch", 1, 0, partition=1)],
        ),
        "an old epoch behind a newer one": (
            [written("batch", 0, 0), written("marker", 1, 1), written("batch", 2, 0)],
            [written("batch", 0, 0), written("marker", 1, 1), written("batch", 2, 2)],
        ),
    },
    "G2": {
        "neither read the other": (
            [*WRITTEN, offsets(1, 1), offsets(1, 0, **OTHER), *BOTH_COMMITTED],
            [*WRITTEN, offsets(1, 1), offsets(1, 1, **OTHER), *BOTH_COMMITTED],
            # nothing was read, so nothing is sent
            [*WRITTEN, offsets(1, 1), offsets(1, OFFSET_INVALID, **OTHER), *BOTH_COMMITTED],
        ),
    },
    "aborted-read": {
        "aborted by another start than committed that number": (
            [*ONCE, told("committed", 1, 1), *AGAIN, delivered("2", 2), told("aborted", 1, 4)],
            [*ONCE, told("committed", 1, 1), *AGAIN, delivered("1", 0), told("aborted", 1, 4)],
        ),
        "aborted, and a consumer was given it": (
            [sent_in(1, "1"), delivered("1", 0), told("aborted", 1)],
            [sent_in(1, "1"), delivered("1", 0), told("committed", 1)],
            # of one of two producers, and the other's was committed
            [sent_in(1, "1"), delivered("1", 0), told("committed", 1), told("aborted", 1)],
            # of one of two producers, and nobody was told what became of the other's
            [*BOTH_BEGAN, sent_in(1, "1"), delivered("1", 0), told("aborted", 1)],
        ),
        "aborted, committed when sent again, and the first copy was given": (
            [*SENT_AGAIN, delivered("1", 0), *FIRST_HIDDEN, stop(4, 4)],
            # the second copy was given
            [*SENT_AGAIN, delivered("1", 2), *FIRST_HIDDEN, stop(4, 4)],
            # the reader came to an open transaction, or did not come there
            [*SENT_AGAIN, delivered("1", 0), *FIRST_HIDDEN, stop(3, 4)],
            [*SENT_AGAIN, delivered("1", 0), *FIRST_HIDDEN, stop(4, 4, committed=False)],
            # the order was found later than the end
            [*SENT_AGAIN, delivered("1", 0), *FIRST_HIDDEN, stop(0, 0)],
            # the log begins after it
            [*SENT_AGAIN, delivered("1", 0), *FIRST_HIDDEN, end(offset=4), stop(4, 4, drained=False,
                                                                                start=2)],
            # what was committed is hidden, too
            [*SENT_AGAIN, delivered("1", 0), record("1", 0), record("1", 2), stop(4, 4)],
            # both are committed
            [*SENT_AGAIN[:1], told("committed", 1, 1), *SENT_AGAIN[2:], delivered("1", 0),
             *FIRST_HIDDEN, stop(4, 4)],
            # the first was sent in no transaction
            [sent_in(0, "1"), *SENT_AGAIN[2:], delivered("1", 0), *FIRST_HIDDEN, stop(4, 4)],
        ),
        "the same, and its topic may have lost the copy to compaction": (
            [*SENT_AGAIN, delivered("1", 0), *FIRST_HIDDEN, stop(4, 4)],
            [topic(None, 1, "compact"), *SENT_AGAIN, delivered("1", 0), *FIRST_HIDDEN, stop(4, 4)],
        ),
        "its commit failed, and nothing is open": (
            [sent_in(1, "1"), told("failed", 1, 1), delivered("1", 0), record("1", 0), stop(2, 2)],
            [sent_in(1, "1"), told("failed", 1, 1), delivered("1", 0), *both("1", 0), stop(2, 2)],
            [sent_in(1, "1"), told("failed", 1, 1), delivered("1", 0), record("1", 0), stop(0, 2)],
        ),
        "aborted, given, and deleted since": (
            [sent_in(1, "1"), acked("1", 0), delivered("1", 0), told("aborted", 1), TRIMMED_TO_2],
            # an equal order of an earlier run
            [sent_in(1, "1"), acked("1", 2), delivered("1", 0), told("aborted", 1), TRIMMED_TO_2],
        ),
        "aborted and sent again, and a consumer was given both": (
            [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), told("committed", 2),
             delivered("1", 0), delivered("1", 2)],
            # one of them twice
            [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), told("committed", 2),
             delivered("1", 2), delivered("1", 2)],
            # each was given one
            [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), told("committed", 2),
             delivered("1", 0), delivered("1", 2, "consumer-2")],
            # nobody was told what became of the first
            [sent_in(1, "1"), told("failed", 1), sent_in(2, "1"), told("committed", 2),
             delivered("1", 0), delivered("1", 2)],
            # and once in no transaction
            [sent_in(1, "1"), told("aborted", 1), sent_in(0, "1"), delivered("1", 0),
             delivered("1", 2)],
        ),
        "aborted twice and sent again, and both of two partitions are visible": (
            [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), told("aborted", 2),
             sent_in(3, "1"), told("committed", 3), *both("1", 0), *both("1", 2, 1)],
            [sent_in(1, "1"), told("aborted", 1), sent_in(2, "1"), told("committed", 2),
             sent_in(3, "1"), told("committed", 3), *both("1", 0), *both("1", 2, 1)],
        ),
        "aborted, and read_committed": (
            [sent_in(1, "1"), told("aborted", 1), *both("1", 0)],
            [sent_in(1, "1"), told("aborted", 1), record("1", 0)],
            # aborted and sent again
            [
                sent_in(1, "1"), told("aborted", 1), record("1", 0),
                sent_in(2, "1"), told("committed", 2), *both("1", 2),
            ],
            # an end that nobody was told
            [sent_in(1, "1"), *both("1", 0)],
        ),
    },
    "hanging-transaction": {
        "over to its coordinator, and no marker": (
            [written("batch", 0, 0), noted("Ongoing", 0), noted("CompleteCommit", 1), stop(0, 2)],
            [written("batch", 0, 0), noted("CompleteCommit", 0), noted("Ongoing", 1), stop(0, 2)],
            # its marker was on its way when the end was read
            [written("batch", 0, 0), noted("Ongoing", 0), stop(0, 2), noted("CompleteCommit", 1)],
        ),
        "the same, and its producer has started again": (
            [written("batch", 0, 0), noted("CompleteAbort", 0), noted("Empty", 1), stop(0, 2)],
            [written("batch", 0, 0), noted("Empty", 0), noted("Ongoing", 1), stop(0, 2)],
        ),
        "another transaction is over": (
            [written("batch", 1, 0), noted("CompleteAbort", 0), stop(1, 2)],
            [written("batch", 1, 0), noted("CompleteAbort", 0, producer_id=8), stop(1, 2)],
        ),
    },
    "stuck-lso": {
        "decided, and its markers are on their way": (
            [written("batch", 0, 0), noted("PrepareCommit", 0), stop(0, 1)],
            [written("batch", 0, 0), noted("CompleteCommit", 0), stop(0, 1)],
        ),
        "readers stop before the end": ([stop(0, 2)], [stop(2, 2)]),
        "each isolation level has a reader of its own": (
            [stop(0, 2, drained=False), end(offset=2)],
            [stop(2, 2, drained=False), end(offset=4)],
        ),
    },
}  # fmt: skip
