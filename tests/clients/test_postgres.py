"""A sink in PostgreSQL: a schema for each run, and a sentence for what goes wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from lab_utils.clients import postgres as sink
from lab_utils.clients.sinks import effects, open_sink, remove_left
from lab_utils.errors import BadArgument, LabError, LedgerError, SetupError
from lab_utils.machine.broker import free_ports
from tests.clients.postgres import PASSWORD, Server, needs_postgres
from tests.clients.test_sinks import Reached

TABLE = "CREATE TABLE IF NOT EXISTS bookings (value TEXT)"
INSERT = "INSERT INTO bookings VALUES (?)"

needs_server = [pytest.mark.kafka, needs_postgres]


def on_server(test: Callable[..., None]) -> Callable[..., None]:
    """Put the marks of what needs a server on a test."""
    for mark in needs_server:
        test = mark(test)
    return test


@pytest.fixture
def chosen(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, named by LAB_DATABASE."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url())
    return postgres


def book(folder: Path, schema: str, *values: str) -> None:
    """Leave these effects in the run's schema."""
    with open_sink(folder, Reached(), schema) as database:
        database.execute(TABLE)
        for value in values:
            database.execute(INSERT, [value])
    database.close()


def found(folder: Path, schema: str) -> list[str | None]:
    return [event.value for event in effects("r", folder, schema)]


def refused(schema: str = "lab_x") -> str:
    with pytest.raises(LabError) as raised:
        sink.open_postgres(schema, Reached())
    return str(raised.value)


@pytest.mark.parametrize(
    "sql",
    ["SELECT '?'", "SELECT 'it''s ?'", 'SELECT "?"', "SELECT 1 -- why?"],
    ids=["text", "quote in a text", "name", "comment"],
)
def test_question_mark_that_is_no_parameter(sql: str) -> None:
    """What is quoted, or a comment, stays as it is."""
    assert sql == sink.numbered(sql)


@pytest.mark.parametrize(
    "url",
    [
        "se,cret@127.0.0.1/orders",
        "mysql://learner:se,cret@127.0.0.1/orders",
        "postgresql://learner:se,c/ret@127.0.0.1/orders",
        "postgresql://learner:se,c#ret@127.0.0.1/orders",
        "postgresql://learner:se,c?ret@127.0.0.1/orders",
        "postgresql://learner:se,c%ret@127.0.0.1/orders",
        "postgresql://learner:se,c@ret@127.0.0.1/orders",
        "postgresql://learner:se,cret@127.0.0.1:port/orders",
        "postgresql://learner@127.0.0.1/orders?passwort=se,cret",
    ],
)
def test_address_that_is_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with an example of a good one, and is not repeated."""
    monkeypatch.setenv("LAB_DATABASE", url)
    with pytest.raises(BadArgument, match="LAB_DATABASE=postgresql://learner@") as raised:
        sink.open_postgres("lab_x", Reached())

    assert "se,c" not in str(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_answers(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place and the reason are named, and what can be done; the password is not."""
    (port,) = free_ports(1)
    monkeypatch.setenv("LAB_DATABASE", f"postgresql://learner:se,cret@{host}:{port}/orders")
    said = refused()

    assert f"the database 'orders' at {host}:{port} does not answer: Connection refused." in said
    assert "Start the server and run again; or unset LAB_DATABASE" in said
    assert "cret" not in said


@on_server
@pytest.mark.parametrize("password", ["wrong,one", None])
def test_wrong_password(
    password: str | None, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said that it was refused, and where to set it; it is not repeated."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url(password))
    said = refused()

    assert "'orders' at 127.0.0.1" in said
    assert "refused the password of 'learner'" in said
    assert "export PGPASSWORD" in said
    assert "wrong,one" not in said


@on_server
def test_password_of_the_environment(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address need not hold the password: PGPASSWORD does, as for psql."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url(password=None))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    book(tmp_path, "lab_env", "0")

    assert ["0"] == found(tmp_path, "lab_env")


@on_server
def test_no_such_database(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with the command that creates it."""
    monkeypatch.setenv("LAB_DATABASE", postgres.url(database="invoices"))

    assert "Create it: createdb invoices;" in refused()


@on_server
def test_may_not_make_a_schema(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement that allows it is in the message."""
    postgres.ask(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    monkeypatch.setenv("LAB_DATABASE", postgres.url().replace("learner", "guest"))
    with pytest.raises(SetupError, match="GRANT CREATE ON DATABASE orders TO guest"):
        sink.open_postgres("lab_x", Reached())


@on_server
def test_runs_do_not_meet(tmp_path: Path, chosen: Server) -> None:
    """Two runs have tables of one name; each sees its own, and leaves no schema behind."""
    runs = {"lab_one": "1", "lab_two": "2"}
    for schema, value in runs.items():
        (tmp_path / schema).mkdir()
        book(tmp_path / schema, schema, value)
    there = chosen.schemas()
    seen = {schema: found(tmp_path / schema, schema) for schema in runs}

    assert ["lab_one", "lab_two"] == there
    assert {"lab_one": ["1"], "lab_two": ["2"]} == seen
    assert [] == chosen.schemas()


@on_server
def test_a_run_without_a_sink_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process opened the sink no server is needed."""
    monkeypatch.setenv("LAB_DATABASE", "postgresql://learner@127.0.0.1:1/orders")

    assert [] == found(tmp_path, "lab_unused")


@on_server
def test_two_create_at_once(tmp_path: Path, chosen: Server) -> None:
    """Several processes make the same schema and the same table at the same time."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda value: book(tmp_path, "lab_many", value), "0123"))

    assert ["0", "1", "2", "3"] == sorted(filter(None, found(tmp_path, "lab_many")))


@on_server
def test_table_of_another_shape_is_kept(tmp_path: Path, chosen: Server) -> None:
    """The columns are named, and the schema in which the rows can still be read."""
    database = open_sink(tmp_path, Reached(), "lab_shape")
    with database:
        database.execute("CREATE TABLE bookings (name TEXT, amount INTEGER)")
        database.execute("INSERT INTO bookings VALUES ('0', 5)")
    database.close()
    with pytest.raises(LedgerError, match=r"only name, amount.* kept, in the schema lab_shape"):
        found(tmp_path, "lab_shape")

    assert [("0", 5)] == chosen.ask("SELECT * FROM lab_shape.bookings")
    sink.drop_schema("lab_shape")


@on_server
def test_what_a_killed_kernel_left(
    tmp_path: Path, chosen: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dropped by ./lab down where LAB_DATABASE is set; what was read is gone before."""
    for name in ("read", "left"):
        (tmp_path / "06" / name).mkdir(parents=True)
        book(tmp_path / "06" / name, f"lab_{name}", "0")
    assert ["0"] == found(tmp_path / "06" / "read", "lab_read")
    monkeypatch.delenv("LAB_DATABASE")
    assert [] == remove_left(tmp_path)
    monkeypatch.setenv("LAB_DATABASE", chosen.url())
    there = chosen.schemas()

    assert (["lab_left"], ["lab_left"], []) == (there, remove_left(tmp_path), remove_left(tmp_path))
    assert [] == chosen.schemas()


@on_server
def test_server_that_is_gone(tmp_path: Path, chosen: Server) -> None:
    """What was committed is not lost: it is read when the server is back."""
    book(tmp_path, "lab_gone", "0", "1")
    chosen.stop()
    try:
        with pytest.raises(LedgerError, match="still there, in the schema lab_gone") as raised:
            found(tmp_path, "lab_gone")
    finally:
        chosen.start()

    assert PASSWORD not in str(raised.value)
    assert ["0", "1"] == found(tmp_path, "lab_gone")


@on_server
def test_connection_that_breaks_in_a_block(tmp_path: Path, chosen: Server) -> None:
    """The block raises what broke it, and its writes are rolled back."""
    book(tmp_path, "lab_broken", "0")
    database = open_sink(tmp_path, Reached(), "lab_broken")
    others = "pg_stat_activity WHERE application_name = 'delivery-lab'"

    def breaks() -> None:
        with database:
            database.execute(INSERT, ["1"])
            chosen.ask(f"SELECT pg_terminate_backend(pid) FROM {others}")
            database.execute(INSERT, ["2"])

    with pytest.raises(psycopg.OperationalError, match="terminating"):
        breaks()
    database.close()

    assert ["0"] == found(tmp_path, "lab_broken")
