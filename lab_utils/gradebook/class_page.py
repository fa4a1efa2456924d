"""What a class understood, as one page of HTML: it loads nothing, runs nothing, and escapes all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit.report import STYLE, counted, document, plain

if TYPE_CHECKING:
    from lab_utils.gradebook.understood import Understood

TELLS_LITTLE: Final = 0.2
# Its tables are wider than those of an audit, and its headings are words.
WIDE: Final = f"{STYLE}body {{ max-width: 76rem; }} th {{ overflow-wrap: normal; }}\n"
Cells = Sequence[str]


def page(found: Understood) -> str:
    """The page of an analysis."""
    body = "\n".join(
        (
            f"<p><strong>{counted(found.submissions, 'submission')} of "
            f"{counted(found.learners, 'learner')}</strong>, the last of each learner for each "
            "lab. Every table is in full beside this page, as Parquet.</p>",
            _labs(found.labs),
            _items(found.tables["items"]),
            _mistakes(found.tables["mistakes"]),
            _predictions(found.tables["predictions"]),
            _stuck(found.tables["stuck"]),
            _learners(found.tables["learners"]),
        )
    )
    return document("What the class understood", body, WIDE)


def _labs(rows: Iterable[dict[str, Any]]) -> str:
    cells = (
        (row["lab"], f"{row['learners']:,}", f"{row['mean']:.1f}", f"{row['median']:g}",
         f"{row['possible']:g}", _share(row["full"])) for row in rows
    )  # fmt: skip
    return _table(
        "Labs", "", ("lab", "handed in", "mean", "median", "possible", "all points"), cells
    )


def _items(rows: Iterable[dict[str, Any]]) -> str:
    cells = (
        (row["item"], row["title"], _bar(row["facility"]), _discrimination(row["discrimination"]),
         _share(row["failed"]), _share(row["inconclusive"]), _share(row["blank"]),
         _minutes(row["minutes"], row["timed"]), f"{row['answers']:,}") for row in rows
    )  # fmt: skip
    about = (
        "Facility is the share of the points that the class has: the lower, the harder. "
        "Discrimination is the correlation of an item with the rest of its lab. Below "
        f"{TELLS_LITTLE} it says little about who knows the rest; below zero, look at the item. "
        "Time is the median between the runs of cells, without pauses of more than a quarter of "
        "an hour, where JupyterLab wrote it down."
    )
    columns = ("item", "", "facility", "discrimination", "wrong", "inconclusive", "no answer",
               "time", "answers")  # fmt: skip
    return _table("Items", about, columns, cells)


def _mistakes(rows: Iterable[dict[str, Any]]) -> str:
    cells = (
        (row["item"], row["mistake"], _share(row["share"]), f"{row['learners']:,}") for row in rows
    )
    about = "Of those who gave an answer that is not right."
    return _table("The commonest mistakes", about, ("item", "mistake", "share", "learners"), cells)


def _predictions(rows: Iterable[dict[str, Any]]) -> str:
    cells = (
        (row["lab"], row["where"], row["question"], _text(row["happened"], "not known"),
         _bar(row["right"]), _believed(row), f"{row['learners']:,}") for row in rows
    )  # fmt: skip
    about = (
        "What learners wrote before each run, and what the outputs in their notebooks say "
        "happened. What fewest expected comes first."
    )
    columns = ("lab", "after", "question", "happened", "expected it", "commonest wrong belief",
               "learners")  # fmt: skip
    return _table("What the class believed", about, columns, cells)


def _stuck(rows: Iterable[dict[str, Any]]) -> str:
    cells = (
        (row["item"], _bar(row["share"]), f"{row['learners']:,}", _share(row["stopped"]))
        for row in rows
    )
    about = (
        "The first item of a lab that a learner has not passed. Stopped: those who answered "
        "nothing from there on."
    )
    columns = ("item", "of the lab's learners", "learners", "stopped")
    return _table("Where they are stuck", about, columns, cells)


def _learners(rows: Iterable[dict[str, Any]]) -> str:
    cells = (
        (row["learner"], f"{row['points']:g} of {row['possible']:g}", _bar(row["share"]),
         ", ".join(row["open"] or ()), ", ".join(row["solved_by_most"] or ()),
         "" if row["hours"] is None else f"{row['hours']:.1f} h", f"{row['regraded']}")
        for row in rows
    )  # fmt: skip
    columns = ("learner", "points", "", "not passed", "of these, most others did", "time",
               "graded before")  # fmt: skip
    return _table("Who may need help", "Those with the least points.", columns, cells)


def _table(title: str, about: str, columns: Cells, rows: Iterable[Cells]) -> str:
    """A table; what this module made is HTML, every other cell is text."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    if not body:
        return f"<h2>{escape(title)}</h2>\n<p>Nothing is known.</p>"
    return (
        f"<h2>{escape(title)}</h2>\n<p>{escape(about)}</p>\n"
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"
    )


class _Html(str):
    """What this module made itself."""

    __slots__ = ()


def _cell(cell: str) -> str:
    return cell if isinstance(cell, _Html) else escape(plain(cell))


def _bar(share: float | None) -> str:
    if share is None:
        return "not known"
    return _Html(f'<meter value="{share:.3f}">{share:.0%}</meter> {share:.0%}')


def _discrimination(value: float | None) -> str:
    if value is None:
        return "not known"
    return _Html(f"<strong>{value:.2f}</strong>") if value < TELLS_LITTLE else f"{value:.2f}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _minutes(minutes: float | None, timed: int) -> str:
    return "" if minutes is None else f"{minutes:.0f} min ({timed:,})"


def _text(text: str | None, otherwise: str) -> str:
    return otherwise if text is None else text or "nothing"


def _believed(row: dict[str, Any]) -> str:
    if row["right"] is None:
        return f"most expected {_text(row['commonest'], '')} ({_share(row['commonest_share'])})"
    if row["believed"] is None:
        return ""
    return f"{row['believed'] or 'nothing'} ({_share(row['believed_share'])})"
