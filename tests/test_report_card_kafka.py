"""The report card of lab 07 says the same each time, wherever the faults are drawn."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from typing import Any

import pytest

from lab_utils.checking import decide, perform
from lab_utils.grading.cases import exercise
from lab_utils.lab import Lab
from lab_utils.stage import client
from tests.grading.wrong_answers_from_06 import REPAIRED, WRONG
from tests.notebooks import answers_in, execute, source_notebook

# LAB_REPEATS=20 repeats it more often.
REPEATS = int(os.environ.get("LAB_REPEATS", "5"))
ITEM = "07.2"
JUDGEMENT = (
    "acks too weak", "floor too low", "committed before the work", "not rewound", "no key",
)  # fmt: skip


@pytest.fixture
def lab(stage_of_three: Any, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The lab, on the three brokers that the tests share."""
    monkeypatch.setattr(client, "join", lambda *_: stage_of_three)
    return Lab("07", brokers=3)


def card(lab: Lab, cell: str, nonce: str) -> dict[str, str]:
    """The verdict of each schedule that this nonce draws, by its name."""
    names = dict(answers_in(source_notebook("07")))
    execute(ast.parse(cell).body, cell, names)
    drawn = exercise(ITEM)
    drawn = replace(drawn, public=drawn.trials(nonce))
    answer = names["answer_2"]
    found = decide(drawn, answer, lambda trial: perform(lab, drawn, trial, answer))
    return {row["schedule"]: row["status"] for row in found.card}


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ["repaired", *JUDGEMENT])
def test_equal_each_time(lab: Lab, name: str) -> None:
    """The repaired pipeline passes all twelve, each time; each fault left in fails the same."""
    cells = {mistake: cell for item, mistake, cell in WRONG if item == ITEM}
    found = [card(lab, cells.get(name, REPAIRED), f"nonce {it}") for it in range(REPEATS)]

    assert [found[0]] * REPEATS == found
    assert ("FAIL" in found[0].values()) == (name != "repaired")
    assert {"PASS", "FAIL"} >= set(found[0].values())
