"""The shared Spark server: one JVM for all notebooks of one state folder.

    notebook ──╮                        ╭─ spark/server.json   address and token, 0600
    notebook ──┼─ Spark Connect ─▶ JVM ◀┤  this module, a process: starts, watches and ends the JVM
    grader   ──╯                        ╰─ spark/users/PID/    who has joined, and their sessions

The process ends with its owner (LAB_OWNER), its JVM or its folder, or when all who joined have
been gone for an hour. Killed, it takes the JVM along on Linux; elsewhere the next start does that.
An audit of a large ledger starts one for itself alone, with another heap and another compiler.
A class archive, made once for a machine, halves what a JVM costs until its first answer.
PySpark's own spark.local.connect.reuse starts such a server, too, and nothing ever ends it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from lab_utils import processes
from lab_utils.errors import SetupError, StageError, WaitTimeout
from lab_utils.folders import cache_folder, state_folder
from lab_utils.machine.jars import Progress
from lab_utils.machine.java import LOCALE, environment, find_java, telling, why
from lab_utils.machine.quick_start import ARCHIVED_S, archive_key, make_archive
from lab_utils.single_server import Joining, Life, end, is_served, read, remove
from lab_utils.waiting import wait_until

LOCAL_MASTER: Final = "local[2]"
LOG: Final = "spark.log"
LOG_LINES: Final = 1000  # of which most are where an exception has passed
START_S: Final = 180
JOIN_S: Final = 240
IDLE_S: Final = 3600
LOOK_EVERY_S: Final = 0.5

# What answers HTTP/2, as gRPC does, answers the client's preface with settings of its own.
PROBE_S: Final = 5.0
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS_FRAME: Final = 4
FRAME_HEADER: Final = 9

# A notebook's JVM is small and starts fast. A large ledger is worth the second compiler: it reads
# JSON in a quarter of the processor time (11 µs a line, not 45). Neither leaves a file of its own
# in the machine's temp folder.
JVM: Final = "-XX:-UsePerfData -Djava.net.preferIPv4Stack=true"
SMALL_JVM: Final = (
    "-Xms256m -XX:NewSize=96m -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=96m "
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
)
# Each query is classes of its own, which are seldom used again: at a million events the second
# compiler took a third of the processor time. It waits twenty times longer than by default.
LARGE_JVM: Final = (
    "-XX:+UseParallelGC -XX:MetaspaceSize=256m -XX:Tier4InvocationThreshold=100000 "
    "-XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000 "
    "-XX:Tier4BackEdgeThreshold=800000"
)
SMALL_MEMORY: Final = "512m"
LARGE_MEMORY: Final = "2g"
# Which classes are mapped from the archive is nothing that a log should hold.
ARCHIVE_LOG: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
REHEARSE: Final = "from lab_utils.audit.judged import rehearse; rehearse()"
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.sql.repl.eagerEval.enabled": "true",
    "spark.sql.repl.eagerEval.maxNumRows": "50",
    "spark.sql.repl.eagerEval.truncate": "120",
    "spark.sql.session.timeZone": "UTC",
    # A learner comes back after lunch, or opens the lid the next day. Who has ended is looked for.
    "spark.connect.session.manager.defaultSessionTimeout": "-1",
    # What was asked before: no page shows it, and a plan takes megabytes. Without the last few an
    # audit would analyse twice as long.
    "spark.connect.session.planCache.maxSize": "4",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
}
# Options of the JVM that spark-submit starts before the real one, to put its command line together,
# and the locale of both.
JVM_ENVIRONMENT: Final = {
    "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    **LOCALE,
}
# How the names begin of what says where a cluster and its files are, and who may use them.
CLUSTERS: Final = ("SPARK_", "HADOOP_", "YARN_")
# A cluster's workers call the driver back: it has to have the machine's own address there.
LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# What a session may change, and what suits the tables of a lab, which are tiny: compiling a query
# would take longer than interpreting it, a broadcast is a job of its own, and so is each stage of a
# plan that adapts itself, which is planned anew. To infer filters from others costs more.
SMALL: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.constraintPropagation.enabled": "false",
}
# An audit compiles some 600 classes, of which Spark keeps 100: it compiled one again and again.
COMPILED: Final = {"spark.sql.codegen.cache.maxEntries": "1000"}


@dataclass(frozen=True, slots=True)
class SparkServer:
    """A Spark server that answers: where, with which token, its processes, and its master."""

    url: str
    token: str
    jvm: int
    pid: int
    master: str

    @property
    def address(self) -> str:
        """What a Spark Connect client is given."""
        return f"{self.url}/;token={self.token}"


def spark_folder() -> Path:
    """The folder of the shared server of this state folder; it is gone when the server is."""
    return state_folder() / "spark"


def join(
    master: str,
    folder: Path | None = None,
    *,
    large: bool = False,
    owner: int | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> SparkServer:
    """Join the server of this state folder; start it if there is none. Several may call at once.

    large      start a JVM for a large ledger
    owner      the process with which a server that is started ends; LAB_OWNER's if not given
    meanwhile  is called while Spark starts

    Raises StageError with the reason and Spark's log, also if the server has another master.
    """
    folder = folder or spark_folder()
    joining = Joining(
        folder,
        processes.SPARK_SERVER,
        [master, *(["--large"] if large else [])],
        _answering(folder),
        "Spark",
        logs=("server.log", "spark.log"),
        owner=owner,
    )
    found = joining.look()
    if found is None:
        meanwhile()
        found = joining.join(JOIN_S)
    if found.master != master:
        raise StageError(
            f"Spark runs on {found.master}, for all notebooks, and SPARK_MASTER asks for {master}. "
            "End that one first: ./lab down."
        )
    with suppress(FileNotFoundError):
        own_place(folder).mkdir(mode=0o700, exist_ok=True)
    return found


def own_place(folder: Path) -> Path:
    """Where this process keeps what it has at the server of this folder."""
    return folder / "users" / str(os.getpid())


def forsaken(folder: Path) -> Iterator[Path]:
    """The places of processes that have ended. They are removed when they have been dealt with."""
    for place in (folder / "users").iterdir():
        if not processes.is_running(int(place.name)):
            yield place
            shutil.rmtree(place, ignore_errors=True)


def running(folder: Path | None = None) -> SparkServer | None:
    """The server of this folder, if there is one that lives.

    A container that is started again gives its processes the ids of the last time.
    """
    folder = folder or spark_folder()
    return _answering(folder)(read(folder)) if is_served(folder) else None


def class_archive() -> Path:
    """The archive from which a JVM maps Spark's classes, and those of an audit; it may be missing.

    Measured on two cores, without and with it: 16.6 and 8.6 s of processor time until the first
    answer to a query.
    """
    jars = sorted((spark_home() / "jars").iterdir())
    return cache_folder() / f"spark-{archive_key(find_java(), jars)}.jsa"


def make_class_archive(progress: Progress = lambda _: None) -> None:
    """Make the class archive of this machine if it has none; half a minute, and 0.2 GB."""
    make_archive("Spark", class_archive(), _archive, progress)


def _archive(archive: Path) -> None:
    """Let a JVM that has judged a ledger write its archive."""
    (archive.parent / "tmp").mkdir()
    port, token = processes.free_ports(1)[0], secrets.token_urlsafe(24)
    jvm = start_jvm(
        archive.parent, LOCAL_MASTER, port, token, archiving=f"-XX:ArchiveClassesAtExit={archive}"
    )
    try:
        wait_until(
            lambda: jvm.poll() is not None or _answers(port), "Spark to answer", timeout_s=START_S
        )
        environment = {
            **os.environ,
            "PYTHONPATH": processes.python_path(),
            "SPARK_REMOTE": f"sc://localhost:{port}/;token={token}",
        }
        rehearsal = [sys.executable, "-P", "-c", REHEARSE]
        subprocess.run(
            rehearsal, env=environment, timeout=ARCHIVED_S, capture_output=True,
            preexec_fn=processes.end_with_parent,
        )  # fmt: skip
        jvm.terminate()
        jvm.wait(ARCHIVED_S)
    finally:
        processes.kill_group(jvm)


def stop(folder: Path | None = None) -> None:
    """End the server of this state folder and wait until nothing of it is left."""
    folder = folder or spark_folder()
    if folder.exists():
        end(folder)
        remove(folder)


def _answering(folder: Path) -> Callable[[dict[str, Any]], SparkServer | None]:
    def answering(said: dict[str, Any]) -> SparkServer | None:
        if said.get("state") != "serving" or not processes.runs(said["jvm"], "Spark", folder):
            return None
        # One that an earlier version of the lab has started does not say all of it.
        where = {name: said[name] for name in SparkServer.__slots__ if name in said}
        if len(where) < len(SparkServer.__slots__):
            return None
        # A process that is stopped (SIGSTOP) is there, and its port takes calls for ever.
        return SparkServer(**where) if _answers(int(said["url"].rpartition(":")[2])) else None

    return answering


class Server:
    """The process: starts the JVM, watches it, and ends it with everything it wrote."""

    def __init__(self, life: Life, master: str, large: bool) -> None:
        self._life = life
        self._folder = life.folder
        self._master = master
        self._large = large
        self._idle_looks = 0
        self._jvm: subprocess.Popen[Any] | None = None
        self._ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._ended.set())

    def serve(self) -> None:
        """Serve until the owner, the users or the folder are gone, or the JVM ends."""
        port, token = processes.free_ports(1)[0], secrets.token_urlsafe(24)
        try:
            for name in ("tmp", "users"):
                (self._folder / name).mkdir(mode=0o700)
            jvm = self._jvm = start_jvm(
                self._folder,
                self._master,
                port,
                token,
                large=self._large,
                archiving=reading_archive(),
            )
            self._await_an_answer(jvm, port)
            where = {"url": f"sc://localhost:{port}", "token": token, "jvm": jvm.pid}
            if not self._is_over():
                self._life.say("serving", **where, master=self._master)
            while not (self._is_over() or self._is_idle() or jvm.poll() is not None):
                self._ended.wait(LOOK_EVERY_S)
        finally:
            self._life.say("ending")
            if self._jvm is not None:  # It holds nothing that anybody needs.
                processes.kill_group(self._jvm)

    def _await_an_answer(self, jvm: subprocess.Popen[Any], port: int) -> None:
        """Wait until Spark answers, or is no longer wanted; raise StageError if it cannot."""
        with suppress(WaitTimeout):
            wait_until(
                lambda: jvm.poll() is not None or self._is_over() or _answers(port),
                "Spark to answer",
                timeout_s=START_S,
            )
            if jvm.poll() is None and not self._is_over():
                return
        if self._ended.is_set() or not self._life.has_folder:
            return
        if self._life.is_forsaken():
            how = "the process that it was to end with has ended"
        elif (code := jvm.poll()) is not None:
            how = f"its JVM {processes.ended_with(code)}"
        else:
            how = f"its JVM (process {jvm.pid}) did not answer within {START_S} s"
        said = telling(processes.tail(self._folder / LOG, LOG_LINES))
        told = "\n".join(["The last lines of its log:", *said[-8:]])
        fix = why(told, "Run ./lab doctor. ")
        told = told if said else "It had printed nothing."
        raise StageError(f"Spark did not start: {how}. {fix}{told}")

    def _is_over(self) -> bool:
        return self._ended.is_set() or self._life.is_forsaken()

    def _is_idle(self) -> bool:
        """Have all who joined been gone for so long? With an owner, only its end counts."""
        if self._life.has_owner:
            return False
        with suppress(FileNotFoundError):
            users = [int(path.name) for path in (self._folder / "users").iterdir()]
            is_used = any(map(processes.is_running, users))
            self._idle_looks = 0 if is_used else self._idle_looks + 1
        return self._idle_looks * LOOK_EVERY_S > IDLE_S


def start_jvm(
    folder: Path, master: str, port: int, token: str, *, large: bool = False, archiving: str = ""
) -> subprocess.Popen[Any]:
    """Start a JVM that answers on a port of the loopback interface, with its files in `folder`.

    archiving  the option that reads or writes a class archive
    """
    home, is_local = spark_home(), master.startswith("local")
    tmp = folder / "tmp"
    settings = {
        **local_settings(tmp, archiving, large=large),
        **(LOCAL if is_local else {}),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.jars": os.environ.get("LAB_SPARK_JARS", ""),
    }
    properties = write_properties(folder, settings)
    return processes.spawn(
        [
            str(home / "bin" / "spark-submit"),
            *("--class", processes.SPARK_MAIN_CLASS, "--master", master),
            *("--properties-file", str(properties)),
            *([] if is_local else ["--load-spark-defaults"]),
            "spark-internal",
        ],
        log=folder / LOG,
        cwd=tmp,
        environment=_environment(home, token, is_local),
        preexec_fn=processes.end_with_parent,
    )


def local_settings(tmp: Path, archiving: str = "", *, large: bool = False) -> dict[str, str]:
    """The settings of a JVM of the lab's, which keeps what it writes in `tmp`."""
    jvm, memory = (LARGE_JVM, LARGE_MEMORY) if large else (SMALL_JVM, SMALL_MEMORY)
    paths = [_quoted(option) for option in (archiving, f"-Djava.io.tmpdir={tmp}") if option]
    return {
        **SETTINGS,
        **(COMPILED if large else SMALL),
        "spark.driver.memory": os.environ.get("LAB_SPARK_MEMORY", memory),
        "spark.driver.extraJavaOptions": " ".join([jvm, JVM, ARCHIVE_LOG, *paths]),
        "spark.local.dir": str(tmp),
        "spark.sql.warehouse.dir": str(tmp / "warehouse"),
    }


def _quoted(option: str) -> str:
    """An option of Java as Spark reads it: at blanks it would be several."""
    return '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'


def reading_archive() -> str:
    """The option with which a JVM maps its classes from the archive; empty if there is none."""
    archive = class_archive()
    return f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""


def write_properties(folder: Path, settings: Mapping[str, str]) -> Path:
    """The file of settings that spark-submit reads."""
    properties = folder / "spark.properties"
    kept = {
        name: value.replace("\\", r"\\").replace("\n", r"\n")
        for name, value in settings.items()
        if value
    }
    lines = (f"{name}={value}\n" for name, value in kept.items())
    properties.write_text("".join(lines), encoding="utf-8")
    return properties


def spark_home() -> Path:
    """The Spark inside the installed pyspark, found without importing it."""
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SetupError("pyspark is not installed, and the audit needs it. Run ./lab doctor.")
    return Path(found.submodule_search_locations[0])


def local_environment() -> dict[str, str]:
    """The environment of a JVM of this machine alone, whatever cluster its user works with.

    A learner's own function in a query runs in the Python of the notebooks; Spark would take the
    first in PATH, which has neither its version nor its libraries.
    """
    ours = {it: value for it, value in environment().items() if not it.startswith(CLUSTERS)}
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return ours | JVM_ENVIRONMENT | own | _java_home()


def _environment(home: Path, token: str, is_local: bool) -> dict[str, str]:
    """The environment of the JVM: the lab's Java; Spark settings of this machine for a cluster."""
    if is_local:
        ours = local_environment()
    else:
        kept = ("SPARK_CONF_DIR", "SPARK_LOCAL_IP")
        given = os.environ.items()
        ours = {it: value for it, value in given if not it.startswith("SPARK_") or it in kept}
        ours |= JVM_ENVIRONMENT | _java_home()
    return ours | {"SPARK_HOME": str(home), "SPARK_CONNECT_AUTHENTICATE_TOKEN": token}


def _java_home() -> dict[str, str]:
    """The Java that the archive is of; Spark would take any that JAVA_HOME names."""
    return {"JAVA_HOME": str(find_java().home)}


def _answers(port: int) -> bool:
    """Does a gRPC server answer here? The system takes calls for a process that is stopped, too."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), PROBE_S) as caller:
        caller.sendall(PREFACE)
        header = caller.recv(FRAME_HEADER)
        return len(header) == FRAME_HEADER and header[3] == SETTINGS_FRAME
    return False


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("master")
@click.option("--lock", type=int, required=True, help="The folder's lock, an open file.")
@click.option("--owner", type=int, default=None, help="End with this process.")
@click.option("--large", is_flag=True, help="Start a JVM for a large ledger.")
def main(folder: Path, master: str, lock: int, owner: int | None, large: bool) -> None:
    """Run the Spark server of a folder."""
    with Life(folder, lock, owner) as life:
        Server(life, master, large).serve()


if __name__ == "__main__":
    main()
