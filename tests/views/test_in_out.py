"""In and out: exactly once is what both read_committed readers say."""

from __future__ import annotations

import pytest

from lab_utils.views.in_out import READERS, in_and_out, in_out, sinks
from tests.histories import effect, in_run
from tests.views.consuming_histories import had, orders, out

EXACT = out(seen="01", visible="01", written="011")


def test_out_equals_in() -> None:
    """Each order once to both readers; what was aborted is in the log, and counts for neither."""
    found = in_out(EXACT, "invoices")

    assert found.is_equal
    assert found.repeated("in the log") == ["1"]
    assert found.title().endswith(". Order 1 is there again for a read_uncommitted reader")
    assert not in_and_out(EXACT, "invoices").table.marked


@pytest.mark.parametrize(
    ("seen", "visible", "missing", "repeated", "marked"),
    [
        ("01", "0", ["1"], [], {1}),
        ("0", "01", [], [], {1}),
        ("011", "011", [], ["1"], {1}),
        ("00", "00", ["1"], ["0"], {0, 1}),
    ],
)
def test_not_equal(
    seen: str, visible: str, missing: list[str], repeated: list[str], marked: set[int]
) -> None:
    """One reader that has an order not once is enough."""
    found = in_out(out(seen, visible), "invoices")

    assert not found.is_equal
    assert (missing, repeated) == (found.missing(READERS[-1]), found.repeated(READERS[-1]))
    assert marked == found.table().marked


def test_an_order_that_was_aborted_is_not_missing_in_the_log() -> None:
    """The title says of an order that the final reader lacks whether it was ever written."""
    assert in_out(out("0", "0"), "invoices").title() == (
        "Order 1 is in invoices, but not for the final reader"
    )
    assert in_out(out("0", "0", "0"), "invoices").title() == "Order 1 is missing in invoices"


def test_without_transactions() -> None:
    """Where no transaction wrote, the final reader has what is in the log."""
    rows = [*orders("01"), *had("record", "011"), *had("seen", "011")]

    assert ["1"] == in_out(rows, "invoices").repeated("final reader")


def test_other_topics_are_left_alone() -> None:
    """The orders themselves are in, and not out."""
    others = [row for kind in ("record", "seen", "visible") for row in had(kind, "01", "orders")]

    assert in_out(EXACT, "invoices") == in_out([*EXACT, *others], "invoices")


def test_drawn() -> None:
    """A cell for each order and reader, in the style of how often."""
    figure = in_and_out(EXACT, "invoices").figure
    cells = {trace.name: list(zip(trace.x, trace.y, strict=True)) for trace in figure.data}

    assert cells["more than once"] == [(1, 1)]
    assert len(cells["once"]) == 7


def test_sinks() -> None:
    """A column for each topic but that of the orders, then one for each sink."""
    table = sinks(
        [*out("", "", "0"), *in_run("06-a", [effect("0"), effect("1", 2), effect("1", 1, "files")])]
    )

    assert ("order", "topic invoices", "bookings", "files") == tuple(table.columns)
    assert [("0", 1, 1, 0), ("1", 0, 2, 1)] == list(table.rows)
