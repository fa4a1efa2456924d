"""Each finding about consuming: its smallest history, and the smallest that must not be flagged."""

from __future__ import annotations

from typing import Any

from lab_utils.ledger.events import Event
from tests.histories import TOPIC, client, delivered, log, record


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


def visible(value: str, offset: int) -> Event:
    return Event(
        run="", source="log", actor="reader", kind="visible",
        topic=TOPIC, partition=0, offset=offset, value=value,
    )  # fmt: skip


MARKER = Event(run="", source="log", actor="broker-1", kind="marker", topic=TOPIC, partition=0)

# name: (finding, its smallest history, its near miss)
CASES: dict[str, tuple[str, list[Event], list[Event]]] = {
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
