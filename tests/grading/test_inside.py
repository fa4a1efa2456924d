"""An answer leaves the kernel as bounded JSON, and is read outside as data."""

from __future__ import annotations

import json
import re
import traceback
from collections import deque
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy
import pandas
import pytest
from pyspark.sql import Row

from lab_utils.clients.workload import WorkloadError
from lab_utils.errors import BadArgument
from lab_utils.grading.inside import (
    CHARACTERS_MAX,
    answer_text,
    no_dataframe,
    pickle_workload,
    raised,
    read_answer,
    read_settings,
)


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def said(answer: Any) -> Any:
    return json.loads(answer_text(answer))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"order": "2", "first": 2}, {"value": {"order": "2", "first": 2}}),
        ((1, 2.5, None), {"value": [1, 2.5, None]}),
        ({2, 1}, {"value": [1, 2]}),
        (False, {"value": False}),
        # What a query counted is as good as what a learner typed; SQL has decimals.
        (numpy.int64(3), {"value": 3}),
        (numpy.array([1, 2]), {"value": [1, 2]}),
        ({"acked": Decimal("3.0")}, {"value": {"acked": 3}}),
        (Decimal("2.5"), {"value": 2.5}),
        (Fraction(6, 2), {"value": 3}),
        (range(1, 3), {"value": [1, 2]}),
        ({"acked": {"b": 2, "a": 1}.values()}, {"value": {"acked": [2, 1]}}),
        ({2: "", 1: ""}.keys(), {"value": [1, 2]}),
        (deque([2, 1]), {"value": [2, 1]}),
        (MappingProxyType({"acked": 3}), {"value": {"acked": 3}}),
        (Row(order="2", first=2), {"value": {"order": "2", "first": 2}}),
        (..., {"blank": True}),
        (None, {"blank": True}),
        ({"order": "2", "first": ...}, {"blank": True}),
        (["2", ...], {"blank": True}),
        (print, {"function": True}),
    ],
)
def test_plain_answers(answer: Any, expected: Any) -> None:
    """Data is data, any number is a number, a blank is a blank, and a function is called one."""
    assert expected == said(answer)


class Refuses:
    """What raises as soon as it is asked for a value."""

    def tolist(self) -> None:
        """Raise, as an object of a library of its own may."""
        raise RuntimeError("no")


# A list that holds itself does not break the kernel.
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "answer",
    [object(), float("nan"), Decimal("inf"), Refuses(), ENDLESS, "x" * (CHARACTERS_MAX + 1),
     b"2", range(10**12)],
)  # fmt: skip
def test_what_is_no_answer(answer: Any) -> None:
    """What JSON cannot hold, or no one would type, is refused with a reason."""
    assert ["raised"] == list(said(answer))


class StatementError(Exception):
    """An error that has what it was about below what went wrong, as SQLAlchemy's do."""

    def __str__(self) -> str:
        return "UNIQUE constraint failed\n[SQL: INSERT]\n(Background: https://sqlalche.me)"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StatementError(), "StatementError: UNIQUE constraint failed"),
        (ExceptionGroup("two failed", [ValueError("x"), ExceptionGroup("y", [KeyError("z")])]),
         "ExceptionGroup: two failed (2 sub-exceptions)"),
    ],
    ids=["with lines of its own", "a group, which is drawn in a frame"],
)  # fmt: skip
def test_an_error_is_told_by_its_first_line(error: Exception, told: str) -> None:
    """In this process, and in the traceback that another has written."""
    try:
        raise error from ValueError("x")
    except Exception as here:
        there = WorkloadError("printed\n" + traceback_of(here))

    for found in (error, there):
        assert re.fullmatch(rf"your function raised [\w.]*{re.escape(told)}", raised(found))


def test_an_error_in_one_line() -> None:
    """The place of a syntax error is indented; what the lab says comes last, and is kept."""
    with pytest.raises(SyntaxError) as info:
        compile("def", "<cell>", "exec")

    assert raised(info.value) == "your function raised SyntaxError: invalid syntax"
    ended = "The workload's process has ended."
    assert raised(WorkloadError(f"printed\n{ended}")) == ended
    for error in (WorkloadError("BadArgument: no"), BadArgument("no")):  # there, and here
        assert raised(error) == "your function raised BadArgument: no"


def test_a_workload_of_which_a_call_performs_nothing() -> None:
    """A generator is refused with what to do, before there is a run; a function is not."""

    def send(run: Any) -> Any:
        yield run.producer()

    assert json.loads(pickle_workload(send)) == {
        "raised": "your function raised BadArgument: the workload send has a yield: to call it "
        "performs nothing of it. Leave the yield out."
    }
    assert {"done": True} == json.loads(pickle_workload(lambda run: run.producer()))


def test_what_a_query_returned_in_place_of_a_dataframe() -> None:
    """That of pandas has the same name and is none of Spark's."""
    assert "your function returned a list, and no DataFrame of Spark." == no_dataframe([])
    assert "your function returned an int, and no DataFrame of Spark." == no_dataframe(3)
    assert "returned a pandas.core.frame.DataFrame, and no" in no_dataframe(pandas.DataFrame())


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
        ({"function": True}, "faults", r"a function, and no fault\. Call it, as in drop_resp"),
        ({"value": 3}, "faults", r"your answer is 3, and that is no fault\. Write one as in"),
        ({"faults": [{"fault": "none"}]}, "faults", "your answer is no fault"),
        ({"faults": [7]}, "faults", "your answer is no fault"),
        ({"faults": 7}, "faults", "your answer is no list of faults"),
    ],
)
def test_what_cannot_be_read(reply: Any, kind: str, message: str) -> None:
    """What a kernel made up is refused with a reason, whatever its shape."""
    with pytest.raises(ValueError, match=message):
        read_answer(reply, kind)


GOOD = {"replicas": 3, "topic": {"min.insync.replicas": 2}, "producer": {"acks": "all"}}


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("producer", "message.timeout.ms", 0),
        ("producer", "message.timeout.ms", 10**400),
        ("producer", "message.timeout.ms", "1e3"),
        ("producer", "acks", 7),
        ("producer", "acks", "most"),
        ("producer", "max.in.flight", 0),
        ("producer", "retries", -1),
        ("producer", "enable.idempotence", "maybe"),
        ("topic", "min.insync.replicas", 4),
        ("topic", "min.insync.replicas", True),
        ("topic", "unclean.leader.election.enable", "yes"),
    ],
)
def test_a_setting_out_of_range(part: str, name: str, value: Any) -> None:
    """A value that no client takes, or with which no trial would end, is refused with its range."""
    with pytest.raises(ValueError, match=re.escape(name)):
        read_settings({**GOOD, part: {name: value}})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"workload": 1}, 'must have "replicas", "topic" and "producer", and nothing else.'),
        ({"topic": {"min.insync.replicas": 2.0}}, "must be a text, an integer or a bool; got"),
        ({"replicas": 2.0}, "replicas must be 1, 2 or 3; yours is 2.0."),
    ],
)
def test_settings_of_another_form(more: dict[str, Any], message: str) -> None:
    """What is wrong with them is what is said."""
    with pytest.raises(ValueError, match=re.escape(message)):
        read_settings(GOOD | more)


def test_a_setting_by_its_other_name() -> None:
    """A name that librdkafka takes for the same setting is as good, and has the same range."""
    given = {"request.required.acks": -1, "max.in.flight.requests.per.connection": 5}
    answer = {**GOOD, "producer": given | {"delivery.timeout.ms": 30000}}

    read = {"acks": -1, "max.in.flight": 5, "message.timeout.ms": 30000}
    assert {**GOOD, "producer": read} == read_settings(answer)
    with pytest.raises(ValueError, match=r"message\.timeout\.ms is a number from 100 to 60000"):
        read_settings({**GOOD, "producer": {"delivery.timeout.ms": 0}})


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("producer", "message.timeout.ms", "30000"),
        ("producer", "acks", -1),
        ("producer", "acks", "ALL"),
        ("producer", "enable.idempotence", True),
        ("producer", "retries", 0),
        ("topic", "unclean.leader.election.enable", "false"),
    ],
)
def test_a_setting_as_a_client_takes_it(part: str, name: str, value: Any) -> None:
    """Numbers and words are taken as text and as what they are."""
    answer = {**GOOD, part: {name: value}}

    assert answer == read_settings(answer)
