"""A stage server that says nothing is not waited for longer than it may take to say something."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_utils import processes, single_server
from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import carry_out
from lab_utils.errors import StageError
from lab_utils.experiment import Experiment
from lab_utils.machine.down import down
from lab_utils.stage.client import Stage, join
from lab_utils.waiting import wait_until

pytestmark = pytest.mark.kafka

# It is asked twice, for five seconds each.
STOPPED = r"has said nothing for 10 s: its server \(process \d+\) is stopped.*Run \./lab down"


@pytest.fixture(autouse=True)
def _nothing_stays(state: Path) -> Iterator[None]:
    yield
    down()


def stop(stage: Stage) -> None:
    """SIGSTOP to its server; return when it has been taken."""
    os.kill(stage.pid, signal.SIGSTOP)
    wait_until(lambda: processes.is_stopped(stage.pid), "SIGSTOP", timeout_s=60)


def test_a_server_that_is_stopped_in_a_run(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with what happened and the next command, which ends the server."""
    stage = join("own")
    reader = HonestReader(stage.direct)
    experiment = Experiment(stage, reader, "own-a", tmp_path / "own-a", ("0",))

    def stopping(_: LiveRun) -> None:
        stop(stage)
        monkeypatch.setattr(single_server, "ANSWER_S", 1.0)
        monkeypatch.setattr(processes, "SERVER_END_S", 1.0)

    carry_out(stopping, experiment.begin())
    begun = time.monotonic()
    with pytest.raises(StageError, match=STOPPED):
        experiment.finish()
    reader.close()

    assert time.monotonic() - begun < 60  # it was 240
    down()
    assert not processes.of_folder(state)


def test_a_server_that_is_stopped_before_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for either."""
    stage = join("own")
    stop(stage)
    monkeypatch.setattr(single_server, "ANSWER_S", 1.0)
    monkeypatch.setattr(processes, "SERVER_END_S", 1.0)
    begun = time.monotonic()
    stage.shutdown()

    assert time.monotonic() - begun < 25
    assert not processes.is_running(stage.pid)


@pytest.mark.long
def test_a_server_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer than a server may be silent is waited for: it says that it works."""
    stage = join("own")
    monkeypatch.setattr(single_server, "ANSWER_S", 10.0)

    assert not stage.settle(["no-such-topic"], whole=True)  # after twenty seconds
