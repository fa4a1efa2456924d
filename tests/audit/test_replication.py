"""The findings about replicas: smallest histories, near misses, and Spark equal to the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab_utils.audit.contracts import POWER_CUT, clause
from lab_utils.audit.replication import replication_findings
from lab_utils.ledger.events import Event
from tests.audit.agreement import spark_findings
from tests.histories import TOPIC, acked, in_run, log
from tests.oracle_replication import oracle_of_replication


def decision(isr: str, leader: int = 1) -> Event:
    """The controller decides who leads and who is in sync."""
    detail = {"leader": str(leader), "isr": isr, "replicas": "1 2 3"}
    return Event(run="", source="broker", actor="controller", kind="partition", topic=TOPIC,
                 partition=0, detail=detail)  # fmt: skip


def watermark(offset: int) -> Event:
    """Readers may read up to here."""
    return Event(run="", source="broker", actor="broker-1", kind="watermark", topic=TOPIC,
                 partition=0, offset=offset, detail={"lso": str(offset)})  # fmt: skip


def topic(floor: int | None, replicas: int = 3) -> Event:
    """The topic's own settings; without a floor, Kafka's default holds, which is 1."""
    given = {} if floor is None else {"min.insync.replicas": str(floor)}
    detail = {"replicas": str(replicas), **given}
    return Event(run="", source="workload", actor="lab", kind="topic", topic=TOPIC, detail=detail)


FINISHED = Event(run="", source="workload", actor="workload", kind="finished")

# name: the finding, its smallest history, its near miss
CASES: dict[str, tuple[str, list[Event], list[Event]]] = {
    "another order has its offset": (
        "inconsistent-offsets",
        [acked("1", 0), *log("2")],
        [acked("1", 0), *log("1", "2")],
    ),
    "nobody has its offset": (
        "inconsistent-offsets",
        [acked("1", 1), *log("2", "3")],
        [acked("1", 2), *log("2", "3")],
    ),
    "acked below the floor": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
        [topic(2), decision("1 2"), watermark(0), acked("1", 0), FINISHED],
    ),
    "readable before the end": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED, watermark(1)],
        [topic(2), decision("1"), watermark(0), acked("1", 0), watermark(1), FINISHED],
    ),
    "the floor is capped at the replicas": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
        [topic(2, replicas=1), decision("1"), watermark(0), acked("1", 0), FINISHED],
    ),
    "a floor that nobody set": (
        "invisible-ack",
        [topic(2), decision("1"), watermark(0), acked("1", 0), FINISHED],
        [topic(None), decision("1"), watermark(0), acked("1", 0), FINISHED],
    ),
}

happenings = st.one_of(
    st.builds(acked, st.sampled_from("123"), st.none() | st.integers(0, 3)),
    st.builds(decision, st.sampled_from(["1", "1 2", "1 2 3", "2"])),
    st.builds(watermark, st.integers(0, 3)),
    st.just(FINISHED),
)
histories = st.builds(
    lambda first, then, last: [*first, *then, *log(*last)],
    st.lists(st.builds(topic, st.none() | st.integers(1, 3), st.integers(1, 3)), max_size=1),
    st.lists(happenings, max_size=10),
    st.lists(st.sampled_from("123"), max_size=4),
)


@pytest.mark.parametrize("name", CASES)
def test_smallest_history(name: str) -> None:
    """The smallest history of a finding has it."""
    finding, smallest, _ = CASES[name]

    assert finding in {found[0] for found in oracle_of_replication(in_run("02-a", smallest))}


@pytest.mark.parametrize("name", CASES)
def test_near_miss(name: str) -> None:
    """The near miss of a finding does not have it."""
    finding, _, near_miss = CASES[name]

    assert finding not in {found[0] for found in oracle_of_replication(in_run("02-a", near_miss))}


@pytest.mark.parametrize(
    ("finding", "acks", "unclean", "rule"),
    [
        ("lost-write", "all", "false", "must not"),
        ("lost-write", "all", "true", "may"),
        ("lost-write", "1", "false", "may"),
        ("inconsistent-offsets", "all", "false", "must not"),
        ("invisible-ack", "1", "false", "may"),
        ("invisible-ack", "all", "false", "must not"),
    ],
)
def test_contract(finding: str, acks: str, unclean: str, rule: str) -> None:
    """What replicas may do to an acked order depends on acks and on unclean elections."""
    given = {"acks": acks, "unclean.leader.election.enable": unclean, "replicas": "3"}

    assert rule == clause(finding, [given]).rule


@pytest.mark.parametrize(("power_cut", "rule"), [("false", "must not"), ("true", "may")])
def test_one_replica(power_cut: str, rule: str) -> None:
    """One replica excuses a loss only when its broker has lost its power."""
    given = {"acks": "all", "replicas": "1", POWER_CUT: power_cut}

    assert rule == clause("lost-write", [given]).rule


@pytest.mark.kafka
def test_spark_agrees_on_the_literal_histories(tmp_path: Path) -> None:
    """Spark finds in each literal history what the oracle finds."""
    runs = {f"{name} {place}": case[place] for name, case in CASES.items() for place in (1, 2)}
    found = spark_findings(tmp_path, runs, replication_findings)
    oracle = {run: oracle_of_replication(in_run(run, rows)) for run, rows in runs.items()}

    assert oracle == {run: found[run] for run in runs}


@pytest.mark.kafka
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(histories, min_size=300, max_size=300))
def test_spark_agrees_on_random_histories(
    tmp_path_factory: pytest.TempPathFactory, given_histories: list[list[Event]]
) -> None:
    """Spark finds in random histories what the oracle finds, all in one job."""
    runs = {f"r{number}": rows for number, rows in enumerate(given_histories)}
    found = spark_findings(tmp_path_factory.mktemp("random"), runs, replication_findings)
    oracle = {run: oracle_of_replication(in_run(run, rows)) for run, rows in runs.items()}

    assert oracle == {run: found[run] for run in runs}
