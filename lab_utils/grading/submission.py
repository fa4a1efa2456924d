"""A submission as it was handed in, held against what was handed out.

It reads notebooks (and sources, whose solutions are the submission then) and says which cell is
what. A learner may have edited, moved, doubled or deleted any of them; nothing here trusts them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lab_utils.errors import LabError
from lab_utils.grading.cases import LABS, Exercise, exercises
from lab_utils.grading.notebook import (
    grade_id,
    instructor_notebook,
    lab_of,
    learner_notebook,
    read_notebook,
    read_source,
)

BYTES_MAX: Final = 50_000_000


class NotASubmission(LabError):
    """A file is not a notebook of this course; it cannot be graded."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its text, and the item it answers or checks."""

    source: str
    answers: str | None = None
    checks: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """The code cells of a submission, in order, and its exercises."""

    path: Path
    lab: str
    exercises: tuple[Exercise, ...]
    cells: tuple[Cell, ...]
    handed_out: tuple[Cell, ...]

    def answer_cell(self, item: str) -> int | None:
        """Where the answer of an item is; the last one, if a learner doubled the cell."""
        return self._last(lambda cell: cell.answers == item)

    def check_cell(self, item: str) -> int | None:
        """Where the check of an item is."""
        return self._last(lambda cell: cell.checks == item)

    def due_after(self, position: int) -> list[Exercise]:
        """The exercises that are examined when the cell at this position has run."""
        return [
            each for each in self.exercises
            if position == _latest(self.answer_cell(each.item), self.check_cell(each.item))
        ]  # fmt: skip

    def notes(self, item: str) -> tuple[str, ...]:
        """What a teacher may want to know of the item's check cell; it never changes a grade."""
        wanted = [cell.source for cell in self.handed_out if cell.checks == item]
        found = [cell.source for cell in self.cells if cell.checks == item]
        if not found:
            return ("The check cell is missing; the grader's own examination stands in its place.",)
        if found != wanted:
            return ("The check cell was edited; the grader's own examination stands in its place.",)
        return ()

    def _last(self, wanted: Any) -> int | None:
        found = [position for position, cell in enumerate(self.cells) if wanted(cell)]
        return found[-1] if found else None


def read_submission(path: Path, labs: Path = LABS) -> Submission:
    """Read a notebook or a source; raises NotASubmission with the reason."""
    found = {lab_of(source.stem): source for source in sorted((labs / "source").glob("*.py"))}
    if path.suffix == ".py":
        lab = _known(path, lab_of(path.stem), found)
        notebook = instructor_notebook(read_source(path), lab, exercises(lab, labs))
    else:
        notebook = _notebook(path)
        lab = _known(path, _lab(notebook, path), found)
    handed_out = learner_notebook(read_source(found[lab]), lab, exercises(lab, labs))
    items = exercises(lab, labs)
    return Submission(path, lab, items, _cells(notebook, items), _cells(handed_out, items))


def submissions(paths: Sequence[Path]) -> list[Path]:
    """The files to grade: those named, and the notebooks below each folder, sorted."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = sorted(path.rglob("*.ipynb"))
            files += [each for each in below if ".ipynb_checkpoints" not in each.parts]
        else:
            files.append(path)
    return list(dict.fromkeys(files))


def _notebook(path: Path) -> Any:
    try:
        notebook = read_notebook(_text(path))
        for cell in notebook.cells:
            if not isinstance(cell.get("source"), str):
                raise NotASubmission("a cell of the notebook has no text.")
    except NotASubmission:
        raise
    except OSError as error:
        raise NotASubmission(f"the file cannot be read: {error.strerror}.") from error
    except Exception as error:  # nbformat raises whatever the JSON leads it to
        raise NotASubmission(f"the file is not a notebook ({type(error).__name__}).") from error
    return notebook


def _text(path: Path) -> str:
    """The text of a regular file, in any encoding of Unicode; raises NotASubmission or OSError.

    A link may lead to another's notebook, and a pipe or a device has no end.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        number = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise NotASubmission("the file is a link. Hand in the notebook itself.") from None
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise NotASubmission("the file is no regular file, but a pipe, a device or the like.")
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise NotASubmission(f"the file has more than {BYTES_MAX:,} bytes.")
    return content.decode(json.detect_encoding(content))


def _lab(notebook: Any, path: Path) -> str | None:
    """The lab that the notebook says it is of, in its metadata or else by its name."""
    said = notebook.metadata.get("delivery_lab")
    lab = said.get("lab") if isinstance(said, dict) else None
    return lab if isinstance(lab, str) else lab_of(path.stem)


def _known(path: Path, lab: str | None, found: Any) -> str:
    if lab is None or lab not in found:
        labs = ", ".join(sorted(filter(None, found)))
        raise NotASubmission(f"{path.name} is no notebook of a lab of this course ({labs}).")
    return lab


def _cells(notebook: Any, items: Sequence[Exercise]) -> tuple[Cell, ...]:
    """The code cells, each with the item that it answers or checks.

    A cell is known by its metadata, or by its id. Where an item has none that is known, because a
    tool has stripped them or the cell was typed anew, it is the cell that binds the answer's name,
    or the one that calls the check and does nothing else.
    """
    answers = {grade_id("answer", each.item): each.item for each in items}
    checks = {grade_id("check", each.item): each.item for each in items}
    cells = []
    for cell in notebook.cells:
        if cell.get("cell_type") == "code":
            name = _name(cell, answers.keys() | checks.keys())
            cells.append(Cell(cell.source, answers.get(name), checks.get(name)))
    for each in items:
        binds = rf"(?m)^(def\s+{each.answer}\b|{each.answer}\s*(:[^=\n]*)?=(?!=))"
        calls = rf"""\A\s*lab\.check\(\s*["']{re.escape(each.item)}["'][^\n]*\s*\Z"""
        for role, pattern in (("answers", binds), ("checks", calls)):
            if all(getattr(cell, role) != each.item for cell in cells):
                cells = _found(cells, role, each.item, pattern)
    return tuple(cells)


def _found(cells: list[Cell], role: str, item: str, pattern: str) -> list[Cell]:
    """The cells, of which the last that nobody knows and that has this pattern gets this role."""
    for position, cell in reversed(list(enumerate(cells))):
        if cell.answers is cell.checks is None and re.search(pattern, cell.source):
            known = replace(cell, **{role: item})
            return [*cells[:position], known, *cells[position + 1 :]]
    return cells


def _name(cell: Any, known: Set[str]) -> str:
    """The grade_id of a cell, or its id if that is one."""
    graded = cell.get("metadata", {}).get("nbgrader")
    name = graded.get("grade_id") if isinstance(graded, dict) else cell.get("id")
    return name if isinstance(name, str) and name in known else ""


def _latest(*positions: int | None) -> int:
    """The later of the positions that are there; -1 when neither is."""
    return max((position for position in positions if position is not None), default=-1)
