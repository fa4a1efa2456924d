"""The picture of what transactions cost."""

from __future__ import annotations

from lab_utils.views.cost import cost_picture

MEASURED = [
    {"mode": mode, "records_a_second": rate, "ms_a_transaction": each_ms}
    for mode, rates, each_ms in (
        ("idempotent", (500_000, 600_000, 700_000), None),
        ("1 in a transaction", (300, 400, 350), 2.8),
    )
    for rate in rates
]


def test_title_says_how_many_times() -> None:
    """The title compares the medians of the fastest and the slowest."""
    title = "idempotent: 600,000 records a second; 1 in a transaction: 350 (1,714 times fewer)"

    assert title == cost_picture(MEASURED).title


def test_table_has_the_spread() -> None:
    """Least, median and most of each mode; a time only where there is a transaction."""
    assert [
        ("idempotent", 3, "500,000", "600,000", "700,000", ""),
        ("1 in a transaction", 3, "300", "350", "400", "2.8"),
    ] == list(cost_picture(MEASURED).table.rows)


def test_every_measurement_is_a_point() -> None:
    """A median hides nothing: all six measurements are drawn."""
    _, points = cost_picture(MEASURED).figure.data

    assert 6 == len(points.y)
