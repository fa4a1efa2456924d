"""The findings on Spark: the literal histories, and equality with the oracle on random ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab_utils.audit.findings import findings, located
from lab_utils.audit.judged import judged_findings
from lab_utils.audit.session import read_events
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from tests.audit.agreement import spark_findings, spark_findings_of_cases
from tests.audit.cases import CASES
from tests.histories import (
    acked,
    created,
    delivered,
    end,
    failed,
    fault,
    in_run,
    log,
    order,
    record,
    sent,
    unknown,
)
from tests.oracle import Found, oracle

pytestmark = pytest.mark.kafka

FINDINGS = {finding for finding, *_ in CASES.values()}

values = st.sampled_from("123")
partitions = st.sampled_from([0, 0, 1])
offsets = st.integers(0, 3)
producers = st.sampled_from(["producer-1", "producer-2"])
consumers = st.sampled_from(["consumer-1", "consumer-2"])
happenings = st.one_of(
    st.builds(order, values),
    st.builds(sent, values, actor=producers),
    st.builds(acked, values, st.none() | offsets, actor=producers, partition=partitions),
    st.builds(failed, values, st.sampled_from(["NOT_ENOUGH_REPLICAS", "_QUEUE_FULL"])),
    st.builds(unknown, values, actor=producers),
    st.builds(delivered, values, offsets, consumers, partition=partitions),
    st.builds(
        lambda actor, group: created(actor, group__id=group), consumers, st.sampled_from("ab")
    ),
    st.builds(fault, st.sampled_from(["armed", "fired", "unfired"])),
    st.builds(record, values, offsets, partitions),
    st.builds(end, st.booleans(), partitions),
)
# Three orders of one producer with an offset each, drawn: half of these go backwards somewhere.
# The log then holds what is drawn of them there.
produced = st.builds(
    lambda places, kept: [
        *map(sent, "123"),
        *map(acked, "123", places),
        *(record(value, at) for value, at in zip("123", places, strict=True)
          if at is not None and value in kept),
    ],
    st.lists(st.none() | offsets, min_size=3, max_size=3),
    st.sets(st.sampled_from("123")),
)  # fmt: skip
histories = st.builds(
    lambda first, then: first + then,
    st.just([]) | produced,
    st.lists(happenings, max_size=14),
).filter(
    lambda rows: max(Counter(r.actor for r in rows if r.kind == "created").values(), default=1) == 1
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[Found]]:
    """What Spark finds in every literal history."""
    return spark_findings_of_cases(tmp_path_factory.mktemp("literal"), CASES, findings)


@pytest.mark.parametrize("name", CASES)
def test_smallest_history(name: str, found: dict[str, Counter[Found]]) -> None:
    """The smallest history of a finding has it, as the oracle says."""
    finding, smallest, _ = CASES[name]

    assert oracle(in_run("", smallest)) == found[f"{name}: smallest"]
    assert finding in {each[0] for each in found[f"{name}: smallest"]}


@pytest.mark.parametrize("name", CASES)
def test_near_miss(name: str, found: dict[str, Counter[Found]]) -> None:
    """The near miss of a finding does not have it, as the oracle says."""
    finding, _, near_miss = CASES[name]

    assert oracle(in_run("", near_miss)) == found[f"{name}: near miss"]
    assert finding not in {each[0] for each in found[f"{name}: near miss"]}


def test_spark_equals_the_oracle(tmp_path: Path) -> None:
    """On random histories Spark finds what the oracle finds, no more and no less."""
    runs: dict[str, list[Event]] = {}

    # Drawn anew at each change of the test, and the same until then: each finding is among them.
    @settings(
        max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(histories)
    def collect(history: list[Event]) -> None:
        runs[f"run-{len(runs)}"] = history

    collect()
    found = spark_findings(tmp_path, {run: rows for run, rows in runs.items() if rows}, findings)
    differ = [run for run, rows in runs.items() if oracle(in_run("", rows)) != found[run]]
    smallest = min(differ, key=lambda run: len(runs[run]), default=None)

    assert {found[0] for rows in runs.values() for found in oracle(rows)} == FINDINGS
    assert smallest is None, (runs[smallest], oracle(in_run("", runs[smallest])), found[smallest])


def test_located(tmp_path: Path) -> None:
    """Each intended order is at the furthest place that is known of it."""
    rows = [*map(order, "1234"), *map(sent, "234"), acked("3", 7), acked("4", 0), *log("4")]
    write_ledger(tmp_path, in_run("00-a", rows))
    places = {row.value: row.place for row in located(read_events(tmp_path)).collect()}

    assert places == {
        "1": "never sent",
        "2": "sent, not acked",
        "3": "acked, not in the log",
        "4": "in the log",
    }


def test_judged(tmp_path: Path) -> None:
    """A duplicate is allowed by the setting of the producer that sent it, and is a breach else."""
    twice = [sent("1"), acked("1", 1), *log("1", "1")]
    plain = [created("producer-1", role="producer"), *twice]
    keyed = [created("producer-1", role="producer", enable__idempotence="True"), *twice]
    write_ledger(tmp_path, in_run("00-a", plain) + in_run("00-b", keyed))
    judged = [
        (row["judgement"], row["allowed_by"]) for row in judged_findings(read_events(tmp_path))
    ]

    assert judged == [("allowed", "enable.idempotence=false"), ("breach", None)]
