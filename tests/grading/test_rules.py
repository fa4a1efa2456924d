"""Each rule sees its breach in the shortest history that shows it, and not in the near miss."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils.grading.cases import Evidence, Rule, Trial, exercise
from lab_utils.grading.rules import (
    Misshapen,
    answer_equals,
    each_order_is_stored,
    everything_crossed_the_proxy,
    no_order_is_stored_twice,
    nothing_else_is_stored,
    rows_equal,
    the_process_was_restarted,
)
from lab_utils.ledger.events import Event


def record(value: str, offset: int, partition: int = 0) -> Event:
    return Event(run="r", source="log", actor="reader", kind="record", topic="t",
                 partition=partition, offset=offset, value=value)  # fmt: skip


def produce(records: int = 1, fate: str = "forwarded", actor: str = "producer-1") -> Event:
    return Event(run="r", source="wire", actor=actor, kind="request", api="Produce", topic="t",
                 partition=0, records=records, fate=fate)  # fmt: skip


def seen(*rows: Event, orders: str = "0 1", returned: Any = None) -> Evidence:
    trial = Trial(name="a trial")
    return Evidence(trial=trial, orders=tuple(orders.split()), rows=rows, returned=returned)


@pytest.mark.parametrize(
    ("rule", "evidence", "expected"),
    [
        (each_order_is_stored, seen(record("0", 0), record("1", 1)), None),
        (
            each_order_is_stored,
            seen(record("0", 0)),
            "order 1 is not in the log: 1 of 2 missing.",
        ),
        (
            each_order_is_stored,
            seen(orders="0 1 2 3"),
            "orders 0, 1, 2, … are not in the log: 4 of 4 missing.",
        ),
        (no_order_is_stored_twice, seen(record("0", 0), record("1", 1)), None),
        (
            no_order_is_stored_twice,
            seen(record("0", 0), record("1", 1), record("1", 2)),
            "order 1 is in the log twice, at offsets 1 and 2.",
        ),
        (
            no_order_is_stored_twice,
            seen(record("0", 0), record("0", 0, 1), record("1", 1), record("1", 2)),
            "order 0 is in the log twice, at offsets 0 and 0 on several partitions."
            " 2 orders are stored more than once.",
        ),
        (nothing_else_is_stored, seen(record("0", 0)), None),
        (
            nothing_else_is_stored,
            seen(record("0", 0), record("zero", 1)),
            "the log holds a value that is no order of this run: 'zero'.",
        ),
        (everything_crossed_the_proxy, seen(produce(2), record("0", 0), record("1", 1)), None),
        (
            everything_crossed_the_proxy,
            seen(produce(), produce(fate="dropped"), record("0", 0), record("1", 1)),
            "partition 0 holds 2 records, but only 1 crossed the proxy.",
        ),
        (the_process_was_restarted, seen(produce(), produce(actor="producer-11")), None),
        (
            the_process_was_restarted,
            seen(produce(), produce(actor="producer-2")),
            "no client of a restarted process ever came to the wire.",
        ),
    ],
)
def test_rule(rule: Rule, evidence: Evidence, expected: str | None) -> None:
    """The rule says what is wrong with its numbers, or nothing."""
    assert expected == rule(None, evidence)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"order": "2", "at": 3}, None),
        ({"order": "2", "at": 3, "because": "of the retry"}, None),
        ({"order": "2", "at": 4}, "'at' is not what happened: at = 4."),
        ({"order": 2, "at": 4}, "'order', 'at' are not what happened: order = 2, at = 4."),
        ({"order": "2"}, "'at' is not what happened: your answer does not name it."),
        (3, "your answer is 3, and that is not what happened."),
    ],
)
def test_answer_equals(answer: Any, expected: str | None) -> None:
    """An answer is compared name by name, and only what is wrong in it is repeated."""
    rule = answer_equals(lambda _: {"order": "2", "at": 3})

    assert expected == rule(answer, seen())


@pytest.mark.parametrize("answer", ["0 1", ["0 1"], {"both": ["0", "1"]}])
def test_answer_of_another_form(answer: Any) -> None:
    """What has not the form of the right answer is told so, and not explained."""
    assert isinstance(answer_equals(lambda _: {"both": "0 1"})(answer, seen()), Misshapen)
    assert not isinstance(
        answer_equals(lambda _: {"both": "0 1"})({"both": "0"}, seen()), Misshapen
    )


def test_answer_of_another_type_is_another_answer() -> None:
    """True is not 1, although Python says that they are equal."""
    assert answer_equals(lambda _: 1)(True, seen()) is not None
    assert answer_equals(lambda _: 1)(1, seen()) is None


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (({"n": 2}, {"n": 1}), None),
        (({"n": 1, "more": 0}, {"n": 2}), None),
        (({"m": 1},), "the column 'n' is missing; there are m."),
        (({"n": 1},), "your query returns 1 row; there should be 2. Not found: {'n': 2}."),
        (
            ({"n": 1}, {"n": 1}),
            "your query returns 2 rows, but not all are right."
            " Not right: {'n': 1}. Not found: {'n': 2}.",
        ),
        ((), "your query returns 0 rows; there should be 2. Not found: {'n': 1}."),
    ],
)
def test_rows_equal(returned: Any, expected: str | None) -> None:
    """Rows are compared as a bag, in the columns that were asked for."""
    rule = rows_equal(lambda _: [{"n": 1}, {"n": 2}])

    assert expected == rule(None, seen(returned=returned))


def test_rows_where_none_are_right() -> None:
    """A query that should find nothing is wrong when it finds something."""
    rule = rows_equal(lambda _: [])

    assert rule(None, seen(returned=())) is None
    assert "your query returns 1 row; there should be 0. Not right: {'n': 1}." == rule(
        None, seen(returned=({"n": 1},))
    )


def test_places_when_the_end_of_a_broker_is_seen_late() -> None:
    """What the next leader acked before the lab noticed that the first is gone came after it."""
    acks = [
        Event(run="r", source="client", actor="producer-1", kind="acked", value=value, at_ns=at)
        for value, at in (("0", 1), ("1", 2), ("2", 4), ("3", 8))
    ]
    fired = Event(run="r", source="fault", actor="kill_broker", kind="fired", at_ns=3)
    killed = Event(run="r", source="broker", actor="broker-1", kind="killed", at_ns=9)
    evidence = seen(*acks, fired, killed, record("0", 0), record("3", 1), orders="0 1 2 3")
    (rule,) = exercise("02.5").rules

    assert rule({"the first order": [1, 2, 3], "the last order before": [1]}, evidence) is None
    assert rule({"the first order": [1, 2, 3], "the last order before": [1, 2]}, evidence)
