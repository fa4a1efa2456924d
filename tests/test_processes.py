"""Processes are known by what they are, and ended by a ladder of signals; a folder has one server.

Real processes stand in for the lab's programs: only their command lines are theirs.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import httpx
import psutil
import pytest

from lab_utils import jupyter, processes, single_server, waiting
from lab_utils.errors import SetupError, StageError
from lab_utils.folders import state_folder
from lab_utils.machine.broker import answers
from lab_utils.machine.down import down
from lab_utils.machine.guardian import Guardian
from lab_utils.waiting import ProcessorShare, wait_until
from tests.busy import busy_processor, comes_last
from tests.called import call

pytestmark = pytest.mark.processes

WAITS = "print('started', flush=True); input()"
# A server that takes its time to clean up; it leaves a mark when it has.
CLEANS_UP = """
import signal, sys, threading
from pathlib import Path
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("started", flush=True)
signal.sigwait([signal.SIGTERM])
threading.Event().wait(0.2)
Path(sys.argv[2], "mark").write_text("cleaned up")
"""
# The signal comes to another thread, so that it does not interrupt what the first one waits in: as
# one that comes just before the first thread begins to wait.
HEARS = """
import signal, subprocess, sys, threading
from lab_utils import processes
signal.signal(signal.SIGTERM, signal.default_int_handler)
child = processes.spawn([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
signals = lambda: input() or signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
threading.Thread(target=signals, daemon=True).start()
try:
    print("started", flush=True)
    processes.wait(child)
except KeyboardInterrupt:
    processes.kill_group(child)
    print("heard", flush=True)
"""
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAITS!r}]).wait()"
SERVE = """
import sys
from pathlib import Path
from lab_utils import jupyter
print("started", flush=True)
say = lambda text: print(text, flush=True)
where = {"ip": sys.argv[2], "port": int(sys.argv[3])}
sys.exit(jupyter.serve(Path(sys.argv[1]), **where, browser=False, say=say))
"""

Start = Callable[..., "subprocess.Popen[Any]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python with code and arguments; returns when it has printed its first line."""
    started: list[subprocess.Popen[Any]] = []

    def start(code: str, *arguments: object, **how: Any) -> subprocess.Popen[Any]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(processes.spawn(command, **streams, **how))
        assert started[-1].stdout is not None
        assert b"started\n" == started[-1].stdout.readline()
        return started[-1]

    yield start
    for process in started:
        processes.kill_group(process)
        process.communicate()


def test_a_process_is_known_by_its_command_line(start: Start, tmp_path: Path) -> None:
    """A program of the lab that names the folder, or a path in it, and nothing else."""
    folder = tmp_path / "state"
    server = start(WAITS, processes.STAGE_SERVER, folder / "stages" / "03")
    kafka = start(WAITS, "kafka.Kafka", folder / "stages" / "03" / "server.properties")
    start(WAITS, processes.STAGE_SERVER, tmp_path / "state2" / "stages" / "03")
    start(WAITS, "somebody's.program", folder)
    found = {it.process.pid: it.program for it in processes.of_folder(folder)}

    assert {server.pid: "stage server", kafka.pid: "Kafka"} == found
    assert processes.runs(kafka.pid, "Kafka", folder)
    assert not processes.runs(server.pid, "Kafka", folder)
    assert not processes.runs(kafka.pid, "Kafka", tmp_path / "state2")


def test_what_is_owned_ends_in_good_order(start: Start, tmp_path: Path) -> None:
    """A server of this owner cleans up before it ends; one of another owner goes on."""
    # Not this process: it may own the stages and the Spark server of the tests' pool.
    owner = start(WAITS).pid
    ours = start(CLEANS_UP, processes.STAGE_SERVER, tmp_path, "--owner", owner)
    other = start(WAITS, processes.STAGE_SERVER, tmp_path, "--owner", f"{owner}0")
    owned = processes.of_owner(owner)
    processes.end(owned, (signal.SIGTERM, 20))

    assert ([ours.pid], 0) == ([it.pid for it in owned], ours.wait())
    assert ("cleaned up", None) == ((tmp_path / "mark").read_text(), other.poll())


def test_the_ladder_ends_in_a_kill(start: Start) -> None:
    """What does not hear the first signal in its time is killed."""
    deaf = start(DEAF)
    processes.end([deaf], (None, 0), (signal.SIGTERM, 0.3))

    assert -signal.SIGKILL == deaf.returncode


def test_a_signal_is_heard_while_a_child_runs(start: Start) -> None:
    """Also one that does not interrupt the system call that waits for the child."""
    said, _ = start(HEARS).communicate(b"\n", timeout=60)

    assert b"heard\n" == said


def test_a_process_that_nobody_waited_for_has_ended(start: Start) -> None:
    """The entry of a process that has ended does not hold up who waits for its end."""
    code = f"import subprocess, sys; it = subprocess.Popen(['true']); {WAITS}"
    parent = psutil.Process(start(code).pid)
    (ended,) = parent.children()
    processes.end([ended], (None, 5))

    assert psutil.STATUS_ZOMBIE == ended.status()
    assert not processes.is_running(ended)
    assert not processes.is_running(ended.pid)


def test_a_group_is_killed_as_one(start: Start) -> None:
    """What a child has started ends with it."""
    child = start(CHILD)
    (grandchild,) = psutil.Process(child.pid).children()
    processes.kill_group(child)

    assert not processes.is_running(grandchild)


@pytest.mark.skipif(sys.platform == "darwin", reason="the lab reads no /proc there")
def test_a_name_outlives_a_clock_that_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is set on by an hour lets Linux say that it was started an hour later."""
    name, pid = processes.own_name(), os.getpid()
    told = Path("/proc/stat").read_text(encoding="utf-8")
    later = re.sub(r"(?<=btime )\d+", lambda it: str(int(it[0]) + 3600), told)
    (tmp_path / "stat").write_text(later, encoding="utf-8")
    (tmp_path / str(pid)).symlink_to(f"/proc/{pid}")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))

    found = processes.named(name)
    assert found is not None
    assert pid == found.pid


def test_a_variable_names_a_folder(start: Start, tmp_path: Path) -> None:
    """Processes are found by the folder in their environment, and not by one named alike."""
    inner, alike = tmp_path / "a" / "inner", tmp_path / "ab"
    pids = [
        start(WAITS, environment={**os.environ, "LAB_SUBMISSION": str(folder)}).pid
        for folder in (inner, alike)
    ]

    assert pids[:1] == [
        it.pid for it in processes.with_variable("LAB_SUBMISSION", str(tmp_path / "a"))
    ]


def test_jupyterlab_is_seen_while_it_runs(start: Start, state: Path) -> None:
    """./lab up of this checkout and this state folder is found, and no other."""
    assert [] == jupyter.running()
    served = start(WAITS, jupyter.SETTINGS, environment={**os.environ, "LAB_STATE": str(state)})
    start(WAITS, jupyter.SETTINGS, environment={**os.environ, "LAB_STATE": f"{state}-2"})
    assert [served.pid] == jupyter.running()


def test_a_kernel_that_is_left(start: Start, state: Path) -> None:
    """It is one whose ./lab up has ended, unless its JupyterLab is still there."""
    owner = start(WAITS)
    of = {"LAB_STATE": str(state), processes.OWNER: str(owner.pid)}
    left = start(WAITS, jupyter.KERNEL, environment={**os.environ, **of})
    start(WAITS, "no kernel", environment={**os.environ, **of})
    start(WAITS, jupyter.KERNEL, environment={**os.environ, **of, "LAB_STATE": f"{state}-2"})
    served = CHILD.replace("]", f", {jupyter.KERNEL!r}]")
    start(served, jupyter.START, environment={**os.environ, **of})
    assert [] == jupyter.kernels_left()
    processes.kill_group(owner)

    assert [left.pid] == [it.pid for it in jupyter.kernels_left()]


@pytest.mark.kafka  # it takes seconds
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a killed ./lab up leaves JupyterLab")
def test_down_ends_a_kernel_that_is_stopped(
    start: Start, state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its ./lab up was killed meanwhile, and it cannot hear of that."""
    monkeypatch.setenv(jupyter.TOKEN_VARIABLE, "t")
    up = start(SERVE, tmp_path, processes.LOOPBACK, 0)
    assert up.stdout is not None
    address = up.stdout.readline().decode().split()[-1].partition("/lab/tree/")[0]
    httpx.post(f"{address}/api/kernels", params={"token": "t"}, timeout=None).raise_for_status()
    (kernel,) = [
        it
        for it in psutil.Process(up.pid).children(recursive=True)
        if jupyter.KERNEL in processes.words(it)
    ]
    kernel.suspend()
    wait_until(lambda: processes.is_stopped(kernel.pid), "SIGSTOP", timeout_s=60)
    up.kill()
    up.wait()
    wait_until(lambda: not jupyter.running(), "JupyterLab to end", timeout_s=60)
    command = [sys.executable, "-m", "lab_utils.cli", "down"]

    assert f"Ended of a ./lab up that was killed: kernel {kernel.pid}." in call(command).stdout
    assert not processes.is_running(kernel)
    assert "kernel" not in call(command).stdout


@pytest.mark.kafka  # it takes seconds
@pytest.mark.long
def test_two_jupyterlabs_at_once(
    start: Start, state: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each says that it waits while another one starts, and they take different ports.

    A proxy for the internet, which nobody reaches here, has no part in it. A token is in the
    address alone: every user of the machine may read a command line. One ends when its terminal is
    closed, the other when its command is killed.
    """
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    (port,) = processes.free_ports(1)
    turn = os.open(state_folder(), os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    commands = [start(SERVE, tmp_path, processes.LOOPBACK, port) for _ in range(2)]
    waiting = [it.stdout.readline() for it in commands if it.stdout]
    os.close(turn)
    said = [it.stdout.readline().decode() for it in commands if it.stdout]
    typed = [processes.words(psutil.Process(pid)) for pid in jupyter.running()]

    assert [b"Another ./lab up is starting; waiting for it.\n"] * 2 == waiting
    assert 2 == len({it.partition("/lab/")[0] for it in said})
    assert all(it.startswith("The labs are at http://127.0.0.1:") for it in said)
    assert not any(it.strip().partition("token=")[2] in str(typed) for it in said)

    ends = (signal.SIGHUP, signal.SIGKILL if sys.platform == "linux" else signal.SIGTERM)
    for command, end in zip(commands, ends, strict=True):
        command.send_signal(end)
        command.wait(timeout=60)
    wait_until(lambda: not jupyter.running(), "both JupyterLabs to end", timeout_s=20)


@pytest.mark.kafka  # it takes seconds
def test_a_second_interrupt_is_not_in_the_way(start: Start, state: Path, tmp_path: Path) -> None:
    """Who presses Ctrl-C again, or closes the terminal, still has JupyterLab ended in order."""
    command = start(SERVE, tmp_path, processes.LOOPBACK, 0)
    assert command.stdout is not None
    assert b"The labs are at" in command.stdout.readline()
    command.send_signal(signal.SIGINT)
    while b"Ending JupyterLab" not in command.stdout.readline():
        pass
    for again in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        command.send_signal(again)

    assert 0 == command.wait(timeout=60)
    assert [] == jupyter.running()


def test_free_ports_are_free_and_differ() -> None:
    """Ports that are chosen at once are different, and nobody listens there."""
    ports = processes.free_ports(50)

    assert 50 == len(set(ports))
    assert not any(map(answers, ports))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")
def test_a_port_is_free_at_its_address() -> None:
    """Where one listens at another address of this machine, the wanted port is still free here."""
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]

        assert port == processes.free_port(port)
        assert port != processes.free_port(port, "127.0.0.2")


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    """The last lines, of a log of any size; nothing of a log that is not there."""
    log = tmp_path / "log"
    log.write_text("line\n" * 100_000 + "last but one\nlast\n")

    assert ("last but one\nlast", "") == (processes.tail(log, 2), processes.tail(tmp_path / "no"))


def test_one_lock_for_a_folder(tmp_path: Path) -> None:
    """It is held by one; removed with its folder, it is worth nothing."""
    folder = tmp_path / "stage"
    assert not single_server.is_served(folder)
    lock = single_server.take_lock(folder)
    assert lock is not None
    assert (None, True) == (single_server.take_lock(folder), single_server.is_served(folder))
    (folder / "lock").unlink()
    life = single_server.Life(folder, lock, None)
    assert life.is_forsaken()
    again = single_server.take_lock(folder)
    assert again is not None
    life.say("serving")
    assert {} == single_server.read(folder)  # the folder is another's now
    os.close(again)
    os.close(lock)
    assert not single_server.is_served(folder)


def joining(folder: Path) -> single_server.Joining[int]:
    """A client of a server that does not exist."""
    return single_server.Joining(folder / "own", "lab_utils.no_such", [], lambda _: 1, "it")


def test_a_server_that_never_says_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody holds the lock, and has written no file: it is waited for no longer than so."""
    lock = single_server.take_lock(tmp_path / "own")
    assert lock is not None
    monkeypatch.setattr(single_server, "SAYS_S", 0.0)
    client = joining(tmp_path)
    assert client.look() is None
    with pytest.warns(UserWarning, match=r"which has not said its process\) has not answered"):
        client.look()
    os.close(lock)


@pytest.mark.parametrize("pid", [7, 0, "x", {}])
def test_a_server_that_names_another_process(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: Any
) -> None:
    """What is written of it is damaged: it is ended all the same, for it has the lock."""
    monkeypatch.setattr(single_server, "ANSWER_S", 0.0)
    monkeypatch.setattr(single_server, "SAYS_S", 0.0)
    server = start(f"import fcntl, sys; it = open(sys.argv[2] + '/lock', 'w');"
                   f"fcntl.flock(it, fcntl.LOCK_EX); {WAITS}",
                   processes.STAGE_SERVER, folder := made(tmp_path / "own"))  # fmt: skip
    (folder / "server.json").write_text(json.dumps({"state": "serving", "pid": pid}))
    client = joining(tmp_path)
    client.answer = lambda said: said["url"] and None
    with pytest.warns(UserWarning, match="has not answered"):
        wait_until(lambda: client.look() or server.poll() is not None, "its end", timeout_s=60)


def made(folder: Path) -> Path:
    """The folder, which is there now."""
    folder.mkdir()
    return folder


def test_what_cannot_be_started_says_why(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be written, and an owner that has ended, each in a sentence."""
    (tmp_path / "file").touch()
    with pytest.raises(StageError, match=r"it cannot start in .*: Not a directory\. Make room"):
        joining(tmp_path / "file").join(5)
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "own").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StageError, match=r"it cannot start in .*/away/own: File exists\."):
        joining(tmp_path / "away").join(5)
    monkeypatch.setenv("LAB_STATE", str(tmp_path / "file" / "state"))
    with pytest.raises(SetupError, match=r"cannot be made: .*Not a directory.* Set LAB_STATE to"):
        state_folder()

    with subprocess.Popen([sys.executable, "-c", ""]) as owner:
        owner.wait()
    monkeypatch.setenv(processes.OWNER, str(owner.pid))
    with pytest.raises(StageError, match=rf"has ended \({owner.pid}, .*Start ./lab up again"):
        joining(tmp_path).join(5)


def test_a_child_that_is_interrupted_at_birth(tmp_path: Path) -> None:
    """Who is interrupted while it starts a child does not know it; it ends all the same."""
    guardian = Guardian(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=guardian.from_birth(),
    ) as child:
        guardian.close()

        assert -signal.SIGKILL == child.wait(60)


def test_a_guardian_that_is_stopped(start: Start, tmp_path: Path) -> None:
    """What it was to end is ended, and so is it."""
    guardian, watched = Guardian(tmp_path), start(WAITS)
    guardian.watch(watched.pid)
    (found,) = processes.of_folder(tmp_path)
    found.process.suspend()
    guardian.close()

    assert -signal.SIGKILL == watched.wait()
    assert [] == processes.of_folder(tmp_path)


def test_a_server_that_ends_at_once(tmp_path: Path) -> None:
    """A program that does not serve is not tried for ever; its last words are in the error."""
    with pytest.raises(StageError, match=r"ended with exit code 1(.|\n)*No module named"):
        joining(tmp_path).join(60)


def test_a_server_without_room_for_its_log(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it could not print is said for it."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: Mock(free=0))
    silent = single_server.Joining(tmp_path / "own", "lab_utils.errors", [], lambda _: 1, "it")
    told = rf"The disk is full in {re.escape(str(state))}\. Make"
    with pytest.raises(StageError, match=told):
        silent.join(60)

    monkeypatch.setenv("LAB_JAVA", "/nowhere")
    speaks = single_server.Joining(tmp_path / "own", processes.STAGE_SERVER, [], lambda _: 1, "it")
    with pytest.raises(StageError, match=rf"^LAB_JAVA must name Java 17 or newer.*\n{told}"):
        speaks.join(60)


def test_an_error_that_nobody_expected(tmp_path: Path) -> None:
    """Who waits for the server reads why it failed, and the logs stay."""
    lock = single_server.take_lock(tmp_path)
    assert lock is not None
    with pytest.raises(OSError, match="full"), single_server.Life(tmp_path, lock, None):
        raise OSError("the disk is full")
    os.close(lock)

    assert "OSError: the disk is full" == single_server.read(tmp_path)["error"]


def test_a_start_while_everything_is_ended(state: Path) -> None:
    """What ends the lab removes nothing that the next server has written in the same folder."""
    folder = state / "spark"
    # What a server writes, and the next one under the same names.
    written = [folder / str(number) / "file" for number in range(2000)]

    def write() -> None:
        for path in written:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    write()
    ending = Thread(target=down)
    ending.start()
    wait_until(
        lambda: not all(path.exists() for path in written), "the end", timeout_s=60, every_s=0
    )
    lock = wait_until(lambda: single_server.take_lock(folder), "the lock", timeout_s=60, every_s=0)
    write()
    ending.join()

    assert all(path.exists() for path in written)
    assert lock is not None
    os.close(lock)


def test_a_folder_that_stays_is_named(
    start: Start, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who ends everything is told of what somebody unseen uses, and of what cannot be removed."""
    used, odd, free = (state / "stages" / name for name in ("03", "04", "05"))
    for folder in (used, odd / "lock", free):
        folder.mkdir(parents=True)
    holds = f"import fcntl; it = open({str(used / 'lock')!r}, 'w'); fcntl.flock(it, fcntl.LOCK_EX)"
    holder = start(f"{holds}\n{WAITS}")
    monkeypatch.setattr("lab_utils.machine.down.LOCKED_S", 0.1)
    server = start(CLEANS_UP, processes.STAGE_SERVER, free)
    said: list[str] = []
    with pytest.raises(StageError) as raised:
        down(said.append)

    assert (0, [f"Ended of stage 05: stage server {server.pid}."]) == (server.wait(), said)
    assert f"{used} is in use by a process that cannot be seen from here" in str(raised.value)
    assert f"{odd} cannot be removed: Is a directory. Remove it yourself." in str(raised.value)
    assert (None, False) == (holder.poll(), free.exists())


def test_a_server_ends_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot write down that it ends, and goes on to its end; its folder goes, too."""
    lock = single_server.take_lock(tmp_path / "own")
    assert lock is not None
    with single_server.Life(tmp_path / "own", lock, None) as life:
        (tmp_path / "own" / "server.new").mkdir()
        with pytest.raises(OSError, match=r"server\.new"):
            life.say("serving")
        life.say("ending")
    os.close(lock)

    assert [] == list(tmp_path.iterdir())


def test_who_has_no_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """To have half a processor is enough; to come after a program that never waits is not."""
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(waiting, "SCARCE_S_MIN", 0)
    with busy_processor() as busy, closing(ProcessorShare()) as share:
        thread = share._thread.native_id
        assert thread is not None
        os.sched_setaffinity(thread, {busy})

        def had_s() -> float:
            return sum(it.user_time for it in psutil.Process().threads() if it.id == thread)

        def is_enough() -> bool:
            since, worked_s = time.monotonic(), had_s() + 0.1
            wait_until(lambda: had_s() >= worked_s, "ten pieces of work", timeout_s=60)
            return not share.was_scarce(since)

        # Others may run beside the two, and leave it less than half for a while.
        wait_until(is_enough, "a while in which it has half a processor", timeout_s=60)

        comes_last(thread, busy)
        now = time.monotonic()
        wait_until(lambda: share.was_scarce(now), "one that takes its time", timeout_s=60)
