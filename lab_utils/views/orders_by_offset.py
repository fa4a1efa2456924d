"""Orders by offset: a row for each call of produce(), a column for each offset of the log.

A quiet run is a diagonal. A retry bends it, a duplicate is two cells in a row, a loss is an empty
row whose report says acked. A function of rows; the shaping is in orders.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette
from lab_utils.views.headline import headline
from lab_utils.views.orders import Call, Orders, Place, orders
from lab_utils.views.picture import Picture
from lab_utils.views.wording import counted, in_picture, listed, shown, title_lines

CALLS_LIMIT: Final = 40
BEFORE_ODD: Final = 8
NAMED_LIMIT: Final = 4
WIDTH_PX: Final = 560
LETTERS_IN_CELL: Final = 3

Drawn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """The calls that are shown, the column of each place, and the column of what is lost."""

    calls: list[Call]
    first: int
    columns: Mapping[Place, float]
    lost_column: float
    row_px: int

    @property
    def column_px(self) -> float:
        """How wide a column is, in a notebook of 900 pixels."""
        return WIDTH_PX / (self.lost_column + 2)


def orders_by_offset(rows: Sequence[Event]) -> Picture:
    """Which order is at which offset, drawn: a row for each produce(), a column an offset."""
    found = orders(rows)
    title = headline(rows)
    grid = grid_of(found)
    return Picture(title, _figure(found, grid, title), _summary(found, grid), found.table())


def grid_of(found: Orders) -> Grid:
    """At most CALLS_LIMIT calls, around the first that stands out, and the columns they need."""
    odd = [at for at, call in enumerate(found.calls) if found.outcome(call) != "once"]
    first = max(0, min((odd or [0])[0] - BEFORE_ODD, len(found.calls) - CALLS_LIMIT))
    calls = found.calls[first : first + CALLS_LIMIT]
    places = {place for call in calls for place in call.places}
    least, most = min(places, default=(0, 0)), max(places, default=(0, 0))
    places |= {place for place in found.markers if least <= place <= (most[0], most[1] + 1)}
    columns: dict[Place, float] = {}
    column, partition = -1.0, None
    for place in sorted(places):
        # A partition begins a panel of its own, one column further right.
        column += 1 if partition in (None, place[0]) else 2
        columns[place], partition = column, place[0]
    return Grid(calls, first, columns, column + 2, 30 if len(calls) <= 16 else 20)


def _figure(found: Orders, grid: Grid, title: str) -> Figure:
    heading = title_lines(title)
    above = 58 + 23 * heading.count("<br>")
    figure = Figure([trace for name in palette.ORDER for trace in _cells(name, found, grid)])
    rows = max(len(grid.calls), 1) + bool(_shown_markers(found, grid))
    figure.update_layout(
        palette.layout(heading, above + rows * grid.row_px + 92),
        margin={"l": 92, "r": 210, "t": above, "b": 92},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom"},
        xaxis=_offset_axis(grid),
        yaxis=_call_axis(grid, rows),
        shapes=_lines(found, grid),
        annotations=[*_reports(grid), *_panel_names(found, grid)],
    )
    return figure


def _cells(name: str, found: Orders, grid: Grid) -> list[Scatter]:
    """The cells of one outcome, as a trace of the legend."""
    cells = [
        (column, number, text, call)
        for number, call in enumerate(grid.calls)
        if found.outcome(call) == name
        for column, text in _columns_of(call, grid)
    ]
    if name == "marker":
        cells = [
            (grid.columns[place], len(grid.calls), kind[:1], Call(kind, places=[place]))
            for place, kind in _shown_markers(found, grid).items()
        ]
    if not cells:
        return []
    style = palette.ORDER[name]
    is_filled = style.symbol in ("square", "diamond", "star")
    size = min(grid.row_px - 2, max(grid.column_px - 2, 7), 26)
    return [
        Scatter(
            x=[cell[0] for cell in cells], y=[cell[1] for cell in cells], name=style.name,
            text=[_in_cell(cell[2], size) for cell in cells], mode="markers+text",
            hovertext=[_hover(cell[3]) for cell in cells], hoverinfo="text", cliponaxis=False,
            textfont={"color": palette.WHITE if is_filled else palette.BLACK, "size": 12},
            marker={"symbol": style.symbol, "color": style.colour, "opacity": 1,
                    "size": size * (1.2 if style.symbol == "diamond" else 1),
                    "line": {"width": 0 if is_filled else 2.5, "color": style.colour}},
        )
    ]  # fmt: skip


def _columns_of(call: Call, grid: Grid) -> list[tuple[float, str]]:
    """The columns of a call's cells and the text in each; a lost one has one in the margin."""
    if not call.places:
        return [(grid.lost_column, "")]
    return [(grid.columns[place], call.value) for place in call.places]


def _in_cell(text: str, size: float) -> str:
    """The order's value, if it fits; the row is named by it in any case."""
    fits = len(text) <= LETTERS_IN_CELL and size >= 7 * len(text) + 4
    return in_picture(text) if fits else ""


def _hover(call: Call) -> str:
    places = [f"partition {partition}, offset {offset}" for partition, offset in call.places]
    lines = [f"order {call.value}", *(places or ["not in the log"]), call.told]
    return "<br>".join(in_picture(line, 80) for line in lines)


def _offset_axis(grid: Grid) -> Drawn:
    every = max(1, round(26 / grid.column_px))
    ticks = [(column, offset) for (_, offset), column in grid.columns.items()][::every]
    return {
        "title": {"text": "offset in the log", "font": {"size": 12, "color": palette.GREY},
                  "standoff": 6},
        "tickvals": [column for column, _ in ticks], "ticktext": [str(it) for _, it in ticks],
        "tickfont": {"size": 12}, "tickangle": 0, "showgrid": True, "gridcolor": palette.PALE,
        "range": [-0.8, grid.lost_column + 0.8], "fixedrange": True, "zeroline": False,
    }  # fmt: skip


def _call_axis(grid: Grid, rows: int) -> Drawn:
    names = [f"order {shown(call.value, 14)}" for call in grid.calls]
    names = [
        f"{name} {palette.AGAIN}" if call.attempt > 1 else name
        for name, call in zip(names, grid.calls, strict=True)
    ]
    names += ["markers"] * (rows - len(names))
    return {
        "tickvals": list(range(rows)), "ticktext": [in_picture(name) for name in names],
        "range": [rows - 0.4, -0.6], "fixedrange": True, "zeroline": False,
        "showgrid": True, "gridcolor": palette.PALE, "ticks": "",
    }  # fmt: skip


def _lines(found: Orders, grid: Grid) -> list[Drawn]:
    """A line through the copies of an order, and one before the margin column."""
    copies = [
        {"type": "line", "x0": grid.columns[call.places[0]], "x1": grid.columns[call.places[-1]],
         "y0": number, "y1": number, "layer": "below",
         "line": {"color": palette.VERMILLION, "width": 2}}
        for number, call in enumerate(grid.calls) if len(call.places) > 1
    ]  # fmt: skip
    edge = grid.lost_column - 1
    margin = {
        "type": "line", "x0": edge, "x1": edge, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": palette.GREY, "width": 1, "dash": "dot"},
    }  # fmt: skip
    return [*copies, margin] if _has_lost(found, grid) else copies


def _reports(grid: Grid) -> list[Drawn]:
    """What each report said, right of its row."""
    told = [
        {"x": 1, "xref": "paper", "y": number, "text": in_picture(call.told, 30), "xanchor": "left",
         "xshift": 8, "showarrow": False, "font": {"size": 12}}
        for number, call in enumerate(grid.calls)
    ]  # fmt: skip
    return [*told, _above(1, "paper", "<b>the report</b>", "left", 8)]


def _panel_names(found: Orders, grid: Grid) -> list[Drawn]:
    """The partitions, if they are several, and the margin column, if something is lost."""
    partitions: dict[int, float] = {}
    for (partition, _), column in grid.columns.items():
        partitions.setdefault(partition, column)
    several = partitions.items() if len(partitions) > 1 else ()
    names = [_above(at, "x", f"partition {name}", "left", -12) for name, at in several]
    if _has_lost(found, grid):
        names.append(_above(grid.lost_column, "x", "not in the log", "center", 0))
    return names


def _above(x: float, xref: str, text: str, anchor: str, shift: int) -> Drawn:
    return {
        "x": x, "xref": xref, "y": 1, "yref": "paper", "text": text, "showarrow": False,
        "xanchor": anchor, "yanchor": "bottom", "xshift": shift, "font": {"size": 12},
    }  # fmt: skip


def _has_lost(found: Orders, grid: Grid) -> bool:
    return any(found.outcome(call) == "lost" for call in grid.calls)


def _shown_markers(found: Orders, grid: Grid) -> dict[Place, str]:
    return {place: kind for place, kind in found.markers.items() if place in grid.columns}


def _summary(found: Orders, grid: Grid) -> str:
    """The picture in sentences, for whoever cannot see it."""
    calls, records = len(found.calls), sum(found.copies.values())
    told = [f"{counted(calls, 'call')} of produce(), {counted(records, 'record')} in the log."]
    if len(grid.calls) < calls:
        told.append(f"Calls {grid.first + 1} to {grid.first + len(grid.calls)} are shown.")
    odd = [call for call in grid.calls if found.outcome(call) in ("twice", "lost", "foreign")]
    for call in odd[:NAMED_LIMIT]:
        places = listed([f"{offset}" for _, offset in call.places])
        where = f"is at offset {places}" if places else "is not in the log"
        told.append(f"Order {shown(call.value, 16)} {where}; its report: {call.told}.")
    if len(odd) > NAMED_LIMIT:
        told.append(f"So it is with {len(odd) - NAMED_LIMIT} more.")
    return " ".join(told)
