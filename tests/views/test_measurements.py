"""Pictures of measurements: every one is a dot, and the median is a line."""

from __future__ import annotations

from lab_utils.views.measurements import cost_picture, spread
from lab_utils.views.picture import PLOTLY

ACKS = [
    {"acks": acks, "messages_per_s": rate, "latency_ms": ms}
    for acks, rate, ms in (
        ("all", 600, 4.0), ("all", 700, 3.0), ("all", 800, 9.0),
        (1, 750, 1.0), (1, 900, 1.2), (1, 950, 1.4),
        (0, 3000, 0.02), (0, 4000, 0.03), (0, 5000, 0.04),
    )
]  # fmt: skip
COSTS = [
    {"mode": mode, "records_a_second": rate, "ms_a_transaction": each_ms}
    for mode, rates, each_ms in (
        ("idempotent", (500_000, 600_000, 700_000), None),
        ("1 in a transaction", (300, 400, 350), 2.8),
    )
    for rate in rates
]


LAYOUT = spread(ACKS).figure.to_plotly_json()["layout"]


def test_every_measurement_is_a_dot() -> None:
    """No measurement is left out, of either panel or of either picture."""
    traces = spread(ACKS).bundle()[PLOTLY]["data"]

    assert [9, 9] == [
        sum(len(trace["x"]) for trace in traces if trace["xaxis"] == axis) for axis in ("x", "x2")
    ]
    assert 6 == len(cost_picture(COSTS).figure.data[1].y)


def test_median_is_a_line() -> None:
    """The middle of three measurements is a line across the dots."""
    lines = [line["x0"] for line in LAYOUT["shapes"] if line["xref"] == "x"]

    assert [4000, 900, 700] == lines
    assert (600_000, 350) == cost_picture(COSTS).figure.data[0].y


def test_far_apart_is_drawn_in_powers_of_ten_and_says_so() -> None:
    """A latency that is a hundred times another's is not squeezed into one dot at zero."""
    axes = [LAYOUT[name] for name in ("xaxis", "xaxis2")]

    assert ["linear", "log"] == [axis["type"] for axis in axes]
    assert "powers of ten" in axes[1]["title"]["text"]


def test_minus_one_is_all() -> None:
    """The wire's name of acks=all is the same setting."""
    rows = [{**ACKS[0], "acks": acks} for acks in (-1, "-1", "all")]

    assert ["all"] * 3 == [row[0] for row in spread(rows).table.rows]


def test_hostile_setting() -> None:
    """A setting that is markup is shown and never interpreted."""
    picture = spread([{**ACKS[0], "acks": "<b>$x"}])

    assert "<b>$x" not in str(picture.bundle()[PLOTLY]) + picture._repr_html_()


def test_table_has_the_spread() -> None:
    """Least, median and most of each mode; a time only where there is a transaction."""
    assert [
        ("idempotent", 3, "500,000", "600,000", "700,000", ""),
        ("1 in a transaction", 3, "300", "350", "400", "2.8"),
    ] == list(cost_picture(COSTS).table.rows)
