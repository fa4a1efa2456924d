"""A learner's cell has holes where the solutions were, and still runs."""

from __future__ import annotations

import pytest

from lab_utils.errors import BadArgument
from lab_utils.grading.notebook import for_learner, has_solution, without_markers

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


def test_empty_function_is_filled() -> None:
    """A function without a body gets `...`; comments and blank lines are no lines to write."""
    expected = "def send(run):\n    # YOUR CODE (about 2 lines)\n    ..."

    assert expected == for_learner(IN_A_FUNCTION)


def test_hole_in_a_literal() -> None:
    """Where the comment alone is good syntax, nothing else is added."""
    expected = 'settings = {\n    "acks": "all",\n    # YOUR CODE (about 1 line)\n}'

    assert expected == for_learner(IN_A_LITERAL)


def test_names_of_the_solution_are_bound() -> None:
    """A name that only the solution bound is there, so that a check of it has no traceback."""
    expected = "# YOUR CODE (about 2 lines)\nfirst = ...\nsecond = ...\nthird = ..."

    assert expected == for_learner(AT_THE_TOP)


def test_a_given_value_is_kept() -> None:
    """A name that the cell binds before the solution keeps that value."""
    assert 'fault = "a"\n# YOUR CODE (about 1 line)' == for_learner(AFTER_A_DEFAULT)


def test_hidden_tests_are_left_out() -> None:
    """A learner's cell holds no trace of a hidden test."""
    assert "shown = 1\nafter = 3" == for_learner(HIDDEN)


def test_instructor_keeps_everything() -> None:
    """The instructor's cell is the source less its marker lines."""
    assert 'fault = "a"\nfault = "b"' == without_markers(AFTER_A_DEFAULT)
    assert "shown = 1\nassert shown == 2\nafter = 3" == without_markers(HIDDEN)


def test_only_a_solution_is_a_solution() -> None:
    """Hidden tests and plain cells hold no solution."""
    assert [True, False, False] == [has_solution(cell) for cell in (AT_THE_TOP, HIDDEN, "x = 1")]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("### BEGIN SOLUTION\nx = 1", "### BEGIN SOLUTION has no ### END SOLUTION."),
        ("### END SOLUTION", "'### END SOLUTION' stands where ### BEGIN SOLUTION must be."),
        (
            "### BEGIN SOLUTION\n### END HIDDEN TESTS",
            "'### END HIDDEN TESTS' stands where ### END SOLUTION must be.",
        ),
    ],
)
def test_unbalanced_markers_are_refused(cell: str, message: str) -> None:
    """A marker without its other half would hand a solution out."""
    with pytest.raises(BadArgument) as refusal:
        for_learner(cell)

    assert message == str(refusal.value)
