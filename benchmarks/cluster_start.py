"""Three brokers and a controller against one broker: their start and their memory."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import psutil

from lab_utils.stage import client


def measure(pairs: int = 3) -> dict[str, Any]:
    """How many times one broker's start they need, and their memory; to reach: 6 and 650 MB."""
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
    return {
        "figure": "three brokers",
        "times_one_broker": medians[3] / medians[1],
        "to_reach": 6,
        "megabytes": statistics.median(megabytes),
        "megabytes_to_reach": 650,
        "seconds": medians,
    }


def _java_mb(server: int) -> float:
    """The memory of the Java processes below a stage server."""
    below = psutil.Process(server).children(recursive=True)
    java = [it for it in below if Path(it.exe()).name == "java"]
    return sum(it.memory_info().rss for it in java) / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
