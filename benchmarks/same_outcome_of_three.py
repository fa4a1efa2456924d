"""Each row of labs 01 and 02 on three brokers, many times: is the outcome the same?

A row is a workload, its faults, and what must come of it: what the client was told of each order,
what the log holds, and how often faults fired. Rows take turns, so that whatever else the machine
does hits all of them. Run with a number, as `python -m benchmarks.same_outcome_of_three 20`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab_utils.brokers import Brokers
from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import carry_out
from lab_utils.experiment import Experiment, order_values
from lab_utils.ledger.events import Event
from lab_utils.stage import connection
from lab_utils.stage.broker_faults import (
    RECEIVED,
    cut_link,
    hold_link,
    kill_broker,
    pause_broker,
    power_cut,
    resume_broker,
    stop_broker,
)
from lab_utils.stage.faults import Fault, drop_request, drop_response
from lab_utils.views.heat_map import survival

Workload = Callable[[LiveRun], object]
Outcome = tuple[str, str, int]


def sending(**settings: Any) -> Workload:
    """One order at a time, each with its report."""

    def send(run: LiveRun) -> None:
        producer = run.producer({"acks": "all"} | settings)
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
            producer.flush()

    return send


@dataclass(frozen=True)
class Row:
    """One row of a lab: what is done, and the reports, the log and the faults that must follow."""

    workload: Workload
    faults: tuple[Fault, ...]
    expected: Outcome
    orders: int = 3
    conditions: Mapping[str, Any] = field(default_factory=lambda: {"replicas": 3})


def told(kinds: str) -> str:
    """Reports by their first letters: acked, failed, unknown."""
    words = {"a": "acked", "f": "failed", "u": "unknown"}
    return " ".join(f"{number}:{words[kind]}" for number, kind in enumerate(kinds))


CUT = (cut_link(1, 2), cut_link(1, 3))
CUT_LATER = (cut_link(1, 2, api="Produce", nth=1), cut_link(1, 3, api="Produce", nth=1))
ALONE = (
    pause_broker(2, api="Produce", nth=1),
    pause_broker(3, api="Produce", nth=1),
    kill_broker(1, api="Produce", nth=3),
    resume_broker(2, api="Produce", nth=3),
    resume_broker(3, api="Produce", nth=3),
)
ONE: Mapping[str, Any] = {"replicas": 1}
UNCLEAN = {"replicas": 3, "topic_config": {"unclean.leader.election.enable": "true"}}
TWO_OF_TWO = {"replicas": 2, "topic_config": {"min.insync.replicas": "2"}}
SHORT = {"message.timeout.ms": 3000}
AT_ONCE = (drop_response("Produce", nth=2), kill_broker(1, api="Produce", nth=2))

ROWS = {
    "01 acks=1, the leader dies cut off": Row(
        sending(acks=1),
        (*CUT, kill_broker(1, api="Produce", nth=2)),
        (told("aaa"), "2", 3),
    ),
    "01 acks=all, the leader dies cut off": Row(
        sending(),
        (*CUT_LATER, kill_broker(1, api="Produce", nth=2, when=RECEIVED)),
        (told("aaa"), "0 1 2", 3),
    ),
    "01 acks=0, a request is lost": Row(
        sending(acks=0), (drop_request("Produce", nth=2),), (told("aaa"), "0", 1)
    ),
    "01 retries=0, an answer is lost": Row(
        sending(retries=0), (drop_response("Produce", nth=2),), (told("aua"), "0 1 2", 1)
    ),
    "01 every broker is down": Row(
        sending(**SHORT),
        (stop_broker(1), stop_broker(2), stop_broker(3)),
        (told("u"), "", 3),
        orders=1,
    ),
    "01 one replica, killed": Row(
        sending(acks=1), (kill_broker(1, api="Produce", nth=3),), (told("aaa"), "0 1 2", 1),
        conditions=ONE,
    ),
    "01 one replica, power cut": Row(
        sending(acks=1), (power_cut(1, api="Produce", nth=3),), (told("aaa"), "", 1),
        conditions=ONE,
    ),
    "02 a paused follower": Row(
        sending(),
        (pause_broker(3, api="Produce", nth=1), resume_broker(3, api="Produce", nth=2)),
        (told("aaa"), "0 1 2", 2),
    ),
    "02 a held link": Row(sending(), (hold_link(1, 3),), (told("aaa"), "0 1 2", 1)),
    "02 an ISR of one, unclean": Row(
        sending(), ALONE, (told("aaaa"), "0 1 3", 5), orders=4, conditions=UNCLEAN
    ),
    "02 an ISR of one, clean": Row(
        sending(**{"message.timeout.ms": 5000}), ALONE, (told("aaau"), "0 1 2", 5), orders=4
    ),
    "02 as many as the floor": Row(
        sending(**SHORT),
        (kill_broker(2, api="Produce", nth=1),),
        (told("au"), "0 1", 1),
        orders=2,
        conditions=TWO_OF_TWO,
    ),
    "02 a leader that stored and did not answer": Row(
        sending(), AT_ONCE, (told("aaa"), "0 1 1 2", 2)
    ),
    "02 the same, idempotent": Row(
        sending(**{"enable.idempotence": True}), AT_ONCE, (told("aaa"), "0 1 2", 2)
    ),
    "02 a leader that is stopped": Row(
        sending(), (stop_broker(1, api="Produce", nth=2),), (told("aaa"), "0 1 2", 1)
    ),
}  # fmt: skip


def measure(repeats: int = 2) -> dict[str, Any]:
    """How many runs of each row had its outcome; to reach: all of them."""
    stage = connection.join("same3", 3)
    reader = HonestReader(stage.direct)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(repeats):
            for at, (name, row) in enumerate(ROWS.items()):
                begun = time.perf_counter()
                experiment = Experiment(
                    stage, reader, f"s{number}r{at}-a", Path(folder) / f"{number}-{at}",
                    order_values(row.orders), row.faults, **row.conditions,
                )  # fmt: skip
                seen = _outcome(_performed(experiment, row.workload))
                found[name]["equal" if seen == row.expected else str(seen)] += 1
                seconds[name] += time.perf_counter() - begun
            grid = _grid(stage, reader, Path(folder), number)
            found["02 the grid"]["equal" if grid == _grid_expected() else str(grid)] += 1
    reader.close()
    stage.shutdown()
    return {
        "figure": "each run of labs 01 and 02, same outcome",
        "runs_each": repeats,
        "equal": sum(counts["equal"] for counts in found.values()),
        "runs": repeats * len(found),
        "different": {name: dict(counts) for name, counts in found.items() if len(counts) > 1
                      or "equal" not in counts},
        "mean_s": {name: round(total / repeats, 1) for name, total in seconds.items()},
    }  # fmt: skip


def _performed(experiment: Experiment, workload: Workload) -> list[Event]:
    ticket = experiment.begin()
    carry_out(workload, ticket, timeout_s=60)
    rows = experiment.finish()
    assert experiment.trouble == []
    return rows


def _outcome(rows: Iterable[Event]) -> Outcome:
    rows = list(rows)
    words = ("acked", "failed", "unknown")
    reports = [it for it in rows if it.source == "client" and it.kind in words]
    records = sorted((it.offset or 0, it.value or "") for it in rows if it.kind == "record")
    said = " ".join(f"{it.value}:{it.kind}" for it in reports)
    return said, " ".join(value for _, value in records), sum(it.kind == "fired" for it in rows)


def _grid(stage: Any, reader: HonestReader, folder: Path, number: int) -> list[str]:
    """What each cell of lab 02's grid was, row by row."""
    settings = {
        f"rf{replicas}-min{floor}": {"replicas": str(replicas), "min.insync.replicas": str(floor)}
        for replicas in (1, 2, 3)
        for floor in (1, 2, 3)
    }
    brokers = Brokers(stage)

    def write_to_each(run: LiveRun) -> None:
        for dead, order in enumerate(run.orders):
            if dead:
                brokers.kill(dead)
                for topic in run.topics.values():
                    brokers.wait_for_leader(topic, other_than=dead)
            producer = run.producer({"acks": "all", "message.timeout.ms": 2000})
            for topic in run.topics.values():
                producer.produce(topic, order, partition=0)
            producer.flush()

    experiment = Experiment(
        stage, reader, f"s{number}grid-a", folder / f"{number}-grid", order_values(3),
        topics=tuple(settings), topic_settings=settings, replicas=3,
    )  # fmt: skip
    table = survival(_performed(experiment, write_to_each)).table
    return [" ".join(map(str, row)) for row in table.rows]


def _grid_expected() -> list[str]:
    """What the rules of Kafka lead one to expect; the runs are held to it."""
    found = []
    for replicas in (1, 2, 3):
        for floor in (1, 2, 3):
            copies = replicas
            for dead in range(min(replicas, 2) + 1):
                is_written = replicas - dead >= max(min(floor, replicas), 1)
                copies = min(copies, replicas - dead) if is_written else copies
                word = "writable" if is_written else "refused"
                safe = "safe" if copies > 1 else "not safe"
                found.append(f"{replicas} {floor} {dead} {word}, {safe} {copies}")
    return found


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:2])), indent=2))
