"""What a class costs: processor time a submission, with every process that it and its stage start.

The whole machine's processors are counted, so nothing else may run beside it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks import Figure
from benchmarks.house import busy_s
from benchmarks.nbgrader_course import COMMAND_S, Course
from lab_utils.grading.cases import LABS, exercises
from lab_utils.grading.grader import grade
from lab_utils.grading.notebook import (
    instructor_notebook,
    learner_notebook,
    notebook_text,
    read_source,
    sources,
)
from lab_utils.grading.results import Results

LAB = "03"
JUNK = 20
# LAB_BENCH_CLASS=30 ./lab bench beside_nbgrader
ENVIRONMENT: Final = "LAB_BENCH_CLASS"


def grading(submissions: int = 4) -> Iterator[Figure]:
    """A class that is right, one that is blank, and files that are no notebooks."""
    source, items = sources(LABS)[LAB], exercises(LAB)
    for name, made in (("right", instructor_notebook), ("blank", learner_notebook)):
        text = notebook_text(made(read_source(source), LAB, items))
        with tempfile.TemporaryDirectory() as folder:
            paths = _written(Path(folder), [text] * submissions)
            busy, wall, results = _graded(paths)
        points = {each.points for each in results.submissions}
        what = f"processor seconds of a {name} lab {LAB}"
        yield Figure(what, busy / submissions, "at most 20", f"of {submissions}, points {points}")
        yield Figure(f"wall seconds of a {name} lab {LAB}", wall / submissions, "at most 12")
    with tempfile.TemporaryDirectory() as folder:
        busy, _, _ = _graded(_written(Path(folder), ["Dear teacher,"] * JUNK))
    yield Figure("processor seconds of a file that is no notebook", busy / JUNK, "at most 0.5")


def beside_nbgrader() -> Iterator[Figure]:
    """A class of which a third is right, a third half right and a third blank, graded by both.

    Both get the same files, those that nbgrader released. nbgrader performs the notebook and its
    public checks; ours performs the unseen schedules, too.
    """
    third = int(os.environ.get(ENVIRONMENT, "6")) // 3
    half = [each.item for each in exercises(LAB)][: len(exercises(LAB)) // 2]
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder), LAB)
        kinds = {"right": None, "half": half, "blank": ()}
        paths = [
            course.hand_in(f"{kind}-{number}", solved)
            for number in range(third) for kind, solved in kinds.items()
        ]  # fmt: skip
        before, begun = busy_s(), time.perf_counter()
        course.nbgrader(
            "autograde", course.assignment, "--create", timeout_s=COMMAND_S * len(paths)
        )
        theirs = busy_s() - before, time.perf_counter() - begun
        *ours, results = _graded(paths)
    points = sorted({each.points for each in results.submissions})
    for what, mine, other in zip(("processor", "wall"), ours, theirs, strict=True):
        detail = {"ours_s": round(mine, 1), "nbgrader_s": round(other, 1), "points": points}
        name = f"a class of {len(paths)} by nbgrader, beside ours: {what} s"
        yield Figure(name, other / mine, "at least 4", detail)


def _written(folder: Path, texts: Sequence[str]) -> list[Path]:
    paths = [folder / f"{number}_{LAB}.ipynb" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _graded(paths: Sequence[Path]) -> tuple[float, float, Results]:
    """The processor and the wall seconds that a grading took, and its results."""
    before, begun = busy_s(), time.perf_counter()
    results = grade(paths)
    return busy_s() - before, time.perf_counter() - begun, results
