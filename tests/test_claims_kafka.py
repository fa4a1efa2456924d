"""Claims that one broker decides: each is caused once, and the rows or the wire decide it.

Only those that no other test decides; docs/claims.md names the test of each.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lab_utils.audit.judged import judged_findings
from lab_utils.audit.session import read_events
from lab_utils.clients.live_run import LiveRun
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from lab_utils.proxy.faults import (
    corrupt_request,
    crash_client,
    drop_request,
    drop_response,
    kill_broker,
    refuse,
    stop_broker,
)
from lab_utils.waiting import wait_until
from tests.notebooks import further
from tests.performed import Perform, at, lost, reports, sending, transactional, values

pytestmark = [pytest.mark.kafka, pytest.mark.long]

SILENCE = "01_silence_disks_and_cost"
LOST_ANSWER = drop_response("Produce", nth=2)
NO_RETRIES = {"retries": 0}
IDEMPOTENT = {"enable.idempotence": True}
NAMED = {"transactional.id": ""}  # the topic's name, which no other run has


def produced(rows: list[Event]) -> list[Event]:
    return [row for row in rows if (row.kind, row.api) == ("request", "Produce")]


def batches(rows: list[Event]) -> list[tuple[int | None, int | None, int | None]]:
    """Producer id, partition and sequence of each batch in the log."""
    return [(row.producer_id, row.partition, row.sequence) for row in rows if row.kind == "batch"]


@pytest.mark.parametrize(
    ("settings", "log"),
    [(NO_RETRIES, "0 1 3"), ({}, "0 1 1 2 3"), (IDEMPOTENT, "0 1 2 3")],
    ids=["at most once", "at least once", "once"],
)
def test_lost_answer_and_lost_request(perform: Perform, settings: Any, log: str) -> None:
    """Without retries one is lost and none doubled; with retries none lost and one doubled."""
    faults = (LOST_ANSWER, drop_request("Produce", nth=3 if settings == NO_RETRIES else 4))
    rows = perform(sending(settings), *faults, orders=4)

    assert (log, "") == (values(rows, "record"), lost(rows))


def test_without_retries_the_report_may_be_wrong(perform: Perform) -> None:
    """The order is stored once, and its report does not say so."""
    rows = perform(sending(NO_RETRIES), LOST_ANSWER)

    assert ("0:acked 1:unknown 2:acked", "0 1 2") == (reports(rows), values(rows, "record"))
    # The client comes back to the broker that it knows, by one connection. To bootstrap anew, as is
    # librdkafka's default, takes two, and what it sent meanwhile could be sent again.
    struck = next(row.at_ns for row in rows if row.kind == "fired")
    came_back = [
        row.api for row in rows
        if (row.actor, row.kind) == ("producer-1", "request") and row.at_ns > struck
    ]  # fmt: skip
    before = came_back[: came_back.index("Produce")]
    assert ["ApiVersions"] == [api for api in before if api != "Metadata"]


def test_a_program_outlives_the_only_broker(perform: Perform, stage: Any) -> None:
    """It is killed with a transaction open, and started again: each call of the program returns.

    With librdkafka's metadata.recovery.strategy=rebootstrap one of them never does.
    """

    def revive() -> None:
        wait_until(
            lambda: stage.state()["brokers"][0]["state"] == "killed", "the kill", timeout_s=60
        )
        stage.broker("start", 1)

    def bills(run: LiveRun) -> None:
        Thread(target=revive, daemon=True).start()
        further("06_six_crash_points")["bills_in_a_transaction"](run)

    rows = perform(
        bills, kill_broker(1, api="TxnOffsetCommit", nth=2), orders=8, filled=True,
        topics=["invoices"],
    )  # fmt: skip

    committed = sum(row.kind == "txn_committed" for row in rows)
    stored = set(values(rows, "record", topic="invoices").split())
    # Where the broker is back too late, a time is up, and the program is told so.
    is_told = any(row.kind == "raised" for row in rows)
    assert is_told or (4, 8) == (committed, len(stored))


@pytest.mark.parametrize(
    ("acks", "told", "heard"),
    [(0, "0:acked 1:acked 2:acked", []), (1, "0:acked 1:failed 2:acked", ["MSG_SIZE_TOO_LARGE"])],
)
def test_record_that_is_too_large(perform: Perform, acks: int, told: str, heard: Any) -> None:
    """With acks=0 nobody hears that it is not stored; with an answer to wait for, the report."""

    def second_is_large(run: LiveRun) -> None:
        producer = run.producer({"acks": acks})
        for number, order in enumerate(run.orders):
            padding = {"padding": b"x" * 500} if number == 1 else {}
            producer.produce(run.topic, order, partition=0, headers=padding)
            producer.flush()

    rows = perform(second_is_large, topic_config={"max.message.bytes": "200"})

    assert (told, heard) == (reports(rows), [row.error for row in rows if row.kind == "failed"])
    assert "1" not in values(rows, "record")


def test_nothing_is_doubled_with_acks_0(perform: Perform) -> None:
    """A request is lost, another is damaged; much is missing then, and nothing is there twice."""
    faults = (
        drop_request("Produce", nth=2, client_id="producer-1"),
        corrupt_request("Produce", nth=3, client_id="producer-2"),
    )
    rows = perform(further(SILENCE)["two_silent_ones"], *faults, orders=12)
    stored = values(rows, "record").split()

    assert sorted(set(stored)) == sorted(stored)
    assert {"2", "5"} <= set(lost(rows).split())


@pytest.mark.parametrize(("waits", "log"), [(False, "0 2 3 1"), (True, "0 1 2 3")])
def test_refused_and_repaired(perform: Perform, waits: bool, log: str) -> None:
    """A callback repairs what was refused; behind what was sent meanwhile, unless one waits."""
    repairs = partial(further(SILENCE)["repairs"], waits=waits)
    rows = perform(repairs, orders=4, topic_config={"max.message.bytes": "200"})

    assert ([1], log) == ([int(row.value or "") for row in rows if row.kind == "failed"],
                          values(rows, "record"))  # fmt: skip


def test_the_client_retries_by_itself(perform: Perform) -> None:
    """A program without a callback has its refused order stored; the wire shows two requests."""
    rows = perform(sending({"acks": "all"}), refuse("Produce", nth=1), orders=1)

    assert ("0", ["0", "0"]) == (values(rows, "record"), [row.value for row in produced(rows)])


def test_no_broker_is_there(perform: Perform) -> None:
    """Retries cannot help: message.timeout.ms ends them, and the order is nowhere."""
    settings = {"acks": "all", "message.timeout.ms": 1500}
    rows = perform(sending(settings), stop_broker(1), orders=1)

    assert ("0:unknown", "") == (reports(rows), values(rows, "record"))


def test_key_is_in_the_batch(perform: Perform) -> None:
    """Producer id, partition and sequence of the log's batches are those of the wire."""
    rows = perform(sending(IDEMPOTENT), LOST_ANSWER)
    wire = [(row.producer_id, row.partition, row.sequence) for row in produced(rows)]

    assert [0, 1, 1, 2] == [sequence for _, _, sequence in wire]
    assert [wire[0], wire[1], wire[3]] == batches(rows)


def test_restart_has_a_new_producer_id(perform: Perform) -> None:
    """What the new process sends again is stored again: its sequences begin at 0 as well."""
    rows = perform(sending(IDEMPOTENT), crash_client("after_ack", nth=2))
    (first, _, _), *_, (second, _, _) = batches(rows)

    assert ("0 1 0 1 2", True) == (values(rows, "record"), first != second)
    assert [0, 1, 0, 1, 2] == [sequence for _, _, sequence in batches(rows)]


def test_key_is_per_partition(perform: Perform) -> None:
    """One payload on two partitions is two records, and a retry goes where the first try went."""

    def to_both(run: LiveRun) -> None:
        producer = run.producer(IDEMPOTENT)
        for partition in (0, 1):
            producer.produce(run.topic, run.orders[0], partition=partition)
            producer.flush()

    rows = perform(to_both, LOST_ANSWER, orders=1, partitions=2)

    assert ([0, 1, 1], "0 0") == ([row.partition for row in produced(rows)], values(rows, "record"))
    assert [(0, 0), (1, 0)] == sorted(
        (place, sequence or 0) for _, place, sequence in batches(rows)
    )


def test_order_across_partitions(perform: Perform) -> None:
    """What was sent first is stored last, on another partition; times are the producer's."""
    times = {"0": 1_000_000_000_000, "1": 1_000_000_000_020, "2": 1_000_000_000_010}

    def to_both(run: LiveRun) -> None:
        producer = run.producer()
        for order in run.orders:
            where = int(order > "0")
            producer.produce(run.topic, order, partition=where, timestamp=times[order])
        producer.flush()

    rows = perform(to_both, refuse("Produce", nth=1), partitions=2)
    stored = {row.value: int(row.detail["timestamp_ms"]) for row in rows if row.kind == "record"}

    assert at(rows, "acked", "1") < at(rows, "acked", "2") < at(rows, "acked", "0")
    assert ("0 1 2", times) == (values(rows, "record"), stored)


def test_all_topics_or_none(perform: Perform) -> None:
    """Two topics, two partitions: aborted orders are in each log, and given to nobody."""

    def abort_then_commit(run: LiveRun) -> None:
        producer = transactional(run)
        ends = (producer.abort_transaction, producer.commit_transaction)
        for order, end in zip(run.orders, ends, strict=True):
            producer.begin_transaction()
            for topic, partition in ((run.topic, 0), (run.topic, 1), (run.topics["invoices"], 0)):
                producer.produce(topic, order, partition=partition)
            producer.flush()
            end()

    rows = perform(abort_then_commit, orders=2, partitions=2, topics=("invoices",))
    given = {topic: values(rows, "visible", topic=topic) for topic in ("orders", "invoices")}

    assert {"orders": "1 1", "invoices": "1"} == given
    assert "0 1 0 1" == values(rows, "record")


def test_plain_records_are_given_up_to_the_open_transaction(perform: Perform) -> None:
    """A plain order is given to read_committed, unless it lies behind an open transaction."""

    def plain_around_open(run: LiveRun) -> None:
        producer, plain = transactional(run), run.producer()
        producer.begin_transaction()
        for client, order in zip((plain, producer, plain), run.orders, strict=True):
            client.produce(run.topic, order, partition=0)
            client.flush()

    rows = perform(plain_around_open)

    assert ("0 1 2", "0") == (values(rows, "record"), values(rows, "visible"))


def test_abort_does_not_rewind(perform: Perform, tmp_path: Path) -> None:
    """A loop that goes on after an abort commits the offset behind what it aborted."""

    def forgets_to_rewind(run: LiveRun) -> None:
        producer = transactional(run)
        consumer = run.consumer({"enable.auto.commit": False})
        consumer.subscribe([run.topic])
        for message in run.messages(consumer):
            producer.begin_transaction()
            producer.produce(run.topics["invoices"], message.value(), partition=0)
            producer.flush()
            offsets = consumer.position(consumer.assignment())
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, group)
            is_bad = message.value() == b"1"
            producer.abort_transaction() if is_bad else producer.commit_transaction()

    rows = perform(forgets_to_rewind, filled=True, topics=("invoices",), until_stable=True)

    assert "0 2" == values(rows, "visible", topic="invoices")
    assert [3] == [row.offset for row in rows if (row.source, row.kind) == ("log", "committed")]
    write_ledger(tmp_path / "ledger", rows)
    found = {row["finding"]: row for row in judged_findings(read_events(tmp_path / "ledger"))}
    assert {"aborted-output"} == set(found)
    assert [1, 1] == found["aborted-output"]["offsets"]


@pytest.mark.parametrize(
    ("settings", "stored"), [(IDEMPOTENT, "0 1 0 1 2"), (NAMED, "0 1 2")], ids=["key", "name"]
)
def test_a_name_outlives_its_program(perform: Perform, settings: Any, stored: str) -> None:
    """A program gives up after two orders; its successor sends all three, and finishes."""

    def gives_up(run: LiveRun) -> None:
        for orders in (run.orders[:2], run.orders):
            producer = run.producer({key: value or run.topic for key, value in settings.items()})
            if settings == NAMED:
                producer.init_transactions()
                producer.begin_transaction()
            for order in orders:
                producer.produce(run.topic, order, partition=0)
            producer.flush()
        if settings == NAMED:
            producer.commit_transaction()

    rows = perform(gives_up)

    assert stored == (values(rows, "visible") or values(rows, "record"))


@pytest.mark.parametrize(("size", "transactions"), [(1, 4), (4, 1)])
def test_cost_of_transactions_in_requests(perform: Perform, size: int, transactions: int) -> None:
    """Each transaction costs two requests and a marker; idempotence one request in all.

    Counted are those that were granted: the coordinator may ask for patience while the markers of
    the transaction before are on their way.
    """

    def plain_then_key_then_name(run: LiveRun) -> None:
        sending()(run)
        sending(IDEMPOTENT)(run)
        producer = transactional(run)
        for number, order in enumerate(run.orders, 1):
            if (number - 1) % size == 0:
                producer.begin_transaction()
            producer.produce(run.topic, order, partition=0)
            producer.flush()
            if number % size == 0:
                producer.commit_transaction()

    rows = perform(plain_then_key_then_name, orders=4)
    answers = (row for row in rows if row.kind == "response" and not row.error)
    granted = Counter((row.actor, row.api) for row in answers)
    paid = ("Produce", "AddPartitionsToTxn", "EndTxn")
    costs = {who: [granted[f"producer-{who}", api] for api in paid] for who in (1, 2, 3)}

    assert {1: [4, 0, 0], 2: [4, 0, 0], 3: [4, transactions, transactions]} == costs
    assert transactions == sum(row.kind == "marker" for row in rows)
    assert 0 == granted["producer-1", "InitProducerId"]
