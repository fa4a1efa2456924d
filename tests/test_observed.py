"""What the stage writes down of a run's partitions, from its beginning to its end."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from lab_utils import Lab, kill_broker, start_broker
from lab_utils.ledger.events import Event
from lab_utils.run import Run
from tests.performed import sending

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def run(stage: Any) -> Run:
    return Lab(stage.name).run(sending(), orders=3)


@pytest.fixture(scope="module")
def leaderless(stage_of_three: Any) -> Run:
    """A run on three brokers that ends as soon as its leader is killed."""
    lab = Lab(stage_of_three.name, brokers=3)
    return lab.run(sending(), orders=1, faults=[kill_broker(1, api="Produce", nth=1)])


def of(run: Run, kind: str) -> list[Event]:
    return [row for row in run.rows if (row.source, row.kind) == ("broker", kind)]


def test_run_begins_with_what_holds(run: Run) -> None:
    """Who leads and who is in sync is written down before the workload starts."""
    (begun,) = of(run, "partition")
    started = next(row for row in run.rows if row.kind == "started" and row.source == "workload")

    assert ("1", "1") == (begun.detail["leader"], begun.detail["isr"])
    assert begun.at_ns < started.at_ns


def test_run_ends_with_a_last_look(run: Run) -> None:
    """However short a run is, the log's last end and watermark are written down."""
    assert (3, 3) == (of(run, "log_end")[-1].offset, of(run, "watermark")[-1].offset)


def test_a_leader_that_is_back_is_asked_again(stage: Any) -> None:
    """The connection to a broker that has died is not kept."""
    dies = {"api": "Produce", "nth": 1, "when": "received"}
    faults = [kill_broker(1, **dies), start_broker(1, **dies)]
    back = Lab(stage.name).run(sending(), orders=3, faults=faults)

    (killed,) = of(back, "killed")
    last = of(back, "watermark")[-1]

    assert last.at_ns > killed.at_ns
    assert last.offset == of(back, "log_end")[-1].offset


def test_decision_after_the_workload_is_evidence(leaderless: Run) -> None:
    """A leader that is killed at the end is led no more in the ledger, and what it held is there.

    The controller needs seconds to decide; the workload ended long before.
    """
    decisions = [row.detail["leader"] for row in of(leaderless, "partition")]
    held = {row.actor: row.offset for row in of(leaderless, "log_end")}

    # While the run is repaired the ISR grows again, which is a decision under the same leader.
    assert ["1", "2"] == [leader for leader, _ in groupby(decisions)]
    assert {"broker-1": 1, "broker-2": 1, "broker-3": 1} == held


def test_a_kill_has_the_time_of_its_signal(leaderless: Run) -> None:
    """The process is gone when it is gone; what the others did after the signal was after it."""
    (killed,) = of(leaderless, "killed")
    (fired,) = (row for row in leaderless.rows if row.kind == "fired")

    assert killed.at_ns <= fired.at_ns
