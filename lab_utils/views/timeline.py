"""The timeline: what crossed the wire, drawn as arrows between client, proxy and broker.

The scene says what is where (scene.py); this draws the arrows, timeline_frame.py what is around
them. A function of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette
from lab_utils.views.headline import headline
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture
from lab_utils.views.scene import Scene, scene
from lab_utils.views.timeline_frame import above_px, shapes, texts, time_axis
from lab_utils.views.timeline_notes import hover, table
from lab_utils.views.timeline_paths import Path, paths
from lab_utils.views.wording import counted, listed, title_lines

LANE_PX: Final = 95
BELOW_PX: Final = 104
CROWDED_PX: Final = 12  # where columns are narrower, symbols are smaller


def timeline(rows: Sequence[Event], apis: Sequence[str] | None = ("Produce",)) -> Picture:
    """The requests of a run and their answers, drawn; `apis` None shows every API."""
    shown = scene(rows, apis)
    title = _title(rows, apis, len(shown.found))
    return Picture(title, draw(shown, title), shown.summary(), table(shown.found, shown.time))


def _title(rows: Sequence[Event], apis: Sequence[str] | None, requests: int) -> str:
    """The finding of the run, where the requests that are shown can have to do with it."""
    if not requests:
        return "No such request crossed the wire"
    if apis is None or "Produce" in apis:
        return headline(rows)
    return f"{listed(apis)}: {counted(requests, 'request')} crossed the wire"


def draw(shown: Scene, title: str) -> Figure:
    """The figure of a scene."""
    lines = paths(shown.found, shown.time, shown.where)
    by_style = {name: [line for line in lines if line.style == name] for name in palette.WIRE}
    drawn = [_traces(name, some, shown) for name, some in by_style.items() if some]
    figure = Figure([trace for traces in drawn for trace in traces])
    heading = title_lines(title)
    above, low, high = above_px(shown, heading), shown.where.bottom, shown.where.top
    figure.update_layout(
        palette.layout(heading, int((high - low) * LANE_PX + above + BELOW_PX)),
        margin={"l": 92, "r": 16, "t": above, "b": BELOW_PX},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom"},
        showlegend=True,
        xaxis=time_axis(shown),
        yaxis={"visible": False, "fixedrange": True, "range": [low - 0.08, high + 0.02]},
        shapes=shapes(shown),
        annotations=texts(shown),
    )
    return figure


def _traces(name: str, lines: Sequence[Path], shown: Scene) -> list[Scatter]:
    """All lines of one style, the points that were measured, and an entry for the legend."""
    style = palette.WIRE[name]
    line = {"color": style.colour, "dash": style.dash, "width": style.width}
    marker = {"size": 9, "color": style.colour, "symbol": style.symbol.replace("arrow", "circle")}
    return [
        _arrows(lines, line, 10 if shown.column_px > CROWDED_PX else 7),
        _measured(lines, style, shown),
        Scatter(
            x=[None],
            y=[None],
            mode="lines+markers",
            name=style.name,
            line=line,
            marker=marker,
            legendrank=1001 if name == "held" else 1000,
        ),
    ]


def _arrows(lines: Sequence[Path], line: dict[str, object], size: int) -> Scatter:
    """The lines with gaps between them, an arrow at the end of each that arrives."""
    gap = (None, None, 0)
    corners = [corner for path in lines for corner in [*_corners(path, size), gap]]
    xs, ys, sizes = (list(column) for column in zip(*corners, strict=True))
    return Scatter(
        x=xs, y=ys, mode="lines+markers", line=line, hoverinfo="skip", showlegend=False,
        cliponaxis=False,
        marker={"symbol": "arrow", "size": sizes, "color": line["color"], "opacity": 1,
                "angleref": "previous", "line": {"width": 0}},
    )  # fmt: skip


def _corners(path: Path, size: int) -> list[tuple[float, float, int]]:
    last = len(path.points) - 1
    return [
        (x, y, size if number == last != path.measured else 0)
        for number, (x, y) in enumerate(path.points)
    ]


def _measured(lines: Sequence[Path], style: Style, shown: Scene) -> Scatter:
    """The moments at the proxy; here is what hovering shows."""
    points = [path.points[path.measured] for path in lines]
    dot = 6 if shown.column_px > CROWDED_PX else 4
    symbol, size = ("circle", dot) if style.symbol == "arrow" else (style.symbol, 11)
    return Scatter(
        x=[x for x, _ in points], y=[y for _, y in points], mode="markers", cliponaxis=False,
        hovertext=[hover(it.event, shown.exchange_of(it.event), shown.time) for it in lines],
        hoverinfo="text", showlegend=False,
        marker={"symbol": symbol, "size": size, "color": style.colour, "opacity": 1},
    )  # fmt: skip
