"""The recording producer is the real one, and each outcome of an order is in the ledger once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lab_utils.proxy.faults import delay_response, drop_request, refuse
from tests.clients.opened import Opened

pytestmark = pytest.mark.kafka

OUTCOMES = ("acked", "failed", "unknown")


def outcomes(opened: Opened) -> list[tuple[Any, ...]]:
    return opened.said("value", "offset", "error", kinds=OUTCOMES)


def test_acked(opened: Opened) -> None:
    """An order is sent once and acked once, with the partition and offset of its record."""
    producer = opened.live.producer()
    for order in opened.live.orders:
        producer.produce(opened.live.topic, order, partition=0)
        producer.flush()

    assert [("0", 1, 0), ("1", 1, 0), ("2", 1, 0)] == [
        (row.value, row.attempt, row.partition) for row in opened.rows("sent")
    ]
    assert [("0", 0, 0), ("1", 0, 1), ("2", 0, 2)] == [
        (row.value, row.partition, row.offset) for row in opened.rows(*OUTCOMES)
    ]


def test_sent_again(opened: Opened) -> None:
    """The second time that a value is handed over is its second attempt."""
    producer = opened.live.producer()
    for order in ("a", "b", "a"):
        producer.produce(opened.live.topic, order)
    producer.flush()

    assert [("a", 1), ("b", 1), ("a", 2)] == [
        (row.value, row.attempt) for row in opened.rows("sent")
    ]


def test_failed(opened: Opened) -> None:
    """An error that rules the record out is failed, and the others are acked."""
    opened.under(refuse("Produce", 1, "INVALID_RECORD"))
    producer = opened.live.producer()
    for order in opened.live.orders:
        producer.produce(opened.live.topic, order, partition=0)
    producer.flush()

    assert [
        ("failed", "0", None, "INVALID_RECORD"),
        ("acked", "1", 0, None),
        ("acked", "2", 1, None),
    ] == outcomes(opened)


def test_unknown(opened: Opened) -> None:
    """An order that timed out on its way is unknown, with no offset."""
    opened.under(delay_response("Produce", 1, by_ms=1500))
    producer = opened.live.producer({"message.timeout.ms": 500})
    producer.produce(opened.live.topic, "0")
    producer.flush()

    assert [("unknown", "0", None, "_MSG_TIMED_OUT")] == outcomes(opened)


def test_acks_0(opened: Opened) -> None:
    """With acks=0 an order is acked at no offset, for nobody was asked."""
    opened.under(drop_request("Produce", 1))
    producer = opened.live.producer({"acks": 0})
    producer.produce(opened.live.topic, "0")
    producer.flush()

    assert [("acked", "0", None, None)] == outcomes(opened)


def test_callback_of_produce(opened: Opened) -> None:
    """Each spelling of a callback is called once, with the error and the message."""
    told: list[tuple[Any, Any, Any]] = []

    def told_by(name: str) -> Any:
        return lambda error, message: told.append((name, error, message.value()))

    producer = opened.live.producer({"on_delivery": told_by("configured")})
    producer.produce(opened.live.topic, "0", on_delivery=told_by("on_delivery"))
    producer.produce(opened.live.topic, "1", callback=told_by("callback"))
    producer.produce(opened.live.topic, "2")
    producer.flush()

    assert [("on_delivery", None, b"0"), ("callback", None, b"1"), ("configured", None, b"2")] == (
        told
    )
    assert [("0", 0), ("1", 1), ("2", 2)] == [
        (row.value, row.offset) for row in opened.rows("acked")
    ]


def test_callback_that_raises(opened: Opened) -> None:
    """What a learner's callback raises comes out of flush(), after the report is recorded."""

    def callback(error: KafkaError | None, message: Any) -> None:
        raise ZeroDivisionError(message.value())

    producer = opened.live.producer()
    producer.produce(opened.live.topic, "0", on_delivery=callback)

    with pytest.raises(ZeroDivisionError, match="0"):
        producer.flush()
    assert [("acked", "0", 0, None)] == outcomes(opened)


@pytest.mark.parametrize(
    ("value", "text"),
    [("é", "é"), (b"order", "order"), (b"\xff", "\\xff"), ("", ""), (None, None)],
)
def test_values(opened: Opened, value: str | bytes | None, text: str | None) -> None:
    """Text, bytes and nothing reach the log as they are, and the ledger as text."""
    producer = opened.live.producer()
    producer.produce(opened.live.topic, value)
    producer.flush()
    records = [row.value for row in opened.finish() if (row.source, row.kind) == ("log", "record")]

    assert [text, text] == [row.value for row in opened.rows("sent", "acked")]
    assert [text] == records


def test_record_that_is_too_large(opened: Opened) -> None:
    """What produce() refuses is sent and failed, and raised as the parent raises it."""
    producer = opened.live.producer({"message.max.bytes": 1000})
    with pytest.raises(KafkaException) as refusal:
        producer.produce(opened.live.topic, "x" * 2000)

    assert "MSG_SIZE_TOO_LARGE" == refusal.value.args[0].name()
    assert [("failed", "x" * 2000, None, "MSG_SIZE_TOO_LARGE")] == outcomes(opened)


def test_queue_that_is_full(opened: Opened) -> None:
    """BufferError is raised for the record that no longer fits, which has failed."""
    producer = opened.live.producer({"queue.buffering.max.messages": 2, "linger.ms": 5_000})
    for order in ("0", "1"):
        producer.produce(opened.live.topic, order)

    with pytest.raises(BufferError):
        producer.produce(opened.live.topic, "2")
    assert [("failed", "2", None, "BufferError")] == outcomes(opened)


def test_value_of_a_wrong_type(opened: Opened) -> None:
    """A value that is neither text nor bytes is the parent's TypeError, and has failed."""
    producer = opened.live.producer()
    with pytest.raises(TypeError):
        producer.produce(opened.live.topic, 7)  # type: ignore[arg-type]

    assert [("failed", "7", None, "TypeError")] == outcomes(opened)


def test_batch(opened: Opened) -> None:
    """produce_batch() takes what fits, marks what does not, and records each of them."""
    told: list[bytes | None] = []
    producer = opened.live.producer({"message.max.bytes": 1000})
    messages: list[dict[str, Any]] = [
        {"value": "0", "key": "k"},
        {"value": "x" * 2000},
        {"value": "1", "callback": lambda _, message: told.append(message.key())},
    ]
    taken = producer.produce_batch(
        opened.live.topic, messages, on_delivery=lambda _, message: told.append(message.key())
    )
    producer.flush()

    assert (2, [b"k", None]) == (taken, told)
    assert ["MSG_SIZE_TOO_LARGE"] == [m["_error"].name() for m in messages if "_error" in m]
    assert [
        ("failed", "x" * 2000, None, "MSG_SIZE_TOO_LARGE"),
        ("acked", "0", 0, None),
        ("acked", "1", 1, None),
    ] == outcomes(opened)


def test_batch_that_does_not_fit(opened: Opened) -> None:
    """What the queue has no room for is marked with the error that the parent marks it with."""
    producer = opened.live.producer({"queue.buffering.max.messages": 1, "linger.ms": 5_000})
    messages: list[dict[str, Any]] = [{"value": "0"}, {"value": "1"}]

    assert 1 == producer.produce_batch(opened.live.topic, messages)
    assert KafkaError._QUEUE_FULL == messages[1]["_error"].code()


def test_key_headers_timestamp(opened: Opened) -> None:
    """Key, headers and timestamp arrive as they were given."""
    producer = opened.live.producer()
    producer.produce(
        opened.live.topic, "0", key="k", partition=0, timestamp=1_000, headers={"h": b"1"}
    )
    producer.flush()
    consumer = opened.live.consumer()
    consumer.subscribe([opened.live.topic])
    (message,) = consumer.consume(1, timeout=10)

    assert (b"k", [("h", b"1")], 1_000) == (
        message.key(),
        message.headers(),
        message.timestamp()[1],
    )


def test_returned_numbers(opened: Opened) -> None:
    """flush() says what is still queued, poll() how many reports it served, len() both."""
    opened.under(delay_response("Produce", 1, by_ms=300))
    producer = opened.live.producer()
    producer.produce(opened.live.topic, "0")

    assert (1, 0, 1) == (len(producer), producer.poll(0), producer.flush(0.01))
    assert (0, 0) == (producer.flush(), len(producer))


def test_created(opened: Opened) -> None:
    """The ledger has the configuration that was used, the lab's timers among it, no secret."""
    opened.live.producer(
        {
            "enable.idempotence": True,
            "sasl.username": "me",
            "sasl.password": "swordfish",
            "ssl.key.password": "swordfish",
            "linger.ms": 3,
            "on_delivery": print,
        }
    )
    (created,) = opened.rows("created")
    address, name = opened.ticket.bootstrap, f"{opened.experiment.run}.producer-1"

    assert {"role": "producer", "enable.idempotence": "True", "linger.ms": "3"}.items() <= (
        created.detail.items()
    )
    assert (address, name) == (created.detail["bootstrap.servers"], created.detail["client.id"])
    assert [] == [name for name in created.detail if "sasl" in name or "on_delivery" in name]
    assert "swordfish" not in str(created)


def test_setting_that_does_not_exist(opened: Opened) -> None:
    """A wrong setting is refused by the parent, and there is no client in the ledger."""
    with pytest.raises(KafkaException, match=r"no\.such\.setting"):
        opened.live.producer({"no.such.setting": 1})

    assert [] == opened.rows("created")


def test_clients_are_counted(opened: Opened) -> None:
    """Each producer of a run has a name of its own, which the proxy sees, too."""
    for order in ("0", "1"):
        producer = opened.live.producer()
        producer.produce(opened.live.topic, order)
        producer.flush()
    rows = opened.finish()
    seen = [row.actor for row in rows if (row.api, row.kind) == ("Produce", "request")]

    assert ["producer-1", "producer-2"] == [row.actor for row in opened.rows("created")]
    assert ["producer-1", "producer-2"] == seen


def test_librdkafka_speaks_to_the_ledger(opened: Opened, capfd: pytest.CaptureFixture[str]) -> None:
    """The client's own log is `note` events and not on stderr."""
    producer = opened.live.producer({"debug": "msg"})
    producer.produce(opened.live.topic, "0")
    producer.flush()
    opened.finish()

    assert any("producer-1" in row.detail["text"] for row in opened.rows("note"))
    assert ("", "") == capfd.readouterr()


def test_logger_of_the_learner(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    """A logger that a learner configures gets the client's log instead."""
    logger = logging.getLogger("of-the-learner")
    with caplog.at_level(logging.DEBUG, "of-the-learner"):
        producer = opened.live.producer({"debug": "msg", "logger": logger})
        producer.produce(opened.live.topic, "0")
        producer.flush()

    assert {"of-the-learner"} == {record.name for record in caplog.records}
    assert [] == opened.rows("note")


def test_transaction(opened: Opened) -> None:
    """A transactional producer works as its parent does: aborted and committed are both acked."""
    producer = opened.live.producer({"transactional.id": f"{opened.experiment.run}-t"})
    producer.init_transactions(10)
    for order, end in (("0", producer.abort_transaction), ("1", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(opened.live.topic, order)
        producer.flush()
        end(10)
    markers = [row.detail["type"] for row in opened.finish() if row.kind == "marker"]

    assert [("acked", "0", 0, None), ("acked", "1", 2, None)] == outcomes(opened)
    assert ["ABORT", "COMMIT"] == markers


def test_closed_by_the_workload(opened: Opened) -> None:
    """A workload may close its producer, by name or by `with`; the run ends as any other."""
    with opened.live.producer() as producer:
        producer.produce(opened.live.topic, "0")
    other = opened.live.producer()
    other.close()
    opened.finish()

    assert [("acked", "0", 0, None)] == outcomes(opened)


def test_nobody_waited(opened: Opened) -> None:
    """An order that is still queued when the workload ends was failed, for it was never sent."""
    producer = opened.live.producer({"linger.ms": 5_000, "batch.num.messages": 100})
    producer.produce(opened.live.topic, "0")
    rows = opened.finish()

    assert [("failed", "0", None, "_PURGE_QUEUE")] == outcomes(opened)
    assert [] == [row for row in rows if row.kind == "record"]


def test_nobody_waited_for_the_answer(opened: Opened) -> None:
    """An order that is on its way when the workload ends is unknown."""
    opened.under(delay_response("Produce", 1, by_ms=2000))
    producer = opened.live.producer()
    producer.produce(opened.live.topic, "0")
    producer.flush(0.5)
    opened.finish()

    assert [("unknown", "0", None, "_PURGE_INFLIGHT")] == outcomes(opened)


def test_producer_that_outlives_its_run(opened: Opened, tmp_path: Path) -> None:
    """A producer that a learner keeps writes nothing into the ledger of a later run."""
    producer, topic = opened.live.producer(), opened.live.topic
    opened.finish()
    before = opened.rows()
    with (tmp_path / "later").open("wb") as later:  # it gets the lowest number that is free
        producer.produce(topic, "0")
        producer.flush()

    assert b"" == Path(later.name).read_bytes()
    assert before == opened.rows()
