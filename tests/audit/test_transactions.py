"""The findings about transactions on Spark: literal histories, and equality with the oracle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab_utils.audit.judged import judged_findings
from lab_utils.audit.session import read_events
from lab_utils.audit.transactions import transaction_findings
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from tests.audit.agreement import spark_findings, spark_findings_of_cases
from tests.audit.transaction_cases import (
    CASES,
    both,
    noted,
    sent_in,
    stop,
    told,
    visible,
    written,
)
from tests.histories import created, delivered, in_run, record
from tests.oracle import Found
from tests.oracle_transactions import oracle_of_transactions

pytestmark = pytest.mark.kafka

values = st.sampled_from("1234")
partitions = st.sampled_from([0, 0, 1])
offsets = st.integers(0, 4)
numbers = st.integers(1, 2)
producers = st.sampled_from(["producer-1", "producer-2"])
happenings = st.one_of(
    st.builds(lambda *them, actor: sent_in(*them, actor=actor), numbers, values, actor=producers),
    st.builds(sent_in, st.just(0), values),
    st.builds(
        told, st.sampled_from(["committed", "aborted"]), numbers, st.integers(0, 12), producers
    ),
    st.builds(delivered, values, offsets, partition=partitions),
    st.builds(record, values, offsets, partitions),
    st.builds(visible, values, offsets, partitions),
    st.builds(stop, offsets, offsets, partitions, st.sampled_from([True, True, False])),
    st.builds(
        written, st.sampled_from(["batch", "marker"]), offsets, st.integers(0, 2),
        st.sampled_from([-1, 7, 8]), partitions,
    ),
    st.builds(
        noted, st.sampled_from(["Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort"]),
        offsets, st.sampled_from([7, 8]),
    ),
)  # fmt: skip
# Two transactions of two orders each, somewhere in the log: half of these are torn or interleaved.
places = st.tuples(st.integers(0, 3), partitions, st.booleans())
transactions = st.builds(
    lambda where: [
        event
        for value, (offset, partition, is_visible) in zip("1234", where, strict=True)
        for event in [
            sent_in(1, value, actor=f"producer-{1 + int(value) % 2}"),
            *(both if is_visible else lambda *place: [record(*place)])(value, offset, partition),
        ]
    ],
    st.lists(places, min_size=4, max_size=4),
)

# What a log took of one producer id, in this order of epochs.
epochs = st.builds(
    lambda taken: [written("batch", offset, epoch) for offset, epoch in enumerate(taken)],
    st.lists(st.integers(0, 2), min_size=2, max_size=4),
)


def is_possible(rows: list[Event]) -> bool:
    """A transaction ends once, and a log has one entry at an offset."""
    ends = [(row.actor, row.detail["transaction"]) for row in rows if row.kind.startswith("txn_")]
    entries = [row.offset for row in rows if row.kind == "transaction"]
    return all(len(each) == len(set(each)) for each in (ends, entries))


histories = st.builds(
    lambda first, then: first + then,
    st.just([]) | transactions | epochs,
    st.lists(happenings, max_size=12),
).filter(is_possible)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[Found]]:
    """What Spark finds in every literal history."""
    return spark_findings_of_cases(tmp_path_factory.mktemp("literal"), CASES, transaction_findings)


@pytest.mark.parametrize("name", CASES)
def test_smallest_history(name: str, found: dict[str, Counter[Found]]) -> None:
    """The smallest history of a finding has it, as the oracle says."""
    finding, smallest, _ = CASES[name]

    assert oracle_of_transactions(in_run("", smallest)) == found[f"{name}: smallest"]
    assert finding in {each[0] for each in found[f"{name}: smallest"]}


@pytest.mark.parametrize("name", CASES)
def test_near_miss(name: str, found: dict[str, Counter[Found]]) -> None:
    """The near miss of a finding does not have it, as the oracle says."""
    finding, _, near_miss = CASES[name]

    assert oracle_of_transactions(in_run("", near_miss)) == found[f"{name}: near miss"]
    assert finding not in {each[0] for each in found[f"{name}: near miss"]}


def test_spark_equals_the_oracle(tmp_path: Path) -> None:
    """On random histories Spark finds what the oracle finds, no more and no less."""
    # The smallest histories come first: chance alone would seldom meet the rarest finding.
    runs = {name: smallest for name, (_, smallest, _) in CASES.items()}

    # Drawn anew at each change of the test, and the same until then: each finding is among them.
    @settings(
        max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(histories)
    def collect(history: list[Event]) -> None:
        runs[f"run-{len(runs)}"] = history

    collect()
    found = spark_findings(
        tmp_path, {run: rows for run, rows in runs.items() if rows}, transaction_findings
    )
    expected = {run: oracle_of_transactions(in_run("", rows)) for run, rows in runs.items()}
    differ = [run for run in runs if expected[run] != found[run]]
    smallest = min(differ, key=lambda run: len(runs[run]), default=None)

    assert {each[0] for rows in expected.values() for each in rows} == {
        finding for finding, *_ in CASES.values()
    }
    assert smallest is None, (runs[smallest], expected[smallest], found[smallest])


def test_judged_by_the_isolation_level(tmp_path: Path) -> None:
    """What was aborted may reach a reader that asks for everything, and no other."""
    aborted = [sent_in(1, "1"), told("aborted", 1), written("marker", 1, 0)]
    everything = created("consumer-1", role="consumer", isolation__level="read_uncommitted")
    committed = created("consumer-1", role="consumer")
    runs = {
        "04-a": [everything, *aborted, delivered("1", 0)],
        "04-b": [committed, *aborted, delivered("1", 0)],
        "04-c": [everything, *aborted, *both("1", 0)],
    }
    write_ledger(tmp_path, [row for run, rows in runs.items() for row in in_run(run, rows)])
    judged = {
        row["run"]: (row["judgement"], row["allowed_by"])
        for row in judged_findings(read_events(tmp_path))
        if row["finding"] == "aborted-read"
    }

    assert judged == {
        "04-a": ("allowed", "isolation.level=read_uncommitted"),
        "04-b": ("breach", None),
        "04-c": ("breach", None),
    }
