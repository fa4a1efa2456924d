"""The commit that books an order is known by the database's log, whatever the process says."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients import crash
from lab_utils.clients.crash import CrashWatch
from lab_utils.clients.live_run import Ticket
from lab_utils.clients.workload import Children, carry_out
from lab_utils.proxy.faults import crash_client

pytestmark = pytest.mark.processes

OWN = ["CREATE TABLE IF NOT EXISTS bookings (value TEXT)", "CREATE TABLE IF NOT EXISTS done (n)"]
TWO = "INSERT INTO bookings VALUES ('2')"
FAILS = (
    "PRAGMA foreign_keys = ON",
    "CREATE TABLE IF NOT EXISTS one (id INTEGER PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS other (id REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED)",
    "BEGIN",
    TWO,
    "INSERT INTO other VALUES (7)",
    "COMMIT",
)


def killed(folder: Path, at: str) -> Ticket:
    """A run whose process is killed at this point of order 2; no broker is needed."""
    crash = crash_client(at, value="2")
    return Ticket(
        run="r", folder=str(folder), bootstrap="127.0.0.1:1", topic="r-t", orders=("2",),
        crashes=(crash,),
    )  # fmt: skip


def in_a_block(connection: Any) -> None:
    """The number, and the order, in a commit each."""
    for statement in ("INSERT INTO done VALUES (1)", TWO):
        connection.execute(statement)
        connection.commit()


def by_itself(connection: Any) -> None:
    """Statements that commit themselves."""
    connection.isolation_level = None
    connection.execute("INSERT INTO done VALUES (1)")
    connection.execute(TWO)


def in_a_script(connection: Any) -> None:
    """A script that commits three times."""
    connection.executescript(f"INSERT INTO done VALUES (1); {TWO}; INSERT INTO done VALUES (2);")


def after_one_that_fails(connection: Any) -> None:
    """A commit of the order that the database refuses, the number, and then one that it takes."""
    connection.isolation_level = None
    for statement in FAILS:
        with suppress(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.execute("ROLLBACK")
    by_itself(connection)


def beside_it(connection: Any) -> None:
    """The number in a connection of its own, of which nobody is told."""
    file = connection.execute("PRAGMA database_list").fetchone()[2]
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("INSERT INTO done VALUES (1)")
    connection.execute(TWO)
    connection.commit()


@pytest.mark.parametrize("at", ["before_db_commit", "after_db_commit"])
@pytest.mark.parametrize("books", [
    in_a_block, by_itself, in_a_script, after_one_that_fails, beside_it,
])  # fmt: skip
def test_the_commit_that_books_an_order(books: Any, at: str, tmp_path: Path) -> None:
    """A process killed before it leaves what came before it, whatever else it had tried.

    Of a script, what comes after it in the same script is as little there.
    """
    found = tmp_path / "found"

    def workload(run: Any) -> None:
        with closing(run.database().raw_connection()) as proxied:
            connection = proxied.driver_connection
            for statement in OWN:
                connection.execute(statement)
            tables = ("SELECT n FROM done", "SELECT value FROM bookings")
            rows = [connection.execute(each).fetchall() for each in tables]
            with found.open("a") as note:
                note.write(f"{rows}\n")
            connection.commit()
            if not rows[0]:
                books(connection)

    assert carry_out(workload, killed(tmp_path, at), timeout_s=30) is None

    done = "[(1,), (2,)]" if (books, at) == (in_a_script, "after_db_commit") else "[(1,)]"
    booked = "[]" if at == "before_db_commit" else "[('2',)]"
    assert ["[[], []]", f"[{done}, {booked}]"] == found.read_text().splitlines()


def counts_no_time(connection: Any) -> None:
    """A row that is no effect yet."""
    connection.execute("CREATE TABLE bookings (value TEXT, times INTEGER)")
    connection.execute("INSERT INTO bookings VALUES ('2', 0)")
    connection.commit()


def before_a_commit_of_nothing(connection: Any) -> None:
    """The order in a connection that is closed, and with it the log; then a commit of junk."""
    file = connection.execute("PRAGMA database_list").fetchone()[2]
    connection.close()
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("CREATE TABLE bookings (value TEXT)")
        other.execute("INSERT INTO bookings VALUES ('2')")


@pytest.mark.parametrize("books", [counts_no_time, before_a_commit_of_nothing])
def test_a_commit_that_does_not_book_the_order(books: Any, tmp_path: Path) -> None:
    """Nobody dies at it."""

    def workload(run: Any) -> None:
        with closing(run.database().raw_connection()) as proxied:
            books(proxied.driver_connection)
        with run.database().begin() as connection:
            connection.exec_driver_sql("CREATE TABLE junk (value TEXT)")
            connection.exec_driver_sql("INSERT INTO junk VALUES ('2')")

    assert carry_out(workload, killed(tmp_path, "after_db_commit"), timeout_s=30) is None
    assert not (tmp_path / "process-1-2").exists()


SLOW = """CREATE VIEW bookings (value) AS
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)
SELECT max(i) FROM n"""


@pytest.mark.parametrize("bookings", [SLOW, OWN[0]], ids=["a slow view", "a table"])
def test_a_table_that_takes_too_long_to_be_read(
    bookings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can see which commit books the order, and that is the workload's own doing."""
    # Of a quick processor the view takes 0.4 s, and a table a millisecond.
    monkeypatch.setattr(crash, "LOOK_S_MAX", 0.05)

    def workload(run: Any) -> None:
        with closing(run.database().raw_connection()) as proxied:
            connection = proxied.driver_connection
            for statement in (bookings, OWN[1], "INSERT INTO done VALUES (1)"):
                connection.execute(statement)
                connection.commit()

    error = carry_out(workload, killed(tmp_path, "after_db_commit"), timeout_s=60)

    assert ("takes too long to be read" in str(error)) == (bookings == SLOW)


@pytest.mark.parametrize("later", ["DELETE FROM bookings", "INSERT INTO done VALUES (1)"])
def test_a_booking_that_does_not_stay(later: str, tmp_path: Path) -> None:
    """A kill at it says nothing of the booking that stays, whichever process takes it out."""

    def workload(run: Any) -> None:
        with closing(run.database().raw_connection()) as proxied:
            connection = proxied.driver_connection
            for statement in (*OWN, later, TWO):
                connection.execute(statement)
                connection.commit()

    error = carry_out(workload, killed(tmp_path, "after_db_commit"), timeout_s=60)

    assert ("Order 2 was in the table bookings and was taken out" in str(error)) == (
        later == "DELETE FROM bookings"
    )


def test_of_two_orders_each_has_its_commit(tmp_path: Path) -> None:
    """Who waits for one order before it is booked is given back what was there before that one."""
    chosen = [crash_client("before_db_commit", value=value) for value in "12"]
    watch = CrashWatch("r", chosen, lambda _: None, Children(tmp_path, tmp_path, 60), lambda: None)
    watch.start()
    with closing(sqlite3.connect(tmp_path / "sink.sqlite", isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode = WAL", *OWN, TWO, TWO.replace("2", "1")):
            connection.execute(statement)
        with watch.channel.dup() as channel, channel.makefile("rwb") as lines:
            lines.write(b'{"point": "after_db_commit"}\n')
            lines.flush()
            assert b"" == lines.readline()
        watch.close()
        left = tmp_path / "left.sqlite"
        left.write_bytes((tmp_path / "sink.sqlite").read_bytes())
        left.with_name("left.sqlite-wal").write_bytes((tmp_path / "sink.sqlite-wal").read_bytes())

    with closing(sqlite3.connect(left)) as connection:
        assert [("2",)] == connection.execute("SELECT value FROM bookings").fetchall()
