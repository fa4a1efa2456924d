"""The stage server over HTTP: who may ask, what is refused, what it outlives, what ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from lab_utils.errors import BadArgument, StageError
from lab_utils.folders import stage_folder, state_folder
from lab_utils.machine.broker import answers
from lab_utils.proxy.faults import drop_response
from lab_utils.stage import client
from lab_utils.stage.client import Stage, join
from lab_utils.waiting import wait_until

pytestmark = pytest.mark.kafka

EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def healed(stage: Stage) -> Iterator[Stage]:
    """The shared stage, healed after the test."""
    yield stage
    stage.reset()


@pytest.fixture
def own(state: Path) -> Iterator[Stage]:
    """A stage for one test alone, which may end it."""
    yield join("own")
    client.down()


def ask(
    stage: Stage, method: str, path: str, token: str | None = None, **request: Any
) -> httpx.Response:
    """Ask with the stage's token, or with another one."""
    headers = {"X-Lab-Token": stage.token if token is None else token}
    return httpx.request(method, stage.url + path, headers=headers, trust_env=False, **request)


def family(stage: Stage) -> list[psutil.Process]:
    """The server and every process that it has started."""
    server = psutil.Process(stage.pid)
    return [server, *server.children(recursive=True)]


def await_end(processes: list[psutil.Process]) -> None:
    """Return when all of them are gone."""
    wait_until(
        lambda: not psutil.wait_procs(processes, timeout=0)[1],
        "every process of the stage to be gone",
        timeout_s=20,
        last_seen=lambda _: str([process for process in processes if process.is_running()]),
    )


@pytest.mark.parametrize("token", ["", "guessed", "é"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/state"), ("POST", "/runs"), ("POST", "/faults"), ("DELETE", "/faults"),
     ("POST", "/brokers/1/kill"), ("POST", "/reset"), ("GET", "/log?topic=orders"),
     ("GET", "/events"), ("POST", "/shutdown")],
)  # fmt: skip
def test_no_token(stage: Stage, method: str, path: str, token: str) -> None:
    """Without the token every path is answered 401, and nothing is done."""
    before = stage.state()
    headers = {b"X-Lab-Token": token.encode()}
    answer = httpx.request(method, stage.url + path, headers=headers, trust_env=False)

    assert 401 == answer.status_code
    assert before == stage.state()


def test_both_headers(stage: Stage) -> None:
    """The token is taken from Authorization and from X-Lab-Token."""
    bearer = {"Authorization": f"Bearer {stage.token}"}
    answer = httpx.get(f"{stage.url}/state", headers=bearer, trust_env=False)

    assert [200, 200] == [answer.status_code, ask(stage, "GET", "/state").status_code]


@pytest.mark.parametrize(
    ("change", "said"),
    [({"api": "produce"}, "Did you mean 'Produce'?"),
     ({"nth": 0}, "nth must be a whole number from 1 to 1,000,000; got 0."),
     ({"nth": "3"}, "nth must be a whole number from 1 to 1,000,000; got '3'."),
     ({"fault": "drop_respons"}, "Did you mean 'drop_response'?"),
     ({"fault": "refuse", "error": "NOT_ENOUGH_REPLICA"}, "Did you mean 'NOT_ENOUGH_REPLICAS'?")],
)  # fmt: skip
def test_faults_that_are_refused(stage: Stage, change: dict[str, Any], said: str) -> None:
    """A fault that cannot be is answered 400 with the nearest right name, and is not armed."""
    fault = client.to_json(drop_response("Produce", nth=1)) | change
    answer = ask(stage, "POST", "/faults", json={"run": "", "fault": fault})

    assert 400 == answer.status_code
    assert said in answer.json()["error"]
    assert [] == stage.faults()


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [("POST", "/faults", "{", "the body must be JSON"),
     ("POST", "/faults", "[]", "the body must be a JSON object; got list."),
     ("POST", "/runs", "{}", "the body must have the text 'run'; got None."),
     ("DELETE", "/runs/no-such", "", "no run 'no-such' is open on this stage; open are: none."),
     ("POST", "/brokers/1/stopp", "", "Did you mean 'stop'?"),
     ("POST", "/brokers/7/stop", "", "this stage has the brokers [1]; got 7"),
     ("DELETE", "/faults/1nosuch", "", "got '1nosuch'"),
     ("GET", "/log?topic=../orders", "", "a topic's name has letters")],
)  # fmt: skip
def test_requests_that_are_refused(
    healed: Stage, method: str, path: str, body: str, said: str
) -> None:
    """What cannot be done is answered 400 with what was given and what is right."""
    if path.startswith("/faults/"):
        healed.arm("", drop_response("Heartbeat", nth=99))
    answer = ask(healed, method, path, content=body)

    assert 400 == answer.status_code
    assert said in answer.json()["error"]


def test_a_path_that_is_none(stage: Stage) -> None:
    """A path that the server does not have is answered 404."""
    assert 404 == ask(stage, "GET", "/no-such").status_code


def test_a_run_opens_once(stage: Stage, tmp_path: Path) -> None:
    """A run that is open already is refused; closed, its ledger is in its folder."""
    stage.open_run("98-a", tmp_path)
    with pytest.raises(BadArgument, match="run '98-a' is open already"):
        stage.open_run("98-a", tmp_path)
    stage.arm("98-a", drop_response("Produce", nth=1))
    closed = stage.close_run("98-a")

    assert ([0], None) == (list(closed.fired.values()), closed.trouble)
    assert ["armed", "unfired"] == [
        json.loads(line)["kind"]
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]


def test_a_fault_needs_its_run(stage: Stage) -> None:
    """A fault for a run that is not open is refused."""
    with pytest.raises(BadArgument, match="no run '98-z' is open on this stage"):
        stage.arm("98-z", drop_response("Produce", nth=1))


def test_verbs(healed: Stage) -> None:
    """Each verb returns when it is so, and reset heals."""
    states = [healed.broker(verb)["brokers"][0]["state"] for verb in ("pause", "resume", "kill")]
    healed.reset()

    assert ["paused", "running", "stopped"] == states
    assert "running" == healed.state()["brokers"][0]["state"]


def test_the_address_is_private(stage: Stage) -> None:
    """Only its owner can read the token; the server is on loopback; the folder is private."""
    folder = stage_folder(stage.name)
    address = json.loads((folder / "stage.json").read_text())

    assert 0o600 == (folder / "stage.json").stat().st_mode & 0o777
    assert 0o700 == folder.stat().st_mode & 0o777
    assert address["url"].startswith("http://127.0.0.1:")
    assert len(address["token"]) >= 32


def test_events_are_streamed(healed: Stage) -> None:
    """Who reads /events sees a fault being armed and disarmed while it reads."""
    headers = {"X-Lab-Token": healed.token, **EVENTS}
    with httpx.stream("GET", f"{healed.url}/events", headers=headers, trust_env=False) as stream:
        lines = stream.iter_lines()
        assert ": alive" == next(lines)
        healed.arm("", drop_response("Produce", nth=99))
        data = next(line for line in lines if line.startswith("data:"))

    assert ("fault", "armed") == tuple(json.loads(data[5:])[key] for key in ("source", "kind"))


def test_events_can_be_caught_up(healed: Stage) -> None:
    """With `after`, what happened since that number comes first: a reader that lost its link."""
    seen = healed.state()["seen"]
    healed.arm("", drop_response("Produce", nth=99))
    headers = {"X-Lab-Token": healed.token, **EVENTS}
    url = f"{healed.url}/events?after={seen}"
    with httpx.stream("GET", url, headers=headers, trust_env=False) as stream:
        number = next(line for line in stream.iter_lines() if line.startswith("id:"))

    assert f"id: {seen + 1}" == number


JOIN = """
from lab_utils.stage.client import join
from lab_utils.proxy.faults import drop_response
stage = join("own")
if not stage.faults():
    stage.arm("", drop_response("Produce", nth=99))
print(stage.pid, len(stage.faults()), flush=True)
input()
"""


def kernel() -> subprocess.Popen[str]:
    """A process that joins the stage, as a kernel does, and arms a fault if none is armed."""
    command = [sys.executable, "-c", JOIN]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said_by(process: subprocess.Popen[str]) -> str:
    """The line that a kernel prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_kernel_restart_changes_nothing(own: Stage) -> None:
    """A kernel that is killed leaves the stage as it was to the next one."""
    first = kernel()
    before = said_by(first)
    first.kill()
    first.communicate()
    second = kernel()
    after = said_by(second)
    second.communicate("\n")

    assert [f"{own.pid} 1\n"] * 2 == [before, after]


def test_two_kernels_at_once(state: Path) -> None:
    """Two that join at the same time get the same stage."""
    kernels = [kernel(), kernel()]
    pids = {said_by(process).split()[0] for process in kernels}
    for process in kernels:
        process.communicate("\n")
    client.down()

    assert 1 == len(pids)


def test_the_death_of_the_owner_ends_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the process that a stage belongs to is killed, the stage and its broker end."""
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setenv(client.OWNER, str(owner.pid))
    processes = family(join("own"))
    owner.kill()
    owner.communicate()

    await_end(processes)


def test_a_killed_server_takes_its_broker_with_it(own: Stage) -> None:
    """SIGKILL of the server: its broker and its guardian are gone, its ports are closed."""
    processes = family(own)
    assert len(processes) >= 3
    os.kill(own.pid, signal.SIGKILL)
    await_end(processes)

    assert not answers(int(own.direct.rpartition(":")[2]))


def test_after_a_killed_server(own: Stage) -> None:
    """What a killed server left is in nobody's way: who joins gets a new stage."""
    processes = family(own)
    os.kill(own.pid, signal.SIGKILL)
    await_end(processes)
    again = join("own")

    assert own.pid != again.pid
    assert "running" == again.state()["brokers"][0]["state"]


def test_a_stage_without_its_controller(state: Path) -> None:
    """No run begins on it, and the message is true: who joins gets a new stage."""
    stage = join("own", 3)
    (controller,) = [it for it in family(stage) if "controller" in " ".join(it.cmdline())]
    stage.require_controller()
    controller.kill()
    wait_until(stage.has_lost_its_controller, "the death to be seen", timeout_s=5)
    with pytest.raises(StageError, match="has died: no topic can be made"):
        stage.require_controller()
    again = join("own", 3)
    again.require_controller()
    again.shutdown()

    assert stage.pid != again.pid


def test_an_ended_stage_is_said_to_be(own: Stage) -> None:
    """A kernel that still holds an ended stage is told so, and what to do."""
    join("own").shutdown()
    with pytest.raises(StageError, match="Run the notebook's first cell again"):
        own.state()


def test_down_leaves_nothing(state: Path) -> None:
    """After down: no process, no port, no folder of any stage."""
    stages = [join("one"), join("two")]
    processes = [process for stage in stages for process in family(stage)]
    ports = [int(stage.direct.rpartition(":")[2]) for stage in stages]
    ended = client.down()

    assert ["one", "two"] == ended
    assert [] == [process for process in processes if process.is_running()]
    assert [] == [port for port in ports if answers(port)]
    assert [] == list((state_folder() / "stages").iterdir())


def test_down_with_a_broker_that_is_paused(own: Stage) -> None:
    """A paused broker does not survive down."""
    own.broker("pause")
    processes = family(own)
    client.down()

    assert [] == [process for process in processes if process.is_running()]


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

    assert [] == client.stages()


def test_a_template_that_is_gone_is_made_again(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache with jars alone is enough: the template and the archive are made again."""
    from lab_utils.folders import cache_folder

    jars = cache_folder() / "jars"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars").symlink_to(jars)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    stage = join("own")
    stage.shutdown()

    made = sorted(path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir())
    assert ["archive.lock", "jars", "kafka", "template", "template.lock"] == made
    shutil.rmtree(tmp_path / "cache")
