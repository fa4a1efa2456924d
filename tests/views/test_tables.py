"""Tables: what they say, in text and in HTML, and that no cell is believed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab_utils.errors import within
from lab_utils.ledger.events import COLUMNS
from lab_utils.ledger.predictions import Compared, predict
from lab_utils.views.tables import (
    SourceCode,
    Table,
    coordinator_log,
    findings_table,
    ledger_card,
    prediction_table,
    source_code,
    status_card,
)
from tests.views.transaction_histories import commit_and_abort

LOST = {"finding": "lost-write", "evidence": "order 0 is nowhere", "judgement": "breach"}
TWICE = {"finding": "duplicate", "judgement": "allowed", "allowed_by": "enable.idempotence=false"}


FINDINGS = {
    "breaches come first": (
        [TWICE | {"evidence": "a"}, TWICE | {"evidence": "b"}, LOST],
        [("lost-write", 1, ("order 0 is nowhere",), "breach"),
         ("duplicate", 2, ("a", "b"), "allowed by enable.idempotence=false")],
        {0},
    ),
    "evidence is limited": (
        [TWICE | {"evidence": str(number)} for number in range(9)],
        [("duplicate", 9, ("0", "1", "2", "and 6 more"), "allowed by enable.idempotence=false")],
        set(),
    ),
    "not judged": (
        [{"finding": "unseen", "evidence": "order 1 was never polled"}],
        [("unseen", 1, ("order 1 was never polled",), "")],
        set(),
    ),
    "nothing is found": ([], [("none", 0, "The audit found nothing.", "")], set()),
}  # fmt: skip


@pytest.mark.parametrize(("findings", "rows", "marked"), FINDINGS.values(), ids=FINDINGS)
def test_findings(findings: list[dict[str, str]], rows: list[object], marked: set[int]) -> None:
    """One row for each finding of a name, with its number; breaches are on top and marked."""
    table = findings_table(findings)

    assert (rows, marked) == (table.rows, table.marked)


def test_card_of_the_ledger() -> None:
    """Each column once, and each witness with what it may say."""
    told = dict(map(tuple, ledger_card().rows))

    assert COLUMNS.items() <= told.items()
    assert "record, batch, marker" in told["kind, where source = 'log'"]


def test_coordinator_log_in_sequence() -> None:
    """Each entry of the coordinator's log is a row, by its offset, without the run's name."""
    rows = list(coordinator_log(reversed(commit_and_abort())).rows)

    assert ["Empty", "Ongoing", "PrepareCommit"] == [row[3] for row in rows[:3]]
    assert (7, 1, "03-b-orders", "Empty", 1, 0, ("orders-0",)) == rows[0]


PREDICTIONS = {
    "a difference is marked": (
        [Compared("acked", "10", "10"), Compared("stored", "10", "11")],
        [("acked", "10", "10", "as predicted"), ("stored", "10", "11", "differs")],
        {1},
    ),
    "no prediction is not wrong": (
        predict({"stored": ...}, "").compare([]), [("stored", "no answer", "0", "")], set(),
    ),
    "nothing is said in a word": (
        [Compared("visible", "0 1", ""), Compared("log", "", "")],
        [("visible", "0 1", "nothing", "differs"),
         ("log", "nothing", "nothing", "as predicted")],
        {0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("compared", "rows", "marked"), PREDICTIONS.values(), ids=PREDICTIONS)
def test_predictions(compared: list[Compared], rows: list[object], marked: set[int]) -> None:
    """What was predicted stands beside what was observed; a difference is marked, not scored."""
    table = prediction_table(compared)

    assert (rows, marked) == (table.rows, table.marked)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (Table(("a", "evidence"), [("x", ("one", "two")), ("longer", None)]),
         "a       evidence\nx       one\n        two\nlonger"),
        (Table(("value",), [("a\nb\u202ec",)]), "value\na\\nb\\u202ec"),
    ],
    ids=["a cell of two lines takes two", "a value breaks no line, and reverses no text around it"],
)  # fmt: skip
def test_text_is_aligned(table: Table, text: str) -> None:
    """In a terminal columns are aligned, and control characters are visible."""
    assert text == repr(table)


def test_a_sentence_has_room() -> None:
    """On a phone it would have a word a line; a number or a name takes what it needs."""
    row = ("order 0 was acked at offset 0; it is not in the log", "lost-write")

    assert 1 == Table(("evidence", "finding"), [row])._repr_html_().count("min-width: 14em")


@pytest.mark.parametrize("make", [
    lambda text: Table((text,), [(text,)], text),
    lambda text: Table(("a",), [((text, text),)]),
    lambda text: findings_table([{"finding": text, "evidence": text, "judgement": text}]),
    lambda text: prediction_table([Compared(text, text, text)]),
])  # fmt: skip
def test_html_is_escaped(make: Callable[[str], Table]) -> None:
    """No cell, column or caption reaches the browser as markup."""
    assert "<script" not in make('<script src="x">&')._repr_html_()


def test_source_code_is_the_text() -> None:
    """A function is shown as it is written."""
    assert repr(source_code(within)).startswith("def within(what: str")


def test_source_code_cannot_end_its_fence() -> None:
    """Backticks in the text do not end the block that shows it."""
    assert "````python\n```\n````" == SourceCode("```")._repr_markdown_()


@pytest.mark.parametrize(
    ("state", "said", "unsaid"),
    [
        ({"bootstrap": "127.0.0.1:9", "brokers": [{"id": 1, "state": "running"}]},
         ["ready", "127.0.0.1:9", "none armed"], ["<03>", "Broker 1"]),
        ({"controller": "died", "brokers": [{"id": 1, "state": "running"}]},
         ["controller has died", "first cell"], ["ready"]),
        ({"brokers": [{"id": 2, "state": "died"}]}, ["Broker 2 has died", "./lab down"], ["ready"]),
        ({"brokers": [{"id": 2, "state": "paused"}], "faults": [1, 2]},
         ["Broker 2 is paused", "resumed", "2 faults armed"], ["./lab down", "ready"]),
    ],
    ids=["well", "no controller", "a dead broker", "a paused broker"],
)  # fmt: skip
def test_status_card(state: dict[str, object], said: list[str], unsaid: list[str]) -> None:
    """What is unwell is named, with what fixes it; a stage that is well is ready."""
    card = status_card("<03>", state)

    assert [] == [words for words in said if words not in card]
    assert [] == [words for words in unsaid if words in card]
