"""What lab 04 says of Kafka and its client, each sentence caused once on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab_utils.clients.live_run import LiveRun
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import hold_link, stop_broker
from lab_utils.waiting import wait_until
from tests.performed import Perform, in_transaction, transactional, values

pytestmark = [pytest.mark.kafka, pytest.mark.long]


def inits(rows: list[Event]) -> list[tuple[int | None, int | None]]:
    """Producer id and epoch of each name that was given."""
    given = [row for row in rows if (row.kind, row.api) == ("response", "InitProducerId")]
    return [(row.producer_id, row.producer_epoch) for row in given if not row.error]


def failed(rows: list[Event]) -> list[tuple[str | None, str]]:
    return [(row.error, row.detail["call"]) for row in rows if row.kind == "txn_failed"]


def two_of_a_name(run: LiveRun, *, is_open: bool) -> None:
    """A begins and may write; B takes the name over; then A commits what it has."""
    a, b = (run.producer({"transactional.id": run.topic}) for _ in range(2))
    a.init_transactions()
    a.begin_transaction()
    if is_open:
        a.produce(run.topic, "0", partition=0)
        a.flush()
    b.init_transactions()
    a.produce(run.topic, "1", partition=0)
    a.commit_transaction()


@pytest.mark.parametrize(("is_open", "epoch"), [(True, 2), (False, 1)])
def test_epoch_of_the_second_instance(perform: Perform, is_open: bool, epoch: int) -> None:
    """The same producer id; two epochs on if a transaction was open, one if none was."""
    rows = perform(lambda run: two_of_a_name(run, is_open=is_open))
    (first, _), (second, later) = inits(rows)

    assert (first, epoch) == (second, later)
    assert ("", "_FENCED") == (values(rows, "visible"), failed(rows)[0][0])


def _end(consumer: Consumer) -> int:
    """The offset of the end of the partition if the consumer has just come to it, else -1."""
    message = consumer.poll(0.1)
    return -1 if message is None or message.error() is None else int(message.offset())


def test_time_out_looks_like_a_newer_instance(perform: Perform) -> None:
    """The coordinator has aborted in epoch 1, and nobody else has ever taken the name."""

    def too_slow(run: LiveRun) -> None:
        producer = in_transaction(run, **{"transaction.timeout.ms": 3000})
        reader = run.consumer({"enable.partition.eof": True})
        reader.assign([TopicPartition(run.topic, 0, 0)])
        # It stops before the open order; the first end it is told of behind that is the abort's.
        wait_until(lambda: _end(reader) > 0, "the abort of the coordinator", timeout_s=60)
        producer.commit_transaction()

    rows = perform(too_slow)

    assert 1 == len(inits(rows))
    assert [("_FENCED", "commit_transaction")] == failed(rows)


def test_offsets_are_part_of_the_transaction(perform: Perform) -> None:
    """An abort leaves the group's offset where it was; a commit moves it."""
    committed = []

    def offsets_in_two(run: LiveRun) -> None:
        producer, consumer = transactional(run), run.consumer()
        for number, end in ((7, producer.abort_transaction), (9, producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(run.topic, "0", partition=0)
            producer.flush()
            place = TopicPartition(run.topic, 0, number)
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([place], group)
            end()
            (now,) = consumer.committed([TopicPartition(run.topic, 0)])
            committed.append(now.offset)

    perform(offsets_in_two)

    assert [-1001, 9] == committed  # -1001 says that there is none


def test_decision_survives_a_restart(perform: Perform) -> None:
    """The marker was held, the broker went down; the next coordinator reads on in the diary."""
    faults = (hold_link(1, 1, api="Produce"), stop_broker(1, api="EndTxn"))
    rows = perform(lambda run: in_transaction(run).commit_transaction(), *faults)
    states = {row.detail["state"]: row.at_ns for row in rows if row.kind == "transaction"}
    stopped = next(row.at_ns for row in rows if (row.actor, row.kind) == ("broker-1", "stopped"))

    assert "0" == values(rows, "visible")
    assert states["PrepareCommit"] < stopped < states["CompleteCommit"]
