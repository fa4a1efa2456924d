"""A run finds coordinators that answer: what its clients are refused is the work of its faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import carry_out
from lab_utils.experiment import Experiment
from lab_utils.machine.down import down
from lab_utils.stage.client import Stage, join

pytestmark = pytest.mark.kafka

# What an answer to a first request says that meets a start, not a fault.
COMING = {"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"}
ASKED = {"FindCoordinator", "InitProducerId", "JoinGroup"}


@pytest.fixture(autouse=True)
def _nothing_stays(state: Path) -> Iterator[None]:
    yield
    down()


def ask_all(run: LiveRun) -> None:
    """A transaction, a group, and a producer that is idempotent and no more."""
    transactional = run.producer({"transactional.id": run.topic})
    transactional.init_transactions()
    transactional.begin_transaction()
    transactional.produce(run.topic, run.orders[0])
    transactional.commit_transaction()
    consumer = run.consumer({"group.id": run.topic})
    consumer.subscribe([run.topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()
    idempotent = run.producer({"enable.idempotence": True})
    idempotent.produce(run.topic, run.orders[1])
    idempotent.flush()


def refused(stage: Stage, folder: Path, name: str) -> tuple[set[str], set[str | None]]:
    """What was asked that a coordinator answers, and what was refused as one that is coming."""
    reader = HonestReader(stage.direct)
    experiment = Experiment(stage, reader, name, folder / name, ("0", "1"), replicas=stage.brokers)
    assert carry_out(ask_all, experiment.begin()) is None
    rows = [row for row in experiment.finish() if row.source == "wire"]
    reader.close()
    assert experiment.trouble == []
    return ASKED & {row.api or "" for row in rows}, COMING & {row.error for row in rows}


@pytest.mark.parametrize("brokers", [1, pytest.param(3, marks=pytest.mark.long)])
def test_the_first_requests_are_answered(tmp_path: Path, brokers: int) -> None:
    """On a fresh stage, and on one whose brokers have been repaired."""
    stage = join("fresh", brokers)
    assert (ASKED, set()) == refused(stage, tmp_path, "fresh-a")
    stage.broker("kill", brokers)
    assert (ASKED, set()) == refused(stage, tmp_path, "fresh-b")
