"""Orders by offset: a row for each produce(), a cell for each record."""

from __future__ import annotations

import pytest

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History
from lab_utils.views.orders import CALLS_LIMIT, Cell, grid_of, orders_by_offset, told
from tests.views import histories
from tests.views.histories import TOPIC, acked, event, log, sent, unknown


def cells(rows: list[Event]) -> list[Cell]:
    return grid_of(rows).cells


def test_calm_run_is_a_diagonal() -> None:
    """Each order is one column further than the one before."""
    diagonal = [(0, 0, "0"), (1, 1, "1"), (2, 2, "2")]

    assert diagonal == [(it.row, it.column, it.text) for it in cells(histories.calm())]


def test_duplicate_is_two_cells_in_a_row() -> None:
    """An order that is stored twice has two cells, and its neighbours have one."""
    found = cells(histories.lost_answer())

    assert [(2, 2), (2, 3)] == [(it.row, it.column) for it in found if it.outcome == "twice"]


def test_acked_and_nowhere_stands_in_the_margin() -> None:
    """A lost order has a mark beyond all offsets."""
    found = cells(histories.hole())

    assert ("lost", 0) == (found[0].outcome, found[0].row)
    assert found[0].column > max(cell.column for cell in found[1:])


ACKED = [sent(0, "0"), acked(1, "0", 0)]
OUTCOMES = {
    "a log that was not read to its end shows no loss": (ACKED, []),
    "stored, and the report does not know": ([sent(0, "0"), unknown(1, "0"), *log("0")],
                                             ["unacked"]),
    "a record that nobody sent": ([*ACKED, *log("0", "x")], ["once", "foreign"]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcome(rows: list[Event], expected: list[str]) -> None:
    """What was sent, reported and stored decides what a cell is."""
    assert expected == [cell.outcome for cell in cells(rows)]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ([sent(1, "0", attempt=2), acked(2, "0", 1), acked(3, "0", 0)],
         [("acked, offset 1", [1]), ("acked, offset 0", [0])]),
        ([event(1, "workload", "lab", "crashed"), sent(2, "0", attempt=2), acked(3, "0", 1)],
         [("no report", [0]), ("acked, offset 1", [1])]),
    ],
    ids=["each has the record that its report names", "a crash ends the wait for a report"],
)  # fmt: skip
def test_report_says_which_record_is_whose(between: list[Event], expected: list[object]) -> None:
    """Of two calls with one value: what each was told, and which record it has."""
    calls = History([sent(0, "0"), *between, *log("0", "0")]).calls

    assert expected == [(told(call), [row.offset for row in call.copies]) for call in calls]


def test_partitions_stand_side_by_side() -> None:
    """Each partition has its own offsets, with a column between."""
    rows = [sent(0, "0"), sent(1, "1"), *log("0"), *log("1", partition=1)]

    assert {(TOPIC, 0, 0): 0, (TOPIC, 1, 0): 2} == grid_of(rows).columns


def test_topics_stand_side_by_side() -> None:
    """A value in two topics is two orders, each with its own column."""
    there = event(
        2, "log", "reader", "record", topic="03-b-words", partition=0, offset=0, value="0"
    )
    rows = [*ACKED, *log("0"), there]

    assert [("once", 0), ("foreign", 2)] == [(it.outcome, it.column) for it in cells(rows)]
    assert {"orders-0", "words-0"} <= {
        note.text for note in orders_by_offset(rows).figure.layout.annotations
    }


def test_marker_takes_an_offset() -> None:
    """A transaction marker has a cell in a row of its own."""
    place = {"topic": TOPIC, "partition": 0, "offset": 1}
    commit = event(2, "log", "broker-1", "marker", detail={"type": "COMMIT"}, **place)
    marker = cells([*ACKED, *log("0"), commit])[-1]

    assert ("marker", 1, 1, "C") == (marker.outcome, marker.column, marker.row, marker.text)


def test_long_run_is_shown_around_what_stands_out() -> None:
    """Of many calls those around the first odd one are shown, and the summary says so."""
    values = [str(number) for number in range(100)]
    rows = [row for at, it in enumerate(values) for row in (sent(at, it), acked(at + 0.5, it, at))]
    picture = orders_by_offset([*rows, *log(*values, "60")])

    assert "Calls 53 to 92 are shown. Order 60 is at offsets 60 and 100" in picture.summary
    assert CALLS_LIMIT == len(grid_of([*rows, *log(*values, "60")]).calls)


def test_table_has_every_call() -> None:
    """The table beside the picture says of each call where it is and what was told."""
    picture = orders_by_offset(histories.lost_answer())

    assert ("2", 1, "0", "2, 3", "acked, offset 3") == picture.table.rows[2]
    assert {2} == picture.table.marked
