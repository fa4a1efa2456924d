"""The notebook "Is it still true?" asks about each statement, and gets the answers of its table."""

from __future__ import annotations

import re
from typing import Any

import pytest

from docs.make_claims import read_claims
from lab_utils.errors import BadArgument
from lab_utils.grading.notebook import further_notebook
from lab_utils.ledger.statements import STATEMENTS, Answers
from lab_utils.stage import client
from tests.notebooks import FURTHER, code_cells, run_here
from tests.test_labs import BUDGETS

NOTEBOOK = further_notebook(FURTHER["90_is_it_still_true"])
GONE = ("no", "not since 3.7")


def test_each_statement_is_asked_once() -> None:
    """A statement that no cell asks about would stand in the table unproven."""
    code = "\n".join(cell.source for cell in code_cells(NOTEBOOK))

    assert list(STATEMENTS) == re.findall(r'answers\.of\("(.+?)"', code)


def test_each_statement_is_told() -> None:
    """The reader finds the words of the table above the cell that asks."""
    prose = " ".join(" ".join(cell.source for cell in NOTEBOOK.cells).replace("# ", "").split())

    assert [] == [each.text for each in STATEMENTS.values() if f"*{each.text}*" not in prose]


def test_claims_that_no_longer_hold_are_asked() -> None:
    """Each claim of docs/claims.toml that does not hold now is a source, and each source is one."""
    claims = read_claims()
    sources = {it.source for it in STATEMENTS.values() if re.fullmatch(r"[A-G]\d+", it.source)}

    assert {name for name, claim in claims.items() if claim["holds"] in GONE} <= sources
    assert sources <= claims.keys()


def test_budgets() -> None:
    """It fits one sitting, as a lab does."""
    texts = [cell.source for cell in NOTEBOOK.cells if cell.cell_type == "markdown"]
    code = [line for cell in code_cells(NOTEBOOK) for line in cell.source.splitlines()]
    spent = {
        "cells": len(NOTEBOOK.cells),
        "words": sum(len(text.split()) for text in texts),
        "lines": len(list(filter(str.strip, code))),
    }

    assert {} == {name: spent[name] for name, most in BUDGETS.items() if spent[name] > most}


def test_another_answer_is_news() -> None:
    """It is said at once and marked in the table; what was not asked is marked, too."""
    answers = Answers()
    for name, it in STATEMENTS.items():
        answers.of(name, it.now)
    assert frozenset() == answers.news

    assert "0 1 2 3 (Kafka 4.3.1 answered: 0 2 1 3)" == answers.of("one in flight", "0 1 2 3")
    assert ["0 1 2 3"] == [answers.rows[number][-1] for number in answers.news]
    assert len(STATEMENTS) == len(Answers().news)
    with pytest.raises(BadArgument, match="Did you mean 'hole'"):
        answers.of("holes", "")


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_answers_are_those_of_the_table(
    stage_of_three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real runs on three brokers, both clients, and the settings of a broker."""
    monkeypatch.setattr(client, "join", lambda *_: stage_of_three)
    monkeypatch.setattr(client.Stage, "shutdown", lambda _: None)
    answers = run_here(code_cells(NOTEBOOK))["answers"]

    assert {name: it.now for name, it in STATEMENTS.items()} == answers.given
