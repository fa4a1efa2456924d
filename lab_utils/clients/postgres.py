"""A sink in PostgreSQL: one schema for each run, and a connection that sqlite3's program can use.

    LAB_DATABASE=postgresql://learner@127.0.0.1/orders      the password stands in PGPASSWORD

A write begins a transaction, as it does in sqlite3, and a question mark stands for a parameter; so
the same program has the same crash points in both databases. Neither the address nor a password
goes into a message, a ticket or the ledger: a process reads them from its own environment.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from lab_utils.clients.crash import CrashPoints
from lab_utils.errors import BadArgument, LabError, LedgerError, SetupError

if TYPE_CHECKING:
    import psycopg

VARIABLE: Final = "LAB_DATABASE"
CONNECT_S: Final = 5
LOCK_S: Final = 10
DEFAULT_PORT: Final = 5432
WRITES: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")
# Quoted text and comments are left alone; a question mark elsewhere is a parameter.
PARTS: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|(\?)")
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


def numbered(sql: str) -> str:
    """The statement with its question marks as PostgreSQL's own $1, $2, …

    >>> numbered("INSERT INTO bookings VALUES (?, 'why?', ?)")
    "INSERT INTO bookings VALUES ($1, 'why?', $2)"
    """
    marks = 0

    def number(part: re.Match[str]) -> str:
        nonlocal marks
        marks += part[1] is not None
        return f"${marks}" if part[1] else part[0]

    return PARTS.sub(number, sql)


class PostgresSink:
    """A connection to the run's schema whose writes and commits are crash points, as in SQLite.

    `connection` is psycopg's own, for whoever wants more than this.
    """

    def __init__(self, connection: psycopg.Connection[Any], crashes: CrashPoints) -> None:
        self.connection = connection
        self.crashes = crashes

    @property
    def in_transaction(self) -> bool:
        """Has something been written since the last commit?"""
        from psycopg.pq import TransactionStatus

        return self.connection.info.transaction_status != TransactionStatus.IDLE

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Execute one statement; a question mark stands for each parameter."""
        verb = sql.split(maxsplit=1)[0].upper() if sql.strip() else ""
        if verb == "CREATE" and not self.in_transaction:
            return _alone(self.connection, sql)
        if verb in WRITES:
            self._begin()
        cursor = self.connection.execute(numbered(sql).encode(), parameters or None)
        if verb in WRITES:
            self.crashes.reached("after_db_write")
        return cursor

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> psycopg.Cursor[Any]:
        """Execute one statement for each of these rows."""
        self._begin()
        cursor = self.connection.cursor()
        cursor.executemany(numbered(sql).encode(), rows)
        return cursor

    def commit(self) -> None:
        """Commit what has been written since the last commit."""
        is_open = self.in_transaction
        if is_open:
            self.crashes.reached("before_db_commit")
        self.connection.commit()
        if is_open:
            self.crashes.reached("after_db_commit")

    def rollback(self) -> None:
        """Take back what has been written since the last commit."""
        self.connection.rollback()

    def close(self) -> None:
        """Close the connection; what was not committed is rolled back."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Commit at the end of the block, or roll back if it raised."""
        if kind is None:
            self.commit()
            return
        import psycopg

        with suppress(psycopg.Error):  # a connection that broke has rolled back; say why it broke
            self.rollback()

    def __repr__(self) -> str:
        return f"<PostgresSink: {_where()}>"

    def _begin(self) -> None:
        if not self.in_transaction:
            self.connection.execute("BEGIN")


def open_postgres(schema: str, crashes: CrashPoints) -> PostgresSink:
    """A connection to the run's schema, which is made if it is not there; raises SetupError."""
    import psycopg

    connection = _connect()
    user = connection.info.user
    try:
        _alone(connection, f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        _enter(connection, schema)
    except psycopg.errors.InsufficientPrivilege:
        connection.close()
        raise SetupError(
            f"{user!r} may not make a schema in {_where()}, and each run has one of its own. Its "
            f"owner may allow it: GRANT CREATE ON DATABASE {_database()} TO {user}"
        ) from None
    except psycopg.Error as error:
        connection.close()
        raise SetupError(
            f"{_where()} was reached, and the run's schema could not be made there: "
            f"{_reason(error)}. Run again when it serves; or unset LAB_DATABASE."
        ) from None
    return PostgresSink(connection, crashes)


def read_table(schema: str, table: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the rows of a table of the run's schema; none if it is not there."""
    import psycopg

    try:
        with _connect() as connection:
            _enter(connection, schema)
            columns = connection.execute(
                "SELECT column_name::text FROM information_schema.columns "
                "WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position",
                [schema, table],
            ).fetchall()
            # In the order in which they lie: a table of the learner's may have no other.
            query = f'SELECT * FROM "{table}" ORDER BY ctid'  # noqa: S608
            rows = connection.execute(query.encode()).fetchall() if columns else []
            return [name for (name,) in columns], rows
    except (LabError, psycopg.Error) as error:
        said = str(error) if isinstance(error, LabError) else f"{_reason(error)}."
        raise LedgerError(
            f"the sink could not be read: {said} What it holds is still there, in the schema "
            f"{schema}; this run's effects are not known. Run again when the database answers."
        ) from None


def drop_schema(schema: str) -> None:
    """Remove the run's schema and all that is in it; raises LedgerError."""
    import psycopg

    statement = f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'
    try:
        with _connect() as connection:
            _enter(connection, schema)
            connection.execute(statement.encode())
    except (LabError, psycopg.Error) as error:
        said = str(error) if isinstance(error, LabError) else f"{_reason(error)}."
        raise LedgerError(
            f"the run's schema could not be removed: {said} Its effects have been recorded. "
            f"Remove it with: {statement}"
        ) from None


def _connect() -> psycopg.Connection[Any]:
    """A connection to the database of LAB_DATABASE; raises BadArgument or SetupError."""
    import psycopg

    url = _checked(os.environ.get(VARIABLE, ""))
    try:
        return psycopg.Connection.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_S,
            application_name="delivery-lab",
            cursor_factory=psycopg.RawCursor,
        )
    except psycopg.OperationalError as error:
        raise SetupError(_refusal(error)) from None


def _enter(connection: psycopg.Connection[Any], schema: str) -> None:
    """Names mean the run's own tables; a commit is on the disk; nothing is waited for for ever."""
    connection.execute(f'SET search_path TO "{schema}"'.encode())
    connection.execute("SET synchronous_commit TO on")
    connection.execute(f"SET lock_timeout TO '{LOCK_S}s'".encode())


def _alone(connection: psycopg.Connection[Any], statement: str) -> psycopg.Cursor[Any]:
    """Execute it while no other run does: IF NOT EXISTS is not enough where two create at once."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('delivery-lab'))")
        return connection.execute(statement.encode())


def _checked(url: str) -> str:
    """The address, if it is one that says what was meant; a message never repeats it."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("postgresql", "postgres") and not parts.fragment
        parts.port  # noqa: B018 - raises if it is no number
        conninfo_to_dict(url)
    except (ValueError, psycopg.Error):
        is_sound = False
    if not is_sound:
        raise BadArgument(f"LAB_DATABASE is no address of a PostgreSQL database. {EXAMPLE}")
    if "@" in parts.netloc.rpartition("@")[0]:
        raise BadArgument(
            f"the password in LAB_DATABASE has a character that ends it too soon. {EXAMPLE}"
        )
    return url


def _parameters() -> dict[str, Any]:
    from psycopg.conninfo import conninfo_to_dict

    return dict(conninfo_to_dict(os.environ[VARIABLE]))


def _database() -> str:
    return str(_parameters().get("dbname") or _parameters().get("user") or "")


def _where() -> str:
    """The database in words, without the password."""
    given = _parameters()
    port = given.get("port") or os.environ.get("PGPORT") or DEFAULT_PORT
    host = given.get("host") or os.environ.get("PGHOST") or "the local socket"
    return f"the database {_database()!r} at {host}:{port}"


def _refusal(error: psycopg.Error) -> str:
    """Why there is no connection: what, why, and the next command."""
    said = str(error)
    user = _parameters().get("user") or os.environ.get("PGUSER") or "the user"
    if "password" in said:
        return (
            f"{_where()} refused the password of {user!r}. Nothing was written there. Set it "
            "where the lab is started: ./lab down; export PGPASSWORD=…; ./lab up"
        )
    if "does not exist" in said:
        return (
            f"{_where()} does not know that database or that user: {_reason(error)}. Nothing was "
            f"written there. Create it: createdb {_database()}; or mend LAB_DATABASE."
        )
    return (
        f"{_where()} does not answer: {_reason(error)}. Nothing was written there, and the orders "
        "are still in their topic. Start the server and run again; or unset LAB_DATABASE, and the "
        "sink is SQLite."
    )


def _reason(error: BaseException) -> str:
    """What the server or the client library said, unless a password is in it."""
    # One line for each address that a host's name stands for: the first that says why is enough.
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = next((each for each in lines if "failed: " in each), lines[0])
    reason = line.rpartition("failed: ")[2].removeprefix("FATAL:").removeprefix("ERROR:")
    passwords = filter(None, [_parameters().get("password"), os.environ.get("PGPASSWORD")])
    if any(str(password) in reason for password in passwords):
        return type(error).__name__
    return reason.strip().rstrip(".")
