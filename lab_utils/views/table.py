"""A table that a notebook shows as HTML and a terminal as text; every cell is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from lab_utils.views.wording import shown

CELL_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of text; `marked` are the numbers of the rows that stand out.

    `about` says what the table holds, for a reader who cannot see it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    about: str = ""
    marked: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        lines = [tuple(self.columns), *(tuple(map(_text, row)) for row in self.rows)]
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
        cells = "".join(f'<td style="{style}">{escape(_text(cell))}</td>' for cell in row)
        return f"<tr>{cells}</tr>"


_LEFT = "text-align: left; vertical-align: top"


def _text(cell: object) -> str:
    return "" if cell is None else shown(cell, CELL_LIMIT)
