"""Each named mistake of the labs is made once here, and gets its own hint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab_utils.grading.cases import exercise, exercises
from tests.grading.wrong_answers import WRONG

LABS = ("00", "03")


def test_every_named_mistake_is_made() -> None:
    """The table of wrong answers and the mistakes of the checks are the same."""
    named = [
        (each.item, mistake.name)
        for lab in LABS
        for each in exercises(lab)
        for mistake in each.mistakes
    ]

    assert sorted(named) == sorted((item, name) for item, name, _ in WRONG)


def test_hints_are_sentences_without_the_answer() -> None:
    """A hint ends as a sentence and holds no line of configuration."""
    hints = [
        text
        for lab in LABS
        for each in exercises(lab)
        for mistake in each.mistakes
        for text in filter(None, (mistake.likely, mistake.look))
    ]

    assert [] == [text for text in hints if not text.endswith(".") or "enable.idempotence" in text]


@pytest.fixture(scope="module")
def lab() -> Iterator[Any]:
    """One lab for all wrong answers; which one it is says nothing about the checks."""
    from lab_utils.lab import Lab

    lab = Lab("wrong")
    yield lab
    lab.close()


@pytest.mark.kafka
@pytest.mark.parametrize(("item", "name", "cell"), WRONG, ids=[f"{it[0]} {it[1]}" for it in WRONG])
def test_a_wrong_answer_gets_its_hint(lab: Any, item: str, name: str, cell: str) -> None:
    """lab.check gives no points, and the hint of the mistake that was made."""
    from lab_utils.proxy import faults

    names: dict[str, Any] = {"drop_response": faults.drop_response}
    exec(cell, names)
    wanted = exercise(item)
    (mistake,) = [each for each in wanted.mistakes if each.name == name]

    verdict = lab.check(item, names[wanted.answer])

    assert (0, f"Likely: {mistake.likely}") == (
        verdict.points,
        (verdict.hint or "").partition("\n")[0],
    )
