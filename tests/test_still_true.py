"""The notebook "Is it still true?" asks about each statement, and gets the answers of its table.

What Kafka 3.9 must answer is taken from Kafka's documentation: the clients are the same, so only a
change of the brokers after 3.9 may change an answer.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from docs.make_claims import read_claims
from lab_utils.errors import BadArgument
from lab_utils.grading.notebook import further_notebook
from lab_utils.ledger import statements
from lab_utils.ledger.statements import KAFKAS, STATEMENTS, Answers
from lab_utils.machine.jars import SECTIONS, locked
from lab_utils.run import Run
from lab_utils.stage import client
from tests.notebooks import FURTHER, code_cells, run_here
from tests.test_labs import BUDGETS, spent_by

NOTEBOOK = further_notebook(FURTHER["90_is_it_still_true"])
GONE = ("no", "not since 3.7")
# What came after 3.9, and what Kafka 3.9 answers for want of it. The cap of min.insync.replicas and
# the high watermark that waits for it (KAFKA-15583) came before it, with 3.7.
CAME_LATER = {
    # KIP-966, in new clusters since 4.1: before it the last in-sync replica was waited for.
    "last in sync": "leader: nobody, 0 lost",
    # KIP-890, part two, since 4.0: a new epoch for each transaction, from EndTxn 5 on.
    "all or nothing": "librdkafka: EndTxn 1; Java: EndTxn 4",
    # KIP-500: ZooKeeper's settings left with 4.0. In 3.9 a broker has them, without a value.
    "zookeeper": "process.roles=broker zookeeper.connect=None",
}


@pytest.fixture(autouse=True)
def nothing_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new kernel."""
    monkeypatch.setattr(statements, "_GIVEN", {kafka: {} for kafka in KAFKAS})


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
    spent = spent_by(NOTEBOOK)

    assert {} == {name: spent[name] for name, most in BUDGETS.items() if spent[name] > most}


def test_another_answer_is_news() -> None:
    """It is said at once and marked in the table; what was not asked is in brackets."""
    answers = Answers("4.3")
    for name, it in STATEMENTS.items():
        answers.of(name, it.now)
    assert frozenset() == answers.news

    assert "0 1 2 3 (Kafka 4.3.1 answered: 0 2 1 3)" == answers.of("one in flight", "0 1 2 3")
    assert [("(0 2 1 3)", "0 1 2 3")] == [answers.rows[number][-2:] for number in answers.news]
    with pytest.raises(BadArgument, match="Did you mean 'hole'"):
        answers.of("holes", "")


def test_what_both_kafkas_answered_is_in_one_table() -> None:
    """The cells run once for each Kafka, and the first answers stay; asked again, they are gone."""
    now, before = Answers("4.3"), Answers("3.9")
    now.of("zookeeper", "process.roles=broker")
    before.of("zookeeper", "process.roles=broker zookeeper.connect=None")

    assert ("Kafka 3.9.2", "Kafka 4.3.1") == before.columns[-2:]
    assert before.rows == now.rows
    assert ("process.roles=broker zookeeper.connect=None", "process.roles=broker") == (
        now.rows[list(STATEMENTS).index("zookeeper")][-2:]
    )
    assert frozenset() == now.news
    assert {} == Answers("3.9").given


def test_what_kafka_3_9_answers_otherwise() -> None:
    """What came after 3.9, and nothing else."""
    assert CAME_LATER == {name: it.before for name, it in STATEMENTS.items() if it.before}


def test_each_kafka_is_the_one_that_is_locked() -> None:
    """The columns name the versions of the jars."""
    coordinates = {name: [jar.coordinate for jar in locked(it)] for name, it in SECTIONS.items()}

    assert [*KAFKAS] == sorted(SECTIONS)
    assert [] == [
        told for name, told in KAFKAS.items()
        if f"org.apache.kafka:kafka_2.13:{told.removeprefix('Kafka ')}" not in coordinates[name]
    ]  # fmt: skip


@pytest.mark.kafka
@pytest.mark.long
def test_the_answers_are_those_of_the_table(
    stage_of_three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real runs on three brokers, both clients, and the settings of a broker."""
    monkeypatch.setattr(client, "join", lambda *_: stage_of_three)
    monkeypatch.setattr(client.Stage, "shutdown", lambda _: None)
    names = run_here(code_cells(NOTEBOOK))

    assert {name: it.now for name, it in STATEMENTS.items()} == names["answers"].given
    assert [] == opaque(names)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.usefixtures("stage_of_three")  # with its worker: two such stages are enough
def test_the_answers_of_kafka_3_9() -> None:
    """The same cells, changed as a reader is told to, ask brokers of 3.9 on another stage."""
    cells = code_cells(further_notebook(FURTHER["90_is_it_still_true"]))
    cells[0].source = cells[0].source.replace('kafka="4.3"', 'kafka="3.9"')
    names = run_here(cells)
    expected = {name: CAME_LATER.get(name, it.now) for name, it in STATEMENTS.items()}

    assert "90_further-3.9" == names["lab"].stage.name
    assert expected == names["answers"].given
    assert [] == opaque(names)


def opaque(names: dict[str, Any]) -> list[Any]:
    """The frames of a notebook's runs that the proxy could not read."""
    runs = [it for it in names.values() if isinstance(it, Run)]
    assert len(runs) > 10
    return [row for run in runs for row in run.rows if row.kind == "opaque"]
