"""The sinks of lab 06 on a real broker, killed where they can be, in both databases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients.sinks import new_schema
from lab_utils.clients.workload import WorkloadError
from lab_utils.ledger.history import History
from lab_utils.proxy.faults import Fault, crash_client, delay_response
from tests.clients.postgres import PASSWORD, Server, needs_postgres
from tests.notebooks import further, solutions
from tests.performed import Perform

pytestmark = pytest.mark.kafka

SINKS_OF_THE_NOTEBOOK = {
    "inserts": "0 1 2 2 3",
    "counts": "0 1 2 2 3",
    "upserts": "0 1 2 3",
    "keeps_the_bookmark": "0 1 2 3",
    "booked_once": "0 1 2 3",
}
# Spark's, with two orders in each batch.
SINKS_OF_SPARK = {"three_sinks": "0 1 2 3 4 4 5 5", "booked_once": "0 1 2 3 4 5"}
# In each run of the suite the test of the password is the one that runs a sink into PostgreSQL.
POSTGRES = pytest.param("PostgreSQL", marks=[needs_postgres, pytest.mark.long])
SEEDS = range(20)
# Where the sink is killed at its nth order; a sink that keeps its bookmark writes twice for each.
POINTS: dict[str, Callable[[int, int], tuple[Fault, ...]]] = {
    "polled": lambda nth, _: (crash_client("after_poll", nth=nth),),
    "written": lambda nth, writes: (crash_client("after_db_write", nth=writes * (nth - 1) + 1),),
    "not committed": lambda nth, _: (crash_client("before_db_commit", nth=nth),),
    "committed": lambda nth, _: (crash_client("after_db_commit", nth=nth),),
    "Kafka told": lambda nth, _: (
        crash_client("while_committing", nth=nth), delay_response("OffsetCommit", nth, by_ms=3000),
    ),
    "Kafka knows": lambda nth, _: (crash_client("after_commit", nth=nth),),
}  # fmt: skip


@pytest.fixture(params=["SQLite", POSTGRES])
def schema(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Gives each run its schema, or "" for SQLite."""
    if request.param == "SQLite":
        return lambda: ""
    monkeypatch.setenv("LAB_DATABASE", request.getfixturevalue("postgres").url())
    return lambda: new_schema("q-a")


def sink(name: str) -> Callable[..., None]:
    """A sink of lab 06, from its notebook or from the further one."""
    found: Callable[..., None] = (further("06_six_crash_points") | solutions("06"))[name]
    return found


@pytest.mark.parametrize("name", SINKS_OF_THE_NOTEBOOK)
def test_sinks_of_the_notebook(name: str, schema: Callable[[], str], perform: Perform) -> None:
    """Killed right after a commit of the database, a sink has an effect twice, or each once."""
    given = schema()
    crash = crash_client("after_db_commit", nth=3)
    rows = perform(sink(name), crash, orders=4, filled=True, schema=given)

    assert SINKS_OF_THE_NOTEBOOK[name] == " ".join(sorted(History(rows).effects.elements()))
    assert {"PostgreSQL" if given else "SQLite"} == {
        row.detail["database"] for row in rows if row.kind == "effect"
    }


@pytest.mark.long
@pytest.mark.parametrize("schema", [POSTGRES], indirect=True)
@pytest.mark.parametrize("name", SINKS_OF_SPARK)
def test_sinks_of_spark(name: str, schema: Callable[[], str], perform: Perform) -> None:
    """Killed between the sink and the commit entry, Spark repeats the batch, and so its effects.

    Not if the number of the batch is in one transaction with its rows. The lab itself has SQLite.
    """
    given = {"orders": 6, "filled": True, "topics": ("invoices",), "schema": schema()}
    rows = perform(solutions("08")[name], crash_client("before_commit", nth=3), **given)

    assert SINKS_OF_SPARK[name] == " ".join(sorted(History(rows).effects.elements()))
    assert 1 == sum(row.kind == "crashed" for row in rows)


def test_bookmarks_of_a_member_that_dies(perform: Perform) -> None:
    """Its successor begins where the database says, and Kafka was never told."""
    crash = crash_client("after_db_commit", nth=3, member=2)
    given = {"orders": 8, "filled": True, "partitions": 2, "members": 2}
    rows = perform(sink("shares_the_bookmarks"), crash, **given)

    assert Counter(map(str, range(8))) == History(rows).effects
    assert ["consumer-1", "consumer-2"] == sorted(
        {row.actor for row in rows if row.kind == "delivered"}
    )
    assert [] == [row for row in rows if row.kind == "committed"]


def test_work_that_is_idempotent_by_nature(perform: Perform) -> None:
    """Done twice, floor and times one are done once; plus one is done twice."""
    prices: list[tuple[float, float, float]] = []
    perform(lambda run: sink("three_ways")(run, prices), orders=1, filled=True)

    assert [(2.0, 2.5, 3.5), (2.0, 2.5, 4.5)] == prices


@needs_postgres
def test_the_password_is_written_nowhere(
    perform: Perform, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ticket nor ledger holds it, though a process of its own was given the sink."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url())
    crash = crash_client("after_db_commit")
    perform(solutions("06")["upserts"], crash, filled=True, schema=new_schema("q-a"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert {"ticket.json", "run.jsonl"} <= {path.name for path in files}
    assert [] == [path for path in files if PASSWORD.encode() in path.read_bytes()]


@needs_postgres
def test_a_database_that_refuses_loses_nothing(
    opened: Any, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with the sentence alone; no order is gone, and no bookmark has moved."""
    from lab_utils.clients.workload import carry_out

    monkeypatch.setenv("LAB_DATABASE", postgres.url("wrong"))
    opened.under(crash_client("after_db_commit"), filled=True, schema=new_schema("q-a"))
    error = carry_out(solutions("06")["upserts"], opened.ticket, timeout_s=60)
    rows = opened.finish()

    assert isinstance(error, WorkloadError)
    assert str(error).startswith("SetupError: the database 'orders' at 127.0.0.1")
    assert 1 == len(str(error).splitlines())
    assert ["0", "1", "2"] == [row.value for row in rows if row.kind == "record"]
    assert [] == opened.experiment.trouble + [row for row in rows if row.kind == "committed"]


# The sink, how many writes an order is, and the points at which it repeats an effect.
KINDS: dict[str, tuple[int, set[str]]] = {
    "inserts": (1, {"committed"}),
    "upserts": (1, set()),
    "keeps_the_bookmark": (2, set()),  # and tells Kafka nothing
}
CASES = [
    (kind, point)
    for kind in KINDS
    for point in POINTS
    if not (kind == "keeps_the_bookmark" and "Kafka" in point)
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "point"), CASES)
def test_sinks_at_every_point(
    kind: str, point: str, schema: Callable[[], str], perform: Perform
) -> None:
    """Each seed draws how many orders there are and at which the sink dies.

    Nothing is lost anywhere. One order is there twice at the one point that promises it, each
    time, and nowhere else.
    """
    writes, repeats = KINDS[kind]
    found = []
    for seed in SEEDS:
        chance = random.Random(f"{seed} {kind} {point}")
        orders = chance.randint(4, 12)
        nth = chance.randint(1, orders)
        faults = POINTS[point](nth, writes)
        rows = perform(sink(kind), *faults, orders=orders, filled=True, schema=schema())
        times = History(rows).effects
        wanted = Counter(map(str, range(orders)))
        assert 1 == sum(row.kind == "crashed" for row in rows)
        found.append((sorted((wanted - times).elements()), sorted((times - wanted).elements())))
        assert found[-1] == ([], [str(nth - 1)] if point in repeats else []), (seed, orders, nth)

    assert len(SEEDS) == len(found)
