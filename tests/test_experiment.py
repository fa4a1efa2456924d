"""An experiment begins, hands a ticket over, and is finished by who did not run the workload."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import carry_out
from lab_utils.experiment import Experiment
from lab_utils.ledger.store import read_ledger
from lab_utils.proxy.faults import crash_client, drop_response
from tests.performed import sending

pytestmark = pytest.mark.kafka

NUMBERS = count(1)


@pytest.fixture
def experiment(stage: Any, tmp_path: Path) -> Any:
    """An experiment with three orders that has not begun."""
    reader = HonestReader(stage.direct)
    yield Experiment(stage, reader, f"x{next(NUMBERS)}-a", tmp_path / "run", ("0", "1", "2"))
    reader.close()


def test_begun_and_finished(experiment: Experiment) -> None:
    """The ticket names the run, its new topic, the proxy, the orders and the crashes.

    What was armed and never fired is unfired at the end, the crash as well as the wire's; the run
    is then not open, and no fault is left.
    """
    experiment.faults = (crash_client("after_ack", nth=9), drop_response("Produce", nth=9))
    ticket = experiment.begin()
    during = [fault["run"] for fault in experiment.stage.state()["faults"]]
    rows = experiment.finish()
    after = experiment.stage.state()

    assert (experiment.run, f"{experiment.run}-orders") == (ticket.run, ticket.topic)
    assert (experiment.stage.bootstrap, ("0", "1", "2")) == (ticket.bootstrap, ticket.orders)
    assert [("crash_client", "after_ack", 9)] == [
        (type(crash).__name__, crash.at, crash.nth) for crash in ticket.crashes
    ]
    assert ["crash_client", "drop_response"] == sorted(
        row.actor for row in rows if row.kind == "unfired"
    )
    assert [] == [row for row in rows if row.kind == "fired"]
    assert ([experiment.run], []) == (during, after["faults"])
    assert experiment.run not in after["runs"]


def test_client_elsewhere(experiment: Experiment, tmp_path: Path) -> None:
    """A workload's own diary may be kept elsewhere; the run's folder has all other witnesses."""
    experiment.faults = (drop_response("Produce", nth=2),)
    carry_out(sending(), experiment.begin(tmp_path / "client"))
    rows = experiment.finish()

    assert {"workload", "wire", "fault", "log"} == {row.source for row in rows} - {"broker"}
    assert {"client", "workload"} == {row.source for row in read_ledger(tmp_path / "client")}
    assert ["0", "1", "1", "2"] == [row.value for row in rows if row.kind == "record"]
    assert ["0", "1", "2"] == [row.value for row in rows if row.kind == "order"]


def test_log_and_batches(experiment: Experiment) -> None:
    """The log is read twice over: by a reader, and from the broker's own files."""
    experiment.partitions = 2
    carry_out(sending(), experiment.begin())
    log = [row for row in experiment.finish() if row.source == "log"]

    assert [0, 1, 2] == [row.offset for row in log if row.kind == "record"]
    assert [(0, 1, -1)] * 3 == [
        (row.partition, row.records, row.producer_id) for row in log if row.kind == "batch"
    ]
    assert [(0, 3), (1, 0)] == sorted(
        (row.partition, row.offset) for row in log if row.kind == "end"
    )


def test_name_that_a_deleted_run_had(experiment: Experiment, tmp_path: Path) -> None:
    """Its folder is gone, and its topic gives way: the log has what the new run sent, alone."""
    carry_out(sending(), experiment.begin())
    experiment.finish()
    again = Experiment(experiment.stage, experiment.reader, experiment.run, tmp_path / "b", ("7",))
    carry_out(sending(), again.begin())
    log = [(row.offset, row.value) for row in again.finish() if row.kind == "record"]

    assert [(0, "7")] == log


def test_run_that_cannot_begin(experiment: Experiment) -> None:
    """A run whose fault the stage refuses is not left open there."""
    experiment.faults = (drop_response("Produce", nth=1), "no fault")  # type: ignore[assignment]
    with pytest.raises(TypeError):
        experiment.begin()

    assert experiment.run not in experiment.stage.state()["runs"]
    assert [] == experiment.stage.state()["faults"]
