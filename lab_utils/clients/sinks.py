"""The sink: the database of a run, in which the work for an order leaves its effect.

    the workload ── SQL of its own ──▶ sink.sqlite ── read when the run is over ──▶ effect events
                                  └──▶ a schema in PostgreSQL, if LAB_DATABASE names one ──▲

    LAB_DATABASE=postgresql://learner@127.0.0.1/orders      the password is in PGPASSWORD

Both are SQLAlchemy engines; writes and commits of their connections are crash points. A row of the
table `bookings` is an effect of the order in its column `value`, or as many as its column `times`
says. Which commit of SQLite's booked an order is read from its write-ahead log, beside the process.
Neither the address nor a password goes into a message, a ticket or the ledger.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import sqlite3
import struct
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from lab_utils.errors import BadArgument, LedgerError, LeftUnreadable, SetupError
from lab_utils.ledger.events import Event, value_text

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

    from lab_utils.clients.crash import CrashPoints

FILE: Final = "sink.sqlite"
LOG: Final = f"{FILE}-wal"
# Of the log (sqlite.org/walformat.html): the file's header, a frame's, and what they hold.
LOG_HEADER: Final = struct.Struct(">8xL4x8s8x")
FRAME_HEADER: Final = struct.Struct(">4xL8s8x")
# A longer log may have been copied into the database in part, and cannot be cut.
FRAMES_MAX: Final = 1000
# No run has more effects, no text in its database is longer, and none takes longer to be read.
ROWS_MAX: Final = 100_000
TEXT_MAX: Final = 10_000
TEXTS_MAX: Final = 10_000_000  # of all effects together
PATTERN_MAX: Final = 100  # of LIKE and GLOB
READ_S: Final = 10
LOOK_STEPS: Final = 100  # of SQLite's machine, between two looks at the clock
MARK: Final = "sink.postgres"  # the name of the schema that this run has
TABLE: Final = "bookings"
VARIABLE: Final = "LAB_DATABASE"
CONNECT_S: Final = 5
LOCK_S: Final = 10
COMMITS: Final = (["COMMIT"], ["END"])
OUTSIDE: Final = 0  # of a transaction, as libpq says it
WRITES: Final = ("INSERT", "UPDATE", "REPLACE", "DELETE", "MERGE")
# The sequence in which the rows lie: a table of the learner's may have no other.
ROW: Final = {"sqlite": "rowid", "postgresql": "ctid"}
NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
HAS_VALUES: Final = {
    "sqlite": "SELECT 1 FROM pragma_table_info('bookings') WHERE name = 'value'",
    "postgresql": "SELECT 1 FROM information_schema.columns WHERE column_name = 'value'"
    " AND table_name = 'bookings' AND table_schema = current_schema()",
}
INSUFFICIENT_PRIVILEGE: Final = "42501"
EXAMPLE: Final = (
    "Write it as in LAB_DATABASE=postgresql://learner@127.0.0.1:5432/orders, with the password in "
    "PGPASSWORD; or unset it, and the sink is SQLite."
)


def is_chosen() -> bool:
    """Does LAB_DATABASE name a database?"""
    return bool(os.environ.get(VARIABLE))


def new_schema(run: str) -> str:
    """A name for the schema of a run, which no run of another machine has."""
    return f"lab_{run.lower().replace('-', '_')}_{secrets.token_hex(4)}"


def open_sink(
    folder: Path,
    crashes: CrashPoints,
    schema: str = "",
    tell_commit: Callable[[], object] = lambda: None,
) -> Engine:
    """The run's database; the same one for each process of the run, in any thread.

    `tell_commit` is called after each commit of something written.

    `schema` is the run's in PostgreSQL, which is made if it is not there; without one, the
    database is a file of the run's folder. Raises BadArgument or SetupError.
    """
    from sqlalchemy import event, exc
    from sqlalchemy.schema import CreateSchema

    engine = _engine(folder, schema)
    booked = partial(_booked, _engine(folder, schema))
    recorded = _recorded(engine, _Points(crashes, tell_commit, booked))

    @event.listens_for(engine, "do_connect")
    def connect(_: object, __: object, given: list[Any], settings: dict[str, Any]) -> Any:
        return recorded(*given, **settings)

    @event.listens_for(engine, "before_cursor_execute")
    def executed(_: object, cursor: Any, statement: str, *__: object) -> None:
        # PostgreSQL's IF NOT EXISTS fails where two processes create the same thing at once.
        if schema and statement.lstrip().upper().startswith("CREATE"):
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('delivery-lab'))")

    try:
        with engine.begin() as connection:
            if schema:
                connection.execute(CreateSchema(schema, if_not_exists=True))
                (folder / MARK).write_text(schema)
            else:
                _write_ahead(connection, folder)
    except exc.DBAPIError as error:
        engine.dispose()
        raise SetupError(_refusal(engine.url, error)) from None
    return engine


@dataclass(frozen=True, slots=True)
class _Points:
    """The points around what a driver's connection writes and commits."""

    crashes: CrashPoints
    tell_commit: Callable[[], object]
    booked: Callable[[Any], set[str]]

    @contextmanager
    def commit(self, connection: Any, *, is_one: bool) -> Iterator[None]:
        """Around what commits, if it is a commit of something written."""
        if is_one:
            self.crashes.reached("before_db_commit")
        yield
        connection.has_written = False
        if is_one:
            self.tell_commit()
            self.crashes.reached("after_db_commit")

    @contextmanager
    def statement(self, connection: Any, text: str) -> Iterator[None]:
        """Around a statement that a cursor performs: it may write, commit, or both."""
        it_writes, words = writes(text), _words(text)
        is_alone = it_writes and connection.commits_itself()
        is_commit = words[:1] in COMMITS or (
            words[:1] == ["RELEASE"] and words[-1] == connection.savepoint
        )
        # SQLite's begins a transaction where there is none, and its release commits that.
        if not getattr(connection, "in_transaction", True):
            connection.savepoint = words[-1] if words[:1] == ["SAVEPOINT"] else ""
        ends = is_alone or (connection.has_written and is_commit)
        with self.commit(connection, is_one=True) if ends else nullcontext():
            yield
            if it_writes:
                self.written(connection, is_safe=is_alone)
                connection.has_written = True

    @contextmanager
    def script(self, connection: Any, text: str) -> Iterator[None]:
        """Around a script of SQLite's: it commits what is open, and then what it writes."""
        it_writes = any(map(writes, text.split(";")))
        with self.commit(connection, is_one=it_writes or connection.has_written):
            yield
            if it_writes:
                self.written(connection, is_safe=True)

    def written(self, connection: Any, *, is_safe: bool) -> None:
        """After a statement that writes: about the rows that nobody else has yet, or about all."""

        def about() -> set[str]:
            return self.booked(connection) - (set() if is_safe else self.booked(None))

        self.crashes.reached("after_db_write", about)


def _recorded(engine: Engine, points: _Points) -> Callable[..., Any]:
    """What connects with the engine's driver; the points are those of the driver's connections.

    So they are reached whatever is laid over the driver: SQLAlchemy, or a cursor of
    `engine.raw_connection()`.
    """
    driver: Any = engine.dialect.loaded_dbapi
    is_sqlite = engine.dialect.name == "sqlite"
    base: Any = sqlite3 if is_sqlite else driver

    class Connection(base.Connection):  # type: ignore[misc]  # of either driver
        has_written = False
        savepoint = ""

        def cursor(self, *given: Any, **settings: Any) -> Any:
            if is_sqlite and not given:
                settings = {"factory": Cursor} | settings
            return super().cursor(*given, **settings)

        # SQLite's own take no notice of cursor().
        def execute(self, *given: Any, **settings: Any) -> Any:
            return self.cursor().execute(*given, **settings)

        def executemany(self, *given: Any, **settings: Any) -> Any:
            return self.cursor().executemany(*given, **settings)

        def executescript(self, script: str) -> Any:
            return self.cursor().executescript(script)

        def commit(self) -> None:
            with points.commit(self, is_one=self.has_written):
                super().commit()

        def rollback(self) -> None:
            self.has_written = False
            super().rollback()

        def __exit__(self, kind: Any, *raised: Any) -> Any:
            if not is_sqlite:
                return super().__exit__(kind, *raised)
            return self.commit() if kind is None else self.rollback()

        def commits_itself(self) -> bool:
            """Is a statement a transaction of its own now, which no commit follows?"""
            if is_sqlite:
                # Of Python 3.12 and later, where isolation_level has no say then.
                is_on = getattr(self, "autocommit", None) is True
                return (is_on or self.isolation_level is None) and not self.in_transaction
            return bool(self.autocommit) and self.info.transaction_status == OUTSIDE

    class Cursor(base.Cursor):  # type: ignore[misc]
        def execute(self, statement: Any, *given: Any, **settings: Any) -> Any:
            with points.statement(self.connection, str(statement)):
                return super().execute(statement, *given, **settings)

        def executemany(self, statement: Any, rows: Any, **settings: Any) -> Any:
            with points.statement(self.connection, str(statement)):
                return super().executemany(statement, rows, **settings)

        def executescript(self, script: str) -> Any:
            with points.script(self.connection, script):
                return super().executescript(script)

    if is_sqlite:
        return partial(sqlite3.connect, factory=Connection)
    return partial(Connection.connect, cursor_factory=Cursor)


def _booked(engine: Engine, connection: Any) -> set[str]:
    """The values in the table, as a driver's connection sees them; as any other does if None."""
    if connection is None:
        with closing(engine.raw_connection()) as other:
            return _booked(engine, other.driver_connection)
    driver: Any = engine.dialect.loaded_dbapi
    with suppress(driver.Error), closing(driver.Cursor(connection)) as cursor:
        if isinstance(cursor, sqlite3.Cursor):
            cursor.row_factory = None  # the connection's may be a learner's
        # In PostgreSQL a table that is not there would end the transaction.
        if cursor.execute(HAS_VALUES[engine.dialect.name]).fetchall():
            rows = cursor.execute(f"SELECT value FROM {TABLE}").fetchall()  # noqa: S608
            return {value_text(row[0]) or "" for row in rows}
    return set()


def writes(statement: str) -> bool:
    """Does this statement write? Comments may come before its verb, and a WITH clause.

    >>> writes("/* book it */ WITH new AS (SELECT 1) INSERT INTO bookings SELECT * FROM new")
    True
    >>> writes("SELECT replace(value, 'INSERT', '') FROM bookings")
    False
    """
    said = _words(statement)
    return bool(said) and (
        said[0] in WRITES or (said[0] == "WITH" and not set(WRITES).isdisjoint(said))
    )


def _words(statement: str) -> list[str]:
    """The words of a statement, without its comments."""
    return re.sub(r"--.*|/\*(?s:.*?)\*/|;", " ", statement).upper().split()


def _write_ahead(connection: Connection, folder: Path) -> None:
    """Let readers not wait for writers, from now on in every connection to this file.

    A commit is on the disk when it returns: FULL is SQLite's own default.
    """
    place = os.open(folder, os.O_RDONLY)
    try:
        # Two that switch at once both read the file and both want it alone: SQLite refuses one of
        # them at once, whatever its time-out, because neither could ever go on.
        fcntl.flock(place, fcntl.LOCK_EX)
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    finally:
        os.close(place)


def effects(run: str, folder: Path, schema: str = "") -> Iterator[Event]:
    """The effects that the run left in its database, if it has one; raises LedgerError.

    A schema in PostgreSQL is dropped when its effects have been taken, and kept if they cannot be.
    """
    from sqlalchemy import exc

    if not (folder / (MARK if schema else FILE)).exists():
        return
    kept = f" The table is kept, in the schema {schema}, until ./lab down." if schema else ""
    try:
        engine = _engine(folder, schema)
        columns, rows = _read_table(engine)
    except (exc.DBAPIError, BadArgument) as error:
        # A file has nobody but the workload that could make it so.
        kind = LedgerError if schema else LeftUnreadable
        raise kind(
            f"the sink {schema or FILE} could not be read: {_reason(error)}. What it holds is still"
            " there, but the effects of this run are not known. Run again when the database answers"
            f" and every connection to it is closed.{kept}"
        ) from None
    if columns and "value" not in columns:
        raise LeftUnreadable(
            f"the table {TABLE} has no column value, only {', '.join(columns)}. Each row is an "
            f"effect of one order, and value says which order. Rename the column.{kept}"
        )
    for row in rows:
        value, times = row["value"], row.get("times", 1)
        if value is None or not isinstance(times, int):
            raise LeftUnreadable(
                f"the table {TABLE} has a row with value {value!r} and times {times!r}. Each row "
                "is an effect of one order: value is its text, and times, if there is such a "
                f"column, a whole number. Fix the statement that writes it.{kept}"
            )
        yield Event(
            run=run, source="sink", actor=TABLE, kind="effect", value=value_text(value),
            records=times, detail={"database": NAMES[engine.dialect.name]},
        )  # fmt: skip
    if schema:
        _drop(folder / MARK)


def log_before(order: str, database: bytes, log: bytes) -> int | None:
    """How long SQLite's log was before the commit in it that booked this order, in bytes.

    None if no commit in it did. To cut the log there is to undo that commit and all after it, as if
    the power had gone. Raises LedgerError if the table cannot be read.
    """
    ends = _commits(log)
    # It may have to be read at each of a thousand commits, and a learner's view takes its time.
    first = bisect_left(ends, True, key=lambda end: order in booked(database, log[:end]))
    return ends[first - 1] if 0 < first < len(ends) else None


def _commits(log: bytes) -> list[int]:
    """Where the log ends with no commit, and after each: a frame that says how large all is now."""
    ends = [0]
    if len(log) < LOG_HEADER.size:
        return ends
    page_bytes, salt = LOG_HEADER.unpack_from(log)
    frame_bytes = FRAME_HEADER.size + page_bytes
    frames = range(LOG_HEADER.size, len(log) - frame_bytes + 1, frame_bytes)
    for place in frames[:FRAMES_MAX]:
        pages, own_salt = FRAME_HEADER.unpack_from(log, place)
        if own_salt != salt:  # of an earlier log
            break
        if pages:
            ends.append(place + frame_bytes)
    return ends if len(frames) < FRAMES_MAX else []


def booked(database: bytes, log: bytes) -> set[str | None]:
    """The orders that have a row in the table of this database; raises LedgerError."""
    with TemporaryDirectory(prefix="lab-sink-") as name:
        (Path(name) / FILE).write_bytes(database)
        (Path(name) / LOG).write_bytes(log)
        return {it.value for it in effects("", Path(name)) if it.records}


def remove_left(runs: Path) -> list[str]:
    """Drop the schemas of runs that are over and whose effects nobody took; return their names.

    A kernel that is killed leaves one, and so does a table that could not be read. Where
    LAB_DATABASE is not set they stay. Raises LedgerError.
    """
    return sorted(_drop(mark) for mark in runs.glob(f"*/*/{MARK}")) if is_chosen() else []


def _drop(mark: Path) -> str:
    """Remove the schema that a run has, and all that is in it; raises LedgerError."""
    from sqlalchemy import exc
    from sqlalchemy.schema import DropSchema

    schema = mark.read_text()
    try:
        with _engine(mark.parent, schema).begin() as connection:
            connection.execute(DropSchema(schema, cascade=True, if_exists=True))
    except (exc.DBAPIError, BadArgument) as error:
        raise LedgerError(
            f"the schema {schema} of a run could not be removed: {_reason(error)}. Nothing needs it"
            f" any more. Remove it with: DROP SCHEMA {schema} CASCADE"
        ) from None
    mark.unlink()
    return schema


def _read_table(engine: Engine) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns and the rows of the table; none if it is not there."""
    from sqlalchemy import inspect, text

    name = engine.dialect.name
    with engine.connect() as connection:
        if name == "sqlite":
            _bound(connection.connection.driver_connection)
        if not inspect(connection).has_table(TABLE):
            return [], []
        # Not get_columns(): that takes a learner's CREATE TABLE apart with regular expressions, and
        # one of 2,000 characters held up the whole process for 36 s.
        columns = list(connection.execute(text(f"SELECT * FROM {TABLE} LIMIT 0")).keys())  # noqa: S608
        asked = ", ".join(each for each in ("value", "times") if each in columns)
        if "value" not in columns:
            return columns, []
        order = f"ORDER BY {ROW[name]}" if _has(connection, ROW[name]) else ""
        query = f"SELECT {asked} FROM {TABLE} {order} LIMIT {ROWS_MAX}"  # noqa: S608
        rows, length = list[dict[str, Any]](), 0
        for row in connection.execute(text(query)).mappings():
            rows.append(dict(row))
            if (length := length + len(str(row["value"]))) > TEXTS_MAX:
                raise BadArgument(f"its effects have more than {TEXTS_MAX:,} characters")
        return columns, rows


def _has(connection: Connection, column: str) -> bool:
    """Has the table this column of the database's own? No view has, and none WITHOUT ROWID."""
    from sqlalchemy import exc, text

    with suppress(exc.DBAPIError), connection.begin_nested():
        connection.execute(text(f"SELECT {column} FROM {TABLE} LIMIT 0"))  # noqa: S608
        return True
    return False


def _bound(connection: Any) -> None:
    """Bound what SQLite does, for a workload's table may be a view, which never ends or makes much.

    It looks at the clock between two steps, and one step may compare or make as much as it may.
    """
    deadline = time.monotonic() + READ_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline, LOOK_STEPS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, TEXT_MAX)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_MAX)


def _engine(folder: Path, schema: str) -> Engine:
    """An engine whose tables are those of this run; no connection is kept when it is not used."""
    from sqlalchemy import URL, NullPool, create_engine

    if not schema:
        url, settings = URL.create("sqlite", database=str(folder / FILE)), {"timeout": LOCK_S}
        return create_engine(url, connect_args=settings, poolclass=NullPool)
    options = f"-csearch_path={schema} -csynchronous_commit=on -clock_timeout={LOCK_S}s"
    given = {"options": options, "connect_timeout": CONNECT_S, "application_name": "delivery-lab"}
    return create_engine(_address(), connect_args=given, poolclass=NullPool)


def _address() -> URL:
    """The address that LAB_DATABASE holds; raises BadArgument, which never repeats it."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo
    from sqlalchemy import exc, make_url

    try:
        url = make_url(os.environ.get(VARIABLE, ""))
        query: dict[str, Any] = dict(url.query)
        make_conninfo(**query)
        is_sound = url.drivername in ("postgresql", "postgres")
    except (exc.ArgumentError, ValueError, ProgrammingError):
        is_sound = False
    if not is_sound:
        raise BadArgument(f"LAB_DATABASE is no address of a PostgreSQL database. {EXAMPLE}")
    if "@" in (url.host or ""):
        raise BadArgument(f"a password with @ in LAB_DATABASE ends too soon. {EXAMPLE}")
    return url.set(drivername="postgresql+psycopg")


def _refusal(url: URL, error: BaseException) -> str:
    """Why there is no sink: what, why, and the next command."""
    said, reason = str(error), _reason(error)
    user = url.username or os.environ.get("PGUSER") or "the user"
    host, port = url.host or os.environ.get("PGHOST"), url.port or os.environ.get("PGPORT") or 5432
    name = url.database or os.environ.get("PGDATABASE") or user
    where = f"the database {name!r} at {host or 'the local socket'}:{port}"
    if url.drivername == "sqlite":
        return f"the sink {url.database} could not be opened: {reason}. Run the cell again."
    if getattr(getattr(error, "orig", None), "sqlstate", None) == INSUFFICIENT_PRIVILEGE:
        return (
            f"{user!r} may not make a schema in {where}, and each run has one of its own. The "
            f"owner may allow it: GRANT CREATE ON DATABASE {name} TO {user}"
        )
    if "password" in said:
        return (
            f"{where} refused the password of {user!r}. Nothing was written there. Set it where "
            "the lab is started: ./lab down; export PGPASSWORD=…; ./lab up"
        )
    if "does not exist" in said:
        return (
            f"{where} does not know that database or that user: {reason}. Nothing was written "
            f"there. Create it: createdb {name}; or fix LAB_DATABASE."
        )
    return (
        f"{where} does not answer: {reason}. Nothing was written there, and the orders are still "
        "in their topic. Start the server and run again; or unset LAB_DATABASE, and the sink is "
        "SQLite."
    )


def _reason(error: BaseException) -> str:
    """What the server or the client library said, unless a password is in it."""
    # One line for each address that a host's name stands for: the first that says why is enough.
    said = str(getattr(error, "orig", None) or error).strip()
    lines = said.splitlines() or [type(error).__name__]
    line = next((each for each in lines if "failed: " in each), lines[0])
    reason = line.rpartition("failed: ")[2].removeprefix("FATAL:").removeprefix("ERROR:")
    secret = _address().password if is_chosen() and not isinstance(error, BadArgument) else None
    passwords = filter(None, [secret, os.environ.get("PGPASSWORD")])
    if any(str(password) in reason for password in passwords):
        return type(error).__name__
    return reason.strip().rstrip(".")
