"""Transactions in the ledger: each call is recorded, and raises what it would raise unrecorded."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lab_utils.clients.producer import KINDS, RecordingProducer, asks_for
from lab_utils.proxy.faults import refuse
from tests.clients.opened import Opened

CALLS = (*KINDS.values(), "txn_failed")
ASKS = [
    (KafkaError(KafkaError._FENCED, "", True, False, False), "stop"),
    (KafkaError(KafkaError._FENCED, "", True, True, True), "stop"),
    (KafkaError(KafkaError.INVALID_RECORD, "", False, False, True), "abort"),
    (KafkaError(KafkaError._TIMED_OUT, "", False, True, False), "retry"),
    (KafkaError(KafkaError._STATE, "", False, False, False), "stop"),
]


@pytest.mark.parametrize(("error", "asked"), ASKS, ids=lambda it: str(it)[:40])
def test_asks_for(error: KafkaError, asked: str) -> None:
    """Fatal comes before everything, and what asks for nothing stops the program too."""
    assert asked == asks_for(error)


def transactional(opened: Opened, **settings: object) -> RecordingProducer:
    """A producer that has taken the run's name."""
    producer = opened.live.producer({"transactional.id": opened.ticket.topic, **settings})
    producer.init_transactions()
    return producer


def send(opened: Opened, producer: RecordingProducer, value: str) -> None:
    producer.produce(opened.ticket.topic, value, partition=0)
    producer.flush()


@pytest.mark.kafka
def test_each_call_is_one_event(opened: Opened) -> None:
    """Initialised once, then two transactions with their numbers and ends.

    What is sent belongs to the transaction that is open, and outside to none.
    """
    producer, plain = transactional(opened), opened.live.producer()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        send(opened, producer, "0")
        end()
    send(opened, plain, "1")

    assert [
        ("txn_initialised", None),
        ("txn_began", "1"), ("sent", "1"), ("txn_committed", "1"),
        ("txn_began", "2"), ("sent", "2"), ("txn_aborted", "2"),
        ("sent", None),
    ] == [
        (row.kind, row.detail.get("transaction")) for row in opened.rows(*CALLS, "sent")
    ]  # fmt: skip


@pytest.mark.kafka
def test_offsets_are_recorded(opened: Opened) -> None:
    """The offsets that were made part of a transaction are in the ledger, and whose they are."""
    producer, consumer = transactional(opened), opened.live.consumer({"group.id": "readers"})
    producer.begin_transaction()
    send(opened, producer, "0")
    place = TopicPartition(opened.ticket.topic, 0, 1)
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata())
    producer.commit_transaction()
    (row,) = opened.rows("txn_offsets_sent")

    assert (f'["{opened.ticket.topic}-0:1"]', "readers") == (
        row.detail["offsets"], row.detail["group"]
    )  # fmt: skip
    assert [1] == [place.offset for place in consumer.committed([place])]


@pytest.mark.kafka
def test_fenced(opened: Opened) -> None:
    """Who has lost the name may still begin; every other call is fatal."""
    first = transactional(opened)
    second = transactional(opened)
    first.begin_transaction()
    first.produce(opened.ticket.topic, "0", partition=0)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction()
    second.begin_transaction()
    (row,) = opened.rows("txn_failed")

    assert raised.value.args[0].fatal()
    assert ("producer-1", "_FENCED", "stop") == (row.actor, row.error, row.detail["asks_for"])


@pytest.mark.kafka
@pytest.mark.parametrize("logged", [{}, {"debug": "all"}])
def test_fatal_error_in_flush(opened: Opened, logged: dict[str, str]) -> None:
    """A flush that meets a fatal error raises it, and the reports it served are in the ledger.

    What the client has to log until then is served by the same flush.
    """
    opened.under(refuse("AddPartitionsToTxn", 1, "INVALID_PRODUCER_EPOCH"))
    producer = transactional(opened, **logged)
    producer.begin_transaction()
    producer.produce(opened.ticket.topic, "0", partition=0)
    with pytest.raises(KafkaException) as raised:
        producer.flush()

    assert ("_FENCED", True) == (raised.value.args[0].name(), raised.value.args[0].fatal())
    assert ["0"] == [row.value for row in opened.rows("failed", "unknown")]


@pytest.mark.kafka
def test_no_transactional_id(opened: Opened) -> None:
    """Without a name there is no transaction, and the client says so."""
    producer = opened.live.producer()
    with pytest.raises(KafkaException, match=r"transactional\.id"):
        producer.init_transactions()

    assert ["txn_failed"] == [row.kind for row in opened.rows(*CALLS)]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"retries": 0}, "`retries` must be set >= 1"),
        ({"acks": 1}, "`acks` must be set to `all`"),
        ({"max.in.flight": 6}, "`max.in.flight` must be set <= 5"),
        ({"message.timeout.ms": 20_000}, "`message.timeout.ms` must be set <= "),
    ],
    ids=str,
)
def test_what_the_client_refuses(opened: Opened, settings: dict[str, object], said: str) -> None:
    """A transactional producer needs retries, every ack, at most five in flight, and a time."""
    with pytest.raises(KafkaException) as raised:
        transactional(opened, **settings)

    assert said in raised.value.args[0].str()
