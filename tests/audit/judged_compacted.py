"""Histories with their judgement: what compaction takes away, and in which sequence."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from tests.histories import acked, created, end, record, sent, sent_in, told, topic

COMPACT = topic(None, 1, "compact")
PRODUCER = created("producer-1", role="producer", acks="all", enable__idempotence="true")
IN_TRANSACTIONS = created("producer-1", role="producer", transactional__id="t")
UNCLEAN = topic(1, 1, "compact", unclean__leader__election__enable="true")
FIRST = [sent("1", key="k"), acked("1", 0, key="k")]
TOMBSTONE = [*FIRST, sent(None, key="k"), acked(None, 1, key="k")]
OLDER, END = record("1", 0, key="k"), end(offset=2)
OTHER = record("1", 0, key="j")
LATER = [sent("2", key="k"), acked("2", 2, key="k"), record("2", 2, key="k"), end(offset=3)]
OUTLIVED: dict[str, tuple[list[Event], str, str, str | None]] = {
    "a tombstone is gone, and what it was to take away is there": (
        [PRODUCER, COMPACT, *TOMBSTONE, OLDER, END], "lost-write", "undecided", None,
    ),
    "the same, at its offset": (
        [PRODUCER, COMPACT, *TOMBSTONE, OLDER, END], "inconsistent-offsets", "undecided", None,
    ),
    "the same, and a later record of its key is there": (
        [PRODUCER, COMPACT, *TOMBSTONE, OLDER, *LATER], "lost-write", "undecided", None,
    ),
    "the same, and a replica that was not in sync led": (
        [PRODUCER, UNCLEAN, *TOMBSTONE, OLDER, END],
        "lost-write", "allowed", "unclean.leader.election.enable=true",
    ),
    "the same, and what is older is of another key": (
        [PRODUCER, COMPACT, *TOMBSTONE[2:], OTHER, END],
        "inconsistent-offsets", "allowed", "cleanup.policy=compact",
    ),
    "the same, and the older one is gone, too": (
        [PRODUCER, COMPACT, *TOMBSTONE, END], "lost-write", "allowed", "cleanup.policy=compact",
    ),
    "the same, and it was in another partition": (
        [PRODUCER, COMPACT, *TOMBSTONE[2:], record("1", 0, 1, key="k"), END, end(partition=1)],
        "lost-write", "allowed", "cleanup.policy=compact",
    ),
    "the same, and the log begins after the older one": (
        [PRODUCER, COMPACT, *TOMBSTONE[2:], OLDER, end(offset=2, start=1)],
        "lost-write", "allowed", "cleanup.policy=compact",
    ),
    "the same, and the tombstone was aborted": (
        [IN_TRANSACTIONS, COMPACT, *FIRST, sent_in(1, None, key="k"), acked(None, 1, key="k"),
         told("aborted", 1), OLDER, END],
        "lost-write", "allowed", "cleanup.policy=compact",
    ),
    "the same, and it was no tombstone": (
        [PRODUCER, COMPACT, *FIRST, sent("0", key="k"), acked("0", 1, key="k"), OLDER, *LATER],
        "lost-write", "allowed", "cleanup.policy=compact",
    ),
}  # fmt: skip
