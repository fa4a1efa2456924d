"""A real broker: what it does when told, and what is said when it cannot start."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from unittest.mock import Mock

import psutil
import pytest

from lab_utils.clients.reader import HonestReader
from lab_utils.errors import BadArgument, StageError
from lab_utils.folders import cache_folder
from lab_utils.machine import prepare as preparing
from lab_utils.machine.broker import Broker, answers, new_ports
from lab_utils.machine.jars import kafka_jars
from lab_utils.machine.java import OPTIONS, Java
from lab_utils.machine.prepare import prepare
from lab_utils.machine.quick_start import Kafka, make_archive
from lab_utils.machine.settings import TIMERS, Node
from lab_utils.processes import is_running
from lab_utils.waiting import wait_until
from tests.called import call

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

    def make(folder: str = "broker", heap_mb: int = 256, java: str = "") -> Broker:
        chosen = Kafka(Java(Path(java), 17, kafka.java.text), kafka.jars) if java else kafka
        node = Node(1, new_ports(proxy=1))
        made.append(Broker(chosen, tmp_path / folder, node, heap_mb=heap_mb))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture(scope="module")
def running(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs, for tests that leave it running."""
    folder = tmp_path_factory.mktemp("running") / "broker"
    broker = Broker(kafka, folder, Node(1, new_ports(proxy=1)))
    broker.start()
    yield broker
    broker.kill()


def refusal(broker: Broker) -> str:
    """What is said of a broker that does not start."""
    with pytest.raises(StageError) as raised:
        broker.start()
    assert broker.pid is None
    return str(raised.value)


def port(broker: Broker) -> int:
    """The port of the lab's own readers."""
    return broker.node.ports.direct


def test_how_a_broker_ends(make: MakeBroker) -> None:
    """Stopped, it has written the mark of a clean end; killed, it has not; died, it says so."""
    broker = make()
    mark = broker.data_folder / ".kafka_cleanshutdown"
    broker.start()
    running = (broker.state, answers(port(broker)))
    broker.pause()
    broker.stop()  # as an operator would end it: it is woken first
    assert ("running", True) == running
    assert ("stopped", None, False) == (broker.state, broker.pid, answers(port(broker)))
    assert mark.exists()

    broker.start()
    broker.send(signal.SIGKILL)  # as a fault does, before it asks for the rest
    wait_until(lambda: broker.pid is None, "its end", timeout_s=60)
    seen = broker.state
    broker.kill()
    assert ("killed", "killed", False) == (seen, broker.state, mark.exists())

    # Another life begins on its data, of which nobody remembers how the one before it ended.
    broker = make()
    broker.start()
    os.kill(broker.pid or 0, signal.SIGKILL)  # by somebody else
    wait_until(lambda: broker.state != "running", "the death to be seen", timeout_s=60)
    assert ("died", None) == (broker.state, broker.pid)

    # Data that Kafka refuses: what its log says of this start, and of no earlier one, is told.
    (broker.data_folder / "meta.properties").write_text("version=1\nnode.id=9\n")
    said = refusal(broker)
    assert "meta.properties" in said
    assert "Kafka Server started" not in said


def test_pause_and_resume(running: Broker) -> None:
    """A paused broker keeps its process and answers nothing; a resumed one answers."""
    pid = running.pid
    running.pause()
    paused = (running.state, running.pid)
    with socket.create_connection(("127.0.0.1", port(running)), timeout=0.2) as client:
        client.sendall(bytes.fromhex("0000000a0012000000000000ffff"))
        with pytest.raises(TimeoutError):
            client.recv(1)
    running.resume()

    assert ("paused", pid) == paused
    assert ("running", True) == (running.state, answers(port(running)))


def test_a_signal_to_pause_has_stopped_every_thread(running: Broker) -> None:
    """One thread takes it and stops the others, which would serve on until it has a processor."""
    process, seen = psutil.Process(running.pid), set()
    for _ in range(20):
        running.send(signal.SIGSTOP)
        seen.add(process.status())
        running.send(signal.SIGCONT)
        wait_until(lambda: process.status() != psutil.STATUS_STOPPED, "SIGCONT", timeout_s=60)

    assert {psutil.STATUS_STOPPED} == seen


def test_a_lone_broker_does_not_fence_itself(running: Broker) -> None:
    """It stands still for longer than others may, and is there at once for whoever asks then."""
    session_s = int(TIMERS["broker.session.timeout.ms"]) / 1000
    running.pause()
    paused = time.monotonic()
    wait_until(lambda: time.monotonic() > paused + session_s + 0.5, "its time", timeout_s=60)
    running.resume()

    reader = HonestReader(running.direct_address)
    reader.create_topic("after", 1)  # the controller hears of it after what was due meanwhile
    reader.close()
    assert "Fencing broker" not in running.log.read_text()


@pytest.mark.parametrize(
    ("verb", "said"),
    [("start", "is running already. There is nothing to start."),
     ("resume", "is running; only one that is paused can be resumed.")],
)  # fmt: skip
def test_what_a_running_broker_refuses(running: Broker, verb: str, said: str) -> None:
    """A verb that does not fit says what the broker is."""
    with pytest.raises(BadArgument, match=f"broker 1 {said}"):
        getattr(running, verb)()


def test_what_a_stopped_broker_refuses(make: MakeBroker) -> None:
    """There is nothing to pause; stop and kill of what does not run are nothing."""
    broker = make()
    broker.stop()
    broker.kill()
    with pytest.raises(BadArgument, match="is killed; only one that is running can be paused"):
        broker.pause()


def test_a_port_that_is_taken(make: MakeBroker) -> None:
    """The message says that a port is taken and what to do, above the log's last lines."""
    broker = make()
    with socket.create_server(("127.0.0.1", port(broker))):
        said = refusal(broker)

    assert "broker 1 ended with exit code 1 while it started. " in said
    assert "Another program has one of its ports; start it again. " in said
    assert "The last lines of its log:\n" in said
    assert "Address already in use" in said


@pytest.mark.parametrize(("heap_mb", "whose"), [(1, "a JVM"), (12, "what it holds")])
def test_a_heap_that_is_too_small(make: MakeBroker, heap_mb: int, whose: str) -> None:
    """One that the JVM refuses, and one that Kafka fills, are named as the cause."""
    said = f"Its heap is too small for {whose}. The last lines of its log:"
    assert said in refusal(make(heap_mb=heap_mb))


def test_a_broker_without_room_for_its_log(
    make: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it could not write is said for it."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: Mock(free=0))

    assert "The disk is full; make room, then start it again." in refusal(make(java="/bin/false"))


def test_a_folder_that_cannot_be(make: MakeBroker, tmp_path: Path) -> None:
    """A data folder that cannot be made is named, with the variable that chooses another."""
    (tmp_path / "file").touch()
    said = refusal(make(folder="file/broker"))

    assert f"broker 1 cannot write to {tmp_path / 'file' / 'broker'}: Not a directory." in said
    assert "set LAB_STATE to a folder that you may write to." in said


def test_what_a_user_may_have_set(make: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of any name, the locale C, and a second collector beside the lab's own: it starts.

    Kafka takes commas for separators, and reads a file of its settings as Latin-1. In C Java cannot
    name such a file, and two collectors would end each JVM.
    """
    monkeypatch.setenv("LC_ALL", "C")
    for name in OPTIONS:
        monkeypatch.setenv(name, "-XX:+UseG1GC")
    broker = make(folder="a, b=#\\ jürgen→日")
    broker.start()

    assert (broker.data_folder / "__cluster_metadata-0").is_dir()
    assert ["broker.log", "data", "server.properties"] == sorted(
        path.name for path in broker.folder.iterdir()
    )


@pytest.mark.long
def test_a_template_that_is_damaged_is_made_again(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache with jars and a file without content: template and archive are made again."""
    jars = cache_folder() / "jars"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars").symlink_to(jars)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    template = Kafka(kafka.java, tuple(kafka_jars())).template
    template.mkdir()
    (template / "meta.properties").touch()
    prepare()

    made = (tmp_path / "cache").iterdir()
    kinds = sorted(path.name.partition("-")[0] for path in made if path.suffix != ".lock")
    assert ["jars", "kafka", "template"] == kinds
    assert all(path.stat().st_size for path in template.iterdir())


@pytest.mark.long
def test_an_archive_that_is_not_whole_is_none(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a JVM that was killed has written of its archive is removed, and it is said."""
    monkeypatch.setattr(preparing, "ARCHIVED_S", 0.1)
    with pytest.warns(UserWarning, match=r"Kafka has no class archive .*: waited 0.1 s for Java"):
        make_archive(
            "Kafka", tmp_path / "it.jsa", lambda it: preparing.make_by_ending(kafka, it), print
        )

    assert ["it.lock"] == [path.name for path in tmp_path.iterdir()]


MAKES: Final = """
import os, sys
from pathlib import Path
from lab_utils.machine.guardian import Guardian
from lab_utils.machine.prepare import make_by_ending
from lab_utils.machine.quick_start import quick_kafka

Guardian.watch = lambda _, group: (print(group, flush=True), os.kill(os.getpid(), 9))
make_by_ending(quick_kafka(), Path(sys.argv[1]))
"""


def test_an_archive_whose_maker_is_killed(tmp_path: Path) -> None:
    """The broker that would have written it ends, too: nobody else would ever find it.

    Its maker is killed when it has just started the broker, and has told nobody so.
    """
    made = call([sys.executable, "-c", MAKES, tmp_path / "it.jsa"], timeout=60)
    broker = int(made.stdout)

    wait_until(lambda: not is_running(broker), "the broker to end", timeout_s=60)


def test_it_is_private(running: Broker) -> None:
    """It has the ports of its node, and none of them can be reached from another machine.

    Nobody else may look into its folder.
    """
    assert 0o700 == running.folder.stat().st_mode & 0o777
    listening = [
        (connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port)
        for connection in psutil.Process(running.pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert [("127.0.0.1", port) for port in sorted(running.node.listening.values())] == sorted(
        listening
    )
    assert {"DIRECT", "LAB", "REPLICATION", "CONTROLLER"} == running.node.listening.keys()
