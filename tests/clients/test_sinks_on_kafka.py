"""The sinks of lab 06 on a real broker, killed where they can be, in both databases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.postgres import new_schema
from lab_utils.clients.workload import WorkloadError
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import Fault, crash_client, delay_response
from tests.clients.postgres import PASSWORD, Server, needs_postgres
from tests.notebooks import solutions
from tests.performed import Perform, performing

pytestmark = pytest.mark.kafka

SINKS_OF_THE_NOTEBOOK = {
    "inserts": "0 1 2 2 3",
    "counts": "0 1 2 2 3",
    "upserts": "0 1 2 3",
    "keeps_the_bookmark": "0 1 2 3",
    "booked_once": "0 1 2 3",
}
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


@pytest.fixture
def perform(stage: Any, tmp_path: Path) -> Iterator[Perform]:
    with performing(stage, tmp_path) as perform:
        yield perform


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=needs_postgres)])
def schema(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Gives each run its schema, or "" for SQLite."""
    if request.param == "SQLite":
        return lambda: ""
    monkeypatch.setenv("LAB_DATABASE", request.getfixturevalue("postgres").url())
    return lambda: new_schema("q-a")


def booked(rows: list[Event]) -> Counter[str | None]:
    """How often each order has an effect."""
    times: Counter[str | None] = Counter()
    for row in rows:
        if (row.source, row.kind) == ("sink", "effect"):
            times[row.value] += row.records or 0
    return times


@needs_postgres
@pytest.mark.parametrize("name", SINKS_OF_THE_NOTEBOOK)
def test_the_same_program_in_postgres(
    name: str, perform: Perform, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the notebook's sinks leave in SQLite they leave in PostgreSQL, and no schema."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url())
    sink = solutions("06")[name]
    crash = crash_client("after_db_commit", nth=3)
    rows = perform(sink, crash, orders=4, filled=True, schema=new_schema("q-a"))

    assert SINKS_OF_THE_NOTEBOOK[name] == " ".join(sorted(booked(rows).elements()))
    assert {"PostgreSQL"} == {row.detail["database"] for row in rows if row.kind == "effect"}
    assert [] == postgres.schemas()


@needs_postgres
def test_the_password_is_written_nowhere(
    perform: Perform, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ticket nor ledger holds it, though a process of its own was given the sink."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url())
    crash = crash_client("after_db_commit")
    perform(solutions("06")["upserts"], crash, filled=True, schema=new_schema("q-a"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    secrets = (PASSWORD.encode(), PASSWORD.replace("%", "%25").encode())

    assert {"ticket.json", "run.jsonl"} <= {path.name for path in files}
    assert [] == [path for path in files if any(it in path.read_bytes() for it in secrets)]


@needs_postgres
def test_a_database_that_refuses_loses_nothing(
    opened: Any, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with the sentence alone; no order is gone, and no bookmark has moved."""
    from lab_utils.clients.workload import carry_out

    monkeypatch.setenv("LAB_DATABASE", postgres.url("wrong"))
    opened.under(crash_client("after_db_commit"))
    opened.experiment.filled, opened.experiment.schema = True, new_schema("q-a")
    error = carry_out(solutions("06")["upserts"], opened.ticket, timeout_s=60)
    rows = opened.finish()

    assert isinstance(error, WorkloadError)
    assert str(error).startswith("SetupError: the database 'orders' at 127.0.0.1")
    assert 1 == len(str(error).splitlines())
    assert ["0", "1", "2"] == [row.value for row in rows if row.kind == "record"]
    assert [] == opened.experiment.trouble + [row for row in rows if row.kind == "committed"]


def inserts(database: Any, message: Any) -> None:
    """The plain insert."""
    database.execute("INSERT INTO bookings VALUES (?)", [message.value().decode()])


def upserts(database: Any, message: Any) -> None:
    """The upsert by the order's own key."""
    insert = "INSERT INTO bookings VALUES (?) ON CONFLICT DO NOTHING"
    database.execute(insert, [message.value().decode()])


def inserts_with_the_bookmark(database: Any, message: Any) -> None:
    """The result and the offset, in one database transaction."""
    inserts(database, message)
    database.execute("INSERT INTO bookmarks VALUES (?)", [message.offset() + 1])


def sink(write: Callable[[Any, Any], None], column: str, *, resumes: bool) -> Any:
    """A sink that writes, commits in the database, and then tells Kafka."""

    def work(run: LiveRun) -> None:
        database = run.database()
        database.execute(f"CREATE TABLE IF NOT EXISTS bookings (value TEXT {column})")
        database.execute("CREATE TABLE IF NOT EXISTS bookmarks (next INTEGER)")

        def resume(consumer: Any, places: list[TopicPartition]) -> None:
            (at,) = database.execute("SELECT max(next) FROM bookmarks").fetchone()
            consumer.assign([TopicPartition(it.topic, it.partition, at or 0) for it in places])

        consumer = run.consumer({"enable.auto.commit": False})
        consumer.subscribe([run.topic], **({"on_assign": resume} if resumes else {}))
        for message in run.messages(consumer):
            with database:
                write(database, message)
            consumer.commit(message, asynchronous=False)

    return work


# The sink, how many writes an order is, and the points at which it repeats an effect.
KINDS: dict[str, tuple[Any, int, set[str]]] = {
    "plain insert": (sink(inserts, "", resumes=False), 1, {"committed"}),
    "upsert by key": (sink(upserts, "PRIMARY KEY", resumes=False), 1, set()),
    "offset in the transaction": (sink(inserts_with_the_bookmark, "", resumes=True), 2, set()),
}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_sinks_at_every_point(
    kind: str, point: str, schema: Callable[[], str], perform: Perform
) -> None:
    """Each seed draws how many orders there are and at which the sink dies.

    Nothing is lost anywhere. One order is there twice at the one point that promises it, each
    time, and nowhere else.
    """
    work, writes, repeats = KINDS[kind]
    found = []
    for seed in SEEDS:
        chance = random.Random(f"{seed} {kind} {point}")
        orders = chance.randint(4, 12)
        nth = chance.randint(1, orders)
        faults = POINTS[point](nth, writes)
        rows = perform(work, *faults, orders=orders, filled=True, schema=schema())
        times = booked(rows)
        wanted = Counter(map(str, range(orders)))
        assert 1 == sum(row.kind == "crashed" for row in rows)
        found.append((sorted((wanted - times).elements()), sorted((times - wanted).elements())))
        assert found[-1] == ([], [str(nth - 1)] if point in repeats else []), (seed, orders, nth)

    assert len(SEEDS) == len(found)
