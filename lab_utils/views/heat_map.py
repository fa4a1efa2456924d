"""What survives how many dead brokers: a panel a replication factor, a row a min.insync.replicas.

Each cell is what a real run could still do, in words and with a mark of its own shape; the colour
says it once more. It draws the rows that it is given and runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture
from lab_utils.views.table import Table
from lab_utils.views.wording import counted, listed, title_lines

CELL_PX: Final = 74
# By whether it can be written and read: the fill and what the cell says.
OUTCOMES: Final = {
    (True, True): Style("write and read", "#9cc7e4", symbol="●"),
    (False, True): Style("read only", "#e3eef6", symbol="◐"),
    (True, False): Style("write only", "#f3ead2", symbol="◑"),
    (False, False): Style("neither", palette.WHITE, symbol="○"),
}

Drawn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """What the runs of one setting came to, the worst of them."""

    replicas: int
    min_isr: int
    dead: int
    writable: bool
    readable: bool
    lost: int
    runs: int = 1

    @property
    def style(self) -> Style:
        """How the cell looks, and its word."""
        return OUTCOMES[self.writable, self.readable]

    def told(self) -> str:
        """The cell as a sentence without a full stop."""
        lost = f", {counted(self.lost, 'acked order')} lost" if self.lost else ""
        dead = counted(self.dead, "dead broker")
        factor = counted(self.replicas, "replica")
        return f"{factor}, min ISR {self.min_isr}, {dead}: {self.style.name}{lost}"


def survival(table_rows: Sequence[Mapping[str, Any]]) -> Picture:
    """The grid of replication factor, min ISR and dead brokers, drawn.

    Keys of a row: replicas, min_isr, dead, lost (numbers), writable, readable (booleans).
    """
    cells = _cells(table_rows)
    title = _title(cells)
    return Picture(title, _figure(cells, title), _summary(cells), _table(cells))


def _cells(rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """One cell a setting, by its place; of several runs the worst."""
    found: dict[tuple[int, int, int], Cell] = {}
    for row in rows:
        place = int(row["replicas"]), int(row["min_isr"]), int(row["dead"])
        old = found.get(place, Cell(*place, True, True, 0, runs=0))
        found[place] = Cell(
            *place,
            writable=old.writable and bool(row["writable"]),
            readable=old.readable and bool(row["readable"]),
            lost=max(old.lost, int(row["lost"])),
            runs=old.runs + 1,
        )
    return [found[place] for place in sorted(found)]


def _title(cells: Sequence[Cell]) -> str:
    """Up to how many dead brokers each min ISR of the largest factor could be written."""
    if not cells:
        return "No run to show"
    factor = max(cell.replicas for cell in cells)
    most = {
        min_isr: _most_dead(cells, factor, min_isr)
        for min_isr in sorted({cell.min_isr for cell in cells if cell.replicas == factor})
    }
    said = [f"at min ISR {min_isr} {_up_to(dead)}" for min_isr, dead in most.items()]
    lost = [cell for cell in cells if cell.lost]
    but = f"; acked orders were lost in {counted(len(lost), 'cell')}" if lost else ""
    return f"With {counted(factor, 'replica')} one can write {listed(said)}{but}"


def _most_dead(cells: Sequence[Cell], factor: int, min_isr: int) -> int | None:
    """The most dead brokers with which this setting could be written, with any fewer, too."""
    line = [it for it in cells if (it.replicas, it.min_isr) == (factor, min_isr)]
    dead = None
    for cell in line:
        if not cell.writable:
            break
        dead = cell.dead
    return dead


def _up_to(dead: int | None) -> str:
    if dead is None:
        return "never"
    return f"with up to {dead} dead" if dead else "with none dead"


def _summary(cells: Sequence[Cell]) -> str:
    runs = sum(cell.runs for cell in cells)
    said = [f"{counted(len(cells), 'setting')}, {counted(runs, 'run')}."]
    return " ".join([*said, *(f"{cell.told()}." for cell in cells)])


def _table(cells: Sequence[Cell]) -> Table:
    rows = [
        (it.replicas, it.min_isr, it.dead, it.style.name, it.lost, it.runs) for it in cells
    ]  # fmt: skip
    columns = ("replicas", "min ISR", "dead brokers", "possible", "acked and lost", "runs")
    marked = frozenset(number for number, cell in enumerate(cells) if cell.lost)
    return Table(columns, rows, "What each setting survives", marked)


def _figure(cells: Sequence[Cell], title: str) -> Figure:
    heading = title_lines(title)
    above = 84 + 23 * heading.count("<br>")
    places = _places(cells)
    levels = sorted({cell.min_isr for cell in cells})
    figure = Figure([_hover(cells, places)])
    figure.update_layout(
        palette.layout(heading, above + len(levels) * CELL_PX + 62),
        showlegend=False,
        margin={"l": 90, "r": 20, "t": above, "b": 62},
        xaxis={"title": {"text": "brokers of its replicas that are dead", "font": {"size": 12}},
               "range": [-0.5, max(places.values(), default=0) + 0.5], "fixedrange": True,
               "tickvals": list(places.values()), "ticktext": [str(it) for _, it in places],
               "showgrid": False, "zeroline": False, "ticks": ""},
        yaxis={"range": [-0.5, len(levels) - 0.5], "tickvals": list(range(len(levels))),
               "ticktext": [f"min ISR {level}" for level in levels], "fixedrange": True,
               "showgrid": False, "zeroline": False, "ticks": "", "ticklabelstandoff": 6},
        shapes=[_box(cell, places, levels) for cell in cells],
        annotations=[*(_words(cell, places, levels) for cell in cells), *_factors(places)],
    )  # fmt: skip
    return figure


Places = dict[tuple[int, int], float]


def _places(cells: Sequence[Cell]) -> Places:
    """The column of each number of dead brokers, panel by panel with a gap between."""
    keys = sorted({(cell.replicas, cell.dead) for cell in cells})
    factors = sorted({factor for factor, _ in keys})
    return {key: number + 0.25 * factors.index(key[0]) for number, key in enumerate(keys)}


def _hover(cells: Sequence[Cell], places: Places) -> Scatter:
    levels = sorted({cell.min_isr for cell in cells})
    return Scatter(
        x=[places[cell.replicas, cell.dead] for cell in cells],
        y=[levels.index(cell.min_isr) for cell in cells],
        mode="markers", marker={"size": 40, "opacity": 0, "symbol": "square"},
        hovertext=[cell.told() for cell in cells], hoverinfo="text",
    )  # fmt: skip


def _box(cell: Cell, places: Places, levels: Sequence[int]) -> Drawn:
    x, y = places[cell.replicas, cell.dead], levels.index(cell.min_isr)
    colour = palette.VERMILLION if cell.lost else palette.GREY
    return {
        "type": "rect", "x0": x - 0.47, "x1": x + 0.47, "y0": y - 0.45, "y1": y + 0.45,
        "fillcolor": cell.style.colour, "layer": "below",
        "line": {"color": colour, "width": 3 if cell.lost else 1},
    }  # fmt: skip


def _words(cell: Cell, places: Places, levels: Sequence[int]) -> Drawn:
    lost = f"<br><b>✕ {cell.lost} lost</b>" if cell.lost else ""
    return {
        "x": places[cell.replicas, cell.dead], "y": levels.index(cell.min_isr),
        "text": f"{cell.style.symbol}<br>{_word(cell)}{lost}", "showarrow": False,
        "font": {"size": 12, "color": palette.BLACK},
    }  # fmt: skip


def _word(cell: Cell) -> str:
    """The words of a cell, in lines that fit it."""
    return cell.style.name.replace("write and read", "write, read")


def _factors(places: Places) -> list[Drawn]:
    """The names of the panels above them."""
    found = []
    for factor in sorted({factor for factor, _ in places}):
        columns = [column for (its, _), column in places.items() if its == factor]
        found.append(
            {"x": sum(columns) / len(columns), "y": 1, "yref": "paper", "yanchor": "bottom",
             "showarrow": False, "text": f"<b>{counted(factor, 'replica')}</b>",
             "font": {"size": 13, "color": palette.BLACK}}
        )  # fmt: skip
    return found
