"""An answer leaves the kernel as bounded JSON, and is read outside as data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab_utils.grading.inside import CHARACTERS_MAX, answer_text, read_answer


def said(answer: Any) -> Any:
    return json.loads(answer_text(answer))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"order": "2", "first": 2}, {"value": {"order": "2", "first": 2}}),
        ((1, 2.5, None), {"value": [1, 2.5, None]}),
        ({2, 1}, {"value": [1, 2]}),
        (False, {"value": False}),
        (..., {"blank": True}),
        (None, {"blank": True}),
        ({"order": "2", "first": ...}, {"blank": True}),
        (["2", ...], {"blank": True}),
        (print, {"function": True}),
    ],
)
def test_plain_answers(answer: Any, expected: Any) -> None:
    """Data is data, a blank is a blank, and a function is said to be one."""
    assert expected == said(answer)


def test_numbers_of_numpy_are_numbers() -> None:
    """What a query counted is as good as what a learner typed."""
    import numpy

    assert {"value": {"acked": 3}} == said({"acked": numpy.int64(3)})


@pytest.mark.parametrize("answer", [object(), float("nan"), "x" * (CHARACTERS_MAX + 1)])
def test_what_is_no_answer(answer: Any) -> None:
    """What JSON cannot hold, or no one would type, is refused with a reason."""
    assert ["raised"] == list(said(answer))


def test_nested_without_end() -> None:
    """A list that holds itself does not break the kernel."""
    endless: list[Any] = []
    endless.append(endless)

    assert ["raised"] == list(said(endless))


def test_value_is_read() -> None:
    """A value is read as it was; nothing there is None."""
    assert [{"a": 1}, False, None] == [
        read_answer(it, "value") for it in ({"value": {"a": 1}}, {"value": False}, {"blank": True})
    ]


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        ({"raised": "NameError: answer_1"}, "value", "NameError: answer_1"),
        ({"function": True}, "value", "your answer is a function"),
        ({"value": 3}, "faults", "your answer is 3, and that is no fault."),
        ({"faults": [{"fault": "none"}]}, "faults", "your answer is no fault"),
        ({"faults": [7]}, "faults", "your answer is no fault"),
    ],
)
def test_what_cannot_be_read(reply: Any, kind: str, message: str) -> None:
    """What a kernel made up is refused with a reason, whatever its shape."""
    with pytest.raises(ValueError, match=message):
        read_answer(reply, kind)
