"""A trial proves something only if its fault met an order and its process died at its work."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from lab_utils.grading.cases import Evidence, Trial
from lab_utils.grading.weakness import gone_on, hung, not_done, was_spent, weakness
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import crash_client

GIVEN = {"producer_id": 7, "producer_epoch": 1}
BATCH = {**GIVEN, "sequence": 4}


REFUSED = "NOT_COORDINATOR"


def wire(kind: str, api: str, at_ns: int, correlation_id: int, **columns: Any) -> Event:
    detail = {"connection": "c", **columns.pop("detail", {})}
    return Event(run="r", source="wire", actor="p", kind=kind, api=api, at_ns=at_ns, detail=detail,
                 correlation_id=correlation_id, **columns)  # fmt: skip


def produce(value: str | None = "0", acks: str = "-1", **columns: Any) -> Event:
    given = {"topic": "r-orders", "partition": 0, "records": 1, **columns}
    detail = {"acks": acks} | ({"values": given.pop("values")} if "values" in given else {})
    return wire("request", "Produce", 10, 1, value=value, detail=detail, **given)


def answered(error: str | None = None) -> Event:
    return wire("response", "Produce", 12, 1, topic="r-orders", partition=0, error=error)


def sent_before(fate: str, at_ns: int = 3, number: int = 0) -> list[Event]:
    """The same batch in an earlier request, whose answer had this fate."""
    request = replace(produce(**BATCH), at_ns=2, correlation_id=number, fate="forwarded")
    return [init(1), request, replace(answered(), at_ns=at_ns, correlation_id=number, fate=fate)]


def left_by(by: str, *fates: str) -> list[Event]:
    """The same batch before, on a connection that was closed before there was an answer."""
    _, request, _ = sent_before("forwarded")
    answers = [replace(answered(), at_ns=5, correlation_id=0, fate=it) for it in fates]
    rows = [replace(it, detail=it.detail | {"connection": "b"}) for it in (request, *answers)]
    return [init(1), *rows, wire("closed", "", 4, 0, detail={"connection": "b", "by": by})]


def init(epoch: int, at_ns: int = 1) -> Event:
    return wire("response", "InitProducerId", at_ns, 0, producer_id=7, producer_epoch=epoch)


def crashed(at_ns: int) -> Event:
    return Event(run="r", source="workload", actor="process", kind="crashed", at_ns=at_ns)


def fired(actor: str = "drop_response", api: str = "Produce") -> Event:
    return Event(run="r", source="fault", actor=actor, kind="fired", api=api, correlation_id=1,
                 detail={"fault": "f1", "connection": "c"})  # fmt: skip


# Since then the broker gives no answer.
CUT = Event(run="r", source="fault", actor="cut_link", kind="fired", at_ns=2)


def end(committed: str = "True") -> Event:
    return wire("request", "EndTxn", 10, 1, detail={"committed": committed}, **GIVEN)


def ended(error: str | None) -> list[Event]:
    return [
        wire("request", "EndTxn", 11, 9, detail={"committed": "False"}, **GIVEN),
        wire("response", "EndTxn", 12, 9, error=error),
    ]


def last() -> Event:
    return replace(end(), at_ns=20)


def offsets() -> Event:
    return wire("request", "TxnOffsetCommit", 10, 1, topic="r-orders", **GIVEN)


def later(event: Event) -> Event:
    return replace(event, at_ns=20, correlation_id=2)


def many_times(number: int, *rows: Event) -> list[Event]:
    """These events, each so often with a number of its own."""
    return [replace(row, correlation_id=it) for it in range(100, 100 + number) for row in rows]


@pytest.mark.parametrize(
    ("rows", "is_spent"),
    [
        ([produce(), answered(), fired()], False),
        ([produce(acks="1"), fired("drop_request")], False),
        ([produce(acks="7"), fired("drop_request")], True),
        ([produce(acks="7"), answered("INVALID_REQUIRED_ACKS"), fired()], True),
        ([produce(), answered("NOT_ENOUGH_REPLICAS"), fired()], False),
        ([produce(), answered("MESSAGE_TOO_LARGE"), fired()], True),
        ([produce(), answered("TRANSACTION_ABORTABLE"), fired()], True),
        ([produce(), answered("CORRUPT_MESSAGE"), fired("corrupt_request")], False),
        ([*sent_before("forwarded"), produce(**BATCH), fired()], True),
        ([*sent_before("dropped"), produce(**BATCH), fired()], False),
        # Its sender was yet to be told, or hung up.
        ([*sent_before("forwarded", at_ns=11), produce(**BATCH), fired()], True),
        ([*sent_before("held", at_ns=11), produce(**BATCH), fired()], False),
        ([*left_by("client"), produce(**BATCH), fired()], True),
        ([*left_by("client", "dropped"), produce(**BATCH), fired()], True),
        ([*left_by("broker"), produce(**BATCH), fired()], False),
        ([CUT, *left_by("client"), produce(**BATCH), fired()], False),
        ([*sent_before("forwarded")[:2], produce(**BATCH), fired()], True),
        # Two copies with one correlation id: which one it met nobody can tell.
        ([*sent_before("forwarded", number=1), produce(**BATCH), answered(), fired()], True),
        ([produce("hello"), answered(), fired()], True),
        ([produce(None), answered(), fired()], True),  # more records than are read
        ([produce(None, values="[null]"), answered(), fired()], True),
        ([produce(records=0), answered(), fired()], True),
        ([produce(topic="other-orders"), fired("drop_request")], True),
        ([init(1), produce(**GIVEN), answered(), fired()], False),
        ([init(1), init(2, 5), produce(**GIVEN), fired("drop_request")], True),
        ([init(1), init(2, 11), produce(**GIVEN), fired("drop_request")], False),
        ([produce(**GIVEN), fired("drop_request")], True),
        ([init(1), produce(**GIVEN), end(), fired(api="EndTxn")], False),
        ([init(1), produce("x", **GIVEN), end(), fired(api="EndTxn")], True),
        # An end of offsets alone, after one that took the orders back; and an end asked for again.
        ([init(1), produce(**GIVEN), *ended(None), last(), fired(api="EndTxn")], True),
        ([init(1), produce(**GIVEN), *ended(REFUSED), last(), fired(api="EndTxn")], False),
        ([init(1), produce(**GIVEN), end("False"), fired(api="EndTxn")], True),
        ([init(1), end(), fired(api="EndTxn")], True),
        ([init(1), replace(offsets(), at_ns=9), end(), fired(api="EndTxn")], True),
        ([init(1), offsets(), fired(api="TxnOffsetCommit")], False),
        ([init(1), offsets(), later(produce(**GIVEN)), fired(api="TxnOffsetCommit")], False),
        ([init(1), offsets(), later(produce()), fired(api="TxnOffsetCommit")], True),
        # Also of those that are not looked at.
        (many_times(400, produce(acks="7"), fired()), True),
    ],
)  # fmt: skip
def test_a_fault_meets_an_order(rows: list[Event], *, is_spent: bool) -> None:
    """A fault is spent on what the broker refuses, on other topics, and on what is no order."""
    for trial in (Trial(name="t"), Trial(name="t", filled=True)):
        evidence = Evidence(trial=trial, orders=("0", "1"), rows=tuple(rows))

        assert is_spent == was_spent(evidence)


def steps(rows: list[Event]) -> int:
    """How many instructions it takes to say whether a fault was spent; no clock is asked."""
    number = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal number
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        number += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        was_spent(Evidence(trial=Trial(name="t"), orders=("0", "1"), rows=tuple(rows)))
    finally:
        sys.settrace(before)
    return number


MANY: dict[str, Callable[[int], list[Event]]] = {
    "transactions that were not ended": lambda number: [
        init(1), produce(**GIVEN), end(), *ended(REFUSED),
        *many_times(number, *(replace(row, at_ns=5) for row in ended(REFUSED)[-2:])),
        fired(api="EndTxn"),
    ],
    "copies of a batch": lambda number: [
        init(1), produce(**BATCH), *sent_before("dropped"),
        *many_times(number, *(replace(row, at_ns=5) for row in sent_before("dropped")[-2:])),
        fired(),
    ],
    # As of a fault that is to fire at each request.
    "faults that fired": lambda number: many_times(number, produce(acks="7"), fired()),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_a_great_many_requests(name: str) -> None:
    """Four times as many take four times as long: a judge that is held up grades nobody else."""
    assert steps(MANY[name](400)) < 5 * steps(MANY[name](100))


def exchange(value: str) -> list[Event]:
    """An order that is sent and acked."""
    return [replace(row, correlation_id=int(value)) for row in (produce(value), answered())]


def acked(number: int) -> list[Event]:
    return [row for each in range(number) for row in exchange(str(each))]


def commits(number: int, api: str = "OffsetCommit") -> list[Event]:
    return [wire(kind, api, 1, 100 + each) for each in range(number)
            for kind in ("request", "response")]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "rows"),
    [
        ("after_poll", [wire("response", "Fetch", 1, 1)]),  # to have polled is to have fetched
        ("after_send", acked(1)),
        ("after_ack", acked(2)),
        ("after_process", acked(2)),
        ("before_process", acked(1)),
        ("before_commit", acked(2)),
        ("while_committing", commits(2)),
        ("after_commit", commits(2, "EndTxn")),
        ("after_send_offsets", commits(2, "TxnOffsetCommit")),
    ],
)
def test_a_process_dies_at_its_work(at: str, rows: list[Event]) -> None:
    """A process that comes to a point for the second time has done the first; else it says so."""
    fault = crash_client(at, nth=2)

    assert not_done(fault, rows, writes=True) is None
    lacking = not_done(fault, rows[2:], writes=True) or ""
    assert f"a process came to {at} 2 times" in lacking


def test_an_abort_is_no_commit() -> None:
    """A process that has aborted twice has not committed twice."""
    rows = [wire(kind, "EndTxn", 1, each, detail={"committed": "False"})
            for each in range(2) for kind in ("request", "response")]  # fmt: skip

    for at in ("while_committing", "after_commit"):
        assert "0 commits" in (not_done(crash_client(at, nth=2), rows, writes=True) or "")


@pytest.mark.parametrize(
    ("at", "rows", "words"),
    [
        ("after_ack", [*exchange("1"), *exchange("2")], ""),
        ("after_ack", [*exchange("1"), *exchange("1")], "0 were acked, not 1"),
        ("after_send", [*exchange("1"), *exchange("2")], ""),
        ("after_send", exchange("1"), "0 were sent, not 1"),
    ],
)
def test_a_point_of_one_order(at: str, rows: list[Event], words: str) -> None:
    """What others have left behind is nothing of this order's."""
    lacking = not_done(crash_client(at, value="2"), rows, writes=True) or ""

    assert words in lacking
    assert bool(words) == (f"a process came to {at} with order 2, and" in lacking)


def consumer(kind: str, api: str, at_ns: int) -> Event:
    return replace(wire(kind, api, at_ns, at_ns), actor="consumer-1")


COORDINATOR = (
    consumer("request", "FindCoordinator", 5), consumer("response", "FindCoordinator", 6),
    consumer("request", "Metadata", 7),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (COORDINATOR, "consumer-1"),
        ((*COORDINATOR, consumer("request", "JoinGroup", 8)), None),
        # Who is assigned by hand asks for offsets, and joins nobody.
        ((*COORDINATOR, consumer("request", "OffsetFetch", 8)), None),
        ((*COORDINATOR, crashed(9)), None),
        ((crashed(1), *COORDINATOR), "consumer-1"),
        (COORDINATOR[:1], None),
    ],
)
def test_client_that_hung(rows: tuple[Event, ...], name: str | None) -> None:
    """A consumer of the last process that has its coordinator and wants nothing of it."""
    assert name == hung(Evidence(trial=Trial(name="t"), orders=(), rows=rows))


def died(point: str, value: str = "") -> Event:
    detail = {"point": point} | ({"value": value} if value else {})
    return replace(crashed(30), detail=detail)


def committed(offset: int, at_ns: int = 20) -> Event:
    return wire("request", "OffsetCommit", at_ns, 3, topic="r-orders", partition=0, offset=offset)


def told(**detail: str) -> Event:
    return wire("response", "OffsetCommit", 25, 3, topic="r-orders", partition=0, detail=detail)


ABORT = replace(end("False"), at_ns=15)


@pytest.mark.parametrize(
    ("rows", "committed_with"),
    [
        # The bookmark is before order 1, or after it; or it was set in an earlier life.
        ((committed(1), died("after_ack", "1")), ""),
        ((committed(2), died("after_ack", "1")), "OffsetCommit"),
        ((replace(committed(2), topic=None, offset=None), died("after_ack", "1")), "OffsetCommit"),
        ((committed(2), replace(died("after_ack", "1"), at_ns=19)), ""),
        ((committed(2), replace(died("after_poll"), at_ns=21), died("after_ack", "1")), ""),
        # Its record was committed in a transaction; or another one was, or it was aborted before.
        ((produce("1", **GIVEN), last(), died("before_commit", "1")), "EndTxn"),
        ((produce("0", **GIVEN), last(), died("before_commit", "1")), ""),
        ((produce("1", **GIVEN), ABORT, last(), died("before_commit", "1")), ""),
        # After a commit one API has committed it, and no further one.
        ((produce("1", **GIVEN), last(), died("after_commit", "1")), ""),
        ((produce("1", **GIVEN), last(), committed(2, 22), died("after_commit", "1")),
         "EndTxn and OffsetCommit"),
        # While it commits its answer is on the way; of which order is not asked.
        ((committed(2), died("while_committing")), ""),
        ((committed(2), told(released_at_ns="40"), died("while_committing")), ""),
        ((committed(2), replace(told(), fate="dropped"), died("while_committing")), ""),
        ((committed(2), told(), died("while_committing")), "OffsetCommit"),
        ((committed(2), died("after_ack")), ""),
    ],
)  # fmt: skip
def test_who_says_late_where_it_is(rows: tuple[Event, ...], committed_with: str) -> None:
    """A process that is killed before a commit has not asked for it yet, and is told if it has."""
    given = [
        Event(run="r", source="log", actor="reader", kind="record", topic="r-orders", partition=0,
              offset=offset, value=str(offset))
        for offset in range(3)
    ]  # fmt: skip
    trial = Trial(name="t", filled=True)
    found = Evidence(trial=trial, orders=("0", "1", "2"), rows=(*given, *rows))

    said = gone_on(found) or ""

    assert bool(committed_with) == bool(said)
    assert not said or re.search(rf"committed (order 1|its batch) with {committed_with} when", said)


def test_a_database_that_is_opened_otherwise() -> None:
    """Effects without a point at which they were written: the sentence says what has points."""
    trial = Trial(name="it", faults=(crash_client("after_db_write", nth=3),))
    booked = Event(run="r", source="sink", actor="bookings", kind="effect", value="0", records=1)
    said = [weakness(Evidence(trial=trial, orders=(), rows=it)) or "" for it in ((booked,), ())]

    assert [True, False] == [each.endswith("run.database() come to its points.") for each in said]


def test_requests_of_many_orders() -> None:
    """The sentence is right for who sets it, and for who makes a client of their own without it."""
    rows = (
        Event(run="r", source="fault", actor="refuse", kind="unfired"),
        wire("request", "Produce", 1, 1, records=6),
    )
    said = weakness(Evidence(trial=Trial(name="it"), orders=(), rows=rows)) or ""

    assert said.endswith("batch.num.messages must be 1, as run.producer() has it.")


@pytest.mark.parametrize("api", ["OffsetCommit", "TxnOffsetCommit"])
def test_commits_of_many_orders(api: str) -> None:
    """Who commits all orders at once comes to no later commit, at which a process is to die."""
    kills = tuple(crash_client("after_commit", nth=number) for number in (1, 2, 3))
    unfired = Event(run="r", source="fault", actor="refuse", kind="unfired")

    def said(*ends: int, faults: tuple[Any, ...] = kills, rows: tuple[Event, ...] = ()) -> str:
        commits = (
            wire("request", api, end, 1, topic="r-orders", partition=0, offset=end) for end in ends
        )
        trial = Trial(name="it", filled=True, faults=faults)
        return weakness(Evidence(trial=trial, orders=(), rows=(*rows, *commits))) or ""

    told = "was about 8 orders, and so there were too few. Commit after two orders at most."
    assert [True, True, False, False, False] == [
        each.endswith(told)
        for each in (
            said(2, 10), said(8, faults=(), rows=(unfired,)), said(2, 4, 6, 8),
            said(2, 4, 6, 8, faults=(), rows=(unfired,)), said(8, faults=kills[:1]),
        )
    ]  # fmt: skip
