"""The recording consumer is the real one, and deliveries, commits and rebalances are recorded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from lab_utils.errors import BadArgument
from lab_utils.proxy.faults import refuse
from lab_utils.waiting import wait_until
from tests.clients.opened import Opened

pytestmark = pytest.mark.kafka

BY_HAND = {"enable.auto.commit": False}


@pytest.fixture
def filled(opened: Opened) -> Opened:
    """A run whose topic holds the orders 0, 1 and 2."""
    return opened.under(filled=True)


def subscribed(opened: Opened, **callbacks: Any) -> Consumer:
    consumer = opened.live.consumer(BY_HAND)
    consumer.subscribe([opened.live.topic], **callbacks)
    return consumer


def read_next(consumer: Consumer) -> Any:
    return wait_until(lambda: consumer.poll(0.1), "a message", timeout_s=60)


def commits(opened: Opened) -> list[tuple[Any, ...]]:
    return opened.said("partition", "offset", "error", kinds=("committed", "error"))


def test_delivered_again(filled: Opened) -> None:
    """Each message that poll() returns is delivered once, also a second time at the same offset.

    A poll() that returns None leaves nothing in the ledger.
    """
    consumer = subscribed(filled)
    nothing, before = consumer.poll(0), filled.rows("delivered")
    values = [read_next(consumer).value() for _ in range(3)]
    delivered = [(row.partition, row.offset, row.value) for row in filled.rows("delivered")]
    consumer.seek(TopicPartition(filled.live.topic, 0, 0))
    wait_until(lambda: read_next(consumer).offset() == 0, "order 0 again", timeout_s=60)

    assert (None, [], [b"0", b"1", b"2"]) == (nothing, before, values)
    assert [(0, 0, "0"), (0, 1, "1"), (0, 2, "2")] == delivered
    assert 2 == [row.offset for row in filled.rows("delivered")].count(0)


def test_consumed(filled: Opened) -> None:
    """Each message of the list that consume() returns is delivered once; an end is no delivery."""
    consumer = filled.live.consumer({"enable.partition.eof": True})
    consumer.assign([TopicPartition(filled.live.topic, 0, 0)])
    messages = consumer.consume(4, timeout=20)

    assert [None, None, None, "_PARTITION_EOF"] == [
        it.error().name() if it.error() else None for it in messages
    ]
    assert [0, 1, 2] == [row.offset for row in filled.rows("delivered")]


@pytest.mark.parametrize("poll", ["poll", "consume"])
def test_closed_while_a_thread_polls(opened: Opened, poll: str) -> None:
    """It is closed, and the thread is told; the client itself would wait for ever."""
    consumer = subscribed(opened)
    with ThreadPoolExecutor(1) as thread:
        polled = thread.submit(getattr(consumer, poll))
        closed = Thread(target=consumer.close, daemon=True)
        closed.start()
        with pytest.raises(RuntimeError, match="closed"):
            polled.result(30)
        closed.join(30)

    assert not closed.is_alive()


@pytest.mark.parametrize("with_callback", [False, True])
def test_commit_that_waits(filled: Opened, with_callback: bool) -> None:
    """A commit that waits is recorded once; its offset is the next to read, or the one named."""
    told: list[Any] = []
    callback = {"on_commit": lambda *said: told.append(said)} if with_callback else {}
    consumer = filled.live.consumer(BY_HAND | callback)
    consumer.subscribe([filled.live.topic])
    message = read_next(consumer)
    (place,) = consumer.commit(message, asynchronous=False)
    consumer.poll(0.2)
    here = TopicPartition(filled.live.topic, 0, 3)
    consumer.commit(offsets=[here], asynchronous=False)

    assert (1, []) == (place.offset, told)
    assert [("committed", 0, 1, None), ("committed", 0, 3, None)] == commits(filled)
    assert [3] == [place.offset for place in consumer.committed([here])]


def test_commit_that_does_not_wait(filled: Opened) -> None:
    """An asynchronous commit is recorded once, when the broker has answered."""
    told: list[Any] = []
    consumer = filled.live.consumer(
        BY_HAND | {"on_commit": lambda error, places: told.append((error, places[0].offset))}
    )
    consumer.subscribe([filled.live.topic])
    # All of them: the client looks up what to commit a moment later, when more may have been read.
    for _ in filled.experiment.orders:
        read_next(consumer)

    assert consumer.commit() is None
    wait_until(lambda: (consumer.poll(0.05), told)[1], "on_commit", timeout_s=60)
    assert [(None, 3)] == told
    assert [("committed", 0, 3, None)] == commits(filled)


def test_commit_that_is_refused(opened: Opened) -> None:
    """A refused commit is an error, no commit, and is raised as the parent raises it."""
    filled = opened.under(refuse("OffsetCommit", 1, "GROUP_AUTHORIZATION_FAILED"), filled=True)
    consumer = subscribed(filled)
    message = read_next(consumer)

    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        consumer.commit(message, asynchronous=False)
    assert [("error", None, None, "GROUP_AUTHORIZATION_FAILED")] == commits(filled)


def test_stored(filled: Opened) -> None:
    """What the next automatic commit is to write is recorded, however it is named."""
    consumer = filled.live.consumer({"enable.auto.offset.store": False})
    consumer.subscribe([filled.live.topic])
    consumer.store_offsets(read_next(consumer))
    there = TopicPartition(filled.live.topic, 0, 2)
    consumer.store_offsets(offsets=[there])
    consumer.store_offsets(None, [there])
    consumer.store_offsets(offsets=[])

    assert [1, 2, 2] == [row.offset for row in filled.rows("stored")]


def test_assigned_and_revoked(opened: Opened) -> None:
    """Each partition is assigned once and revoked once, and the learner's callbacks are called.

    One that assigns offsets of its own decides where reading begins.
    """
    told: list[tuple[str, list[int]]] = []

    def from_the_second(consumer: Any, places: list[TopicPartition]) -> None:
        told.append(("assigned", [it.partition for it in places]))
        for place in places:
            place.offset = 1
        consumer.assign(places)

    filled = opened.under(partitions=2, filled=True)
    consumer = subscribed(
        filled,
        on_assign=from_the_second,
        on_revoke=lambda _, places: told.append(("revoked", [it.partition for it in places])),
    )
    assert b"2" == read_next(consumer).value()
    consumer.close()

    assert [("assigned", [0, 1]), ("revoked", [0, 1])] == told
    assert [("assigned", 0), ("assigned", 1), ("revoked", 0), ("revoked", 1)] == filled.said(
        "partition", kinds=("assigned", "revoked", "lost")
    )


def test_callback_that_raises(opened: Opened) -> None:
    """What a learner's callback raises comes out of poll(), and not an error of the client's."""
    consumer = subscribed(opened.under(filled=True), on_assign=lambda *_: {}.pop("a place"))

    with pytest.raises(KeyError, match="a place"):
        read_next(consumer)


def test_consumer_without_a_topic(opened: Opened) -> None:
    """The loop around its poll() says what is missing, and does not wait for what cannot come.

    Of a topic that the broker does not know it waits, and then raises what the broker said.
    """
    consumer = opened.live.consumer(BY_HAND)
    elsewhere = opened.live.consumer(BY_HAND)
    elsewhere.subscribe(["nowhere"])

    with pytest.raises(BadArgument, match=r"Call consumer\.subscribe\(\[run\.topic\]\) first"):
        next(opened.live.messages(consumer))
    with pytest.raises(KafkaException) as refused:
        next(opened.live.messages(elsewhere))
    assert "UNKNOWN_TOPIC_OR_PART" == refused.value.args[0].name()


def test_cooperative(opened: Opened) -> None:
    """Two members that share a topic bit by bit record what each is given and gives away."""
    filled = opened.under(partitions=2, filled=True)
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    settings = BY_HAND | strategy | {"heartbeat.interval.ms": 100}
    first, second = (filled.live.consumer(settings) for _ in range(2))
    first.subscribe([filled.live.topic])
    wait_until(lambda: first.poll(0.05) or first.assignment(), "the first", timeout_s=60)
    second.subscribe([filled.live.topic])

    def shared() -> bool:
        first.poll(0.05)
        second.poll(0.05)
        return (1, 1) == (len(first.assignment()), len(second.assignment()))

    wait_until(shared, "a partition for each", timeout_s=60)
    assert [("consumer-1", "assigned"), ("consumer-1", "assigned"), ("consumer-1", "revoked"),
            ("consumer-2", "assigned")] == [
        (row.actor, row.kind)
        for row in filled.rows("assigned", "revoked", "lost")
        if row.partition is not None  # an assignment may name no partition
    ]  # fmt: skip


def test_group_of_the_run(filled: Opened, capfd: pytest.CaptureFixture[str]) -> None:
    """The group is the run's own unless the learner names one; timers are the lab's.

    A workload may use its consumer with `with`: the commit that it makes when it is closed is
    recorded, and its log is in the ledger and not on stderr.
    """
    no_timer = {"auto.commit.interval.ms": 600_000}  # a machine may be slower than the lab's
    with filled.live.consumer({"debug": "cgrp", **no_timer}) as consumer:
        consumer.subscribe([filled.live.topic])
        filled.live.processed(read_next(consumer))
    filled.live.consumer({"group.id": "mine", "session.timeout.ms": 7000})
    shown = [row.detail for row in filled.rows("created")]
    filled.finish()

    assert [("committed", 0, 1, None)] == commits(filled)
    assert [("processed", "workload", 0, 0, "0")] == filled.said(
        "actor", "partition", "offset", "value", kinds=("processed",)
    )
    assert [(f"{filled.experiment.run}-group", "6000"), ("mine", "7000")] == [
        (detail["group.id"], detail["session.timeout.ms"]) for detail in shown
    ]
    assert (True, ("", "")) == (bool(filled.rows("note")), capfd.readouterr())
