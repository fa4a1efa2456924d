"""The stage server over HTTP: who may ask, what is refused, what it outlives, what ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from lab_utils.clients.reader import HonestReader
from lab_utils.errors import BadArgument
from lab_utils.folders import stage_folder
from lab_utils.proxy.faults import drop_response
from lab_utils.stage.client import Stage
from lab_utils.stage.lending import left_in
from lab_utils.waiting import wait_until

pytestmark = pytest.mark.kafka


def ask(
    stage: Stage, method: str, path: str, token: str | None = None, **request: Any
) -> httpx.Response:
    """Ask with the stage's token, or with another one; wait for the answer as long as it takes."""
    headers = {b"X-Lab-Token": (stage.token if token is None else token).encode()}
    given = {"headers": headers, "timeout": None, "trust_env": False, **request}
    return httpx.request(method, stage.url + path, **given)


@pytest.mark.parametrize("token", ["", "guessed", "é"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/state"), ("POST", "/runs"), ("POST", "/faults"), ("DELETE", "/faults"),
     ("POST", "/brokers/1/kill"), ("POST", "/reset"), ("GET", "/log?topic=orders"),
     ("GET", "/events"), ("POST", "/shutdown")],
)  # fmt: skip
def test_no_token(stage: Stage, method: str, path: str, token: str) -> None:
    """Without the token every path is answered 401, and nothing is done."""
    assert 401 == ask(stage, method, path, token).status_code
    assert [] == left_in(stage.state())  # connections of earlier tests may end meanwhile


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [("POST", "/faults", "{", "the body must be JSON"),
     ("POST", "/faults", "[]", "the body must be a JSON object; got list."),
     ("POST", "/faults", '{"fault": {"fault": "drop_respons"}}', "Did you mean 'drop_response'?"),
     ("POST", "/faults", '{"run": "98-z", "fault": {"fault": "drop_response", "api": "Fetch"}}',
      "no run '98-z' is open on this stage; open are: none."),
     ("POST", "/runs", "{}", "the body must have the text 'run'; got None."),
     ("DELETE", "/runs/no-such", "", "no run 'no-such' is open on this stage; open are: none."),
     ("POST", "/brokers/1/stopp", "", "Did you mean 'stop'?"),
     ("POST", "/brokers/7/stop", "", "this stage has the brokers [1]; got 7"),
     ("DELETE", "/faults/1nosuch", "", "got '1nosuch'"),
     ("GET", "/log?topic=../orders", "", "a topic's name has letters")],
)  # fmt: skip
def test_requests_that_are_refused(
    stage: Stage, method: str, path: str, body: str, said: str
) -> None:
    """What cannot be done is answered 400 with what was given and what is right."""
    if path.startswith("/faults/"):
        stage.arm("", drop_response("Heartbeat", nth=99))
    answer = ask(stage, method, path, content=body)

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

    assert stage.close_run("98-a") is None
    assert ["armed", "unfired"] == [
        json.loads(line)["kind"]
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]


OPENS = """
import sys
from pathlib import Path
from lab_utils.proxy.faults import drop_response
from lab_utils.stage.client import join
stage = join(sys.argv[1])
stage.open_run("98-dead", Path(sys.argv[2]))
stage.arm("98-dead", drop_response("Produce", nth=99))
print("opened", flush=True)
input()
"""


def test_a_run_whose_owner_was_killed_is_closed(stage: Stage, tmp_path: Path) -> None:
    """Its faults are disarmed; a run whose owner the stage has never seen stays open."""
    body = {"run": "98-unseen", "folder": str(tmp_path), "owner": "1 0"}
    ask(stage, "POST", "/runs", json=body)
    kernel = subprocess.Popen(
        [sys.executable, "-c", OPENS, stage.name, tmp_path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert kernel.stdout is not None
    assert "opened\n" == kernel.stdout.readline()
    assert ["98-dead", "98-unseen"] == stage.state()["runs"]
    kernel.kill()
    kernel.communicate()
    wait_until(lambda: stage.state()["runs"] == ["98-unseen"], "its run to be closed", timeout_s=60)

    assert [] == stage.state()["faults"]


def test_topics_of_runs_long_past(stage: Stage, reader: HonestReader, tmp_path: Path) -> None:
    """The topics of the last fifty runs and of open ones stay; those before may be deleted."""
    for number in range(53):
        stage.open_run(f"97-{number}", tmp_path)
        if number != 1:
            stage.close_run(f"97-{number}")
    topics = ["97-0-orders", "97-1-orders", "97-2-orders", "97-2-bills", "97-3-orders", "97-4"]
    for topic in topics:
        reader.create_topic(topic, 1)
    old = stage.past_topics()  # of other tests, too
    reader.delete_topics(old)
    wait_until(lambda: not stage.past_topics(), "the topics to be deleted", timeout_s=60)

    assert ["97-0-orders", "97-2-bills", "97-2-orders"] == sorted(
        topic for topic in old if topic.startswith("97-")
    )
    assert [[], [0]] == [
        [each["partition"] for each in stage.partitions(topic)] for topic in (topics[0], topics[1])
    ]


def test_roles_are_of_the_latest_run(stage: Stage, reader: HonestReader, tmp_path: Path) -> None:
    """A broker leads what the latest run has; what an earlier one left behind is not counted."""
    for run, partitions in (("96-a", 3), ("96-b", 2)):
        stage.open_run(run, tmp_path)
        reader.create_topic(f"{run}-orders", partitions)
        stage.close_run(run)
    broker = stage.state()["brokers"][0]

    assert [2, 2, 2] == [broker[role] for role in ("leads", "in_sync", "replicates")]


def test_the_address_is_private(stage: Stage) -> None:
    """Only its owner can read the token; the server is on loopback; the folder is private."""
    folder = stage_folder(stage.name)
    address = json.loads((folder / "server.json").read_text())

    assert 0o600 == (folder / "server.json").stat().st_mode & 0o777
    assert 0o700 == folder.stat().st_mode & 0o777
    assert address["url"].startswith("http://127.0.0.1:")
    assert len(address["token"]) >= 32
