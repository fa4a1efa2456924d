"""The recording producer against the plain one with a callback: throughput, as a ratio.

200-byte messages, acks=all, the client's other settings untouched, both straight to the broker. The
recording one writes two lines of ledger for each message, as it does for a learner.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.producer import RecordingProducer
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.recorder import Recorder
from lab_utils.ledger.store import Witness
from lab_utils.stage import client

MESSAGE = b"x" * 200
TOPICS = count(1)


def measure(messages: int = 200_000, pairs: int = 5) -> dict[str, Any]:
    """Messages a second by both, and the ratio of their medians; to reach: 0.5."""
    stage = client.join("bench")
    reader = HonestReader(stage.direct)
    rates: dict[str, list[float]] = {"plain": [], "recording": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(pairs + 1):
            for way, found in rates.items():
                topic = f"recording-{next(TOPICS)}"
                reader.create_topic(topic, 1)
                producer = _producer(way, stage.direct, Path(folder) / topic)
                rate = _rate(producer, topic, messages)
                if number:  # the first pair warms the broker up
                    found.append(rate)
    reader.close()
    stage.shutdown()
    medians = {way: statistics.median(found) for way, found in rates.items()}
    return {
        "figure": "recording producer",
        "ratio": medians["recording"] / medians["plain"],
        "to_reach": 0.5,
        "messages_per_s": {way: round(median) for way, median in medians.items()},
        "messages": messages,
    }


def _producer(way: str, address: str, folder: Path) -> Producer:
    configuration = {"bootstrap.servers": address, "log_level": 0}
    if way == "plain":
        return Producer(configuration)
    witness = Witness(folder, "client")
    return RecordingProducer(
        configuration, Recorder(witness, "bench-a", "producer-1"), CrashPoints(witness, "bench-a")
    )


def _rate(producer: Producer, topic: str, messages: int) -> float:
    reports = 0

    def on_delivery(*_: object) -> None:
        nonlocal reports
        reports += 1

    begun = time.perf_counter()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, MESSAGE, partition=0, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(60)
    assert reports == messages, (reports, messages)
    return messages / (time.perf_counter() - begun)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
