"""nbgrader's own commands tell the truth on our notebooks: solved is full points, blank is none."""

from __future__ import annotations

import csv
from typing import Any

import nbformat
import pytest

from benchmarks.nbgrader_course import Course
from lab_utils.grading.cases import exercises

pytestmark = [pytest.mark.install, pytest.mark.timeout(900)]
LAB = "00"
_notebooks: Any = nbformat


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course that has released a lab, and graded what two learners handed in."""
    course = Course(tmp_path_factory.mktemp("course"), LAB)
    course.hand_in("blank", solved=())
    course.hand_in("solved")
    course.nbgrader("autograde", f"lab{LAB}", "--create")
    course.nbgrader("generate_feedback", f"lab{LAB}")
    course.nbgrader("export")
    return course


def test_what_is_released_is_python(course: Course) -> None:
    """No cell of the release is a syntax error, and none holds a solution."""
    cells = [it for it in _notebooks.read(course.notebook("release"), 4).cells
             if it.cell_type == "code"]  # fmt: skip

    for cell in cells:
        compile(cell.source, "cell", "exec")
    assert any("raise NotImplementedError()" in cell.source for cell in cells)
    assert not any("BEGIN SOLUTION" in cell.source for cell in cells)


def test_the_grades(course: Course) -> None:
    """The solved notebook has all points of the lab, the blank one none."""
    possible = sum(each.points for each in exercises(LAB))
    with (course.folder / "grades.csv").open() as lines:
        grades = {row["student_id"]: row for row in csv.DictReader(lines)}

    assert {"blank": 0.0, "solved": float(possible)} == {
        name: float(row["score"]) for name, row in grades.items()
    }
    assert {float(possible)} == {float(row["max_score"]) for row in grades.values()}


def test_validate(course: Course) -> None:
    """Before handing in a learner is told that a blank notebook fails, and a solved does not."""
    said = {
        name: course.nbgrader("validate", str(course.notebook("submitted", name)))
        for name in ("blank", "solved")
    }

    assert "Success! Your notebook passes all the tests." in said["solved"]
    assert "FAILED" in said["blank"]


def test_feedback(course: Course) -> None:
    """Each learner has a page."""
    pages = {path.parts[-3] for path in (course.folder / "feedback").rglob("*.html")}

    assert {"blank", "solved"} == pages
