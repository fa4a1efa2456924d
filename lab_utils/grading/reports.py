"""Reports, each a function of the results, and the files that hold them.

Table, CSV, JUnit XML, the results.json of a Gradescope autograder, and for each submission an HTML
page. On the page everything that comes from a submission is escaped; it loads and runs nothing.
Every text is bounded and shows its control characters, wherever the results come from.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lab_utils.audit.report import document
from lab_utils.grading.records import make_folder, write_whole
from lab_utils.grading.results import (
    GRADED,
    Results,
    SubmissionResult,
    Verdict,
    card_table,
    in_html,
    presentable,
    safe_name,
)

COLUMNS: Final = ("learner", "path", "lab", "item", "status", "points", "possible", "reason")
FORMULA: Final = re.compile(r"(^|[;\n])(?!-\Z)(\s*[=+\-@＝＋－＠])")  # noqa: RUF001 - spreadsheets take both
PATH_MAX: Final = 60  # characters of a path in a table and in what a terminal is told

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
section { border-left: 0.4rem solid #767676; padding: 0.1rem 1rem; margin: 1.5rem 0; }
section.PASS { border-color: #0072b2; }
section.FAIL { border-color: #d55e00; }
h2 { font-size: 1.1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; padding: 0.6rem; }
"""


def write_reports(results: Results, out: Path) -> None:
    """Write results.json and everything that is made from it, each file whole."""
    for folder in (out, out / "feedback", out / "gradescope"):
        make_folder(folder)
    texts = {"results.json": results.to_json(), "grades.csv": to_csv(results)}
    texts["junit.xml"] = to_junit(results)
    for each in results.submissions:
        name = each.name or safe_name(each.path.encode(errors="backslashreplace"))
        texts[f"feedback/{name}.html"] = feedback(each)
        texts[f"gradescope/{name}.json"] = to_gradescope(each)
    for name, text in texts.items():
        write_whole(out / name, text)


def table(results: Results) -> str:
    """One line for each submission, and one for each item that has not all its points."""
    shown = list(map(presentable, results.submissions))
    width = max((len(short(each.path)) for each in shown), default=0)
    lines = []
    for each in shown:
        lines.append(f"{short(each.path):<{width}}  {each.score:>14}  {each.seconds:>6.1f} s")
        lines += [f"    {line}" for line in _open_items(each)]
    return "\n".join(lines)


def short(path: str) -> str:
    """A path that leaves a line room for more: of a long one, its end."""
    return path if len(path) <= PATH_MAX else f"…{path[1 - PATH_MAX :]}"


def to_csv(results: Results) -> str:
    """One row for each item; a submission that was not graded has one row without an item."""
    return csv_text(COLUMNS, _rows(results))


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """CSV in which no text is a formula to the spreadsheet that opens it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_safe, rows))
    return text.getvalue()


def _rows(results: Results) -> Iterator[tuple[object, ...]]:
    for each in map(presentable, results.submissions):
        whose = (each.learner or "", each.path, each.lab or "")
        if each.status != GRADED:
            yield (*whose, "", each.status, 0, 0, each.reason or "")
        for item in each.items:
            yield (*whose, item.item, item.status, item.points, item.possible, item.reason)


def to_junit(results: Results) -> str:
    """JUnit XML: a suite for each submission; INCONCLUSIVE is skipped, INFRASTRUCTURE an error."""
    root = Element("testsuites", name="delivery-lab")
    for each in map(presentable, results.submissions):
        suite = SubElement(root, "testsuite", name=each.path, tests=str(len(each.items)))
        if each.status != GRADED:
            case = SubElement(suite, "testcase", classname=each.path, name=each.status)
            SubElement(case, "error", message=each.reason or each.status)
        for item in each.items:
            case = SubElement(suite, "testcase", classname=each.path, name=item.item)
            _outcome(case, item)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def to_gradescope(submission: SubmissionResult) -> str:
    """The results.json that a Gradescope autograder writes, for one submission."""
    submission = presentable(submission)
    tests = [
        {
            "number": item.item,
            "name": f"{item.item} {item.title}",
            "score": item.points,
            "max_score": item.possible,
            "status": "passed" if item.status == "PASS" else "failed",
            "output": "\n".join(_told(item)),
            "output_format": "text",
        }
        for item in submission.items
    ]
    written: dict[str, Any] = {
        "score": submission.points,
        "execution_time": submission.seconds,
        "output": submission.reason or "",
        "output_format": "text",
        "tests": tests,
    }
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def feedback(
    submission: SubmissionResult, *, points: float | None = None, remarks: Iterable[str] = ()
) -> str:
    """The page for one submission; `points` and `remarks` are what a teacher decided later."""
    shown = presentable(submission)
    body = "\n".join(map(_section, shown.items)) or f"<p>{escape(shown.reason or '')}</p>"
    scored = shown.points if points is None else points
    score = f"{scored:g} of {shown.possible} points" if shown.items else shown.status
    whose = ", ".join(filter(None, (shown.learner, f"lab {shown.lab}" if shown.lab else None)))
    title = whose or Path(shown.path).name
    about = [Path(shown.path).name] if whose else []
    lines = "".join(f"<p>{escape(line)}</p>\n" for line in (*about, *remarks))
    body = f"<p><strong>{escape(score)}</strong></p>\n{lines}{body}"
    return document(title, body, STYLE, aside=score)


def _open_items(submission: SubmissionResult) -> list[str]:
    if submission.status != GRADED:
        return [submission.reason or ""]
    return [
        f"{item.status} {item.item}: {item.reason}"
        for item in submission.items
        if item.points < item.possible
    ]


def _told(item: Verdict) -> list[str]:
    """What a learner is told of an item."""
    return [f"{item.status}: {item.reason}", *(item.hint or "").splitlines(), *item.notes]


def _outcome(case: Element, item: Verdict) -> None:
    tag = {"FAIL": "failure", "INCONCLUSIVE": "skipped", "INFRASTRUCTURE": "error"}.get(item.status)
    if tag:
        SubElement(case, tag, message=item.reason)
    SubElement(case, "system-out").text = "\n".join([*_told(item), *item.evidence])


def _safe(row: Iterable[object]) -> list[object]:
    """A row in which no text is a formula, nor what follows a semicolon or a line's end in it.

    These end a cell where the comma is the decimal point.
    """
    return [FORMULA.sub(r"\1'\2", it) if isinstance(it, str) else it for it in row]


def _section(item: Verdict) -> str:
    hint = "".join(f"<p>{in_html(line)}</p>\n" for line in (item.hint or "").splitlines())
    notes = "".join(f"<p><em>{escape(note)}</em></p>\n" for note in item.notes)
    return (
        f'<section class="{escape(item.status)}">\n'
        f"<h2>{escape(item.item)} {escape(item.title)}</h2>\n"
        f"<p><strong>{escape(item.status)}</strong>, "
        f"{item.points} of {item.possible} points: {in_html(item.reason)}</p>\n"
        f"{hint}{notes}{card_table(item.card)}{_evidence(item)}</section>"
    )


def _evidence(item: Verdict) -> str:
    if not item.evidence:
        return ""
    lines = "\n".join(map(escape, item.evidence))
    return f"<details><summary>Evidence</summary><pre>{lines}</pre></details>\n"
