"""What a submission's processes see, reach and may hold, and that all of them end."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import psutil
import pytest

from lab_utils import processes
from lab_utils.errors import LeftUnreadable, StageError
from lab_utils.grading.sandbox import (
    IDS_EACH,
    IDS_RESERVED,
    LIMITS_IDS,
    PAUSE_MAX_S,
    ROOT,
    Limits,
    Sandbox,
    _pause_s,
    remove,
    take,
)
from lab_utils.machine import landlock
from lab_utils.machine.confinement import BUBBLEWRAP, LANDLOCK, isolation
from lab_utils.waiting import wait_until

pytestmark = pytest.mark.labs
in_bubblewrap = pytest.mark.skipif(isolation() != BUBBLEWRAP, reason="bubblewrap is not to be had")
has_landlock = pytest.mark.skipif(landlock.abi() < landlock.OLDEST_ABI, reason="no Landlock")
KINDS = [pytest.param(BUBBLEWRAP, marks=in_bubblewrap), pytest.param(LANDLOCK, marks=has_landlock)]
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the grader's, with a short name: a socket's path is limited."""
    with TemporaryDirectory(prefix="lab-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        remove(Path(folder))  # a submission's may be deeper than Python can delete


def boxed(request: pytest.FixtureRequest, place: Path) -> Iterator[Sandbox]:
    """A sandbox of the kind that is asked for."""
    with opened(request.param, place) as sandbox:
        yield sandbox


# Of each kind, and of that which has a network and process ids of its own.
box, apart = pytest.fixture(params=KINDS)(boxed), pytest.fixture(params=KINDS[:1])(boxed)


@contextmanager
def opened(kind: str, place: Path, **how: Any) -> Iterator[Sandbox]:
    folder = place / secrets.token_hex(4)
    folder.mkdir()
    sandbox = Sandbox(kind, folder, **how)
    yield sandbox
    sandbox.end()


def start(sandbox: Sandbox, code: str, **how: Any) -> subprocess.Popen[str]:
    return sandbox.start(
        [sys.executable, "-c", code],
        cwd=sandbox.folder,
        environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        **how,
    )


def said(sandbox: Sandbox, code: str) -> str:
    """What a process inside prints."""
    process = start(sandbox, code)
    return process.communicate()[0].strip()


READS = """
import os, sys
try:
    path = {path!r}
    print("read", os.listdir(path) if os.path.isdir(path) else open(path).read())
except OSError as error:
    print(error.strerror)
"""


@each_kind
def test_what_confines_it_is_not_its_own(kind: str, place: Path) -> None:
    """What it has left where it starts runs in its sandbox or not at all."""
    (place / "answers").write_text("secret")
    with opened(kind, place) as sandbox:
        own = sandbox.folder / "lab_utils" / "machine"
        own.mkdir(parents=True)
        path = str(place / "answers")
        for name in ("__init__", "landlock", "../__init__"):
            (own / f"{name}.py").write_text(READS.format(path=path))

        assert "secret" not in said(sandbox, READS.format(path=path))


@pytest.mark.parametrize(
    "path",
    [
        ROOT / "labs" / "source" / "03_why_did_the_order_arrive_twice.py",
        ROOT / "labs" / "checks" / "lab03.py",
        ROOT / "tests" / "conftest.py",
        ROOT / ".git",
        Path.home() / ".bashrc",
        Path("/etc/shadow"),
        Path("/var/log"),
        Path("/tmp"),
    ],
)
def test_it_does_not_see(box: Sandbox, path: Path) -> None:
    """It can read no answers, no checks, no home, no passwords, and no folder that all share."""
    if path == Path("/tmp") and box.kind == BUBBLEWRAP:
        assert Path(box.folder).parts[2] in said(box, READS.format(path=str(path)))
        return
    refusals = ("No such file or directory", "Permission denied", "Not a directory")
    if path.name == ".git" and box.kind == LANDLOCK:  # names can be listed where Python looks
        path /= "HEAD"

    assert said(box, READS.format(path=str(path))) in refusals


def test_it_sees_no_other_processes(apart: Sandbox) -> None:
    """With process ids of its own it can count its own, and no more."""
    assert "1 2" == said(apart, "import os; print(*filter(str.isdigit, os.listdir('/proc')))")


def test_it_signals_nobody(box: Sandbox) -> None:
    """The grader can neither be killed nor looked into."""
    grader = os.getpid()
    code = f"import os\ntry: os.kill({grader}, 0); print('killed')\n"
    code += "except OSError as error: print(error.strerror)\n"

    killed, looked = said(box, code + READS.format(path=f"/proc/{grader}/environ")).splitlines()

    assert killed in ("No such process", "Operation not permitted")
    assert looked in ("No such file or directory", "Permission denied")


@pytest.mark.parametrize(
    "path", [ROOT / "lab_utils" / "lab.py", Path(sys.prefix) / "pyvenv.cfg", Path("/usr/x")]
)
def test_it_changes_nothing_that_others_use(box: Sandbox, path: Path) -> None:
    """The package, Python and the system are read-only inside."""
    code = f"try: open({str(path)!r}, 'a')\nexcept OSError as error: print(error.strerror)"

    assert said(box, code) in ("Read-only file system", "Permission denied")


def test_it_knows_the_package(box: Sandbox) -> None:
    """What a learner needs is there: the package and its libraries."""
    assert "Lab" == said(box, "import lab_utils; print(lab_utils.Lab.__name__)")


class Echo(StreamRequestHandler):
    def handle(self) -> None:
        """Send a line back."""
        self.wfile.write(self.rfile.readline())


@contextmanager
def served() -> Iterator[int]:
    with ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


ASK = """
import socket
for _ in range(200):
    try:
        with socket.create_connection(("127.0.0.1", {port}), 5) as it:
            it.sendall(b"hello\\n")
            print(it.makefile().readline().strip() or "nothing")
        break
    except OSError as error:
        last = error.strerror
    __import__("time").sleep(0.01)
else:
    print(last)
"""


def test_it_reaches_no_socket_in_a_folder(box: Sandbox, place: Path) -> None:
    """A desktop's bus, which starts programs, and another's kernel answer nobody inside."""
    path = str(place / "bus")
    code = f"""
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(425, 8, ctypes.create_string_buffer(120)) < 0 or print("io_uring")
one, other = socket.socketpair()
try:
    socket.socket(socket.AF_UNIX).connect({path!r})
    print("connected")
except OSError:
    print("refused")
"""
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind(path)
        bus.listen()

        assert "refused" == said(box, code)


@in_bubblewrap
def test_it_reaches_the_port_that_it_is_given_and_no_other(place: Path) -> None:
    """A port outside is there for as long as the grader says, and none beside it."""
    answers = []
    with served() as given, served() as other:
        for port, ports in ((given, [given]), (other, [given])):
            with opened(BUBBLEWRAP, place) as sandbox:
                process = start(sandbox, ASK.format(port=port))
                with sandbox.reaching(ports):
                    answers.append(process.communicate()[0].strip())

    assert ["hello", "Connection refused"] == answers


CONNECTS = """
import select, socket
held = [socket.create_connection(("127.0.0.1", {port})) for _ in range(300)]
while len(select.select(held, [], [], 60)[0]) not in (0, 200): pass
print(len(select.select(held, [], [], 1)[0]))
"""


@in_bubblewrap
def test_its_connections_are_limited(place: Path) -> None:
    """Each takes two files of the grader's, which all submissions share: one more is closed."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=400) as outside,
        opened(BUBBLEWRAP, place) as sandbox,
    ):
        port = outside.getsockname()[1]
        process = start(sandbox, f"input(){CONNECTS.format(port=port)}", stdin=subprocess.PIPE)
        with sandbox.reaching([port]):
            assert "200\n" == process.communicate("\n", timeout=60)[0]


def test_a_port_that_is_taken_inside(apart: Sandbox) -> None:
    """Whoever holds the examination's port is told so, and nothing is carried."""
    opened = "import socket; it = socket.create_server(('127.0.0.1', 20500))"
    code = f"{opened}; print(1, flush=True); input()"
    process = start(apart, code, stdin=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()

    with pytest.raises(StageError, match=r"20500.*in use"), apart.reaching([20500]):
        pass


LEAVES = """
import os, subprocess, sys
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(sleeps, env={}, start_new_session=True)
if not os.fork():
    os.setsid()
    __import__("time").sleep(600)
"""


def inside(place: Path) -> list[int]:
    """The processes of this machine that work in this folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if process.cwd().startswith(str(place)):
                found.append(process.pid)
    return found


def test_nothing_outlives_it(box: Sandbox) -> None:
    """A child in a session of its own, with an empty environment, ends with the first process."""
    process = start(box, LEAVES)
    process.wait()

    wait_until(lambda: not inside(box.folder), "everything inside to end", timeout_s=60)


@pytest.mark.parametrize(
    ("code", "limits", "reason"),
    [
        ("x = bytearray(300_000_000)", Limits(memory_mb=100), "MB in memory"),
        ("open('f', 'wb').write(b'x' * 30_000_000)", Limits(disk_mb=10), "MB on disk"),
        ("import os\nfor _ in range(30): os.fork() or __import__('time').sleep(60)",
         Limits(processes=10), "processes ran at once"),
        ("import socket\nheld = [socket.socket() for _ in range(200)]", Limits(open_files=100),
         "files and sockets were open"),
        ("import os\nf = open('f', 'wb')\nos.unlink('f')\nf.write(b'x' * 30_000_000)",
         Limits(disk_mb=10), "MB on disk"),
        ("import os, mmap\nf = open('f', 'wb+')\nf.truncate(30_000_000)\n"
         "m = mmap.mmap(f.fileno(), 0)\nf.close()\nos.unlink('f')", Limits(disk_mb=10),
         "MB on disk"),
        ("import os\nfor _ in range(2500): os.mkdir('dd'); os.chdir('dd')", Limits(),
         "more files than can be counted"),
    ],
)  # fmt: skip
@each_kind
def test_its_limits(place: Path, kind: str, code: str, limits: Limits, reason: str) -> None:
    """Who holds too much is ended, and the reason says what it held."""
    with opened(kind, place, limits=limits) as sandbox:
        start(sandbox, f"{code}\n__import__('time').sleep(60)").wait()

    assert reason in (sandbox.exceeded or "")


@in_bubblewrap
@pytest.mark.skipif(not LIMITS_IDS, reason="pid_max is that of the machine")
def test_the_system_refuses_what_nobody_has_looked_at(place: Path) -> None:
    """Between two looks a loop starts as many as the processors can, and then no more."""
    limits = Limits(processes=10)
    code = (
        "import threading, time\nheld = []\ntry:\n    while True:\n"
        "        held.append(threading.Thread(target=time.sleep, args=(60,), daemon=True))\n"
        "        held[-1].start()\nexcept RuntimeError:\n    print(len(held))\n"
    )
    before = Path("/proc/sys/kernel/pid_max").read_text()
    with opened(BUBBLEWRAP, place, limits=limits) as sandbox:
        started = int(said(sandbox, code))

    assert IDS_EACH * limits.processes / 2 < started < IDS_RESERVED + IDS_EACH * limits.processes
    assert before == Path("/proc/sys/kernel/pid_max").read_text()


def test_a_slow_look_is_not_the_last() -> None:
    """Whoever makes a look slow has a few seconds more, and not ten times as long as it took."""
    assert [0.5, 2, PAUSE_MAX_S] == [_pause_s(took_s) for took_s in (0.001, 0.2, 60)]


@each_kind
def test_who_computes_for_long_gives_way(place: Path, kind: str) -> None:
    """Beyond its processor time it runs on, in each of its sessions, after everybody else."""
    code = "import os\nif not os.fork(): os.setsid()\nwhile True: pass"
    with opened(kind, place, limits=Limits(processor_s=0)) as sandbox:
        process = start(sandbox, code)
        inside = psutil.Process(process.pid)

        def busy() -> list[psutil.Process]:
            return [it for it in inside.children(recursive=True) if "while" in str(it.cmdline())]

        wait_until(
            lambda: [19, 19] == [it.nice() for it in busy() if it.name().startswith("python")][-2:],
            "the busy processes to give way",
            timeout_s=20,
        )

        assert process.poll() is None
        assert sandbox.exceeded is None


@each_kind
def test_too_much_ends_also_what_has_no_mark(place: Path, kind: str) -> None:
    """Who holds too much ends with all that it started, in whatever session and environment."""
    code = f"{LEAVES}\nx = bytearray(300_000_000)\n__import__('time').sleep(60)"
    with opened(kind, place, limits=Limits(memory_mb=150)) as sandbox:
        start(sandbox, code).wait()
        wait_until(lambda: not inside(sandbox.folder), "everything inside to end", timeout_s=60)

    assert "MB in memory" in (sandbox.exceeded or "")


def test_what_it_writes_anywhere_is_counted(apart: Sandbox) -> None:
    """Whatever folder it can write to is its own, on the disk; no memory is a file system to it."""
    code = """
import os
for place in ("/tmp", "/dev/shm", "/dev", "/", "/etc", "/run", "/var"):
    try:
        open(os.path.join(place, "file"), "wb").write(b"x")
        print(place)
    except OSError:
        pass
"""

    assert ["/tmp", "/dev/shm"] == said(apart, code).split()
    assert 2 == len([*apart.folder.glob("*/file")])


@each_kind
def test_what_it_leaves_on_its_stage_is_counted(place: Path, kind: str) -> None:
    """Who fills the log of a broker is ended, as who fills the own folder."""
    stage = place / "stage"
    stage.mkdir()
    (stage / "before").write_bytes(b"x" * 30_000_000)
    with opened(kind, place, limits=Limits(stage_mb=10)) as sandbox:
        process = start(sandbox, "__import__('time').sleep(60)")
        with sandbox.reaching([], [stage]):
            # All at once: whoever looks while it is written sees less of it.
            (place / "log").write_bytes(b"x" * 20_000_000)
            (place / "log").rename(stage / "log")
            process.wait(30)

    assert "20 MB on its stage" in (sandbox.exceeded or "")


def test_partitions_without_end_are_not_counted_in_megabytes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who makes more of them than anyone can count on its stage is told so."""
    monkeypatch.setattr("lab_utils.grading.sandbox.FILES_MAX", 50)
    stage = place / "stage"
    stage.mkdir()
    (stage / "before").write_bytes(b"x" * 1_000_000)
    with opened(BUBBLEWRAP, place) as sandbox:
        process = start(sandbox, "__import__('time').sleep(60)")
        with sandbox.reaching([], [stage]):
            for number in range(60):
                (stage / f"orders-{number}").mkdir()
            process.wait(30)

    assert "more files than can be counted on its stage" in (sandbox.exceeded or "")


CALLS = """
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
for name, call in {{
    "limits": lambda: resource.prlimit({other}, resource.RLIMIT_CPU, (1, 1)),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, {other}, 5),
    "cores": lambda: os.sched_setaffinity({other}, {{0}}),
    "memory": lambda: os.memfd_create("m"),
    "segment": lambda: libc.shmget(0x7A11, 4096, 0o1600) >= 0 or 1 / 0,
    "user": lambda: libc.unshare(0x10000000) and 1 / 0,
}}.items():
    try:
        call()
        print(name)
    except (OSError, ZeroDivisionError):
        pass
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.system("echo own")
"""


def test_it_changes_no_other_process(box: Sandbox) -> None:
    """Not the limits or the priority of anyone else's, and nothing that outlives its own.

    Its own it may; and it may start others.
    """
    assert "own" == said(box, CALLS.format(other=os.getpid()))


def test_remove(place: Path) -> None:
    """A folder goes, however deep it is, and whatever may not be read in it."""
    folder = place / "theirs"
    (folder / "forbidden" / "within").mkdir(parents=True)
    (folder / "forbidden").chmod(0)
    made = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", made], cwd=folder, check=True)
    (folder / "link").symlink_to(place)

    remove(folder)

    assert not folder.exists()
    assert place.exists()


def test_take(place: Path) -> None:
    """A regular file is copied; a link, a pipe, a folder and what is too large are not."""
    folder, copy = place / "theirs", place / "copy"
    (folder / "within").mkdir(parents=True)
    (folder / "within" / "file").write_text("x" * 10)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "linked").symlink_to("within")
    os.mkfifo(folder / "pipe")

    assert take(folder, "within/file", copy)
    assert "x" * 10 == copy.read_text()
    for name in ("link", "linked/file", "pipe", "within", "gone"):
        assert not take(folder, name, copy), name
    with pytest.raises(LeftUnreadable, match="copy has 10 bytes"):
        take(folder, "within/file", copy, bytes_max=9)


@in_bubblewrap
@pytest.mark.parametrize("said", ["", '{"child-pid": 4194304}'])
def test_bwrap_that_starts_nothing(place: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """It may refuse, or what it has started has ended before anybody knew of it: said, either."""
    bwrap = place / "bwrap"
    bwrap.write_text(
        f"#!/bin/sh\nuntil [ $1 = --info-fd ]; do shift; done\necho '{said}' > /proc/self/fd/$2\n"
    )
    bwrap.chmod(0o700)
    monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)
    (place / "own").mkdir()

    with pytest.raises(StageError, match="bwrap started no process"):
        Sandbox(BUBBLEWRAP, place / "own").start(["true"], cwd=place, environment=os.environ)


@each_kind
@pytest.mark.parametrize("when", ["started", *range(8)])
def test_it_ends_with_the_grader(place: Path, kind: str, when: int | str) -> None:
    """When the grader is killed, so is what runs inside, also while it is being started."""
    code = f"""
import sys, os
from pathlib import Path
from lab_utils.grading.sandbox import Sandbox
folder = Path({str(place)!r}) / "own"
folder.mkdir()
Sandbox({kind!r}, folder).start([sys.executable, "-c", "import time; time.sleep(600)"],
                                  cwd=folder, environment=dict(os.environ))
print("started", flush=True)
input()
"""
    grader = processes.spawn(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if when == "started":
        assert "started\n" == grader.stdout.readline()  # type: ignore[union-attr]
    wait_until(lambda: inside(place / "own"), "a process inside", timeout_s=60)

    grader.kill()
    grader.wait()

    wait_until(lambda: not inside(place / "own"), "everything inside to end", timeout_s=60)
