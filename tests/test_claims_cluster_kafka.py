"""Claims A to C that need three brokers: each is caused once, and the rows decide it.

Broker 1 leads. A link that is cut first keeps the followers from copying what is then acked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients.live_run import LiveRun, Workload
from lab_utils.clients.reader import HonestReader
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import (
    cut_link,
    drop_response,
    heal_link,
    hold_link,
    kill_broker,
    power_cut,
    start_broker,
)
from lab_utils.stage.client import Brokers
from tests.performed import (
    Perform,
    errors,
    in_sync,
    in_transaction,
    kafka_tool,
    lost,
    performing,
    read,
    reports,
    sending,
    values,
)

pytestmark = [pytest.mark.kafka, pytest.mark.long]

TWO_SUFFICE = {"min.insync.replicas": "2"}
CUT_OFF = (cut_link(1, 2, api="Produce", nth=1), cut_link(1, 3, api="Produce", nth=1))


@pytest.fixture
def perform(stage_of_three: Any, tmp_path: Path) -> Iterator[Perform]:
    with performing(stage_of_three, tmp_path) as perform:
        yield perform


def test_acks_1_loses_what_only_the_leader_had(perform: Perform) -> None:
    """An acked order is gone when the leader dies before a follower has copied it."""
    dies = kill_broker(1, api="Produce", nth=1)
    faults = (cut_link(1, 2), cut_link(1, 3), dies)
    rows = perform(sending({"acks": 1}), *faults, orders=1, replicas=3)

    assert ("0:acked", "", "0") == (reports(rows), values(rows, "record"), lost(rows))


def test_acks_all_loses_nothing_that_was_acked(perform: Perform) -> None:
    """The same leader dies with an order in its hands: it had not been promised, and is retried."""
    dies = kill_broker(1, api="Produce", nth=2, when="received")
    rows = perform(sending({"acks": "all"}), *CUT_OFF, dies, orders=2, replicas=3)

    assert ("0:acked 1:acked", "0 1", "") == (reports(rows), values(rows, "record"), lost(rows))


def test_power_cut_takes_what_was_acked(perform: Perform) -> None:
    """An answer says that the order is in the page cache, and not that it is on the disk."""
    dark = power_cut(1, api="Produce", nth=2)
    rows = perform(sending({"acks": 1}), dark, orders=2)

    assert ("0:acked 1:acked", "", "0 1") == (reports(rows), values(rows, "record"), lost(rows))


def test_a_link_is_healed_after_the_power_is_lost(perform: Perform) -> None:
    """Healed at the moment of the power cut, a link passes on nothing of what is then gone."""
    first, last = ({"api": "Produce", "value": it, "when": "received"} for it in "01")
    alone = (cut_link(1, 2, **first), cut_link(1, 3, **first), power_cut(1, **last))
    whole = (heal_link(1, 2, **last), heal_link(1, 3, **last), start_broker(1, **last))
    rows = perform(sending({"acks": 1}), *alone, *whole, orders=2, replicas=3)
    told = [row.kind for row in rows if row.kind in ("link_cut", "power_cut", "link_open")]

    assert ["link_cut", "link_cut", "power_cut", "link_open", "link_open"] == told
    assert ("0:acked 1:acked", "1", "0") == (reports(rows), values(rows, "record"), lost(rows))


def test_acks_all_waits_for_all_in_sync(stage_of_three: Any, perform: Perform) -> None:
    """It waits for a third that is in sync though two suffice, and no longer than it is so."""

    def until_it_is_back(run: LiveRun) -> None:
        sending({"acks": 1})(run)
        sending({"acks": "all"})(run)
        Brokers(stage_of_three).wait_for_isr(run.topic, {1, 2, 3})

    holds = (hold_link(1, 3), heal_link(1, 3, api="Produce", nth=2))
    rows = perform(until_it_is_back, *holds, orders=1, replicas=3, topic_config=TWO_SUFFICE)
    (_, _), (without, left_ns), (again, _) = in_sync(rows)
    by_one, by_all = (row.at_ns for row in rows if row.kind == "acked")

    assert ("1 2", "1 2 3") == (without, again)
    assert by_one < left_ns < by_all


def test_below_the_floor(stage_of_three: Any, perform: Perform) -> None:
    """With acks=all it is refused until its time is up; with acks=1 acked, and unreadable."""
    seen = []

    def below(run: LiveRun) -> None:
        for order, acks in zip(run.orders, ("all", "1", "all"), strict=True):
            brief = {"message.timeout.ms": 1500} if order == "2" else {}
            producer = run.producer({"acks": acks} | brief)
            producer.produce(run.topic, order, partition=0)
            producer.flush()
            if order == "1":
                Brokers(stage_of_three).wait_for_isr(run.topic, {1})
                seen.append(read(run))

    rows = perform(below, *CUT_OFF, replicas=3, topic_config=TWO_SUFFICE)

    assert ("0:acked 1:acked 2:unknown", ["0"]) == (reports(rows), seen)
    assert ({"NOT_ENOUGH_REPLICAS"}, "0 1") == (errors(rows), values(rows, "record"))


@pytest.mark.parametrize(
    ("unclean", "stored", "gone"),
    [("true", "0 2", "1"), ("false", "0 1", "")],
    ids=["true", "false"],
)
def test_unclean_election(perform: Perform, unclean: str, stored: str, gone: str) -> None:
    """What an ISR of one has acked is lost if a replica behind it may lead, and kept if not.

    Where it is kept the dead leader has come back with it: SIGKILL takes nothing from a file. The
    third order finds the new leader; without one there is none to find.
    """
    dies = kill_broker(1, api="Produce", nth=2)
    settings = {"acks": "all", "message.timeout.ms": 20000}
    config = {"unclean.leader.election.enable": unclean}
    orders = 3 if unclean == "true" else 2
    given = {"orders": orders, "replicas": 3, "topic_config": config}
    rows = perform(sending(settings), *CUT_OFF, dies, **given)

    assert (stored, gone) == (values(rows, "record"), lost(rows))
    assert "1" in [isr for isr, _ in in_sync(rows)]


@pytest.mark.parametrize(
    ("faults", "config", "isr"),
    [
        ((*CUT_OFF, power_cut(1, api="Produce", nth=2)), {}, "1"),
        (
            (
                cut_link(1, 3, api="Produce", nth=1),
                kill_broker(1, api="Produce", nth=2),
                kill_broker(2, api="Produce", nth=2),
            ),
            TWO_SUFFICE | {"unclean.leader.election.enable": "true"},
            "1 2",
        ),
    ],
    ids=["a floor of one", "an unclean election"],
)
def test_one_line_of_the_checklist_alone(
    perform: Perform, faults: Any, config: dict[str, str], isr: str
) -> None:
    """All else is right, and an order that all in sync have acked is lost.

    A power cut may take the first, too: the followers cut their logs to what their leader has.
    """
    rows = perform(sending({"acks": "all"}), *faults, orders=2, replicas=3, topic_config=config)

    assert ("0:acked 1:acked", "1") == (reports(rows), lost(rows).split()[-1])
    assert isr == in_sync(rows)[1][0]


@pytest.mark.parametrize(("key", "stored"), [(False, "0 1 1"), (True, "0 1")])
def test_leader_dies_before_its_answer(perform: Perform, key: bool, stored: str) -> None:
    """The new leader has the order already: the retry is stored again, unless it has a key."""
    at_once = (drop_response("Produce", nth=2), kill_broker(1, api="Produce", nth=2))
    settings = {"acks": "all", "enable.idempotence": key}
    rows = perform(sending(settings), *at_once, orders=2, replicas=3)

    assert ("0:acked 1:acked", stored) == (reports(rows), values(rows, "record"))


@pytest.fixture
def commit_meanwhile(stage_of_three: Any) -> Workload:
    """Order 0 in a transaction, 1 in none; broker 1 dies before the commit."""

    def commit_meanwhile(run: LiveRun) -> None:
        producer, plain = in_transaction(run), run.producer()
        plain.produce(run.topic, "1", partition=0)
        plain.flush()
        Brokers(stage_of_three).kill(1)
        Brokers(stage_of_three).wait_for_leader(run.topic, other_than=1)
        producer.commit_transaction()

    return commit_meanwhile


def committed(rows: list[Event]) -> tuple[str, str, str, list[str]]:
    """The log, what may be read of it, the coordinator's last word, and what was raised."""
    state = [row.detail["state"] for row in rows if row.kind == "transaction"][-1]
    raised = [row.kind for row in rows if row.kind in ("txn_failed", "raised")]
    return values(rows, "record"), values(rows, "visible"), state, raised


def test_marker_of_a_partition_that_another_leads(
    perform: Perform, commit_meanwhile: Workload
) -> None:
    """Where a replica takes over, nothing is missing."""
    rows = perform(commit_meanwhile, replicas=3)

    assert ("0 1", "0 1", "CompleteCommit", []) == committed(rows)


def test_marker_of_a_partition_without_a_leader(
    perform: Perform, commit_meanwhile: Workload, stage_of_three: Any
) -> None:
    """Its coordinator leaves it out and completes: readers wait for ever, the broker being back.

    Kafka's own tool (4.3.1) finds it. What the tool can do is abort: readers go on, and an order
    is gone of which the program was told that it is committed.
    """
    rows = perform(commit_meanwhile, replicas=1)
    topic = next(row.topic for row in rows if row.kind == "record")
    assert ("0 1", "", "CompleteCommit", []) == committed(rows)

    tool = partial(kafka_tool, "TransactionsCommand", "--bootstrap-server", stage_of_three.direct)

    found = tool("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    assert topic in found
    tool("abort", "--topic", str(topic), "--partition", "0", "--start-offset", "0")
    reader = HonestReader(stage_of_three.direct)
    seen, _ = reader.read_committed("", str(topic), 1)
    reader.close()
    assert "1" == values(seen, "visible")
