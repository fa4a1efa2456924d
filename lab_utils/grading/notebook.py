"""The notebook format: from labs/source/*.py to notebooks, one for learners, one with solutions.

A source is jupytext py:percent. Two options of a cell marker are ours: `answer="03.2"` for the
cell that holds an answer, `check="03.2"` for the one that checks it. They become nbgrader's
metadata (schema version 3), with the points of labs/checks. Nothing here reads or runs a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import jupytext
import nbformat
from nbformat import NotebookNode

from lab_utils.errors import BadArgument
from lab_utils.grading import regions
from lab_utils.grading.cases import Exercise

SCHEMA_VERSION: Final = 3
_nodes: Any = nbformat.v4  # it has no types
KERNEL: Final = {"display_name": "Python 3", "language": "python", "name": "python3"}
CellText: TypeAlias = Callable[[str], str]
SOURCE_NAME: Final = re.compile(r"^(\d\d)_[a-z0-9_]+$")


def lab_of(name: str) -> str | None:
    """The lab that a source or notebook belongs to by its file name, as "03"; None for others.

    >>> lab_of("03_why_twice"), lab_of("notes")
    ('03', None)
    """
    match = SOURCE_NAME.match(name)
    return match[1] if match else None


def grade_id(role: str, item: str) -> str:
    """The id of a graded cell; nbgrader allows no dot in it.

    >>> grade_id("check", "03.2")
    'check-03-2'
    """
    return f"{role}-{item.replace('.', '-')}"


def learner_notebook(source: str, lab: str, exercises: Sequence[Exercise]) -> NotebookNode:
    """The notebook that is handed out: holes in place of solutions, no outputs."""
    return _notebook(source, lab, exercises, regions.for_learner)


def instructor_notebook(source: str, lab: str, exercises: Sequence[Exercise]) -> NotebookNode:
    """The notebook with its solutions in place; it must get full points."""
    return _notebook(source, lab, exercises, regions.without_markers)


def notebook_text(notebook: NotebookNode) -> str:
    """The notebook as the text of its file; equal notebooks are equal bytes."""
    return str(_nodes.writes(notebook)).rstrip("\n") + "\n"


def read_source(path: Path) -> str:
    """The text of a source file."""
    return path.read_text(encoding="utf-8")


def _notebook(
    source: str, lab: str, exercises: Sequence[Exercise], cell_text: CellText
) -> NotebookNode:
    read = jupytext.reads(source, fmt="py:percent")
    _require_match(read, exercises)
    points = {each.item: each.points for each in exercises}
    notebook: NotebookNode = _nodes.new_notebook(
        metadata={
            "delivery_lab": {"lab": lab},
            "kernelspec": dict(KERNEL),
            "language_info": {"name": "python"},
        }
    )
    notebook.cells = [
        _cell(cell, position, points, cell_text) for position, cell in enumerate(read.cells)
    ]
    nbformat.validate(notebook)
    return notebook


def _cell(cell: Any, position: int, points: dict[str, int], cell_text: CellText) -> Any:
    if cell.cell_type != "code":
        return _nodes.new_markdown_cell(cell.source, id=f"cell-{position:02d}")
    graded = _nbgrader(cell.metadata, points)
    return _nodes.new_code_cell(
        cell_text(cell.source),
        id=graded["grade_id"] if graded else f"cell-{position:02d}",
        metadata={"nbgrader": graded} if graded else {},
    )


def _nbgrader(options: dict[str, Any], points: dict[str, int]) -> dict[str, Any]:
    """The nbgrader metadata of a graded cell, else nothing."""
    every = {"cell_type": "code", "schema_version": SCHEMA_VERSION, "task": False}
    if "answer" in options:
        name = grade_id("answer", options["answer"])
        return every | {"grade": False, "grade_id": name, "locked": False, "solution": True}
    if "check" in options:
        item = options["check"]
        graded = {"grade": True, "grade_id": grade_id("check", item), "points": points[item]}
        return every | graded | {"locked": True, "solution": False}
    return {}


def _require_match(read: NotebookNode, exercises: Sequence[Exercise]) -> None:
    """Hold the cells of a source against the exercises of its checks; name all that differ."""
    answers = [cell.metadata["answer"] for cell in read.cells if "answer" in cell.metadata]
    checks = {cell.metadata["check"]: cell.source for cell in read.cells
              if "check" in cell.metadata}  # fmt: skip
    items = [each.item for each in exercises]
    wrong = [
        f"the cells marked {role} are {found}, the exercises {items}."
        for role, found in (("answer", answers), ("check", list(checks)))
        if found != items
    ]
    for each in exercises:
        call = f'lab.check("{each.item}", {each.answer}'
        if each.item in checks and call not in checks[each.item]:
            wrong.append(f"the check cell of {each.item} does not hold `{call})`.")
    wrong += [
        f"a solution stands outside of an answer cell: {cell.source[:40]!r}."
        for cell in read.cells
        if regions.has_solution(cell.source) and "answer" not in cell.metadata
    ]
    if wrong:
        raise BadArgument("the source and labs/checks do not agree: " + " ".join(wrong))
