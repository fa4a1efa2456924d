"""What a class costs: processor time a submission, with every process that it and its stage start.

The whole machine's processors are counted, so nothing else may run beside it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from benchmarks import Figure
from lab_utils.grading.cases import LABS, exercises
from lab_utils.grading.grader import grade
from lab_utils.grading.notebook import (
    instructor_notebook,
    learner_notebook,
    notebook_text,
    read_source,
)
from lab_utils.grading.results import Results

LAB = "03"
JUNK = 20


def grading(submissions: int = 4) -> Iterator[Figure]:
    """A class that is right, one that is blank, and files that are no notebooks."""
    (source,) = (LABS / "source").glob(f"{LAB}_*.py")
    items = exercises(LAB)
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


def _written(folder: Path, texts: Sequence[str]) -> list[Path]:
    paths = [folder / f"{number}_{LAB}.ipynb" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _graded(paths: Sequence[Path]) -> tuple[float, float, Results]:
    """The processor and the wall seconds that a grading took, and its results."""
    before, begun = psutil.cpu_times(), time.perf_counter()
    results = grade(paths)
    after, ended = psutil.cpu_times(), time.perf_counter()
    busy = sum(getattr(after, name) - getattr(before, name) for name in ("user", "nice", "system"))
    return busy, ended - begun, results
