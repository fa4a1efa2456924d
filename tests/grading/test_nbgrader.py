"""nbgrader's own commands tell the truth on our notebooks: solved is full points, blank is none."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lab_utils.grading.cases import LABS, exercises
from lab_utils.grading.notebook import build_for_nbgrader, without_markers

pytestmark = [pytest.mark.install, pytest.mark.timeout(900)]
LAB = "00"
# nbgrader, and what it needs beside the lab's own packages.
PACKAGES = ("nbgrader==0.9.6", "alembic", "Mako", "rapidfuzz", "notebook", "notebook_shim")
_notebooks: Any = nbformat


class Course:
    """A folder of nbgrader's, with nbgrader in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "packages"
        install = ["-m", "pip", "install", "--quiet", "--no-deps", f"--target={self.packages}"]
        subprocess.run([sys.executable, *install, *PACKAGES], check=True)

    def nbgrader(self, *words: str) -> str:
        """Run one of its commands; what it says."""
        root = str(LABS.parent)
        environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(self.packages / "bin"), os.environ["PATH"])),
            "PYTHONPATH": os.pathsep.join((str(self.packages), root)),
            "LAB_STATE": str(self.folder / "state"),
            "LAB_OWNER": str(os.getpid()),
        }
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *words],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout + done.stderr

    def notebook(self, *place: str) -> Path:
        """The one notebook in a folder of the course."""
        (found,) = self.folder.joinpath(*place, f"lab{LAB}").glob("*.ipynb")
        return found


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course that has released a lab, and graded what two learners handed in."""
    course = Course(tmp_path_factory.mktemp("course"))
    build_for_nbgrader(LABS, course.folder, [LAB])
    course.nbgrader("generate_assignment", f"lab{LAB}", "--create")
    source = _notebooks.read(course.notebook("source"), 4)
    released = course.notebook("release")
    for learner in ("blank", "solved"):
        handed_in = course.folder / "submitted" / learner / f"lab{LAB}" / released.name
        handed_in.parent.mkdir(parents=True)
        notebook = _notebooks.read(released, 4)
        if learner == "solved":
            for cell, right in zip(notebook.cells, source.cells, strict=True):
                if cell.metadata.get("nbgrader", {}).get("solution"):
                    cell.source = without_markers(right.source)
        _notebooks.write(notebook, handed_in)
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
