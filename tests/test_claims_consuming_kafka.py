"""Claims F and G that no other test decides: bookmarks of threads, new partitions, and sinks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from lab_utils.clients.live_run import LiveRun
from lab_utils.proxy.faults import crash_client, stall_client
from tests.performed import Perform, Workload, values

pytestmark = pytest.mark.kafka

Bookmark = Callable[[set[int], set[int]], int]
SLOW = stall_client("before_process", value="1", for_ms=2500)


def handed_to_threads(run: LiveRun) -> None:
    """The main thread polls and four others work; the client commits by itself."""
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    with ThreadPoolExecutor(4) as workers:
        for message in run.messages(consumer):
            workers.submit(run.processed, message)


def test_automatic_commits_and_threads(perform: Perform) -> None:
    """What no worker had finished when the process died is committed, and never done."""
    dies = (
        stall_client("after_poll", value="5", for_ms=500),
        crash_client("after_poll", value="5"),
    )
    rows = perform(handed_to_threads, SLOW, *dies, orders=6, filled=True)
    done = set(values(rows, "processed", "client").split())

    assert {"0", "2", "3", "4"} == done
    assert [6] == [
        row.offset
        for row in rows
        if (row.source, row.kind) == ("log", "committed") and row.detail["when"] == "end"
    ]


def by_threads(bookmark: Bookmark) -> Workload:
    """Four threads share six orders; each time one is done the bookmark is set."""

    def work(run: LiveRun) -> None:
        consumer = run.consumer({"enable.auto.commit": False})
        consumer.subscribe([run.topic])
        with ThreadPoolExecutor(4) as workers:
            for batch in run.batches(consumer, size=6):
                works = {it.offset(): workers.submit(run.processed, it) for it in batch}
                done: set[int] = set()
                while done != set(works):
                    wait(works.values(), timeout=0.5)
                    done = {offset for offset, work in works.items() if work.done()}
                    place = TopicPartition(run.topic, 0, bookmark(set(works), done))
                    consumer.commit(offsets=[place], asynchronous=False)

    return work


BOOKMARKS: dict[str, tuple[Bookmark, str]] = {
    "highest": (lambda _, done: max(done) + 1, "0 2 3 4 5"),
    "lowest": (lambda given, done: min(given - done, default=max(given) + 1), "0 1 2 3 4 5"),
}


@pytest.mark.parametrize("name", BOOKMARKS)
def test_bookmark_of_threads(perform: Perform, name: str) -> None:
    """Killed while order 1 is in work: behind the highest it is lost, at the lowest it is not."""
    bookmark, expected = BOOKMARKS[name]
    rows = perform(by_threads(bookmark), SLOW, crash_client("after_commit"), orders=6, filled=True)

    assert expected == " ".join(sorted(set(values(rows, "processed", "client").split())))


def send(run: LiveRun, orders: list[str], partition: int) -> None:
    producer = run.producer()
    for order in orders:
        producer.produce(run.topic, order, partition=partition)
    producer.flush()


@pytest.mark.parametrize(
    ("reset", "given"), [("latest", "0 3"), ("earliest", "0 1 2 3")], ids=["latest", "earliest"]
)
def test_partition_that_nobody_knew(perform: Perform, reset: str, given: str) -> None:
    """What was written before a consumer learns of a partition is skipped, or is not.

    Order 0 is on the first partition, and has a bookmark behind it: it is not read again.
    """

    def grows(run: LiveRun) -> None:
        settings = {"auto.offset.reset": reset, "topic.metadata.refresh.interval.ms": 1000}
        consumer = run.consumer(settings)
        consumer.subscribe([run.topic])
        assert [] == list(run.messages(consumer, 1))
        for partition, orders in enumerate((run.orders[:1], run.orders[1:3], run.orders[3:])):
            if partition == 1:
                run.add_partition()
            send(run, orders, min(partition, 1))
            list(run.messages(consumer, min(partition, 1) + 1))

    rows = perform(grows, orders=4)

    assert given == values(rows, "delivered", "client")


CLASSIC = {"session.timeout.ms": 2000}
COOPERATIVE = CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"}


def shares(settings: dict[str, Any]) -> Workload:
    """Two processes share two partitions; each commits after every second order."""

    def share(run: LiveRun) -> None:
        consumer = run.consumer({"enable.auto.commit": False} | settings)
        consumer.subscribe([run.topic])
        for message in run.messages(consumer):
            run.processed(message)
            if message.offset() % 2:
                consumer.commit(message, asynchronous=False)

    return share


@pytest.mark.parametrize(
    ("settings", "then"),
    [(CLASSIC, "revoked"), (COOPERATIVE, "assigned"), ({"group.protocol": "consumer"}, "assigned")],
    ids=["range", "cooperative", "KIP-848"],
)
def test_assignment_until_a_member_dies(
    perform: Perform, settings: dict[str, Any], then: str
) -> None:
    """Each reads one partition; when one dies the other reads on there, at the bookmark.

    With range what it has is first taken back from it.
    """
    dies = crash_client("after_process", nth=3, member=2)
    rows = perform(shares(settings), dies, orders=12, filled=True, partitions=2, members=2)
    given: dict[tuple[str, int | None], list[int | None]] = {}
    for row in rows:
        if row.kind == "delivered":
            given.setdefault((row.actor, row.partition), []).append(row.offset)
    moved = next(partition for actor, partition in given if actor == "consumer-2")
    crashed_ns = next(row.at_ns for row in rows if row.kind == "crashed")
    after = [row.kind for row in rows if row.at_ns > crashed_ns and row.actor == "consumer-1"]

    assert then == next(kind for kind in after if kind in ("assigned", "revoked"))
    assert given == {
        ("consumer-1", 1 - (moved or 0)): [0, 1, 2, 3, 4, 5],
        ("consumer-2", moved): [0, 1, 2],
        ("consumer-1", moved): [2, 3, 4, 5],
    }
