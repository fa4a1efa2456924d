"""What a class understood, as one page of HTML: it loads nothing, runs nothing, and escapes all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit.report import STYLE, counted, document, plain

if TYPE_CHECKING:
    from lab_utils.gradebook.understood import Understood

TELLS_LITTLE: Final = 0.2
# Its tables are wider than those of an audit, and its headings are words.
WIDE: Final = f"{STYLE}body {{ max-width: 76rem; }} th {{ overflow-wrap: normal; }}\n"


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page: its columns, each with how its cell is made of a row."""

    title: str
    columns: Mapping[str, Callable[[Any], str]]
    about: str = ""


def page(found: Understood) -> str:
    """The page of an analysis."""
    body = "\n".join(
        (
            f"<p><strong>{counted(found.submissions, 'submission')} of "
            f"{counted(found.learners, 'learner')}</strong>, the last of each learner for each "
            "lab. Every table is in full beside this page, as Parquet.</p>",
            *(_table(section, found.tables[name]) for name, section in SECTIONS.items()),
        )
    )
    return document("What the class understood", body, WIDE)


def _table(section: Section, rows: Iterable[Mapping[str, Any]]) -> str:
    """A table; what this module made is HTML, every other cell is text."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in section.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell(row))}</td>" for cell in section.columns.values())
        + "</tr>\n" for row in rows
    )  # fmt: skip
    if not body:
        return f"<h2>{escape(section.title)}</h2>\n<p>Nothing is known.</p>"
    return (
        f"<h2>{escape(section.title)}</h2>\n<p>{escape(section.about)}</p>\n"
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


def _text(text: str | None, otherwise: str) -> str:
    return otherwise if text is None else text or "nothing"


def _believed(row: dict[str, Any]) -> str:
    if row["right"] is None:
        return f"most expected {_text(row['commonest'], '')} ({_share(row['commonest_share'])})"
    if row["believed"] is None:
        return ""
    return f"{row['believed'] or 'nothing'} ({_share(row['believed_share'])})"


# In the order of the page; by the names of the tables, and of their columns.
SECTIONS: Final = {
    "labs": Section("Labs", {
        "lab": lambda row: row["lab"],
        "handed in": lambda row: f"{row['learners']:,}",
        "mean": lambda row: f"{row['mean']:.1f}",
        "median": lambda row: f"{row['median']:g}",
        "possible": lambda row: f"{row['possible']:g}",
        "all points": lambda row: _share(row["full"]),
    }),
    "items": Section("Items", {
        "item": lambda row: row["item"],
        "": lambda row: row["title"],
        "facility": lambda row: _bar(row["facility"]),
        "discrimination": lambda row: _discrimination(row["discrimination"]),
        "wrong": lambda row: _share(row["failed"]),
        "inconclusive": lambda row: _share(row["inconclusive"]),
        "no answer": lambda row: _share(row["blank"]),
        "time": lambda row: f"{row['minutes']:.0f} min ({row['timed']:,})" if row["timed"] else "",
        "answers": lambda row: f"{row['answers']:,}",
    }, "Facility is the share of the points that the class has: the lower, the harder. "
       "Discrimination is the correlation of an item with the rest of its lab. Below "
       f"{TELLS_LITTLE} it says little about who knows the rest; below zero, look at the item. "
       "Time is the median between the runs of cells, without pauses of more than a quarter of "
       "an hour, where JupyterLab wrote it down."),
    "mistakes": Section("The commonest mistakes", {
        "item": lambda row: row["item"],
        "mistake": lambda row: row["mistake"],
        "share": lambda row: _share(row["share"]),
        "learners": lambda row: f"{row['learners']:,}",
    }, "Of those who gave an answer that is not right."),
    "predictions": Section("What the class believed", {
        "lab": lambda row: row["lab"],
        "after": lambda row: row["where"],
        "question": lambda row: row["question"],
        "happened": lambda row: _text(row["happened"], "not known"),
        "expected it": lambda row: _bar(row["right"]),
        "commonest wrong belief": lambda row: _believed(row),
        "learners": lambda row: f"{row['learners']:,}",
    }, "What learners wrote before each run, and what the outputs in their notebooks say "
       "happened. What fewest expected comes first."),
    "stuck": Section("Where they are stuck", {
        "item": lambda row: row["item"],
        "of the lab's learners": lambda row: _bar(row["share"]),
        "learners": lambda row: f"{row['learners']:,}",
        "stopped": lambda row: _share(row["stopped"]),
    }, "The first item of a lab that a learner has not passed. Stopped: those who answered "
       "nothing from there on."),
    "learners": Section("Who may need help", {
        "learner": lambda row: row["learner"],
        "points": lambda row: f"{row['points']:g} of {row['possible']:g}",
        "": lambda row: _bar(row["share"]),
        "not passed": lambda row: ", ".join(row["open"] or ()),
        "of these, most others did": lambda row: ", ".join(row["solved_by_most"] or ()),
        "time": lambda row: "" if row["hours"] is None else f"{row['hours']:.1f} h",
        "graded before": lambda row: f"{row['regraded']}",
    }, "Those with the least points."),
}  # fmt: skip
