"""The build makes notebooks for learners, the same bytes each time, and sees every difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lab_utils.errors import BadArgument
from lab_utils.grading.build import build_labs
from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import instructor_notebook, learner_notebook

SOURCE = """\
# %% [markdown]
# # Which way?
#
# Two words.

# %% answer="77.1"
### BEGIN SOLUTION
way = "north"
### END SOLUTION

# %% check="77.1"
lab.check("77.1", way)
"""

CHECKS = """\
from lab_utils.grading.cases import Exercise

EXERCISES = (
    Exercise(item="77.1", title="Which way", points=3, kind="value", answer="way",
             public=(), rules=()),
)
"""

ANSWER = {
    "cell_type": "code",
    "grade": False,
    "grade_id": "answer-77-1",
    "locked": False,
    "schema_version": 3,
    "solution": True,
    "task": False,
}
CHECK = {
    "cell_type": "code",
    "grade": True,
    "grade_id": "check-77-1",
    "locked": True,
    "points": 3,
    "schema_version": 3,
    "solution": False,
    "task": False,
}


@pytest.fixture
def labs(tmp_path: Path) -> Path:
    """A labs folder with one lab of one exercise."""
    for folder, name, text in (
        ("source", "77_which_way.py", SOURCE),
        ("checks", "lab77.py", CHECKS),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    return tmp_path


def built(labs: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((labs / "77_which_way.ipynb").read_text())
    return read


def test_cells_of_the_notebook(labs: Path) -> None:
    """Text, answer and check become cells with nbgrader's metadata and ids of their own."""
    build_labs(labs)

    cells = built(labs)["cells"]

    assert ["cell-00", "answer-77-1", "check-77-1"] == [cell["id"] for cell in cells]
    assert [{}, {"nbgrader": ANSWER}, {"nbgrader": CHECK}] == [cell["metadata"] for cell in cells]
    assert [None, [], []] == [cell.get("outputs") for cell in cells]
    assert ["# YOUR CODE (about 1 line)\n", "way = ..."] == cells[1]["source"]


def test_notebook_names_its_lab_and_kernel(labs: Path) -> None:
    """The metadata names the lab and a kernel that every Jupyter has, and nothing of a machine."""
    build_labs(labs)

    metadata = built(labs)["metadata"]

    assert {"lab": "77"} == metadata["delivery_lab"]
    assert "python3" == metadata["kernelspec"]["name"]
    assert {"delivery_lab", "kernelspec", "language_info"} == set(metadata)


def test_second_build_changes_nothing(labs: Path) -> None:
    """What was built is current."""
    first = build_labs(labs)

    assert ([labs / "77_which_way.ipynb"], []) == ([path for path, _ in first], build_labs(labs))


def test_check_writes_nothing(labs: Path) -> None:
    """Without `write` a missing notebook is a difference and stays missing."""
    ((path, difference),) = build_labs(labs, write=False)

    assert not path.exists()
    assert '+   "source": [\n+    "# Which way?\\n",\n' in difference


def test_an_edited_notebook_is_a_difference(labs: Path) -> None:
    """A notebook that somebody edited by hand is shown as a diff and made again."""
    build_labs(labs)
    path = labs / "77_which_way.ipynb"
    path.write_text(path.read_text().replace("Two words.", "Three."))

    ((_, difference),) = build_labs(labs, ["77"])

    assert '-    "Three."\n+    "Two words."\n' in difference
    assert "Two words." in path.read_text()


def test_a_notebook_without_a_source_goes(labs: Path) -> None:
    """A notebook whose source is gone is a difference; a learner's own notebook is left alone."""
    for name in ("78_gone.ipynb", "mine.ipynb"):
        (labs / name).write_text("{}")

    build_labs(labs)

    assert ["77_which_way.ipynb", "mine.ipynb"] == sorted(p.name for p in labs.glob("*.ipynb"))


def test_unknown_lab_is_refused(labs: Path) -> None:
    """A lab that has no source is refused with those that have one."""
    with pytest.raises(BadArgument, match=r"^79: no such lab in .*There are: 77\.$"):
        build_labs(labs, ["79"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('check="77.1"', 'check="77.2"', r"the cells marked check are \['77.2'\]"),
        ('77.1", way', '77.1", road', r'does not hold `lab.check\("77.1", way\)`'),
        (' answer="77.1"', "", "a solution stands outside of an answer cell"),
    ],
)
def test_source_and_checks_must_agree(labs: Path, old: str, new: str, message: str) -> None:
    """A source that does not fit its checks is refused with what differs."""
    with pytest.raises(BadArgument, match=message):
        learner_notebook(SOURCE.replace(old, new), "77", exercises("77", labs))


def test_instructor_notebook_holds_the_solution(labs: Path) -> None:
    """The instructor's notebook differs from the learner's in the solutions alone."""
    notebook = instructor_notebook(SOURCE, "77", exercises("77", labs))
    handed_out = learner_notebook(SOURCE, "77", exercises("77", labs))

    assert 'way = "north"' == notebook.cells[1].source
    assert notebook.cells[0] == handed_out.cells[0]
    assert notebook.cells[2] == handed_out.cells[2]
    nbformat.validate(notebook)
