"""A table that a notebook shows as HTML and a terminal as text; every cell is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest

from lab_utils.views.wording import shown

CELL_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of text; `marked` are the numbers of the rows that stand out.

    A cell may be a tuple, one line of text each. `about` says what the table holds, for a reader
    who cannot see it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    about: str = ""
    marked: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        rows = [[(name,) for name in self.columns], *(map(_lines, row) for row in self.rows)]
        lines = [line for row in rows for line in zip_longest(*row, fillvalue="")]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        caption = f'<caption style="text-align: left">{escape(self.about)}</caption>'
        head = "".join(f'<th scope="col" style="{_LEFT}">{escape(it)}</th>' for it in self.columns)
        body = "".join(self._row(number, row) for number, row in enumerate(self.rows))
        return (
            f'<div style="overflow-x: auto"><table>{caption if self.about else ""}'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _row(self, number: int, row: Sequence[object]) -> str:
        style = f"{_LEFT}; font-weight: bold" if number in self.marked else _LEFT
        cells = "".join(
            f'<td style="{style}">{"<br>".join(map(escape, _lines(cell)))}</td>' for cell in row
        )
        return f"<tr>{cells}</tr>"


_LEFT = "text-align: left; vertical-align: top"


def _lines(cell: object) -> tuple[str, ...]:
    if isinstance(cell, tuple):
        return tuple(shown(line, CELL_LIMIT) for line in cell) or ("",)
    return ("" if cell is None else shown(cell, CELL_LIMIT),)
