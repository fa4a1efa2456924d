"""The table of a sweep: an outcome for each setting and position; a click shows that run.

It is drawn by the explorer's module, from runs that are data. In a terminal it is a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import traitlets

from lab_utils.views.explorer import Drawn
from lab_utils.views.explorer.run_data import RunData
from lab_utils.views.tables import Table


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its setting, its fault and position in words, what came of it, and its run."""

    setting: str
    fault: str
    position: str
    words: tuple[str, ...]
    data: RunData


class SweepTable(Drawn):
    """A table of outcomes, each with its run.

    cells   in the sequence in which they ran; each has `setting`, `fault`, `position`, `words`
            and `data`, its run as data
    """

    was = "the table of a sweep"
    grid: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    runs: traitlets.List[RunData] = traitlets.List().tag(sync=True)

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = tuple(cells)
        super().__init__(grid=grid(self.cells), runs=[cell.data for cell in self.cells])

    @property
    def table(self) -> Table:
        """The same as a table of text: a row for each setting, a column for each fault."""
        by_setting = groupby(self.cells, key=lambda cell: cell.setting)
        rows = [(setting, *(", ".join(cell.words) for cell in cells))
                for setting, cells in by_setting]  # fmt: skip
        first = self.cells[: len(rows[0]) - 1] if rows else ()
        heads = (f"{cell.fault} {cell.position}".strip() for cell in first)
        return Table(("settings", *heads), rows, "What became of the orders of each run.")

    def __repr__(self) -> str:
        return repr(self.table)


def grid(cells: Sequence[Cell]) -> dict[str, Any]:
    """The table as the page draws it: faults, their positions, and the words of each cell."""
    settings = list(dict.fromkeys(cell.setting for cell in cells))
    columns = list(dict.fromkeys((cell.fault, cell.position) for cell in cells))
    words = {(cell.setting, cell.fault, cell.position): cell.words for cell in cells}
    return {
        "faults": [
            {"name": fault, "positions": [position for _, position in some]}
            for fault, some in groupby(columns, key=lambda column: column[0])
        ],
        "settings": settings,
        "words": [[list(words[it, *column]) for column in columns] for it in settings],
    }
