"""A sink is an engine whose commits are crash points and whose rows are effects, in both databases.

In PostgreSQL each run has a schema, and there is a sentence for what goes wrong with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, exc, text

from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.sinks import MARK, effects, open_sink, remove_left
from lab_utils.errors import BadArgument, LabError, LedgerError, LeftUnreadable, SetupError
from lab_utils.processes import free_ports
from tests.clients.postgres import PASSWORD, Server, needs_postgres

NO_KEY = "CREATE TABLE IF NOT EXISTS bookings (value TEXT)"
INSERT = "INSERT INTO bookings VALUES (:order)"
ZERO, ONE = (f"INSERT INTO bookings VALUES ('{order}')" for order in "01")
ONE_COMMIT = ["after_db_write", "before_db_commit", "committed", "after_db_commit"]
ITS_OWN_COMMIT = ["before_db_commit", "after_db_write", "committed", "after_db_commit"]
Values = Callable[[], Iterable[str | None]]
on_server = [pytest.mark.kafka, needs_postgres]


class Reached(CrashPoints):
    """Crash points that only say what was reached."""

    def __init__(self) -> None:
        self.points: list[str] = []
        self.about: list[str] = []

    def reached(self, point: str, values: Values = tuple) -> None:
        """Remember the point, and of a written row which orders it is about."""
        self.points.append(point)
        if point == "after_db_write":
            self.about.append(" ".join(sorted(map(str, values()))))


class Place:
    """Where a run keeps its effects: its folder, and a schema if it has one."""

    def __init__(self, folder: Path, schema: str = "") -> None:
        self.folder = folder
        self.schema = schema
        folder.mkdir(exist_ok=True, parents=True)

    def opened(self, *statements: str) -> tuple[Engine, list[str]]:
        """A sink in which these statements were executed, and the points that it reaches."""
        self.reached = Reached()
        points = self.reached.points
        sink = open_sink(self.folder, self.reached, self.schema, lambda: points.append("committed"))
        with sink.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))
        return sink, points

    def book(self, *values: str) -> None:
        """Leave these effects."""
        sink, _ = self.opened(NO_KEY)
        with sink.begin() as connection:
            connection.execute(text(INSERT), [{"order": value} for value in values])

    def found(self) -> list[tuple[Any, ...]]:
        """Its effects, once every process has ended."""
        events = effects("r", self.folder, self.schema)
        return [(event.kind, event.actor, event.value, event.records) for event in events]

    def booked(self) -> list[str]:
        """The values of its effects."""
        return [value for _, _, value, _ in self.found()]

    def refusal(self) -> str:
        """What is said when it cannot be opened."""
        with pytest.raises(LabError) as raised:
            self.opened()
        return str(raised.value)


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=on_server)])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """The same sink in either database."""
    if request.param == "SQLite":
        yield Place(tmp_path)
        return
    monkeypatch.setenv("LAB_DATABASE", request.getfixturevalue("postgres").url())
    yield Place(tmp_path / "01" / "run", f"lab_{tmp_path.name}".lower())
    remove_left(tmp_path)  # where a table had another shape it was kept


@pytest.fixture
def chosen(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, named by LAB_DATABASE."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url())
    return postgres


# what is executed in a block, the points that it reaches, and the orders that it leaves
BLOCKS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "two rows": ([ZERO, ONE], ["after_db_write", *ONE_COMMIT], ["0", "1"]),
    "a comment before it": ([f"-- an order\n{ZERO}"], ONE_COMMIT, ["0"]),
    "a WITH clause before it": (
        ["WITH new AS (SELECT '0' AS it) INSERT INTO bookings SELECT it FROM new"],
        ONE_COMMIT, ["0"],
    ),
    "a commit in words": ([ZERO, "-- it is done\nCOMMIT;", ONE], ONE_COMMIT * 2, ["0", "1"]),
    "nothing is written": (["SELECT value FROM bookings"], [], []),
}  # fmt: skip
# Without a transaction, a savepoint of SQLite's is one, and its release is the commit.
BLOCKS_IN_SQLITE: dict[str, tuple[list[str], list[str], list[str]]] = {
    "a savepoint that is a transaction": (
        ["SAVEPOINT a", "SAVEPOINT b", ZERO, "RELEASE b", ONE, "RELEASE SAVEPOINT a", ZERO],
        ["after_db_write", *ONE_COMMIT * 2], ["0", "1", "0"],
    ),
    "a savepoint within a transaction, of a name that was one": (
        ["SAVEPOINT it", "RELEASE it", ZERO, "SAVEPOINT it", "RELEASE it", ONE],
        ["after_db_write", *ONE_COMMIT], ["0", "1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "reached", "left"), BLOCKS.values(), ids=BLOCKS)
def test_block(place: Place, statements: list[str], reached: list[str], left: list[str]) -> None:
    """A block is one transaction, with a point at each write and on both sides of its commit.

    That it is committed is told before the point at which the process may end.
    """
    sink, points = place.opened(NO_KEY)
    with sink.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)

    assert (reached, left) == (points, place.booked())


@pytest.mark.parametrize(
    ("statements", "reached", "left"), BLOCKS_IN_SQLITE.values(), ids=BLOCKS_IN_SQLITE
)
def test_block_in_sqlite(tmp_path: Path, statements: Any, reached: Any, left: Any) -> None:
    """What no other database has."""
    test_block(Place(tmp_path), statements, reached, left)


@pytest.mark.parametrize(
    ("statements", "about"),
    [
        ([ZERO], ["0"]),
        (["INSERT INTO junk VALUES ('0')"], [""]),
        (["DELETE FROM bookings WHERE value = '0'"], [""]),
        (["INSERT INTO bookings VALUES ('old')"], [""]),
        (["INSERT INTO junk VALUES ('1')", "INSERT INTO bookings SELECT value FROM junk"],
         ["", "1"]),
    ],
)  # fmt: skip
def test_which_orders_a_written_row_is_about(
    place: Place, statements: list[str], about: list[str]
) -> None:
    """Those that have their first row in the table by it, whatever the statement names."""
    tables = (NO_KEY, "CREATE TABLE junk (value TEXT)")
    place.opened(*tables, "INSERT INTO bookings VALUES ('old')")
    place.opened(*statements)

    assert about == place.reached.about


def test_the_drivers_own_connection(place: Place) -> None:
    """A cursor of the driver has the points of SQLAlchemy's connection, and so has its commit.

    After a rollback nothing is left to be committed.
    """
    sink, points = place.opened(NO_KEY)
    raw = sink.raw_connection()
    raw.cursor().execute(ZERO)
    raw.rollback()
    raw.commit()
    raw.cursor().execute(ZERO)
    raw.commit()
    with raw.driver_connection as connection:
        connection.execute(ONE)

    assert (["after_db_write", *ONE_COMMIT * 2], ["0", "1"]) == (points, place.booked())


@pytest.mark.parametrize("is_closed_by_commit", [False, True])
def test_autocommit(place: Place, *, is_closed_by_commit: bool) -> None:
    """A write that commits itself has the points of a commit, one time, whatever follows it.

    It is about all that is in the table by then: nobody is told of an order sooner.
    """
    sink, points = place.opened(NO_KEY)
    alone = sink.execution_options(isolation_level="AUTOCOMMIT")
    with alone.begin() if is_closed_by_commit else alone.connect() as connection:
        connection.execute(text(INSERT), {"order": "0"})
        connection.execute(text("SELECT 1"))
        connection.execute(text(INSERT), {"order": "1"})

    assert (ITS_OWN_COMMIT * 2, ["0", "1"]) == (points, place.booked())
    assert ["0", "0 1"] == place.reached.about


def test_autocommit_of_the_driver(place: Place) -> None:
    """A driver's own switch does the same; Python 3.12 has it for SQLite."""
    sink, points = place.opened(NO_KEY)
    raw = sink.raw_connection()
    raw.driver_connection.autocommit = True
    raw.cursor().execute(ZERO)
    raw.close()

    assert ITS_OWN_COMMIT == points


@pytest.mark.parametrize("is_its_cursors", [False, True])
def test_a_script(tmp_path: Path, *, is_its_cursors: bool) -> None:
    """What SQLite is given as one text commits what it writes."""
    place = Place(tmp_path)
    sink, points = place.opened(NO_KEY)
    raw: Any = sink.raw_connection()
    given = raw.cursor() if is_its_cursors else raw.driver_connection
    given.executescript("BEGIN; INSERT INTO bookings VALUES ('0'); COMMIT;")
    raw.close()

    assert (ITS_OWN_COMMIT, ["0"]) == (points, place.booked())


@pytest.mark.parametrize(
    ("point", "left"),
    [("after_db_write", []), ("before_db_commit", []), ("after_db_commit", ["0"])],
)
def test_what_each_point_leaves(place: Place, point: str, left: list[str]) -> None:
    """Another connection sees the row at the point after the commit, and not before it."""
    place.opened(NO_KEY)
    seen: dict[str, list[str]] = {}

    class Looks(Reached):
        def reached(self, point: str, values: Values = tuple) -> None:
            with place.opened()[0].connect() as other:
                seen[point] = list(other.scalars(text("SELECT value FROM bookings")))

    with open_sink(place.folder, Looks(), place.schema).begin() as connection:
        connection.execute(text(INSERT), {"order": "0"})

    assert left == seen[point]


def test_block_that_raises(place: Place) -> None:
    """What a block wrote before it raised is rolled back, and its commit is not reached."""
    sink, points = place.opened("CREATE TABLE bookings (value TEXT PRIMARY KEY)")

    def books_twice() -> None:
        with sink.begin() as connection:
            connection.execute(text(INSERT), {"order": "0"})
            connection.execute(text(INSERT), {"order": "0"})

    with pytest.raises(exc.IntegrityError):
        books_twice()
    with sink.begin() as connection:
        connection.execute(text("SELECT 1"))

    assert (["after_db_write"], []) == (points, place.found())


# what is in the database, and how many effects each order has, in the sequence of their writes
EFFECTS: dict[str, tuple[tuple[str, ...], list[tuple[str, int]]]] = {
    "as many as a row says": (
        ("CREATE TABLE bookings (value TEXT PRIMARY KEY, times INTEGER)",
         "INSERT INTO bookings VALUES ('0', 2)"), [("0", 2)]),
    "a key does not sort them": (
        ("CREATE TABLE bookings (value TEXT PRIMARY KEY, note TEXT)",
         "INSERT INTO bookings (value) VALUES ('2'), ('0'), ('1')"),
        [("2", 1), ("0", 1), ("1", 1)]),
    "bookmarks that are kept beside them are none": (
        ("CREATE TABLE bookmarks (next INTEGER)", "INSERT INTO bookmarks VALUES (1)"), []),
}  # fmt: skip
EFFECTS_IN_SQLITE: dict[str, tuple[tuple[str, ...], list[tuple[str, int]]]] = {
    "no rowid, so no sequence": (
        ("CREATE TABLE bookings (value TEXT PRIMARY KEY) WITHOUT ROWID",
         "INSERT INTO bookings VALUES ('1'), ('0')"), [("0", 1), ("1", 1)]),
    "bytes that are no text are of no order": (
        ("CREATE TABLE bookings (value)", "INSERT INTO bookings VALUES (x'31'), (x'ff')"),
        [("1", 1), ("\\xff", 1)]),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "effects"), EFFECTS.values(), ids=EFFECTS)
def test_effects(place: Place, statements: Any, effects: Any) -> None:
    """Each row of the table is one, as the database has it."""
    place.opened(*statements)

    assert [("effect", "bookings", *effect) for effect in effects] == place.found()


@pytest.mark.parametrize(
    ("statements", "effects"), EFFECTS_IN_SQLITE.values(), ids=EFFECTS_IN_SQLITE
)
def test_effects_in_sqlite(tmp_path: Path, statements: Any, effects: Any) -> None:
    """What no other database has."""
    test_effects(Place(tmp_path), statements, effects)


MANY = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
    "SELECT i, {} FROM n"
)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (MANY.format(2000, "zeroblob(1000000)"), "too big"),
        (MANY.format(2000, "zeroblob(9000)"), "more than 10,000,000 characters"),
        ("SELECT 1, hex(zeroblob(400000)) LIKE '%' || substr(hex(zeroblob(20000)), 2) || 'x'",
         "too big"),
        ("SELECT 1, hex(zeroblob(4000)) LIKE '%' || substr(hex(zeroblob(1000)), 2) || 'x'",
         "too complex"),
    ],
    ids=["large", "many", "slow", "a long pattern"],
)  # fmt: skip
def test_a_view_that_makes_much(tmp_path: Path, made: str, reason: str) -> None:
    """What a workload calls its table fills no memory and no disk of whoever reads it, and ends."""
    place = Place(tmp_path)
    place.opened(f"CREATE VIEW bookings (rowid, value) AS {made}")
    started = time.monotonic()

    with pytest.raises(LedgerError, match=reason):
        place.found()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "columns",
    [f"value VARCHAR({'9' * 5000})", f'value TEXT{" " * 2500}, " " AS (substr(value, 1))'],
    ids=["a long number", "blanks"],
)
def test_a_table_that_takes_long_to_read_about(tmp_path: Path, columns: str) -> None:
    """Whatever its columns are called and said to be, it is a table like others."""
    place = Place(tmp_path)
    place.opened(f"CREATE TABLE bookings ({columns})", "INSERT INTO bookings (value) VALUES ('0')")
    started = time.monotonic()

    assert ["0"] == place.booked()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("columns", "row", "said"),
    [
        ("name TEXT, amount INTEGER", "'0', 1", "no column value, only name, amount"),
        ("value TEXT, times TEXT", "NULL, 1", "value None"),
        ("value TEXT, times TEXT", "'0', 'often'", "times 'often'"),
    ],
)
def test_another_shape(place: Place, columns: str, row: str, said: str) -> None:
    """What does not say which order a row is about is shown, not counted, and kept."""
    place.opened(f"CREATE TABLE bookings ({columns})", f"INSERT INTO bookings VALUES ({row})")

    kept = f"kept, in the schema {place.schema}" if place.schema else ""
    with pytest.raises(LeftUnreadable, match=f"{said}.*{kept}"):
        place.found()
    assert (place.folder / (MARK if place.schema else "sink.sqlite")).exists()


def test_two_create_at_once(place: Place) -> None:
    """Several processes make the same schema and the same table at the same time."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(place.book, "0123"))

    assert ["0", "1", "2", "3"] == sorted(place.booked())


def test_four_open_at_once(tmp_path: Path) -> None:
    """Whoever meets whom while a new file is switched to another journal, all get it."""
    together = Barrier(4)

    def open_it(place: Place) -> None:
        together.wait()
        place.opened()

    with ThreadPoolExecutor(4) as pool:
        for number in range(60):
            list(pool.map(open_it, [Place(tmp_path / str(number))] * 4))


def test_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose processes opened none has no effects, and no server is asked."""
    monkeypatch.setenv("LAB_DATABASE", "postgresql://learner@127.0.0.1:1/orders")

    assert [] == Place(tmp_path).found() + Place(tmp_path, "lab_unused").found()


def test_no_database_at_all(tmp_path: Path) -> None:
    """A file that is no database is named, when it is opened and when it is read."""
    (tmp_path / "sink.sqlite").write_text("this is no database, and it is long enough to be read")

    assert "sink.sqlite could not be opened: file is not a database" in Place(tmp_path).refusal()
    with pytest.raises(LedgerError, match=r"sink\.sqlite could not be read: file is not"):
        Place(tmp_path).found()


@pytest.mark.parametrize(
    "url",
    [
        "se,cret@127.0.0.1/orders",
        "mysql://learner:se,cret@127.0.0.1/orders",
        "postgresql://learner:se,c@ret@127.0.0.1/orders",
        "postgresql://learner:se,cret@127.0.0.1:port/orders",
        "postgresql://learner@127.0.0.1/orders?passwort=se,cret",
    ],
)
def test_address_that_is_none(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with an example of a good one, and is not repeated."""
    monkeypatch.setenv("LAB_DATABASE", url)
    with pytest.raises(BadArgument, match="LAB_DATABASE=postgresql://learner@") as raised:
        Place(tmp_path, "lab_x").opened()

    assert "se,c" not in str(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_answers(host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place and the reason are named, and what can be done; the password is not."""
    (port,) = free_ports(1)
    monkeypatch.setenv("LAB_DATABASE", f"postgresql://learner:se,cret@{host}:{port}/orders")
    said = Place(tmp_path, "lab_x").refusal()

    assert f"the database 'orders' at {host}:{port} does not answer: Connection refused." in said
    assert "Start the server and run again; or unset LAB_DATABASE" in said
    assert "cret" not in said


def url_of_a_guest(server: Server) -> str:
    """The address for one who may make no schema."""
    server.ask(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    return server.url().replace("learner", "guest")


PASSWORD_REFUSED = (
    r"'orders' at 127\.0\.0\.1.* refused the password of 'learner'.*export PGPASSWORD"
)
REFUSALS: dict[str, tuple[Callable[[Server], str], str]] = {
    "wrong password": (lambda server: server.url("wrong,one"), PASSWORD_REFUSED),
    "no password": (lambda server: server.url(None), PASSWORD_REFUSED),
    "a setting of libpq": (
        lambda server: f"{server.url()}?sslmode=require",
        "does not answer: server does not support SSL",
    ),
    "no such database": (
        lambda server: server.url(database="invoices"), "Create it: createdb invoices;",
    ),
    "no schema may be made": (url_of_a_guest, "GRANT CREATE ON DATABASE orders TO guest"),
}  # fmt: skip


@pytest.mark.kafka
@needs_postgres
class TestOnAServer:
    """What only a server can refuse, share or lose."""

    @pytest.mark.parametrize(("url", "said"), REFUSALS.values(), ids=REFUSALS)
    def test_refusals(
        self, url: Any, said: str, tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it refused is named, with what to do; the password is not repeated."""
        monkeypatch.setenv("LAB_DATABASE", url(postgres))
        with pytest.raises(SetupError, match=said) as raised:
            Place(tmp_path, "lab_x").opened()

        assert "wrong,one" not in str(raised.value)

    def test_password_of_the_environment(
        self, tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The address need not hold the password: PGPASSWORD does, as for psql."""
        monkeypatch.setenv("LAB_DATABASE", postgres.url(password=None))
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        place = Place(tmp_path, "lab_env")
        place.book("0")

        assert ["0"] == place.booked()

    def test_runs_do_not_meet(self, tmp_path: Path, chosen: Server) -> None:
        """Two runs have tables of one name; each sees its own, and leaves no schema behind."""
        places = [Place(tmp_path / name, f"lab_{name}") for name in ("one", "two")]
        for place in places:
            place.book(place.schema)

        assert ["lab_one", "lab_two"] == chosen.schemas()
        assert [["lab_one"], ["lab_two"]] == [place.booked() for place in places]
        assert [] == chosen.schemas()

    def test_what_a_killed_kernel_left(
        self, tmp_path: Path, chosen: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is dropped by ./lab down where LAB_DATABASE is set; what was read is gone before."""
        read, left = (Place(tmp_path / "06" / name, f"lab_{name}") for name in ("read", "left"))
        read.book("0")
        left.book("0")
        assert ["0"] == read.booked()
        monkeypatch.delenv("LAB_DATABASE")
        assert [] == remove_left(tmp_path)
        monkeypatch.setenv("LAB_DATABASE", chosen.url())

        assert ["lab_left"] == chosen.schemas()
        assert (["lab_left"], []) == (remove_left(tmp_path), remove_left(tmp_path))
        assert [] == chosen.schemas()

    def test_server_that_is_gone(self, tmp_path: Path, chosen: Server) -> None:
        """What was committed is not lost: it is read when the server is back."""
        place = Place(tmp_path / "06" / "a", "lab_gone")
        place.book("0", "1")
        chosen.stop()
        try:
            with pytest.raises(LedgerError, match="kept, in the schema lab_gone") as raised:
                place.found()
            with pytest.raises(LedgerError, match="DROP SCHEMA lab_gone CASCADE"):
                remove_left(tmp_path)
        finally:
            chosen.start()

        assert PASSWORD not in str(raised.value)
        assert ["0", "1"] == place.booked()

    def test_connection_that_breaks_in_a_block(self, tmp_path: Path, chosen: Server) -> None:
        """The block raises what broke it, and its writes are rolled back."""
        place = Place(tmp_path, "lab_broken")
        place.book("0")
        sink, _ = place.opened()
        others = "pg_stat_activity WHERE application_name = 'delivery-lab'"

        def breaks() -> None:
            with sink.begin() as connection:
                connection.execute(text(INSERT), {"order": "1"})
                chosen.ask(f"SELECT pg_terminate_backend(pid) FROM {others}")
                connection.execute(text(INSERT), {"order": "2"})

        with pytest.raises(exc.OperationalError, match="terminating"):
            breaks()
        with sink.begin() as connection:
            connection.execute(text(INSERT), {"order": "3"})

        assert ["0", "3"] == place.booked()
