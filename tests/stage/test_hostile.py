"""What is sent to the stage's ports: nothing is done, nothing hangs, and memory is bounded."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka import Producer

from lab_utils.errors import BadArgument
from lab_utils.proxy.faults import drop_response, to_json
from lab_utils.stage.client import Stage
from lab_utils.stage.routes import BODY_LIMIT, SILENCE_S
from tests.performed import Perform, sending

pytestmark = pytest.mark.kafka


@pytest.fixture
def http(stage: Stage) -> Iterator[httpx.Client]:
    """A client with the stage's token."""
    headers = {"X-Lab-Token": stage.token}
    with httpx.Client(
        base_url=stage.url, headers=headers, timeout=None, trust_env=False, verify=False
    ) as client:
        yield client


def raw(stage: Stage, request: bytes) -> bytes:
    """What is answered to bytes that no HTTP client would send, until the connection ends.

    It ends before the stage closes what is only silent.
    """
    received = bytearray()
    address = "127.0.0.1", int(stage.url.rpartition(":")[2])
    # It may be cut while more is sent.
    with suppress(ConnectionError), socket.create_connection(address, SILENCE_S / 2) as connection:
        connection.sendall(request)
        while piece := connection.recv(65536):
            received += piece
    return bytes(received)


def test_no_body_is_read_without_the_token(stage: Stage) -> None:
    """A request without the token is answered before its body has come."""
    start = b"POST /faults HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n{"

    assert raw(stage, start).startswith(b"HTTP/1.1 401")


def test_body_that_is_too_long(stage: Stage) -> None:
    """Nobody has anything to say that takes more than a megabyte, with or without the token."""
    head = f"POST /faults HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Lab-Token: {stage.token}\r\n"
    said = raw(stage, f"{head}Content-Length: {BODY_LIMIT + 1}\r\n\r\n".encode())

    assert said.startswith(b"HTTP/1.1 400")


def test_header_that_is_too_long(stage: Stage) -> None:
    """A header without an end is not kept."""
    assert b"" == raw(stage, b"GET /state HTTP/1.1\r\nX: " + b"x" * 200_000)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({"Host": "evil.example:80"}, 403), ({"Host": "127.0.0.1.evil.example"}, 403),
     ({"Host": "localhost:1"}, 200), ({"Host": "[::1]:1"}, 200),
     ({"Host": "hub.example", "X-ProxyContextPath": "/user/a/proxy/1"}, 200)],
)  # fmt: skip
def test_foreign_host(http: httpx.Client, headers: dict[str, str], expected: int) -> None:
    """A page whose name was made to point at loopback is refused, although its token is right.

    Jupyter passes the browser's name on; it has checked that name itself.
    """
    assert expected == http.get("/state", headers=headers).status_code


@pytest.mark.parametrize(
    "run", ["", ".", "..", "../../evil", "a/b", "a b", "é", "a\x00", "x" * 101, "%2e%2e"]
)
def test_run_that_nobody_could_close(stage: Stage, run: str, tmp_path: Path) -> None:
    """A name that is no part of a path is refused where the run is opened."""
    with pytest.raises(BadArgument, match="a run's name has"):
        stage.open_run(run, tmp_path)

    assert [] == stage.state()["runs"]


def test_run_that_is_refused_changes_nothing(
    stage: Stage, tmp_path: Path, perform: Perform
) -> None:
    """That it was to be examined says nothing of what comes after it: a client may compress."""
    topic, told = f"{perform(sending())[0].run}-orders", []
    with pytest.raises(BadArgument, match="a run's name has"):
        stage.open_run("../e", tmp_path, is_examined=True)
    producer = Producer({"bootstrap.servers": stage.bootstrap, "compression.type": "gzip"})
    producer.produce(topic, bytes(1000), on_delivery=lambda error, _: told.append(error))
    producer.flush()

    assert [None] == told


@pytest.mark.parametrize(
    "folder", ["", "here", "/proc/1/none", "/no/such/folder", "/dev/null/x", "/a\x00b"]
)
def test_folder_that_is_nobodys(stage: Stage, folder: str) -> None:
    """A ledger is written where this user keeps the lab's state, or into a folder that is there."""
    with pytest.raises(BadArgument, match="the folder of a run is an absolute path"):
        stage.open_run("98-f", Path(folder))


BODIES = [
    b"{", b"\xff\xfe", b"[]", b"null", b"1", b'"text"', b"[" * 50_000, b'{"run": ' * 8_000,
    b'{"run": NaN}', b'{"run": 1, "fault": 2}', b'{"run": {}, "fault": {}}',
    b'{"run": "", "fault": []}', b'{"run": ["98-a"], "fault": {"fault": "drop_response"}}',
    b'{"topics": 3}', b'{"topics": [1, null]}', b'{"topics": [], "whole": "yes"}',
    b'{"run": "\\u0000", "folder": "\\u0000"}', b'{"run": "a", "folder": 7}',
]  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 0, 10**30, 1e308, "", "3", "\x00", "é", "x" * 5000, [], [[]], {}, {"a": []},
]  # fmt: skip
PATHS = [
    "/state", "/runs", "/runs/none", "/faults", "/faults/f0", "/brokers/999999999/stop",
    "/brokers/99999999999999999999/stop", "/brokers/1/nothing", "/links/1/2/cut",
    "/links/1/9/held", "/settle", "/partitions", "/partitions?topic=%ff", "/log", "/log?topic=%00",
    "/log?topic=..", "/log?topic=a*", "/log?topic=%ff", "/events?after=x", "/events?after=1e3",
    "/events?after=-1", "/events?after=%C2%B2", "/events?after=" + "9" * 5000, "/events?after=%ff",
    "/none", "/%ff", "/runs/%2e%2e",
]  # fmt: skip


def test_malformed_requests(http: httpx.Client) -> None:
    """Every path with every body that is none: a sentence each, no 500, and nothing is armed."""
    chance = random.Random(7)
    fault = to_json(drop_response("Produce", nth=99))
    changed = [{**fault, name: value} for name in [*fault, "x"] for value in VALUES]
    bodies = [*BODIES, *(orjson.dumps({"run": "none", "fault": each}, default=str)
                         for each in changed if 10**30 not in each.values())]  # fmt: skip
    asked = [("POST", "/faults", body) for body in bodies]
    asked += [(method, path, chance.choice(bodies))
              for path in PATHS for method in ("GET", "POST", "DELETE", "PUT")]  # fmt: skip
    asked += [("POST", path, body) for path in ("/runs", "/settle") for body in BODIES]
    answers = [(each, http.request(each[0], each[1], content=each[2])) for each in asked]
    wrong = [(each, said.status_code, said.text) for each, said in answers
             if said.status_code >= 500 or not said.json()]  # fmt: skip

    assert [] == wrong
    assert [] == http.get("/state").json()["faults"]
    assert [] == http.get("/state").json()["runs"]


def test_long_values_are_cut_for_the_panel(stage: Stage, http: httpx.Client) -> None:
    """What is kept of 600 events with long names takes little; a panel sees how long they were."""
    before = http.get("/state").json()["seen"]
    topic = "t" * 20_000
    for _ in range(12):
        fault = to_json(drop_response("Produce", nth=1)) | {"topic": topic}
        armed = http.post("/faults", json={"run": "", "fault": fault})
        http.delete(f"/faults/{armed.json()['id']}")
    kept = http.get(f"/events?after={before}").content

    assert b"(20000 characters)" in kept
    assert len(kept) < 100_000
