"""What one stage server owns: brokers, their proxies, the fault board, and the runs that are open.

It lives in the server's asyncio loop. What a broker does takes time and happens in a thread, one
broker verb at a time. Each event goes to the run it belongs to; a broker's events go to every run
that is open. The latest are kept for who watches.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from lab_utils.errors import BadArgument, StageError, one_of
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import Witness
from lab_utils.stage.batches import DamagedBatch, read_segment
from lab_utils.stage.board import FaultBoard
from lab_utils.stage.broker import Broker, new_ports, with_new_ports
from lab_utils.stage.diary import entries
from lab_utils.stage.faults import Fault, to_json
from lab_utils.stage.guardian import Guardian
from lab_utils.stage.proxy import Proxy
from lab_utils.stage.quick_start import Kafka
from lab_utils.stage.settings import Node

VERBS: Final = {
    "start": "started",
    "stop": "stopped",
    "kill": "killed",
    "pause": "paused",
    "resume": "resumed",
}
KEPT_EVENTS: Final = 500
PORT_COLLISIONS: Final = 3


class Cluster:
    """The brokers of one stage and everything around them."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._guardian = Guardian()
        self._runs: dict[str, Witness] = {}
        self._verb = asyncio.Lock()
        self._watchers: set[Callable[[], object]] = set()
        self._topic_names: dict[UUID, str] = {}
        self._died: set[int] = set()
        self.events: deque[tuple[int, Event]] = deque(maxlen=KEPT_EVENTS)
        self.seen = 0
        self.board = FaultBoard(self.record)
        self.brokers: dict[int, Broker] = {}
        self.proxies: dict[int, Proxy] = {}

    async def open(self) -> None:
        """Start the one broker and its proxy."""
        await self._add(1)

    async def close(self) -> None:
        """End everything, whatever state it is in; remove the data."""
        async with self._verb:
            for proxy in self.proxies.values():
                await proxy.stop()
            for broker in self.brokers.values():
                # Nobody reads this data again: there is no reason to ask politely.
                await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(self._guardian.close)
            for run in list(self._runs):
                self._runs.pop(run).close()
            for broker in self.brokers.values():
                shutil.rmtree(broker.data_folder, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        """What learners' clients connect to: the proxies."""
        return ",".join(f"127.0.0.1:{broker.node.ports.proxy}" for broker in self._sorted())

    @property
    def direct(self) -> str:
        """What the lab's own readers connect to."""
        return ",".join(broker.direct_address for broker in self._sorted())

    def state(self) -> dict[str, Any]:
        """What a status card and a panel show."""
        for broker in self.brokers.values():
            self._notice_death(broker)
        return {
            "bootstrap": self.bootstrap,
            "direct": self.direct,
            "brokers": [
                {
                    "id": broker.broker_id,
                    "state": broker.state,
                    "connections": self.proxies[broker.broker_id].connections,
                }
                for broker in self._sorted()
            ],
            "faults": self.armed(),
            "runs": sorted(self._runs),
            "seen": self.seen,
        }

    def armed(self) -> list[dict[str, Any]]:
        """The faults that are armed: id, run, fault, matched, fired."""
        return [
            {
                "id": armed.id,
                "run": armed.run,
                "fault": to_json(armed.fault),
                "matched": armed.matched,
                "fired": armed.fired,
            }
            for armed in self.board.armed()
        ]

    def arm(self, run: str, fault: Fault) -> str:
        """Arm a fault for a run that is open, or for every client if `run` is empty."""
        if run and run not in self._runs:
            raise BadArgument(
                f"no run {run!r} is open on this stage; open are: {sorted(self._runs) or 'none'}."
            )
        return self.board.arm(run, fault)

    def clear(self, fault_id: str | None = None) -> list[str]:
        """Disarm one fault, or all; return their ids."""
        ids = [armed.id for armed in self.board.armed()]
        if fault_id is not None:
            ids = [one_of("fault", fault_id, ids)] if ids else []
        for armed in ids:
            self.board.clear(armed)
        return ids

    async def reset(self) -> None:
        """Heal everything: no fault is armed, every broker runs."""
        self.clear()
        for broker in self._sorted():
            if broker.state == "paused":
                await self.do(broker.broker_id, "resume")
            elif broker.state in ("stopped", "died"):
                await self.do(broker.broker_id, "start")

    def open_run(self, run: str, folder: Path) -> None:
        """Keep this run's events in a ledger in this folder."""
        if run in self._runs:
            raise BadArgument(f"run {run!r} is open already. Close it, or choose another name.")
        self._runs[run] = Witness(folder, "wire")

    def close_run(self, run: str) -> dict[str, Any]:
        """End a run: disarm its faults, close its ledger; say what fired and what went wrong."""
        if run not in self._runs:
            raise BadArgument(f"no run {run!r} is open; open are: {sorted(self._runs) or 'none'}.")
        faults = [
            {"id": fault_id, "fault": to_json(fault), "fired": fired}
            for fault_id, fault, fired in self.board.disarm(run)
        ]
        witness = self._runs.pop(run)
        witness.close()
        return {"faults": faults, "trouble": witness.trouble}

    async def do(self, broker_id: int, verb: str) -> None:
        """Start, stop, kill, pause or resume a broker; returns when it is so."""
        one_of("verb", verb, VERBS)
        broker = self._broker(broker_id)
        async with self._verb:
            proxy = self.proxies[broker_id]
            if verb == "start":
                await self._start(broker, proxy)
            else:
                await asyncio.to_thread(getattr(broker, verb))
            if verb in ("stop", "kill"):
                proxy.upstream = None
            self._broker_event(broker_id, VERBS[verb])

    def record(self, event: Event) -> None:
        """Give an event to its run, and to who watches."""
        witness = self._runs.get(event.run)
        if witness is not None:
            witness.record(event)
        self.seen += 1
        self.events.append((self.seen, event))
        for notify in self._watchers:
            notify()

    def watch(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call `notify` at each event from now on; return what ends it."""
        self._watchers.add(notify)
        return lambda: self._watchers.discard(notify)

    def batches(self, topic: str) -> list[dict[str, Any]]:
        """The record batches of a topic, from the segment files of the first broker that has it."""
        for broker in self._sorted():
            folders = sorted(broker.data_folder.glob(f"{_literal(topic)}-*"))
            found = [
                row
                for folder in folders
                if _is_partition_of(folder.name, topic)
                for row in _rows(folder, broker.broker_id)
            ]
            if found:
                return found
        return []

    async def _add(self, broker_id: int) -> None:
        proxy = Proxy(self.board, self.record, broker_id, topic_names=self._topic_names)
        port = await proxy.start()
        broker = Broker(
            self._kafka,
            self._folder / f"broker-{broker_id}",
            Node(broker_id, new_ports(port)),
            watch=self._guardian.watch,
            forget=self._guardian.forget,
        )
        self.brokers[broker_id], self.proxies[broker_id] = broker, proxy
        await self._start(broker, proxy)
        self._broker_event(broker_id, "started")

    async def _start(self, broker: Broker, proxy: Proxy) -> None:
        """Start a broker; if somebody took one of its ports meanwhile, on other ones."""
        for chance in range(PORT_COLLISIONS):
            try:
                await asyncio.to_thread(broker.start)
            except StageError as error:
                if "Address already in use" not in str(error) or chance == PORT_COLLISIONS - 1:
                    raise
                broker.node = with_new_ports(broker.node)
            else:
                break
        self._died.discard(broker.broker_id)
        proxy.upstream = ("127.0.0.1", broker.node.ports.lab)

    def _broker(self, broker_id: int) -> Broker:
        if broker_id not in self.brokers:
            raise BadArgument(f"this stage has the brokers {sorted(self.brokers)}; got {broker_id}")
        return self.brokers[broker_id]

    def _sorted(self) -> list[Broker]:
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers)]

    def _notice_death(self, broker: Broker) -> None:
        if broker.state == "died" and broker.broker_id not in self._died:
            self._died.add(broker.broker_id)
            self.proxies[broker.broker_id].upstream = None
            self._broker_event(broker.broker_id, "died")

    def _broker_event(self, broker_id: int, kind: str) -> None:
        for run in [*self._runs, ""]:
            self.record(Event(run=run, source="broker", actor=f"broker-{broker_id}", kind=kind))


def _literal(topic: str) -> str:
    """A topic's name for glob: dots and dashes are plain there, brackets cannot be in it."""
    if not topic or any(character in topic for character in "/\\*?["):
        raise BadArgument(f"a topic's name has letters, digits, '.', '_' and '-'; got {topic!r}.")
    return topic


def _is_partition_of(folder: str, topic: str) -> bool:
    name, _, partition = folder.rpartition("-")
    return name == topic and partition.isdigit()


def _rows(folder: Path, broker_id: int) -> list[dict[str, Any]]:
    partition = int(folder.name.rpartition("-")[2])
    try:
        batches = [batch for path in sorted(folder.glob("*.log")) for batch in read_segment(path)]
    except DamagedBatch as error:
        raise StageError(
            f"{folder.name}: {error}. The log of broker {broker_id} is damaged."
        ) from (error)
    return [
        {
            "broker": broker_id,
            "partition": partition,
            "base_offset": batch.base_offset,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "sequence": batch.sequence,
            "records": batch.count,
            "is_control": batch.is_control,
            "is_transactional": batch.is_transactional,
            "entries": entries(folder.name.rpartition("-")[0], batch),
            "marker": batch.marker,
            "timestamp_ms": batch.timestamp_ms,
        }
        for batch in batches
    ]


def as_columns(event: Event) -> Mapping[str, Any]:
    """An event as the columns that are set."""
    columns = {name: getattr(event, name) for name in event.__dataclass_fields__}
    return {name: value for name, value in columns.items() if value not in (None, {}, "")}
