"""Reports for machines and terminals, each a function of the results.

Table, CSV, JUnit XML, and the results.json of a Gradescope autograder. Feedback for people is in
feedback.py.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lab_utils.grading.results import GRADED, ItemResult, Results, SubmissionResult

COLUMNS: Final = ("path", "lab", "item", "status", "points", "possible", "reason")


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


def _open_items(submission: SubmissionResult) -> list[str]:
    if submission.status != GRADED:
        return [submission.reason or ""]
    return [
        f"{item.status} {item.item}: {item.reason}"
        for item in submission.items
        if item.points < item.possible
    ]


def _told(item: ItemResult) -> list[str]:
    """What a learner is told of an item."""
    return [f"{item.status}: {item.reason}", *(item.hint or "").splitlines(), *item.notes]


def _outcome(case: Element, item: ItemResult) -> None:
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
