"""What survives how many dead brokers: a panel a replication factor, a row a min.insync.replicas.

Each cell is what one real run could still do, in words and with a mark of its own shape; the colour
says it once more. It reads the ledger of that run, and runs nothing.

    one topic a setting; order "1" is written to each when one broker is dead, order "2" when two
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture
from lab_utils.views.table import Table
from lab_utils.views.wording import counted, listed, title_lines

FLOOR: Final = "min.insync.replicas"
CELL_PX: Final = 78
# So many brokers must have an order for that no single one takes it away.
SAFE_COPIES: Final = 2
# By whether it can be written and is safe: the fill and what the cell says.
OUTCOMES: Final = {
    (True, True): Style("writable, safe", "#9cc7e4", symbol="●"),
    (False, True): Style("refused, safe", "#e3eef6", symbol="◐"),
    (True, False): Style("writable, not safe", "#f6d9c4", symbol="◑"),
    (False, False): Style("refused, not safe", palette.WHITE, symbol="○"),
}

Drawn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting with so many of its replicas dead.

    writable  was the order acked that was written then?
    copies    on how many disks is that acked order which is on the fewest?
    """

    replicas: int
    min_isr: int
    dead: int
    writable: bool
    copies: int

    @property
    def is_safe(self) -> bool:
        """Does it take more than one broker's disk to lose an acked order?"""
        return self.copies >= SAFE_COPIES

    @property
    def style(self) -> Style:
        """How the cell looks, and its word."""
        return OUTCOMES[self.writable, self.is_safe]

    def told(self) -> str:
        """The cell as a sentence without a full stop."""
        dead = counted(self.dead, "dead broker")
        factor = counted(self.replicas, "replica")
        return f"{factor}, min ISR {self.min_isr}, {dead}: {self.style.name}, {_copies(self)}"


def survival(rows: Sequence[Event]) -> Picture:
    """The grid of replication factor, min ISR and dead brokers, drawn.

    The rows of a run with a topic for each setting, whose orders are named after the number of
    brokers that were dead when they were written.
    """
    cells = _cells(rows)
    title = _title(cells)
    return Picture(title, _figure(cells, title), _summary(cells), _table(cells))


def _cells(rows: Sequence[Event]) -> list[Cell]:
    """One cell for each setting and number of dead brokers, by its place."""
    dead = sorted({int(row.value or 0) for row in rows if row.kind == "order"})
    found = []
    for row in rows:
        if row.kind == "topic" and FLOOR in row.detail:
            replicas, floor = int(row.detail["replicas"]), int(row.detail[FLOOR])
            acked = _acked(rows, row.topic)
            ends = _ends(rows, row.topic)
            for number in (it for it in dead if it <= replicas):
                copies = [
                    sum(end > offset for end in ends)
                    for order, offset in acked.items()
                    if order <= number
                ]
                found.append(Cell(replicas, floor, number, number in acked, min(copies, default=0)))
    return sorted(found, key=lambda cell: (cell.replicas, cell.min_isr, cell.dead))


def _acked(rows: Sequence[Event], topic: str | None) -> Mapping[int, int]:
    """The offset of each order that was acked in this topic."""
    return {
        int(row.value or 0): row.offset
        for row in rows
        if (row.source, row.kind, row.topic) == ("client", "acked", topic)
        and row.offset is not None
    }


def _ends(rows: Sequence[Event], topic: str | None) -> list[int]:
    """Where the log of each replica ended, dead or alive, before anything was mended."""
    healed = min((row.at_ns for row in rows if row.kind == "healing"), default=None)
    ends: dict[str, int] = {}
    for row in rows:
        is_before = healed is None or row.at_ns < healed
        if row.kind == "log_end" and row.topic == topic and is_before and row.offset is not None:
            ends[row.actor] = row.offset
    return list(ends.values())


def _title(cells: Sequence[Cell]) -> str:
    """Which settings go on with one dead broker, and are safe however many are."""
    if not cells:
        return "No run to show"
    lines: dict[tuple[int, int], list[Cell]] = {}
    for cell in cells:
        lines.setdefault((cell.replicas, cell.min_isr), []).append(cell)
    good = [
        f"{counted(replicas, 'replica')} with min ISR {floor}"
        for (replicas, floor), line in lines.items()
        if all(it.is_safe for it in line) and all(it.writable for it in line if it.dead == 1)
    ]
    if not good:
        return "No setting goes on with a dead broker and keeps every acked order on two"
    only = "Only " if len(good) < len(lines) else ""
    verb = "keep" if len(good) > 1 or not good[0].startswith("1 ") else "keeps"
    return (
        f"{only}{listed(good)} {verb} every acked order on two brokers, and can be written with "
        "one of them dead"
    )


def _summary(cells: Sequence[Cell]) -> str:
    """How many cells are of each kind, and each that took an order on one disk."""
    kinds = [it.name for it in OUTCOMES.values()]
    count = {kind: sum(cell.style.name == kind for cell in cells) for kind in kinds}
    said = listed([f"{number} {kind}" for kind, number in count.items() if number])
    careless = [cell for cell in cells if cell.writable and not cell.is_safe]
    return " ".join([
        f"{counted(len(cells), 'cell')} of one run: {said}.",
        *(f"{cell.told()}." for cell in careless),
    ])  # fmt: skip


def _table(cells: Sequence[Cell]) -> Table:
    rows = [(it.replicas, it.min_isr, it.dead, it.style.name, it.copies) for it in cells]
    columns = ("replicas", "min ISR", "dead brokers", "it was", "acked orders are at least on")
    marked = frozenset(
        number for number, cell in enumerate(cells) if cell.writable and not cell.is_safe
    )
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
    stands_out = cell.writable and not cell.is_safe
    colour = palette.VERMILLION if stands_out else palette.GREY
    return {
        "type": "rect", "x0": x - 0.47, "x1": x + 0.47, "y0": y - 0.45, "y1": y + 0.45,
        "fillcolor": cell.style.colour, "layer": "below",
        "line": {"color": colour, "width": 3 if stands_out else 1},
    }  # fmt: skip


def _words(cell: Cell, places: Places, levels: Sequence[int]) -> Drawn:
    said = "writable" if cell.writable else "refused"
    return {
        "x": places[cell.replicas, cell.dead], "y": levels.index(cell.min_isr),
        "text": f"{cell.style.symbol}<br>{said}<br><b>{_copies(cell)}</b>", "showarrow": False,
        "font": {"size": 12, "color": palette.BLACK},
    }  # fmt: skip


def _copies(cell: Cell) -> str:
    return f"{cell.copies} {'copy' if cell.copies == 1 else 'copies'}"


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
