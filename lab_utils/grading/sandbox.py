"""Where a submission's processes run: what they see, reach and may use, and how all of them end.

    grader ── start ──▶ bwrap ──▶ a process, its own file tree, network, process ids
       ╰── listen ──▶ a port inside ◀── the process           the grader carries it to one outside

A submission is hostile. With bubblewrap (machine/confinement.py) its processes see the Python that
runs the lab, the lab's package and its cache, all read-only, and one folder of their own; of the
network they see a loopback that nobody else is on; and they end when the first of them ends, or the
grader. What they hold in memory, on disk and in processes is looked at twice a second, and too much
ends all of them. From Linux 6.14 on the system refuses processes and threads far beyond that.

With Landlock they read and write the same files, signal only one another, and share the network.

A port of the examination is not reached but handed over: a short process enters the network
inside, opens the port there, and gives it to the grader, who carries each connection to the same
port outside. Whoever speaks through it is this submission, whatever it says of itself.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil

from lab_utils import processes
from lab_utils.errors import LeftUnreadable, SetupError, StageError
from lab_utils.folders import cache_folder
from lab_utils.machine import seccomp
from lab_utils.machine.confinement import APART, BUBBLEWRAP, FIX, LANDLOCK, NONE, START_S, isolation
from lab_utils.machine.forwarder import Forwarder
from lab_utils.machine.java import find_java

ROOT: Final = Path(__file__).parents[2]

# Every process of a submission inherits this variable: the folder that it may write to, which lies
# in the folder of its grading. Without a sandbox those are found by it that left their group.
MARKER: Final = "LAB_SUBMISSION"

# Of /etc what a Python and a Java read: no passwords, no keys, no configuration of services.
CONFIGURATION: Final = (
    "alternatives", "ca-certificates", "fonts", "group", "host.conf", "hosts", "java-17-openjdk",
    "java-21-openjdk", "java-25-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
    "mime.types", "nsswitch.conf", "passwd", "ssl/certs", "timezone",
)  # fmt: skip
# bwrap asks to be killed with its parent a little after it was started, and so does the init that
# it starts: if the grader ends in between, nobody ends them. So what runs inside asks the grader
# first, and ends if there is none.
WAITING: Final = (
    "/bin/sh", "-c", 'echo > "$1" && read -r _ < "$2" && shift 2 && exec "$@"', "sh",
)  # fmt: skip
SYSTEM: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
DEVICES: Final = tuple(map(Path, ("/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                  "/dev/urandom")))  # fmt: skip
CONFINED: Final = "lab_utils.machine.landlock"
END_S: Final = 15
LISTEN: Final = """
import socket, sys
given = socket.socket(fileno=int(sys.argv[1]))
opened = []
for port in map(int, sys.argv[2:]):
    opened.append(socket.socket())
    opened[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened[-1].bind(("127.0.0.1", port))
    opened[-1].listen(64)
socket.send_fds(given, [b"!"], [each.fileno() for each in opened])
"""
PORTS_MAX: Final = 16
LOOK_S: Final = 0.5
PAUSE_MAX_S: Final = 5.0
MEGABYTE: Final = 1_000_000
FILES_MAX: Final = 20_000
PATH_MAX: Final = 4000  # of 4096
UNCOUNTED: Final = sys.maxsize // 4
OPEN_EACH: Final = 4096
LOWEST: Final = 19  # priority
# Threads have process ids, too: a Spark has some hundred. The system keeps the first for itself.
IDS_EACH: Final = 16
IDS_RESERVED: Final = 300
# Before Linux 6.14 pid_max is that of the machine, and not each namespace's.
LIMITS_IDS: Final = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 14)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the processes of one submission may hold together, and the size of one file.

    stage_mb  what it may leave on its stage in one examination: in the log, and in the ledger
    processor_s  who has used more gives way to all others, and is not ended
    """

    memory_mb: int = 5000
    disk_mb: int = 3000
    stage_mb: int = 20
    processes: int = 100
    open_files: int = 5000  # a socket holds up to 200 kB that no process is charged with
    file_mb: int = 1000
    processor_s: int = 200  # a right submission of the dearest lab uses less than half


# What has been started and not ended; for whoever is interrupted.
_open: set[Sandbox] = set()


def end_within(folder: Path) -> None:
    """End every sandbox whose folder lies in this one."""
    for sandbox in tuple(_open):
        if sandbox.folder.is_relative_to(folder):
            sandbox.end()


def required_isolation(*, unsafe: bool) -> str:
    """The isolation of a grading; raises SetupError where there is none and nobody wants it so."""
    found = NONE if unsafe else isolation()
    if found == NONE and not unsafe:
        raise SetupError(
            "nothing on this machine keeps a submission from the grader's files, from the other "
            f"submissions or from their grades, so nothing was graded. {FIX}."
        )
    return found


class Sandbox:
    """One process of a submission with all that it starts.

    folder    its own, which it may write to; the grader trusts nothing in it
    readable  folders that it may read besides its installation
    shared    folders that it may write to, too, which other sandboxes of this submission see
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        readable: Iterable[Path] = (),
        shared: Iterable[Path] = (),
        limits: Limits | None = None,
    ) -> None:
        assert kind in (BUBBLEWRAP, LANDLOCK, NONE), kind
        self.kind = kind
        self.folder = folder
        self.exceeded: str | None = None
        self._readable = tuple(readable)
        self._shared = tuple(shared)
        self._limits = limits or Limits()
        self._first: subprocess.Popen[Any] | None = None
        self._inside: psutil.Process | None = None  # the init of its process ids
        self._ended = threading.Event()
        self._filled: tuple[tuple[Path, ...], int] = (), 0  # and what was there before

    def start(
        self, command: list[str], *, cwd: Path, environment: Mapping[str, str], **how: Any
    ) -> subprocess.Popen[Any]:
        """Start the first process; when it ends, so do all that it has started."""
        assert self._first is None, self.folder
        if self.kind == BUBBLEWRAP:
            self._first, self._inside = self._in_bubblewrap(command, cwd, environment, how)
        else:
            # What the lab starts, and the kernel, watch the grader, and end with it.
            mine = str(os.getpid())
            own = {MARKER: str(self.folder), processes.OWNER: mine, "JPY_PARENT_PID": mine}
            # -P: it runs before anything is taken from it, in a folder that is the submission's.
            confined = [sys.executable, "-P", "-m", CONFINED, mine, self._allowed()]
            words = [*_limited(self._limits), *confined, *command]
            self._first = processes.spawn(
                words if self.kind == LANDLOCK else command,
                cwd=cwd,
                environment={**environment, **own},
                **how,
            )
            self._inside = psutil.Process(self._first.pid)
        _open.add(self)
        threading.Thread(target=self._watch, daemon=True).start()
        return self._first

    def _in_bubblewrap(
        self, command: list[str], cwd: Path, environment: Mapping[str, str], how: dict[str, Any]
    ) -> tuple[subprocess.Popen[Any], psutil.Process]:
        """The process of bwrap, and the init inside; raises StageError if none was started."""
        (said, told), (asked, asks), (answered, answers) = os.pipe(), os.pipe(), os.pipe()
        refused, refuses = os.pipe()
        with os.fdopen(refuses, "wb") as calls:
            calls.write(seccomp.program())
        theirs = (told, asks, answered, refused)
        with (
            os.fdopen(answers, "w") as answer,
            os.fdopen(said) as lines,
            os.fdopen(asked) as asking,
        ):
            try:
                words = [*_limited(self._limits), "bwrap", *self._view(), "--info-fd", str(told),
                         *(["--seccomp", str(refused)] if seccomp.program() else []),
                         "--chdir", str(cwd), "--", *WAITING,
                         *(f"/proc/self/fd/{each}" for each in (asks, answered)),
                         *command]  # fmt: skip
                fds = (*how.pop("pass_fds", ()), *theirs)
                first = processes.spawn(words, environment=environment, pass_fds=fds, **how)
            finally:
                for each in theirs:
                    os.close(each)
            text = ""  # its processes may hold the other ends, and never close them
            while "}" not in text and (line := lines.readline()):
                text += line
            try:
                inside = psutil.Process(int(json.loads(text)["child-pid"]))
            except (ValueError, KeyError, psutil.NoSuchProcess):
                processes.kill_group(first)
                raise StageError(
                    f"bwrap started no process in {self.folder}; it said {text!r}. "
                    "Run ./lab doctor."
                ) from None
            with suppress(BrokenPipeError):  # it has ended, as anybody may
                if asking.readline():
                    _limit_ids(inside.pid, self._limits)
                    print(file=answer, flush=True)
        return first, inside

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the first process alone; nothing if it has ended."""
        assert self._inside is not None
        with suppress(psutil.Error, IndexError):
            first = self._inside if self.kind == NONE else self._inside.children()[0]
            first.send_signal(number)

    def end_for(self, exceeded: str) -> None:
        """Let everything in it end, for having exceeded this; nothing is waited for."""
        assert self._inside is not None
        self.exceeded = exceeded
        # Under Landlock it is the one that ends the others, also those without a mark.
        with suppress(psutil.Error):
            self._inside.send_signal(signal.SIGTERM if self.kind == LANDLOCK else signal.SIGKILL)

    def end(self) -> None:
        """End the first process and everything that it started; return when all have ended."""
        self._ended.set()
        _open.discard(self)
        if self._first is None or self._inside is None:
            return
        if self.kind == BUBBLEWRAP:
            processes.end([self._inside])
        elif self.kind == LANDLOCK:  # it ends what it has started, and then itself
            processes.end([self._inside], (signal.SIGTERM, END_S))
        processes.kill_group(self._first)
        if self.kind != BUBBLEWRAP:
            processes.end_all(lambda: processes.with_variable(MARKER, str(self.folder)))

    @contextmanager
    def reaching(self, ports: Iterable[int], fills: Iterable[Path] = ()) -> Iterator[None]:
        """While this lasts, these ports of the grader's machine can be reached from inside.

        What is sent there ends up in the folders that it `fills`, which are looked at as its own.
        Raises StageError when a process inside has one of them.
        """
        folders = tuple(fills)
        self._filled = folders, sum(map(_disk, folders))
        try:
            with self._forwarded(ports):
                yield
        finally:
            self._filled = (), 0

    @contextmanager
    def _forwarded(self, ports: Iterable[int]) -> Iterator[None]:
        if self.kind != BUBBLEWRAP:  # they have the network of the machine
            yield
            return
        forwarder = Forwarder({
            listener: partial(asyncio.open_connection, "127.0.0.1", listener.getsockname()[1])
            for listener in self._listeners(tuple(ports))
        })  # fmt: skip
        forwarder.start()
        try:
            yield
        finally:
            forwarder.stop()

    def _listeners(self, ports: tuple[int, ...]) -> list[socket.socket]:
        if self._inside is None or not self._inside.is_running():
            return []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                entered = subprocess.run(
                    ["nsenter", "--preserve-credentials", "--user", "--net",
                     f"--target={self._inside.pid}", "--", sys.executable, "-IS", "-c", LISTEN,
                     str(theirs.fileno()), *map(str, ports)],
                    pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=START_S,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise StageError(
                    f"the ports {', '.join(map(str, ports))} of a submission were not open after "
                    f"{START_S} s: this machine is too slow now."
                ) from error
            if entered.returncode != 0:
                if not self._inside.is_running():  # it has ended, so nobody will ask
                    return []
                raise StageError(
                    f"the ports {', '.join(map(str, ports))} could not be opened for a submission: "
                    f"{entered.stderr.strip().splitlines()[-1:]}."
                )
            _, given, _, _ = socket.recv_fds(ours, 1, PORTS_MAX)
        return [socket.socket(fileno=number) for number in given]

    def _view(self) -> list[str]:
        """The file tree inside, as options of bwrap: what can be written is in the own folder."""
        options = [*APART, "--hostname", "lab", "--proc", "/proc", "--dev", "/dev",
                   "--ro-bind", "/usr", "/usr"]  # fmt: skip
        for name, place in (("tmp", "/tmp"), ("memory", "/dev/shm")):  # noqa: S108
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
            options += ["--bind", str(self.folder / name), place]
        for name in SYSTEM:
            path = Path("/", name)
            if path.is_symlink():
                options += ["--symlink", str(path.readlink()), str(path)]
            elif path.exists():
                options += ["--ro-bind", str(path), str(path)]
        for name in CONFIGURATION:
            options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for folder in (*_installation(), *self._readable):
            options += ["--ro-bind", str(folder), str(folder)]
        for folder in (self.folder, *self._shared):
            options += ["--bind", str(folder), str(folder)]
        return [*options, "--remount-ro", "/dev", "--remount-ro", "/"]

    def _allowed(self) -> str:
        """What may be listed, read and written, for Landlock."""
        system = [Path("/usr"), *(Path("/", name) for name in SYSTEM), Path("/proc"), Path("/sys")]
        configuration = [Path("/etc", name) for name in CONFIGURATION]
        readable = [*system, *configuration, *_installation(), *self._readable]
        paths = {
            "listable": [ROOT],  # Python looks there for the package
            "readable": readable,
            "writable": [self.folder, *self._shared, *DEVICES],
        }
        return json.dumps({name: list(map(str, found)) for name, found in paths.items()})

    def _watch(self) -> None:
        """End everything when it holds too much."""
        assert self._inside is not None
        pause_s = LOOK_S
        while not self._ended.wait(pause_s):
            looked = time.monotonic()
            with suppress(psutil.Error, OSError):
                if not self._inside.is_running():
                    return
                running = self._inside.children(recursive=True)
                if exceeded := self._too_much(running):
                    self.end_for(exceeded)
                    return
                if _processor_s([self._inside, *running]) > self._limits.processor_s:
                    _give_way(running)
            pause_s = _pause_s(time.monotonic() - looked)

    def _too_much(self, running: list[psutil.Process]) -> str | None:
        limits = self._limits
        if len(running) > limits.processes:
            return f"{len(running)} processes ran at once, and {limits.processes} may"
        memory = _memory(running, "rss")
        if memory > limits.memory_mb * MEGABYTE:  # what forks share counts once; slower to ask
            memory = _memory(running, "pss")
        open_files, unlinked = _open_files(running)
        if open_files > limits.open_files:
            return f"{open_files} files and sockets were open, and {limits.open_files} may be"
        disk = unlinked + sum(map(_disk, (self.folder, *self._shared)))
        filled, before = self._filled
        stage = sum(map(_disk, filled))
        stage -= before if stage < UNCOUNTED else 0
        for what, held, mb in (
            ("in memory", memory, limits.memory_mb),
            ("on disk", disk, limits.disk_mb),
            ("on its stage", stage, limits.stage_mb),
        ):
            if held >= UNCOUNTED:
                return f"it held more files than can be counted {what}"
            if held > mb * MEGABYTE:
                return f"it held {held // MEGABYTE} MB {what}, and {mb} MB are the limit"
        return None


def _pause_s(looked_s: float) -> float:
    """How long nobody looks after a look that took so long.

    Many files take long to count, and the graders of others wait meanwhile. But whoever makes a
    look slow must not be left alone for long.
    """
    return min(max(LOOK_S, 10 * looked_s), PAUSE_MAX_S)


def _limited(limits: Limits) -> list[str]:
    """The command that sets what the system itself limits; who needs memory takes it from here."""
    choom = ["choom", "-n", "1000", "--"] if shutil.which("choom") else []
    prlimit = ["prlimit", f"--fsize={limits.file_mb * MEGABYTE}", "--core=0",
               f"--nofile={min(OPEN_EACH, resource.getrlimit(resource.RLIMIT_NOFILE)[1])}",
               "--"]  # fmt: skip
    return choom + (prlimit if shutil.which("prlimit") else [])


def _limit_ids(inside: int, limits: Limits) -> None:
    """Let the system refuse a process or a thread too many, where it can.

    A loop that forks makes thousands before the next look, and leaves no processor for it.
    """
    if LIMITS_IDS:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["nsenter", "--preserve-credentials", "--user", "--pid", f"--target={inside}", "--",
                 "tee", "/proc/sys/kernel/pid_max"],
                input=str(IDS_RESERVED + IDS_EACH * limits.processes),
                capture_output=True, text=True, timeout=START_S, check=False,
            )  # fmt: skip


def packages() -> list[Path]:
    """Where this Python has its packages from, its own folder or a person's."""
    names = ("site-packages", "dist-packages")
    return [path for path in map(Path, sys.path) if path.name in names and path.is_dir()]


@functools.cache
def _installation() -> tuple[Path, ...]:
    """What runs the lab, read-only inside: Python, its packages, Java, the package, the cache.

    Of the checkout the package alone: what the labs ask, and its answers, lie beside it.
    """
    found = [Path(sys.base_prefix), Path(sys.prefix), Path(sys.executable).resolve().parents[1],
             *packages(), find_java().home, ROOT / "lab_utils", cache_folder()]  # fmt: skip
    return tuple(path for path in dict.fromkeys(found) if not path.is_relative_to("/usr"))


def _memory(running: list[psutil.Process], kind: str) -> int:
    """The bytes that processes hold, as the system counts this kind."""
    held = 0
    for process in running:
        with suppress(psutil.Error):
            info = process.memory_info() if kind == "rss" else process.memory_full_info()
            held += getattr(info, kind)
    return held


def _processor_s(running: list[psutil.Process]) -> float:
    """The seconds of processor time that processes have used, and those they waited for."""
    used = 0.0
    for process in running:
        with suppress(psutil.Error):
            used += sum(process.cpu_times()[:4])  # user, system, and both of ended children
    return used


def _give_way(running: list[psutil.Process]) -> None:
    """Let everybody else run first; a process can only lower its own priority again."""
    for process in running:
        with suppress(psutil.Error, OSError):
            if process.nice() < LOWEST:
                process.nice(LOWEST)
            # Linux may weigh sessions, and a process only within its own.
            Path(f"/proc/{process.pid}/autogroup").write_text(str(LOWEST))


def _disk(folder: Path) -> int:
    """The bytes that a folder takes; UNCOUNTED if it has more than FILES_MAX files, or hides some.

    What lies too deep for a path, or in a folder that may not be read, nobody could count.
    """
    taken = 0
    waiting = [str(folder)]
    files = 0
    while waiting and files < FILES_MAX:
        path = waiting.pop()
        if len(path) > PATH_MAX or not os.access(path, os.R_OK | os.X_OK):
            files += FILES_MAX * os.path.lexists(path)
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                files += 1
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        taken += entry.stat(follow_symlinks=False).st_blocks * 512
    return taken if files < FILES_MAX else UNCOUNTED


def _open_files(running: list[psutil.Process]) -> tuple[int, int]:
    """How many files processes hold open, and the bytes of those that are in no folder any more."""
    count = 0
    unlinked: dict[object, int] = {}
    for process in running:
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{process.pid}/fd"):
                count += 1
                with suppress(OSError):
                    found = entry.stat()
                    if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                        unlinked[found.st_dev, found.st_ino] = found.st_blocks * 512
        with suppress(OSError):
            for line in Path(f"/proc/{process.pid}/maps").read_bytes().splitlines():
                if line.endswith(b"(deleted)") and b" /dev/zero " not in line:
                    start, _, end = line.partition(b" ")[0].partition(b"-")
                    unlinked[process.pid, start] = int(end, 16) - int(start, 16)
    return count, sum(unlinked.values())


def remove(folder: Path) -> None:
    """Delete a submission's folder, however deep it is, and whatever it forbids its owner."""
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        subprocess.run([*command, str(folder)], capture_output=True, check=False)


def take(
    folder: Path, name: str, to: Path, bytes_max: int = 100 * MEGABYTE, what: str = ""
) -> bool:
    """Copy a regular file out of a submission's folder; False where there is none of this name.

    No link is followed on the way to it, and no pipe is waited for: what is in the folder is the
    submission's. Raises LeftUnreadable for a file that is too large.
    """
    with suppress(OSError), opened(folder, name, os.O_RDONLY) as descriptor:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return False
        if found.st_size > bytes_max:
            raise LeftUnreadable(
                f"{what or to.name} has {found.st_size:,} bytes, and {bytes_max:,} are the limit."
            )
        with to.open("wb") as copy, open(descriptor, "rb", closefd=False) as file:
            copy.write(file.read(bytes_max))
        return True
    return False


@contextmanager
def opened(folder: Path, name: str, flags: int) -> Iterator[int]:
    """A file below a submission's folder; no link on the way to it is followed. Raises OSError."""
    *folders, last = Path(name).parts
    with ExitStack() as held:
        within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        held.callback(os.close, within)
        for part in folders:
            within = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
            held.callback(os.close, within)
        file = os.open(last, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=within)
        held.callback(os.close, file)
        yield file
