"""The grid of orders by offset: which calls are shown, in which columns, and what stands in a cell.

Pure shaping, in rows and columns; orders_by_offset.py draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lab_utils.views.orders import Call, Orders, Place
from lab_utils.views.palette import AGAIN
from lab_utils.views.wording import counted, listed, shown

CALLS_LIMIT: Final = 40
BEFORE_ODD: Final = 8
NAMED_LIMIT: Final = 4

# What a notebook of 900 pixels leaves for the columns, and when rows are narrow.
WIDTH_PX: Final = 560
COLUMNS_LEAST: Final = 8
MANY_ROWS: Final = 16
LETTERS_IN_CELL: Final = 3
LETTER_PX: Final = 7


@dataclass(frozen=True, slots=True)
class Cell:
    """One mark: its outcome in palette.ORDER, its text, and its call; a marker has none."""

    outcome: str
    column: float
    row: int
    text: str
    call: Call | None


@dataclass(frozen=True, slots=True)
class Grid:
    """The calls that are shown and the column of each place. `first` of `of` calls is shown first.

    lost_column   the column in the margin for what is acked and not in the log
    """

    calls: list[Call]
    of: Orders
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
        return any(self.of.outcome(call) == "lost" for call in self.calls)

    @property
    def cells(self) -> list[Cell]:
        """All marks, row by row."""
        longest = max((len(call.value) for call in self.calls), default=0)
        fits = longest <= min(LETTERS_IN_CELL, (self.cell_px - 4) / LETTER_PX)
        marked = [
            Cell("marker", self.columns[place], len(self.calls), kind[:1], None)
            for place, kind in self.markers.items()
        ]
        calls = enumerate(self.calls)
        return [cell for row, call in calls for cell in self._of(row, call, fits)] + marked

    def row_names(self) -> list[str]:
        """What stands before each row; a value that was sent before has an arrow."""
        names = [
            f"order {shown(call.value, 14)}{f' {AGAIN}' if call.attempt > 1 else ''}"
            for call in self.calls
        ]
        return [*names, "markers"] if self.markers else names

    def summary(self) -> str:
        """The picture in sentences, for whoever cannot see it."""
        calls, records = len(self.of.calls), sum(self.of.copies.values())
        told = [f"{counted(calls, 'call')} of produce(), {counted(records, 'record')} in the log."]
        if len(self.calls) < calls:
            told.append(f"Calls {self.first + 1} to {self.first + len(self.calls)} are shown.")
        odd = [it for it in self.calls if self.of.outcome(it) in ("twice", "lost", "foreign")]
        told += [_sentence(call) for call in odd[:NAMED_LIMIT]]
        if len(odd) > NAMED_LIMIT:
            told.append(f"So it is with {len(odd) - NAMED_LIMIT} more.")
        return " ".join(told)

    def _of(self, row: int, call: Call, fits: bool) -> list[Cell]:
        """The marks of one call."""
        outcome = self.of.outcome(call)
        if outcome == "lost":
            return [Cell(outcome, self.lost_column, row, "", call)]
        text = call.value if fits else ""
        return [Cell(outcome, self.columns[place], row, text, call) for place in call.places]


def grid_of(found: Orders) -> Grid:
    """At most CALLS_LIMIT calls, around the first that stands out, and the columns they need."""
    odd = [at for at, call in enumerate(found.calls) if found.outcome(call) != "once"]
    first = max(0, min((odd or [0])[0] - BEFORE_ODD, len(found.calls) - CALLS_LIMIT))
    calls = found.calls[first : first + CALLS_LIMIT]
    places = {place for call in calls for place in call.places}
    least, (partition, most) = min(places, default=(0, 0)), max(places, default=(0, 0))
    # The marker that ends the last transaction is one offset further.
    end = (partition, most + 1)
    markers = {place: kind for place, kind in found.markers.items() if least <= place <= end}
    columns = _columns(sorted(places | markers.keys()))
    lost = max([*columns.values(), COLUMNS_LEAST - 2]) + 2
    return Grid(calls, found, first, columns, markers, lost)


def _columns(places: list[Place]) -> dict[Place, float]:
    """A column for each place; a partition begins a panel of its own, one column further right."""
    columns: dict[Place, float] = {}
    column, partition = -1.0, None
    for place in places:
        column += 1 if partition in (None, place[0]) else 2
        columns[place], partition = column, place[0]
    return columns


def _sentence(call: Call) -> str:
    offsets = [str(offset) for _, offset in call.places]
    where = f"is at offset{'s' if len(offsets) > 1 else ''} {listed(offsets)}"
    place = where if offsets else "is not in the log"
    return f"Order {shown(call.value, 16)} {place}; its report: {call.told}."
