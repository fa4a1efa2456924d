"""Each finding's smallest history, and its near miss: the smallest that must not be flagged."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from tests.histories import (
    acked,
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
)

# name: (finding, its smallest history, its near miss)
CASES: dict[str, tuple[str, list[Event], list[Event]]] = {
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
