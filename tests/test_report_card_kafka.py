"""The report card of lab 07 says the same each time, wherever the faults are drawn."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from lab_utils.checking import decide, perform
from lab_utils.grading.cases import exercise
from lab_utils.lab import Lab
from lab_utils.stage import client
from tests.grading.recorded import REFERENCE, WRONG, Case

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


def card(lab: Lab, answer: Any, nonce: str) -> dict[str, str]:
    """The verdict of each schedule that this nonce draws, by its name."""
    drawn = exercise(ITEM)
    drawn = replace(drawn, public=drawn.trials(nonce))
    found = decide(drawn, answer, lambda trial: perform(lab, drawn, trial, answer))
    return {row["schedule"]: row["status"] for row in found.card}


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", [REFERENCE, *JUDGEMENT])
def test_equal_each_time(lab: Lab, name: str) -> None:
    """The repaired pipeline passes all twelve, each time; each fault left in fails the same."""
    cases = {it[1]: Case(*it) for it in WRONG if it[0] == ITEM} | {REFERENCE: Case(ITEM, REFERENCE)}
    found = [card(lab, cases[name].answer, f"nonce {it}") for it in range(REPEATS)]

    assert [found[0]] * REPEATS == found
    assert ("FAIL" in found[0].values()) == (name != REFERENCE)
    assert {"PASS", "FAIL"} >= set(found[0].values())
