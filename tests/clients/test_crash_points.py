"""A process dies at the point that was chosen, and the broker knows what it had been told."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from lab_utils.clients.live_run import LiveRun
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import (
    Fault,
    crash_client,
    delay_response,
    drop_request,
    kill_broker,
    pause_broker,
    stall_client,
)
from tests.clients.opened import billing
from tests.notebooks import further, solutions
from tests.performed import Perform, bookmarks, values

pytestmark = pytest.mark.kafka

EIGHT = {"orders": 8, "filled": True, "topics": ("invoices",), "until_stable": True}


def workload(name: str) -> Any:
    """A workload of lab 05, or of the further notebooks on commits and on crash points."""
    notebooks = map(further, ("05_automatic_commits", "06_six_crash_points"))
    return next(found[name] for found in (solutions("05"), *notebooks) if name in found)


def work(rows: list[Event]) -> str:
    return values(rows, "processed", "client")


def seen_by_readers(rows: list[Event]) -> set[str]:
    """The invoices that the final reader was given, and the one that read all along."""
    return {values(rows, kind, topic="invoices") for kind in ("visible", "seen")}


def test_stays_away_until_the_bookmarks_are_gone(perform: Perform) -> None:
    """The bookmark was there at the crash; the next process, in a group of any name, has none."""
    crash = crash_client("after_commit", nth=3, until_expired=True)
    bills = billing(group_id="of-any-name", session_timeout_ms=1000)
    rows = perform(bills, crash, orders=6, filled=True)

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
        "commit_then_process", (crash_client("after_commit", nth=3),), 3, "0 1 3 4 5",
    ),
    "work first, killed in between": (
        "process_then_commit", (crash_client("after_process", nth=3),), 2, "0 1 2 2 3 4 5",
    ),
    "after the poll": (
        "process_then_commit", (crash_client("after_poll", nth=3),), 2, "0 1 2 3 4 5",
    ),
    "before the commit is sent": (
        "process_then_commit", (crash_client("before_commit", nth=3),), 2, "0 1 2 2 3 4 5",
    ),
    "sent, and not answered": ("process_then_commit", HELD, 3, "0 1 2 3 4 5"),
    "after the commit": (
        "process_then_commit", (crash_client("after_commit", nth=3),), 3, "0 1 2 3 4 5",
    ),
    "automatic, an order in hand": ("automatic", IN_HAND, 3, "0 1 3 4 5"),
    "stored when done, an order in hand": ("stored_when_done", IN_HAND, 2, "0 1 2 3 4 5"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_bookmark_at_the_crash(name: str, perform: Perform) -> None:
    """Where the process dies decides what the broker holds, and that what is done again.

    Each fault is armed and fired, once.
    """
    of, faults, bookmark, processed = ROWS[name]
    rows = perform(workload(of), *faults, orders=6, filled=True)

    assert ([bookmark], [6], processed) == (
        bookmarks(rows, "crash"),
        bookmarks(rows, "end"),
        work(rows),
    )
    assert sorted((type(it).__name__, kind) for it in faults for kind in ("armed", "fired")) == (
        sorted((row.actor, row.kind) for row in rows if row.source == "fault")
    )


def commits_nothing_first(run: LiveRun) -> None:
    consumer = run.consumer({"enable.auto.commit": False})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        start = TopicPartition(run.topic, message.partition(), message.offset())
        consumer.commit(offsets=[start], asynchronous=False)
        run.processed(message)
        consumer.commit(message, asynchronous=False)


@pytest.mark.parametrize(
    ("of", "at", "bookmark"),
    [
        (commits_nothing_first, "before_commit", 2),
        (commits_nothing_first, "after_commit", 3),
        ("bills_in_a_transaction", "after_send_offsets", 2),
        ("bills_in_a_transaction", "after_commit", 4),
    ],
)
def test_a_commit_is_about_the_orders_that_it_is_past(
    of: Any, at: str, bookmark: int, perform: Perform
) -> None:
    """Or that are in its transaction: a commit of what was committed before is about none."""
    function = workload(of) if isinstance(of, str) else of
    rows = perform(function, crash_client(at, value="2"), **EIGHT)

    assert [bookmark] == bookmarks(rows, "crash")


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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * ("sent" not in name))
        for name in POINTS_OF_A_TRANSACTION
    ],
)
def test_out_equals_in(name: str, perform: Perform) -> None:
    """With its offsets in the transaction each order is seen once, by either reader."""
    rows = perform(workload("bills_in_a_transaction"), *POINTS_OF_A_TRANSACTION[name], **EIGHT)

    assert {"0 1 2 3 4 5 6 7"} == seen_by_readers(rows)


@pytest.mark.long
def test_broker_and_client_die_in_a_transaction(perform: Perform) -> None:
    """The broker is killed with a transaction open, and the client in its commit; out equals in.

    Both are started again, the broker first; it has the open transaction in its log.
    """
    dies = kill_broker(1, api="TxnOffsetCommit", nth=2)
    crash = crash_client("while_committing", nth=2)
    rows = perform(workload("bills_in_a_transaction"), dies, crash, **EIGHT, patient=True)
    happened = [row.kind for row in rows if row.actor in ("broker-1", "process")]

    assert {"0 1 2 3 4 5 6 7"} == seen_by_readers(rows)
    assert ["killed", "crashed", "started"] == [
        kind for kind in happened if kind in ("killed", "crashed", "started")
    ]


def test_only_broker_is_paused_at_the_crash(perform: Perform) -> None:
    """It answers what the group has committed when it goes on, before the client starts again."""
    pause = pause_broker(1, api="OffsetCommit", nth=2)
    crash = crash_client("after_commit", nth=2)
    rows = perform(workload("process_then_commit"), pause, crash, orders=3, filled=True)
    *first, last = (row.kind for row in rows if row.kind in ("paused", "crashed", "resumed"))

    # The answer at which the broker is paused is the one at which the process dies.
    assert (["crashed", "paused"], "resumed") == (sorted(first), last)
    assert [2] == bookmarks(rows, "crash")


def test_each_process_is_slow(perform: Perform) -> None:
    """A stall of each order from the nth on is there again after a kill.

    Where a kill comes with two stalls it comes after both.
    """
    slow = stall_client("before_process", nth=2, for_ms=50, once=False)
    once = stall_client("before_process", value="2", for_ms=50)
    crash = crash_client("before_process", nth=3)
    rows = perform(workload("process_then_commit"), slow, once, crash, orders=6, filled=True)
    stalls = [row for row in rows if (row.actor, row.kind) == ("stall_client", "fired")]

    # Orders 1, 2 and 2, and then 3, 4 and 5.
    assert ("0 1 2 3 4 5", 6) == (work(rows), len(stalls))
    assert [2] == bookmarks(rows, "crash")


def test_a_fault_of_each_request_ends_with_the_process(perform: Perform) -> None:
    """The commits of the first process are all lost; those of the next one are not."""
    lost = drop_request("OffsetCommit", once=False)
    crash = crash_client("while_committing")
    rows = perform(workload("process_then_commit"), lost, crash, orders=3, filled=True)

    assert ("0 0 1 2", [3]) == (work(rows), bookmarks(rows, "end"))


def test_member_is_stalled(perform: Perform) -> None:
    """The commit of a member that was away for too long is refused; another has its partition."""
    stall = stall_client("before_commit", nth=2, for_ms=4500, member=2)
    given = {"orders": 12, "filled": True, "partitions": 2, "members": 2}
    rows = perform(workload("in_pairs"), stall, **given)
    refused = [row.error for row in rows if row.detail.get("of") == "commit"]

    assert (["UNKNOWN_MEMBER_ID"], [6, 6], 14) == (
        refused,
        bookmarks(rows, "end"),
        len(work(rows).split()),
    )
