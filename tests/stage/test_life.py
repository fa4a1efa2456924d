"""A stage's life: who starts it, what it outlives, what is repaired, and what ends it.

Each test is a story, because each start of a broker costs seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab_utils import processes, single_server
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import carry_out
from lab_utils.errors import LabWarning, StageError
from lab_utils.experiment import Experiment
from lab_utils.folders import stage_folder
from lab_utils.machine.broker import answers
from lab_utils.machine.down import down
from lab_utils.stage.client import Stage, join
from lab_utils.waiting import wait_until
from tests.called import call
from tests.performed import sending

pytestmark = pytest.mark.kafka

KERNEL = """
from lab_utils.proxy.faults import drop_response
from lab_utils.stage.client import join
stage = join("own")
if not stage.state()["faults"]:
    stage.arm("", drop_response("Produce", nth=99))
print(stage.pid, len(stage.state()["faults"]), flush=True)
input()
"""


@pytest.fixture(autouse=True)
def _nothing_stays(state: Path) -> Iterator[None]:
    yield
    down()


def kernel() -> subprocess.Popen[str]:
    """A process that joins the stage, as a kernel does, and arms a fault if none is armed."""
    return start_python(KERNEL, stdout=subprocess.PIPE)


def start_python(code: str, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
    """A Python process that runs this code."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, **streams)


def said_by(process: subprocess.Popen[str]) -> str:
    """The line that a kernel prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def kill(process: subprocess.Popen[str] | psutil.Process) -> None:
    """SIGKILL, and return when it is gone; its parent may not have asked for its end yet."""
    process.kill()
    wait_until(
        lambda: not processes.is_running(process),
        f"the end of {process}",
        timeout_s=300,
        every_s=0.001,  # what comes next finds it while its threads still end
    )


def programs(state: Path) -> dict[str, psutil.Process]:
    """The processes that work for a state folder, by their program."""
    return {found.program: found.process for found in processes.of_folder(state)}


def await_end(state: Path) -> None:
    """Return when nothing works for this state folder any more."""
    wait_until(lambda: not programs(state), "every process to end", timeout_s=300,
               last_seen=lambda _: str(programs(state)))  # fmt: skip


def performed(
    stage: Stage, folder: Path, run: str, reader: HonestReader | None = None
) -> list[str | None]:
    """The values that a run on this stage has stored."""
    reader = reader or HonestReader(stage.direct)
    experiment = Experiment(stage, reader, run, folder / run, ("0", "1"))
    carry_out(sending(), experiment.begin())
    events = experiment.finish()
    reader.close()
    return [event.value for event in events if (event.source, event.kind) == ("log", "record")]


def test_a_stage_has_one_server_whoever_started_it(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that come at once share a server; it outlives them, and ends with its owner."""
    owner = start_python("input()")
    monkeypatch.setenv(processes.OWNER, str(owner.pid))
    kernels = [kernel(), kernel()]
    wait_until(lambda: single_server.read(stage_folder("own")), "a server", timeout_s=300)
    (server,) = [it.process for it in processes.of_folder(state) if it.program == "stage server"]
    starter = psutil.Process(server.pid).parent()
    assert "starting" == single_server.read(stage_folder("own"))["state"]
    assert starter is not None
    (first,) = [it for it in kernels if it.pid == starter.pid]
    (second,) = [it for it in kernels if it.pid != starter.pid]
    kill(first)  # while the stage starts

    assert f"{server.pid} 1\n" == said_by(second)
    kill(second)
    stage = join("own")  # a kernel that is restarted
    assert (server.pid, 1) == (stage.pid, len(stage.state()["faults"]))
    assert {"stage server", "guardian", "Kafka"} == set(programs(state))
    kill(owner)
    await_end(state)
    for process in (*kernels, owner):
        process.communicate()


def test_what_dies_is_repaired(state: Path, tmp_path: Path) -> None:
    """A guardian, a broker, a server: each may be killed, and the next cell works.

    So it does where another program has taken a port of the broker meanwhile.
    """
    stage = join("own")
    killed = programs(state)
    kill(killed["guardian"])
    wait_until(lambda: "guardian" in programs(state), "another guardian", timeout_s=300)

    kill(killed["Kafka"])  # outside a run
    assert ["0", "1"] == performed(stage, tmp_path, "own-a")

    paused = programs(state)["Kafka"]
    paused.suspend()  # and by nobody of the lab
    wait_until(lambda: paused.status() == psutil.STATUS_STOPPED, "SIGSTOP", timeout_s=60)
    assert ["0", "1"] == performed(stage, tmp_path, "own-stopped")

    kill(programs(state)["Kafka"])
    wait_until(lambda: stage.state()["brokers"][0]["state"] == "died", "its death", timeout_s=300)
    joined = join("own")
    assert (stage.pid, "running") == (joined.pid, joined.state()["brokers"][0]["state"])

    reader = HonestReader(joined.direct)  # a lab keeps its reader between runs
    joined.broker("kill")
    with socket.create_server(("127.0.0.1", int(joined.direct.rpartition(":")[2]))):
        joined.broker("start")  # on other ports: how far its log may be read is seen there
    direct = joined.state()["direct"]
    assert joined.direct != direct
    assert joined.settle(["own-a-orders"], whole=True)
    assert ["0", "1"] == performed(joined, tmp_path, "own-moved", reader)
    assert joined.direct == direct

    os.kill(stage.pid, signal.SIGKILL)
    await_end(state)  # the second guardian has killed the broker that is watched by it
    assert not answers(int(direct.rpartition(":")[2]))
    with pytest.raises(StageError, match="Run the notebook's first cell again"):
        stage.state()
    again = join("own")
    assert stage.pid != again.pid
    assert ["0", "1"] == performed(again, tmp_path, "own-b")
    again.shutdown()
    await_end(state)
    assert not stage_folder("own").exists()


@pytest.mark.long
def test_a_server_that_cannot_be_joined(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who joins gets another one, with a word about the one that is ended for it.

    A stage that ends says so: until its brokers are gone it does nothing more. One that an update
    has left may speak another language. One whose file is damaged answers nobody knows where.
    """
    stage = join("own")
    other = Stage("own", single_server.read(stage_folder("own")))
    stage.broker("kill")
    with ThreadPoolExecutor() as pool:
        pool.submit(stage.broker, "start")  # it ends when that is done
        starts = lambda: stage.state()["brokers"][0]["state"] == "starting"  # noqa: E731
        wait_until(starts, "the start of its broker", timeout_s=300, every_s=0.001)
        stage.ask("POST", "/shutdown")

        assert other.state()["ending"]  # by a connection that comes now
        assert other.ask("GET", "/events?after=0")["events"]  # as a panel does then
        with pytest.raises(StageError, match="this stage is ending"):
            stage.reset()
    older = join("own")
    assert older.pid != stage.pid

    file = stage_folder("own") / "server.json"
    said = single_server.read(file.parent)
    del said["edition"]
    file.write_text(json.dumps(said))
    with pytest.warns(UserWarning, match="'own' is of the lab before its update"):
        newer = join("own")
    assert not processes.is_running(older.pid)
    assert newer.pid == join("own").pid

    file.write_text('{"state": "serving"}')
    # Time enough for the next one to say who it is, on a slow machine, too.
    monkeypatch.setattr(single_server, "SAYS_S", 10.0)
    with pytest.warns(UserWarning, match=r"which has not said its process\) has not answered"):
        another = join("own")
    assert another.pid != newer.pid
    assert not processes.is_running(newer.pid)


def test_a_kernel_that_an_update_has_left(state: Path, tmp_path: Path) -> None:
    """It has the lab that it loaded, whatever is on the disk by now, and says what to do."""
    copy = shutil.copytree(Path(single_server.__file__).parent, tmp_path / "lab_utils")
    joins = (
        "import pathlib, sys; from lab_utils.stage.client import join; join('own').leave();"
        "print('updated', file=sys.stderr); pathlib.Path(sys.argv[1]).touch(); join('own').leave()"
    )
    command = [sys.executable, "-P", "-c", joins, str(copy / "errors.py")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = call(command, env=environment, check=True)
    before, _, after = done.stderr.partition("updated")

    assert ("before its update" in before, "before its update" in after) == (False, True)


def test_down_ends_what_no_file_names(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent server is replaced, not forgotten; a broker without a server does not survive."""
    # What is silent here stays so: to ask it twice is enough.
    monkeypatch.setattr(single_server, "ANSWER_S", 1.0)
    monkeypatch.setattr(processes, "SERVER_END_S", 1.0)
    silent = join("own")
    silent.broker("pause")
    os.kill(silent.pid, signal.SIGSTOP)
    with pytest.warns(LabWarning, match="has not answered for 1 s: it is stopped or stuck"):
        stage = join("own")
    assert stage.pid != silent.pid
    assert ["0", "1"] == performed(stage, tmp_path, "own-a")
    assert 3 == len(processes.of_folder(state))

    left = programs(state)
    left["guardian"].suspend()
    kill(left["stage server"])
    kill(left["guardian"])
    left["Kafka"].suspend()
    # At once: a thread of Kafka's may still be on its way to the stop, and make a file.
    (state / "stages").rename(tmp_path / "gone")
    elsewhere = tmp_path / "elsewhere" / "stages" / "own"
    other = start_python("input()", processes.STAGE_SERVER, str(elsewhere))
    link = tmp_path / "link"
    link.symlink_to(state)

    assert {"Kafka": left["Kafka"]} == programs(state)
    linked = {**os.environ, "LAB_STATE": str(link)}
    said = call([sys.executable, "-m", "lab_utils.cli", "down"], env=linked, check=True).stdout
    assert f"Ended of stage own: Kafka {left['Kafka'].pid}." in said
    assert {} == programs(state)
    assert not list(state.glob("s*"))
    assert other.poll() is None  # it works for another state folder
    other.communicate("\n")


@pytest.mark.long
def test_a_stage_without_its_controller(state: Path, tmp_path: Path) -> None:
    """One that was paused goes on. Without one no run begins, and who joins gets a new stage."""
    stage = join("own", 2)
    (controller,) = [
        it.process for it in processes.of_folder(state) if "controller" in str(it.path)
    ]
    stage.require_controller()
    controller.suspend()
    wait_until(lambda: controller.status() == psutil.STATUS_STOPPED, "SIGSTOP", timeout_s=60)
    assert ["0", "1"] == performed(stage, tmp_path, "own-a")
    kill(controller)
    wait_until(lambda: stage.state()["controller"] == "died", "its death", timeout_s=300)
    with pytest.raises(StageError, match="has died: no topic can be made"):
        stage.require_controller()
    other = start_python("from lab_utils.stage.client import join; join('own', 2)")
    servers = [stage.pid]
    wait_until(
        lambda: single_server.read(stage_folder("own")).get("pid", stage.pid) not in servers,
        "a new stage",
        timeout_s=300,
    )
    other.kill()
    other.communicate()


def test_a_stage_that_cannot_start(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who joins is told what the server could not do, in the server's own sentence."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.22\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("LAB_JAVA", str(java))
    with pytest.raises(StageError, match="LAB_JAVA must name Java 17 or newer"):
        join("own")

    assert not single_server.is_served(stage_folder("own"))


@pytest.mark.parametrize(
    "end", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]
)
def test_an_end_while_it_starts(state: Path, end: signal.Signals) -> None:
    """A server that is ended while it starts leaves nothing; who waits for it starts another."""
    other = kernel()
    wait_until(lambda: "Kafka" in programs(state), "its broker", timeout_s=300)
    server = programs(state)["stage server"]
    server.send_signal(end)
    pid, _ = said_by(other).split()
    other.communicate("\n")

    assert pid != str(server.pid)
    assert {"stage server", "guardian", "Kafka"} == set(programs(state))
