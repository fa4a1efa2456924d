"""One experiment: open a run, break one thing, close it, and read the log back.

    begin ── topic, run folder, faults ──▶ ticket ──▶ a workload, here or in another process
    finish ── faults that fired, the log through DIRECT ──▶ the rows of the ledger

A learner's Lab performs the workload in its own kernel; a grader begins and finishes in a process
that the learner's code cannot reach, and hands only the ticket over.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any, Final

from confluent_kafka import KafkaException

from lab_utils.clients.files import effects_in_files
from lab_utils.clients.groups import Groups
from lab_utils.clients.live_run import Ticket
from lab_utils.clients.reader import ConcurrentReader, HonestReader
from lab_utils.clients.sinks import effects
from lab_utils.errors import BadArgument, LabError, LedgerError, text, within
from lab_utils.ledger.events import EXAMINED_GROUPS, Event
from lab_utils.ledger.programs import program_events
from lab_utils.ledger.store import Witness, read_ledger
from lab_utils.proxy.faults import ClientFault, Fault, RequestFault, WireFault
from lab_utils.proxy.faults.client_faults import crash_client
from lab_utils.readback import MS, Readback, group_ids, transactional_ids
from lab_utils.stage.client import Stage
from lab_utils.stage.settling import UNSETTLED, WHOLE

TOPIC: Final = re.compile("[A-Za-z0-9_-]{1,100}")
# As many as a kernel holds, and a picture shows, with ease.
ORDERS_MAX: Final = 100_000


@dataclass
class Experiment:
    """A run that has begun and has yet to be finished.

    topics  short names of further topics, each as empty and as wide as the first
    topic_settings  by its short name what a further topic has of its own: replicas, configuration
    filled  are the orders in the first topic before the workload starts, to be consumed? With
            several members they are written when each of these has its partitions.
    replicas, topic_config  of every topic; the replicas are on brokers 1, 2, …, and 1 leads
    members how many processes perform the workload at once
    until_stable  is the log read only when every open transaction has ended?
    patient  do its clients wait for brokers that are away for long?
    supervised  is a process that a client's error has ended started again, once?
    schema  where the sink is in PostgreSQL; if empty, the sink is SQLite
    is_examined  is what its clients send hostile? Nothing that is compressed comes to a broker, and
            a topic is left unread that has more than is looked at in an examination
    """

    stage: Stage
    reader: HonestReader
    run: str
    folder: Path
    orders: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    partitions: int = 1
    topics: tuple[str, ...] = ()
    filled: bool = False
    until_stable: bool = False
    members: int = 1
    patient: bool = False
    supervised: bool = False
    replicas: int = 1
    topic_config: Mapping[str, str] = field(default_factory=dict)
    topic_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    schema: str = ""
    is_examined: bool = False
    trouble: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_members(self.faults, self.members)
        self._crashes_seen = 0
        self._began_ms = 0
        self._client_folder = self.folder
        self._concurrent: ConcurrentReader | None = None

    @property
    def topic(self) -> str:
        """The topic of this run, which no other run writes to."""
        return f"{self.run}-orders"

    @property
    def further_topics(self) -> dict[str, str]:
        """The other topics of this run, by the short name that its workload uses."""
        return {name: f"{self.run}-{name}" for name in self.topics}

    def begin(self, client_folder: Path | None = None) -> Ticket:
        """Create the topic, open the run at the stage, arm the faults; return the ticket.

        What broke since the last run, a broker that died or was killed, is repaired first, and
        the topics of runs long past are deleted.

        `client_folder` is where the workload's process keeps its part of the ledger, if that is
        not to be this run's folder.
        """
        self._began_ms = time.time_ns() // MS
        try:
            self._make_ready()
        except BaseException:
            with suppress(OSError):  # it is empty: what has not begun is no run
                self.folder.rmdir()
            raise
        self._write("run", self._beginnings())
        self._client_folder = client_folder or self.folder
        if self.filled and self.topics:
            self._concurrent = ConcurrentReader(
                self.stage.direct, self.run, tuple(self.further_topics.values()), self.partitions
            )
            self._concurrent.start()
        self._open()
        return Ticket(
            run=self.run,
            folder=str(client_folder or self.folder),
            bootstrap=self.stage.bootstrap,
            topic=self.topic,
            orders=() if self.filled else self.orders,
            topics=self.further_topics,
            crashes=tuple(self._crashes()),
            members=self.members,
            patient=self.patient,
            supervised=self.supervised,
            schema=self.schema,
        )

    def _make_ready(self) -> None:
        """Repair what is broken, and create and fill the topics."""
        self.stage.require_controller()
        self._heal()
        self.reader.delete_topics(self.stage.past_topics())
        for topic in self._all_topics():
            replicas, config = self._settings(topic)
            self.reader.create_topic(topic, self.partitions, replicas=replicas, config=config)
        if self.stage.brokers == 3:
            self.reader.place_coordinators()
        self._settle(whole=True)
        if self.filled and self.members == 1:
            self.reader.fill(self.topic, self.orders, self.partitions)

    def _beginnings(self) -> Iterator[Event]:
        """The orders and the topics of the run, and what is armed in its processes."""
        for order in self.orders:
            yield self._event("workload", "lab", "order", value=order)
        for topic in self._all_topics():
            replicas, config = self._settings(topic)
            detail = {"replicas": str(replicas), **config}
            yield self._event("workload", "lab", "topic", topic=topic, detail=detail)
        for crash in self._crashes():
            yield self._event("fault", type(crash).__name__, "armed", detail=crash.as_text())

    def _open(self) -> None:
        """Open the run at the stage and arm its faults, all of them or none."""
        try:
            self.stage.open_run(self.run, self.folder, is_examined=self.is_examined)
            for fault in self.faults:
                if not isinstance(fault, ClientFault):
                    self.stage.arm(self.run, self._of_this_run(fault))
        except BaseException:  # an interrupt may come when it is open, before that was told
            with suppress(LabError):
                self.stage.close_run(self.run)
            raise

    def _of_this_run(self, fault: Fault) -> Fault:
        """The same fault; it may know a topic by its short name, and an order by its number."""
        topics = {"orders": self.topic, **self.further_topics}
        if isinstance(fault, WireFault) and fault.topic in topics:
            fault = replace(fault, topic=topics[fault.topic])
        if isinstance(fault, ClientFault | RequestFault) and fault.value not in self.orders:
            numbered = {str(number): order for number, order in enumerate(self.orders)}
            named = numbered.get(fault.value or "", fault.value)
            fault = replace(fault, value=named)  # type: ignore[type-var]  # each kind is one
        return fault

    @contextmanager
    def attended(self) -> Iterator[None]:
        """While the workload runs: write the orders when all its members have partitions."""
        if self.members == 1 or not self.filled:
            yield
            return
        writer = Thread(target=self._fill_when_settled, daemon=True)
        writer.start()
        yield
        writer.join()

    def crashed(self) -> None:
        """Record what the broker holds as committed, now that the process is dead.

        A broker that is alone and was killed or paused, too, is repaired first: nobody else could
        answer. Its state is not asked before: one that was killed a moment ago still seems to run.
        A fault of each request that has met this process leaves the next one alone.
        """
        self._crashes_seen += 1
        if self.stage.brokers == 1:
            self._heal()
            self._settle(whole=True)
        for armed in self.stage.state()["faults"]:
            if armed["run"] == self.run and armed["fired"] and not armed["fault"].get("once", True):
                self.stage.clear(armed["id"])
        self._record_committed(f"crash-{self._crashes_seen}", when="crash")
        crashes = [fault for fault in self.faults if isinstance(fault, crash_client)]
        if crashes[self._crashes_seen - 1].until_expired:
            self._groups.forget(self._known_groups())

    def finish(self, sink: Path | None = None) -> list[Event]:
        """Close the run at the stage, read the log back; return all rows, oldest first.

        `sink` is the folder that holds the run's database, if that is not the workload's own.
        """
        self._sink = sink or self._client_folder
        # The run stays open until the controller has decided: who leads then is evidence. What is
        # broken is repaired before the log is read.
        try:
            self._settle(whole=False)
        finally:
            trouble = self.stage.close_run(self.run, self._all_topics())
        if trouble:
            self.trouble.append(trouble)
        self._record_committed("committed", when="end")
        self._record_effects()
        self._write("log", self._endings())
        rows = read_ledger(self.folder)
        # What the wire says of programs that recorded nothing themselves.
        if not (told := list(program_events(rows))):
            return rows
        self._write("programs", told)
        return read_ledger(self.folder)

    def _heal(self) -> None:
        """Repair what is broken, and ask where the brokers are now."""
        self.stage.heal()
        self.reader.follow(self.stage.direct)
        self._groups = Groups(self.stage.direct)

    def _settle(self, *, whole: bool) -> None:
        if not self.stage.settle(self._all_topics(), whole=whole):
            what = WHOLE if whole else "a leader that is alive, or none"
            self.trouble.append(UNSETTLED.format(what))

    def _all_topics(self) -> tuple[str, ...]:
        return (self.topic, *self.further_topics.values())

    def _endings(self) -> Iterator[Event]:
        """What the log holds, what was read of it meanwhile, and what has not fired."""
        yield from self._log()
        if self._concurrent is not None:
            yield from self._concurrent.finish()
            if not self._concurrent.is_done:
                self.trouble.append("the concurrent reader did not come to the end of its topics")
        for crash in self._crashes_not_fired():
            yield self._event("fault", type(crash).__name__, "unfired", detail=crash.as_text())

    def _log(self) -> Iterator[Event]:
        ids = transactional_ids(self.folder)
        log = Readback(
            self.stage,
            self.reader,
            self.run,
            ids,
            began_ms=self._began_ms,
            until_stable=self.until_stable,
            is_bounded=self.is_examined,
        )
        # A workload may have added some since.
        partitions = self.reader.partitions(self.topic)
        yield from log.events(self._all_topics(), partitions)

    def _settings(self, topic: str) -> tuple[int, dict[str, str]]:
        """The replicas and the configuration of a topic."""
        own = dict(self.topic_settings.get(topic.removeprefix(f"{self.run}-"), {}))
        return int(own.pop("replicas", self.replicas)), {**self.topic_config, **own}

    def _crashes(self) -> list[ClientFault]:
        return [it for it in map(self._of_this_run, self.faults) if isinstance(it, ClientFault)]

    def _known_groups(self) -> frozenset[str]:
        """The groups that its clients have asked for; none if there are more than is looked at."""
        found = group_ids(self.folder)
        return found if not self.is_examined or len(found) <= EXAMINED_GROUPS else frozenset()

    def _crashes_not_fired(self) -> list[ClientFault]:
        left = self._crashes()
        for row in read_ledger(self.folder) if left else ():
            if (row.source, row.kind) == ("fault", "fired"):
                with suppress(StopIteration):
                    left.remove(next(it for it in left if it.as_text() == row.detail))
        return left

    def _fill_when_settled(self) -> None:
        try:
            self._groups.wait_until_settled(self._known_groups, self.members)
            self.reader.fill(self.topic, self.orders, self.partitions)
        except (LabError, KafkaException) as error:
            self.trouble.append(str(error))

    def _record_effects(self) -> None:
        found = effects(self.run, self._sink, self.schema), effects_in_files(self.run, self._sink)
        try:
            self._write("sink", chain(*found))
        except LedgerError as error:
            self.trouble.append(str(error))

    def _record_committed(self, name: str, **detail: str) -> None:
        self._write(name, self._groups.committed(self.run, self._known_groups(), **detail))

    def _write(self, name: str, events: Iterable[Event]) -> None:
        witness = Witness(self.folder, name)
        try:
            for event in events:
                witness.record(event)
        finally:
            witness.close()
            if witness.trouble:
                self.trouble.append(witness.trouble)

    def _event(self, source: str, actor: str, kind: str, **columns: Any) -> Event:
        return Event(run=self.run, source=source, actor=actor, kind=kind, **columns)


def order_values(orders: int | Sequence[str]) -> tuple[str, ...]:
    """The values to send: a number counts them from "0", a list names them."""
    if isinstance(orders, int):
        return tuple(str(number) for number in range(within("orders", orders, 0, ORDERS_MAX)))
    texts = _listed(orders)
    if texts is None or not all(isinstance(each, str) for each in texts):
        raise BadArgument(
            f"orders is a number or a list of texts; got {orders!r}. The text of an order is what "
            'it is known by, as in orders=["a", "b"].'
        )
    if len(texts) > ORDERS_MAX:
        raise BadArgument(f"orders has {len(texts):,} texts, and {ORDERS_MAX:,} are the most.")
    return tuple(text("an order", each) for each in texts)


def topic_names(topics: Sequence[str] | Mapping[str, Any]) -> tuple[str, ...]:
    """The short names of further topics; raises BadArgument for what Kafka takes for no name."""
    names = tuple(topics) if isinstance(topics, Mapping) else _listed(topics)
    if (
        names is None
        or not all(isinstance(name, str) and TOPIC.fullmatch(name) for name in names)
        or len({"orders", *names}) <= len(names)
    ):
        raise BadArgument(
            f"topics is a list of further topics, each once, and none is called orders, as the "
            f"first one is; got {topics!r}. A name has up to 100 letters from a to z, "
            'digits, - and _, as in topics=["invoices"].'
        )
    return names


def fault_values(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """The faults of a run; raises BadArgument for what is no list of faults."""
    listed = _listed(faults)
    if listed is None or not all(isinstance(fault, Fault) for fault in listed):
        raise BadArgument(
            f"faults is a list of faults; got {faults!r}. Write it as in "
            'faults=[drop_response("Produce", nth=3)].'
        )
    return listed


def require_members(faults: Sequence[Fault], members: int) -> None:
    """Raise BadArgument for a fault of a process that a run with so many does not have."""
    for fault in faults:
        if isinstance(fault, ClientFault) and fault.member > members:
            raise BadArgument(
                f"{fault!r} is for process {fault.member} of the run, which has {members}. Leave "
                "member out, or let lab.run start more processes, as in members=2."
            )


def _listed(given: Any) -> tuple[Any, ...] | None:
    """What a list holds; None for what is no list, a text among it."""
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
