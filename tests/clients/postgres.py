"""A real PostgreSQL: the programs of Debian's package, on a cluster of the tests' own.

The server refuses to run as root, so as root it runs as an unprivileged user. It ends with the
tests also when they are killed: a shell waits on a pipe of theirs, and stops it when that closes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from lab_utils.errors import WaitTimeout
from lab_utils.processes import free_ports
from lab_utils.waiting import wait_until
from tests.called import call

PASSWORD: Final = "open%se/sa#me?"  # stands in an address as it is
UNPRIVILEGED: Final = "nobody"
START_S: Final = 30
END_S: Final = 20
# A fast shutdown: everybody is disconnected, and what was committed stays.
ENDS_WITH_US: Final = '"$@" </dev/null & server=$!; cat; kill -INT $server; wait $server'


def programs() -> Path | None:
    """The folder with initdb and postgres, the newest there is; None without one."""
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda it: float(it.parts[-3])
    )
    found = shutil.which("initdb") or (installed[-1] if installed else None)
    return Path(found).resolve().parent if found else None


is_lacking = programs() is None
needs_postgres = pytest.mark.skipif(is_lacking, reason="not here, but .ci/run installs postgresql")


class Server:
    """A server with the database `orders`, whose owner is `learner`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lab-postgres-"))
        (self.port,) = free_ports(1)
        self._as: dict[str, Any] = {"cwd": self.folder, "start_new_session": True}
        if os.geteuid() == 0:
            account = pwd.getpwnam(UNPRIVILEGED)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, password: str | None = PASSWORD, database: str = "orders") -> str:
        """The address for LAB_DATABASE."""
        secret = "" if password is None else f":{password}"
        return f"postgresql://learner{secret}@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        """Make the cluster and its database, and start the server."""
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)  # the folder is closed to others
        self._call(
            "initdb", "--username=learner", f"--pwfile={secret}", "--auth=scram-sha-256",
            "--encoding=UTF8", "--locale=C", "--no-sync", f"--pgdata={self.folder}/data",
        )  # fmt: skip
        self.start()
        self.ask("CREATE DATABASE orders", database="postgres")

    def start(self) -> None:
        """Start the server; return when it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "sh", "-c", ENDS_WITH_US, "sh", self._program("postgres"),
                    "-D", self.folder / "data", "-p", str(self.port),
                    "-k", self.folder, "-c", "listen_addresses=127.0.0.1",
                ],
                stdin=subprocess.PIPE, stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        try:
            wait_until(self._answers, "PostgreSQL to answer", timeout_s=START_S)
        except WaitTimeout as error:
            self.stop()
            raise AssertionError((self.folder / "log").read_text()[-2000:]) from error

    def stop(self) -> None:
        """Disconnect everybody and end the server."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def remove(self) -> None:
        """End the server and remove its data."""
        self.stop()
        shutil.rmtree(self.folder)

    def ask(self, query: str, database: str = "orders") -> list[tuple[Any, ...]]:
        """The rows that a statement returns."""
        with self._connection(database) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def schemas(self) -> list[str]:
        """The schemas of runs that are there now."""
        query = r"SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lab\_%' ORDER BY 1"
        return [name for (name,) in self.ask(query)]

    def _answers(self) -> bool:
        try:
            self._connection("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _connection(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="learner", password=PASSWORD, dbname=database,
            connect_timeout=2, autocommit=True,
        )  # fmt: skip

    def _call(self, program: str, *arguments: str) -> None:
        done = call([self._program(program), *arguments], **self._as)
        assert done.returncode == 0, done.stdout + done.stderr

    def _program(self, name: str) -> Path:
        folder = programs()
        assert folder is not None
        return folder / name
