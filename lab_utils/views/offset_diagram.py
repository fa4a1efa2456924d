"""The offset diagram: where the work was and where the bookmark stood, step by step.

A row is an offset, a column a step. The bookmark is a line *between* the rows: what is below it
will not be read again. A function of rows; the shaping is in bookmarks.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette
from lab_utils.views.bookmarks import Bookmarks, bookmarks
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture
from lab_utils.views.wording import in_picture, title_lines

ROW_PX: Final = 34
STYLES: Final = {
    "delivered": Style("delivered", palette.GREY, symbol="circle-open"),
    "processed": Style("processed", palette.BLUE, symbol="square"),
    "repeated": Style("processed again", palette.VERMILLION, symbol="diamond"),
    "stored": Style("stored for the next commit", palette.PURPLE, symbol="triangle-up-open"),
    "sought": Style("sought", palette.ORANGE, symbol="triangle-left-open"),
}
BOOKMARK: Final = Style("committed: read on above this line", palette.GREEN, width=2.6)
NAMED_STEPS: Final = ("killed", "started again", "lost")

Drawn = dict[str, Any]


def offset_diagram(rows: Sequence[Event], partition: int = 0) -> Picture:
    """Where the work was and where the bookmark stood, step by step, in one partition."""
    found = bookmarks(rows, partition)
    return Picture(found.title(), _figure(found), found.summary(), found.table())


def _figure(found: Bookmarks) -> Figure:
    heading = title_lines(found.title())
    above = 84 + 23 * heading.count("<br>")
    figure = Figure([*_marks(found), *_bookmark(found)])
    rows = max([*found.values, 0]) + 1
    figure.update_layout(
        palette.layout(heading, above + (rows + 1) * ROW_PX + 104),
        showlegend=True,
        margin={"l": 66, "r": 20, "t": above, "b": 104},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom"},
        xaxis={"title": {"text": "step"}, "range": [0.3, len(found.steps) + 0.7],
               "showgrid": False, "zeroline": False, "dtick": _tick(len(found.steps))},
        yaxis={"title": {"text": "offset"}, "range": [-0.85, rows - 0.15], "dtick": 1,
               "gridcolor": palette.PALE, "zeroline": False},
        shapes=[_line(number) for number, _ in _named(found)],
        annotations=[_name(number, kind) for number, kind in _named(found)],
    )  # fmt: skip
    return figure


def _marks(found: Bookmarks) -> list[Scatter]:
    """One entry of the legend for each kind of step that has an offset."""
    places: dict[str, list[tuple[int, float, str]]] = {}
    done: set[int] = set()
    for number, step in enumerate(found.steps, start=1):
        if step.kind in STYLES and step.offset is not None:
            kind = "repeated" if step.kind == "processed" and step.offset in done else step.kind
            done |= {step.offset} if step.kind == "processed" else set()
            # An offset to read on from lies between two records, as the bookmark does.
            above = step.offset - 0.5 if kind in ("stored", "sought") else step.offset
            about = f"step {number}: {step.actor}, {kind} {step.value or step.offset}"
            places.setdefault(kind, []).append((number, above, in_picture(about, 80)))
    return [_trace(STYLES[kind], places[kind]) for kind in STYLES if kind in places]


def _trace(style: Style, places: list[tuple[int, float, str]]) -> Scatter:
    steps, offsets, about = zip(*places, strict=True)
    return Scatter(
        x=steps, y=offsets, mode="markers", name=style.name, text=about, hoverinfo="text",
        marker={"symbol": style.symbol, "size": 13, "color": style.colour,
                "line": {"width": 2 if "open" in style.symbol else 0, "color": style.colour}},
    )  # fmt: skip


def _bookmark(found: Bookmarks) -> list[Scatter]:
    """The committed offset as a line of steps; it begins with the first commit."""
    commits = [
        (number, step.offset - 0.5)
        for number, step in enumerate(found.steps, start=1)
        if step.kind == "committed" and step.offset is not None
    ]
    if not commits:
        return []
    steps, offsets = zip(*commits, (len(found.steps) + 0.5, commits[-1][1]), strict=True)
    return [
        Scatter(
            x=steps, y=offsets, mode="lines+markers", name=BOOKMARK.name, hoverinfo="skip",
            line={"shape": "hv", "width": BOOKMARK.width, "color": BOOKMARK.colour},
            marker={"size": [7] * len(commits) + [0], "color": BOOKMARK.colour},
        )
    ]  # fmt: skip


def _named(found: Bookmarks) -> list[tuple[int, str]]:
    return [(n, it.kind) for n, it in enumerate(found.steps, start=1) if it.kind in NAMED_STEPS]


def _line(number: int) -> Drawn:
    return {
        "type": "line", "x0": number, "x1": number, "y0": 0, "y1": 1, "yref": "paper",
        "layer": "below", "line": {"color": palette.BLACK, "width": 1.2, "dash": "4px,3px"},
    }  # fmt: skip


def _name(number: int, kind: str) -> Drawn:
    is_end = kind == "started again"
    return {
        "x": number, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
        "xanchor": "left" if is_end else "right", "text": kind,
        "font": {"size": 12, "color": palette.BLACK},
    }  # fmt: skip


def _tick(steps: int) -> int:
    return 1 if steps <= 24 else 5
