"""A process dies at the point that was chosen, and the broker knows what it had been told."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.workload import carry_out
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import Fault, crash_client, delay_response, kill_broker, stall_client
from tests.clients.opened import Opened

pytestmark = pytest.mark.kafka


def process_then_commit(run: LiveRun) -> None:
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        consumer.commit(message, asynchronous=False)


def commit_then_process(run: LiveRun) -> None:
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        consumer.commit(message, asynchronous=False)
        run.processed(message)


def automatic(run: LiveRun) -> None:
    consumer = run.consumer()
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)


def stored_when_done(run: LiveRun) -> None:
    consumer = run.consumer({"enable.auto.offset.store": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        consumer.store_offsets(message=message)


def bills_in_a_transaction(run: LiveRun) -> None:
    producer = run.producer({"transactional.id": f"{run.topic}-biller"})
    producer.init_transactions()
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for batch in run.batches(consumer, size=2):
        producer.begin_transaction()
        for message in batch:
            producer.produce(run.topics["invoices"], message.value(), partition=0)
        producer.flush()
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()


def shares(run: LiveRun, **settings: Any) -> None:
    """One of two members; it commits after every second order."""
    consumer = run.consumer({"enable.auto.commit": False} | settings)
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        if message.offset() % 2:
            consumer.commit(message, asynchronous=False)


def by_the_classic_protocol(run: LiveRun) -> None:
    shares(run, **{"session.timeout.ms": 2000, "max.poll.interval.ms": 2000})


def by_the_new_protocol(run: LiveRun) -> None:
    shares(run, **{"group.protocol": "consumer", "max.poll.interval.ms": 2000})


def performed(opened: Opened, workload: Any, *faults: Fault, **given: Any) -> list[Event]:
    """All rows of a run whose orders wait to be consumed."""
    opened.under(*faults, orders=given.pop("orders", 6), partitions=given.pop("partitions", 1))
    for name, value in ({"filled": True} | given).items():
        setattr(opened.experiment, name, value)
    ticket = opened.ticket
    with opened.experiment.attended():
        error = carry_out(workload, ticket, timeout_s=60, crashed=opened.experiment.crashed)
    assert error is None, error
    return opened.finish()


def work(rows: list[Event]) -> str:
    return " ".join(row.value or "" for row in rows if row.kind == "processed")


def seen_by_readers(rows: list[Event]) -> dict[str, list[str | None]]:
    """The invoices that the final reader was given, and the one that read all along."""
    out = [row for row in rows if row.source == "log" and row.topic == f"{row.run}-invoices"]
    return {kind: [row.value for row in out if row.kind == kind] for kind in ("visible", "seen")}


def bookmarks(rows: list[Event], when: str) -> list[int | None]:
    held = [row for row in rows if (row.source, row.kind) == ("log", "committed")]
    return [row.offset for row in held if row.detail["when"] == when]


def under_a_name_of_its_own(run: LiveRun) -> None:
    group = {"group.id": f"billing-of-{run.topic}", "session.timeout.ms": 1000}
    consumer = run.consumer({"enable.auto.commit": False} | group)
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        run.processed(message)
        consumer.commit(message, asynchronous=False)


def test_stays_away_until_the_bookmarks_are_gone(opened: Opened) -> None:
    """The bookmark was there at the crash; the next process, in a group of any name, has none."""
    crash = crash_client("after_commit", nth=3, until_expired=True)
    rows = performed(opened, under_a_name_of_its_own, crash)

    assert "0 1 2 0 1 2 3 4 5" == work(rows)
    asked = [row.offset for row in rows if (row.kind, row.api) == ("request", "OffsetCommit")]
    assert [1, 2, 3, 1, 2, 3, 4, 5, 6] == asked


IN_HAND = (
    stall_client("before_process", nth=3, for_ms=500),
    crash_client("before_process", nth=3),
)
HELD = (crash_client("while_committing", nth=3), delay_response("OffsetCommit", 3, by_ms=3000))
# workload, faults, the bookmark at the crash, and what was processed in all
ROWS = {
    "commit first, killed in between": (
        commit_then_process, (crash_client("after_commit", nth=3),), 3, "0 1 3 4 5",
    ),
    "work first, killed in between": (
        process_then_commit, (crash_client("after_process", nth=3),), 2, "0 1 2 2 3 4 5",
    ),
    "after the poll": (
        process_then_commit, (crash_client("after_poll", nth=3),), 2, "0 1 2 3 4 5",
    ),
    "before the commit is sent": (
        process_then_commit, (crash_client("before_commit", nth=3),), 2, "0 1 2 2 3 4 5",
    ),
    "sent, and not answered": (process_then_commit, HELD, 3, "0 1 2 3 4 5"),
    "after the commit": (
        process_then_commit, (crash_client("after_commit", nth=3),), 3, "0 1 2 3 4 5",
    ),
    "automatic, an order in hand": (automatic, IN_HAND, 3, "0 1 3 4 5"),
    "stored when done, an order in hand": (stored_when_done, IN_HAND, 2, "0 1 2 3 4 5"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_bookmark_at_the_crash(name: str, opened: Opened) -> None:
    """Where the process dies decides what the broker holds, and that what is done again."""
    workload, faults, bookmark, processed = ROWS[name]
    rows = performed(opened, workload, *faults)

    assert ([bookmark], [6], processed) == (
        bookmarks(rows, "crash"),
        bookmarks(rows, "end"),
        work(rows),
    )


def test_every_fault_of_the_client_is_recorded(opened: Opened) -> None:
    """A stall and a crash are armed and fired, each once, and none is left over."""
    rows = performed(opened, automatic, *IN_HAND)
    faults = [(row.actor, row.kind) for row in rows if row.source == "fault"]

    assert sorted(faults) == [
        (actor, kind) for actor in ("crash_client", "stall_client") for kind in ("armed", "fired")
    ]


def test_fault_that_waits_for_an_order(opened: Opened) -> None:
    """A fault may name the order at which it fires; one that never comes leaves it unfired."""
    never = crash_client("after_poll", value="7")
    rows = performed(opened, automatic, crash_client("after_poll", value="4"), never)
    faults = [(row.kind, row.detail["value"]) for row in rows if row.source == "fault"]

    assert sorted(faults) == [("armed", "4"), ("armed", "7"), ("fired", "4"), ("unfired", "7")]


POINTS_OF_A_TRANSACTION: dict[str, tuple[Fault, ...]] = {
    "polled": (crash_client("after_poll", nth=4),),
    "produced": (crash_client("after_ack", nth=4),),
    "offsets sent": (crash_client("after_send_offsets", nth=2),),
    "commit not sent": (crash_client("before_commit", nth=2),),
    "commit sent": (
        crash_client("while_committing", nth=2), delay_response("EndTxn", 2, by_ms=3000),
    ),
    "committed": (crash_client("after_commit", nth=2),),
}  # fmt: skip


@pytest.mark.parametrize("name", POINTS_OF_A_TRANSACTION)
def test_out_equals_in(name: str, opened: Opened) -> None:
    """With its offsets in the transaction each order is seen once, by either reader."""
    faults = POINTS_OF_A_TRANSACTION[name]
    given = {"orders": 8, "topics": ("invoices",), "until_stable": True}
    rows = performed(opened, bills_in_a_transaction, *faults, **given)

    assert {"visible": list("01234567"), "seen": list("01234567")} == seen_by_readers(rows)


def test_broker_and_client_die_in_a_transaction(opened: Opened) -> None:
    """The broker is killed with a transaction open, and the client in its commit; out equals in.

    Both are started again, the broker first; it has the open transaction in its log.
    """
    dies = kill_broker(1, api="TxnOffsetCommit", nth=2)
    crash = crash_client("while_committing", nth=2)
    given = {"orders": 8, "topics": ("invoices",), "until_stable": True}
    rows = performed(opened, bills_in_a_transaction, dies, crash, **given)
    happened = [row.kind for row in rows if row.actor in ("broker-1", "process")]

    assert {"visible": list("01234567"), "seen": list("01234567")} == seen_by_readers(rows)
    assert ["killed", "crashed", "started"] == [
        kind for kind in happened if kind in ("killed", "crashed", "started")
    ]


@pytest.mark.parametrize("workload", [by_the_classic_protocol, by_the_new_protocol])
def test_member_dies(workload: Any, opened: Opened) -> None:
    """Its partition moves, and what it had not committed is done again by the other."""
    crash = crash_client("after_process", nth=3, member=2)
    rows = performed(opened, workload, crash, orders=12, partitions=2, members=2)

    assert ([6, 6], 13) == (bookmarks(rows, "end"), len(work(rows).split()))


def test_member_is_stalled(opened: Opened) -> None:
    """The commit of a member that was away for too long is refused; another has its partition."""
    stall = stall_client("before_commit", nth=2, for_ms=4500, member=2)
    given = {"orders": 12, "partitions": 2, "members": 2}
    rows = performed(opened, by_the_classic_protocol, stall, **given)
    refused = [row.error for row in rows if row.detail.get("of") == "commit"]

    assert (["UNKNOWN_MEMBER_ID"], [6, 6], 14) == (
        refused,
        bookmarks(rows, "end"),
        len(work(rows).split()),
    )
