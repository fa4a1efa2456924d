"""The findings about consuming on Spark: literal histories, and equality with the oracle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab_utils.audit.consuming import consuming_findings
from lab_utils.audit.judged import judged_findings
from lab_utils.audit.session import read_events
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from tests.audit.agreement import spark_findings, spark_findings_of_cases
from tests.audit.consuming_cases import (
    CASES,
    MARKER,
    bookmark,
    effect,
    placed,
    processed,
    visible,
)
from tests.histories import created, delivered, in_run, log, record
from tests.oracle import Found
from tests.oracle_consuming import oracle_of_consuming

pytestmark = pytest.mark.kafka

values = st.sampled_from("0123")
partitions = st.sampled_from([0, 0, 1])
offsets = st.integers(0, 3)
consumers = st.sampled_from(["consumer-1", "consumer-2"])
happenings = st.one_of(
    st.builds(delivered, values, offsets, consumers, partition=partitions),
    st.builds(placed, st.sampled_from(["assigned", "sought"]), consumers, partition=partitions),
    st.builds(processed, values, offsets, partition=partitions),
    st.builds(bookmark, offsets, st.sampled_from(["end", "crash"]), partitions),
    st.builds(effect, values, st.integers(0, 2), st.sampled_from(["bookings", "refunds"])),
    st.builds(record, values, offsets, partitions),
    st.builds(visible, values, offsets),
    st.just(MARKER),
)
# A log that is read from its start, in any order and with any gaps.
polled = st.builds(
    lambda given: [*log(*"0123"), *(delivered(str(offset), offset) for offset in given)],
    st.lists(offsets, max_size=4),
)
histories = st.builds(
    lambda first, then: first + then, st.just([]) | polled, st.lists(happenings, max_size=12)
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[Found]]:
    """What Spark finds in every literal history."""
    return spark_findings_of_cases(tmp_path_factory.mktemp("literal"), CASES, consuming_findings)


@pytest.mark.parametrize("name", CASES)
def test_smallest_history(name: str, found: dict[str, Counter[Found]]) -> None:
    """The smallest history of a finding has it, as the oracle says."""
    finding, smallest, _ = CASES[name]

    assert oracle_of_consuming(in_run("", smallest)) == found[f"{name}: smallest"]
    assert finding in {each[0] for each in found[f"{name}: smallest"]}


@pytest.mark.parametrize("name", CASES)
def test_near_miss(name: str, found: dict[str, Counter[Found]]) -> None:
    """The near miss of a finding does not have it, as the oracle says."""
    finding, _, near_miss = CASES[name]

    assert oracle_of_consuming(in_run("", near_miss)) == found[f"{name}: near miss"]
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
    found = spark_findings(
        tmp_path, {run: rows for run, rows in runs.items() if rows}, consuming_findings
    )
    expected = {run: oracle_of_consuming(in_run("", rows)) for run, rows in runs.items()}
    differ = [run for run in runs if expected[run] != found[run]]
    smallest = min(differ, key=lambda run: len(runs[run]), default=None)

    assert {each[0] for rows in expected.values() for each in rows} == {
        finding for finding, *_ in CASES.values()
    }
    assert smallest is None, (runs[smallest], expected[smallest], found[smallest])


def test_judged_by_who_commits(tmp_path: Path) -> None:
    """A skipped order is laid to the timer, to the program's own commit, or to latest."""
    history = [*log("0", "1"), delivered("0", 0), delivered("1", 1), processed("0", 0), bookmark(2)]
    earliest = {"role": "consumer", "auto__offset__reset": "earliest"}
    runs = {
        "05-a": created("consumer-1", **earliest),
        "05-b": created("consumer-1", enable__auto__commit="False", **earliest),
        "05-c": created("consumer-1", role="consumer"),
    }
    ledger = [row for run, first in runs.items() for row in in_run(run, [first, *history])]
    write_ledger(tmp_path, ledger)
    rows = judged_findings(read_events(tmp_path))

    assert {row["run"]: row["allowed_by"] for row in rows if row["value"] == "1"} == {
        "05-a": "enable.auto.commit=true",
        "05-b": "enable.auto.commit=false",
        "05-c": "auto.offset.reset=largest",
    }
