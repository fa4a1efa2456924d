"""One run on a real stage, from its first topic to its last row, and what is asked of the rows.

The tests of the claims use it. What confluent_kafka raises is an outcome; it is in the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.producer import RecordingProducer
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import carry_out
from lab_utils.experiment import Experiment, order_values
from lab_utils.ledger.events import Event
from lab_utils.machine.quick_start import quick_kafka
from lab_utils.proxy.faults import Fault
from tests.called import call

log = logging.getLogger(__name__)
NUMBERS = count(1)
Workload = Callable[[LiveRun], object]
Perform = Callable[..., list[Event]]


@contextmanager
def performing(stage: Any, folder: Path) -> Iterator[Perform]:
    """Give a function that performs a workload under faults; its runs end with the block."""
    reader = HonestReader(stage.direct)

    def perform(workload: Workload, *faults: Fault, orders: int = 3, **given: Any) -> list[Event]:
        name = f"q{next(NUMBERS)}-a"
        experiment = Experiment(
            stage, reader, name, folder / name, order_values(orders), faults, **given
        )
        ticket = experiment.begin()
        with experiment.attended():
            error = carry_out(workload, ticket, timeout_s=60, crashed=experiment.crashed)
        rows = experiment.finish()
        assert error is None or isinstance(error, KafkaException), error
        log.warning("the workload raised %r", error)  # is shown where a test fails
        assert [] == experiment.trouble
        return rows

    yield perform
    reader.close()


def kafka_tool(name: str, *arguments: str) -> str:
    """What a tool of Kafka's own prints; what fails says why."""
    command = quick_kafka().tool(f"org.apache.kafka.tools.{name}", *arguments)
    done = call(command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sending(settings: dict[str, Any] | None = None) -> Workload:
    """A workload that sends each order to partition 0 and waits for its report."""

    def send(run: LiveRun) -> None:
        producer = run.producer(settings)
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()

    return send


def transactional(run: LiveRun, **settings: Any) -> RecordingProducer:
    """A producer that has taken the topic's name, which no other run has."""
    producer = run.producer({"transactional.id": run.topic} | settings)
    producer.init_transactions()
    return producer


def in_transaction(run: LiveRun, order: str = "0", /, **settings: Any) -> RecordingProducer:
    """A producer that has sent this order to partition 0, in a transaction that it is to end."""
    producer = transactional(run, **settings)
    producer.begin_transaction()
    producer.produce(run.topic, order, partition=0)
    producer.flush()
    return producer


def read(run: LiveRun) -> str:
    """What any consumer may read now of partition 0."""
    return " ".join(run.orders_in_the_log())


def values(rows: list[Event], kind: str, source: str = "log", topic: str = "orders") -> str:
    """The values of these events in the order of their offsets, or of their times."""
    found = [
        row for row in rows
        if (row.source, row.kind) == (source, kind) and (row.topic or topic).endswith(topic)
    ]  # fmt: skip
    found.sort(key=lambda row: (row.partition or 0, row.offset or 0) if source == "log" else (0, 0))
    return " ".join(row.value or "" for row in found)


def reports(rows: list[Event]) -> str:
    """What the client was told of each order, as order:word."""
    words = ("acked", "failed", "unknown")
    told = [row for row in rows if row.source == "client" and row.kind in words]
    return " ".join(f"{row.value}:{row.kind}" for row in told)


def lost(rows: list[Event]) -> str:
    """The orders that were acked and are not in the log."""
    stored = values(rows, "record").split()
    return " ".join(it for it in values(rows, "acked", "client").split() if it not in stored)


def bookmarks(rows: list[Event], when: str = "end") -> list[int | None]:
    """Where the groups read on in each partition, at a crash or when the run is over."""
    held = [row for row in rows if (row.source, row.kind) == ("log", "committed")]
    return [row.offset for row in held if row.detail["when"] == when]


def at(rows: list[Event], kind: str, value: str) -> int:
    """When a client was told this of an order, in nanoseconds."""
    return next(row.at_ns for row in rows if (row.kind, row.value) == (kind, value))


def errors(rows: list[Event]) -> set[str]:
    """The errors with which requests to produce were answered."""
    answers = [row for row in rows if (row.kind, row.api) == ("response", "Produce")]
    return {row.error for row in answers if row.error}


def in_sync(rows: list[Event]) -> list[tuple[str, int]]:
    """Each ISR that the controller decided, with its time, without repetitions."""
    found: list[tuple[str, int]] = []
    for row in rows:
        if (row.source, row.kind) == ("broker", "partition") and (row.topic or "").endswith(
            "orders"
        ):
            isr = " ".join(sorted(row.detail["isr"].split()))
            if not found or found[-1][0] != isr:
                found.append((isr, row.at_ns))
    return found
