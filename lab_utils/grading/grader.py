"""Grades one submission: runs its cells in order, and examines each item when its cell has run.

Whatever a cell does costs its own item at most. A failure of the grader's own machinery is no
verdict: the item or the submission is reported as `infrastructure`.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from lab_utils.audit.verdicts import Verdict
from lab_utils.errors import LabError
from lab_utils.grading.cases import LABS, Exercise
from lab_utils.grading.examination import Examiner, Infrastructure
from lab_utils.grading.judge import failed, no_answer
from lab_utils.grading.kernel import Reply
from lab_utils.grading.results import (
    GRADED,
    INFRASTRUCTURE,
    REJECTED,
    ItemResult,
    SubmissionResult,
)
from lab_utils.grading.sitting import Budget, Sitting
from lab_utils.grading.submission import NotASubmission, Submission, read_submission

# Why an answer cell that did not end well leaves nothing to examine.
UNWELL: Final = {
    "error": "the cell of this answer raised {}",
    "late": "the cell of this answer had not ended when its time was up, and was interrupted.",
    "dead": "the kernel died while the cell of this answer ran.",
    "spent": "the submission's time was spent before the cell of this answer.",
}

ENDED: Final = {
    "error": "raised {}",
    "late": "was interrupted when its time was up.",
    "dead": "ended the kernel.",
    "spent": "was not run: the submission's time was spent.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms that are the same for every submission of a grading.

    place  a private folder; each submission gets a folder in it
    stop   when it is set, whatever is still to be done is given up
    """

    nonce: str
    cell_s: float
    total_s: float
    place: Path
    labs: Path = LABS
    stop: threading.Event = field(default_factory=threading.Event)


def grade_submission(
    path: Path, terms: Terms, say: Callable[[str], object] = lambda _: None
) -> SubmissionResult:
    """Grade one file. Raises nothing that a submission can cause."""
    started = time.monotonic()
    try:
        submission = read_submission(path, terms.labs)
    except NotASubmission as error:
        return _without_items(path, None, REJECTED, started, str(error))
    for last_time in (False, True):
        try:
            items, notes = _graded(submission, terms, say)
            break
        except LabError as error:
            if last_time:
                lab = submission.lab
                return _without_items(path, lab, INFRASTRUCTURE, started, str(error))
    return SubmissionResult(
        path=str(path),
        lab=submission.lab,
        status=GRADED,
        seconds=_since(started),
        items=items,
        notes=notes,
    )


def _graded(
    submission: Submission, terms: Terms, say: Callable[[str], object]
) -> tuple[tuple[ItemResult, ...], tuple[str, ...]]:
    """The items and notes of a submission; raises LabError when no kernel could be started."""
    name = f"grade-{secrets.token_hex(6)}"
    theirs, ours = terms.place / f"{name}-theirs", terms.place / f"{name}-ours"
    ours.mkdir(mode=0o700)
    sitting = Sitting(submission, theirs, Budget(terms.cell_s, terms.total_s, terms.stop))
    examiner = Examiner(sitting, ours, terms.nonce, name)
    try:
        return _examined(submission, sitting, examiner, say), _notes(sitting)
    finally:
        sitting.close()
        examiner.close()
        for folder in (theirs, ours):
            shutil.rmtree(folder, ignore_errors=True)


def _examined(
    submission: Submission, sitting: Sitting, examiner: Examiner, say: Callable[[str], object]
) -> tuple[ItemResult, ...]:
    found: dict[str, ItemResult] = {}
    for position, cell in enumerate(submission.cells):
        if not cell.checks:
            say(f"cell {position + 1} of {len(submission.cells)}")
            sitting.run_cell(position)
        for exercise in submission.due_after(position):
            say(exercise.item)
            found[exercise.item] = _item(submission, sitting, examiner, exercise, position)
    return tuple(
        replace(
            found.get(each.item) or _result(each, no_answer(each, "the answer cell is missing.")),
            notes=submission.notes(each.item),
        )
        for each in submission.exercises
    )


def _item(
    submission: Submission,
    sitting: Sitting,
    examiner: Examiner,
    exercise: Exercise,
    position: int,
) -> ItemResult:
    answer = submission.answer_cell(exercise.item)
    if answer is None:
        return _result(exercise, no_answer(exercise, "the answer cell is missing."))
    reply = sitting.replies[answer]
    if reply.status != "ok":
        return _result(exercise, failed(exercise, _unwell(reply)))
    try:
        return _result(exercise, examiner.examine(exercise, position))
    except Infrastructure as error:
        return _not_examined(exercise, str(error))


def _notes(sitting: Sitting) -> tuple[str, ...]:
    """Which cells did not end well; a cell that answers nothing costs nothing."""
    return tuple(
        f"Code cell {position + 1} {ENDED[reply.status].format(reply.error)}"
        for position, reply in sorted(sitting.replies.items())
        if reply.status in ENDED
    )


def _unwell(reply: Reply) -> str:
    return UNWELL[reply.status].format(reply.error)


def _result(exercise: Exercise, verdict: Verdict) -> ItemResult:
    return ItemResult(
        item=exercise.item,
        title=exercise.title,
        kind=exercise.kind,
        status=verdict.status,
        points=verdict.points,
        possible=exercise.points,
        reason=verdict.reason,
        hint=verdict.hint,
        evidence=tuple(verdict.evidence),
    )


def _not_examined(exercise: Exercise, reason: str) -> ItemResult:
    """An item that the machinery could not examine: no points, and no verdict either."""
    return ItemResult(
        item=exercise.item,
        title=exercise.title,
        kind=exercise.kind,
        status="INFRASTRUCTURE",
        points=0,
        possible=exercise.points,
        reason=reason,
    )


def _without_items(
    path: Path, lab: str | None, status: str, started: float, reason: str
) -> SubmissionResult:
    return SubmissionResult(
        path=str(path), lab=lab, status=status, seconds=_since(started), reason=reason
    )


def _since(started: float) -> float:
    return round(time.monotonic() - started, 1)
