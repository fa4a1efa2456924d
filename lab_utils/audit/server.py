"""The shared Spark server, as those see it who join it: one JVM for all notebooks of one state.

    notebook ──╮                        ╭─ spark/server.json   address and token, 0600
    notebook ──┼─ Spark Connect ─▶ JVM ◀┤  keeper.py, a process: starts, watches and ends the JVM
    grader   ──╯                        ╰─ spark/users/PID     who has joined

PySpark's own spark.local.connect.reuse does the same, but its server outlives everybody.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab_utils.errors import StageError, WaitTimeout
from lab_utils.folders import state_folder
from lab_utils.waiting import wait_until

MAIN_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_TIMEOUT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Server:
    """A Spark server that answers: where, with which token, and its processes."""

    url: str
    token: str
    pid: int
    keeper: int

    @property
    def address(self) -> str:
        """What a Spark Connect client is given."""
        return f"{self.url}/;token={self.token}"

    def is_alive(self) -> bool:
        """Do both of its processes exist?

        A container that is started again gives its processes the numbers of the last time.
        """
        return _is_spark(self.pid) and is_running(self.keeper)


def spark_folder() -> Path:
    """The folder of the shared server of this state folder; it is gone when the server is."""
    return state_folder() / "spark"


def join(
    master: str, folder: Path | None = None, *, meanwhile: Callable[[], object] = lambda: None
) -> Server:
    """Join the server of this state folder; start it if there is none. Several may call at once.

    `meanwhile` is called while Spark starts. Raises StageError with the end of Spark's log.
    """
    folder = folder or spark_folder()
    found = running(folder)
    if found is None:
        keeper = _start_keeper(folder, master)
        meanwhile()
        try:
            wait_until(
                lambda: running(folder) or keeper.poll() is not None,
                "Spark to start",
                timeout_s=START_TIMEOUT_S,
                every_s=0.05,
            )
        except WaitTimeout as error:
            keeper.terminate()
            raise StageError(f"{error} {_log_tail(folder)}") from None
        found = running(folder)
    if found is None:
        raise StageError(f"Spark did not start. Run ./lab doctor. {_log_tail(folder)}")
    with suppress(FileNotFoundError):
        (folder / "users" / str(os.getpid())).touch(mode=0o600)
    return found


def running(folder: Path) -> Server | None:
    """The server of this folder, if there is one that lives."""
    try:
        server = Server(**json.loads((folder / "server.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return server if server.is_alive() else None


def stop(folder: Path | None = None) -> bool:
    """End the server of this state folder and wait until nothing of it is left."""
    folder = folder or spark_folder()
    keeper = _keeper_pid(folder)
    if keeper is not None and is_running(keeper):
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGTERM)
        wait_until(lambda: not is_running(keeper), "the Spark server to end", timeout_s=20)
    # What a keeper that was killed could not end and remove.
    _end_orphan(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return keeper is not None


def is_running(pid: int) -> bool:
    """Is there such a process, and is it more than the memory of one that ended?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def _start_keeper(folder: Path, master: str) -> subprocess.Popen[bytes]:
    """Start the keeper in a session of its own: Ctrl-C in one notebook must not end it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    with (folder / "keeper.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lab_utils.audit.keeper", str(folder), master],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
        )


def _log_tail(folder: Path, lines: int = 5) -> str:
    """The last lines of the logs, for an error message."""
    texts = [
        (folder / name).read_text(encoding="utf-8", errors="replace")
        for name in ("keeper.log", "spark.log")
        if (folder / name).exists()
    ]
    return "\n".join(line for text in texts for line in text.splitlines()[-lines:])


def _keeper_pid(folder: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int((folder / "keeper.pid").read_text())
    return None


def _end_orphan(folder: Path) -> None:
    """Kill the JVM of a keeper that was killed itself (Linux ends it already)."""
    with suppress(OSError, ValueError, TypeError):
        pid = int(json.loads((folder / "server.json").read_text(encoding="utf-8"))["pid"])
        if _is_spark(pid):
            os.kill(pid, signal.SIGKILL)


def _is_spark(pid: int) -> bool:
    """Is this process our JVM, and not another one that was given the same number?"""
    with suppress(OSError):
        if Path("/proc/self").exists():
            return MAIN_CLASS.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        shown = subprocess.run(
            ["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, check=False
        )
        return MAIN_CLASS.encode() in shown.stdout
    return False
