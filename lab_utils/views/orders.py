"""Orders by offset: a row for each call of produce(), a column for each offset of the log.

A quiet run is a diagonal. A retry bends it, a duplicate is two cells in a row, a loss is an empty
row whose report says acked. A function of rows: `grid_of` places the cells, `orders_by_offset`
draws them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from plotly.graph_objects import Scatter

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import Call, History, topic_partition
from lab_utils.views import palette
from lab_utils.views.palette import AGAIN, Style
from lab_utils.views.picture import Drawn, Picture, axis, figure, line, note, points, ticks
from lab_utils.views.tables import Table
from lab_utils.views.words import NAMED_LIMIT, counted, headline, in_picture, listed, shown

# What became of an order, as a cell of the picture.
OUTCOMES: Final = {
    "once": Style("stored", palette.BLUE, symbol="square"),
    "twice": Style("stored more than once", palette.VERMILLION, symbol="diamond"),
    "unacked": Style("stored, and not acked", palette.ORANGE, symbol="circle-open"),
    "lost": Style("acked, not in the log", palette.BLACK, symbol="x-thin-open"),
    "foreign": Style("stored, and never sent", palette.PURPLE, symbol="star"),
    "marker": Style("transaction marker", palette.GREY, symbol="square-open"),
}
CALLS_LIMIT: Final = 40
BEFORE_ODD: Final = 8
# What a notebook of 900 pixels leaves for the columns, and when rows are narrow.
WIDTH_PX: Final = 560
COLUMNS_LEAST: Final = 8
MANY_ROWS: Final = 16
LETTERS_IN_CELL: Final = 3
LETTER_PX: Final = 7

# Where a record is: its topic, its partition and its offset.
Place = tuple[str, int, int]


def place_of(row: Event) -> Place:
    """Where a record or a marker is."""
    return *topic_partition(row), row.offset or 0


def outcome(call: Call) -> str:
    """What became of a call, as a key of OUTCOMES; empty if there is nothing to draw."""
    if not call.order.sent:
        return "foreign"
    if not call.copies:
        return "lost" if call.report in call.order.lost else ""
    if len(call.order.copies) > 1:
        return "twice"
    return "once" if call.is_acked else "unacked"


def told(call: Call) -> str:
    """What the program was told."""
    if not call.order.sent:
        return "never sent by this run"
    if call.report is None:
        return "no report"
    if call.report.error:
        return f"{call.report.kind}: {call.report.error}"
    return f"acked, {_offset(call.report)}"


def _offset(row: Event) -> str:
    return "no offset" if row.offset is None else f"offset {row.offset}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One mark: its outcome in OUTCOMES, its text, and its call; a marker has none."""

    outcome: str
    column: float
    row: int
    text: str
    call: Call | None


@dataclass(frozen=True, slots=True)
class Grid:
    """The calls that are shown and the column of each place. `first` of `of` is shown first.

    lost_column   the column in the margin for what is acked and not in the log
    """

    calls: list[Call]
    of: list[Call]
    first: int
    columns: Mapping[Place, float]
    markers: Mapping[Place, str]
    lost_column: float

    @property
    def column_px(self) -> float:
        """How wide a column is."""
        return WIDTH_PX / (self.lost_column + 2)

    @property
    def row_px(self) -> int:
        """How high a row is."""
        return 30 if len(self.calls) <= MANY_ROWS else 20

    @property
    def cell_px(self) -> float:
        """How wide a mark is."""
        return min(self.row_px - 2, max(self.column_px - 2, 7), 26)

    @property
    def has_lost(self) -> bool:
        """Is an acked order not in the log?"""
        return any(outcome(call) == "lost" for call in self.calls)

    @property
    def cells(self) -> list[Cell]:
        """All marks, row by row."""
        longest = max((len(call.order.value) for call in self.calls), default=0)
        fits = longest <= min(LETTERS_IN_CELL, (self.cell_px - 4) / LETTER_PX)
        found = []
        for row, call in enumerate(self.calls):
            columns = [self.columns[place_of(copy)] for copy in call.copies]
            if (what := outcome(call)) == "lost":
                found.append(Cell(what, self.lost_column, row, "", call))
            text = call.order.value if fits else ""
            found += [Cell(what, column, row, text, call) for column in columns]
        return found + [
            Cell("marker", self.columns[place], len(self.calls), kind[:1], None)
            for place, kind in self.markers.items()
        ]

    def row_names(self) -> list[str]:
        """What stands before each row; a value that was sent before has an arrow."""
        names = [
            f"order {shown(call.order.value, 14)}{f' {AGAIN}' if call.attempt > 1 else ''}"
            for call in self.calls
        ]
        return [*names, "markers"] if self.markers else names

    def summary(self) -> str:
        """The picture in sentences, for a reader who cannot see it."""
        calls, records = len(self.of), sum(len(call.copies) for call in self.of)
        said = [f"{counted(calls, 'call')} of produce(), {counted(records, 'record')} in the log."]
        if len(self.calls) < calls:
            said.append(f"Calls {self.first + 1} to {self.first + len(self.calls)} are shown.")
        odd = [call for call in self.calls if outcome(call) != "once"]
        said += [_sentence(call) for call in odd[:NAMED_LIMIT]]
        if len(odd) > NAMED_LIMIT:
            said.append(f"{len(odd) - NAMED_LIMIT} more stand out.")
        return " ".join(said)


def _sentence(call: Call) -> str:
    offsets = [str(row.offset) for row in call.copies]
    where = f"is at offset{'s' if len(offsets) > 1 else ''} {listed(offsets)}"
    where = where if offsets else "is not in the log"
    return f"Order {shown(call.order.value, 16)} {where}; its report: {told(call)}."


def grid_of(rows: Sequence[Event]) -> Grid:
    """At most CALLS_LIMIT calls, around the first that stands out, and the columns they need."""
    history = History(rows)
    odd = [number for number, call in enumerate(history.calls) if outcome(call) != "once"]
    first = max(0, min((odd or [0])[0] - BEFORE_ODD, len(history.calls) - CALLS_LIMIT))
    calls = history.calls[first : first + CALLS_LIMIT]
    places = {place_of(copy) for call in calls for copy in call.copies}
    least, last = min(places, default=("", 0, 0)), max(places, default=("", 0, 0))
    # The marker that ends the last transaction is one offset further.
    end = (*last[:2], last[2] + 1)
    markers = {
        place: row.detail.get("type", "?")
        for row in history.of("log", "marker")
        if least <= (place := place_of(row)) <= end
    }
    columns = _columns(sorted(places | markers.keys()))
    lost = max([*columns.values(), COLUMNS_LEAST - 2]) + 2
    return Grid(calls, history.calls, first, columns, markers, lost)


def _columns(places: list[Place]) -> dict[Place, float]:
    """A column for each place; a partition begins a panel of its own, one column further right."""
    columns: dict[Place, float] = {}
    for place in places:
        before = next(reversed(columns), None)
        step = 1 if before is None or before[:2] == place[:2] else 2
        columns[place] = columns[before] + step if before else 0
    return columns


def orders_by_offset(rows: Sequence[Event]) -> Picture:
    """Which order is at which offset, drawn: a row for each produce(), a column an offset."""
    title, grid = headline(rows), grid_of(rows)
    by_outcome = {name: [it for it in grid.cells if it.outcome == name] for name in OUTCOMES}
    names = grid.row_names()
    every = max(1, round(26 / grid.column_px))
    columns = [(column, place[2]) for place, column in grid.columns.items()][::every]
    drawn = figure(
        [_trace(name, cells, grid) for name, cells in by_outcome.items() if cells],
        plot_px=max(len(names), 1) * grid.row_px,
        margins=(26 + 8 * max(map(len, names), default=0), 210, 58, 92),
        xaxis=axis(-0.8, grid.lost_column + 0.8, "offset in the log", tickfont={"size": 12},
                   tickangle=0, **_lined(ticks(columns))),
        yaxis=axis(max(len(names), 1) - 0.4, -0.6, ticklabelstandoff=6,
                   **_lined(ticks((at, in_picture(name)) for at, name in enumerate(names)))),
        shapes=_lines(grid), notes=[*_reports(grid), *_panel_names(grid)],
    )  # fmt: skip
    return Picture(title, drawn, grid.summary(), _table(grid.of))


def _lined(marks: Drawn) -> Drawn:
    return {**marks, "showgrid": True, "gridcolor": palette.PALE}


def _trace(name: str, cells: Sequence[Cell], grid: Grid) -> Scatter:
    """The cells of one outcome, as an entry of the legend."""
    is_filled = name in ("once", "twice", "foreign")
    return points(
        OUTCOMES[name], [cell.column for cell in cells], [cell.row for cell in cells],
        [_hover(cell) for cell in cells], texts=[in_picture(cell.text) for cell in cells],
        size=grid.cell_px * (1.2 if name == "twice" else 1),
        textfont={"color": palette.WHITE if is_filled else palette.BLACK, "size": 12},
    )  # fmt: skip


def _hover(cell: Cell) -> str:
    if cell.call is None:
        return "a transaction marker: it takes an offset"
    places = [f"partition {row.partition}, {_offset(row)}" for row in cell.call.copies]
    lines = [f"order {cell.call.order.value}", *(places or ["not in the log"]), told(cell.call)]
    return "<br>".join(in_picture(each, 80) for each in lines)


def _lines(grid: Grid) -> Iterable[Drawn]:
    """A line through the copies of an order, and one before the margin column."""
    for number, call in enumerate(grid.calls):
        if len(call.copies) > 1:
            ends = [grid.columns[place_of(call.copies[at])] for at in (0, -1)]
            yield line((ends[0], ends[1]), (number, number), palette.VERMILLION, 2, layer="between")
    if grid.has_lost:
        yield line((grid.lost_column - 0.9,) * 2, (0, 1), dash="dot", yref="paper", layer="above")


def _reports(grid: Grid) -> Iterable[Drawn]:
    """What each report said, right of its row."""
    for number, call in enumerate(grid.calls):
        yield note(1, number, in_picture(told(call), 30), xref="paper", xanchor="left", xshift=8)
    yield _above(1, "<b>the report</b>", xref="paper", xanchor="left", xshift=8)


def _panel_names(grid: Grid) -> Iterable[Drawn]:
    """The partitions, if they are several, and the margin column, if something is lost."""
    panels: dict[tuple[str, int], float] = {}
    for place, column in grid.columns.items():
        panels.setdefault(place[:2], column)
    several = len({topic for topic, _ in panels}) > 1
    for (topic, partition), at in panels.items() if len(panels) > 1 else ():
        name = f"{topic.rpartition('-')[2]}-{partition}" if several else f"partition {partition}"
        yield _above(at, in_picture(name), xanchor="left", xshift=-12)
    if grid.has_lost:
        yield _above(grid.lost_column, "not in the log", xanchor="center")


def _above(x: float, text: str, **place: Any) -> Drawn:
    return note(x, 1, text, yref="paper", yanchor="bottom", **place)


def _table(calls: Sequence[Call]) -> Table:
    """The calls as a table; those that stand out are marked."""
    rows = [
        (
            call.order.value, call.attempt,
            ", ".join(dict.fromkeys(str(row.partition or 0) for row in call.copies)),
            ", ".join(str(row.offset) for row in call.copies), told(call),
        )
        for call in calls
    ]  # fmt: skip
    odd = {number for number, call in enumerate(calls) if outcome(call) != "once"}
    columns = ("order", "attempt", "partition", "offsets in the log", "the report")
    about = "Calls of produce() in sequence, and where their records are."
    return Table(columns, rows, about, frozenset(odd))
