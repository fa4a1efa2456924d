"""The brokers of one stage, each with its proxies: what can be done to them, and what is armed.

    one broker                  one process, broker and controller
    several                     a process each, and a controller of its own, so that any may die

It lives in the server's asyncio loop. What a broker does takes time and happens in a thread, one
verb at a time. A fault that is tied to a moment on the wire acts before anything else passes.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from lab_utils.codec import log_files
from lab_utils.codec.metadata_log import Partition
from lab_utils.errors import BadArgument, LabError, StageError, one_of
from lab_utils.ledger.events import Event
from lab_utils.machine.broker import Broker, new_ports, with_new_ports
from lab_utils.machine.guardian import Guardian
from lab_utils.machine.quick_start import Kafka
from lab_utils.machine.settings import Node
from lab_utils.proxy.armed import FaultBoard
from lab_utils.proxy.faults import BrokerFault, Fault, LinkFault, StageFault
from lab_utils.proxy.faults.broker_fault import REFUSED, verbs
from lab_utils.proxy.links import LinkProxy
from lab_utils.proxy.proxy import Proxy
from lab_utils.stage.coordinators import Coordinators
from lab_utils.stage.event_log import EventLog
from lab_utils.stage.observer import Observer
from lab_utils.stage.settling import SETTLE_S, UNSETTLED, WHOLE, Settling, until

log = logging.getLogger(__name__)

# The verb that makes a broker in such a state run again.
REPAIRS: Final = {"paused": "resume", "stopped": "start", "killed": "start", "died": "start"}
# A process can neither refuse nor delay these: the event was when send_signal returned.
UNREFUSABLE: Final = (signal.SIGKILL, signal.SIGSTOP)
PORT_COLLISIONS: Final = 3
CONTROLLER_ID: Final = 100
CONTROLLER_HEAP_MB: Final = 128
# How long a run waits for its own clients to go; one that the program keeps stays connected.
CLIENTS_S: Final = 2
# The system may need so long to take back the memory of a process that was killed.
ENDING_S: Final = 10


@dataclass(frozen=True, slots=True)
class Member:
    """One broker and what stands in front of it."""

    broker: Broker
    proxy: Proxy
    link: LinkProxy


class Cluster:
    """The brokers of one stage and everything around them."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._guardian = Guardian(folder)
        self.turn = asyncio.Lock()
        self._acting: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._topic_names: dict[UUID, str] = {}
        self._died: set[int] = set()
        self._members: dict[int, Member] = {}
        self._controller: Broker | None = None
        self._observer: Observer | None = None
        self._coordinators = Coordinators()
        self._waking: asyncio.Task[bool] | None = None
        self.event_log = EventLog()
        self.board = FaultBoard(self.event_log.record, self._act)

    async def open(self, brokers: int = 1) -> None:
        """Start so many brokers, and a controller of their own if they are several."""
        voters = None
        if brokers > 1:
            node = Node(CONTROLLER_ID, new_ports(proxy=0), roles="controller")
            self._controller = self._process("controller", node)
            voters = f"{CONTROLLER_ID}@127.0.0.1:{self._controller.node.ports.controller}"
        for broker_id in range(1, brokers + 1):
            await self._add(broker_id, brokers, voters)
        starts = [self._start(member) for member in self._members.values()]
        if self._controller is not None:
            starts.append(asyncio.to_thread(self._controller.start))
        await asyncio.gather(*starts)
        for broker_id in self._members:
            self.event_log.record_for_all("started", f"broker-{broker_id}")
        owner = self._controller or self._members[1].broker
        metadata = owner.data_folder / "__cluster_metadata-0"
        self._observer = Observer(metadata, self._brokers, self.event_log)
        self._observer.open()
        if brokers == 1:  # of several it is first decided where the coordinators are to be
            # They come while the kernel loads what it needs; a run waits for them.
            coming = until(lambda: self._coordinators.answer(self._brokers), SETTLE_S)
            self._waking = asyncio.get_running_loop().create_task(coming)

    async def close(self) -> None:
        """End everything, whatever state it is in; remove the data."""
        if self._waking is not None:
            self._waking.cancel()
        if self._observer is not None:
            await self._observer.close()
        await self.acted()
        async with self.turn:
            for member in self._members.values():
                await member.proxy.stop()
                await member.link.stop()
            processes = [*self._brokers.values()]
            processes += [self._controller] if self._controller else []
            # Nobody reads this data again: there is no reason to ask politely.
            await asyncio.gather(*(asyncio.to_thread(each.kill) for each in processes))
            await asyncio.to_thread(self._guardian.close)
            for run in self.event_log.runs:
                self.event_log.close(run)
            for process in processes:
                shutil.rmtree(process.data_folder, ignore_errors=True)

    def keep(self) -> None:
        """See that the brokers would end if this process was killed; close the runs of the dead."""
        self._guardian.keep()
        if self._closing is None or self._closing.done():
            self._closing = asyncio.get_running_loop().create_task(self._close_forsaken())

    async def _close_forsaken(self) -> None:
        for run in self.event_log.forsaken():
            await self.close_run(run)

    @property
    def bootstrap(self) -> str:
        """What learners' clients connect to: the proxies."""
        return ",".join(f"127.0.0.1:{broker.node.ports.proxy}" for broker in self._brokers.values())

    @property
    def direct(self) -> str:
        """What the lab's own readers connect to."""
        return ",".join(broker.direct_address for broker in self._brokers.values())

    def state(self) -> dict[str, Any]:
        """What a status card and a panel show."""
        for member in self._members.values():
            self._notice_death(member)
        # Of the latest run: earlier ones leave their topics behind.
        prefix = f"{self.event_log.latest}-"
        partitions = [it for it in self.partitions() if it.topic.startswith(prefix)]
        return {
            "bootstrap": self.bootstrap,
            "direct": self.direct,
            "brokers": [_broker_state(broker, partitions) for broker in self._brokers.values()],
            "controller": self._controller.state if self._controller else None,
            "links": self._stopped_links(),
            "faults": [armed.to_json() for armed in self.board.armed()],
            "runs": self.event_log.runs,
            "seen": self.event_log.seen,
        }

    def partitions(self, topic: str | None = None) -> list[Partition]:
        """What the controller has decided for a topic, or for all but Kafka's own."""
        return self._observer.partitions(topic) if self._observer else []

    # Faults.

    async def arm(self, run: str, fault: Fault) -> str:
        """Arm a fault for a run that is open, or for every client if `run` is empty.

        A fault of a broker or a link that waits for no moment has been acted on when this returns.
        """
        if run:
            self.event_log.require(run)
        if isinstance(fault, StageFault):
            for broker_id in fault.targets():
                self._member(broker_id)
        armed = self.board.arm(run, fault)
        if isinstance(fault, StageFault) and fault.api is None:
            try:
                await fault.carry_out(self)
            except LabError:
                self.board.clear(armed.id)
                raise
            self.board.fired(armed)
        return armed.id

    def clear(self, fault_id: str | None = None) -> None:
        """Disarm one fault, or all."""
        ids = [armed.id for armed in self.board.armed()]
        if fault_id is not None:
            ids = [one_of("fault", fault_id, ids)] if ids else []
        for armed in ids:
            self.board.clear(armed)

    async def acted(self) -> None:
        """Return when everything that a fault has set off has been done."""
        while self._acting:
            await asyncio.gather(*self._acting, return_exceptions=True)

    def send_signal(self, broker: int, how: signal.Signals) -> None:
        """Send a signal to a broker; it is not waited for, other than a pause."""
        self._member(broker).broker.send(how)

    def turn_away(self, broker: int) -> None:
        """Cut the connections of a broker's clients, and let no new one through."""
        proxy = self._member(broker).proxy
        proxy.upstream = None
        proxy.cut_all()

    def _act(self, run: str, fault: StageFault) -> None:
        """A fault's moment has come: stop what must stop now, and do the rest in a task."""
        fault.strike(self)
        acting = self._carry_out(run, fault, time.monotonic_ns())
        self._acting.add(task := asyncio.get_running_loop().create_task(acting))
        task.add_done_callback(self._acting.discard)

    async def _carry_out(self, run: str, fault: StageFault, at_ns: int) -> None:
        """Do it; what could not be done is told when the run is closed, for it has fired."""
        try:
            await fault.carry_out(self, at_ns)
        except Exception as error:
            log.exception("%r was not carried out", fault)
            self.event_log.add_trouble(run, _not_done(fault, error))

    # Runs.

    def open_run(self, run: str, folder: Path, owner: str = "") -> None:
        """Keep this run's events in a ledger in this folder, from what holds now on."""
        self.event_log.open(run, folder, owner)
        if self._observer is not None:
            self._observer.begin(run)

    async def close_run(self, run: str, topics: Iterable[str] = ()) -> str | None:
        """End a run: disarm its faults, repair what is broken; return what makes it inconclusive.

        The repair is in the ledger, after an event that says where it begins. Without topics to
        wait for, nothing is repaired.
        """
        self.event_log.require(run)
        await self.acted()
        proxies = [member.proxy for member in self._members.values()]
        await until(lambda: not any(proxy.serves(run) for proxy in proxies), CLIENTS_S)
        await self._look()
        self.board.disarm(run)
        if not await self._repair(run, list(topics)):
            self.event_log.add_trouble(run, UNSETTLED.format(WHOLE))
        await self._look()
        trouble = self.event_log.close(run)
        if self._observer is not None:
            self._observer.forget(self._topic_names)
        return trouble

    async def _repair(self, run: str, topics: list[str]) -> bool:
        """Heal what is broken and wait until these topics are whole; are they?"""
        if not topics:
            return True
        if self._stopped_links() or await self._broken():
            self.event_log.record(Event(run=run, source="broker", actor="lab", kind="healing"))
        await self.heal()
        return await self.settle(topics, whole=True)

    async def _look(self) -> None:
        if self._observer is not None:
            await self._observer.look()

    def batches(self, topic: str) -> Iterator[dict[str, Any]]:
        """The record batches of a topic: of each partition those on its leader, if it has one."""
        leaders = {each.partition: each.leader for each in self.partitions(topic)}
        folders = {broker_id: broker.data_folder for broker_id, broker in self._brokers.items()}
        return log_files.rows_of_leaders(folders, topic, leaders)

    # Verbs.

    async def do(self, broker_id: int, verb: str, at_ns: int | None = None) -> None:
        """Start, stop, kill, pause or resume a broker, or cut its power; returns when it is so.

        `at_ns` is when it was told so already, by a signal.
        """
        kinds = verbs(BrokerFault)
        kind = kinds[one_of("verb", verb, kinds)]
        member = self._member(broker_id)
        async with self.turn:
            await self._done(member, kind, at_ns)

    async def _done(
        self, member: Member, kind: type[BrokerFault], at_ns: int | None = None
    ) -> None:
        actor = f"broker-{member.broker.broker_id}"
        if kind.verb == "start":
            self.event_log.record_for_all("starting", actor)
            await self._start(member)
        else:
            await asyncio.to_thread(kind.perform, member.broker)
        if member.broker.pid is None:
            member.proxy.upstream = member.link.upstream = None
        # On a busy machine the end of a process is seen seconds after its signal.
        happened_ns = at_ns if kind.signal in UNREFUSABLE else None
        self.event_log.record_for_all(kind.event, actor, at_ns=happened_ns or time.monotonic_ns())

    def link(self, a: int, b: int, verb: str, *, by_ms: int = 0) -> None:
        """Cut, hold, slow or heal the link between two brokers, in both directions."""
        kinds = verbs(LinkFault)
        state = kinds[one_of("verb", verb, kinds)].state
        self._member(a).link.set(b, state, by_ms)
        self._member(b).link.set(a, state, by_ms)
        brokers = {"brokers": f"{min(a, b)} {max(a, b)}"}
        self.event_log.record_for_all(f"link_{state}", f"broker-{a}", detail=brokers)

    async def heal(self) -> None:
        """Every link is whole and every broker runs; so does a controller that was paused."""
        await self.acted()
        if self._controller is not None and self._controller.look() == "paused":
            self._controller.resume()
        for pair in self._stopped_links():
            a, b = pair["brokers"]
            self.link(a, b, "heal")
        async with self.turn:
            kinds = verbs(BrokerFault)
            await asyncio.gather(
                *(
                    self._done(each, kinds[REPAIRS[each.broker.state]])
                    for each in await self._broken()
                )
            )

    async def _broken(self) -> list[Member]:
        """The brokers that need a repair; one that was killed a moment ago has to end first."""
        members = self._members.values()
        await until(lambda: not any(each.broker.is_ending for each in members), ENDING_S)
        return [each for each in members if each.broker.look() in REPAIRS]

    async def reset(self) -> None:
        """No fault is armed, every link is whole, every broker runs."""
        self.clear()
        await self.heal()

    async def settle(self, topics: Iterable[str], *, whole: bool) -> bool:
        """Wait until the controller has done what it can; was it so within the bound?

        Without `whole`: each partition is led by a broker that runs, or by nobody. With it: all
        of its replicas are in sync, readers may read the whole log, and coordinators answer.
        """
        assert self._observer is not None
        await self.acted()
        settling = Settling(self._observer, self._brokers, frozenset(topics), self._coordinators)
        return await (settling.until_whole() if whole else settling.until_decided())

    async def _add(self, broker_id: int, brokers: int, voters: str | None) -> None:
        proxy = Proxy(self.board, self.event_log.record, broker_id, self._topic_names)
        link = LinkProxy()
        ports = new_ports(await proxy.start(), await link.start())
        roles = "broker" if voters else "broker,controller"
        node = Node(broker_id, ports, roles=roles, voters=voters, replicas=brokers)
        broker = self._process(f"broker-{broker_id}", node)
        self._members[broker_id] = Member(broker, proxy, link)

    def _process(self, name: str, node: Node) -> Broker:
        return Broker(
            self._kafka,
            self._folder / name,
            node,
            heap_mb=CONTROLLER_HEAP_MB if node.roles == "controller" else 256,
            guardian=self._guardian,
        )

    async def _start(self, member: Member) -> None:
        """Start a broker; if somebody took one of its ports meanwhile, on other ones."""
        broker = member.broker
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
        member.proxy.upstream = ("127.0.0.1", broker.node.ports.lab)
        member.link.upstream = ("127.0.0.1", broker.node.ports.replication)

    def _member(self, broker_id: int) -> Member:
        if broker_id not in self._members:
            raise BadArgument(
                f"this stage has the brokers {sorted(self._members)}; got {broker_id}."
            )
        return self._members[broker_id]

    @property
    def _brokers(self) -> dict[int, Broker]:
        return {broker_id: member.broker for broker_id, member in self._members.items()}

    def _stopped_links(self) -> list[dict[str, Any]]:
        return [
            {"brokers": [caller, broker_id], "state": state}
            for broker_id, member in self._members.items()
            for caller, state in sorted(member.link.stopped().items())
            if caller <= broker_id
        ]

    def _notice_death(self, member: Member) -> None:
        broker = member.broker
        if broker.state == "died" and broker.broker_id not in self._died:
            self._died.add(broker.broker_id)
            member.proxy.upstream = member.link.upstream = None
            self.event_log.record_for_all("died", f"broker-{broker.broker_id}")


def _broker_state(broker: Broker, partitions: list[Partition]) -> dict[str, Any]:
    return {
        "id": broker.broker_id,
        "state": broker.state,
        "leads": sum(each.leader == broker.broker_id for each in partitions),
        "in_sync": sum(broker.broker_id in each.isr for each in partitions),
        "replicates": sum(broker.broker_id in each.replicas for each in partitions),
    }


def _not_done(fault: StageFault, error: Exception) -> str:
    """What a run says of a fault that fired: refused as it did not fit, or failed."""
    return f"{fault.code} {REFUSED if isinstance(error, BadArgument) else 'failed'}: {error}"
