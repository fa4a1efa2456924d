"""One fault, many times: is the outcome the same, and how long does a run take?

drop_response("Produce", nth=3), five orders, one in flight: the third order is stored twice and
everything is reported once. `median_s` is from the first order to the last report. The whole run,
with its topic, its connections and the reading back of its log, is given beside it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks import Figure
from lab_utils.clients.reader import HonestReader
from lab_utils.experiment import Experiment, order_values
from lab_utils.proxy.faults import drop_response
from lab_utils.stage import client

FAULT = drop_response("Produce", nth=3)
EXPECTED = ("0 1 2 2 3 4", "0:0 1:1 2:3 3:4 4:5", 1)


def same_outcome(runs: int = 1000) -> Iterator[Figure]:
    """How many runs of how many were equal, and the median seconds."""
    stage = client.join("bench")
    reader = HonestReader(stage.direct)
    outcomes: Counter[tuple[str, str, int]] = Counter()
    with_fault_s, whole_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            run = f"same{number}-a"
            begun = time.perf_counter()
            experiment = Experiment(
                stage, reader, run, Path(folder) / run, order_values(5), (FAULT,)
            )
            reports, took_s = _perform(experiment)
            outcomes[_outcome(experiment, reports)] += 1
            whole_s.append(time.perf_counter() - begun)
            with_fault_s.append(took_s)
    reader.close()
    stage.shutdown()
    yield Figure("runs that were equal under the same fault", outcomes[EXPECTED], f"{runs}",
                 {str(outcome): times for outcome, times in outcomes.items()})  # fmt: skip
    yield Figure("median s of its orders", statistics.median(with_fault_s), "at most 0.15")
    yield Figure("median s of the whole run", statistics.median(whole_s), "")


def _perform(experiment: Experiment) -> tuple[list[str], float]:
    """Send the orders; the reports, and the seconds from the first order to the last report."""
    ticket = experiment.begin()
    reports: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": ticket.bootstrap,
            "client.id": f"{ticket.run}.producer-1",
            "max.in.flight": 1,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "retry.backoff.ms": 50,
            "reconnect.backoff.ms": 20,
            "log_level": 0,
        }
    )

    def on_delivery(error: Any, message: Any) -> None:
        reports.append(f"{message.value().decode()}:{error.name() if error else message.offset()}")

    producer.list_topics(ticket.topic)
    begun = time.perf_counter()
    for order in ticket.orders:
        producer.produce(ticket.topic, order, partition=0, on_delivery=on_delivery)
    producer.flush(30)
    return reports, time.perf_counter() - begun


def _outcome(experiment: Experiment, reports: list[str]) -> tuple[str, str, int]:
    rows = experiment.finish()
    log = sorted((row.offset, row.value) for row in rows if row.kind == "record")
    fired = sum(row.kind == "fired" for row in rows)
    return " ".join(str(value) for _, value in log), " ".join(reports), fired
