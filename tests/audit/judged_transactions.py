"""Histories of transactions with their judgement: a marker that was lost, an end that is hidden."""

from __future__ import annotations

from dataclasses import replace

from tests.audit.judged_acts import Judged
from tests.histories import (
    acked,
    created,
    end,
    noted,
    power_cut,
    record,
    sent_in,
    stop,
    told,
    topic,
    visible,
    written,
)

STARTED = created("producer-1", role="producer", transactional__id="t")
EVERYTHING = created("reader", role="consumer", isolation__level="read_uncommitted")
ABORTED_1 = [sent_in(1, "1"), acked("1", 0), told("aborted", 1)]
COMMITTED_1 = [sent_in(1, "1"), told("committed", 1), record("1", 0), stop(2, 2)]
COMMITTED = created("reader", role="consumer")
UNCLEAN = topic(None, unclean__leader__election__enable="true")
NO_MARKER = [STARTED, written("batch", 0, 0), noted("CompleteCommit", 1), stop(0, 2)]
OF_TRANSACTIONS: Judged = {
    "the marker was lost by a leader that lagged": (
        [UNCLEAN, *NO_MARKER], "hanging-transaction", "allowed",
        "unclean.leader.election.enable=true",
    ),
    "the marker was lost, and no leader lagged": (
        [topic(2), *NO_MARKER], "hanging-transaction", "breach", None,
    ),
    "the marker was in the page caches": (
        [topic(2), power_cut(), power_cut(2), *NO_MARKER],
        "hanging-transaction", "allowed", "min.insync.replicas=2",
    ),
    "the marker of the next transaction ends two": (
        [UNCLEAN, STARTED, EVERYTHING, *COMMITTED_1],
        "torn-transaction", "allowed", "unclean.leader.election.enable=true",
    ),
    "the same, and commits what was aborted": (
        [UNCLEAN, STARTED, EVERYTHING, *ABORTED_1, visible("1", 0)],
        "aborted-read", "allowed", "unclean.leader.election.enable=true",
    ),
    "the same, and no leader lagged": (
        [topic(2), STARTED, EVERYTHING, *ABORTED_1, visible("1", 0)],
        "aborted-read", "breach", None,
    ),
    "aborted, and another topic's reader alone is given that": (
        [STARTED, EVERYTHING, replace(record("0", 0), topic="b"), *ABORTED_1, visible("2", 2),
         end()],
        "lost-write", "undecided", None,
    ),
    "aborted, and only a read_committed reader was there": (
        [STARTED, *ABORTED_1, visible("2", 2), end()], "lost-write", "undecided", None,
    ),
    "aborted, and the reader of the log was set to read_committed": (
        [STARTED, COMMITTED, *ABORTED_1, record("2", 2), end()], "lost-write", "undecided", None,
    ),
    "aborted, and gone from the log": (
        [STARTED, EVERYTHING, *ABORTED_1, record("2", 2), end()], "lost-write", "breach", None,
    ),
    "committed, and what the reader of the log was given is not told apart": (
        [STARTED, COMMITTED, *COMMITTED_1], "torn-transaction", "undecided", None,
    ),
    "committed, and no read_committed reader is given it": (
        [STARTED, EVERYTHING, *COMMITTED_1], "torn-transaction", "breach", None,
    ),
}  # fmt: skip
