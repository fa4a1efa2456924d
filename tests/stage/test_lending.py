"""A stage is lent as its last user found it, and not again when anything about it is odd."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lab_utils import processes
from lab_utils.folders import stage_folder
from lab_utils.machine.down import down
from lab_utils.proxy.faults import drop_response
from lab_utils.single_server import is_served
from lab_utils.stage import client
from lab_utils.stage.client import Stage
from lab_utils.stage.lending import Lending, left_in
from lab_utils.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def lending(state: Path) -> Iterator[Lending]:
    with closing(Lending("lent", idle_max=1)) as lending:
        yield lending
    down()


def test_what_a_user_has_broken_is_whole_for_the_next(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run that is open, a fault that is armed and a broker that is dead are repaired.

    What is odd in its user's eyes is ended.
    """
    started, ended = iter([stage]), list[Stage]()
    monkeypatch.setattr(client, "join", lambda *_, **__: next(started))
    monkeypatch.setattr(Stage, "shutdown", lambda it: ended.append(it))
    lending = Lending("lent", idle_max=1)
    lending.lend(1)
    stage.open_run("forgotten", tmp_path)
    stage.arm("", drop_response("Produce"))
    stage.broker("kill")
    assert 3 == len(left_in(stage.state()))
    lending.take_back(stage, is_odd=False)

    assert lending.lend(1) is stage
    assert ([], []) == (left_in(stage.state()), ended)
    lending.take_back(stage, is_odd=True)
    assert [stage] == ended


LENDS = """
from lab_utils.stage.lending import Lending
print(Lending("left", 1).lend(1).name, flush=True)
input()
"""


def test_it_ends_with_who_lends_it(state: Path) -> None:
    """A grader that is killed takes its stages with it, though the notebook it is of lives on."""
    with processes.spawn(
        [sys.executable, "-c", LENDS],
        environment={**os.environ, processes.OWNER: str(os.getpid())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as lender:
        name = lender.stdout.readline().strip() if lender.stdout else ""
        assert is_served(stage_folder(name))
        lender.kill()

    wait_until(lambda: not is_served(stage_folder(name)), "the end of its stage", timeout_s=60)


@pytest.mark.long
def test_each_user_has_another(lending: Lending) -> None:
    """What is lent is nobody else's; of the idle ones no more are kept than were asked for."""
    stages = [lending.lend(1), lending.lend(1)]
    assert 2 == len({stage.bootstrap for stage in stages})
    for stage in stages:
        lending.take_back(stage, is_odd=False)

    assert [False, True] == [is_served(stage_folder(stage.name)) for stage in stages]
    lending.close()
    assert not is_served(stage_folder(stages[1].name))
    late = lending.lend(1)
    lending.take_back(late, is_odd=False)
    assert not is_served(stage_folder(late.name)), "a grading that is over keeps nothing"
