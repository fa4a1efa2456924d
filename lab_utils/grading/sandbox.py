"""Where a submission's processes run: what they see, reach and may use, and how all of them end.

    grader ── start ──▶ bwrap ──▶ a process, its own file tree, network, process ids
       ╰── listen ──▶ a port inside ◀── the process           the grader carries it to one outside

A submission is hostile. With bubblewrap its processes see the Python that runs the lab, the lab's
package and its cache, all read-only, and one folder of their own; of the network they see a
loopback that nobody else is on; and they end when the first of them ends, or the grader. What they
hold in memory, on disk and in processes is looked at twice a second, and too much ends all of them.

A port of the examination is not reached but handed over: a short process enters the network
inside, opens the port there, and gives it to the grader, who carries each connection to the same
port outside. Whoever speaks through it is this submission, whatever it says of itself.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from lab_utils import processes
from lab_utils.errors import SetupError, StageError
from lab_utils.folders import cache_folder
from lab_utils.waiting import wait_until

BUBBLEWRAP: Final = "bubblewrap"
NONE: Final = "none"
ROOT: Final = Path(__file__).parents[2]
FIX: Final = (
    "Debian and Ubuntu: apt-get install bubblewrap util-linux. In a container, user namespaces "
    "must be allowed: docker run --security-opt seccomp=unconfined. Or grade with --unsafe if you "
    "trust every submission as you trust yourself"
)

# Every process of a submission inherits this variable: the folder that it may write to, which lies
# in the folder of its grading. Without a sandbox those are found by it that left their group.
MARKER: Final = "LAB_SUBMISSION"

# Of /etc what a Python and a Java read: no passwords, no keys, no configuration of services.
CONFIGURATION: Final = (
    "alternatives", "ca-certificates", "fonts", "group", "host.conf", "hosts", "java-17-openjdk",
    "java-21-openjdk", "java-25-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
    "mime.types", "nsswitch.conf", "passwd", "ssl/certs", "timezone",
)  # fmt: skip
SYSTEM: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
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
START_S: Final = 20
LOOK_S: Final = 0.5
CHUNK: Final = 65_536
MEGABYTE: Final = 1_000_000
FILES_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What the processes of one submission may hold together, and the size of one file."""

    memory_mb: int = 5000
    disk_mb: int = 3000
    processes: int = 400
    file_mb: int = 1000


class PortTaken(StageError):
    """A process of the submission holds a port that its examination needs."""


@functools.cache
def isolation() -> str:
    """What keeps submissions apart on this machine: bubblewrap, or none."""
    if sys.platform == "linux" and shutil.which("nsenter") and (bwrap := shutil.which("bwrap")):
        tried = [bwrap, *APART, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
        with suppress(OSError, subprocess.TimeoutExpired):
            if subprocess.run(tried, capture_output=True, timeout=START_S).returncode == 0:
                return BUBBLEWRAP
    return NONE


def required_isolation(*, unsafe: bool) -> str:
    """The isolation of a grading; raises SetupError where there is none and nobody wants it so."""
    found = NONE if unsafe else isolation()
    if found == NONE and not unsafe:
        raise SetupError(
            "nothing on this machine keeps a submission from the grader's files, from the other "
            f"submissions or from their grades, so nothing was graded. {FIX}."
        )
    return found


APART: Final = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net",
                "--unshare-uts", "--die-with-parent", "--new-session")  # fmt: skip


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
        assert kind in (BUBBLEWRAP, NONE), kind
        self.kind = kind
        self.folder = folder
        self.exceeded: str | None = None
        self._readable = tuple(readable)
        self._shared = tuple(shared)
        self._limits = limits or Limits()
        self._first: subprocess.Popen[Any] | None = None
        self._inside: psutil.Process | None = None  # the init of its process ids
        self._ended = threading.Event()

    def start(
        self, command: list[str], *, cwd: Path, environment: Mapping[str, str], **how: Any
    ) -> subprocess.Popen[Any]:
        """Start the first process; when it ends, so do all that it has started."""
        assert self._first is None, self.folder
        environment = {**environment, MARKER: str(self.folder)}
        if self.kind == NONE:
            self._first = processes.spawn(command, cwd=cwd, environment=environment, **how)
            return self._first
        said, told = os.pipe()
        try:
            line = [*_limited(self._limits), "bwrap", *self._view(), "--info-fd", str(told),
                    "--chdir", str(cwd), "--", *command]  # fmt: skip
            fds = (*how.pop("pass_fds", ()), told)
            self._first = processes.spawn(line, environment=environment, pass_fds=fds, **how)
        finally:
            os.close(told)
        with os.fdopen(said) as lines:
            text = lines.read()
        try:
            self._inside = psutil.Process(json.loads(text)["child-pid"])
        except (ValueError, KeyError, psutil.Error):
            processes.kill_group(self._first)
            raise StageError(
                f"bwrap started no process in {self.folder}; it said {text!r}. Run ./lab doctor."
            ) from None
        threading.Thread(target=self._watch, daemon=True).start()
        return self._first

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the first process alone; nothing if it has ended."""
        with suppress(psutil.Error, ProcessLookupError, IndexError):
            if self._inside is None:
                assert self._first is not None
                os.kill(self._first.pid, number)
            else:
                self._inside.children()[0].send_signal(number)

    def end(self) -> None:
        """End the first process and everything that it started; return when all have ended."""
        self._ended.set()
        if self._inside is not None:
            processes.end([self._inside])
        if self._first is not None:
            processes.kill_group(self._first)
        if self.kind == NONE:
            processes.end_all(lambda: processes.with_variable(MARKER, str(self.folder)))

    @contextmanager
    def reaching(self, ports: Iterable[int]) -> Iterator[None]:
        """While this lasts, these ports of the grader's machine can be reached from inside.

        Raises PortTaken when a process inside has one of them.
        """
        if self.kind == NONE:
            yield
            return
        listeners = self._listeners(tuple(ports))
        carrier = _Carrier(listeners)
        carrier.start()
        try:
            yield
        finally:
            carrier.stop()

    def _listeners(self, ports: tuple[int, ...]) -> list[socket.socket]:
        if self._inside is None or not self._inside.is_running():
            return []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            entered = subprocess.run(
                ["nsenter", "--preserve-credentials", "--user", "--net",
                 f"--target={self._inside.pid}", "--", sys.executable, "-IS", "-c", LISTEN,
                 str(theirs.fileno()), *map(str, ports)],
                pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=START_S,
            )  # fmt: skip
            if entered.returncode != 0:
                if not self._inside.is_running():  # it has ended, so nobody will ask
                    return []
                kind = PortTaken if "Address already in use" in entered.stderr else StageError
                raise kind(
                    f"the ports {', '.join(map(str, ports))} could not be opened for a submission: "
                    f"{entered.stderr.strip().splitlines()[-1:]}."
                )
            _, given, _, _ = socket.recv_fds(ours, 1, PORTS_MAX)
        return [socket.socket(fileno=number) for number in given]

    def _view(self) -> list[str]:
        """The file tree inside, as options of bwrap."""
        options = [*APART, "--hostname", "lab", "--proc", "/proc", "--dev", "/dev",
                   "--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr"]  # fmt: skip  # noqa: S108
        for name in SYSTEM:
            path = Path("/", name)
            if path.is_symlink():
                options += ["--symlink", os.readlink(path), str(path)]
            elif path.exists():
                options += ["--ro-bind", str(path), str(path)]
        for name in CONFIGURATION:
            options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for folder in (*_installation(), *self._readable):
            options += ["--ro-bind", str(folder), str(folder)]
        for folder in (self.folder, *self._shared):
            options += ["--bind", str(folder), str(folder)]
        return options

    def _watch(self) -> None:
        """End everything when it holds too much."""
        assert self._inside is not None
        while not self._ended.wait(LOOK_S):
            with suppress(psutil.Error, OSError):
                if not self._inside.is_running():
                    return
                if exceeded := self._too_much(self._inside.children(recursive=True)):
                    self.exceeded = exceeded
                    self._inside.kill()
                    return

    def _too_much(self, running: list[psutil.Process]) -> str | None:
        limits = self._limits
        if len(running) > limits.processes:
            return f"{len(running)} processes ran at once, and {limits.processes} may"
        memory = disk = 0
        for process in running:
            with suppress(psutil.Error):
                memory += process.memory_info().rss
        disk = sum(map(_disk, (self.folder, *self._shared)))
        for what, held, mb in (
            ("in memory", memory, limits.memory_mb),
            ("on disk", disk, limits.disk_mb),
        ):
            if held > mb * MEGABYTE:
                return f"it held {held // MEGABYTE} MB {what}, and {mb} MB are the limit"
        return None


class _Carrier(threading.Thread):
    """Carries each connection that comes to a socket inside to the same port outside."""

    def __init__(self, listeners: list[socket.socket]) -> None:
        super().__init__(daemon=True)
        self._listeners = listeners
        self._loop = asyncio.new_event_loop()

    def run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    def stop(self) -> None:
        """Close every connection and every socket; return when they are closed."""
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopped.set)
        self.join()

    async def _serve(self) -> None:
        servers = []
        for listener in self._listeners:
            port = listener.getsockname()[1]
            servers.append(
                await asyncio.start_server(functools.partial(self._carry, port), sock=listener)
            )
        await self._stopped.wait()
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    @functools.cached_property
    def _stopped(self) -> asyncio.Event:
        return asyncio.Event()

    async def _carry(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        # When one side ends, the other is told at once: a broker that was killed is gone.
        ways = [asyncio.ensure_future(_pump(reader, ours)),
                asyncio.ensure_future(_pump(theirs, writer))]  # fmt: skip
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (ours, writer):
                end.transport.abort() if ways[0].cancelled() else end.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()


def _limited(limits: Limits) -> list[str]:
    """The command that sets what the system itself limits; who needs memory takes it from here."""
    choom = ["choom", "-n", "1000", "--"] if shutil.which("choom") else []
    prlimit = ["prlimit", f"--fsize={limits.file_mb * MEGABYTE}", "--core=0", "--"]
    return choom + (prlimit if shutil.which("prlimit") else [])


@functools.cache
def _installation() -> tuple[Path, ...]:
    """What runs the lab, read-only inside: Python, its packages, Java, the package, the cache.

    Of the checkout the package alone: what the labs ask, and its answers, lie beside it.
    """
    from lab_utils.machine.java import find_java

    found = [Path(sys.base_prefix), Path(sys.prefix), Path(sys.executable).resolve().parents[1],
             find_java().home, ROOT / "lab_utils", cache_folder()]  # fmt: skip
    return tuple(path for path in dict.fromkeys(found) if not path.is_relative_to("/usr"))


def _disk(folder: Path) -> int:
    """The bytes that a folder takes; of a great many files, those of the first."""
    taken = 0
    waiting = [str(folder)]
    files = 0
    while waiting and files < FILES_MAX:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                files += 1
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        taken += entry.stat(follow_symlinks=False).st_blocks * 512
    return taken if files < FILES_MAX else sys.maxsize


def take(folder: Path, name: str, to: Path, bytes_max: int = 100 * MEGABYTE) -> bool:
    """Copy a regular file out of a submission's folder; False where there is none.

    No link is followed and no pipe is waited for: the folder is the submission's.
    """
    try:
        within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=within)
    except OSError:
        return False
    finally:
        os.close(within)
    with os.fdopen(number, "rb") as file, to.open("wb") as copy:
        found = os.fstat(number)
        if not Path(f"/proc/self/fd/{number}").is_file() or found.st_size > bytes_max:
            return False
        shutil.copyfileobj(file, copy)
    return True
