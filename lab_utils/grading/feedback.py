"""The feedback a learner gets: one HTML page for each submission, complete in itself.

Everything that comes from a submission is escaped; the page loads nothing and runs nothing.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

from lab_utils.grading.results import GRADED, ItemResult, SubmissionResult

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
section { border-left: 0.4rem solid #767676; padding: 0.1rem 1rem; margin: 1.5rem 0; }
section.PASS { border-color: #0072b2; }
section.FAIL { border-color: #d55e00; }
h2 { font-size: 1.1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; padding: 0.6rem; }
"""


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


def _section(item: ItemResult) -> str:
    hint = "".join(f"<p>{escape(line)}</p>\n" for line in (item.hint or "").splitlines())
    notes = "".join(f"<p><em>{escape(note)}</em></p>\n" for note in item.notes)
    return (
        f'<section class="{escape(item.status)}">\n'
        f"<h2>{escape(item.item)} {escape(item.title)}</h2>\n"
        f"<p><strong>{escape(item.status)}</strong>, "
        f"{item.points} of {item.possible} points: {escape(item.reason)}</p>\n"
        f"{hint}{notes}{_evidence(item)}</section>"
    )


def _evidence(item: ItemResult) -> str:
    if not item.evidence:
        return ""
    lines = "\n".join(map(escape, item.evidence))
    return f"<details><summary>Evidence</summary><pre>{lines}</pre></details>\n"


def _reason(submission: SubmissionResult) -> str:
    return f"<p>{escape(submission.reason or '')}</p>"
