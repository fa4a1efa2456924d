"""The grader's half of a kernel: one sandbox, one socket, and bounded patience.

    grader ── execute_request ──▶ kernel (in a sandbox of its own)
           ◀── execute_reply: status, error, JSON text ── nothing else is listened to

Output is never read, so no amount of it matters, and stderr is not an error. What the kernel
answers is data: it is neither unpickled nor evaluated beyond a string literal.

    cells in order ──▶ kernel ── dies ──▶ a new kernel, the cells so far again, less the killers

A KernelSession is one submission's kernel, also across its deaths, with its folders, environment
and time budgets. Where its processes run, and how they end, is for sandbox.py.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from lab_utils.errors import LabError, StageError
from lab_utils.folders import cache_folder
from lab_utils.grading.sandbox import ROOT, UNCOUNTED, Limits, Sandbox, end_within, packages
from lab_utils.grading.submission import Submission
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from lab_utils.machine.confinement import BUBBLEWRAP, LANDLOCK
from lab_utils.machine.forwarder import Connect, Forwarder, Reader, Writer
from lab_utils.machine.quick_start import make_once

INSIDE: Final = "__import__('lab_utils.grading.inside', fromlist=['inside'])"
START_S: Final = 60
SPARK_START_S: Final = 120
COMPILE_S: Final = 300
# A plan on the ledger of a run: a second, or more where nobody has a processor to spare.
PLAN_S: Final = 30
PLAN_MAX: Final = 100_000  # characters
# What pyspark raises for a column or a type that only a server can read.
WITHOUT_SPARK: Final = "[NO_ACTIVE_OR_DEFAULT_SESSION]"
FIRST: Final = Event(run="00-a", source="log", actor="reader", kind="record")
STARTS_MAX: Final = 10  # of a class that ends it again and again
INTERRUPT_S: Final = 5
MESSAGE_BYTES_MAX: Final = 4_000_000
ANSWERS_BYTES_MAX: Final = 100_000_000
CONNECTIONS: Final = 2  # one, and one before it that nobody has closed yet
# What a kernel imports, the Spark in it, and a process that books.
IMPORTED: Final = ("ipykernel.kernelapp", "ipykernel.debugger", "IPython.core.completerlib",
                   "pyspark.sql.connect.session", "sqlalchemy.dialects.sqlite",
                   "lab_utils.grading.inside")  # fmt: skip
LITERAL: Final = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
# What reading a message raises whose parts are of other types than a kernel's are, or say what is
# none: a date behind the last one is an OverflowError.
MALFORMED: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
                    RecursionError)  # fmt: skip
# Deeper than any answer or row; deeper values would break who compares or shows them.
DEPTH_MAX: Final = 20
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
PREFIX: Final = "PYTHONPYCACHEPREFIX"
# All that a kernel may know of the grader's environment: no tokens, no owner's settings. A Spark
# that it starts runs where it runs: one that several share would run the Python of each for all.
PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "JAVA_HOME", "LAB_JAVA",
                    "LD_LIBRARY_PATH", PREFIX)  # fmt: skip

# One for all kernels, which is never given up: one that Python collects together with a socket that
# nobody has closed waits for it for ever, as by then it no longer knows its sockets. It is there
# before the threads that grade, each of which would make one.
CONTEXT: Final = zmq.Context()
CONTEXT.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Reply:
    """How a piece of code ended in the kernel.

    status  ok, error (it raised), late (it was interrupted), dead (the kernel is gone)
    error   for status error: the exception as one line
    values  the results of the expressions, by name, as the text the kernel sent
    """

    status: str
    error: str = ""
    values: dict[str, str] = field(default_factory=dict)


class Kernel:
    """One running kernel. It may die at any time; then every reply is `dead`."""

    def __init__(self, sandbox: Sandbox, environment: Mapping[str, str], working: Path) -> None:
        self.sandbox = sandbox
        self._working = working
        self._is_killed = False
        connection_file = str(sandbox.folder / "connection.json")
        # With Landlock no socket in a folder can be had (seccomp.py); whoever speaks has the key.
        is_shared = sandbox.kind == LANDLOCK
        where = ("tcp", "127.0.0.1") if is_shared else ("ipc", str(sandbox.folder / "ipc"))
        write_connection_file(connection_file, transport=where[0], ip=where[1])
        # Read before anything of the submission's can write to it.
        self._client = _client(connection_file)
        self._process = sandbox.start(
            [sys.executable, "-m", "ipykernel_launcher", "-f", connection_file],
            # Where cells have run before lies what they have left: Python would take a module of
            # that name for one of the kernel's own.
            cwd=sandbox.folder,
            environment=environment,
        )
        self._forwarder = self._forwarded(f"{sandbox.folder}-kernel")
        self._client.start_channels(iopub=False, stdin=False, hb=False, control=False)

    def _forwarded(self, place: str) -> Forwarder:
        """Carries what the client says to the kernel, and what it answers: so much and no more.

        ZeroMQ limits each part of a message, and keeps all of them until the last one is there.
        """
        client, address = self._client, (self._client.ip, self._client.shell_port)
        path = "-".join(map(str, address))
        connect: Connect = partial(asyncio.open_unix_connection, path)
        if self.sandbox.kind == BUBBLEWRAP:
            connect = partial(_to_socket, path)
        elif client.transport == "tcp":
            connect = partial(asyncio.open_connection, *address)
        client.transport, client.ip, client.shell_port = "ipc", place, 1
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{place}-1")
        listener.listen()
        said = f"its kernel said more than {ANSWERS_BYTES_MAX // 1_000_000} MB"
        forwarder = Forwarder(
            {listener: connect},
            connections_max=CONNECTIONS,
            bytes_max=ANSWERS_BYTES_MAX,
            too_much=partial(self.sandbox.end_for, said),
        )
        forwarder.start()
        return forwarder

    def wait_until_ready(self) -> None:
        """Wait for the first answer, and go where the cells run; raises StageError if none comes.

        A kernel that was ended because the submission held too much before it is a dead one.
        """
        if self._answer(self._client.kernel_info(), START_S) is not None:
            self.execute("", START_S, moved=f"__import__('os').chdir({str(self._working)!r})")
            return
        self.kill()
        if not self.sandbox.exceeded:
            raise StageError(
                f"a kernel did not answer within {START_S} s of its start, so nothing could be "
                "graded. Run ./lab doctor, then grade again."
            )

    @property
    def is_alive(self) -> bool:
        """Is the process still there? One that was killed is not, however long its end takes."""
        return not self._is_killed and self._process.poll() is None

    def execute(self, code: str, timeout_s: float, **expressions: str) -> Reply:
        """Run code, then evaluate expressions; interrupt after `timeout_s`, then kill."""
        if not self.is_alive:
            return Reply("dead")
        message = self._client.execute(
            code, user_expressions=expressions, allow_stdin=False, stop_on_error=False
        )
        content = self._answer(message, timeout_s)
        if content is None and self.is_alive:
            self.sandbox.signal(signal.SIGINT)
            stopped = self._answer(message, INTERRUPT_S) is not None
            if stopped and self.is_alive:
                return Reply("late")
            self.kill()
            return Reply("late")
        try:
            return Reply("dead") if content is None else _reply(content)
        except MALFORMED:  # no kernel says so: what a cell has made of it is none any more
            self.kill()
            return Reply("dead")

    def kill(self) -> None:
        """End the kernel and everything that it started."""
        self._is_killed = True
        try:
            self.sandbox.end()
        finally:
            self._client.stop_channels()
            self._forwarder.stop()
            Path(f"{self._client.ip}-{self._client.shell_port}").unlink(missing_ok=True)

    def _answer(self, message: str, timeout_s: float) -> dict[str, Any] | None:
        """The content of the reply to a message; None after the timeout or the kernel's death."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            alive = self.is_alive
            try:
                reply = self._client.get_shell_msg(timeout=min(left_s, 0.2))
                if reply["parent_header"].get("msg_id") == message:
                    content: dict[str, Any] = reply["content"]
                    return content
            except queue.Empty:
                if not alive:
                    return None
            except MALFORMED:  # a signature that is not the session's, or a form that is none
                continue
        return None


@dataclass
class Budget:
    """The seconds that a cell, or an examination, and a whole submission may take."""

    cell_s: float
    total_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    started: float = field(default_factory=time.monotonic)

    def left_s(self, wanted_s: float | None = None) -> float:
        """What the next piece of code may take: zero when the submission's time is spent."""
        if self.stop.is_set():
            return 0.0
        left_s = self.started + self.total_s - time.monotonic()
        return max(0.0, min(wanted_s or self.cell_s, left_s))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While this lasts, the time is that of others, too, and not the submission's alone."""
        since = time.monotonic()
        try:
            yield
        finally:
            self.total_s += time.monotonic() - since


class KernelSession:
    """Runs a submission's cells and evaluates expressions in the state that they made.

    working   where the cells run and the workloads of an examination, too: written by both
    given     what the grader gives them to read
    """

    def __init__(
        self, submission: Submission, folder: Path, budget: Budget, isolation: str
    ) -> None:
        self.submission = submission
        self.folder = folder
        self.budget = budget
        self.replies: dict[int, Reply] = {}
        self.working, self.given = folder / "work", folder / "given"
        self.isolation = isolation
        self._killers: set[int] = set()
        self._exceeded: list[str] = []
        self._numbers = count(1)
        self._kernel: Kernel | None = None
        for each in (folder, self.working, self.given):
            each.mkdir(mode=0o700, exist_ok=True)

    @property
    def exceeded(self) -> list[str]:
        """Which limits its processes have broken."""
        last = self._kernel.sandbox.exceeded if self._kernel else None
        return [*self._exceeded, *([last] if last else [])]

    def sandbox(self) -> tuple[Sandbox, dict[str, str]]:
        """A new place for processes of this submission, and their environment."""
        folder = self.folder / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        readable, shared = (self.given,), (self.working,)
        box = Sandbox(self.isolation, folder, readable=readable, shared=shared)
        return box, _environment(folder)

    def given_folder(self, ledger: Sequence[Event] = ()) -> Path:
        """A new folder that the submission can read, and only the grader writes to."""
        folder = self.given / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        if ledger:
            write_ledger(folder, ledger)
        return folder

    @contextmanager
    def reaching(
        self, ports: Iterable[int], position: int, fills: Iterable[Path]
    ) -> Iterator[None]:
        """While this lasts, the kernel after the cell at `position` reaches these ports outside."""
        if self.budget.left_s() == 0:
            yield
            return
        with self._prepared(position + 1).sandbox.reaching(ports, fills):
            yield

    def run_cell(self, position: int) -> Reply:
        """Run one cell in the state that the cells before it made; how it ended is kept."""
        is_spent = self.budget.left_s() == 0
        reply = Reply("spent") if is_spent else self._run(self._prepared(position), position)
        self.replies[position] = reply
        return reply

    def evaluate(
        self, position: int, expression: str, timeout_s: float | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Evaluate an expression after the cell at `position`: its status and the JSON it gave.

        `timeout_s` is for what is the lab's own doing; without it there is the time of a cell.
        """
        if self.budget.left_s() == 0:
            return "spent", {}
        kernel = self._prepared(position + 1)
        reply = self._executed(kernel, "", timeout_s, said=expression)
        if not kernel.is_alive:
            self.close()
        return reply.status, parsed(reply.values.get("said", ""))

    def close(self) -> None:
        """End the kernel and everything that it started."""
        if self._kernel is not None:
            self._kernel.kill()
            self._exceeded = self.exceeded
            self._kernel = None

    def _prepared(self, position: int) -> Kernel:
        """A living kernel in which the cells before `position` have run."""
        if self._kernel is not None and not self._kernel.is_alive:
            self.close()
        while self._kernel is None:
            self._kernel = self._started()
            self._replay(position)  # may kill it again; each time there is a killer less to run
        return self._kernel

    def _replay(self, end: int) -> None:
        again = (each for each in sorted(self.replies) if each < end and each not in self._killers)
        for position in again:
            if self._kernel is None:
                return
            self._run(self._kernel, position)

    def _run(self, kernel: Kernel, position: int) -> Reply:
        """Run a cell; if it kills the kernel it is not run again.

        In a notebook Spark stands by the time that a cell asks for it; here it is started for the
        cell that has failed without.
        """
        source = self.submission.cells[position].source
        reply = self._executed(kernel, source)
        if WITHOUT_SPARK in (reply.error or ""):
            call = f"{INSIDE}.start_spark({str(self.given_folder([FIRST]))!r})"
            self._executed(kernel, "", SPARK_START_S, said=call)
            reply = self._executed(kernel, source)
        if not kernel.is_alive:
            self._killers.add(position)
            self.close()
        return reply

    def _executed(
        self, kernel: Kernel, code: str, wanted_s: float | None = None, **expressions: str
    ) -> Reply:
        """What is run while the submission has time; nothing is, when that is spent."""
        left_s = self.budget.left_s(wanted_s)
        return kernel.execute(code, left_s, **expressions) if left_s else Reply("spent")

    def _started(self) -> Kernel:
        kernel = Kernel(*self.sandbox(), self.working)
        kernel.wait_until_ready()
        return kernel


class SharedSpark:
    """A kernel of the grader's own with a Spark in it, which asks plans for all submissions.

    To start a Spark takes longer than all that a submission asks of it. Only plans are handed over
    (audit/queries.py), no Python; none of them reads anything but the ledger that it is given. It
    is ended when anything about an answer is odd, and whoever asked starts a Spark of its own.
    """

    def __init__(self, place: Path, isolation: str) -> None:
        self._folder = place / "shared_spark"
        self._given = self._folder / "given"
        self._isolation = isolation
        self._kernel: Kernel | None = None
        self._numbers = count(1)
        self._starts_left = STARTS_MAX
        self._closed = threading.Event()
        self._lock = threading.Lock()  # it has one kernel, and a kernel does one thing at a time
        self._warming = threading.Thread(target=self._warmed_up, daemon=True)
        self._to_warm_up = threading.Lock()

    def warm_up(self) -> None:
        """Begin to start its Spark: somebody will ask for something."""
        if self._to_warm_up.acquire(blocking=False):  # it is never released
            self._warming.start()

    def rows(self, plan: str, ledger: Sequence[Event]) -> list[dict[str, Any]] | None:
        """What a plan finds in a ledger; None if it has to be asked elsewhere."""
        if len(plan) > PLAN_MAX or not self._lock.acquire(timeout=SPARK_START_S):
            return None
        try:
            kernel, folder = self._started(), self._given_folder(ledger)
            rows = self._said(kernel, f"run_plan({plan!r}, {str(folder)!r})", PLAN_S).get("rows")
            shutil.rmtree(folder)
            if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
                return rows
            if self._kernel is kernel:  # whoever comes next finds a Spark that answers, or none
                self._have_spark(kernel, PLAN_S)
        except (LabError, OSError):
            self._end()
        finally:
            self._lock.release()
        return None

    def close(self) -> None:
        """End its kernel, also one that is being started; nothing is asked any more."""
        self._closed.set()
        end_within(self._folder)
        with self._lock:
            self._end()

    def _warmed_up(self) -> None:
        with self._lock, suppress(LabError, OSError):  # who asks next tries again
            self._started()
        self._closed.wait()  # what a thread has started is killed when it ends

    def _started(self) -> Kernel:
        """Its kernel, in which Spark answers; raises StageError if it cannot be started."""
        if self._kernel is not None:
            return self._kernel
        if self._closed.is_set() or not self._starts_left:
            raise StageError("no Spark is started for all submissions any more.")
        self._starts_left -= 1
        folder = self._folder / f"kernel-{next(self._numbers)}"
        for each in (folder, self._given):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        box = Sandbox(
            self._isolation, folder, readable=(self._given,), limits=Limits(processor_s=UNCOUNTED)
        )
        kernel = Kernel(box, _environment(folder), folder)
        try:
            kernel.wait_until_ready()
            self._have_spark(kernel, SPARK_START_S)
        except BaseException:
            kernel.kill()
            raise
        self._kernel = kernel
        return kernel

    def _have_spark(self, kernel: Kernel, timeout_s: float) -> None:
        """Let Spark answer in this kernel; raises StageError if it does not."""
        folder = self._given_folder([FIRST])
        said = self._said(kernel, f"start_spark({str(folder)!r})", timeout_s)
        shutil.rmtree(folder)
        if "done" not in said:
            raise StageError(f"Spark does not answer for all submissions: {said}")

    def _given_folder(self, ledger: Sequence[Event]) -> Path:
        folder = self._given / str(next(self._numbers))
        folder.mkdir(mode=0o700, parents=True)
        write_ledger(folder, ledger)
        return folder

    def _said(self, kernel: Kernel, call: str, timeout_s: float) -> dict[str, Any]:
        """What the kernel answers in time; if it does not, it is ended."""
        reply = kernel.execute("", timeout_s, said=f"{INSIDE}.{call}")
        if reply.status != "ok":
            self._end()
        return parsed(reply.values.get("said", ""))

    def _end(self) -> None:
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.kill()


def keep_bytecode(progress: Callable[[str], object]) -> None:
    """Compile what kernels and a workload's processes import, once for a machine, if nobody has.

    pip did not, and in a sandbox nothing may write where others read. Measured until a kernel has
    asked for a session of Spark: 4.2 s of processor time, and 1.5 s with it; until a process that
    books has its libraries: 1.2 s, and 0.3 s with it.
    """
    names = ("ipykernel", "pandas", "pyspark", "sqlalchemy", "lab_utils.lab")
    compiled = (spec and spec.cached for spec in map(find_spec, names))
    is_beside = all(path and Path(path).exists() for path in compiled)
    if PREFIX in os.environ or (is_beside and not _bytecode().exists()):
        return
    imports = f"import {', '.join(IMPORTED)}; from lab_utils.lab import LOADED"

    def make(folder: Path) -> None:
        progress("compiling what a kernel imports, once")
        _python(folder, "-c", f"{imports}; list(map(__import__, LOADED))")

    # What is late is not kept: half of it would be all that this machine ever has.
    with suppress(subprocess.TimeoutExpired):
        make_once(_bytecode(), make)
        # What has changed of the lab since then; nothing else does without another folder.
        _python(_bytecode(), "-m", "compileall", "-qq", str(ROOT / "lab_utils"))


def _bytecode() -> Path:
    """The folder of that bytecode; Python looks itself whether a file of it is still right."""
    names = sorted(each.name for place in packages() for each in place.glob("*.dist-info"))
    key = f"{sys.version} {sys.prefix} {names} {IMPORTED}".encode()
    return cache_folder() / f"bytecode-{hashlib.sha256(key).hexdigest()[:16]}"


def _python(bytecode: Path, *arguments: str) -> None:
    """Run Python outside, and keep there what it compiles."""
    environment = {**os.environ, PREFIX: str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-P", *arguments]
    subprocess.run(command, env=environment, capture_output=True, timeout=COMPILE_S, check=False)


def parsed(text: str) -> dict[str, Any]:
    """The JSON object in an expression's text, which is the repr of a str; {} if it is none.

    Nothing but one literal of a text reaches the parser, which anything nested could break.
    """
    if not LITERAL.fullmatch(text):
        return {}
    try:
        value = json.loads(ast.literal_eval(text))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    return value if isinstance(value, dict) and not _is_deep(value) else {}


def _is_deep(value: Any, left: int = DEPTH_MAX) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(parts) and (not left or any(_is_deep(part, left - 1) for part in parts))


async def _to_socket(path: str) -> tuple[Reader, Writer]:
    """Connect to a socket in a submission's folder; a link there may lead anywhere, also back."""
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{place}")
    finally:
        os.close(place)


def _client(connection_file: str) -> BlockingKernelClient:
    client = BlockingKernelClient(context=CONTEXT)
    client.load_connection_file(connection_file)
    return client


def _reply(content: Mapping[str, Any]) -> Reply:
    if content.get("status") != "ok":
        return Reply("error", _error(content))
    values = {}
    for name, expression in dict(content.get("user_expressions") or {}).items():
        if expression.get("status") == "ok":
            values[name] = str(expression.get("data", {}).get("text/plain", ""))
        else:
            values[name] = json.dumps(json.dumps({"raised": _error(expression)}))
    return Reply("ok", values=values)


def _error(content: Mapping[str, Any]) -> str:
    """What was raised, in a line: of a value that could not be shown, the last of the traceback."""
    error = f"{content.get('ename')}: {content.get('evalue')}"
    shown = [line for text in content.get("traceback") or [] for line in str(text).splitlines()]
    if content.get("ename") == "NoneType" and shown:
        error = COLOURS.sub("", shown[-1])
    return " ".join(error.split()).removesuffix(":")[:500]


def _environment(folder: Path) -> dict[str, str]:
    """The environment of a submission's process: a home and a state of its own."""
    for name in ("home", "state", "temporary"):
        (folder / name).mkdir(mode=0o700)
    return {
        **({PREFIX: str(_bytecode())} if _bytecode().exists() else {}),
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        "HOME": str(folder / "home"),
        "IPYTHONDIR": str(folder / "home" / "ipython"),
        "TMPDIR": str(folder / "temporary"),
        # Its home is another one, where a person's own packages are not found.
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *packages()))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LAB_CACHE": str(cache_folder()),
        "LAB_STATE": str(folder / "state"),
        # As a notebook has it from its first cell on, where a Spark stands or not.
        "SPARK_CONNECT_MODE_ENABLED": "1",
    }
