"""Messages a second by two ways, in turn, as a ratio of their medians.

200-byte messages, the client's other settings untouched. Through the proxy or past it: the proxy
runs in the stage server and writes the run's ledger, as it does for a learner. Recorded or not,
both straight to the broker: the recording producer writes two lines of ledger for each message.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks import Figure
from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.producer import RecordingProducer
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.recorder import Recorder
from lab_utils.ledger.store import Witness
from lab_utils.stage import client
from lab_utils.stage.client import Stage

MESSAGE = bytes(200)
RUN = "bench-a"
TOPICS = count(1)
# Room for all of them, so that produce() never has to wait.
ROOM = {"acks": "all", "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 2**20}  # fmt: skip


def proxy_throughput(messages: int = 1_000_000, pairs: int = 5) -> Iterator[Figure]:
    """Through the proxy against past it."""

    def at(address: str, _: Path) -> Producer:
        name = {"bootstrap.servers": address, "client.id": f"{RUN}.producer-1"}
        return Producer(name | ROOM)

    ways = {
        "proxy": lambda stage, folder: at(stage.bootstrap, folder),
        "direct": lambda stage, folder: at(stage.direct, folder),
    }
    yield _ratio("messages through the proxy", "at least 0.9", ways, messages, pairs)


def recording_producer(messages: int = 200_000, pairs: int = 5) -> Iterator[Figure]:
    """The recording producer against the plain one with a callback."""

    def recording(stage: Stage, folder: Path) -> Producer:
        witness = Witness(folder, "client")
        recorder = Recorder(witness, RUN, "producer-1")
        return RecordingProducer(plain(stage, folder), recorder, CrashPoints())

    def plain(stage: Stage, _: Path) -> dict[str, object]:
        return {"bootstrap.servers": stage.direct, "log_level": 0}

    ways = {"recording": recording, "plain": lambda stage, folder: Producer(plain(stage, folder))}
    yield _ratio("recording producer beside the plain one", "at least 0.23", ways, messages, pairs)


def _ratio(
    what: str,
    to_reach: str,
    ways: dict[str, Callable[[Stage, Path], Producer]],
    messages: int,
    pairs: int,
) -> Figure:
    """The first way's rate beside the second's."""
    stage = client.join("bench")
    reader = HonestReader(stage.direct)
    rates: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        stage.open_run(RUN, Path(folder))
        for number in range(pairs + 1):
            for way, producer in ways.items():
                topic = f"throughput-{next(TOPICS)}"
                reader.create_topic(topic, 1)
                rate = _rate(producer(stage, Path(folder) / topic), topic, messages, way)
                if number:  # the first pair warms the broker up
                    rates[way].append(rate)
        stage.close_run(RUN)
    reader.close()
    stage.shutdown()
    one, other = (statistics.median(found) for found in rates.values())
    return Figure(
        what, one / other, to_reach, {way: list(map(round, it)) for way, it in rates.items()}
    )


def _rate(producer: Producer, topic: str, messages: int, way: str) -> float:
    reports = 0

    def on_delivery(*_: object) -> None:
        nonlocal reports
        reports += 1

    # A callback for each message is what the recording producer is compared with, and no other.
    given: dict[str, Any] = {"on_delivery": on_delivery} if way in ("recording", "plain") else {}
    producer.list_topics(topic)
    begun = time.perf_counter()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, MESSAGE, partition=0, **given)
                break
            except BufferError:
                producer.poll(0.01)
        if given:
            producer.poll(0)
    left = producer.flush(120)
    assert left == 0, f"{left} messages were not acknowledged within 120 s"
    assert not given or reports == messages, (reports, messages)
    return messages / (time.perf_counter() - begun)
