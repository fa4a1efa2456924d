"""What survives how many dead brokers: a panel a replication factor, a row a min.insync.replicas.

Each cell is what one real run could still do, in words and with a mark of its own shape; the colour
says it once more. It reads the ledger of that run, and runs nothing.

    one topic a setting; order "1" is written to each when one broker is dead, order "2" when two
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from plotly.graph_objects import Scatter

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History
from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Drawn, Picture, axis, figure, note, ticks
from lab_utils.views.tables import Table
from lab_utils.views.words import counted, listed

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
    def is_careless(self) -> bool:
        """Does it take an order that one broker's disk can lose?"""
        return self.writable and not self.is_safe

    @property
    def style(self) -> Style:
        """How the cell looks, and its word."""
        return OUTCOMES[self.writable, self.is_safe]

    @property
    def on(self) -> str:
        """Its copies in words."""
        return counted(self.copies, "copy", "copies")

    def told(self) -> str:
        """The cell as a sentence without a full stop."""
        setting = f"{counted(self.replicas, 'replica')}, min ISR {self.min_isr}"
        return f"{setting}, {counted(self.dead, 'dead broker')}: {self.style.name}, {self.on}"


def survival(rows: Sequence[Event]) -> Picture:
    """The grid of replication factor, min ISR and dead brokers, drawn.

    The rows of a run with a topic for each setting, whose orders are named after the number of
    brokers that were dead when they were written.
    """
    cells = _cells(History(rows))
    places = _places(cells)
    levels = sorted({cell.min_isr for cell in cells})
    at = {cell: (places[cell.replicas, cell.dead], levels.index(cell.min_isr)) for cell in cells}
    hovers = Scatter(
        x=[x for x, _ in at.values()], y=[y for _, y in at.values()], mode="markers",
        marker={"size": 40, "opacity": 0, "symbol": "square"}, hoverinfo="text",
        hovertext=[cell.told() for cell in cells],
    )  # fmt: skip
    drawn = figure(
        [hovers], plot_px=len(levels) * CELL_PX, margins=(90, 20, 84, 62),
        showlegend=False,
        xaxis=axis(-0.5, max(places.values(), default=0) + 0.5,
                   "brokers of its replicas that are dead",
                   **ticks((column, dead) for (_, dead), column in places.items())),
        yaxis=axis(-0.5, len(levels) - 0.5, ticklabelstandoff=6,
                   **ticks((y, f"min ISR {level}") for y, level in enumerate(levels))),
        shapes=[_box(cell, *place) for cell, place in at.items()],
        notes=[*(_words(cell, *place) for cell, place in at.items()), *_factors(places)],
    )  # fmt: skip
    return Picture(_title(cells), drawn, _summary(cells), _table(cells))


def _cells(history: History) -> list[Cell]:
    """One cell for each setting and number of dead brokers, by its place."""
    dead = sorted({int(value or 0) for value in history.given})
    found = []
    for row in history.of("workload", "topic"):
        if FLOOR in row.detail:
            replicas, floor = int(row.detail["replicas"]), int(row.detail[FLOOR])
            acked = {
                int(ack.value or 0): ack.offset
                for ack in history.of("client", "acked")
                if ack.topic == row.topic and ack.offset is not None
            }
            ends = history.log_ends(row.topic).values()
            disks = {order: sum(end > at for end in ends) for order, at in acked.items()}
            for number in (it for it in dead if it <= replicas):
                least = min((on for order, on in disks.items() if order <= number), default=0)
                found.append(Cell(replicas, floor, number, number in acked, least))
    return sorted(found, key=lambda cell: (cell.replicas, cell.min_isr, cell.dead))


def _title(cells: Sequence[Cell]) -> str:
    """Which settings go on with one dead broker, and are safe however many are."""
    if not cells:
        return "No run to show"
    by_setting = groupby(cells, key=lambda cell: (cell.replicas, cell.min_isr))
    lines = {setting: [*its] for setting, its in by_setting}
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
    count = Counter(cell.style for cell in cells)
    said = listed([f"{count[it]} {it.name}" for it in OUTCOMES.values() if count[it]])
    careless = [f"{cell.told()}." for cell in cells if cell.is_careless]
    return " ".join([f"{counted(len(cells), 'cell')} of one run: {said}.", *careless])


def _table(cells: Sequence[Cell]) -> Table:
    rows = [(it.replicas, it.min_isr, it.dead, it.style.name, it.copies) for it in cells]
    columns = ("replicas", "min ISR", "dead brokers", "it was", "acked orders are at least on")
    marked = frozenset(number for number, cell in enumerate(cells) if cell.is_careless)
    return Table(columns, rows, "What each setting survives", marked)


def _places(cells: Sequence[Cell]) -> dict[tuple[int, int], float]:
    """The column of each number of dead brokers, panel by panel with a gap between."""
    keys = sorted({(cell.replicas, cell.dead) for cell in cells})
    factors = sorted({factor for factor, _ in keys})
    return {key: number + 0.25 * factors.index(key[0]) for number, key in enumerate(keys)}


def _box(cell: Cell, x: float, y: float) -> Drawn:
    colour = palette.VERMILLION if cell.is_careless else palette.GREY
    return {
        "type": "rect", "x0": x - 0.47, "x1": x + 0.47, "y0": y - 0.45, "y1": y + 0.45,
        "fillcolor": cell.style.colour, "layer": "below",
        "line": {"color": colour, "width": 3 if cell.is_careless else 1},
    }  # fmt: skip


def _words(cell: Cell, x: float, y: float) -> Drawn:
    said = "writable" if cell.writable else "refused"
    return note(x, y, f"{cell.style.symbol}<br>{said}<br><b>{cell.on}</b>")


def _factors(places: dict[tuple[int, int], float]) -> Iterable[Drawn]:
    """The names of the panels above them."""
    for factor in sorted({factor for factor, _ in places}):
        columns = [column for (its, _), column in places.items() if its == factor]
        name = f"<b>{counted(factor, 'replica')}</b>"
        yield note(sum(columns) / len(columns), 1, name, size=13, yref="paper", yanchor="bottom")
