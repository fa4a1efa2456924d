"""The rules of the findings about replicas a second time, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from lab_utils.ledger.events import Event
from tests.oracle import Found, in_log, said


def oracle_of_replication(events: Iterable[Event]) -> Counter[Found]:
    """Everything that is to be found about replicas in the events of one run."""
    rows = sorted(events, key=lambda row: row.at_ns)
    return Counter(found for rule in (_inconsistent, _invisible) for found in rule(rows))


def _reports(rows: list[Event]) -> dict[tuple[str | None, int | None, str | None, int], set[str]]:
    """Who was told that an order is at an offset."""
    told: dict[tuple[str | None, int | None, str | None, int], set[str]] = {}
    for row in said(rows, "acked"):
        if row.offset is not None:
            told.setdefault((row.topic, row.partition, row.value, row.offset), set()).add(row.actor)
    return told


def _inconsistent(rows: list[Event]) -> Iterator[Found]:
    now: dict[tuple[str | None, int | None, int | None], str] = {}
    for row in in_log(rows):
        place = (row.topic, row.partition, row.offset)
        now[place] = min(now.get(place, row.value or ""), row.value or "")
    for (topic, partition, value, offset), actors in _reports(rows).items():
        there = now.get((topic, partition, offset))
        if there is not None and there != value:
            who = ", ".join(sorted(actors))
            yield "inconsistent-offsets", topic, partition, value, (offset,), who


def _invisible(rows: list[Event]) -> Iterator[Found]:
    ends = [row.at_ns for row in rows if row.kind in ("finished", "raised")]
    if not ends:
        return
    for (topic, partition, value, offset), actors in _reports(rows).items():
        before = [
            row for row in rows
            if row.source == "broker" and row.at_ns <= max(ends)
            and (row.topic, row.partition) == (topic, partition)
        ]  # fmt: skip
        decisions = [row for row in before if row.kind == "partition"]
        marks = [row for row in before if row.kind == "watermark"]
        floors = [_floor(row) for row in rows if row.kind == "topic" and row.topic == topic]
        if not (decisions and marks and floors):
            continue
        in_sync = len(decisions[-1].detail["isr"].split(" "))
        if in_sync < max(floors) and offset >= (marks[-1].offset or 0):
            yield "invisible-ack", topic, partition, value, (offset,), ", ".join(sorted(actors))


def _floor(row: Event) -> int:
    return min(int(row.detail.get("min.insync.replicas", 1)), int(row.detail["replicas"]))
