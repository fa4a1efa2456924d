"""What is drawn for each learner of a large class decides no grade: right passes, wrong fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_utils.checking import decide
from lab_utils.grading.cases import exercise
from lab_utils.grading.grader import Terms
from lab_utils.grading.results import FAIL, INCONCLUSIVE, PASS
from tests.grading.recorded import DRAWS, Case, drawn, drawn_cases, draws, evidence


def cases() -> list[Any]:
    """Every case; queries need Spark, one for each trial."""
    marks = [pytest.mark.kafka, pytest.mark.long]
    return [
        pytest.param(case, id=str(case), marks=marks * exercise(case.item).is_query)
        for case in drawn_cases()
    ]


@pytest.mark.parametrize("case", cases())
def test_every_draw(case: Case) -> None:
    """For each of two hundred learners the right answer passes, and a mistake fails."""
    given, answer = case.exercise, case.answer
    decided = {
        drawn(trial): decide(
            replace(given, public=(trial,)), answer, lambda it: evidence(given, it, answer)
        ).status
        for trial in given.public
    }
    found = [{decided[name] for name in them} for them in draws(case.item)]

    if case.is_right:
        assert [{PASS}] * len(DRAWS) == found
    else:
        # What does nothing is not there to be killed: that proves nothing, and has no points.
        wanted = INCONCLUSIVE if {FAIL, PASS}.isdisjoint(decided.values()) else FAIL
        drawn_for = zip(DRAWS, found, strict=True)
        assert [] == [nonce for nonce, each in drawn_for if wanted not in each]


def test_each_learner_has_schedules_of_their_own() -> None:
    """Of one class, from one nonce: another learner, another draw; the same one, the same."""
    paths = [Path(f"{name}.ipynb") for name in ("ada", "bob")]
    given = {"nonce": "n", "cell_s": 1.0, "total_s": 1.0, "place": Path(), "isolation": ""}
    terms: Any = Terms(**given, stages=None, learners={it: it.stem for it in paths})  # type: ignore[arg-type]
    ada, bob = map(terms.nonce_of, paths)

    assert ada != bob
    assert ada == terms.nonce_of(paths[0])
    assert exercise("01.2").trials(ada) != exercise("01.2").trials(bob)
