"""The transaction timeline: its finding, its words, its table, and what is drawn where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab_utils.ledger.events import Event
from lab_utils.views.transaction_timeline import BAR, MARKS, OPEN, scene, transaction_timeline
from tests.views.histories import TOPIC, event
from tests.views.transaction_histories import (
    MS,
    WALL_MS,
    asked,
    commit_and_abort,
    left_open,
    marker,
    sent,
    stop,
    stored,
    torn,
    txn,
    wrote,
)

TITLES = [
    (
        torn(),
        "producer-1 was told that transaction 2 was aborted: order 1 can be read, order 2 cannot",
    ),
    (
        [*(row for row in torn() if row.kind != "txn_aborted"), txn(22, "failed", 2, error="_X")],
        "producer-1 was told of _X in transaction 2: order 1 can be read, order 2 cannot",
    ),
    (
        [row for row in torn() if row.kind != "txn_aborted"],
        "producer-1 was never told how transaction 2 ended: order 1 can be read, order 2 cannot",
    ),
    (
        [txn(2, "began"), sent(3, "0"), *stored(5, "0", 0), wrote(7, "PrepareCommit"),
         txn(8, "committed"), marker(1208, "COMMIT", 1), wrote(1209, "CompleteCommit"), stop(2, 2)],
        "producer-1 was told that transaction 1 was committed; readers of orders-0 waited 1,200 ms "
        "more",
    ),
    (left_open(), "An open transaction holds back the readers of orders-0"),
    (
        [*commit_and_abort(), txn(9, "failed", error="_FENCED")],
        "producer-1 was told that it is fenced",
    ),
    (
        [txn(9, kind, 1, actor, error="_FENCED") for actor in ("producer-1", "producer-2")
         for kind in ("began", "failed")],
        "producer-1 and producer-2 were told that they are fenced",
    ),
]  # fmt: skip


def traces(rows: list[Event]) -> dict[str, list[object]]:
    """What the legend names, with the columns of its points."""
    return {trace.name: list(trace.x) for trace in transaction_timeline(rows).figure.data}


def written(rows: list[Event]) -> list[str]:
    return [str(text.text) for text in transaction_timeline(rows).figure.layout.annotations]


@pytest.mark.parametrize(("rows", "title"), TITLES)
def test_title_is_the_finding(rows: list[Event], title: str) -> None:
    """What is worst is said: who waits, what is torn, who was fenced."""
    assert title == transaction_timeline(rows).title


def test_summary_names_transactions_that_ended_alike_together() -> None:
    """Each ending has one sentence, and so has each partition where a reader stops early."""
    again = [
        txn(time, kind, number)
        for number in (2, 3)
        for time, kind in ((5 + number, "began"), (6 + number, "committed"))
    ]
    said = transaction_timeline([*left_open(), *again]).summary

    assert said == (
        "producer-1 was never told how transaction 1 ended. producer-1 was told that transactions "
        "2 and 3 were committed. In orders-0 a read_committed reader stops at offset 0 of 2."
    )


def test_table_has_each_record_and_marker() -> None:
    """Every offset of the log, and who is given it."""
    assert [
        ("orders-0", 0, "0", "every reader"),
        ("orders-0", 1, "COMMIT", "nobody"),
        ("orders-0", 2, "1", "read_uncommitted"),
        ("orders-0", 3, "ABORT", "nobody"),
    ] == list(transaction_timeline(commit_and_abort()).table.rows)


def test_each_kind_is_drawn() -> None:
    """The legend names records, markers and ends."""
    assert {style.name for style in MARKS.values() if "error" not in style.name} <= set(
        traces(commit_and_abort())
    )


def test_a_transaction_without_an_end_has_its_own_line() -> None:
    """The legend names how it is drawn, and the other way only where it is drawn so."""
    for rows, named, other in ((left_open(), OPEN, BAR), (commit_and_abort(), BAR, OPEN)):
        drawn = {shape.line.dash for shape in transaction_timeline(rows).figure.layout.shapes
                 if shape.line.width == named.width}  # fmt: skip

        assert {named.dash} == drawn
        assert named.name in traces(rows)
        assert other.name not in traces(rows)


@pytest.mark.parametrize(
    ("rows", "waits"),
    [
        (commit_and_abort(), [(0, 5, 9.5), (2, 15, 19.5)]),
        ([txn(2, "began"), *stored(5, "0", 0), *stored(6, "1", 1), wrote(7, "Ongoing"),
          marker(9, "COMMIT", 2)], [(0, 5, 9.5)]),
        (left_open(), [(0, 5, None)]),
    ],
    ids=["to the marker", "a second record does not move it", "to the end of the picture"],
)  # fmt: skip
def test_readers_wait_from_the_first_record(rows: list[Event], waits: list[object]) -> None:
    """The last stable offset stands at the first record of the open transaction."""
    assert waits == [
        (it.offset, it.from_ns / MS, it.to_ns and it.to_ns / MS) for it in scene(rows).waits
    ]


def test_request_decision_markers_end() -> None:
    """Whatever the clocks say: the last entry is dated before its markers are written."""
    end = replace(asked(7.6, "EndTxn", committed=True), producer_id=1)
    of = scene([
        txn(2, "began"), wrote(4, "Ongoing"), *stored(5, "0", 0), end, wrote(7, "PrepareCommit"),
        wrote(8, "CompleteCommit"), marker(7, "COMMIT", 1), marker(12, "COMMIT", 0, partition=1),
        wrote(12, "Ongoing", epoch=1),
    ])  # fmt: skip

    (request,), entries = of.asks, {row.detail["state"]: row.at_ns for row in of.entries[:-1]}
    markers = sorted(mark.at_ns for mark in of.marks if mark.is_marker)
    sequence = [request.at_ns, entries["PrepareCommit"], *markers, entries["CompleteCommit"]]
    assert sequence == sorted(set(sequence))
    assert entries["CompleteCommit"] < of.entries[-1].at_ns


def test_records_that_were_there_before_stay_where_they_are() -> None:
    """The topic that is read was filled at once; that its offset 1 is committed moves no record."""
    place = {"topic": TOPIC, "partition": 0}
    times = {"timestamp_ms": str(WALL_MS)}
    filled = [
        event(900, "log", "reader", "record", value=str(it), offset=it, detail=times, **place)
        for it in range(3)
    ]
    answers = [event(8, "wire", "consumer-1", "response", api="OffsetCommit", offset=1, **place)]
    rows = [*filled, *answers, wrote(9, "Empty")]
    (drawn,) = [it for it in transaction_timeline(rows).figure.data if "read_un" in it.name]

    assert [0, 0, 0] == [mark.at_ns for mark in scene(rows).marks]
    assert ("0 to 2", "", "") == drawn.text


def test_open_transaction_has_no_end() -> None:
    """Its program was told nothing."""
    assert [None] == [span.end for span in scene(left_open()).spans]


def test_late_request_arrives_when_it_was_sent_on() -> None:
    """The late EndTxn has a line of its own, that ends in the next transaction."""
    shown = scene(torn())
    start, end, _ = traces(torn())["EndTxn that was late"]

    assert (shown.time.column(6 * MS), shown.time.column(16 * MS)) == (start, end)
    assert "commit, late" in written(torn())


def test_states_of_the_coordinator_are_written() -> None:
    """What the coordinator wrote stands below its lane, with the epoch where it is new."""
    states = ["Empty, epoch 0", "Ongoing", "PrepareCommit", "CompleteCommit"]

    assert states == [text for text in written(commit_and_abort()) if text in states][:4]
