"""Every lab, end to end: its notebook with solutions, and the one that is handed out.

In each run of the suite the cells with answers are executed here, with what they need, on the
stages that the tests share, but for the two labs that cost most (tests/grading/test_answers judges
what was recorded of theirs, too); one lab runs in a kernel from top to bottom, and tests/grading
grades a small one. In `long` all labs run in kernels of their own, twice, and are graded.

Each solution that is performed is performed here, once under each kind of faults; for the other
schedules what was recorded of it is judged, and `long` performs them all. Where an answer is a
value or a query, the lab's own workload is performed for it, which is the same for all answers: if
it kills a broker or a client, what was recorded of it is judged, and what it shows is shown anew by
tests/test_claims_* and tests/clients/test_crash_points.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab_utils import checking
from lab_utils.grading import cases
from lab_utils.grading.cases import Evidence, Exercise, Trial
from lab_utils.grading.grader import grade
from lab_utils.grading.notebook import build_labs, further_notebook, notebook_text
from lab_utils.proxy.faults import ClientFault, StageFault
from lab_utils.stage import client
from tests.grading import recorded
from tests.notebooks import (
    FURTHER,
    ROOT,
    SOURCES,
    blank_notebook,
    cells_of_answers,
    code_cells,
    kernel,
    run_here,
    source_notebook,
)

LABS = tuple(SOURCES)
OF_THREE = tuple(lab for lab in LABS if "brokers=3" in SOURCES[lab].read_text(encoding="utf-8"))
OF_ONE = tuple(lab for lab in LABS if lab not in OF_THREE)
# Of one the leaders die, of the other four drivers of Spark: half a minute of a processor each.
COSTLY = ("07", "08")
# What one sitting can hold, and what its minutes are made of: reading, what the exercises take, and
# all runs once on a quiet machine.
BUDGETS = {"cells": 45, "words": 1000, "lines": 100}
WORDS_A_MINUTE = 200
MINUTES_A_POINT = 2
MINUTES_A_POINT_OF_A_CARD = 1.25
MINUTES_OF_RUNS = 1.5

# Which findings the text of a lab states of its runs, or that follow from it by docs/findings.md.
# What a run of which it states none may not have, either.
STATED: dict[str, dict[str, str]] = {
    "00": {"broken": "duplicate", "late": "phantom"},
    "01": {
        "silent": "lost-write",
        "no_retry": "phantom",
        "one": "inconsistent-offsets lost-write",
        "dark": "lost-write",
    },
    "02": {
        "unclean": "inconsistent-offsets lost-write",
        "clean": "unavailable",
        "floor": "invisible-ack unavailable",
        "grid": "unavailable",
    },
    "03": {
        "twice": "duplicate",
        "flood": "duplicate",
        "restarted": "duplicate",
        "last": "nonmonotonic-send",
        "hole": "lost-write",
    },
    "04": {"three": "duplicate", "hidden": "stuck-lso"},
    "05": {
        "repeated": "duplicate-delivery duplicate-effect",
        "skipped": "skipped-processing",
        "tick": "skipped-processing",
        "threads": "skipped-processing",
        "stalled": "duplicate-delivery duplicate-effect",
    },
    "06": {"forgotten": "aborted-output", "rewound": "duplicate duplicate-delivery"},
    # Whether an offset of the dead leader is given anew in `dark` is a matter of milliseconds.
    "07": {"refused": "aborted-output", "dark": "lost-write ..."},
    "08": {"killed": "duplicate duplicate-effect", "copies": "duplicate"},
    "72": {"incident": "duplicate duplicate-delivery stuck-lso"},
    "73": {"incident": "duplicate-delivery duplicate-effect"},
    "74": {"incident": "lost-write"},
    "76": {"incident": "aborted-read duplicate precommitted-read"},
    "01_silence_disks_and_cost": {
        "unheard": "lost-write",
        "never_twice": "lost-write",
        "nobody": "unavailable",
    },
    "02_links_retries_and_elections": {
        "no_spare": "phantom",
        "twice": "duplicate",
        "floor_of_one": "lost-write",
        "lagging_leader": "lost-write",
    },
    "02_what_takes_a_committed_record": {"taken": "inconsistent-offsets lost-write"},
    "03_how_far_the_sequence_holds": {
        "half_true": "nonmonotonic-send",
        "hole": "lost-write",
        "restarted": "duplicate",
    },
    "04_acid_letter_by_letter": {"turns": "G0", "withdrawn": "G2 unseen", "dark": "lost-write"},
    "04_between_decision_and_marker": {
        "torn": "aborted-read torn-transaction",
        "unmarked": "hanging-transaction",
    },
    "04_readers_networks_and_cost": {"readers": "aborted-read"},
    "05_automatic_commits": {
        "no_tick": "duplicate-delivery duplicate-effect",
        "stopped": "skipped-processing",
    },
    "05_lost_commits_and_rebalances": {"killed": "duplicate-delivery duplicate-effect"},
    "05_ranges_keys_and_threads": {
        "reset": "unseen",  # by the group that was told of the error, and reads no further
        "torn_away": "duplicate-delivery duplicate-effect",
    },
    "06_names_and_rebalances": {
        "at_once": "duplicate duplicate-delivery stuck-lso",
        "in_time": "duplicate duplicate-delivery",
        "now": "duplicate duplicate-delivery",
        "then": "duplicate duplicate-delivery",
    },
    "06_six_crash_points": {
        "twice": "duplicate duplicate-delivery",
        # Whether the invoices of the two members interleave is a matter of milliseconds.
        "moved": "duplicate-delivery ...",
        "rolled_back": "duplicate-delivery",
        "doubled": "duplicate-delivery duplicate-effect",
    },
    "90_is_it_still_true": {
        "twice": "duplicate",
        "hole": "lost-write",
        "dark": "lost-write",
        "one": "nonmonotonic-send",
        "below": "lost-write ...",  # how many are in sync when it ends is a matter of milliseconds
        "turns": "G0 G2",
    },
}


def full_points(lab: str) -> dict[str, tuple[str, int, None]]:
    return {each.item: ("PASS", each.points, None) for each in cases.exercises(lab)}


def test_notebooks_are_what_their_sources_say() -> None:
    """`./lab build --check` finds no difference."""
    assert [] == build_labs(ROOT / "labs", write=False)


def spent_by(notebook: Any) -> dict[str, int]:
    """What a notebook takes of each budget."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    code = [line for cell in code_cells(notebook) for line in cell.source.splitlines()]
    return {
        "cells": len(notebook.cells),
        "words": sum(len(text.split()) for text in texts),
        "lines": len(list(filter(str.strip, code))),
    }


@pytest.mark.parametrize("lab", LABS)
def test_budgets(lab: str) -> None:
    """A lab fits its time: few cells, few words, little code, and the minutes that it states."""
    notebook = blank_notebook(lab)
    spent = spent_by(notebook)

    assert {} == {name: spent[name] for name, most in BUDGETS.items() if spent[name] > most}

    stated = re.search(r"^(\d+) minutes", notebook.cells[0].source, re.MULTILINE)
    work = sum(
        each.points * (MINUTES_A_POINT_OF_A_CARD if each.claims else MINUTES_A_POINT)
        for each in cases.exercises(lab)
    )
    needed = spent["words"] / WORDS_A_MINUTE + work + MINUTES_OF_RUNS
    assert stated is not None
    assert needed <= int(stated[1]) < needed + 5


def but_costly_ones(labs: tuple[str, ...]) -> list[Any]:
    """These labs; the costly ones in `long`."""
    return [pytest.param(lab, marks=[pytest.mark.long] * (lab in COSTLY)) for lab in labs]


def is_new(exercise: Exercise, trial: Trial) -> bool:
    """Has no earlier trial of the exercise faults of the same kinds?"""
    kinds = {it.name: {type(fault) for fault in it.faults} for it in exercise.public}
    return trial.name == next(name for name in kinds if kinds[name] == kinds[trial.name])


@pytest.fixture
def what_is_known_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded stands for a trial whose kinds of faults another one shows.

    And for each that kills something where no answer is performed.
    """
    perform = checking.perform

    def found(lab: Any, exercise: Exercise, trial: Trial, answer: Any, run: Any = None) -> Evidence:
        if exercise.is_performed:
            is_known = not is_new(exercise, trial)
        else:
            is_costly = any(isinstance(fault, StageFault | ClientFault) for fault in trial.faults)
            is_known = is_costly and (exercise.kind == "value" or exercise.is_query)
        if run is None and is_known:
            return recorded.evidence(exercise, trial, answer)
        return perform(lab, exercise, trial, answer, run)

    monkeypatch.setattr(checking, "perform", found)


@pytest.fixture
def solve(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., None]:
    """Executes the cells of a lab with solutions, and what they need, on the tests' own stages.

    They get all points, and nothing is on stderr.
    """

    def solve(lab: str, *stages: Any) -> None:
        by_brokers = {stage.brokers: stage for stage in stages}
        monkeypatch.setattr(client, "join", lambda _, brokers, __: by_brokers[brokers])
        monkeypatch.setattr(client.Stage, "shutdown", lambda _: None)
        names = run_here(cells_of_answers(source_notebook(lab)))

        assert full_points(lab) == {
            item: (it.status, it.points, it.hint) for item, it in names["lab"]._verdicts.items()
        }
        assert "" == capsys.readouterr().err

    return solve


@pytest.mark.labs
@pytest.mark.solutions
@pytest.mark.usefixtures("what_is_known_is_recorded")
@pytest.mark.parametrize("lab", but_costly_ones(OF_ONE))
def test_solutions(lab: str, stage: Any, solve: Callable[..., None]) -> None:
    """The solutions get all points; no cell with an answer raises or warns."""
    solve(lab, stage)


@pytest.mark.labs
@pytest.mark.usefixtures("what_is_known_is_recorded")
@pytest.mark.parametrize("lab", but_costly_ones(OF_THREE))
def test_solutions_on_three_brokers(
    lab: str, stage: Any, stage_of_three: Any, solve: Callable[..., None]
) -> None:
    """The same for the labs that need three brokers."""
    solve(lab, stage, stage_of_three)


@pytest.mark.labs
@pytest.mark.long
@pytest.mark.parametrize("lab", LABS)
def test_run_all_twice(lab: str) -> None:
    """In a kernel each check passes, nothing is raised, and again in the same kernel.

    The audit of each run finds what the text says, and nothing else.
    """
    with kernel(source_notebook(lab)) as notebook:
        for _ in range(2):
            assert [] == notebook.run_all()
            assert full_points(lab) == notebook.verdicts()
        assert STATED.get(lab, {}) == _as_stated(lab, notebook.findings())


def _as_stated(lab: str, found: dict[str, str]) -> dict[str, str]:
    """What was found; as it is stated where "..." stands for what else there may be."""
    return {
        run: stated if "..." in stated and {*stated.split()} <= {*names.split(), "..."} else names
        for run, names in found.items()
        for stated in [STATED.get(lab, {}).get(run, "")]
    }


@pytest.mark.labs
@pytest.mark.long
@pytest.mark.parametrize("name", FURTHER)
def test_further(name: str) -> None:
    """A further notebook runs from top to bottom without a trouble; nothing in it is graded.

    The audit of each run finds what the text says, and nothing else.
    """
    with kernel(further_notebook(FURTHER[name])) as notebook:
        assert [] == notebook.run_all()
        assert {} == notebook.verdicts()
        assert STATED.get(name, {}) == _as_stated(name, notebook.findings())


@pytest.mark.labs
@pytest.mark.long
@pytest.mark.parametrize("lab", LABS)
def test_blank(lab: str) -> None:
    """As it is handed out no cell raises, and each check says what is missing, for no points."""
    with kernel(blank_notebook(lab)) as notebook:
        troubles, verdicts = notebook.run_all(), notebook.verdicts()

    assert [] == troubles
    assert [each.item for each in cases.exercises(lab)] == list(verdicts)
    assert [] == [item for item, (status, points, hint) in verdicts.items()
                  if status not in ("FAIL", "INCONCLUSIVE") or points or not hint]  # fmt: skip


@pytest.mark.labs
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("lab", LABS)
def test_graded(lab: str, tmp_path: Path) -> None:
    """Handed in, the solutions get all points and the blank notebook none; no cell raises."""
    for name, notebook in (("a_correct", source_notebook(lab)), ("blank", blank_notebook(lab))):
        (tmp_path / f"{name}.ipynb").write_text(notebook_text(notebook), encoding="utf-8")
    correct, blank = grade([tmp_path]).submissions

    assert ((), ()) == (correct.notes, blank.notes)
    assert full_points(lab) == {it.item: (it.status, it.points, it.hint) for it in correct.items}
    assert 0 == blank.points
    assert [] == [item for item in blank.items if not item.hint]
