"""The observer: writes down what the controller decides and how far each replica's log reaches.

    metadata log ──▶ partition (leader, ISR, ELR, epochs) · fenced · unfenced
    segment files ──▶ log_end of each replica
    ListOffsets to the leader ──▶ watermark: up to where readers may read

It looks while a run is open, and writes what holds as it begins, and then what has changed. Events
are the event_log's.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from lab_utils.codec.list_offsets import Log, Offsets, OffsetsOfLeader
from lab_utils.codec.log_files import LogEnd
from lab_utils.codec.metadata_log import NO_LEADER, MetadataLog, Partition
from lab_utils.ledger.events import Event
from lab_utils.machine.broker import Broker
from lab_utils.stage.event_log import EventLog

LOOK_S: Final = 0.05


class Observer:
    """Follows the metadata of one cluster."""

    def __init__(self, metadata: Path, brokers: Mapping[int, Broker], event_log: EventLog) -> None:
        self._log = MetadataLog(metadata)
        self._brokers = brokers
        self._event_log = event_log
        self._logs: dict[tuple[int, str, int], LogEnd] = {}
        self._ends: dict[tuple[int, str, int], int] = {}
        self._marks: dict[Log, Offsets] = {}
        self._leaders = {number: OffsetsOfLeader() for number in brokers}
        self._closing, self._begun = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Look no more."""
        self._closing.set()
        self._begun.set()
        if self._task is not None:
            await self._task
        for leader in self._leaders.values():
            leader.close()

    def begin(self, run: str) -> None:
        """Write down what holds for a run's partitions as the run begins."""
        self._begun.set()
        for partition in self.partitions():
            if partition.topic.startswith(f"{run}-"):
                self._write(run, "controller", "partition", partition, detail=_as_text(partition))

    def forget(self, topic_names: dict[UUID, str]) -> None:
        """Let go of what was seen for runs that are over, and of the ids of deleted topics."""
        open_runs = self._prefixes()
        for seen in (self._logs, self._ends):
            for key in [key for key in seen if not key[1].startswith(open_runs)]:
                del seen[key]
        for log in [log for log in self._marks if not log[0].startswith(open_runs)]:
            del self._marks[log]
        self._news()
        for topic_id in topic_names.keys() - self._log.names.keys():
            del topic_names[topic_id]

    async def look(self) -> None:
        """Write down what has changed since the last look."""
        self._news()
        partitions = self._of_open_runs()
        for partition in partitions:
            self._see_ends(partition)
        offsets = await self.offsets(partitions)
        for partition in self._of_open_runs():  # one may have ended meanwhile
            self._see_watermark(partition, offsets.get((partition.topic, partition.partition)))

    def partitions(self, topic: str | None = None) -> list[Partition]:
        """What the controller has decided by now, for one topic or for all but Kafka's own."""
        self._news()
        return [
            partition
            for partition in self._log.partitions.values()
            if topic in (None, partition.topic) and not partition.topic.startswith("__")
        ]

    async def offsets(self, partitions: Iterable[Partition]) -> dict[Log, Offsets]:
        """Up to where partitions may be read, as their leaders answer; who does not is left out."""
        led = defaultdict(list)
        for each in partitions:
            broker = self._brokers.get(each.leader)
            if broker is not None and broker.state == "running":
                led[each.leader].append((each.topic, each.partition))
        ports = {number: broker.node.ports.direct for number, broker in self._brokers.items()}
        asked = (self._leaders[it].ask(ports[it], logs) for it, logs in led.items())
        answers = await asyncio.gather(*asked)
        return {log: offsets for answer in answers for log, offsets in answer.items()}

    @property
    def fenced(self) -> set[int]:
        """The brokers that the controller has fenced."""
        self._news()
        return set(self._log.fenced)

    async def _follow(self) -> None:
        while not self._closing.is_set():
            if not self._event_log.runs:
                self._begun.clear()
                await self._begun.wait()
                continue
            await self.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), LOOK_S)

    def _news(self) -> None:
        for decision in self._log.news():
            at_ns = _monotonic_ns(decision.timestamp_ms)
            if (found := decision.partition) is not None:
                detail = _as_text(found)
                self._all_runs("controller", "partition", found, at_ns=at_ns, detail=detail)
            else:
                kind = "fenced" if decision.is_fenced else "unfenced"
                self._event_log.record_for_all(kind, f"broker-{decision.broker}", at_ns=at_ns)

    def _of_open_runs(self) -> list[Partition]:
        runs = self._prefixes()
        return [each for each in self._log.partitions.values() if each.topic.startswith(runs)]

    def _prefixes(self) -> tuple[str, ...]:
        """What the topics of the open runs begin with."""
        return tuple(f"{run}-" for run in self._event_log.runs)

    def _see_ends(self, partition: Partition) -> None:
        name = f"{partition.topic}-{partition.partition}"
        for broker_id in partition.replicas:
            key = (broker_id, partition.topic, partition.partition)
            if key not in self._logs:
                self._logs[key] = LogEnd(self._brokers[broker_id].data_folder / name)
            end = self._logs[key].look()
            if end is not None and self._ends.get(key) != end:
                self._ends[key] = end
                self._all_runs(f"broker-{broker_id}", "log_end", partition, offset=end)

    def _see_watermark(self, partition: Partition, seen: Offsets | None) -> None:
        key = (partition.topic, partition.partition)
        if seen is not None and self._marks.get(key) != seen:
            self._marks[key] = seen
            self._all_runs(
                f"broker-{partition.leader}", "watermark", partition,
                offset=seen.high_watermark, detail={"lso": str(seen.last_stable)},
            )  # fmt: skip

    def _all_runs(self, actor: str, kind: str, partition: Partition, **columns: Any) -> None:
        for run in self._event_log.runs:
            if partition.topic.startswith(f"{run}-"):
                self._write(run, actor, kind, partition, **columns)

    def _write(self, run: str, actor: str, kind: str, partition: Partition, **columns: Any) -> None:
        self._event_log.record(
            Event(run=run, source="broker", actor=actor, kind=kind, topic=partition.topic,
                  partition=partition.partition, **columns)
        )  # fmt: skip


def _monotonic_ns(timestamp_ms: int) -> int:
    """A time of the wall clock as one of the ledger's clock."""
    return time.monotonic_ns() - (time.time_ns() - timestamp_ms * 1_000_000)


def _as_text(partition: Partition) -> dict[str, str]:
    """The decision as text: brokers separated by blanks, no leader as an empty text."""
    return {
        "leader": "" if partition.leader == NO_LEADER else str(partition.leader),
        "replicas": " ".join(map(str, partition.replicas)),
        "isr": " ".join(map(str, partition.isr)),
        "elr": " ".join(map(str, partition.elr)),
        "leader_epoch": str(partition.leader_epoch),
        "partition_epoch": str(partition.partition_epoch),
        "recovering": "true" if partition.is_recovering else "false",
    }
