"""The keeper: a process that starts Spark's JVM, watches it, and ends it with all it wrote.

It ends when its owner is gone (LAB_OWNER), when the JVM or the folder is, or when all who joined
have been gone for an hour. If it is killed itself, Linux kills the JVM, and the next server of
this folder removes the files. It imports no Spark, and so it is small.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lab_utils.audit.server import MAIN_CLASS, START_TIMEOUT_S, Server, is_running, running
from lab_utils.errors import SetupError
from lab_utils.waiting import wait_until

IDLE_S: Final = 3600
LOOK_EVERY_S: Final = 0.5

# The JVM is small and starts fast; it leaves no file of its own in the machine's temp folder.
JVM: Final = (
    "-Xms64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData "
    "-XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 "
    "-Djava.net.preferIPv4Stack=true"
)
SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.repl.eagerEval.enabled": "true",
    "spark.sql.repl.eagerEval.maxNumRows": "50",
    "spark.sql.repl.eagerEval.truncate": "120",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.minPartitionNum": "1",
    # A lab's tables are tiny: compiling a query would take longer than interpreting it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # And a broadcast is a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


class Keeper:
    """Starts the JVM, writes down where it is, watches, and ends it with everything it wrote."""

    def __init__(self, folder: Path, master: str, owner: int | None) -> None:
        self._folder = folder
        self._master = master
        self._owner = owner
        self._idle_looks = 0
        self._lock = -1
        self._jvm: subprocess.Popen[bytes] | None = None

    def keep(self) -> None:
        """Serve until the owner, the users or the folder are gone, or the JVM ends."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        with (self._folder / "keeper.lock").open("a") as lock:
            self._lock = lock.fileno()
            wait_until(
                lambda: _locked(self._lock) or running(self._folder) is not None,
                "another keeper to finish starting",
                timeout_s=START_TIMEOUT_S,
            )
            if running(self._folder) is None:
                self._serve()

    def _serve(self) -> None:
        (self._folder / "keeper.pid").write_text(str(os.getpid()))
        try:
            server = self._start()
            wait_until(lambda: _answers(server) or self._has_ended(), "Spark", timeout_s=110)
            if self._has_ended():
                return
            self._write(server)
            wait_until(self._is_over, "the end", timeout_s=float("inf"), every_s=LOOK_EVERY_S)
        finally:
            self._end()

    def _start(self) -> Server:
        """Start the JVM on a free port of the loopback interface."""
        (self._folder / "server.json").unlink(missing_ok=True)
        for name in ("tmp", "users"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
            (self._folder / name).mkdir(mode=0o700)
        port, token = _free_port(), secrets.token_urlsafe(24)
        home = spark_home()
        with (self._folder / "spark.log").open("wb") as log:
            self._jvm = subprocess.Popen(
                [
                    str(home / "bin" / "spark-submit"),
                    *("--class", MAIN_CLASS, "--master", self._master),
                    *("--properties-file", str(self._properties(port)), "spark-internal"),
                ],
                cwd=self._folder / "tmp",
                env=_environment(home, token),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        return Server(f"sc://localhost:{port}", token, self._jvm.pid, os.getpid())

    def _properties(self, port: int) -> Path:
        tmp = self._folder / "tmp"
        settings = SETTINGS | {
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.memory": os.environ.get("LAB_SPARK_MEMORY", "512m"),
            "spark.driver.extraJavaOptions": f"{JVM} -Djava.io.tmpdir={tmp}",
            "spark.jars": os.environ.get("LAB_SPARK_JARS", ""),
            "spark.local.dir": str(tmp),
            "spark.sql.warehouse.dir": str(tmp / "warehouse"),
        }
        path = self._folder / "spark.properties"
        lines = (f"{name}={value}\n" for name, value in settings.items() if value)
        path.write_text("".join(lines), encoding="utf-8")
        return path

    def _write(self, server: Server) -> None:
        """Publish the server whole or not at all; the token is for this user alone."""
        path = self._folder / "server.new"
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(server)), encoding="utf-8")
        path.rename(self._folder / "server.json")

    def _has_ended(self) -> bool:
        return self._jvm is None or self._jvm.poll() is not None

    def _is_over(self) -> bool:
        published = (self._folder / "server.json").exists()
        if self._has_ended() or not published or not self._has_folder():
            return True
        if self._owner is not None:
            return not is_running(self._owner)
        users = [int(path.name) for path in (self._folder / "users").iterdir()]
        self._idle_looks = 0 if any(map(is_running, users)) else self._idle_looks + 1
        return self._idle_looks * LOOK_EVERY_S > IDLE_S

    def _has_folder(self) -> bool:
        """Is the folder the one that this keeper locked, and not a new one in its place?"""
        with suppress(FileNotFoundError):
            lock = (self._folder / "keeper.lock").stat()
            return os.path.samestat(os.fstat(self._lock), lock)
        return False

    def _end(self) -> None:
        """End the JVM at once: it holds nothing that anybody needs, and remove every file."""
        if self._jvm is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._jvm.pid, signal.SIGKILL)
            self._jvm.wait()
        if not self._has_folder():
            return
        kept = ("keeper.log", "spark.log") if self._jvm and self._jvm.returncode > 0 else ()
        for path in list(self._folder.iterdir()):
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()


def spark_home() -> Path:
    """The Spark inside the installed pyspark, found without importing it."""
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SetupError("pyspark is not installed, and the audit needs it. Run ./lab doctor.")
    return Path(found.submodule_search_locations[0])


def _environment(home: Path, token: str) -> dict[str, str]:
    """The environment of the JVM: no Spark settings of this machine, the lab's Java."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    ours |= {
        "SPARK_HOME": str(home),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    if java := os.environ.get("LAB_JAVA"):
        ours["JAVA_HOME"] = str(Path(java).resolve().parents[1])
    return ours


def _end_with_parent() -> None:
    """On Linux: SIGKILL this process when its parent, the keeper, is gone."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _answers(server: Server) -> bool:
    with socket.socket() as caller:
        caller.settimeout(0.5)
        return caller.connect_ex(("127.0.0.1", int(server.url.rpartition(":")[2]))) == 0


if __name__ == "__main__":
    _owner = os.environ.get("LAB_OWNER", "")
    Keeper(Path(sys.argv[1]), sys.argv[2], int(_owner) if _owner.isdigit() else None).keep()
