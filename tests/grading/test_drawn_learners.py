"""No ordinary mistake is reported as a failure of the grader.

Solutions with drawn slips in them (slips.py) are graded. Nobody knows what each slip leads to; but
no item may be INFRASTRUCTURE, no submission may be lost, and each verdict says why in one line.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from lab_utils.grading.grader import grade
from lab_utils.grading.notebook import notebook_text
from tests.grading.slips import slipped
from tests.notebooks import SOURCES, source_notebook

pytestmark = [pytest.mark.long, pytest.mark.labs, pytest.mark.timeout(7200)]

# LAB_DRAWN_LEARNERS=100 LAB_DRAWN_SEED=7
COUNT = int(os.environ.get("LAB_DRAWN_LEARNERS", "3"))
SEED = os.environ.get("LAB_DRAWN_SEED", "")
# Parts of a reason that tell a learner nothing.
OF_OURS = ("grader itself", "Traceback", "lab_utils/", "NoneType: None")


def learner(lab: str, number: int) -> tuple[Any, dict[str, list[str]]]:
    """The notebook of one drawn learner, and the slips in each answer cell."""
    draw = random.Random(f"{SEED} {lab} {number}")
    notebook, made = source_notebook(lab), {}
    for cell in notebook.cells:
        if cell.id.startswith("answer-"):
            cell.source, made[cell.id] = slipped(cell.source, draw, draw.choice((1, 1, 2, 3)))
    return notebook, made


@pytest.mark.parametrize("lab", SOURCES)
def test_no_slip_is_the_machines_fault(lab: str, tmp_path: Path) -> None:
    """Each item of each drawn learner has a verdict, with a reason."""
    slips = {}
    for number in range(COUNT):
        notebook, slips[f"{number:03}"] = learner(lab, number)
        (tmp_path / f"{number:03}.ipynb").write_text(notebook_text(notebook), encoding="utf-8")

    graded = grade([tmp_path], cell_s=30).submissions

    assert COUNT == len(graded)
    odd = [
        (Path(each.path).stem, item.item, item.status, item.reason, slips[Path(each.path).stem])
        for each in graded
        for item in each.items
        if item.status == "INFRASTRUCTURE"
        or not item.reason
        or any(text in item.reason for text in (*OF_OURS, "\n"))
    ]
    assert [] == odd
    assert [] == [(each.path, each.reason) for each in graded if each.status != "graded"]
