"""The recording proxy against a direct connection: throughput, as a ratio.

One producer, 200-byte messages, acks=all, its other settings untouched; the same broker, first
past the proxy, then through it, in turn. The proxy runs in the stage server and writes the run's
ledger, as it does for a learner.
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

from lab_utils.clients.reader import HonestReader
from lab_utils.stage import client

MESSAGE = bytes(200)
RUN = "bench-a"
TOPICS = count(1)


def measure(messages: int = 1_000_000, pairs: int = 5) -> dict[str, Any]:
    """Messages a second by both ways, and the ratio of their medians; to reach: 0.9."""
    stage = client.join("bench")
    reader = HonestReader(stage.direct)
    with tempfile.TemporaryDirectory() as folder:
        stage.open_run(RUN, Path(folder))
        ways = {"direct": stage.direct, "proxy": stage.bootstrap}
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(pairs + 1):
            for way, address in ways.items():
                rate = _rate(reader, address, messages)
                if number:  # the first pair warms the broker up
                    rates[way].append(rate)
        stage.close_run(RUN)
    reader.close()
    stage.shutdown()
    medians = {way: statistics.median(found) for way, found in rates.items()}
    return {
        "figure": "proxy throughput",
        "ratio": medians["proxy"] / medians["direct"],
        "to_reach": 0.9,
        "messages_per_s": {way: [round(rate) for rate in found] for way, found in rates.items()},
        "messages": messages,
    }


def _rate(reader: HonestReader, address: str, messages: int) -> float:
    topic = f"throughput-{next(TOPICS)}"
    reader.create_topic(topic, 1)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "client.id": f"{RUN}.producer-1",
            "acks": "all",
            # Room for all, so that produce() never has to wait.
            "queue.buffering.max.messages": 2 * messages,
            "queue.buffering.max.kbytes": 2**20,
        }
    )
    producer.list_topics(topic)
    begun = time.perf_counter()
    for _ in range(messages):
        producer.produce(topic, MESSAGE, partition=0)
    left = producer.flush(120)
    assert left == 0, f"{left} messages were not acknowledged within 120 s"
    return messages / (time.perf_counter() - begun)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
