"""The sink: a database of the run, in which the work for an order leaves its effect.

    the workload ── SQL of its own ──▶ sink.sqlite ── read when the run is over ──▶ effect events
                                  └──▶ a schema in PostgreSQL, if LAB_DATABASE names one ──▲

The connection is sqlite3's own, with points at which the process can be killed; PostgreSQL's
(postgres.py) has the same. A row of the table `bookings` is an effect of the order in its column
`value`, or as many as its column `times` says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Self

from lab_utils.clients import postgres
from lab_utils.clients.crash import CrashPoints
from lab_utils.errors import LedgerError
from lab_utils.ledger.events import Event

FILE: Final = "sink.sqlite"
MARK: Final = "sink.postgres"  # the name of the schema that this run has
TABLE: Final = "bookings"
WAIT_S: Final = 10
WRITES: Final = ("INSERT", "UPDATE", "REPLACE", "DELETE")


class Sink(sqlite3.Connection):
    """A sqlite3.Connection whose writes and commits are places where a process can be killed."""

    crashes: CrashPoints

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute one statement, as sqlite3.Connection.execute does."""
        cursor = super().execute(sql, parameters)
        if sql.lstrip().upper().startswith(WRITES):
            self.crashes.reached("after_db_write")
        return cursor

    def commit(self) -> None:
        """Commit what has been written since the last commit."""
        is_open = self.in_transaction
        if is_open:
            self.crashes.reached("before_db_commit")
        super().commit()
        if is_open:
            self.crashes.reached("after_db_commit")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:  # type: ignore[override]
        """Commit at the end of the block, or roll back if it raised."""
        if kind is None:
            self.commit()
        else:
            self.rollback()


def open_sink(folder: Path, crashes: CrashPoints, schema: str = "") -> Sink | postgres.PostgresSink:
    """The run's database; the same one for each process of the run, in any thread.

    `schema` is the run's in PostgreSQL; without one, the database is a file of the run's folder.
    """
    if schema:
        sink = postgres.open_postgres(schema, crashes)
        (folder / MARK).write_text(schema)
        return sink
    file = sqlite3.connect(folder / FILE, WAIT_S, factory=Sink, check_same_thread=False)
    file.crashes = crashes
    # A commit is on the disk when it returns, and readers do not wait for writers.
    file.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
    return file


def effects(run: str, folder: Path, schema: str = "") -> Iterator[Event]:
    """The effects that the run left in its database, if it has one; raises LedgerError.

    A schema in PostgreSQL is dropped when its effects have been taken, and kept if they cannot be.
    """
    if schema and (folder / MARK).exists():
        read = postgres.read_table(schema, TABLE)
        try:
            yield from _events(run, "PostgreSQL", *read)
        except LedgerError as error:
            raise LedgerError(
                f"{error} The table is kept, in the schema {schema}, until ./lab down."
            ) from None
        _drop(folder / MARK)
    elif (folder / FILE).exists():
        yield from _events(run, "SQLite", *_read_table(folder / FILE))


def remove_left(runs: Path) -> list[str]:
    """Drop the schemas of runs that are over and whose effects nobody took; return their names.

    A kernel that is killed leaves one, and so does a table that could not be read. Where
    LAB_DATABASE is not set they stay. Raises LedgerError.
    """
    if not postgres.is_chosen():
        return []
    return sorted(_drop(mark) for mark in runs.glob(f"*/*/{MARK}"))


def _drop(mark: Path) -> str:
    schema = mark.read_text()
    postgres.drop_schema(schema)
    mark.unlink()
    return schema


def _read_table(file: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the rows of the table; none if it is not there."""
    with closing(sqlite3.connect(file, WAIT_S)) as database:
        try:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({TABLE})")]
            query = f"SELECT * FROM {TABLE} ORDER BY rowid"  # noqa: S608
            return columns, database.execute(query).fetchall() if columns else []
        except sqlite3.Error as error:
            raise LedgerError(
                f"the sink {FILE} could not be read: {error}. Without it nothing is known of the "
                "effects. Close every connection to it, then run again."
            ) from None


def _events(
    run: str, database: str, columns: list[str], rows: list[tuple[Any, ...]]
) -> Iterator[Event]:
    """Each row as an event; raises LedgerError for a table of another shape."""
    if columns and "value" not in columns:
        raise LedgerError(
            f"the table {TABLE} has no column value, only {', '.join(columns)}. Each row "
            "is an effect of one order, and value says of which. Rename the column."
        )
    for row in rows:
        named = dict(zip(columns, row, strict=True))
        value, times = named["value"], named.get("times", 1)
        if value is None or not isinstance(times, int):
            raise LedgerError(
                f"the table {TABLE} has a row with value {value!r} and times {times!r}. Each row "
                "is an effect of one order: value is its text, and times, if there is such a "
                "column, a whole number. Mend the statement that writes it."
            )
        yield Event(
            run=run, source="sink", actor=TABLE, kind="effect", detail={"database": database},
            value=value.decode() if isinstance(value, bytes) else str(value), records=times,
        )  # fmt: skip
