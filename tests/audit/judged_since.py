"""Histories with their judgement: what was sent, or began, when all that takes a log away was over.

Order 0 is sent before that, so that the topic has what a power cut may take.
"""

from __future__ import annotations

from tests.audit.judged_acts import GONE, MADE, PRODUCER, STARTED, Judged
from tests.histories import (
    acked,
    created,
    delivered,
    end,
    log,
    power_cut,
    record,
    sent,
    sent_in,
    stop,
    told,
    topic,
    visible,
)

ON_ONE = [PRODUCER, topic(1, replicas=1), sent("0"), acked("0", 0)]
OVER = [power_cut(), STARTED]
# Order 1 is acked at a place where the log holds order 2.
OTHER_THERE = [acked("1", 1), record("0", 0), record("2", 1), end()]
PLACES: Judged = {
    "sent when its broker was back from a power cut, and another is at its offset": (
        [*ON_ONE, *OVER, sent("1"), *OTHER_THERE], "inconsistent-offsets", "breach", None,
    ),
    "the same, and it lost its power once more": (
        [*ON_ONE, *OVER, sent("1"), power_cut(), *OTHER_THERE],
        "inconsistent-offsets", "allowed", "replicas=1",
    ),
    "the same, and it had been sent before, too": (
        [*ON_ONE, sent("1"), *OVER, sent("1"), *OTHER_THERE],
        "inconsistent-offsets", "allowed", "replicas=1",
    ),
    "the same, and nobody says that its broker was back": (
        [*ON_ONE, OVER[0], sent("1"), *OTHER_THERE],
        "inconsistent-offsets", "allowed", "replicas=1",
    ),
    "the same, and another producer was acked, who does not say what it sent": (
        [*ON_ONE, *OVER, sent("1"), acked("1", 1, actor="producer-2"), *OTHER_THERE],
        "inconsistent-offsets", "allowed", "replicas=1",
    ),
    "the same as the first, and it was given to a consumer": (
        [*ON_ONE, *OVER, sent("1"), delivered("1", 1), *OTHER_THERE],
        "inconsistent-offsets", "breach", None,
    ),
    "the same, and it was given before that, as an equal one must have been": (
        [*ON_ONE, delivered("1", 1), *OVER, sent("1"), *OTHER_THERE],
        "inconsistent-offsets", "allowed", "replicas=1",
    ),
    "the same as the first, and a reader had found it there": (
        [*ON_ONE, *OVER, sent("1"), *log("0", "1"), *OTHER_THERE],
        "inconsistent-offsets", "breach", None,
    ),
    "sent when its topic was there again, and another is at its offset": (
        [PRODUCER, sent("0"), GONE, MADE, sent("1"), *OTHER_THERE],
        "inconsistent-offsets", "breach", None,
    ),
    "the same, and nobody created the topic again": (
        [PRODUCER, sent("0"), GONE, sent("1"), *OTHER_THERE],
        "inconsistent-offsets", "allowed", None,
    ),
    "the same as the first, and a replica that was not in sync led": (
        [*ON_ONE, topic(1, replicas=1, unclean__leader__election__enable="true"), *OVER, sent("1"),
         *OTHER_THERE],
        "inconsistent-offsets", "allowed", "unclean.leader.election.enable=true",
    ),
}  # fmt: skip
STARTED_1 = created("producer-1", role="producer", transactional__id="t")
READER = created("reader", role="consumer", isolation__level="read_uncommitted")
IN_ONE = [topic(1, replicas=1), STARTED_1, READER, sent("0"), acked("0", 3)]
BEGAN = told("began", 1)
# It was aborted, and committed, and a read_committed reader is given it, and is not.
SHOWN = [sent_in(1, "1"), told("aborted", 1), record("1", 0), visible("1", 0)]
HIDDEN = [sent_in(1, "1"), told("committed", 1), record("1", 0), stop(2, 2)]
MARKERS: Judged = {
    "aborted, and begun when its broker was back from a power cut": (
        [*IN_ONE, *OVER, BEGAN, *SHOWN], "aborted-read", "breach", None,
    ),
    "the same, and it lost its power once more": (
        [*IN_ONE, *OVER, BEGAN, power_cut(), *SHOWN], "aborted-read", "allowed", "replicas=1",
    ),
    "the same, and it had begun before": (
        [*IN_ONE, BEGAN, *OVER, *SHOWN], "aborted-read", "allowed", "replicas=1",
    ),
    "the same, and nobody says when it began": (
        [*IN_ONE, *OVER, *SHOWN], "aborted-read", "allowed", "replicas=1",
    ),
    "the same, and it was aborted before that, too": (
        [*IN_ONE, told("began", 2), *OVER, sent_in(2, "1"), told("aborted", 2), BEGAN, *SHOWN],
        "aborted-read", "allowed", "replicas=1",
    ),
    "committed, and begun when its broker was back from a power cut": (
        [*IN_ONE, *OVER, BEGAN, *HIDDEN], "torn-transaction", "breach", None,
    ),
    "the same, and it lost its power again": (
        [*IN_ONE, *OVER, BEGAN, HIDDEN[0], power_cut(), *HIDDEN[1:]],
        "torn-transaction", "allowed", "replicas=1",
    ),
    "the same, and it had begun before that": (
        [*IN_ONE, BEGAN, *OVER, *HIDDEN], "torn-transaction", "allowed", "replicas=1",
    ),
    "the same, and nobody recorded when it began": (
        [*IN_ONE, *OVER, *HIDDEN], "torn-transaction", "allowed", "replicas=1",
    ),
}  # fmt: skip
SINCE: Judged = {**PLACES, **MARKERS}
