"""The sink: a database of the run, in which the work for an order leaves its effect.

    the workload ── SQL of its own ──▶ sink.sqlite ── read when the run is over ──▶ effect events

The connection is sqlite3's own, with points at which the process can be killed. A row of the table
`bookings` is an effect of the order in its column `value`, or as many as its column `times` says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Self

from lab_utils.clients.crash import CrashPoints
from lab_utils.errors import LedgerError
from lab_utils.ledger.events import Event

FILE: Final = "sink.sqlite"
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


def open_sink(folder: Path, crashes: CrashPoints) -> Sink:
    """The run's database; the same one for each process of the run, in any thread."""
    sink = sqlite3.connect(folder / FILE, WAIT_S, factory=Sink, check_same_thread=False)
    sink.crashes = crashes
    # A commit is on the disk when it returns, and readers do not wait for writers.
    sink.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
    return sink


def effects(run: str, folder: Path) -> Iterator[Event]:
    """The effects that the run left in its database, if it has one; raises LedgerError."""
    if not (folder / FILE).exists():
        return
    with closing(sqlite3.connect(folder / FILE, WAIT_S)) as database:
        try:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({TABLE})")]
            if columns and "value" not in columns:
                raise LedgerError(
                    f"the table {TABLE} has no column value, only {', '.join(columns)}. Each row "
                    "is an effect of one order, and value says of which. Rename the column."
                )
            times = "times" if "times" in columns else "1"
            query = f"SELECT value, {times} FROM {TABLE} ORDER BY rowid"  # noqa: S608
            rows = database.execute(query).fetchall() if columns else []
        except sqlite3.Error as error:
            raise LedgerError(
                f"the sink {FILE} could not be read: {error}. Without it nothing is known of the "
                "effects. Close every connection to it, then run again."
            ) from None
    for value, count in rows:
        yield Event(
            run=run, source="sink", actor=TABLE, kind="effect",
            value=value.decode() if isinstance(value, bytes) else str(value), records=int(count),
        )  # fmt: skip
