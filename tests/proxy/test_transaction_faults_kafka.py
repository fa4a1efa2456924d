"""Each fault on a transactional request, on a real broker: what the client is told, who reads what.

Two transactions of one order each; the fault meets the second, or the one InitProducerId. A row
that changes is a finding about Kafka or its client, or a race in the proxy.
"""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from lab_utils.clients.live_run import LiveRun
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import (
    WireFault,
    delay_response,
    drop_request,
    drop_response,
    late_request,
    refuse,
)
from tests.performed import Perform, transactional, values

pytestmark = pytest.mark.kafka


def transact(run: LiveRun) -> None:
    """Order 0, then order 1 with an offset of the run's group."""
    producer = run.producer({"transactional.id": run.topic})
    group = run.consumer().consumer_group_metadata()
    producer.init_transactions()
    for number, order in enumerate(run.orders[:2]):
        producer.begin_transaction()
        producer.produce(run.topic, order, partition=0)
        producer.flush()
        if number:
            place = TopicPartition(run.topic, 1, 7)
            producer.send_offsets_to_transaction([place], group)
        producer.commit_transaction()


def told(rows: list[Event]) -> str:
    """Each failed call, and its error:what it asks for."""
    failed = [row for row in rows if row.kind == "txn_failed"]
    return " ".join(f"{it.detail['call']} {it.error}:{it.detail['asks_for']}" for it in failed)


def markers(rows: list[Event]) -> str:
    of_orders = [row for row in rows if row.kind == "marker" and row.partition == 0]
    return " ".join(row.detail["type"] for row in of_orders)


# the fault: what the program is told, what read_committed is given, the markers
OFFSETS, COMMIT = "send_offsets_to_transaction", "commit_transaction"
UNNOTICED = ("", "0 1", "COMMIT COMMIT")
ROWS: dict[str, tuple[WireFault, tuple[str, str, str]]] = {
    f"{type(fault).__name__} {fault.api}": (fault, UNNOTICED)
    for fault in (
        drop_response("InitProducerId"), drop_request("InitProducerId"),
        drop_response("AddPartitionsToTxn", 2), drop_request("AddPartitionsToTxn", 2),
        drop_response("AddOffsetsToTxn"), drop_request("AddOffsetsToTxn"),
        drop_response("TxnOffsetCommit"), drop_request("TxnOffsetCommit"),
        drop_response("EndTxn", 2), drop_request("EndTxn", 2),
        drop_response("Produce", 2),
        delay_response("EndTxn", 2, by_ms=100), delay_response("AddPartitionsToTxn", 2, by_ms=100),
    )
} | {
    "retriable EndTxn": (refuse("EndTxn", 2, "COORDINATOR_NOT_AVAILABLE"), UNNOTICED),
    "retriable AddPartitionsToTxn": (
        refuse("AddPartitionsToTxn", 2, "CONCURRENT_TRANSACTIONS"), UNNOTICED),
    "retriable TxnOffsetCommit": (
        refuse("TxnOffsetCommit", 1, "COORDINATOR_LOAD_IN_PROGRESS"), UNNOTICED),
    "retriable AddOffsetsToTxn": (
        refuse("AddOffsetsToTxn", 1, "CONCURRENT_TRANSACTIONS"), UNNOTICED),
    "retriable InitProducerId": (
        refuse("InitProducerId", 1, "CONCURRENT_TRANSACTIONS"), UNNOTICED),
    "fenced at InitProducerId": (
        refuse("InitProducerId", 1, "PRODUCER_FENCED"),
        ("init_transactions _FENCED:stop", "", "")),
    "fenced at AddPartitionsToTxn, and told so by flush": (
        refuse("AddPartitionsToTxn", 2, "INVALID_PRODUCER_EPOCH"), ("", "0", "COMMIT")),
    "fenced at AddOffsetsToTxn": (
        refuse("AddOffsetsToTxn", 1, "INVALID_PRODUCER_EPOCH"),
        (f"{OFFSETS} _FENCED:stop", "0", "COMMIT")),
    "fenced at TxnOffsetCommit": (
        refuse("TxnOffsetCommit", 1, "INVALID_PRODUCER_EPOCH"),
        (f"{OFFSETS} _FENCED:stop", "0", "COMMIT")),
    "fenced at EndTxn": (
        refuse("EndTxn", 2, "PRODUCER_FENCED"), (f"{COMMIT} _FENCED:stop", "0", "COMMIT")),
    "not allowed to use the group": (
        refuse("AddOffsetsToTxn", 1, "GROUP_AUTHORIZATION_FAILED"),
        (f"{OFFSETS} GROUP_AUTHORIZATION_FAILED:abort", "0", "COMMIT")),
    "not allowed to commit these offsets": (
        refuse("TxnOffsetCommit", 1, "GROUP_AUTHORIZATION_FAILED"),
        (f"{OFFSETS} GROUP_AUTHORIZATION_FAILED:abort", "0", "COMMIT")),
    "not allowed to use the name": (
        refuse("EndTxn", 2, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        (f"{COMMIT} TRANSACTIONAL_ID_AUTHORIZATION_FAILED:stop", "0", "COMMIT")),
    "a record that is none": (
        refuse("Produce", 2, "INVALID_RECORD"), (f"{OFFSETS} INVALID_RECORD:abort", "0", "COMMIT")),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_row(perform: Perform, row: tuple[WireFault, tuple[str, str, str]]) -> None:
    """The program is told exactly this, and the log holds exactly this."""
    fault, expected = row
    rows = perform(transact, fault, partitions=2)

    assert expected == (told(rows), values(rows, "visible"), markers(rows))
    assert 1 == sum(event.kind == "fired" for event in rows)


def test_lost_answer_to_init_leaves_a_gap(perform: Perform) -> None:
    """The name was given twice, so the producer writes with epoch 1 and not 0."""
    rows = perform(transact, drop_response("InitProducerId"), partitions=2)
    given = [row for row in rows if (row.kind, row.api) == ("response", "InitProducerId")]

    assert [0, 1] == [row.producer_epoch for row in given if not row.error]


@pytest.mark.parametrize(
    ("first", "second", "given"),
    [("commit", "abort", "0 1"), ("abort", "commit", "2"), ("commit", "commit", "0 1 2")],
)
def test_late_end(perform: Perform, first: str, second: str, given: str) -> None:
    """Each call succeeds, and a late EndTxn ends the next transaction in the first one's way."""

    def two_transactions(run: LiveRun) -> None:
        """Order 0, then orders 1 and 2 on two partitions, while the first EndTxn is late."""
        producer = transactional(run)
        for places, end in (((0,), first), ((0, 1), second)):
            producer.begin_transaction()
            for place in places:
                producer.produce(run.topic, run.orders[len(places) + place - 1], partition=place)
                producer.flush()
            getattr(producer, f"{end}_transaction")()

    rows = perform(two_transactions, late_request("EndTxn"), partitions=2)
    ends = [row.kind for row in rows if row.kind in ("txn_committed", "txn_aborted")]
    words = {"commit": "txn_committed", "abort": "txn_aborted"}

    assert ([words[first], words[second]], given) == (ends, values(rows, "visible"))
