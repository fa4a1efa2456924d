"""What acks cost: throughput and latency of every measurement as a dot, with the median.

A dot is one measurement, so that what varies is seen to vary; nothing is smoothed or left out. It
draws what it is given and measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from statistics import median
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture
from lab_utils.views.table import Table
from lab_utils.views.wording import counted, in_picture, listed, shown, title_lines

ROW_PX: Final = 74
WIDE: Final = 20  # times: what lies further apart is drawn on a scale of powers of ten
ORDER: Final = ("0", "1", "all")
STYLES: Final = (
    Style("acks=0", palette.ORANGE, symbol="triangle-up"),
    Style("acks=1", palette.BLUE, symbol="circle"),
    Style("acks=all", palette.GREEN, symbol="square"),
)
PANELS: Final = (("messages_per_s", "messages per second", "x", (0.0, 0.47)),
                 ("latency_ms", "latency in milliseconds", "x2", (0.53, 1.0)))  # fmt: skip

Drawn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """All measurements of one setting of acks."""

    acks: str
    values: Mapping[str, Sequence[float]]

    @property
    def style(self) -> Style:
        """How its dots look."""
        return STYLES[ORDER.index(self.acks) if self.acks in ORDER else -1]

    def told(self, name: str) -> str:
        """The median and the range of one panel."""
        values = self.values[name]
        low, high = min(values), max(values)
        return f"{number(median(values))} ({number(low)} to {number(high)})"


def spread(measurements: Sequence[Mapping[str, Any]]) -> Picture:
    """Throughput and latency by acks, drawn: each measurement a dot, and the median.

    Keys of a measurement: acks (0, 1 or "all"), messages_per_s, latency_ms.
    """
    groups = _groups(measurements)
    title = _title(groups)
    return Picture(title, _figure(groups, title), _summary(groups), _table(groups))


def number(value: float) -> str:
    """A number as a reader wants it.

    >>> number(12345.6), number(61.26), number(0.1234)
    ('12,346', '61.3', '0.12')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _groups(measurements: Sequence[Mapping[str, Any]]) -> list[Group]:
    """By acks: 0, 1, all, then whatever else."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in measurements:
        acks = "all" if str(row["acks"]) == "-1" else str(row["acks"])
        values = found.setdefault(acks, {name: [] for name, *_ in PANELS})
        for name in values:
            values[name].append(float(row[name]))
    ranks = {name: rank for rank, name in enumerate(ORDER)}
    names = sorted(found, key=lambda name: (ranks.get(name, len(ORDER)), name))
    return [Group(name, found[name]) for name in names]


def _title(groups: Sequence[Group]) -> str:
    """The medians of the throughput, and whether the runs of neighbours overlap."""
    if not groups:
        return "No measurement to show"
    medians = [f"{number(median(it.values['messages_per_s']))} with acks={shown(it.acks, 12)}"
               for it in groups]  # fmt: skip
    said = f"Messages per second, in the median: {listed(medians)}"
    pairs = [pair for pair in pairwise(groups) if _overlap(*pair)]
    near = [f"acks={shown(a.acks, 12)} and acks={shown(b.acks, 12)}" for a, b in pairs]
    return f"{said}; the runs of {listed(near)} overlap" if near else said


def _overlap(one: Group, other: Group) -> bool:
    a, b = (group.values["messages_per_s"] for group in (one, other))
    return min(a) <= max(b) and min(b) <= max(a)


def _summary(groups: Sequence[Group]) -> str:
    return " ".join(
        f"acks={shown(it.acks)}: {counted(len(it.values['latency_ms']), 'measurement')}, "
        f"{it.told('messages_per_s')} messages per second, {it.told('latency_ms')} ms."
        for it in groups
    )


def _table(groups: Sequence[Group]) -> Table:
    rows = [
        (group.acks, number(rate), number(latency))
        for group in groups
        for rate, latency in zip(*(group.values[name] for name, *_ in PANELS), strict=True)
    ]
    return Table(("acks", "messages per second", "latency in ms"), rows, "Each measurement")


def _figure(groups: Sequence[Group], title: str) -> Figure:
    heading = title_lines(title)
    above = 58 + 23 * heading.count("<br>")
    traces = [trace for at, group in enumerate(groups) for trace in _dots(at, group)]
    figure = Figure(traces)
    figure.update_layout(
        palette.layout(heading, above + max(len(groups), 1) * ROW_PX + 66),
        showlegend=False,
        margin={"l": 104, "r": 24, "t": above, "b": 66},
        yaxis={"tickvals": list(range(len(groups))), "fixedrange": True, "zeroline": False,
               "ticktext": [f"acks={in_picture(it.acks, 12)}" for it in groups], "ticks": "",
               "range": [max(len(groups), 1) - 0.5, -0.6], "showgrid": False},
        shapes=[line for at, it in enumerate(groups) for line in _medians(at, it)],
        annotations=[text for at, _ in enumerate(groups) for text in _median_names(at, groups)],
        **{f"xaxis{axis[1:]}": _axis(name, title, domain, groups)
           for name, title, axis, domain in PANELS},
    )  # fmt: skip
    return figure


def _axis(name: str, title: str, domain: tuple[float, float], groups: Sequence[Group]) -> Drawn:
    is_log = _is_wide(name, groups)
    scale = ", powers of ten" if is_log else ""
    return {
        "title": {"text": f"{title}{scale}", "font": {"size": 12}}, "domain": domain,
        "type": "log" if is_log else "linear", "rangemode": "tozero", "fixedrange": True,
        "showgrid": True, "gridcolor": palette.PALE, "zeroline": False,
        "dtick": 1 if is_log else None, "nticks": 6, "tickformat": ",~g",
        "showline": True, "linecolor": palette.GREY,
    }  # fmt: skip


def _is_wide(name: str, groups: Sequence[Group]) -> bool:
    """Do the values lie so far apart that the small ones would be one dot at zero?"""
    middles = [median(group.values[name]) for group in groups]
    values = [value for group in groups for value in group.values[name]]
    return bool(values) and min(values) > 0 and max(middles) > WIDE * min(middles)


def _dots(at: int, group: Group) -> list[Scatter]:
    """Each measurement; those of one row are moved apart a little, in their order."""
    style = group.style
    return [
        Scatter(
            x=list(group.values[name]), y=[at + 0.1 * (n % 5 - 2) for n, _ in
                                           enumerate(group.values[name])],
            xaxis=axis, mode="markers", cliponaxis=False, hoverinfo="text",
            hovertext=[f"acks={in_picture(group.acks, 12)}: {number(value)} {title}"
                       for value in group.values[name]],
            marker={"symbol": style.symbol, "size": 9, "color": style.colour, "opacity": 0.75,
                    "line": {"width": 1, "color": palette.WHITE}},
        )
        for name, title, axis, _ in PANELS
    ]  # fmt: skip


def _medians(at: int, group: Group) -> list[Drawn]:
    return [
        {"type": "line", "xref": axis, "x0": (middle := median(group.values[name])), "x1": middle,
         "y0": at - 0.34, "y1": at + 0.34, "line": {"color": palette.BLACK, "width": 3}}
        for name, _, axis, _ in PANELS
    ]  # fmt: skip


def _median_names(at: int, groups: Sequence[Group]) -> list[Drawn]:
    group = groups[at]
    return [
        {"xref": axis, "x": _at(name, median(group.values[name]), groups), "y": at - 0.36,
         "yanchor": "bottom", "text": f"<b>{number(median(group.values[name]))}</b>",
         "showarrow": False, "font": {"size": 12, "color": palette.BLACK}}
        for name, _, axis, _ in PANELS
    ]  # fmt: skip


def _at(name: str, value: float, groups: Sequence[Group]) -> float:
    """Where an annotation stands: on a scale of powers of ten Plotly wants the power."""
    return log10(value) if _is_wide(name, groups) else value
