"""Each named mistake of labs 01 and 02 is made once here, and gets its own hint.

Runs with three brokers take seconds. So wrong values and queries of one exercise are judged on the
same runs, and of each exercise only those are made in which its mistakes show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest

from lab_utils import checking
from lab_utils.grading import cases
from lab_utils.grading.cases import Evidence, Exercise, Trial, exercise, exercises
from lab_utils.grading.judge import judge
from tests.grading import wrong_answers_01, wrong_answers_02
from tests.notebooks import solutions

WRONG = wrong_answers_01.WRONG + wrong_answers_02.WRONG
# Of an exercise with several runs those in which its mistakes, or the one named, show.
SHOWN: Final[dict[str, Sequence[str]]] = {
    "01.1": (
        "acks=all, the leader dies",
        "one replica, kill -9",
        "one replica, power cut",
    ),
    "01.4": ("the leader dies cut off",),
    "02.3": ("the leader dies, cut off",),
    "no replica to spare": ("a follower dies",),
    "02.4": ("retries",),
}
# Of 6, 3 are acked and gone, and the other 3 take their offsets: "01.3 by offset" needs them all.
ORDERS_MAX: Final = 6


def test_every_named_mistake_is_made() -> None:
    """The tables of wrong answers and the mistakes of the checks are the same."""
    named = [
        (each.item, it.name)
        for lab in ("01", "02")
        for each in exercises(lab)
        for it in each.mistakes
    ]

    assert sorted(named) == sorted((item, name) for item, name, _ in WRONG)


@pytest.fixture(scope="module")
def lab() -> Iterator[Any]:
    """One lab for all wrong answers; which one it is says nothing about the checks."""
    from lab_utils.lab import Lab

    lab = Lab("wrong0102", brokers=3)
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def performed(lab: Any) -> Any:
    """The evidence of an exercise whose runs are the check's own, made once."""

    @cache
    def perform(item: str) -> tuple[Evidence, ...]:
        wanted = shortened(exercise(item), item)
        return tuple(checking._of(_run(lab, trial), trial) for trial in wanted.public)

    return perform


def _run(lab: Any, trial: Trial) -> Any:
    return lab.run(trial.workload, orders=trial.orders, faults=trial.faults, **trial.conditions)


def shortened(wanted: Exercise, key: str) -> Exercise:
    """The exercise with the runs in which its mistakes show, and no more orders than they take."""
    names = SHOWN.get(key) or SHOWN.get(wanted.item) or [trial.name for trial in wanted.public]
    kept = [trial for trial in wanted.public if trial.name in names]
    assert len(names) == len(kept)
    short = (replace(trial, orders=min(trial.orders, ORDERS_MAX)) for trial in kept)
    return replace(wanted, public=tuple(short))


@pytest.mark.kafka
@pytest.mark.parametrize(("item", "name", "cell"), WRONG, ids=[f"{it[0]} {it[1]}" for it in WRONG])
def test_a_wrong_answer_gets_its_hint(
    lab: Any, performed: Any, item: str, name: str, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check gives no points, and the hint of the mistake that was made."""
    names: dict[str, Any] = dict(solutions(item.partition(".")[0]))
    exec(cell, names)
    wanted = exercise(item)
    (mistake,) = [each for each in wanted.mistakes if each.name == name]
    answer = names[wanted.answer]
    if wanted.kind == "value":
        verdict = judge(wanted, answer, performed(item))
    elif wanted.kind == "query":
        verdict = judge(wanted, None, [checking._queried(it, answer) for it in performed(item)])
    else:
        monkeypatch.setattr(cases, "exercise", lambda _: shortened(wanted, name))
        verdict = lab.check(item, answer)

    assert (0, f"Likely: {mistake.likely}") == (
        verdict.points,
        (verdict.hint or "").partition("\n")[0],
    )


def at_once(run: Any) -> None:
    """Send all orders, and wait for their reports once."""
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()


@pytest.mark.kafka
def test_who_flushes_once_is_judged(lab: Any) -> None:
    """All requests are on their way before the first answer, and the leader dies nonetheless."""
    verdict = lab.check("01.4", at_once)

    assert ("PASS", 6) == (str(verdict.status), verdict.points)
