"""The cost of transactions as a picture: every measurement, and a line through the medians."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.views import palette
from lab_utils.views.picture import Picture
from lab_utils.views.table import Table
from lab_utils.views.wording import title_lines

HEIGHT_PX: Final = 390
COLUMNS: Final = (
    "mode", "measurements", "records/s, least", "median", "most", "ms a transaction, median",
)  # fmt: skip

Measurement = Mapping[str, Any]


def cost_picture(measured: Iterable[Measurement]) -> Picture:
    """Records a second by mode; reads mode, records_a_second and ms_a_transaction."""
    by_mode: dict[str, list[Measurement]] = defaultdict(list)
    for each in measured:
        by_mode[each["mode"]].append(each)
    rates = {mode: [each["records_a_second"] for each in some] for mode, some in by_mode.items()}
    title = _title(rates)
    summary = " ".join(
        f"{mode}: {median(some):,.0f} records a second, {min(some):,.0f} to {max(some):,.0f}."
        for mode, some in rates.items()
    )
    return Picture(title, _figure(rates, title), summary, _table(by_mode, rates))


def _title(rates: Mapping[str, Sequence[float]]) -> str:
    medians = {mode: median(some) for mode, some in rates.items()}
    best, least = max(medians, key=lambda it: medians[it]), min(medians, key=lambda it: medians[it])
    return (
        f"{best}: {medians[best]:,.0f} records a second; {least}: {medians[least]:,.0f} "
        f"({medians[best] / medians[least]:,.0f} times fewer)"
    )


def _figure(rates: Mapping[str, Sequence[float]], title: str) -> Figure:
    points = [(mode, rate) for mode, some in rates.items() for rate in some]
    figure = Figure(
        [
            Scatter(
                x=list(rates), y=[median(some) for some in rates.values()], mode="lines",
                name="median", line={"color": palette.GREY, "width": 1.6},
            ),
            Scatter(
                x=[mode for mode, _ in points], y=[rate for _, rate in points], mode="markers",
                name="one measurement", hovertemplate="%{x}: %{y:,.0f} records/s<extra></extra>",
                marker={"color": palette.BLUE, "symbol": "circle-open", "size": 9},
            ),
        ]
    )  # fmt: skip
    figure.update_layout(
        palette.layout(title_lines(title), HEIGHT_PX),
        margin={"l": 80, "r": 16, "t": 70, "b": 88},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom"},
        xaxis={"fixedrange": True, "ticks": "outside", "tickangle": 0, "tickfont": {"size": 11},
               "tickvals": list(rates),
               "ticktext": [mode.replace(" in a ", "<br>in a ") for mode in rates]},
        yaxis={"type": "log", "title": {"text": "records a second"}, "fixedrange": True,
               "gridcolor": palette.PALE, "dtick": 1},
    )  # fmt: skip
    return figure


def _table(
    by_mode: Mapping[str, Sequence[Measurement]], rates: Mapping[str, Sequence[float]]
) -> Table:
    rows = []
    for mode, some in by_mode.items():
        each_ms = [it["ms_a_transaction"] for it in some if it["ms_a_transaction"] is not None]
        rate = rates[mode]
        rows.append(
            (mode, len(some), f"{min(rate):,.0f}", f"{median(rate):,.0f}", f"{max(rate):,.0f}",
             f"{median(each_ms):.1f}" if each_ms else "")
        )  # fmt: skip
    return Table(COLUMNS, rows, "Records a second, by how many share a transaction.")
