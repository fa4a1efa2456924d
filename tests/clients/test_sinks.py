"""The sink is sqlite3's own connection, its commits are crash points, its rows are effects."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.sinks import Sink, effects, open_sink
from lab_utils.errors import LedgerError

NO_KEY = "CREATE TABLE bookings (value TEXT)"


class Reached(CrashPoints):
    """Crash points that only say what was reached."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def reached(self, point: str, value: str | None = None) -> None:
        """Remember the point."""
        self.points.append(point)


def opened(folder: Path, *statements: str) -> tuple[Sink, list[str]]:
    reached = Reached()
    sink = open_sink(folder, reached)
    for statement in statements:
        sink.execute(statement)
    return sink, reached.points


def found(folder: Path) -> list[tuple[Any, ...]]:
    return [(event.kind, event.actor, event.value, event.records) for event in effects("r", folder)]


def test_block_commits(tmp_path: Path) -> None:
    """A block is one transaction, with a point at each write and on both sides of its commit."""
    sink, points = opened(tmp_path, NO_KEY)
    with sink:
        sink.execute("INSERT INTO bookings VALUES (?)", ["0"])
        sink.execute("INSERT INTO bookings VALUES (?)", ["1"])

    assert ["after_db_write"] * 2 + ["before_db_commit", "after_db_commit"] == points
    assert [("effect", "bookings", "0", 1), ("effect", "bookings", "1", 1)] == found(tmp_path)


def test_block_that_raises(tmp_path: Path) -> None:
    """What a block wrote before it raised is rolled back, and no commit is reached."""
    sink, points = opened(tmp_path, "CREATE TABLE bookings (value TEXT PRIMARY KEY)")
    with pytest.raises(sqlite3.IntegrityError), sink:
        sink.executemany("INSERT INTO bookings VALUES (?)", [["0"], ["0"]])

    assert ([], []) == (points, found(tmp_path))


def test_what_was_not_committed_is_no_effect(tmp_path: Path) -> None:
    """A write that no commit followed is not there for another process."""
    sink, _ = opened(tmp_path, NO_KEY)
    sink.execute("INSERT INTO bookings VALUES (?)", ["0"])

    assert [] == found(tmp_path)
    sink.rollback()


def test_times(tmp_path: Path) -> None:
    """A row with a column `times` is as many effects."""
    sink, _ = opened(tmp_path, "CREATE TABLE bookings (value TEXT PRIMARY KEY, times INTEGER)")
    with sink:
        sink.execute("INSERT INTO bookings VALUES ('0', 2)")

    assert [("effect", "bookings", "0", 2)] == found(tmp_path)


def test_no_database(tmp_path: Path) -> None:
    """A run without a database has no effects."""
    assert [] == found(tmp_path)


def test_other_tables_are_no_effects(tmp_path: Path) -> None:
    """Bookmarks that are kept beside the bookings are left alone."""
    sink, _ = opened(tmp_path, "CREATE TABLE bookmarks (next INTEGER)")
    with sink:
        sink.execute("INSERT INTO bookmarks VALUES (1)")

    assert [] == found(tmp_path)


def test_table_of_another_shape(tmp_path: Path) -> None:
    """A table that does not say which order a row is about is named, with its columns."""
    sink, _ = opened(tmp_path, "CREATE TABLE bookings (name TEXT, amount INTEGER)")
    sink.close()

    with pytest.raises(LedgerError, match="no column value, only name, amount"):
        found(tmp_path)


def test_no_database_at_all(tmp_path: Path) -> None:
    """A file that is no database is named, and what to do."""
    (tmp_path / "sink.sqlite").write_text("this is no database, and it is long enough to be read")

    with pytest.raises(LedgerError, match="could not be read"):
        found(tmp_path)
