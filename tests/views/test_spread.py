"""The spread: every measurement of acks 0, 1 and all is a dot, with the median."""

from __future__ import annotations

from typing import Any

from lab_utils.views.picture import PLOTLY
from lab_utils.views.spread import spread

ROWS = [
    {"acks": acks, "messages_per_s": rate, "latency_ms": ms}
    for acks, rate, ms in (
        ("all", 600, 4.0), ("all", 700, 3.0), ("all", 800, 9.0),
        (1, 750, 1.0), (1, 900, 1.2), (1, 950, 1.4),
        (0, 3000, 0.02), (0, 4000, 0.03), (0, 5000, 0.04),
    )
]  # fmt: skip


def layout(rows: list[dict[str, Any]]) -> dict[str, Any]:
    drawn: dict[str, Any] = spread(rows).figure.to_plotly_json()["layout"]
    return drawn


def test_title_has_the_medians_and_the_overlap() -> None:
    """The title says the medians, and which neighbours cannot be told apart."""
    expected = (
        "Messages per second, in the median: 4,000 with acks=0, 900 with acks=1 and 700 with "
        "acks=all; the runs of acks=1 and acks=all overlap"
    )
    assert expected == spread(ROWS).title


def test_every_measurement_is_a_dot() -> None:
    """No measurement is left out of either panel."""
    traces = spread(ROWS).bundle()[PLOTLY]["data"]

    assert [9, 9] == [
        sum(len(trace["x"]) for trace in traces if trace["xaxis"] == axis) for axis in ("x", "x2")
    ]


def test_median_is_a_line() -> None:
    """The middle of three measurements is a line across the dots."""
    lines = [line["x0"] for line in layout(ROWS)["shapes"] if line["xref"] == "x"]

    assert [4000, 900, 700] == lines


def test_far_apart_is_drawn_in_powers_of_ten_and_says_so() -> None:
    """A latency that is a hundred times another's is not squeezed into one dot at zero."""
    axes = [layout(ROWS)[name] for name in ("xaxis", "xaxis2")]

    assert ["linear", "log"] == [axis["type"] for axis in axes]
    assert "latency in milliseconds, powers of ten" == axes[1]["title"]["text"]


def test_minus_one_is_all() -> None:
    """The wire's name of acks=all is the same setting."""
    rows = [{**ROWS[0], "acks": acks} for acks in (-1, "-1", "all")]

    assert ["all"] * 3 == [row[0] for row in spread(rows).table.rows]


def test_nothing_was_measured() -> None:
    """No measurement has a picture, too."""
    assert "No measurement to show" == spread([]).title


def test_hostile_text() -> None:
    """A setting that is markup is shown and never interpreted."""
    picture = spread([{**ROWS[0], "acks": "<b>$x"}])

    assert "<b>$x" not in str(picture.bundle()[PLOTLY]["layout"]["yaxis"])
    assert "<b>$x" not in str([it.hovertext for it in picture.figure.data])
    assert "<b>$x" not in picture._repr_html_() + str(picture.figure.layout.title)
