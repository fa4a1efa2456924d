"""The memory of the stage's server, whatever is sent to its ports: it has a bound, and goes on."""

from __future__ import annotations

import os
import selectors
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.audit import peak_mb
from lab_utils.errors import BadArgument
from lab_utils.proxy.armed import ARMED_FAULTS
from lab_utils.proxy.faults import drop_response
from lab_utils.stage.client import Stage, join
from lab_utils.stage.event_log import OPEN_RUNS
from lab_utils.waiting import wait_until
from tests.performed import Perform, sending, values

pytestmark = pytest.mark.kafka

LIMIT_MB = 200
SEND_S = 10
KEPT = 10  # the lab's own reader has opened connections, too
MB = 1024 * 1024


def ports(stage: Stage) -> tuple[int, list[int]]:
    """The control port, and the others: for clients and for replication."""
    control = int(stage.url.rpartition(":")[2])
    listening = {
        connection.laddr.port
        for connection in psutil.Process(stage.pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    return control, sorted(listening - {control})


def flood(port: int, connections: int, *pieces: bytes) -> None:
    """Send these pieces on so many connections at once, as far as they are taken; read nothing."""
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        for _ in range(connections):
            with suppress(OSError):  # refused
                it = opened.enter_context(socket.create_connection(("127.0.0.1", port), SEND_S))
                it.setblocking(False)
                if pieces:
                    selector.register(it, selectors.EVENT_WRITE, list(map(memoryview, pieces)))
        ends_at = time.monotonic() + SEND_S
        # What nobody takes for half a second will not be taken.
        while selector.get_map() and time.monotonic() < ends_at and (ready := selector.select(0.5)):
            for key, _ in ready:
                try:
                    key.data[0] = key.data[0][key.fileobj.send(key.data[0]) :]
                except OSError:  # cut
                    key.data.clear()
                if key.data and not key.data[0]:
                    key.data.pop(0)
                if not key.data:
                    selector.unregister(key.fileobj)


def frame(length: int, size: int) -> bytes:
    """A Produce request that says that it is so long, and so many bytes of it."""
    head = length.to_bytes(4, "big", signed=True) + bytes.fromhex("0000 0009 00000001 0001 61")
    return head + os.urandom(max(0, size - len(head)))


def tagged(fields: int) -> bytes:
    """A Metadata request, version 9, with so many tagged fields that nobody knows."""
    # A number, as three bytes of seven bits, and no value.
    numbers = (bytes([it & 127 | 128, it >> 7 & 127 | 128, it >> 14]) for it in range(fields))
    tags = b"".join(number + b"\0" for number in numbers)
    count = bytes([fields & 127 | 128, fields >> 7 & 127 | 128, fields >> 14])
    body = bytes.fromhex("0003 0009 00000001 0001 61 00 01 000000") + count + tags
    return len(body).to_bytes(4, "big") + body


HALF = frame(12 * MB, 6 * MB)
# How many connect, and what each sends.
KAFKA: tuple[tuple[int, tuple[bytes, ...]], ...] = (
    (300, ()),
    (300, (b"\x00\x00",)),
    (300, (frame(1 << 30, MB),)),
    (100, (HALF,)),
    (20, (frame(-1, 8 * MB),) * 4),
)
# An ApiVersions request of a client with a long name.
NAMED = (32_010).to_bytes(4, "big") + bytes.fromhex("0012 0000 00000001 7d00") + b"\xff" * 32_000
LINE = "{} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
EVENTS = LINE.format("GET /events?after=0")
CONTROL = (
    "",
    LINE.format("GET /state") + "X: " + "x" * 15_000,
    LINE.format("POST /faults") + "{token}Content-Length: 65536\r\n\r\n" + "x" * 65_000,
    (EVENTS + "{token}\r\n") * 3,
)


def test_ports_of_kafka(stage: Stage, perform: Perform) -> None:
    """Clients' and brokers' ports are sent nothing, halves, gigabytes and what is no Kafka."""
    server = psutil.Process(stage.pid)
    files = server.num_fds()
    for port in ports(stage)[1]:
        for connections, pieces in KAFKA:
            flood(port, connections, *pieces)

    assert "0 1 2" == values(perform(sending()), "record")
    wait_until(lambda: server.num_fds() <= files + KEPT, "its connections to be closed",
               timeout_s=60, last_seen=lambda _: str(server.num_fds()))  # fmt: skip
    assert 0 < (peak_mb(stage.pid) or 0) < LIMIT_MB


def test_port_of_a_broker_that_answers_nothing() -> None:
    """What waits for its answers is bounded, too, however it is named; so is what is read of it.

    The stage is its own: a broker that went on would have to read all that.
    """
    stage = join("crowded")
    try:
        stage.broker("pause")
        port = int(stage.bootstrap.rpartition(":")[2])
        flood(port, 200, *[NAMED * 10] * 20)
        flood(port, 1, tagged(2_000_000))
        assert 0 < (peak_mb(stage.pid) or 0) < LIMIT_MB
    finally:
        stage.shutdown()


def test_control_port(stage: Stage, perform: Perform) -> None:
    """The port of the kernels is sent nothing, halves, and questions whose answers nobody reads.

    The events that are kept are as long as they can be.
    """
    for _ in range(250):
        stage.clear(stage.arm("", drop_response("Produce", nth=10**6, topic="t" * 20_000)))
    for request in CONTROL:
        token = f"X-Lab-Token: {stage.token}\r\n"
        flood(ports(stage)[0], 150, request.replace("{token}", token).encode())

    assert "0 1 2" == values(perform(sending()), "record")
    assert 0 < (peak_mb(stage.pid) or 0) < LIMIT_MB


def test_armed_faults_are_bounded(stage: Stage) -> None:
    """One more than so many is refused with what makes room, which then does."""
    for _ in range(ARMED_FAULTS):
        stage.arm("", drop_response("Produce", nth=10**6))
    with pytest.raises(BadArgument, match=r"100 faults are armed already.*lab\.stage\.clear\(\)"):
        stage.arm("", drop_response("Produce"))
    stage.clear()
    stage.arm("", drop_response("Produce"))


def test_open_runs_are_bounded(stage: Stage, tmp_path: Path) -> None:
    """One more than so many is refused with what makes room, which then does."""
    for number in range(OPEN_RUNS):
        stage.open_run(f"98-{number}", tmp_path)
    with pytest.raises(BadArgument, match=r"200 runs .*lab\.stage\.close_run\('98-0'\)"):
        stage.open_run("98-x", tmp_path)
    stage.close_run("98-0")
    stage.open_run("98-x", tmp_path)
