"""The one frame of all pictures: a title that is a finding, a Plotly figure, words and a table.

JupyterLab draws the figure with the extension that comes in the plotly wheel, so nothing is
loaded from elsewhere; a page without JavaScript has it as SVG (static.py). The title stands above
it, where a narrow page wraps it, and the words and the table below, for anyone who cannot see the
figure or wants to check it. A view says what is where; what all figures share (legend, axes, marks,
notes, the axis of time) is here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log10
from statistics import median
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.views.palette import BLACK, FONT, GREY, WHITE, Style
from lab_utils.views.picture.static import WIDTH, as_svg
from lab_utils.views.progress import DRAWING, doing
from lab_utils.views.tables import Table
from lab_utils.views.words import shown

PLOTLY: Final = "application/vnd.plotly.v1+json"
# JupyterLab fits a figure to its cell itself. With `responsive` Plotly does too, and a window that
# became higher or lower, and not wider, then left the figure no height at all.
CONFIG: Final = {"displaylogo": False, "responsive": False, "displayModeBar": False}
FONT_SIZE: Final = 13
TITLE: Final = '<p class="lab-picture" style="font: 17px {}; margin: 0.6em 12px 0.2em">{}</p>'
# A figure knows no theme. In JupyterLab's dark one it is shown dark, each hue as it was. Its texts
# have room at WIDTH, and cover each other at less. In a narrower cell the whole figure is smaller;
# where its letters would be too small to read, the cell scrolls it.
SMALLEST: Final = 0.8
FIT: Final = f"clamp({SMALLEST}, tan(atan2(100cqw - var(--jp-cell-prompt-width), {WIDTH}px)), 1)"
BELOW: Final = ".jp-OutputArea-child:has(.lab-picture) + .jp-OutputArea-child"
LOOK: Final = (
    f'<style>body[data-jp-theme-light="false"] {BELOW} .js-plotly-plot'
    " { filter: invert(0.93) hue-rotate(180deg) }"
    f" {BELOW} {{ overflow-x: auto; container-type: inline-size }}"
    f" {BELOW} .js-plotly-plot {{ --fit: {FIT}; min-width: {WIDTH}px; transform: scale(var(--fit));"
    f" transform-origin: 0 0; margin: 0 calc({WIDTH}px * (var(--fit) - 1))"
    " calc(var(--high) * (var(--fit) - 1)) 0 }</style>"
)
# What is smaller leaves no gap below it: a style of its own says how high each figure is.
HIGH: Final = (
    '<style class="lab-{px}">.jp-OutputArea-child:has(.lab-{px}) + .jp-OutputArea-child'
    " {{ --high: {px}px }}</style>"
)
TITLE_LIMIT: Final = 344
TITLE_PX: Final = 30  # of what a view leaves above its figure, what was for one line of title
LETTER_PX: Final = 7.2  # what a letter of a label takes, and its line
LINE_PX: Final = 13
TURNED: Final = 0.87  # the sine of the angle by which a label is turned
LEGEND: Final = {"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom",
                 "traceorder": "normal"}  # fmt: skip

MS: Final = 1_000_000
STRETCH: Final = 0.7  # columns for each tenfold of a gap beyond one millisecond
PAUSE_MS: Final = 10  # a gap that is named, if it is also PAUSE_FACTOR times the median gap
PAUSE_FACTOR: Final = 5

# A part of a figure, as Plotly takes it: a trace's argument, a shape, an annotation, an axis.
Drawn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, a summary of it in sentences, and its data as a table."""

    title: str
    figure: Figure
    summary: str
    table: Table

    def __repr__(self) -> str:
        return f"{self.title}.\n{self.summary}"

    def _repr_html_(self) -> str:
        about = escape(f"{self.title}. {self.summary}")
        return (
            f'<div role="group" aria-label="{about}"><p>{escape(self.summary)}</p>'
            "<details><summary>The same as a table</summary>"
            f"{self.table._repr_html_()}</details></div>"
        )

    def static(self, *, titled: bool = True) -> str:
        """The figure as SVG, WIDTH pixels wide, for a page without JavaScript."""
        figure, title = self.figure.to_plotly_json(), shown(self.title, TITLE_LIMIT)
        return as_svg(figure, title, self.summary, titled=titled)

    def heading(self) -> str:
        """The title as HTML, which a narrow page wraps."""
        return TITLE.format(escape(FONT), escape(shown(self.title, TITLE_LIMIT)))

    def look(self) -> str:
        """How JupyterLab shows the figure, as a style."""
        return LOOK + HIGH.format(px=self.figure.layout.height)

    def bundle(self) -> dict[str, Any]:
        """The figure as JupyterLab takes it; without Plotly it is the SVG, or the words."""
        return {
            PLOTLY: {**self.figure.to_plotly_json(), "config": CONFIG},
            "image/svg+xml": self.static(titled=False),
            "text/plain": repr(self),
        }

    @doing(DRAWING)
    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        display(HTML(self.heading() + self.look()))  # type: ignore[no-untyped-call]
        display(self.bundle(), raw=True)  # type: ignore[no-untyped-call]
        display(HTML(self._repr_html_()))  # type: ignore[no-untyped-call]


def figure(
    traces: Iterable[Any],
    *,
    plot_px: float,
    margins: tuple[float, float, float, float],
    shapes: Iterable[Drawn] = (),
    notes: Iterable[Drawn] = (),
    **layout: Any,
) -> Figure:
    """A figure; `margins` are left, right, above (with room for a line of title) and below.

    `layout` has the axes; `showlegend=False` leaves the legend out.
    """
    left, right, above, below = margins
    above -= TITLE_PX
    drawn = Figure(list(traces))
    drawn.update_layout(
        font={"family": FONT, "size": FONT_SIZE, "color": BLACK},
        height=int(plot_px + above + below),
        margin={"l": left, "r": right, "t": above, "b": below},
        paper_bgcolor=WHITE, plot_bgcolor=WHITE, template=None, hovermode="closest",
        hoverlabel={"align": "left", "bgcolor": WHITE, "font": {"size": 12, "color": BLACK}},
        legend=LEGEND, shapes=list(shapes), annotations=list(notes),
        **{"showlegend": True, **layout},
    )  # fmt: skip
    return drawn


def axis(low: float, high: float, title: str = "", **more: Any) -> Drawn:
    """An axis from `low` to `high` that cannot be dragged; without lines, if none are asked for."""
    named = {"title": {"text": title, "font": {"size": 12, "color": GREY}, "standoff": 4}}
    return {"range": [low, high], "fixedrange": True, "zeroline": False, "showgrid": False,
            "ticks": "", **(named if title else {}), **more}  # fmt: skip


def ticks(places: Iterable[tuple[float, object]]) -> Drawn:
    """The marks of an axis: where they are, and what stands there."""
    at, texts = list(zip(*places, strict=True)) or ((), ())
    return {"tickvals": list(at), "ticktext": [str(text) for text in texts]}


def note(
    x: float, y: float, text: str, *, size: int = 12, colour: str = BLACK, **place: Any
) -> Drawn:
    """A text in a figure; it is not escaped here."""
    return {"x": x, "y": y, "text": text, "showarrow": False,
            "font": {"size": size, "color": colour}, **place}  # fmt: skip


def beside(y: float, text: str, shift: int | None = None) -> Drawn:
    """A text left of the lanes: the name of one, or smaller, with a shift, what it holds."""
    is_name = shift is None
    return note(0, y, f"<b>{text}</b>" if is_name else text, size=FONT_SIZE if is_name else 11,
                colour=BLACK if is_name else GREY, xref="paper", xanchor="right", xshift=-8,
                yshift=shift or 0)  # fmt: skip


def line(
    x: tuple[float, float], y: tuple[float, float], colour: str = GREY, width: float = 1,
    dash: str = "solid", **place: Any,
) -> Drawn:  # fmt: skip
    """A straight line, below what is drawn."""
    return {"type": "line", "x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], "layer": "below",
            "line": {"color": colour, "width": width, "dash": dash}, **place}  # fmt: skip


def points(
    style: Style, xs: Sequence[float | str | None], ys: Sequence[float | None],
    about: Sequence[str] = (), *,
    size: float | Sequence[float] = 11, texts: Sequence[str] = (), **more: Any,
) -> Scatter:  # fmt: skip
    """Marks of one style as one entry of the legend; `about` is what hovering shows."""
    is_open = "open" in style.symbol or "thin" in style.symbol
    marker = {"symbol": style.symbol, "size": size, "color": style.colour, "opacity": 1,
              "line": {"width": 2.5 if is_open else 0, "color": style.colour}}  # fmt: skip
    return Scatter(
        x=xs, y=ys, name=style.name, cliponaxis=False, marker=marker,
        mode="markers+text" if texts else "markers", text=texts or None,
        hovertext=about or None, hoverinfo="text" if about else "skip",
        **{"textfont": {"size": 12}, **more},
    )  # fmt: skip


def arrows(
    style: Style, ways: Iterable[Sequence[tuple[float, float]]], head_px: Sequence[int], **more: Any
) -> Scatter:
    """Lines of one style with gaps between them, each with a head of so many pixels, or none."""
    corners: list[tuple[float | None, float | None, int]] = []
    for way, px in zip(ways, head_px, strict=True):
        corners += [(x, y, px if number == len(way) else 0) for number, (x, y) in enumerate(way, 1)]
        corners.append((None, None, 0))
    xs, ys, sizes = (list(column) for column in zip(*corners, strict=True))
    return Scatter(
        x=xs, y=ys, mode="lines+markers", hoverinfo="skip", name=style.name, cliponaxis=False,
        line={"color": style.colour, "dash": style.dash, "width": style.width},
        marker={"symbol": "arrow", "size": sizes, "color": style.colour, "opacity": 1,
                "angleref": "previous", "line": {"width": 0}},
        **more,
    )  # fmt: skip


def in_legend(style: Style, **more: Any) -> Scatter:
    """An entry of the legend for what is drawn otherwise."""
    line = {"color": style.colour, "dash": style.dash, "width": min(style.width, 5)}
    return Scatter(x=[None], y=[None], name=style.name, line=line, **{"mode": "lines", **more})


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a place; `is_loud` when it names what went wrong or came again."""

    column: float
    height: float
    text: str
    is_loud: bool = False

    @property
    def half_px(self) -> float:
        """Half of what it takes in width."""
        return len(self.text) / 2 * LETTER_PX + 2


def thinned(labels: Sequence[Label], column_px: float, *, turned: bool) -> list[Label]:
    """Without those that would cover the one before; a loud one is never left out for a quiet."""
    kept: list[Label] = []
    for label in sorted(labels, key=lambda it: it.column):
        neighbour = next((it for it in reversed(kept) if it.height == label.height), None)
        if neighbour:
            room = LINE_PX / TURNED if turned else label.half_px + neighbour.half_px
            if (label.column - neighbour.column) * column_px < room:
                if neighbour.is_loud or not label.is_loud:
                    continue
                kept.remove(neighbour)
        kept.append(label)
    return kept


def stacked(labels: Sequence[Label], column_px: float) -> list[int]:
    """For each label the row in which it has room, from 0, if it may extend to either side."""
    ends: list[float] = []
    rows = []
    for label in labels:
        half = 2 * label.half_px + LINE_PX
        start, end = label.column * column_px - half, label.column * column_px + half
        row = next((number for number, taken in enumerate(ends) if taken <= start), len(ends))
        ends[row : row + 1] = [end]
        rows.append(row)
    return rows


def are_turned(labels: Sequence[Label], column_px: float) -> bool:
    """Must the labels be turned, because one of them would not fit beside the next?"""
    by_height = sorted(labels, key=lambda it: (it.height, it.column))
    pairs = [(a, b) for a, b in pairwise(by_height) if a.height == b.height]
    return any((b.column - a.column) * column_px < a.half_px + b.half_px for a, b in pairs)


@dataclass(frozen=True, slots=True)
class ElasticTime:
    """The instants of a picture, in nanoseconds, and the column where each is drawn.

    Each instant has room: short gaps are widened and long ones shortened. A lost answer costs
    50 ms and its neighbours take half a millisecond each; on a true scale one of them could not be
    seen. The sequence is kept, the labels tell the true time, and long gaps say how long.
    """

    instants: tuple[int, ...]
    columns: tuple[float, ...]

    @property
    def width(self) -> float:
        """The columns that all instants take."""
        return self.columns[-1] - self.columns[0] if self.columns else 0.0

    def column(self, at_ns: int) -> float:
        """Where an instant is drawn; one that is not in the picture, at the one before it."""
        return self.columns[max(bisect_right(self.instants, at_ns) - 1, 0)]

    def ms(self, at_ns: int) -> float:
        """Milliseconds since the first instant."""
        return (at_ns - self.instants[0]) / MS

    def pauses(self) -> list[tuple[float, float, str]]:
        """The long gaps: the columns where each begins and ends, and its milliseconds as text."""
        pairs = list(pairwise(self.instants))
        gaps = [(after - before) / MS for before, after in pairs]
        least = max(PAUSE_MS, PAUSE_FACTOR * median(gaps)) if gaps else PAUSE_MS
        return [
            (self.columns[number], self.columns[number + 1], f"{ms_text(gap)} ms")
            for number, gap in enumerate(gaps)
            if gap >= least
        ]

    def axis(self, low: float, high: float, apart: float) -> Drawn:
        """The axis, with times at least `apart` columns from each other."""
        found: list[tuple[float, str]] = []
        for column, at_ns in zip(self.columns, self.instants, strict=True):
            if not found or column - found[-1][0] >= apart:
                found.append((column, ms_text(self.ms(at_ns))))
        return axis(low, high, "milliseconds, not to scale",
                    tickfont={"size": 11, "color": GREY}, **ticks(found))  # fmt: skip


def elastic_time(instants: Iterable[int]) -> ElasticTime:
    """Give each instant its column; the first one is at 0."""
    ordered = sorted(set(instants))
    columns = [0.0][: len(ordered)]
    for before, after in pairwise(ordered):
        gap_ms = (after - before) / MS
        columns.append(columns[-1] + 1 + STRETCH * max(0.0, log10(max(gap_ms, 1))))
    return ElasticTime(tuple(ordered), tuple(columns))


def apart(instants: Iterable[int], least_ns: int) -> list[int]:
    """The instants in sequence, without those that come sooner than so after one that is kept."""
    kept: list[int] = []
    for at_ns in sorted(instants):
        if not kept or at_ns - kept[-1] >= least_ns:
            kept.append(at_ns)
    return kept


def ms_text(ms: float) -> str:
    """Milliseconds as a reader wants them.

    >>> ms_text(0), ms_text(1.26), ms_text(61), ms_text(8012)
    ('0', '1.3', '61.0', '8,012')
    """
    return f"{ms:.1f}" if 0 < ms < 99.95 else f"{ms:,.0f}"
