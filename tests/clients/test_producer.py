"""The recording producer is the real one, and each outcome of an order is in the ledger once."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lab_utils.clients.live_run import LiveRun, perform
from lab_utils.proxy.faults import delay_response
from lab_utils.waiting import wait_until
from tests.clients.opened import Opened

pytestmark = pytest.mark.kafka

OUTCOMES = ("acked", "failed", "unknown")
LARGE = "x" * 2000


def outcomes(opened: Opened) -> list[tuple[Any, ...]]:
    return opened.said("value", "offset", "error", kinds=OUTCOMES)


def test_sent_and_acked(opened: Opened) -> None:
    """Each send has its attempt, and each answer the partition and offset of its record."""
    producer = opened.live.producer()
    for order in ("a", "b", "a"):
        producer.produce(opened.live.topic, order, partition=0)
        producer.flush()

    assert [("a", 1, 0), ("b", 1, 0), ("a", 2, 0)] == [
        (row.value, row.attempt, row.partition) for row in opened.rows("sent")
    ]
    assert [("a", 0, 0), ("b", 0, 1), ("a", 0, 2)] == [
        (row.value, row.partition, row.offset) for row in opened.rows(*OUTCOMES)
    ]


@pytest.mark.parametrize(
    ("value", "error", "name"),
    [(LARGE, KafkaException, "MSG_SIZE_TOO_LARGE"), (7, TypeError, "TypeError")],
)
def test_what_the_client_does_not_take(
    opened: Opened, value: Any, error: type[Exception], name: str
) -> None:
    """It has failed at once, and produce() raises what the parent raises."""
    producer = opened.live.producer({"message.max.bytes": 1000})
    with pytest.raises(error):
        producer.produce(opened.live.topic, value)

    assert [("failed", str(value), None, name)] == outcomes(opened)


def test_queue_that_is_full(opened: Opened) -> None:
    """What no longer fits has failed at once; what is never waited for fails with the run."""
    producer = opened.live.producer({"queue.buffering.max.messages": 1, "linger.ms": 5_000})
    producer.produce(opened.live.topic, "0")
    with pytest.raises(BufferError):
        producer.produce(opened.live.topic, "1")
    rows = opened.finish()

    assert [("failed", "1"), ("failed", "0")] == [told[:2] for told in outcomes(opened)]
    assert "_PURGE_QUEUE" == outcomes(opened)[1][3]
    assert [] == [row for row in rows if row.kind == "record"]


def test_callbacks(opened: Opened) -> None:
    """Each spelling is called once, its report being recorded; what it raises, flush() raises.

    One that is a list is called as any other, though it has no length yet.
    """

    class Reports(list[Any]):
        def __call__(self, error: KafkaError | None, message: Any) -> None:
            self.append(message.value())

    reports = Reports()
    told: list[tuple[Any, Any, Any]] = []

    def told_by(name: str) -> Any:
        return lambda error, message: told.append((name, error, message.value()))

    def raising(error: KafkaError | None, message: Any) -> None:
        {}.pop(message.value())  # which the interpreter raises, as it does most mistakes

    producer = opened.live.producer({"on_delivery": told_by("configured")})
    producer.produce(opened.live.topic, "0", on_delivery=told_by("on_delivery"))
    producer.produce(opened.live.topic, "1", callback=told_by("callback"))
    producer.produce(opened.live.topic, "2")
    producer.produce(opened.live.topic, "3", on_delivery=reports)
    producer.flush()
    producer.produce(opened.live.topic, "4", on_delivery=raising)
    with pytest.raises(KeyError, match="4"):
        producer.flush()

    assert [("on_delivery", None, b"0"), ("callback", None, b"1"), ("configured", None, b"2")] == (
        told
    )
    assert [("acked", str(number), number, None) for number in range(5)] == outcomes(opened)
    assert [b"3"] == reports


def test_values(opened: Opened) -> None:
    """Text, bytes and nothing reach the log as they are, and the ledger as text."""
    producer = opened.live.producer()
    for value in ("é", b"order", b"\xff", "", None):
        producer.produce(opened.live.topic, value)
    producer.flush()
    rows = opened.finish()
    texts = ["é", "order", "\\xff", "", None]

    assert (texts, texts) == tuple(
        [row.value for row in opened.rows(it)] for it in ("sent", "acked")
    )
    assert texts == [row.value for row in rows if (row.source, row.kind) == ("log", "record")]


def test_batch(opened: Opened) -> None:
    """produce_batch() takes what fits, marks what does not, and records each of them."""
    told: list[bytes | None] = []
    producer = opened.live.producer(
        {"message.max.bytes": 1000, "queue.buffering.max.messages": 2, "linger.ms": 5_000}
    )
    messages: list[dict[str, Any]] = [
        {"value": "0", "key": "k"},
        {"value": LARGE},
        {"value": "1", "callback": lambda _, message: told.append(message.key())},
        {"value": "2"},
    ]
    taken = producer.produce_batch(
        opened.live.topic, messages, on_delivery=lambda _, message: told.append(message.key())
    )
    producer.flush()

    assert (2, [b"k", None]) == (taken, told)
    assert ["MSG_SIZE_TOO_LARGE", "_QUEUE_FULL"] == [
        message["_error"].name() for message in messages if "_error" in message
    ]
    assert [
        ("failed", LARGE, None, "MSG_SIZE_TOO_LARGE"),
        ("failed", "2", None, "BufferError"),
        ("acked", "0", 0, None),
        ("acked", "1", 1, None),
    ] == outcomes(opened)


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


def test_returned_numbers(opened: Opened, stage: Any) -> None:
    """flush() says what is still queued, poll() how many reports it served, len() both."""
    producer = opened.live.producer()
    stage.broker("pause", 1)
    producer.produce(opened.live.topic, "0")

    assert (1, 0, 1) == (len(producer), producer.poll(0), producer.flush(0.01))
    stage.broker("resume", 1)
    assert (0, 0) == (producer.flush(), len(producer))


def test_created(opened: Opened) -> None:
    """The ledger has the configuration that was used, the lab's timers among it."""
    with pytest.raises(KafkaException, match=r"no\.such\.setting"):
        opened.live.producer({"no.such.setting": 1})
    assert [] == opened.rows("created")
    opened.live.producer({"enable.idempotence": True, "linger.ms": 3})
    (created,) = opened.rows("created")
    address, name = opened.ticket.bootstrap, f"{opened.experiment.run}.producer-1"

    assert {"role": "producer", "enable.idempotence": "True", "linger.ms": "3"}.items() <= (
        created.detail.items()
    )
    assert (address, name) == (created.detail["bootstrap.servers"], created.detail["client.id"])


def test_clients_are_counted(opened: Opened) -> None:
    """Each producer of a run has a name of its own, which the proxy sees, too.

    A workload may close its producer, by name or by `with`; one that it keeps is closed with its
    run, which waits for no connection.
    """
    topic = opened.live.topic
    with opened.live.producer() as first:
        first.produce(opened.live.topic, "0")
    second = opened.live.producer()
    second.produce(opened.live.topic, "1")
    second.flush()
    second.close()
    kept = opened.live.producer()
    rows = opened.finish()
    with pytest.raises(RuntimeError, match="closed"):
        kept.produce(topic, "2")
    seen = [row.actor for row in rows if (row.api, row.kind) == ("Produce", "request")]

    assert [("acked", "0", 0, None), ("acked", "1", 1, None)] == outcomes(opened)
    names = ["producer-1", "producer-2", "producer-3"]
    assert (names, names[:2]) == ([row.actor for row in opened.rows("created")], seen)


@pytest.mark.parametrize("own", [False, True])
def test_log_of_the_client(
    opened: Opened, own: bool, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It is `note` events and not on stderr, or goes to the logger that a learner configures."""
    logger = logging.getLogger("of-the-learner")
    with caplog.at_level(logging.DEBUG, "of-the-learner"):
        producer = opened.live.producer({"debug": "msg"} | ({"logger": logger} if own else {}))
        producer.produce(opened.live.topic, "0")
        producer.flush()
    opened.finish()
    in_the_ledger = {"producer-1" in row.detail["text"] for row in opened.rows("note")}

    assert ({"of-the-learner"} if own else set()) == {record.name for record in caplog.records}
    assert own != (True in in_the_ledger)
    assert ("", "") == capfd.readouterr()


def test_nobody_waited_for_the_answer(opened: Opened) -> None:
    """An order that is on its way when the workload ends is unknown."""
    opened.under(delay_response("Produce", 1, by_ms=5000))
    producer = opened.live.producer()
    producer.produce(opened.live.topic, "0")
    wait_until(lambda: opened.rows("fired", source="fault"), "the answer", timeout_s=60)
    opened.finish()

    assert [("unknown", "0", None, "_PURGE_INFLIGHT")] == outcomes(opened)


def test_producer_that_outlives_its_run(opened: Opened, tmp_path: Path) -> None:
    """One that is kept in a transaction writes nothing into the ledger of a later run.

    To close it would end its transaction.
    """
    producer = opened.live.producer({"transactional.id": f"{opened.experiment.run}-t"})
    producer.init_transactions(10)
    producer.begin_transaction()
    opened.finish()
    before = opened.rows()
    with (tmp_path / "later").open("wb") as later:  # it gets the lowest number that is free
        producer.produce(opened.experiment.topic, "0")
        producer.flush()

    assert b"" == Path(later.name).read_bytes()
    assert before == opened.rows()


def test_an_interrupt_as_the_client_calls_back(opened: Opened) -> None:
    """The client may lose it there, and raise another error: the cell is interrupted all the same.

    Where it comes is chance: of forty, one in four or five came there.
    """

    def send_on(run: LiveRun) -> None:
        producer = run.producer()
        while True:
            producer.produce(run.topic, "0")
            producer.flush()

    for _ in range(40):
        live = LiveRun(opened.ticket)
        Timer(0.03, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            perform(send_on, live)
        live.close()
