"""A sink is a connection whose commits are crash points and whose rows are effects.

What is true of it is so in both databases: of sqlite3's own connection, and in PostgreSQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.postgres import drop_schema
from lab_utils.clients.sinks import effects, open_sink
from lab_utils.errors import LedgerError
from tests.clients.postgres import needs_postgres

NO_KEY = "CREATE TABLE bookings (value TEXT)"


class Reached(CrashPoints):
    """Crash points that only say what was reached."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def reached(self, point: str, value: str | None = None) -> None:
        """Remember the point."""
        self.points.append(point)


class Place:
    """Where a run keeps its effects: its folder, and a schema if it has one."""

    def __init__(self, folder: Path, schema: str = "") -> None:
        self.folder = folder
        self.schema = schema

    def opened(self, *statements: str) -> tuple[Any, list[str]]:
        """A sink after these statements, and the points that it reaches from then on."""
        reached = Reached()
        sink = open_sink(self.folder, reached, self.schema)
        for statement in statements:
            sink.execute(statement)
        return sink, reached.points

    def found(self) -> list[tuple[Any, ...]]:
        """Its effects, once every process has ended."""
        events = effects("r", self.folder, self.schema)
        return [(event.kind, event.actor, event.value, event.records) for event in events]


@pytest.fixture(
    params=["SQLite", pytest.param("PostgreSQL", marks=[pytest.mark.kafka, needs_postgres])]
)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """The same sink in either database."""
    if request.param == "SQLite":
        yield Place(tmp_path)
        return
    monkeypatch.setenv("LAB_DATABASE", request.getfixturevalue("postgres").url())
    schema = f"lab_{tmp_path.name}"
    yield Place(tmp_path, schema)
    drop_schema(schema)  # where a table had another shape it was kept


def test_block_commits(place: Place) -> None:
    """A block is one transaction, with a point at each write and on both sides of its commit."""
    sink, points = place.opened(NO_KEY)
    with sink:
        sink.execute("INSERT INTO bookings VALUES (?)", ["0"])
        sink.execute("INSERT INTO bookings VALUES (?)", ["1"])
    sink.close()

    assert ["after_db_write"] * 2 + ["before_db_commit", "after_db_commit"] == points
    assert [("effect", "bookings", "0", 1), ("effect", "bookings", "1", 1)] == place.found()


def test_block_that_raises(place: Place) -> None:
    """What a block wrote before it raised is rolled back, and no commit is reached."""
    sink, points = place.opened("CREATE TABLE bookings (value TEXT PRIMARY KEY)")
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)), sink:
        sink.executemany("INSERT INTO bookings VALUES (?)", [["0"], ["0"]])
    sink.close()

    assert ([], []) == (points, place.found())


def test_a_block_that_only_reads(place: Place) -> None:
    """Where nothing was written there is no commit, and no point."""
    sink, points = place.opened(NO_KEY)
    with sink:
        rows = list(sink.execute("SELECT value FROM bookings"))
    sink.close()

    assert ([], [], []) == (rows, points, place.found())


def test_what_was_not_committed_is_no_effect(place: Place) -> None:
    """A write that no commit followed goes with its connection."""
    sink, _ = place.opened(NO_KEY)
    sink.execute("INSERT INTO bookings VALUES (?)", ["0"])
    sink.close()

    assert [] == place.found()


def test_times(place: Place) -> None:
    """A row with a column `times` is as many effects."""
    sink, _ = place.opened("CREATE TABLE bookings (value TEXT PRIMARY KEY, times INTEGER)")
    with sink:
        sink.execute("INSERT INTO bookings VALUES ('0', 2)")
    sink.close()

    assert [("effect", "bookings", "0", 2)] == place.found()


def test_other_tables_are_no_effects(place: Place) -> None:
    """Bookmarks that are kept beside the bookings are left alone."""
    sink, _ = place.opened("CREATE TABLE bookmarks (next INTEGER)")
    with sink:
        sink.execute("INSERT INTO bookmarks VALUES (1)")
    sink.close()

    assert [] == place.found()


def test_table_of_another_shape(place: Place) -> None:
    """A table that does not say which order a row is about is named, with its columns."""
    sink, _ = place.opened("CREATE TABLE bookings (name TEXT, amount INTEGER)")
    sink.close()

    with pytest.raises(LedgerError, match="no column value, only name, amount"):
        place.found()


@pytest.mark.parametrize(
    ("row", "seen"), [("NULL, 1", "value None"), ("'0', 'often'", "times 'often'")]
)
def test_row_of_another_shape(place: Place, row: str, seen: str) -> None:
    """A row that is no effect of an order is shown, and not counted as one."""
    sink, _ = place.opened("CREATE TABLE bookings (value TEXT, times TEXT)")
    with sink:
        sink.execute(f"INSERT INTO bookings VALUES ({row})")
    sink.close()

    with pytest.raises(LedgerError, match=seen):
        place.found()


def test_no_database(tmp_path: Path) -> None:
    """A run without a database has no effects."""
    assert [] == Place(tmp_path).found()


def test_no_database_at_all(tmp_path: Path) -> None:
    """A file that is no database is named, and what to do."""
    (tmp_path / "sink.sqlite").write_text("this is no database, and it is long enough to be read")

    with pytest.raises(LedgerError, match="could not be read"):
        Place(tmp_path).found()
