"""Processes: start one, read the end of its log, find free ports, know what one is, and end it.

A process of the lab is known by what it is: its command line names one of PROGRAMS and a path in
the folder that it works for. Neither files nor process ids are trusted: a file outlives the
process that wrote it, and the system uses ids again.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import psutil

from lab_utils.errors import StageError, WaitTimeout
from lab_utils.waiting import wait_until

# The environment variable with the process id of the owner: servers end when it has ended.
OWNER: Final = "LAB_OWNER"
OWNER_OPTION: Final = "--owner"
STAGE_SERVER: Final = "lab_utils.stage.server"
SPARK_SERVER: Final = "lab_utils.audit.spark_server"
SPARK_MAIN_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
GUARDIAN: Final = "lab_utils.machine.guardian"
# What the lab starts, by the word of its command line that names it.
PROGRAMS: Final = {
    STAGE_SERVER: "stage server",
    GUARDIAN: "guardian",
    "kafka.Kafka": "Kafka",
    SPARK_SERVER: "Spark server",
    SPARK_MAIN_CLASS: "Spark",
    "lab_utils.clients.workload": "workload",
}
LOOPBACK: Final = "127.0.0.1"
SERVERS: Final = ("stage server", "Spark server")
SERVER_END_S: Final = 15
KILL_S: Final = 10
HEARD_S: Final = 1
PR_SET_PDEATHSIG: Final = 1
OUTPUT_MAX: Final = 20_000
# What a child may print before nobody reads it any more; characters.
PRINTED_MAX: Final = 20_000_000
TOO_MUCH: Final = f"The process printed more than {PRINTED_MAX:,} characters: no more is read."
CLOCK_S: Final = 2
FILES: Final = 8192
TAIL_BYTES: Final = 64_000
# Below the range from which systems take ports for outgoing connections (Linux 32768, macOS
# 49152), so that nothing but another broker can take one between our look and the program's bind.
PORTS: Final = range(20_000, 32_000)

AnyProcess = psutil.Process | subprocess.Popen[Any]
Step = tuple[signal.Signals | None, float]


@dataclass(frozen=True, slots=True)
class Found:
    """A process of the lab: which of PROGRAMS it runs, and the first path that it works in."""

    process: psutil.Process
    program: str
    path: Path


def spawn(
    command: list[str],
    *,
    log: Path | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: tuple[int, ...] = (),
    **streams: Any,
) -> subprocess.Popen[Any]:
    """Start a program in a process group of its own: Ctrl-C in a notebook does not reach it.

    What it prints is appended to `log`, or dropped; `streams` chooses other streams, and text.
    """
    with (log or Path(os.devnull)).open("ab") as lines:
        given = {"stdin": subprocess.DEVNULL, "stdout": lines, "stderr": subprocess.STDOUT}
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            pass_fds=pass_fds,
            start_new_session=True,
            **{**given, **streams},
        )


class OutputEnd(threading.Thread):
    """Reads a child's output, so that a full pipe never holds the child up, and keeps its end.

    Who prints without end would keep its reader busy: after PRINTED_MAX its pipe is closed.
    """

    def __init__(self, child: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self._child = child
        self._end = ""
        self.start()

    def run(self) -> None:
        """Read until nobody can write any more, or it is too much."""
        assert self._child.stdout is not None
        read = 0
        while text := self._child.stdout.read(OUTPUT_MAX):
            self._end = (self._end + text)[-OUTPUT_MAX:]
            read += len(text)
            if read > PRINTED_MAX:
                self._child.stdout.close()
                self._end += f"\n{TOO_MUCH}"
                return

    def text(self) -> str:
        """The end of what a child that has ended printed."""
        self.join(timeout=5)
        assert self._child.stdout is not None
        self._child.stdout.close()
        return self._end


def spawn_module(module: str, *arguments: str, **how: Any) -> subprocess.Popen[Any]:
    """Start a module of this package; it finds the package where this process found it."""
    # -P: a file in the folder that this process is in is no module of what it imports.
    # -u: what it printed before an error stands before the error.
    command = [sys.executable, "-P", "-u", "-m", module, *arguments]
    return spawn(command, environment={**os.environ, "PYTHONPATH": python_path()}, **how)


def at_the_end(call: Callable[[int, Any], object] | signal.Handlers) -> None:
    """Let `call` handle what asks this process to end; a hang-up does not, where nohup says so."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, call)


def end_with_parent() -> None:
    """On Linux, as preexec_fn of a child: SIGKILL it when its parent is gone."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def open_many_files() -> None:
    """Let this process hold many: each connection takes two, and many shells allow 1024 files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def python_path() -> str:
    """The PYTHONPATH under which a new process finds this package, wherever it was started."""
    here = str(Path(__file__).parents[1])
    return os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))


def owner() -> int | None:
    """The process with which servers end, if the environment names one."""
    named = os.environ.get(OWNER, "")
    return int(named) if named.isdecimal() else None


def tail(log: Path, lines: int = 8) -> str:
    """The last lines of a log; empty if there is none."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    return ""


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """So many ports of PORTS on which nobody listens now at this address, chosen at random."""
    shuffled = random.SystemRandom().sample(PORTS, len(PORTS))
    free = (port for port in shuffled if _is_free(port, host))
    chosen = list(islice(free, count))
    if len(chosen) < count:
        raise StageError(f"fewer than {count} ports from {PORTS.start} to {PORTS.stop} are free.")
    return chosen


def free_port(wanted: int, host: str = LOOPBACK) -> int:
    """The wanted port if nobody listens there at this address, else one that is free."""
    return wanted if wanted and _is_free(wanted, host, reuse=True) else free_ports(1, host)[0]


def _is_free(port: int, host: str, *, reuse: bool = False) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        if reuse:  # A server that has just ended leaves its port in TIME_WAIT.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:  # whether the address is one of this machine, its server says
            return error.errno not in (errno.EADDRINUSE, errno.EACCES)
    return True


def ended_with(code: int) -> str:
    """How a process ended, in words.

    >>> ended_with(7), ended_with(-9)
    ('ended with exit code 7', 'was killed by SIGKILL')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"


def is_running(process: AnyProcess | int) -> bool:
    """Is there such a process, and is it more than the entry of one that has ended?"""
    if isinstance(process, subprocess.Popen):
        return process.poll() is None
    with suppress(psutil.NoSuchProcess):
        it = psutil.Process(process) if isinstance(process, int) else process
        return it.is_running() and it.status() != psutil.STATUS_ZOMBIE
    return False


def is_stopped(pid: int) -> bool:
    """Is there such a process, and does it do nothing until somebody sends it SIGCONT?"""
    with suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return False


def own_name() -> str:
    """A name of this process that no later process with its id has."""
    return f"{os.getpid()} {_began_s(psutil.Process()):.0f}"


def named(name: str) -> psutil.Process | None:
    """The process of this name; None if it has ended, or if it cannot be seen from here."""
    with suppress(ValueError, psutil.Error):
        pid, began = map(int, name.split())
        process = psutil.Process(pid)
        return process if abs(_began_s(process) - began) <= CLOCK_S else None
    return None


def _began_s(process: psutil.Process) -> float:
    """When a process began, in seconds of a clock that nobody sets.

    Linux counts from the start of the system; what psutil adds to that, in whole seconds, moves
    when the clock is set.
    """
    return process.create_time() - (psutil.boot_time() if sys.platform == "linux" else 0)


def runs(pid: int, program: str, folder: Path) -> bool:
    """Is this process the program of PROGRAMS that works for the folder?"""
    with suppress(psutil.Error):
        found = _identify(psutil.Process(pid), folder)
        return found is not None and found.program == program
    return False


def of_folder(folder: Path) -> list[Found]:
    """The lab's processes that work for this folder, or for one within it."""
    return [found for process in _all_but_this() if (found := _identify(process, folder))]


def of_owner(owner: int) -> list[psutil.Process]:
    """The servers that end with this process."""
    option = (OWNER_OPTION, str(owner))
    return [
        process
        for process in _all_but_this()
        if option in zip(line := words(process), line[1:], strict=False)
    ]


def with_variable(name: str, folder: str) -> list[psutil.Process]:
    """The processes whose environment has this folder, or one within it, as this variable."""
    found = []
    for process in _all_but_this():
        with suppress(psutil.Error, OSError):
            if f"{process.environ().get(name)}{os.sep}".startswith(f"{folder}{os.sep}"):
                found.append(process)
    return found


def is_forsaken(process: psutil.Process, parent: str) -> bool:
    """Has its owner ended, and is what it runs below not a program with this word any more?

    Its owner is named by its environment. One in a container has an id that is another's here: it
    still has its parent.
    """
    with suppress(psutil.Error, OSError):
        named = process.environ().get(OWNER, "")
        above = process.parent()
        if not named.isdecimal() or (above is not None and parent in words(above)):
            return False
        with suppress(psutil.NoSuchProcess):
            owner = psutil.Process(int(named))
            return not is_running(owner) or owner.create_time() > process.create_time()
        return is_running(process)
    return False


def _all_but_this() -> Iterator[psutil.Process]:
    return (it for it in psutil.process_iter() if it.pid != os.getpid() and is_running(it))


def words(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended, or is another user's."""
    with suppress(psutil.Error, OSError):
        return process.cmdline()
    return []


def _identify(process: psutil.Process, folder: Path) -> Found | None:
    line = words(process)
    program = next((PROGRAMS[word] for word in line if word in PROGRAMS), None)
    if program is None or not is_running(process):
        return None
    name = str(folder.resolve())
    path = next((it for it in line if f"{it}{os.sep}".startswith(f"{name}{os.sep}")), None)
    return Found(process, program, Path(path)) if path else None


def wait(child: subprocess.Popen[Any]) -> int:
    """The exit code of a child, when it has ended; a signal to this process is heard meanwhile.

    Python handles a signal between two of its own steps. One that comes after the last step before
    the system call, or to another thread, would not be handled until child.wait() returns.
    """
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=HEARD_S)


def end(processes: Iterable[AnyProcess], *steps: Step) -> None:
    """Send each signal in turn to what still runs, and wait so many seconds for its end.

    A step without a signal only waits. SIGKILL is always the last step, and is not listed. A
    child's signals go to its whole group. Raises WaitTimeout if something outlives SIGKILL.
    """
    left = list(processes)
    for how, timeout_s in steps:
        with suppress(WaitTimeout):
            _send(left, how, timeout_s)
    _send(left, signal.SIGKILL, KILL_S)


def _send(processes: list[AnyProcess], how: signal.Signals | None, timeout_s: float) -> None:
    left = [process for process in processes if is_running(process)]
    for process in left if how else ():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if isinstance(process, psutil.Process):
                process.send_signal(how or 0)
            else:
                os.killpg(process.pid, how or 0)
    wait_until(
        lambda: not any(map(is_running, left)),
        "processes of the lab to end",
        timeout_s=timeout_s,
        last_seen=lambda _: str([it.pid for it in left if is_running(it)]),
    )


def kill_group(child: subprocess.Popen[Any]) -> int:
    """SIGKILL a child and everything in its group, also when the child itself has ended.

    Returns when all of them have ended: who calls this removes what they wrote to.
    """
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    status = child.wait()
    wait_until(
        lambda: not any(_is_in_group(it, child.pid) for it in _all_but_this()),
        f"the group of process {child.pid} to end",
        timeout_s=KILL_S,
    )
    return status


def _is_in_group(process: psutil.Process, group: int) -> bool:
    with suppress(OSError):
        return os.getpgid(process.pid) == group
    return False


def end_all(find: Callable[[], list[psutil.Process]]) -> None:
    """SIGKILL what `find()` returns until it returns nothing: some start others meanwhile."""

    def none_is_left() -> bool:
        left = find()
        end(left)
        return not left

    wait_until(none_is_left, "processes of the lab to end", timeout_s=2 * KILL_S)
