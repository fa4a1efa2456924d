"""The build makes notebooks for learners, with holes where the solutions were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lab_utils.errors import BadArgument
from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import (
    build_labs,
    for_learner,
    has_solution,
    instructor_notebook,
    learner_notebook,
    without_markers,
    without_source,
)

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

EXERCISES = {
    "77.1": Exercise(title="Which way", points=3, kind="value", answer="way", public=(), rules=()),
}
"""

EVERY = {"cell_type": "code", "schema_version": 3, "task": False}
ANSWER = {**EVERY, "grade": False, "grade_id": "answer-77-1", "locked": False, "solution": True}
CHECK = {**EVERY, "grade": True, "grade_id": "check-77-1", "locked": True, "solution": False,
         "points": 3}  # fmt: skip

IN_A_FUNCTION = """\
def send(run):
    ### BEGIN SOLUTION
    # The one way.
    producer = run.producer()

    producer.flush()
    ### END SOLUTION"""
IN_A_LITERAL = """\
settings = {
    "acks": "all",
    ### BEGIN SOLUTION
    "enable.idempotence": True,
    ### END SOLUTION
}"""
AT_THE_TOP = """\
### BEGIN SOLUTION
first, second = 1, 2
def third(): ...
### END SOLUTION"""
AFTER_A_DEFAULT = """\
fault = "a"
### BEGIN SOLUTION
fault = "b"
### END SOLUTION"""
HIDDEN = """\
shown = 1
### BEGIN HIDDEN TESTS
assert shown == 2
### END HIDDEN TESTS
after = 3"""


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (IN_A_FUNCTION, "def send(run):\n    # YOUR CODE (about 2 lines)\n    ..."),
        (IN_A_LITERAL, 'settings = {\n    "acks": "all",\n    # YOUR CODE (about 1 line)\n}'),
        (AT_THE_TOP, "# YOUR CODE (about 2 lines)\nfirst = ...\nsecond = ...\nthird = ..."),
        (AFTER_A_DEFAULT, 'fault = "a"\n# YOUR CODE (about 1 line)'),
        (HIDDEN, "shown = 1\nafter = 3"),
    ],
)
def test_a_learners_cell(cell: str, expected: str) -> None:
    """It has a hole, which is filled where it must be: in syntax, and in names; it always runs."""
    assert expected == for_learner(cell)


def test_instructor_keeps_everything() -> None:
    """The instructor's cell is the source less its marker lines."""
    assert 'fault = "a"\nfault = "b"' == without_markers(AFTER_A_DEFAULT)
    assert "shown = 1\nassert shown == 2\nafter = 3" == without_markers(HIDDEN)
    assert [True, False, False] == [has_solution(cell) for cell in (AT_THE_TOP, HIDDEN, "x = 1")]


@pytest.mark.parametrize(
    "cell",
    [
        "### BEGIN SOLUTION\nx = 1",
        "### END SOLUTION",
        "### BEGIN SOLUTION\n### END HIDDEN TESTS",
        "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION",
    ],
)
def test_unbalanced_markers_are_refused(cell: str) -> None:
    """A marker without its other half would hand a solution out."""
    with pytest.raises(BadArgument, match="SOLUTION"):
        for_learner(cell)


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
    build_labs(labs)
    read: dict[str, Any] = json.loads((labs / "77_which_way.ipynb").read_text())
    return read


def test_cells_of_the_notebook(labs: Path) -> None:
    """Text, answer and check become cells with nbgrader's metadata and ids of their own."""
    cells = built(labs)["cells"]

    assert ["cell-00", "answer-77-1", "check-77-1"] == [cell["id"] for cell in cells]
    assert [{}, {"nbgrader": ANSWER}, {"nbgrader": CHECK}] == [cell["metadata"] for cell in cells]
    assert [None, [], []] == [cell.get("outputs") for cell in cells]
    assert ["# YOUR CODE (about 1 line)\n", "way = ..."] == cells[1]["source"]


def test_notebook_names_its_lab_and_kernel(labs: Path) -> None:
    """The metadata names the lab and a kernel that every Jupyter has, and nothing of a machine."""
    metadata = built(labs)["metadata"]

    assert {"lab": "77"} == metadata["delivery_lab"]
    assert "python3" == metadata["kernelspec"]["name"]
    assert {"delivery_lab", "kernelspec", "language_info"} == set(metadata)


def test_second_build_changes_nothing(labs: Path) -> None:
    """What was built is current; `write=False` builds nothing."""
    path = labs / "77_which_way.ipynb"

    assert [path] == [it for it, _ in build_labs(labs, write=False)]
    assert not path.exists()
    assert ([path], []) == ([it for it, _ in build_labs(labs)], build_labs(labs))


def test_an_edited_notebook_is_a_difference(labs: Path) -> None:
    """A notebook that somebody edited by hand is shown as a diff and made again."""
    build_labs(labs)
    path = labs / "77_which_way.ipynb"
    path.write_text(path.read_text().replace("Two words.", "Three."))

    ((_, difference),) = build_labs(labs, ["77"])

    assert '-    "Three."\n+    "Two words."\n' in difference
    assert "Two words." in path.read_text()


def test_a_notebook_without_a_source_stays(labs: Path) -> None:
    """A notebook whose source is gone may be somebody's work: it is named, and left as it is."""
    for name in ("78_gone.ipynb", "mine.ipynb"):
        (labs / name).write_text("{}")

    build_labs(labs)

    assert [labs / "78_gone.ipynb"] == without_source(labs)
    assert "{}" == (labs / "78_gone.ipynb").read_text() == (labs / "mine.ipynb").read_text()


def test_unknown_lab_is_refused(labs: Path) -> None:
    """A lab that has no source is refused with those that have one."""
    with pytest.raises(BadArgument, match=r"79.*77"):
        build_labs(labs, ["79"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('check="77.1"', 'check="77.2"', r"\['77.2'\]"),
        ('77.1", way', '77.1", road', r'lab.check\("77.1", way\)'),
        (' answer="77.1"', "", "a solution stands outside"),
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
