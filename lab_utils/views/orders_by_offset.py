"""Orders by offset: a row for each call of produce(), a column for each offset of the log.

A quiet run is a diagonal. A retry bends it, a duplicate is two cells in a row, a loss is an empty
row whose report says acked. A function of rows; the shaping is in orders.py and
orders_grid.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette
from lab_utils.views.headline import headline
from lab_utils.views.orders import orders
from lab_utils.views.orders_grid import Cell, Grid, grid_of
from lab_utils.views.picture import Picture
from lab_utils.views.wording import in_picture, title_lines

LETTER_PX: Final = 8
OUTCOMES: Final = tuple(palette.ORDER)

Drawn = dict[str, Any]


def orders_by_offset(rows: Sequence[Event]) -> Picture:
    """Which order is at which offset, drawn: a row for each produce(), a column an offset."""
    found = orders(rows)
    title = headline(rows)
    grid = grid_of(found)
    return Picture(title, _figure(grid, title), grid.summary(), found.table())


def _figure(grid: Grid, title: str) -> Figure:
    heading = title_lines(title)
    above = 58 + 23 * heading.count("<br>")
    by_outcome = {name: [cell for cell in grid.cells if cell.outcome == name] for name in OUTCOMES}
    figure = Figure([_trace(name, cells, grid) for name, cells in by_outcome.items() if cells])
    names = grid.row_names()
    figure.update_layout(
        palette.layout(heading, above + max(len(names), 1) * grid.row_px + 92),
        showlegend=True,
        margin={"l": 26 + LETTER_PX * max(map(len, names), default=0), "r": 210,
                "t": above, "b": 92},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom"},
        xaxis=_offset_axis(grid),
        yaxis=_call_axis(names),
        shapes=_lines(grid),
        annotations=[*_reports(grid), *_panel_names(grid)],
    )  # fmt: skip
    return figure


def _trace(name: str, cells: Sequence[Cell], grid: Grid) -> Scatter:
    """The cells of one outcome, as an entry of the legend."""
    style = palette.ORDER[name]
    is_filled = style.symbol in ("square", "diamond", "star")
    size = grid.cell_px * (1.2 if style.symbol == "diamond" else 1)
    return Scatter(
        x=[cell.column for cell in cells], y=[cell.row for cell in cells], name=style.name,
        text=[in_picture(cell.text) for cell in cells], mode="markers+text", cliponaxis=False,
        hovertext=[_hover(cell) for cell in cells], hoverinfo="text",
        textfont={"color": palette.WHITE if is_filled else palette.BLACK, "size": 12},
        marker={"symbol": style.symbol, "color": style.colour, "opacity": 1, "size": size,
                "line": {"width": 0 if is_filled else 2.5, "color": style.colour}},
    )  # fmt: skip


def _hover(cell: Cell) -> str:
    call = cell.call
    if call is None:
        return "a transaction marker: it takes an offset"
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


def _call_axis(names: Sequence[str]) -> Drawn:
    return {
        "tickvals": list(range(len(names))), "ticktext": [in_picture(name) for name in names],
        "range": [max(len(names), 1) - 0.4, -0.6], "fixedrange": True, "zeroline": False,
        "showgrid": True, "gridcolor": palette.PALE, "ticks": "", "ticklabelstandoff": 6,
    }  # fmt: skip


def _lines(grid: Grid) -> list[Drawn]:
    """A line through the copies of an order, and one before the margin column."""
    copies = [
        {"type": "line", "x0": grid.columns[call.places[0]], "x1": grid.columns[call.places[-1]],
         "y0": number, "y1": number, "layer": "between",
         "line": {"color": palette.VERMILLION, "width": 2}}
        for number, call in enumerate(grid.calls) if len(call.places) > 1
    ]  # fmt: skip
    edge = grid.lost_column - 0.9
    margin = {
        "type": "line", "x0": edge, "x1": edge, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": palette.GREY, "width": 1, "dash": "dot"},
    }  # fmt: skip
    return [*copies, margin] if grid.has_lost else copies


def _reports(grid: Grid) -> list[Drawn]:
    """What each report said, right of its row."""
    told = [
        {"x": 1, "xref": "paper", "y": number, "text": in_picture(call.told, 30), "xanchor": "left",
         "xshift": 8, "showarrow": False, "font": {"size": 12}}
        for number, call in enumerate(grid.calls)
    ]  # fmt: skip
    return [*told, _above(1, "paper", "<b>the report</b>", "left", 8)]


def _panel_names(grid: Grid) -> list[Drawn]:
    """The partitions, if they are several, and the margin column, if something is lost."""
    partitions: dict[int, float] = {}
    for (partition, _), column in grid.columns.items():
        partitions.setdefault(partition, column)
    several = partitions.items() if len(partitions) > 1 else ()
    names = [_above(at, "x", f"partition {name}", "left", -12) for name, at in several]
    if grid.has_lost:
        names.append(_above(grid.lost_column, "x", "not in the log", "center", 0))
    return names


def _above(x: float, xref: str, text: str, anchor: str, shift: int) -> Drawn:
    return {
        "x": x, "xref": xref, "y": 1, "yref": "paper", "text": text, "showarrow": False,
        "xanchor": anchor, "yanchor": "bottom", "xshift": shift, "font": {"size": 12},
    }  # fmt: skip
