"""Every lab, end to end: its notebook with solutions, and the one that is handed out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_utils.audit.session import shared_address, stop_shared
from lab_utils.grading import cases
from lab_utils.grading.build import build_labs
from lab_utils.grading.grader import grade
from lab_utils.machine.jars import spark_kafka_jars
from lab_utils.proxy.faults import StageFault
from tests.notebooks import (
    ROOT,
    SOURCES,
    Shown,
    blank_notebook,
    kernel,
    solutions,
    source_notebook,
    without_demonstrations,
    write,
)

LABS = tuple(SOURCES)
PAIR = ("00", "03")
# What a grading shows of every lab, a kernel of our own shows of these two, and of all in `long`.
PAIR_OR_LONG = [pytest.param(lab, marks=() if lab in PAIR else pytest.mark.long) for lab in LABS]
TIMEOUT_S = 400
NEVER = 999


def test_notebooks_are_what_their_sources_say() -> None:
    """`./lab build --check` finds no difference."""
    assert [] == build_labs(ROOT / "labs", write=False)


def full_points(lab: str) -> dict[str, tuple[str, int, None]]:
    return {each.item: ("PASS", each.points, None) for each in cases.exercises(lab)}


@pytest.mark.labs
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("lab", PAIR_OR_LONG)
def test_run_all_twice(lab: str) -> None:
    """With its solutions each check passes, nothing is raised, and again in the same kernel."""
    with kernel(source_notebook(lab)) as notebook:
        for shown in (notebook.run_all(), notebook.run_all()):
            assert [] == shown.troubles
            assert full_points(lab) == shown.verdicts


@pytest.mark.labs
@pytest.mark.timeout(TIMEOUT_S)
def test_two_notebooks_at_once() -> None:
    """Two labs side by side, each restarted at its first check, have what one has alone."""

    def restarted(lab: str) -> Shown:
        with kernel(source_notebook(lab)) as notebook:
            notebook.run_until("lab.check(")
        with kernel(source_notebook(lab)) as notebook:
            return notebook.run_all()

    with ThreadPoolExecutor(2) as pool:
        shown = dict(zip(PAIR, pool.map(restarted, PAIR), strict=True))
    assert {lab: [] for lab in shown} == {lab: it.troubles for lab, it in shown.items()}
    assert {lab: full_points(lab) for lab in shown} == {
        lab: it.verdicts for lab, it in shown.items()
    }


@pytest.mark.labs
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("lab", PAIR_OR_LONG)
def test_blank(lab: str) -> None:
    """As it is handed out no cell raises, and each check says what is missing, for no points."""
    with kernel(blank_notebook(lab)) as notebook:
        shown = notebook.run_all()

    assert ([], 0) == (shown.troubles, shown.points)
    assert [each.item for each in cases.exercises(lab)] == list(shown.verdicts)
    assert [] == [item for item, (status, _, hint) in shown.verdicts.items()
                  if status not in ("FAIL", "INCONCLUSIVE") or not hint]  # fmt: skip


@pytest.fixture
def spark_server() -> str:
    """The Spark server of this worker. Starting one takes half the time of grading a notebook.

    It has the Kafka connector, as a Lab starts it: lab 04 reads a topic. One that another test of
    this worker has started has none, and is ended.
    """
    jars = ",".join(map(str, spark_kafka_jars()))
    if os.environ.get("LAB_SPARK_JARS") != jars:
        os.environ["LAB_SPARK_JARS"] = jars
        stop_shared()
    return shared_address()


@pytest.mark.labs
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("lab", LABS)
def test_graded(
    lab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_server: str
) -> None:
    """Handed in, the solutions get all points and the blank notebook none; no cell raises."""
    monkeypatch.setenv("SPARK_REMOTE", spark_server)
    write(source_notebook(lab), tmp_path / "a_correct.ipynb")
    # What its other cells show is the same as in the correct one; `long` runs them, too.
    write(without_demonstrations(blank_notebook(lab)), tmp_path / "blank.ipynb")
    correct, blank = grade([tmp_path]).submissions

    assert ((), ()) == (correct.notes, blank.notes)
    assert [] == [item for item in correct.items if item.status != "PASS"]
    assert (correct.possible, 0, correct.possible) == (correct.points, blank.points, blank.possible)
    assert [] == [item for item in blank.items if not item.hint]


@pytest.fixture(scope="module")
def labs(stage: Any) -> Iterator[Callable[[int], Any]]:
    """A lab with so many brokers; which lab it is says nothing about the checks."""
    from lab_utils.lab import Lab

    made: dict[int, Any] = {}

    def lab(brokers: int) -> Any:
        name = stage.name if brokers == 1 else f"tests{brokers}"
        if brokers not in made:
            made[brokers] = Lab(name, brokers=brokers)
        return made[brokers]

    yield lab
    for brokers, each in made.items():
        if brokers > 1:
            each.close()


def never(fault: Any) -> Any:
    """The same fault, waiting for a request that never comes."""
    if isinstance(fault, StageFault):
        return replace(fault, api="Produce", nth=NEVER)
    return replace(fault, nth=NEVER)


BREAKABLE = [
    exercise
    for name in LABS
    for exercise in cases.exercises(name)
    if any(trial.faults for trial in exercise.public)
]


@pytest.mark.labs
@pytest.mark.parametrize("exercise", BREAKABLE, ids=lambda exercise: exercise.item)
def test_without_its_fault(
    labs: Callable[[int], Any], exercise: cases.Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the faults wait for a request that never comes, the right answer proves nothing."""
    quiet = [replace(trial, faults=tuple(map(never, trial.faults))) for trial in exercise.public]
    monkeypatch.setattr(cases, "exercise", lambda _: replace(exercise, public=tuple(quiet)))
    answer = solutions(exercise.item.partition(".")[0])[exercise.answer]
    lab = labs(max(trial.brokers for trial in exercise.public))
    verdict = lab.check(exercise.item, answer)

    assert ("INCONCLUSIVE", 0) == (verdict.status, verdict.points)
    assert "proves nothing" in verdict.reason
