"""A course of nbgrader's with one lab of ours, for the tests and for what it costs beside ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import nbformat

from lab_utils.grading.cases import LABS
from lab_utils.grading.notebook import build_for_nbgrader, without_markers
from lab_utils.processes import end, kill_group, spawn

# nbgrader, and what it needs beside the lab's own packages.
PACKAGES: Final = (
    "nbgrader==0.9.6", "alembic", "Mako", "rapidfuzz", "notebook", "notebook_shim",
)  # fmt: skip
COMMAND_S: Final = 300
_notebooks: Any = nbformat


class Course:
    """A folder of nbgrader's, with nbgrader in it, that has released one lab."""

    def __init__(self, folder: Path, lab: str) -> None:
        self.folder = folder
        self.assignment = f"lab{lab}"
        self._packages = folder / "packages"
        install = ["-m", "pip", "install", "--quiet", "--no-deps", f"--target={self._packages}"]
        subprocess.run([sys.executable, *install, *PACKAGES], check=True)
        build_for_nbgrader(LABS, folder, [lab])
        self.nbgrader("generate_assignment", self.assignment, "--create")

    def nbgrader(self, *words: str, timeout_s: float = COMMAND_S) -> str:
        """Run one of its commands; what it says.

        Raises AssertionError when it fails, and when it has not ended in time: with the line at
        which each of its threads stood. It prints to a file, since what it starts and leaves
        behind would keep a pipe open.
        """
        root = str(LABS.parent)
        environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(self._packages / "bin"), os.environ["PATH"])),
            "PYTHONPATH": os.pathsep.join((str(self._packages), root)),
            "LAB_STATE": str(self.folder / "state"),
            "LAB_OWNER": str(os.getpid()),
        }
        log = self.folder / f"{words[0]}.log"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-X", "faulthandler", "-m", "nbgrader", *words]
        child = spawn(command, log=log, cwd=self.folder, environment=environment)
        late = ""
        try:
            child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = f"nbgrader {' '.join(words)} had not ended after {timeout_s:g} s:\n"
            end([child], (signal.SIGABRT, 10))  # it prints where its threads stand
        finally:
            status = kill_group(child)
        said = log.read_text(encoding="utf-8", errors="replace")
        if late or status:
            raise AssertionError(late + said)
        return said

    def notebook(self, *place: str) -> Path:
        """The one notebook in a folder of the course."""
        (found,) = self.folder.joinpath(*place, self.assignment).glob("*.ipynb")
        return found

    def hand_in(self, learner: str, solved: Collection[str] | None = None) -> Path:
        """Hand in the released notebook with the solutions of these items; of all, if None."""
        source = _notebooks.read(self.notebook("source"), 4)
        released = self.notebook("release")
        notebook = _notebooks.read(released, 4)
        for cell, right in zip(notebook.cells, source.cells, strict=True):
            graded = cell.metadata.get("nbgrader", {})
            item = graded.get("grade_id", "").removeprefix("answer-").replace("-", ".")
            if graded.get("solution") and (solved is None or item in solved):
                cell.source = without_markers(right.source)
        path = self.folder / "submitted" / learner / self.assignment / released.name
        path.parent.mkdir(parents=True)
        _notebooks.write(notebook, path)
        return path
