"""What a workload holds in hand: the orders, the topic, and clients that are recorded.

A ticket is everything a process needs to take part in a run. It travels as JSON to a child
process, and from a grader to the learner's kernel. Nothing here knows the stage: the workload is
told one address, which happens to be the proxy's.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import orjson
from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from lab_utils.clients.consumer import (
    IDLE_S_MAX,
    RecordingConsumer,
    batches,
    is_committed_to_the_end,
)
from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.files import FILES
from lab_utils.clients.producer import RecordingProducer
from lab_utils.clients.reader import RECONNECTING, HonestReader
from lab_utils.clients.recorder import Recorder, is_lost_exception, kafka_name
from lab_utils.errors import BadArgument, own_lines, seconds, text, told
from lab_utils.ledger.events import Event, value_text
from lab_utils.ledger.programs import ROLE
from lab_utils.ledger.store import Witness
from lab_utils.waiting import wait_until

if TYPE_CHECKING:
    from socket import socket

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from sqlalchemy import Engine

    from lab_utils.audit.streams import Streams
    from lab_utils.clients.program import Ended
    from lab_utils.proxy.faults import ClientFault

# What the lab sets, with librdkafka's default beside it: what a learner would otherwise wait for.
# It changes how long things take, how a client comes back, how many records share a request and
# where a group without a bookmark begins, never what is promised; a learner's own settings win.
CONNECTION: Final = RECONNECTING | {"socket.timeout.ms": 3000}  # 60000
# message.timeout.ms may not be longer than the transaction's; left out, the client sees to it.
TRANSACTIONAL: Final = CONNECTION | {
    "batch.num.messages": 1,  # 10000: one order is one request, so that you can see it
    "linger.ms": 0,  # 5
    "retry.backoff.ms": 50,  # 100
    "transaction.timeout.ms": 10000,  # 60000
}
PRODUCER: Final = {
    **{name: value for name, value in TRANSACTIONAL.items() if name != "transaction.timeout.ms"},
    "message.timeout.ms": 15000,  # 300000
}
# For brokers that go and come back, on any machine: a client that gives up sooner proves nothing.
# A request without an answer is sent again later than the ISR takes to shrink, and an open
# transaction ends before the lab stops waiting for that.
PATIENT: Final = {
    "socket.timeout.ms": 8000,
    "message.timeout.ms": 120000,
    "transaction.timeout.ms": 20000,
}
# Where nothing else runs, a broker that was killed is back after 4 s, and a member that died is
# gone after 6 s. On a busy machine both take more than the 15 s of silence that else are the end.
PATIENT_IDLE_S: Final = 45
# Of the classic group protocol only: with that of KIP-848 the broker sets them.
CLASSIC: Final = {
    "session.timeout.ms": 6000,  # 45000
    "heartbeat.interval.ms": 500,  # 3000
}
CONSUMER: Final = CONNECTION | {
    "auto.offset.reset": "earliest",  # latest
    "fetch.wait.max.ms": 50,  # 500
    "auto.commit.interval.ms": 100,  # 5000
}
PURGED_S: Final = 2
ANSWERED_S: Final = 10
RECEIPTS: Final = "receipts"
# How the names of the clients begin that the lab makes itself.
OWN_NAMES: Final = ("producer-", "consumer-", "reader-", "worker-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Everything a process needs to take part in a run.

    folder    where this process keeps its part of the ledger
    topics    further topics of the run, by the short name that the workload uses
    attempt   which start of the workload this is, from 1; a restart after a crash is the next
    crashes   where the processes must die or stall, which is for their parent alone to know
    restarts  is this a process that is started again when it has been killed?
    members   how many processes perform the workload at once; `member` is this one, from 1
    patient   do its clients wait for brokers that are away for long?
    supervised  is a process that a client's error has ended started again, once?
    schema    where the sink is in the PostgreSQL of LAB_DATABASE; if empty, the sink is SQLite
    """

    run: str
    folder: str
    bootstrap: str
    topic: str
    orders: tuple[str, ...]
    topics: dict[str, str] = field(default_factory=dict)
    attempt: int = 1
    crashes: tuple[ClientFault, ...] = ()
    restarts: bool = False
    members: int = 1
    member: int = 1
    patient: bool = False
    supervised: bool = False
    schema: str = ""

    def to_json(self) -> bytes:
        """The ticket as JSON, without the crashes."""
        return orjson.dumps(asdict(replace(self, crashes=())))

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """The ticket that `to_json` wrote."""
        columns: dict[str, Any] = orjson.loads(text)
        return cls(**columns | {"orders": tuple(columns["orders"]), "crashes": ()})


class LiveRun:
    """A run while it lasts, as its workload sees it.

    run.orders    list[str], the values to send, in order; none if they are in run.topic already
    run.topic     str, a new topic: empty, or filled with the orders if they are to be consumed
    run.topics    dict[str, str], the further topics that lab.run was asked for, new and empty
    run.attempt   int, 1 at first; 2 after the first crash and restart
    run.member    int, which of the processes of the run this is, from 1
    run.bootstrap str, the address of the run's brokers, which is the proxy's, for any client
    """

    def __init__(self, ticket: Ticket, parent: socket | None = None) -> None:
        self.orders = list(ticket.orders)
        self.topic = ticket.topic
        self.topics = _Topics(ticket.topics)
        self.attempt = ticket.attempt
        self.member = ticket.member
        self.bootstrap = ticket.bootstrap
        self._programs: set[str] = set()
        self._ticket = ticket
        self._witness = Witness(Path(ticket.folder), f"client-{os.getpid()}-{ticket.attempt}")
        self._receipts = _Receipts(ticket, f"{ticket.run}.{self._name('worker', 0)}")
        self._crashes = CrashPoints(parent)
        self._producers: list[RecordingProducer] = []
        self._consumers: list[RecordingConsumer] = []
        self._streams: Streams | None = None
        self._is_over = False

    def __repr__(self) -> str:
        return f"<LiveRun {self._ticket.run}: {len(self.orders)} orders for {self.topic!r}>"

    def producer(self, configuration: dict[str, Any] | None = None) -> RecordingProducer:
        """A confluent_kafka.Producer, recorded; your configuration wins over the lab's timers."""
        name = self._name("producer", len(self._producers))
        given = _dictionary(configuration)
        settings = TRANSACTIONAL if "transactional.id" in given else PRODUCER
        producer = RecordingProducer(
            self._configuration(name, settings, given),
            Recorder(self._witness, self._ticket.run, name),
            self._crashes,
        )
        self._producers.append(producer)
        return producer

    def consumer(self, configuration: dict[str, Any] | None = None) -> RecordingConsumer:
        """A confluent_kafka.Consumer, recorded; its group is the run's unless you name one.

        Without a bookmark it begins at the start of the log (auto.offset.reset=earliest), and it
        commits every 100 ms unless enable.auto.commit is off; your configuration wins.
        """
        name = self._name("consumer", len(self._consumers))
        given = _dictionary(configuration)
        if not given.get("group.id", True):  # the client would end this process
            raise BadArgument(
                f"group.id must name a group; got {given['group.id']!r}. Leave group.id out of the "
                "configuration, and the group is one of this run's own."
            )
        is_classic = given.get("group.protocol") != "consumer"
        settings = {"group.id": f"{self._ticket.run}-group"}
        settings |= CONSUMER | (CLASSIC if is_classic else {})
        if self._ticket.restarts and is_classic:
            # A static member's place is kept for its successor, which need not wait for the
            # session timeout. With the protocol of KIP-848 a successor would be refused. The name
            # is the run's: who takes the place of another run's would be given what that one read.
            place = f"consumer-{len(self._consumers) + 1}"
            settings["group.instance.id"] = f"{self._ticket.run}-{place}"
        consumer = RecordingConsumer(
            self._configuration(name, settings, given),
            Recorder(self._witness, self._ticket.run, name),
            self._crashes,
        )
        self._consumers.append(consumer)
        return consumer

    def client_id(self, name: str) -> str:
        """The client id under which a client of any library is known in this run, as `name`.

        The ledger calls it so, and a fault finds it so: drop_response("Produce", client_id=name).
        """
        is_plain = isinstance(name, str) and bool(re.fullmatch(r"[\w-]+", name))
        if not is_plain or name.startswith(OWN_NAMES):
            raise BadArgument(
                "a client's name is made of letters, digits, - and _, and does not begin like one "
                f"of the lab's own ({', '.join(OWN_NAMES)}); got {name!r}."
            )
        return self._program(name)

    def _program(self, name: str) -> str:
        """The client id of a program that records nothing: the wire speaks for it."""
        if name not in self._programs:
            self._programs.add(name)
            Recorder(self._witness, self._ticket.run, name).record("note", detail=dict(ROLE))
        return f"{self._ticket.run}.{name}"

    def execute(
        self,
        command: Sequence[str],
        *,
        name: str = "program",
        given: str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 60,
    ) -> Ended:
        """Perform a program of any language; print what it printed, and return how it ended.

        The command is a list, and no shell reads it. The program is a process of its own, which is
        killed after `timeout_s`, or when this process ends. It finds in its environment BOOTSTRAP,
        CLIENT_ID (that of `name`) and TOPIC, and on its standard input the orders, one a line,
        or what is `given`. What it sent and what was acked is taken from the wire.
        """
        from lab_utils.clients.program import execute

        own = {"BOOTSTRAP": self.bootstrap, "CLIENT_ID": self.client_id(name), "TOPIC": self.topic}
        ended = execute(
            command,
            folder=Path(self._ticket.folder),
            given="".join(f"{order}\n" for order in self.orders) if given is None else given,
            environment={**os.environ, **own, **(environment or {})},
            timeout_s=seconds("timeout_s", timeout_s),
        )
        sys.stdout.write(ended.output)
        return ended

    def orders_in_the_log(self) -> list[str]:
        """The values that the topic holds now, read from its start to its end.

        Any consumer could do this. It goes through the proxy, as reader-1 of this run.
        """
        client_id = f"{self._ticket.run}.{self._name('reader', 0)}"
        reader = HonestReader(self._ticket.bootstrap, client_id)
        try:
            rows = reader.read(self._ticket.run, self.topic, reader.partitions(self.topic))
        finally:
            reader.close()
        return [row.value or "" for row in rows if row.kind == "record"]

    def messages(self, consumer: RecordingConsumer, partitions: int = 1) -> Iterator[Any]:
        """Poll for one record after the other, until the topic has been read to its end."""
        for batch in self.batches(consumer, 1, partitions):
            yield from batch

    def batches(
        self, consumer: RecordingConsumer, size: int, partitions: int = 1
    ) -> Iterator[list[Any]]:
        """Poll for up to `size` records at a time, until the topic has been read to its end.

        partitions  how many the consumer must have by then
        With several members it ends when their group has committed all that is in the topic.
        """
        if self._ticket.members == 1:
            return batches(consumer, size, partitions, idle_s=self._idle_s)

        def is_done() -> bool:
            return is_committed_to_the_end(consumer, self.topic)

        return batches(consumer, size, 0, is_done, self._idle_s)

    @property
    def _idle_s(self) -> float:
        return PATIENT_IDLE_S if self._ticket.patient else IDLE_S_MAX

    def database(self) -> Engine:
        """The database of this run, which outlives its processes: a SQLAlchemy engine.

        `with database.begin() as connection:` is one transaction. The database is SQLite's, or a
        schema of this run's own in PostgreSQL where LAB_DATABASE names one. Only this engine's
        connections come to the points at which a process can be killed.

        When the run is over, each row of its table `bookings` is an effect of the order in the
        column `value`; as many as the column `times` says, if there is one.
        """
        from lab_utils.clients.sinks import open_sink

        recorder = Recorder(self._witness, self._ticket.run, "database")
        return open_sink(
            Path(self._ticket.folder),
            self._crashes,
            self._ticket.schema,
            lambda: recorder.record("db_committed"),
        )

    def stream(self, **options: Any) -> DataFrame:
        """The orders in run.topic as a streaming DataFrame: value STRING, timestamp TIMESTAMP.

        Spark reads them through its Kafka source, two in a batch; `options` are the source's.
        """
        return self._spark().read(self.topic, options)

    def start(self, writer: DataStreamWriter, name: str) -> None:
        """Start the query of a streaming DataFrame's `writeStream`; `name` is its checkpoint's.

        Its first batch is done when the workload has returned; then the run waits until each query
        has read what is in the topic. A successor of this process that starts a query of this name
        goes on from its checkpoint.
        """
        self._spark().start(writer, name)

    @property
    def files(self) -> str:
        """A folder of this run for a sink of Parquet files with a column `value`."""
        return str(Path(self._ticket.folder) / FILES)

    def _spark(self) -> Streams:
        if self._streams is None:
            if not self._crashes:
                raise BadArgument(
                    "run.stream() starts a Spark driver, which needs a process of its own, and "
                    "this run has none. Give lab.run a fault of the process, as in "
                    'faults=[crash_client("before_commit", nth=3)].'
                )
            from lab_utils.audit.streams import Streams

            self._streams = Streams(
                Path(self._ticket.folder),
                self._ticket.bootstrap,
                self._program(self._name("spark", 0)),
                lambda: self._crashes.reached("before_commit"),
            )
        return self._streams

    def wait_for_streams(self) -> None:
        """Wait until each query of this process has read what is there; raises what ended one."""
        if self._streams is not None:
            self._streams.wait()

    def add_partition(self) -> None:
        """Give the topic one more partition, as an administrator does; return when it is there."""
        admin = _administrator(self._ticket.bootstrap)

        def count() -> int:
            return len(admin.list_topics(self.topic, ANSWERED_S).topics[self.topic].partitions)

        wanted = count() + 1
        for created in admin.create_partitions([NewPartitions(self.topic, wanted)]).values():
            created.result(ANSWERED_S)
        wait_until(lambda: count() == wanted, f"partition {wanted - 1}", timeout_s=ANSWERED_S)

    def in_sync(self, broker: int) -> list[int]:
        """Which replicas of partition 0 are in sync, as this broker says; brokers count from 1.

        What the controller decided a moment ago it may not have heard yet.
        """
        addresses = dict(enumerate(self._ticket.bootstrap.split(","), start=1))
        if broker not in addresses:
            raise BadArgument(f"this run has the brokers {list(addresses)}; got {broker!r}.")
        # A new client for each question: one that knows all brokers may ask another.
        found = _administrator(addresses[broker]).list_topics(self.topic, ANSWERED_S)
        return sorted(found.topics[self.topic].partitions[0].isrs)

    def processed(self, message: Any) -> None:
        """Do the work for this message, and say so: it becomes a `processed` event.

        Where the run has a topic `receipts`, the work is a receipt in it, acked by the broker.
        """
        if not isinstance(message, Message):
            raise BadArgument(
                "run.processed() takes the message, as consumer.poll() returned it, and not its "
                f"value; got {message!r:.100}."
            )
        self._crashes.reached("before_process", lambda: [value_text(message.value())])
        self._receipts.write(message)
        Recorder(self._witness, self._ticket.run, "workload").about("processed", message)
        self._crashes.reached("after_process", lambda: [value_text(message.value())])

    def note(self, kind: str, **columns: Any) -> None:
        """Record an event of the workload itself: started, finished, raised."""
        self._witness.record(
            Event(run=self._ticket.run, source="workload", actor="workload", kind=kind, **columns)
        )

    def close(self) -> str | None:
        """Close every client and this part of the ledger; return what went wrong with it."""
        self._is_over = True
        for consumer in self._consumers:
            with suppress(KafkaException, RuntimeError):
                consumer.close()
        for producer in self._producers:
            # What is still queued has had its time: the workload decided not to wait for it. Its
            # reports are waited for, or the ledger would end without them. A callback that raises
            # here has nobody to tell, and a producer that the workload closed itself has no queue.
            with suppress(Exception):
                producer.purge()
                producer.flush(PURGED_S)
                # A callback or a traceback may keep it, and the run would wait until it has gone.
                # To close it also ends its transaction, which is not the lab's to end.
                if not producer.is_in_transaction:
                    producer.close()
        self._receipts.close()
        self._producers.clear()
        self._consumers.clear()
        self._witness.close()
        return self._witness.trouble

    def _name(self, role: str, index: int) -> str:
        """Clients keep counting over members and restarts, so that each has its own name."""
        number = self._ticket.member + index * self._ticket.members
        return f"{role}-{number + 10 * (self._ticket.attempt - 1)}"

    def _configuration(
        self, name: str, settings: dict[str, Any], given: dict[str, Any]
    ) -> dict[str, Any]:
        """The lab's settings and what the workload gave, which wins; some are the lab's own."""
        if self._is_over:
            raise BadArgument(
                f"run {self._ticket.run} is over; got a call for its {name}. What a client does "
                "now would be in no ledger. Join each thread before the workload returns."
            )
        for setting in OWN.keys() & given.keys():
            raise BadArgument(
                f"{setting} is set by the lab; got {given[setting]!r}. In a lab {OWN[setting]}. "
                f"Leave {setting} out of the configuration."
            )
        for setting, value in given.items():
            text("a setting's name", setting)
            if isinstance(value, str):
                text(setting, value)
        longer = PATIENT if self._ticket.patient else {}
        return {
            **settings,
            **{setting: longer[setting] for setting in settings.keys() & longer.keys()},
            **given,
            "bootstrap.servers": self._ticket.bootstrap,
            "client.id": f"{self._ticket.run}.{name}",
        }


def _dictionary(configuration: object) -> dict[str, Any]:
    """A client's configuration, of which nothing need be given."""
    if not isinstance(configuration, dict | None):
        raise BadArgument(
            'a client\'s configuration is a dictionary, as in run.producer({"acks": "all"}); got '
            f"{configuration!r:.200}."
        )
    return configuration or {}


# What the lab sets itself, by the names that librdkafka takes, and what for.
OWN: Final = {
    "bootstrap.servers": "clients of a run connect through the proxy, or nothing is recorded",
    "metadata.broker.list": "clients of a run connect through the proxy, or nothing is recorded",
    "client.id": "the ledger and the faults know each client of a run by the name the lab gives it",
}


class _Topics(dict[str, str]):
    """The further topics of a run; one that it does not have is refused."""

    def __missing__(self, name: object) -> str:
        raise BadArgument(
            f"this run has no further topic {name!r}; it has {', '.join(self) or 'none'}. Give "
            'lab.run each that the workload uses, as in topics=["invoices"].'
        )


class _Receipts:
    """Writes a receipt for each record that was processed, where the run has a topic for them.

    What a process says in its own ledger is no evidence. A receipt is a record in a topic of the
    run, written through the proxy and acked: the wire and the log bear witness to the work.
    """

    def __init__(self, ticket: Ticket, client_id: str) -> None:
        self._topic = ticket.topics.get(RECEIPTS)
        self._lock = Lock()
        self._producer: Producer | None = None
        if self._topic is None:
            return
        self._producer = Producer(
            {
                **PRODUCER,
                "enable.idempotence": True,
                "bootstrap.servers": ticket.bootstrap,
                "client.id": client_id,
                "log_level": 0,
            }
        )
        # Connected before the work begins: the first receipt takes no longer than the others.
        with suppress(KafkaException):
            self._producer.list_topics(self._topic, timeout=ANSWERED_S)

    def write(self, message: Any) -> None:
        """Write the record's value as a receipt; return when it is acked, raise if it is not."""
        producer, topic = self._producer, self._topic
        if producer is None or topic is None:
            return
        failed: list[Any] = []
        with self._lock:
            producer.produce(
                topic,
                message.value(),
                partition=0,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            if producer.flush(ANSWERED_S) or failed:
                raise KafkaException(*failed[:1])

    def close(self) -> None:
        """Let the producer go."""
        self._producer = None


def _administrator(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "client.id": "admin", "log_level": 0})


Workload: TypeAlias = Callable[[LiveRun], object]


def perform(workload: Workload, run: LiveRun) -> BaseException | None:
    """Run the workload between `started` and `finished`; return what it raised, if anything.

    An interrupt is recorded, too, and raised again: it is meant for the cell, not for the workload.
    So it is if it came while a client was about to call back, which raises another error then.
    """
    run.note("started", attempt=run.attempt)
    try:
        try:
            _call(workload, run)
            run.wait_for_streams()
        except SystemError as error:
            if is_lost_exception(error):
                raise KeyboardInterrupt from None
            raise
    except BaseException as error:
        name = kafka_name(error)
        message = error.args[0].str() if name else told(error)
        detail = {"message": message, **({"name": name} if name else {})}
        for line in own_lines(error)[-1:]:
            detail["at"] = f"line {line.lineno} of {line.name}"
        run.note("raised", attempt=run.attempt, error=type(error).__name__, detail=detail)
        if isinstance(error, KeyboardInterrupt):
            raise
        _let_go(error)
        return error
    run.note("finished", attempt=run.attempt)
    return None


def _call(workload: Workload, run: LiveRun) -> None:
    """Call it. A process that it forked, and did not end, ends here: it is this one once more."""
    here = os.getpid()
    try:
        workload(run)
    finally:
        if os.getpid() != here:
            os._exit(0)


def _let_go(error: BaseException | None) -> None:
    """Free what the frames of an exception hold; who keeps it would keep a client alive with them.

    Such a client asks the broker for its topic each second, for ever, and the panel follows it.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # two may be each other's cause
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
