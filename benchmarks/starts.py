"""The start of a broker and of a cluster, and their memory.

Stock is `kafka-storage format`, then kafka.Kafka with the flags of kafka-server-start.sh. Ours is a
copy of the template and the class archive. Both start cold, in turn, until they answer ApiVersions.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks import Figure
from lab_utils.machine.broker import Broker, answers, new_ports
from lab_utils.machine.prepare import prepare
from lab_utils.machine.quick_start import CLUSTER_ID, Kafka
from lab_utils.machine.settings import Node, text
from lab_utils.stage import client
from lab_utils.waiting import wait_until

# bin/kafka-server-start.sh and bin/kafka-run-class.sh of Kafka 4.3
STOCK = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
         "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
         "-Djava.awt.headless=true")  # fmt: skip


def broker_start(pairs: int = 5) -> Iterator[Figure]:
    """How many times sooner our broker answers than the stock one, and in how much less memory."""
    kafka = prepare()
    found: dict[str, list[tuple[float, float]]] = {"stock": [], "ours": []}
    for _ in range(pairs):
        for name, start in (("stock", _stock), ("ours", _ours)):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                found[name].append(start(kafka, Path(folder)))
    seconds, megabytes = (
        {name: statistics.median(each[column] for each in rows) for name, rows in found.items()}
        for column in (0, 1)
    )
    sooner = seconds["stock"] / seconds["ours"]
    yield Figure("broker start, times sooner than stock", sooner, "at least 3.5", seconds)
    memory = megabytes["ours"] / megabytes["stock"]
    yield Figure("broker memory beside stock", memory, "at most 0.6", megabytes)


def cluster_start(pairs: int = 3) -> Iterator[Figure]:
    """How many times one broker's start three brokers and a controller need, and their memory."""
    seconds: dict[int, list[float]] = {1: [], 3: []}
    megabytes: list[float] = []
    for _ in range(pairs):
        for brokers, found in seconds.items():
            begun = time.perf_counter()
            stage = client.join(f"bench{brokers}", brokers)
            found.append(time.perf_counter() - begun)
            if brokers == 3:
                megabytes.append(_java_mb(stage.pid))
            stage.shutdown()
    medians = {brokers: statistics.median(found) for brokers, found in seconds.items()}
    yield Figure(
        "start of three brokers, times one's", medians[3] / medians[1], "at most 6", medians
    )
    yield Figure("megabytes of three brokers", statistics.median(megabytes), "at most 650")


def _ours(kafka: Kafka, folder: Path) -> tuple[float, float]:
    broker = Broker(kafka, folder, Node(1, new_ports(proxy=1)))
    begun = time.perf_counter()
    broker.start()
    took_s = time.perf_counter() - begun
    assert broker.pid is not None
    size = psutil.Process(broker.pid).memory_info().rss / 1e6
    broker.kill()
    return took_s, size


def _stock(kafka: Kafka, folder: Path) -> tuple[float, float]:
    node = Node(1, new_ports(proxy=1))
    properties = folder / "server.properties"
    settings = node.properties(str(folder / "data"), is_new=True)
    properties.write_text(text(settings), encoding="utf-8")
    java, jars = str(kafka.java.executable), os.pathsep.join(map(str, kafka.jars))
    storage = [java, "-cp", jars, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
    begun = time.perf_counter()
    subprocess.run([*storage, "-c", str(properties)], check=True, capture_output=True, timeout=60)
    broker = subprocess.Popen(
        [java, *STOCK, "-cp", jars, "kafka.Kafka", str(properties)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(
            lambda: answers(node.ports.direct), "the stock broker", timeout_s=60, every_s=0.01
        )
        took_s = time.perf_counter() - begun
        return took_s, psutil.Process(broker.pid).memory_info().rss / 1e6
    finally:
        os.killpg(broker.pid, signal.SIGKILL)
        broker.wait()


def _java_mb(server: int) -> float:
    """The memory of the Java processes below a stage server."""
    below = psutil.Process(server).children(recursive=True)
    java = [it for it in below if Path(it.exe()).name == "java"]
    return sum(it.memory_info().rss for it in java) / 1e6
