"""Reports, each a function of the results, and the files that hold them.

Table, CSV, JUnit XML, the results.json of a Gradescope autograder, and for each learner an HTML
page. On the page everything that comes from a submission is escaped; it loads and runs nothing.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import chain, count
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lab_utils.grading.results import GRADED, Results, SubmissionResult, Verdict

COLUMNS: Final = ("path", "lab", "item", "status", "points", "possible", "reason")

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
    """Write results.json and everything that is made from it."""
    for folder in (out, out / "feedback", out / "gradescope"):
        folder.mkdir(parents=True, exist_ok=True)
    texts = {"results.json": results.to_json(), "grades.csv": to_csv(results)}
    texts["junit.xml"] = to_junit(results)
    for name, each in _named(results.submissions).items():
        texts[f"feedback/{name}.html"] = feedback(each)
        texts[f"gradescope/{name}.json"] = to_gradescope(each)
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def table(results: Results) -> str:
    """One line for each submission, and one for each item that has not all its points."""
    width = max((len(each.path) for each in results.submissions), default=0)
    lines = []
    for each in results.submissions:
        score = f"{each.points}/{each.possible}" if each.status == GRADED else each.status
        lines.append(f"{each.path:<{width}}  {score:>14}  {each.seconds:>6.1f} s")
        lines += [f"    {line}" for line in _open_items(each)]
    return "\n".join(lines)


def to_csv(results: Results) -> str:
    """One row for each item; a submission that was not graded has one row without an item."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in results.submissions:
        lab = each.lab or ""
        if each.status != GRADED:
            writer.writerow(_safe((each.path, lab, "", each.status, 0, 0, each.reason or "")))
        for item in each.items:
            row = (item.item, item.status, item.points, item.possible, item.reason)
            writer.writerow(_safe((each.path, lab, *row)))
    return text.getvalue()


def to_junit(results: Results) -> str:
    """JUnit XML: a suite for each submission; INCONCLUSIVE is skipped, INFRASTRUCTURE an error."""
    root = Element("testsuites", name="delivery-lab")
    for each in results.submissions:
        suite = SubElement(root, "testsuite", name=each.path, tests=str(len(each.items)))
        if each.status != GRADED:
            case = SubElement(suite, "testcase", classname=each.path, name=each.status)
            SubElement(case, "error", message=_printable(each.reason or each.status))
        for item in each.items:
            case = SubElement(suite, "testcase", classname=each.path, name=item.item)
            _outcome(case, item)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def to_gradescope(submission: SubmissionResult) -> str:
    """The results.json that a Gradescope autograder writes, for one submission."""
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


def feedback(submission: SubmissionResult) -> str:
    """The page for one submission."""
    name = escape(Path(submission.path).name)
    body = "\n".join(map(_section, submission.items)) if submission.items else _reason(submission)
    score = (
        f"{submission.points} of {submission.possible} points"
        if submission.status == GRADED
        else escape(submission.status)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: {score}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{name}</h1>\n<p><strong>{score}</strong></p>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _named(submissions: Sequence[SubmissionResult]) -> dict[str, SubmissionResult]:
    """Each submission by its file's name; where names repeat, with its folder's, then a number."""
    stems = Counter(Path(each.path).stem for each in submissions)
    named: dict[str, SubmissionResult] = {}
    for each in submissions:
        path = Path(each.path)
        first = path.stem if stems[path.stem] == 1 else f"{path.parent.name}-{path.stem}"
        others = (f"{first}-{number}" for number in count(2))
        named[next(name for name in chain([first], others) if name not in named)] = each
    return named


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
        SubElement(case, tag, message=_printable(item.reason))
    SubElement(case, "system-out").text = _printable("\n".join([*_told(item), *item.evidence]))


def _safe(row: Sequence[object]) -> list[object]:
    """A row in which no text is a formula to the spreadsheet that opens it."""
    return [
        f"'{field}" if isinstance(field, str) and field.startswith(("=", "+", "-", "@")) else field
        for field in row
    ]


def _printable(text: str) -> str:
    """The text without the control characters that XML cannot hold."""
    return "".join(it if it.isprintable() or it in "\n\t" else "\N{REPLACEMENT CHARACTER}"
                   for it in text)  # fmt: skip


def _section(item: Verdict) -> str:
    hint = "".join(f"<p>{escape(line)}</p>\n" for line in (item.hint or "").splitlines())
    notes = "".join(f"<p><em>{escape(note)}</em></p>\n" for note in item.notes)
    return (
        f'<section class="{escape(item.status)}">\n'
        f"<h2>{escape(item.item)} {escape(item.title)}</h2>\n"
        f"<p><strong>{escape(item.status)}</strong>, "
        f"{item.points} of {item.possible} points: {escape(item.reason)}</p>\n"
        f"{hint}{notes}{_evidence(item)}</section>"
    )


def _evidence(item: Verdict) -> str:
    if not item.evidence:
        return ""
    lines = "\n".join(map(escape, item.evidence))
    return f"<details><summary>Evidence</summary><pre>{lines}</pre></details>\n"


def _reason(submission: SubmissionResult) -> str:
    return f"<p>{escape(submission.reason or '')}</p>"
