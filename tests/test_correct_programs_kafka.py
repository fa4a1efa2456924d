"""Correct programs of many kinds, which no lab has, and what the audit says of each of them.

Nothing breaks in them, so there is no breach. What is found all the same was chosen by the program
(it read again, it sent again, it began at the end), and the reason names that choice. Spark and the
oracle agree on random histories also where both are wrong; these are real, and read by a person.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from lab_utils.audit.judged import judged_run
from lab_utils.clients.consumer import RecordingConsumer
from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.producer import RecordingProducer
from lab_utils.proxy.faults import crash_client
from lab_utils.waiting import wait_until
from tests.performed import Perform, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.long]

Program = Callable[[LiveRun], object]
Kinds = set[tuple[str, str | None]]
N: Final = 12
FROM_BOOKMARK: Final = "enable.auto.commit=false"
PROGRAMS: Final[list[Any]] = []


def program(*finds: tuple[str, str | None], faults: tuple[Any, ...] = (), **given: Any) -> Any:
    """Say what is found in this program: the finding, and what allowed it."""

    def kept(it: Program) -> Program:
        PROGRAMS.append(pytest.param(it, faults, given, set(finds), id=it.__name__))
        return it

    return kept


@pytest.mark.parametrize(("workload", "faults", "given", "finds"), PROGRAMS)
def test_what_is_found(
    perform: Perform,
    tmp_path: Path,
    workload: Program,
    faults: tuple[Any, ...],
    given: dict[str, Any],
    finds: Kinds,
) -> None:
    """No breach, and nothing that the program has not chosen."""
    rows = perform(workload, *faults, orders=N, **given)
    found = judged_run(tmp_path / rows[0].run)

    assert [] == [row for row in found if row["judgement"] != "allowed"]
    assert finds == {(row["finding"], row["allowed_by"]) for row in found}


def send(run: LiveRun, orders: tuple[str, ...] | None = None, **settings: Any) -> RecordingProducer:
    producer = run.producer({"acks": "all", **settings})
    for order in run.orders if orders is None else orders:
        producer.produce(run.topic, order)
    producer.flush()
    return producer


def reader(run: LiveRun, **settings: Any) -> RecordingConsumer:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = run.consumer({"enable.auto.commit": False, **names})
    consumer.subscribe([run.topic])
    return consumer


def taken(consumer: RecordingConsumer, most: int) -> Iterator[Any]:
    """So many records, one after the other; none is waited for longer than 20 s."""
    for _ in range(most):
        yield wait_until(lambda: _polled(consumer), "the next record", timeout_s=20, every_s=0)


def _polled(consumer: RecordingConsumer) -> Any:
    message = consumer.poll(0.2)
    return None if message is None or message.error() else message


def work(run: LiveRun, consumer: RecordingConsumer, most: int = N) -> None:
    for message in taken(consumer, most):
        run.processed(message)


# Producing.


@program(partitions=2)
def from_threads(run: LiveRun) -> None:
    producer = run.producer({"acks": "all"})

    def go(number: int) -> None:
        for order in run.orders[number::2]:
            producer.produce(run.topic, order, partition=number)

    threads = [threading.Thread(target=go, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush()


@program(("duplicate", "sending it twice"))
def keys_headers_and_no_values(run: LiveRun) -> None:
    producer = run.producer({"acks": "all", "enable.idempotence": True, "linger.ms": 50})
    for number, order in enumerate(run.orders):
        value = order if number % 3 else None
        producer.produce(run.topic, value, key=f"k{number % 2}", headers=[("h", b"1")])
        producer.poll(0)
    producer.flush()


@program(("duplicate", "sending it twice"))
def one_order_twice(run: LiveRun) -> None:
    send(run)
    send(run, run.orders[:1])


@program()
def the_queue_is_full(run: LiveRun) -> None:
    producer = run.producer({"acks": "all", "queue.buffering.max.messages": 2, "linger.ms": 100})
    for order in run.orders:
        wait_until(lambda order=order: _queued(run, producer, order), "room", timeout_s=20)
    producer.flush()


def _queued(run: LiveRun, producer: RecordingProducer, order: str) -> bool:
    try:
        producer.produce(run.topic, order)
    except BufferError:
        producer.poll(0.1)
        return False
    return True


@program()
def one_is_too_large(run: LiveRun) -> None:
    producer = send(run)
    with pytest.raises(KafkaException):
        producer.produce(run.topic, "x" * 2_000_000)
    producer.flush()


@program()
def purged(run: LiveRun) -> None:
    producer = run.producer({"acks": "all", "linger.ms": 5000, "batch.num.messages": 1000})
    for order in run.orders:
        producer.produce(run.topic, order)
    producer.purge()
    producer.flush()


@program(("lost-write", None))
def records_deleted(run: LiveRun) -> None:
    send(run)
    admin = AdminClient({"bootstrap.servers": run.bootstrap})
    for done in admin.delete_records([TopicPartition(run.topic, 0, 4)]).values():
        done.result(10)


@program(topic_config={"cleanup.policy": "compact"})
def a_compacted_topic(run: LiveRun) -> None:
    producer = run.producer({"acks": "all"})
    for number, order in enumerate(run.orders):
        producer.produce(run.topic, order, key=f"k{number % 2}")
    producer.flush()


@program()
def a_partition_more(run: LiveRun) -> None:
    send(run, run.orders[:5])
    run.add_partition()
    send(run, run.orders[5:])


# Transactions.


@program(topics=["invoices"])
def two_topics_in_a_transaction(run: LiveRun) -> None:
    producer = transactional(run)
    for order in run.orders:
        producer.begin_transaction()
        for topic in (run.topic, run.topics["invoices"]):
            producer.produce(topic, order)
        producer.commit_transaction()


@program(topics=["invoices"])
def two_producers_by_turns(run: LiveRun) -> None:
    names = ({"transactional.id": f"{run.topic}-{name}"} for name in "12")
    first, second = (transactional(run, **name) for name in names)
    for order in run.orders:
        for producer in (first, second):
            producer.begin_transaction()
        first.produce(run.topic, order)
        second.produce(run.topics["invoices"], order)
        for producer in (second, first):
            producer.commit_transaction()


@program()
def aborted_before_it_was_sent(run: LiveRun) -> None:
    producer = transactional(run, **{"linger.ms": 500})
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for order in run.orders:
            producer.produce(run.topic, order)
        end()


@program(("duplicate", "aborting and sending again"))
def taken_over(run: LiveRun) -> None:
    first = transactional(run)
    first.begin_transaction()
    first.produce(run.topic, run.orders[0])
    first.flush()
    second = transactional(run)
    second.begin_transaction()
    for order in run.orders:
        second.produce(run.topic, order)
    second.commit_transaction()
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction()
    assert fenced.value.args[0].code() == KafkaError._FENCED


@program()
def it_reads_what_it_has_committed(run: LiveRun) -> None:
    producer, consumer = transactional(run), reader(run, isolation_level="read_committed")
    for order in run.orders:
        producer.begin_transaction()
        producer.produce(run.topic, order)
        producer.commit_transaction()
        work(run, consumer, 1)
    consumer.commit(asynchronous=False)


@program(("precommitted-read", "isolation.level=read_uncommitted"))
def it_reads_what_is_not_committed(run: LiveRun) -> None:
    producer, consumer = transactional(run), reader(run, isolation_level="read_uncommitted")
    producer.begin_transaction()
    for order in run.orders:
        producer.produce(run.topic, order)
    producer.flush()
    work(run, consumer)
    producer.commit_transaction()
    consumer.commit(asynchronous=False)


@program(
    ("duplicate", "aborting and sending again"),
    ("duplicate-delivery", None),
    filled=True,
    topics=["invoices"],
    until_stable=True,
)
def exactly_once_and_an_abort(run: LiveRun) -> None:
    """The second of four transactions is aborted, and its input is read again."""
    producer, consumer = transactional(run), reader(run, isolation_level="read_committed")
    for is_committed in (True, False, True, True, True):
        producer.begin_transaction()
        for message in taken(consumer, 3):
            producer.produce(run.topics["invoices"], message.value())
        here = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(here, consumer.consumer_group_metadata())
        if is_committed:
            producer.commit_transaction()
            continue
        producer.abort_transaction()
        for place in consumer.committed(consumer.assignment(), timeout=10):
            consumer.seek(place)


# Consuming.


@program(filled=True)
def in_four_rounds(run: LiveRun) -> None:
    for _ in range(4):
        consumer = reader(run)
        work(run, consumer, 3)
        consumer.commit(asynchronous=False)
        consumer.close()


@program(filled=True)
def each_message_is_committed(run: LiveRun) -> None:
    for _ in range(2):
        consumer = reader(run)
        for message in taken(consumer, N // 2):
            run.processed(message)
            consumer.commit(message=message, asynchronous=False)
        consumer.close()


@program(filled=True)
def stored_and_committed_on_a_timer(run: LiveRun) -> None:
    for _ in range(2):
        consumer = reader(run, enable_auto_commit=True, enable_auto_offset_store=False)
        for message in taken(consumer, N // 2):
            run.processed(message)
            consumer.store_offsets(message)
        consumer.close()


@program(filled=True)
def two_groups(run: LiveRun) -> None:
    for name in ("one", "two"):
        consumer = reader(run, group_id=f"{run.topic}-{name}")
        work(run, consumer)
        consumer.commit(asynchronous=False)
        consumer.close()


@program(filled=True)
def paused_and_resumed(run: LiveRun) -> None:
    consumer, here = reader(run), [TopicPartition(run.topic, 0)]
    work(run, consumer, 3)
    consumer.pause(here)
    assert [] == list(filter(None, (consumer.poll(0.1) for _ in range(3))))
    consumer.resume(here)
    work(run, consumer, N - 3)
    consumer.commit(asynchronous=False)


@program(("duplicate-delivery", None), ("duplicate-effect", None), filled=True)
def read_again_by_seek(run: LiveRun) -> None:
    consumer = reader(run)
    work(run, consumer)
    consumer.seek(TopicPartition(run.topic, 0, 0))
    work(run, consumer)
    consumer.commit(asynchronous=False)


@program(("duplicate-delivery", FROM_BOOKMARK), ("duplicate-effect", FROM_BOOKMARK), filled=True)
def a_bookmark_put_back(run: LiveRun) -> None:
    consumer = reader(run)
    work(run, consumer, 6)
    for offset in (6, 2):
        consumer.commit(offsets=[TopicPartition(run.topic, 0, offset)], asynchronous=False)
    consumer.close()
    consumer = reader(run)
    work(run, consumer, N - 2)
    consumer.commit(asynchronous=False)


@program(("skipped-processing", "auto.offset.reset=latest"), filled=True)
def a_group_that_begins_at_the_end(run: LiveRun) -> None:
    consumer = reader(run, auto_offset_reset="latest", enable_partition_eof=True)
    wait_until(lambda: consumer.poll(0.2) is not None, "the end", timeout_s=20)
    send(run, ("new",))
    work(run, consumer, 1)
    consumer.commit(asynchronous=False)


@program(filled=True)
def assigned_at_the_end(run: LiveRun) -> None:
    consumer = run.consumer({"enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(run.topic, 0, OFFSET_END)])
    wait_until(lambda: consumer.poll(0.2) is not None, "the end", timeout_s=20)
    send(run, ("new",))
    work(run, consumer, 1)


@program(filled=True, partitions=2)
def assigned_one_after_the_other(run: LiveRun) -> None:
    consumer = run.consumer({"enable.auto.commit": False})
    for number, assign in ((0, consumer.assign), (1, consumer.incremental_assign)):
        place = TopicPartition(run.topic, number, 0)
        assign([place])
        _, end = consumer.get_watermark_offsets(place, timeout=10)
        work(run, consumer, end)
    consumer.commit(asynchronous=False)


@program(("duplicate-delivery", FROM_BOOKMARK), ("duplicate-effect", FROM_BOOKMARK),
         faults=(crash_client("after_process", nth=5),), filled=True)  # fmt: skip
def killed_after_its_work(run: LiveRun) -> None:
    consumer = reader(run)
    for message in run.messages(consumer):
        run.processed(message)
        consumer.commit(message, asynchronous=False)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_second_member_joins(perform: Perform, tmp_path: Path, protocol: str) -> None:
    """Each takes what is left of its partitions, and nothing is found but what was not committed.

    Who gives a partition away commits first, so nothing is given twice.
    """
    settings: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}

    def joined(run: LiveRun) -> None:
        how = settings if protocol == "classic" else {"group_protocol": "consumer"}
        first = reader(run, **how)
        done = [_work_of(run, first)]
        second = reader(run, **how)
        wait_until(
            lambda: done.extend(_work_of(run, each) for each in (first, second)) or sum(done) == N,
            "all work", timeout_s=40, every_s=0,
        )  # fmt: skip
        for consumer in (first, second):
            consumer.close()

    rows = perform(joined, orders=N, filled=True, partitions=4)

    assert [] == judged_run(tmp_path / rows[0].run)


def _work_of(run: LiveRun, consumer: RecordingConsumer) -> int:
    message = _polled(consumer)
    if message is None:
        return 0
    run.processed(message)
    consumer.commit(message=message, asynchronous=False)
    return 1
