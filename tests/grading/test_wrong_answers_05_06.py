"""Each named mistake of labs 05 and 06 is made once here, and gets its own hint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab_utils.grading.cases import exercise, exercises
from tests.grading import wrong_answers_05, wrong_answers_06
from tests.notebooks import solutions

WRONG = wrong_answers_05.WRONG + wrong_answers_06.WRONG


def test_every_named_mistake_is_made() -> None:
    """The tables of wrong answers and the mistakes of the checks are the same."""
    named = [
        (each.item, it.name)
        for lab in ("05", "06")
        for each in exercises(lab)
        for it in each.mistakes
    ]

    assert sorted(named) == sorted((item, name) for item, name, _ in WRONG)


@pytest.fixture(scope="module")
def lab() -> Iterator[Any]:
    """One lab for all wrong answers; which one it is says nothing about the checks."""
    from lab_utils.lab import Lab

    lab = Lab("wrong0506")
    yield lab
    lab.close()


@pytest.mark.kafka
@pytest.mark.parametrize(("item", "name", "cell"), WRONG, ids=[f"{it[0]} {it[1]}" for it in WRONG])
def test_a_wrong_answer_gets_its_hint(lab: Any, item: str, name: str, cell: str) -> None:
    """lab.check gives no points, and the hint of the mistake that was made."""
    names: dict[str, Any] = dict(solutions(item.partition(".")[0]))
    exec(cell, names)
    wanted = exercise(item)
    (mistake,) = [each for each in wanted.mistakes if each.name == name]

    verdict = lab.check(item, names[wanted.answer])

    assert (0, f"Likely: {mistake.likely}") == (
        verdict.points,
        (verdict.hint or "").partition("\n")[0],
    )
