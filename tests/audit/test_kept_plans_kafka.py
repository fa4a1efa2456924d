"""A plan that Spark has analysed for one run answers for another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab_utils.audit import kept_plans, session
from lab_utils.audit.judged import judged_run
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from tests.audit.cases import CASES
from tests.histories import in_run, log, sent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.kafka

SMALLEST, NEAR_MISS = 0, 1
# What is found in a file of events, in a table of this process, and by a search between queries.
ASKED = [
    ("producing", "lost-write", "acked when the log had been read"),
    ("consuming", "duplicate-delivery", "one offset twice"),
    ("isolation", "G1c", "each read the other"),
    ("isolation", "stuck-lso", "readers stop before the end"),
    ("inconclusive", "inconclusive", "the fault never fired"),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans that are asked, by their names."""
    names: list[str] = []
    plan = kept_plans._plan

    def noted(frame: DataFrame) -> str:
        names.append(plan(frame))
        return names[-1]

    monkeypatch.setattr(kept_plans, "_plan", noted)
    return names


def judged_of(folder: Path, which: int, history: list[Event]) -> set[str]:
    """The findings of a history, by the plans that are kept."""
    write_ledger(folder, in_run(f"00-{which}", history))
    return {row["finding"] for row in judged_run(folder)}


@pytest.mark.parametrize(("module", "finding", "name"), ASKED)
def test_another_run(
    module: str, finding: str, name: str, tmp_path: Path, asked: list[str]
) -> None:
    """The smallest history has its finding, the near miss has not, and the first still has it."""
    histories = CASES[module][finding][name]
    found = [
        finding in judged_of(tmp_path / str(place), which, histories[which])
        for place, which in enumerate((SMALLEST, NEAR_MISS, SMALLEST))
    ]

    assert [True, False, True] == found
    assert 2 * len(set(asked)) <= len(asked)


def test_a_torn_line_spoils_none_of_another_file(tmp_path: Path) -> None:
    """What a killed witness left half written is left out, and the next file is read whole."""
    write_ledger(tmp_path, in_run("00-a", [sent("1"), *log("1")]), "b")
    (tmp_path / "a.jsonl").write_bytes(b'{"run":"00-a","source":"cli')
    with pytest.warns(UserWarning, match="a.jsonl:1"), session.kept_plans(tmp_path) as (events, _):
        assert 3 == events.count()


def test_a_server_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folders are not ours: nothing is kept, and a torn line is reported once all the same."""
    monkeypatch.setattr(session._shared, "plans", None)
    write_ledger(tmp_path, in_run("00-a", log("1")))
    (tmp_path / "a.jsonl").write_bytes(b"{")
    with (
        pytest.warns(UserWarning, match="a.jsonl:1") as warned,
        session.kept_plans(tmp_path) as (_, plans),
    ):
        assert plans is kept_plans.ANEW
    assert 1 == len(warned)


def test_few_plans_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was not asked for longest is dropped, and analysed again when it is asked."""
    monkeypatch.setattr(kept_plans, "KEPT_MAX", 2)
    spark = session.spark()
    for place, limit in enumerate((1, 2, 3, 1)):
        write_ledger(tmp_path / str(place), in_run("00-a", log(*"abcd"[:place])))
        with session.kept_plans(tmp_path / str(place)) as (events, plans):
            rows = plans.rows(events.where("kind = 'record'").limit(limit))
        assert min(place, limit) == len(rows)
        names = {it.name for it in spark.catalog.listTables() if it.name.startswith("kept_")}
        assert len(names) <= 2
