"""Measurements as pictures: what acks cost, and what transactions cost.

A dot is one measurement, so that what varies is seen to vary; nothing is smoothed or left out, and
the median is a line. They draw what they are given and measure nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log10
from statistics import median
from typing import Any, Final

from plotly.graph_objects import Scatter

from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Drawn, Picture, axis, figure, line, note, points, ticks
from lab_utils.views.tables import Table
from lab_utils.views.words import counted, in_picture, listed, shown

ROW_PX: Final = 74
WIDE: Final = 20  # times: what lies further apart is drawn on a scale of powers of ten
STYLES: Final = {
    "0": Style("acks=0", palette.ORANGE, symbol="triangle-up"),
    "1": Style("acks=1", palette.BLUE, symbol="circle"),
    "all": Style("acks=all", palette.GREEN, symbol="square"),
}
# Of each panel: its column, its title, its axis, and where it is.
PANELS: Final = (("messages_per_s", "messages per second", "x", (0.0, 0.47)),
                 ("latency_ms", "latency in milliseconds", "x2", (0.53, 1.0)))  # fmt: skip
MEASURED: Final = Style("one measurement", palette.BLUE, symbol="circle-open")

Measurement = Mapping[str, Any]
# By acks, and then by the column of a panel.
Groups = dict[str, dict[str, list[float]]]


def number(value: float) -> str:
    """A number as a reader wants it.

    >>> number(12345.6), number(61.26), number(0.1234)
    ('12,346', '61.3', '0.12')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def spread(measurements: Sequence[Measurement]) -> Picture:
    """Throughput and latency by acks, drawn: each measurement a dot, and the median.

    Keys of a measurement: acks (0, 1 or "all"), messages_per_s, latency_ms.
    """
    groups = _by_acks(measurements)
    names = [f"acks={in_picture(acks, 12)}" for acks in groups]
    summary = [
        f"acks={shown(acks)}: {counted(len(values['latency_ms']), 'measurement')}, "
        f"{_range(values['messages_per_s'])} messages per second, "
        f"{_range(values['latency_ms'])} ms."
        for acks, values in groups.items()
    ]
    rows = [
        (acks, number(rate), number(latency))
        for acks, values in groups.items()
        for rate, latency in zip(*(values[name] for name, *_ in PANELS), strict=True)
    ]
    table = Table(("acks", "messages per second", "latency in ms"), rows, "Each measurement")
    drawn = figure(
        _dots(groups), plot_px=max(len(groups), 1) * ROW_PX,
        margins=(104, 24, 58, 66), showlegend=False, notes=_median_names(groups),
        yaxis=axis(max(len(groups), 1) - 0.5, -0.6, **ticks(enumerate(names))),
        shapes=[line((middle, middle), (at - 0.34, at + 0.34), palette.BLACK, 3, xref=panel,
                     layer="above") for at, panel, _, middle in _medians(groups)],
        **{f"xaxis{panel[1:]}": _panel_axis(name, title, domain, groups)
           for name, title, panel, domain in PANELS},
    )  # fmt: skip
    return Picture(_title(groups), drawn, " ".join(summary), table)


def _by_acks(measurements: Sequence[Measurement]) -> Groups:
    """By acks: 0, 1, all, then the others."""
    found: Groups = {}
    for row in measurements:
        acks = "all" if str(row["acks"]) == "-1" else str(row["acks"])
        values = found.setdefault(acks, {name: [] for name, *_ in PANELS})
        for name in values:
            values[name].append(float(row[name]))
    ranks = {name: rank for rank, name in enumerate(STYLES)}
    return {acks: found[acks] for acks in sorted(found, key=lambda it: (ranks.get(it, 3), it))}


def _range(values: Sequence[float]) -> str:
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def _title(groups: Groups) -> str:
    """The medians of the throughput, and whether the runs of neighbours overlap."""
    if not groups:
        return "No measurement to show"
    rates = {f"acks={shown(acks, 12)}": it["messages_per_s"] for acks, it in groups.items()}
    medians = [f"{number(median(values))} with {acks}" for acks, values in rates.items()]
    near = [
        f"{a} and {b}"
        for (a, one), (b, other) in pairwise(rates.items())
        if min(one) <= max(other) and min(other) <= max(one)
    ]
    said = f"Messages per second, in the median: {listed(medians)}"
    return f"{said}; the runs of {listed(near)} overlap" if near else said


def _panel_axis(name: str, title: str, domain: tuple[float, float], groups: Groups) -> Drawn:
    is_log = _is_wide(name, groups)
    scale = ", powers of ten" if is_log else ""
    return {
        "title": {"text": f"{title}{scale}", "font": {"size": 12}}, "domain": domain,
        "type": "log" if is_log else "linear", "rangemode": "tozero", "fixedrange": True,
        "showgrid": True, "gridcolor": palette.PALE, "zeroline": False,
        "dtick": 1 if is_log else None, "nticks": 6, "tickformat": ",~g",
        "showline": True, "linecolor": palette.GREY,
    }  # fmt: skip


def _is_wide(name: str, groups: Groups) -> bool:
    """Do the values lie so far apart that the small ones would be one dot at zero?"""
    middles = [median(values[name]) for values in groups.values()]
    least = min((value for values in groups.values() for value in values[name]), default=0)
    return least > 0 and max(middles) > WIDE * min(middles)


def _dots(groups: Groups) -> Iterable[Scatter]:
    """Each measurement; those of one row are moved apart a little, in their sequence."""
    for at, (acks, values) in enumerate(groups.items()):
        for name, title, panel, _ in PANELS:
            about = [f"acks={in_picture(acks, 12)}: {number(it)} {title}" for it in values[name]]
            ys = [at + 0.1 * (n % 5 - 2) for n, _ in enumerate(values[name])]
            style = STYLES.get(acks, STYLES["all"])
            yield points(style, values[name], ys, about, size=9, xaxis=panel, opacity=0.75)


def _medians(groups: Groups) -> Iterable[tuple[int, str, str, float]]:
    """Of each row and panel: its number, its axis, its column and the median."""
    for at, values in enumerate(groups.values()):
        for name, _, panel, _ in PANELS:
            yield at, panel, name, median(values[name])


def _median_names(groups: Groups) -> Iterable[Drawn]:
    for at, panel, name, middle in _medians(groups):
        # On a scale of powers of ten Plotly wants the power.
        x = log10(middle) if _is_wide(name, groups) else middle
        yield note(x, at - 0.36, f"<b>{number(middle)}</b>", xref=panel, yanchor="bottom")


def cost_picture(measured: Iterable[Measurement]) -> Picture:
    """Records a second by how many share a transaction, drawn.

    Keys of a measurement: mode, records_a_second, ms_a_transaction.
    """
    by_mode: dict[str, list[Measurement]] = defaultdict(list)
    for each in measured:
        by_mode[each["mode"]].append(each)
    rates = {mode: [each["records_a_second"] for each in some] for mode, some in by_mode.items()}
    medians = {mode: median(some) for mode, some in rates.items()}
    best, least = max(medians, key=lambda it: medians[it]), min(medians, key=lambda it: medians[it])
    title = (
        f"{best}: {medians[best]:,.0f} records a second; {least}: {medians[least]:,.0f} "
        f"(about {medians[best] / medians[least]:,.0f} times slower)"
    )
    summary = " ".join(
        f"{mode}: {medians[mode]:,.0f} records a second, {min(some):,.0f} to {max(some):,.0f}."
        for mode, some in rates.items()
    )
    dots = [(mode, rate) for mode, some in rates.items() for rate in some]
    drawn = figure(
        [Scatter(x=list(medians), y=list(medians.values()), mode="lines", name="median",
                 line={"color": palette.GREY, "width": 1.6}),
         points(MEASURED, [mode for mode, _ in dots], [rate for _, rate in dots],
                [f"{mode}: {rate:,.0f} records/s" for mode, rate in dots], size=9)],
        plot_px=232, margins=(80, 16, 70, 88),
        xaxis={"fixedrange": True, "ticks": "outside", "tickangle": 0, "tickfont": {"size": 11},
               "tickvals": list(rates),
               "ticktext": [mode.replace(" in a ", "<br>in a ") for mode in rates]},
        yaxis={"type": "log", "title": {"text": "records a second"}, "fixedrange": True,
               "gridcolor": palette.PALE, "dtick": 1},
    )  # fmt: skip
    return Picture(title, drawn, summary, _cost_table(by_mode, rates))


def _cost_table(
    by_mode: Mapping[str, Sequence[Measurement]], rates: Mapping[str, Sequence[float]]
) -> Table:
    columns = ("mode", "measurements", "records/s, least", "median", "most",
               "ms a transaction, median")  # fmt: skip
    rows = []
    for mode, some in by_mode.items():
        each_ms = [it["ms_a_transaction"] for it in some if it["ms_a_transaction"] is not None]
        range_of = (min(rates[mode]), median(rates[mode]), max(rates[mode]))
        took = f"{median(each_ms):.1f}" if each_ms else ""
        rows.append((mode, len(some), *(f"{rate:,.0f}" for rate in range_of), took))
    return Table(columns, rows, "Records a second, by how many share a transaction.")
