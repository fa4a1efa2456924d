"""The explorer and the sweep on real brokers: each lab's choices make the run that they promise."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils import Lab, corrupt_request, refuse
from lab_utils.lab import _explored
from lab_utils.views.explorer.offers import offer_of

pytestmark = pytest.mark.kafka

# Of each lab what it shows first, and what a learner may change it to.
ONE_BROKER = [
    ("00", {}, "Order 2 was stored twice: its answer was lost"),
    ("00", {"fault": "the request is lost", "nth": "1"}, "Order 0 crossed the wire twice"),
    ("00", {"fault": "the answer is late"}, "Order 2 is in the log, and the client cannot know"),
    ("03", {"fault": "it is refused"}, "Order 2 was stored after order 3: its first answer was"),
    ("03", {"idempotence": "true"}, "Order 2 crossed the wire twice and was stored once"),
    ("04", {"fault": "is late"},
     "producer-1 was told that transaction 2 was aborted: order 1 can be read, order 2"),
    ("04", {"fault": "arrives", "taken": "starts before the end", "second": "commit"},
     "producer-1 was told that it is fenced"),
    ("05", {}, "Order 2 was processed more than once: the bookmark had not reached the work"),
    ("05", {"body": "commits, then works", "fault": "is killed after commit()"},
     "Order 2 was skipped"),
    ("06", {}, "Order 2 is in the database more than once"),
    ("06", {"sink": "a record, in a transaction", "fault": "is killed before its commit"},
     "Out equals in: 4 orders, each once"),
]  # fmt: skip
THREE_BROKERS = [
    ("01", {"fault": "the leader, cut off"}, "lost"),
    ("01", {"fault": "the leader, cut off", "acks": "all"}, "stored once"),
    ("02", {"fault": "broker 3"}, "stored once"),
    ("02", {"replicas": "1"}, "stored once"),
]  # fmt: skip


def explored(lab: Lab, of: str, choice: dict[str, str]) -> dict[str, Any]:
    return _explored(lab, offer_of(of), choice)


@pytest.fixture(scope="module")
def lab(stage: Any) -> Lab:
    """A lab on the stage that the tests share; it is not closed, for that would end the stage."""
    return Lab(stage.name)


@pytest.mark.parametrize(("of", "choice", "finding"), ONE_BROKER)
def test_choice_on_one_broker(lab: Lab, of: str, choice: dict[str, str], finding: str) -> None:
    """The program of a choice runs as it is shown, and its finding is the run's."""
    data = explored(lab, of, choice)

    assert data["finding"].startswith(finding)
    assert offer_of(of).chosen(choice) == data["choice"]
    assert "read" == data["steps"][-1]["style"]


@pytest.mark.parametrize(("of", "choice", "outcome"), THREE_BROKERS)
def test_choice_on_three_brokers(
    stage_of_three: Any, of: str, choice: dict[str, str], outcome: str
) -> None:
    """The same where brokers die and are paused; how fast the ISR shrinks is the machine's."""
    data = explored(Lab(stage_of_three.name, brokers=3), of, choice)
    replicas = range(1, 1 + int(choice.get("replicas", 3)))

    assert [outcome] == data["outcomes"]
    assert {f"broker {number}" for number in replicas} <= set(data["lanes"])


def test_sweep_finds_the_hole(lab: Lab) -> None:
    """An idempotent producer loses an order when its first batch goes wrong, and no other."""

    def send(run: Any, settings: dict[str, Any]) -> None:
        producer = run.producer(settings)
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
        producer.flush()

    faults = [fault("Produce", nth=nth) for fault in (refuse, corrupt_request) for nth in (1, 2)]
    table = lab.sweep(send, faults=faults, settings=[{"enable.idempotence": True}], orders=3)

    assert [("lost",), ("stored once",)] * 2 == [cell.words for cell in table.cells]
    assert "Order 0 was acked and is not in the log" in table.runs[0]["finding"]
    assert "settings = {'enable.idempotence': True}" in table.runs[0]["code"]
