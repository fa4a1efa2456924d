"""A real broker: what it does when told, and what is said when it cannot start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from lab_utils.errors import StageError
from lab_utils.machine.broker import Broker, answers, free_ports, new_ports
from lab_utils.machine.java import Java
from lab_utils.machine.prepare import prepare
from lab_utils.machine.quick_start import Kafka
from lab_utils.machine.settings import Node
from lab_utils.waiting import wait_until

pytestmark = pytest.mark.kafka

MakeBroker = Callable[..., Broker]


@pytest.fixture(scope="module")
def kafka() -> Kafka:
    """The Kafka of this machine, with its template and archive."""
    return prepare()


@pytest.fixture
def make(kafka: Kafka, tmp_path: Path) -> Iterator[MakeBroker]:
    """Makes brokers in folders of their own, and kills them in the end."""
    made: list[Broker] = []

    def make(folder: str = "broker", heap_mb: int = 256, java: str = "", **settings: str) -> Broker:
        chosen = Kafka(Java(Path(java), 17, kafka.java.text), kafka.jars) if java else kafka
        node = Node(1, new_ports(proxy=1), settings=settings)
        made.append(Broker(chosen, tmp_path / folder, node, heap_mb=heap_mb))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture
def broker(make: MakeBroker) -> Broker:
    """A broker that runs."""
    broker = make()
    broker.start()
    return broker


def refusal(broker: Broker) -> str:
    """What is said of a broker that does not start."""
    with pytest.raises(StageError) as raised:
        broker.start()
    assert broker.pid is None
    return str(raised.value)


def port(broker: Broker) -> int:
    """The port of the lab's own readers."""
    return broker.node.ports.direct


def test_start_and_stop(make: MakeBroker) -> None:
    """It answers when start returns; when stop returns, its process and port are gone."""
    broker = make()
    broker.start()
    running = (broker.state, answers(port(broker)))
    broker.stop()

    assert ("running", True) == running
    assert ("stopped", None, False) == (broker.state, broker.pid, answers(port(broker)))


def test_stop_is_clean(broker: Broker) -> None:
    """A stopped broker has written the mark of a clean shutdown, and its log says so."""
    broker.stop()

    assert (broker.data_folder / ".kafka_cleanshutdown").exists()


def test_kill_is_not_clean(broker: Broker) -> None:
    """A killed broker has had no time for that mark, and can be started again."""
    broker.kill()
    assert not (broker.data_folder / ".kafka_cleanshutdown").exists()
    broker.start()

    assert "running" == broker.state


def test_pause_and_resume(broker: Broker) -> None:
    """A paused broker keeps its process and answers nothing; a resumed one answers."""
    pid = broker.pid
    broker.pause()
    paused = (broker.state, broker.pid)
    with socket.create_connection(("127.0.0.1", port(broker)), timeout=0.2) as client:
        client.sendall(bytes.fromhex("0000000a0012000000000000ffff"))
        with pytest.raises(TimeoutError):
            client.recv(1)
    broker.resume()

    assert ("paused", pid) == paused
    assert ("running", True) == (broker.state, answers(port(broker)))


def test_a_paused_broker_can_be_stopped(broker: Broker) -> None:
    """Stop wakes it first: it ends as an operator would end it."""
    broker.pause()
    broker.stop()

    assert (broker.data_folder / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("verb", "said"),
    [("start", "is running already. There is nothing to start."),
     ("resume", "is running; only one that is paused can be resumed.")],
)  # fmt: skip
def test_what_a_running_broker_refuses(broker: Broker, verb: str, said: str) -> None:
    """A verb that does not fit says what the broker is."""
    with pytest.raises(StageError, match=f"broker 1 {said}"):
        getattr(broker, verb)()


def test_what_a_stopped_broker_refuses(make: MakeBroker) -> None:
    """There is nothing to pause; stop and kill of what does not run are nothing."""
    broker = make()
    broker.stop()
    broker.kill()
    with pytest.raises(StageError, match="is stopped; only one that is running can be paused"):
        broker.pause()


def test_a_broker_that_dies_says_so(broker: Broker) -> None:
    """A process that somebody else kills is seen, and is neither stopped nor running."""
    os.kill(broker.pid or 0, signal.SIGKILL)
    wait_until(lambda: broker.state != "running", "the death to be seen", timeout_s=5)

    assert ("died", None) == (broker.state, broker.pid)


def test_a_port_that_is_taken(make: MakeBroker) -> None:
    """The message says that a port is taken and what to do, above the log's last lines."""
    broker = make()
    with socket.create_server(("127.0.0.1", port(broker))):
        said = refusal(broker)

    assert "broker 1 ended with exit code 1 while it started. " in said
    assert "Another program has one of its ports; start it again. " in said
    assert "The last lines of its log:\n" in said
    assert "Address already in use" in said


def test_a_heap_that_is_too_small(make: MakeBroker) -> None:
    """A JVM that refuses its heap is named as the cause."""
    assert "Its heap is too small for a JVM. The last lines of its log:" in refusal(make(heap_mb=1))


def test_a_heap_that_does_not_last(make: MakeBroker) -> None:
    """A heap that a JVM takes and Kafka fills is named as the cause."""
    assert "Its heap is too small for what it holds." in refusal(make(heap_mb=12))


def test_java_that_is_too_old(make: MakeBroker, tmp_path: Path) -> None:
    """A java that refuses Kafka's classes is named, with what finds another."""
    java = tmp_path / "java"
    java.write_text(
        '#!/bin/sh\necho "java.lang.UnsupportedClassVersionError: kafka/Kafka has been compiled by '
        'a more recent version of the Java Runtime (class file version 61.0)"\nexit 1\n'
    )
    java.chmod(0o755)

    assert "Its Java is too old; run ./lab doctor." in refusal(make(java=str(java)))


def test_a_folder_that_cannot_be(make: MakeBroker, tmp_path: Path) -> None:
    """A data folder that cannot be made is named, with the variable that chooses another."""
    (tmp_path / "file").touch()
    said = refusal(make(folder="file/broker"))

    assert f"broker 1 cannot write to {tmp_path / 'file' / 'broker'}: Not a directory." in said
    assert "set LAB_STATE to a folder that you may write to." in said


def test_a_setting_that_kafka_refuses(make: MakeBroker) -> None:
    """What dies at start for any reason shows the log's last lines, which have it."""
    said = refusal(make(**{"log.segment.bytes": "many"}))

    assert "Invalid value many for configuration log.segment.bytes" in said


def test_damaged_data(broker: Broker) -> None:
    """A data folder that Kafka refuses: what its log says is in the message."""
    broker.kill()
    (broker.data_folder / "meta.properties").write_text("version=1\nnode.id=9\n")

    assert "meta.properties" in refusal(broker)


def test_the_message_is_of_this_start(broker: Broker) -> None:
    """The log of an earlier start is kept, and is not in the message."""
    broker.stop()
    broker.node = replace(broker.node, settings={"log.segment.bytes": "many"})

    assert "Kafka Server started" not in refusal(broker)


def test_files_are_private(broker: Broker) -> None:
    """Nobody else may look into the broker's folder."""
    assert 0o700 == broker.folder.stat().st_mode & 0o777


def test_every_listener_answers_after_a_start(broker: Broker) -> None:
    """Whoever connects when start() has returned is refused at no port."""
    assert {"DIRECT", "LAB", "REPLICATION", "CONTROLLER"} == {
        name for name, port in broker.node.listening.items() if answers(port)
    }


def test_it_listens_on_loopback_alone(broker: Broker) -> None:
    """No listener can be reached from another machine."""
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(broker.pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert {"127.0.0.1"} == {address.removeprefix("::ffff:") for address in listening}
    assert 4 == len(listening)


def test_free_ports_are_free_and_differ() -> None:
    """Ports that are chosen at once are different, and nobody listens there."""
    ports = free_ports(50)

    assert 50 == len(set(ports))
    assert not any(map(answers, ports))


def test_a_killed_owner_takes_its_broker_with_it(tmp_path: Path) -> None:
    """SIGKILL of the process that owns a broker ends the broker; nothing else tells it."""
    code = f"""
import time
from pathlib import Path
from lab_utils.machine.broker import Broker, new_ports
from lab_utils.machine.guardian import Guardian
from lab_utils.machine.prepare import prepare
from lab_utils.machine.settings import Node
guardian = Guardian()
node = Node(1, new_ports(1))
broker = Broker(prepare(), Path({str(tmp_path)!r}), node, watch=guardian.watch)
broker.start()
print(broker.pid, flush=True)
input()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    broker = psutil.Process(int(owner.stdout.readline()))
    assert broker.is_running()
    owner.kill()
    owner.communicate()

    wait_until(lambda: not broker.is_running(), "the broker to be gone", timeout_s=10)
