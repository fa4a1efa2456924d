"""Reading a run's log back when its workload is over: what is there, and who may see it.

    topics ──▶ record, batch, marker, end          and, where transactions wrote, visible
    the coordinator's own log ──▶ transaction

A commit is answered before its markers are in the log, so the log is read when the coordinator
has finished what it began. A transaction that the program left open ends when its time is up:
`until_stable` waits for that, and says drained=false of a log that still waits then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from lab_utils.clients.reader import HonestReader, not_drained
from lab_utils.codec.transaction_log import TOPIC as COORDINATOR_TOPIC
from lab_utils.errors import WaitTimeout
from lab_utils.ledger.events import EXAMINED_BYTES, EXAMINED_PARTITIONS, EXAMINED_RECORDS, Event
from lab_utils.stage.client import Stage
from lab_utils.waiting import wait_until

DECIDED: Final = ("PrepareCommit", "PrepareAbort")  # and the markers are still to be written
MARKERS_TIMEOUT_S: Final = 20
STABLE_TIMEOUT_S: Final = 30
TAKEN_OVER: Final = b'"api":"InitProducerId"'
NAMES_A_GROUP: Final = b'"group_id":'
MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Readback:
    """How one run's log is read back: by whom, and how patiently.

    transactional_ids  the ids whose transactions belong to this run
    began_ms           when it began, in wall time: an earlier run may have had the same ids
    until_stable       wait for open transactions to end, at most STABLE_TIMEOUT_S
    is_bounded         leave a topic unread that has more than is looked at in an examination, or
                       something compressed, which may be a thousand times as large
    """

    stage: Stage
    reader: HonestReader
    run: str
    transactional_ids: frozenset[str] = frozenset()
    began_ms: int = 0
    until_stable: bool = False
    is_bounded: bool = False

    def events(self, topics: Sequence[str], partitions: int) -> Iterator[Event]:
        """Everything that the log says of these topics, and the coordinator of these ids."""
        stable = True
        if self.transactional_ids:
            self._wait_for_markers()
            stable = not self.until_stable or self._wait_until_stable(topics, partitions)
            yield from self._decisions()
        for topic in topics:
            yield from self._topic(topic, partitions, stable)

    def _topic(self, topic: str, partitions: int, stable: bool) -> Iterator[Event]:
        batches = self.stage.batches(topic)
        if self.is_bounded and (partitions > EXAMINED_PARTITIONS or _is_too_much(batches)):
            yield from (not_drained(self.run, topic, number) for number in range(partitions))
            return
        records = self.reader.read(self.run, topic, partitions)
        if self.transactional_ids:
            visible, last_stable = self.reader.read_committed(self.run, topic, partitions)
            records = [_with_last_stable(row, last_stable, stable) for row in records] + visible
        yield from records
        for batch in batches:
            yield batch_event(self.run, topic, batch)

    def _wait_for_markers(self) -> None:
        # A coordinator that hangs here is a finding: the log is read as it is.
        with suppress(WaitTimeout):
            wait_until(
                lambda: not any(entry["state"] in DECIDED for entry in self._last().values()),
                "the markers of every transaction that was decided",
                timeout_s=MARKERS_TIMEOUT_S,
            )

    def _wait_until_stable(self, topics: Sequence[str], partitions: int) -> bool:
        """Wait until no open transaction holds readers back; did it come to that?"""
        try:
            wait_until(
                lambda: all(self.reader.is_stable(topic, partitions) for topic in topics),
                "every open transaction to end",
                timeout_s=STABLE_TIMEOUT_S,
                every_s=0.05,
            )
        except WaitTimeout:
            return False
        return True

    def _entries(self) -> Iterable[tuple[int, dict[str, Any]]]:
        for batch in self.stage.batches(COORDINATOR_TOPIC):
            for entry in batch["entries"]:
                is_of_the_run = entry["updated_ms"] >= self.began_ms
                if is_of_the_run and entry["transactional_id"] in self.transactional_ids:
                    yield batch["partition"], entry

    def _last(self) -> dict[str, dict[str, Any]]:
        return {entry["transactional_id"]: entry for _, entry in self._entries()}

    def _decisions(self) -> Iterator[Event]:
        # The coordinator writes wall time in milliseconds; the ledger's clock is the monotonic.
        behind_ns = time.time_ns() - time.monotonic_ns()
        for partition, entry in self._entries():
            detail = {
                "transactional_id": entry["transactional_id"],
                "state": entry["state"],
                "partitions": orjson.dumps(entry["partitions"]).decode(),
                "timeout_ms": str(entry["timeout_ms"]),
                "timestamp_ms": str(entry["updated_ms"]),
            }
            yield Event(
                run=self.run,
                source="log",
                actor="coordinator",
                kind="transaction",
                at_ns=entry["updated_ms"] * MS - behind_ns,
                topic=COORDINATOR_TOPIC,
                partition=partition,
                offset=entry["offset"],
                producer_id=entry["producer_id"],
                producer_epoch=entry["producer_epoch"],
                detail=detail,
            )


def _is_too_much(batches: Sequence[dict[str, Any]]) -> bool:
    return (
        any(batch["compression"] for batch in batches)
        or sum(batch["records"] for batch in batches) > EXAMINED_RECORDS
        or sum(batch["bytes"] for batch in batches) > EXAMINED_BYTES
    )


def transactional_ids(folder: Path) -> frozenset[str]:
    """The ids that a run's clients have taken over, as the requests in its ledger name them."""
    return _named(folder, TAKEN_OVER, "transactional_id")


def group_ids(folder: Path) -> frozenset[str]:
    """The groups that a run's clients have asked for, whatever they are called."""
    return _named(folder, NAMES_A_GROUP, "group_id")


def _named(folder: Path, mark: bytes, name: str) -> frozenset[str]:
    files = (path.read_bytes() for path in folder.glob("*.jsonl"))
    lines = (line for content in files for line in content.splitlines(keepends=True))
    # Most lines of a long run are about orders: only these few are taken apart. The last one of a
    # witness that is at work may end anywhere, also behind the brace of its detail.
    asked = [orjson.loads(line) for line in lines if mark in line and line.endswith(b"}\n")]
    return frozenset(filter(None, (row["detail"].get(name) for row in asked)))


def batch_event(run: str, topic: str, batch: dict[str, Any]) -> Event:
    """A record batch of the log as an event: a marker if it is a control batch."""
    is_marker = bool(batch["is_control"])
    detail = {"timestamp_ms": str(batch["timestamp_ms"])}
    if is_marker:
        detail["type"] = str(batch.get("marker"))
    elif batch.get("is_transactional"):
        detail["transactional"] = "true"
    return Event(
        run=run,
        source="log",
        actor=f"broker-{batch.get('broker', 1)}",
        kind="marker" if is_marker else "batch",
        topic=topic,
        partition=batch["partition"],
        offset=batch["base_offset"],
        producer_id=batch["producer_id"],
        producer_epoch=batch["producer_epoch"],
        sequence=batch["sequence"],
        records=batch["records"],
        detail=detail,
    )


def _with_last_stable(row: Event, last_stable: dict[int, int], stable: bool) -> Event:
    """An `end` also says where a read_committed reader stops, and whether it got there at all.

    Other rows are left alone.
    """
    if row.kind != "end":
        return row
    if row.partition not in last_stable:
        return replace(row, detail=row.detail | {"committed_drained": "false"})
    drained = row.detail["drained"] if stable else "false"
    detail = {
        "drained": drained,
        "committed_drained": "true",
        "last_stable": str(last_stable[row.partition]),
    }
    return replace(row, detail=row.detail | detail)
