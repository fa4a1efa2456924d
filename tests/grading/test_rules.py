"""Each rule sees its breach in the shortest history that shows it, and not in the near miss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from lab_utils.grading.cases import Evidence, Rule, Trial, exercise
from lab_utils.grading.rules import (
    Misshapen,
    answer_equals,
    each_order_has_its_invoice,
    each_order_is_stored,
    everything_crossed_the_proxy,
    final,
    it_can_be_examined,
    no_order_is_added,
    no_order_is_stored_twice,
    nothing_else_is_stored,
    only_what_clients_need,
    rows_equal,
    the_process_was_restarted,
)
from lab_utils.ledger.events import Event
from tests.histories import OPEN, TOPIC, end, record, visible

Facts: TypeAlias = tuple[str, ...] | None


ORDERED, BILLED = (replace(visible("0", 0), topic=topic) for topic in ("r-orders", "r-invoices"))
# An open transaction has no marker.
IN_TRANSACTIONS = (OPEN, record("0", 0), record("1", 1))
# A log that somebody has cut at its beginning.
CUT = end(offset=2, start=2)


def produce(records: int = 1, fate: str = "forwarded", actor: str = "producer-1") -> Event:
    return Event(run="r", source="wire", actor=actor, kind="request", api="Produce", topic=TOPIC,
                 partition=0, records=records, fate=fate)  # fmt: skip


def asked(api: str | None, kind: str = "request", topic: str | None = None) -> Event:
    return Event(run="r", source="wire", actor="admin", kind=kind, api=api, topic=topic)


def crashed() -> Event:
    return Event(run="r", source="workload", actor="process", kind="crashed")


def seen(*rows: Event, orders: str = "0 1", returned: Any = None) -> Evidence:
    trial = Trial(name="a trial")
    return Evidence(trial=trial, orders=tuple(orders.split()), rows=rows, returned=returned)


def filled(*rows: Event) -> Evidence:
    """Of a run whose orders are in its topic from the start."""
    own = (it if it.topic != TOPIC else replace(it, topic=f"{it.run}-orders") for it in rows)
    return replace(seen(*own), trial=Trial(name="a trial", filled=True))


def says(sentence: str | None, facts: Facts) -> bool:
    """Does the sentence hold these facts? Without facts there must be none."""
    if facts is None or sentence is None:
        return facts is sentence
    return all(fact in sentence for fact in facts)


@pytest.mark.parametrize(
    ("rule", "evidence", "expected"),
    [
        (each_order_is_stored, seen(record("0", 0), record("1", 1)), None),
        (each_order_is_stored, seen(*IN_TRANSACTIONS, visible("0", 0), visible("1", 1)), None),
        (
            each_order_is_stored,
            seen(*IN_TRANSACTIONS, visible("0", 0)),
            ("order 1 is in the log", "not committed", "not given it."),
        ),
        (
            each_order_is_stored,
            seen(*IN_TRANSACTIONS),
            ("orders 0, 1 are in the log", "not given them."),
        ),
        (each_order_is_stored, seen(record("0", 0)), ("order 1 ", "1 of 2")),
        (each_order_is_stored, seen(orders="0 1 2 3"), ("orders 0, 1, 2, …", "4 of 4")),
        (no_order_is_stored_twice, seen(record("0", 0), record("1", 1)), None),
        (
            no_order_is_stored_twice,
            seen(record("0", 0), record("1", 1), record("1", 2)),
            ("order 1 ", "offsets 1 and 2"),
        ),
        (
            no_order_is_stored_twice,
            seen(record("0", 0), record("0", 0, 1), record("1", 1), record("1", 2)),
            ("order 0 ", "offsets 0 and 0 ", "partitions", "2 orders"),
        ),
        (
            no_order_is_stored_twice,
            seen(replace(record("1", 1), key="a"), replace(record("1", 2), key="b")),
            ("order 1 ", "offsets 1 and 2"),
        ),
        # The first copy was aborted.
        (
            no_order_is_stored_twice,
            seen(*IN_TRANSACTIONS, record("0", 2), replace(record("0", 2), kind="visible")),
            None,
        ),
        (each_order_has_its_invoice, seen(ORDERED, BILLED), None),
        (each_order_has_its_invoice, seen(ORDERED), ("order 0 can be read once", "0 times")),
        (each_order_has_its_invoice, seen(BILLED), ("order 0 ", "0 times", "its invoice once.")),
        (nothing_else_is_stored, seen(record("0", 0)), None),
        (nothing_else_is_stored, seen(record("0", 0), record("zero", 1)), ("'zero'",)),
        (everything_crossed_the_proxy, seen(produce(2), record("0", 0), record("1", 1)), None),
        (
            everything_crossed_the_proxy,
            seen(produce(), produce(fate="dropped"), record("0", 0), record("1", 1)),
            ("partition 0 ", "2 records", "only 1 "),
        ),
        (everything_crossed_the_proxy, seen(produce(2), CUT), ("partition 0 begins at offset 2",)),
        (only_what_clients_need, seen(asked("CreatePartitions", topic="r-orders")), None),
        (
            only_what_clients_need,
            seen(asked("CreatePartitions", topic="r-invoices")),
            ("another topic than run.topic",),
        ),
        (
            only_what_clients_need,
            seen(asked("CreatePartitions", topic="__consumer_offsets")),
            ("another topic than run.topic",),
        ),
        (
            only_what_clients_need,
            seen(replace(produce(actor="nobody"), detail={"outside": "true"})),
            ("'nobody'", "none of this run's"),
        ),
        (only_what_clients_need, seen(produce(), asked("DeleteTopics")), ("DeleteTopics",)),
        (only_what_clients_need, seen(asked(None, "opaque")), ("nobody can read",)),
        # Of one that is filled no reader sees what is added; a stranger's id may hide the request.
        (no_order_is_added, seen(produce(), record("0", 0), record("1", 1)), None),
        (no_order_is_added, filled(record("0", 0), record("1", 1)), None),
        (no_order_is_added, filled(replace(produce(), topic="r-invoices")), None),
        (no_order_is_added, filled(produce(fate="dropped")), ("wrote to run.topic",)),
        (
            no_order_is_added,
            filled(record("0", 0), record("1", 1), record("0", 2)),
            ("wrote to run.topic",),
        ),
        (the_process_was_restarted, seen(produce(), crashed(), produce()), None),
        (the_process_was_restarted, seen(produce(), produce(actor="producer-11")), ("restarted",)),
        (the_process_was_restarted, seen(produce(), crashed()), ("restarted",)),
    ],
)
def test_rule(rule: Rule, evidence: Evidence, expected: Facts) -> None:
    """The rule says what is wrong with its numbers, or nothing."""
    assert says(rule(None, evidence), expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"order": "2", "at": 3}, None),
        ({"order": "2", "at": 3, "because": "of the retry"}, None),
        ({"order": "2", "at": 4}, ("'at' ", "at = 4")),
        ({"order": 2, "at": 4}, ("'order', 'at'", "order = 2, at = 4")),
        ({"order": "2"}, ("your answer does not name 'at'.",)),
        ({"order": "3"}, ("'order' ", "order = '3'", "your answer does not name 'at'.")),
        (3, ("your answer is 3",)),
    ],
)
def test_answer_equals(answer: Any, expected: Facts) -> None:
    """An answer is compared name by name, and only what is wrong in it is repeated."""
    rule = answer_equals(lambda _: {"order": "2", "at": 3})

    assert says(rule(answer, seen()), expected)


@pytest.mark.parametrize("answer", ["0 1", ["0 1"], {"both": ["0", "1"]}, {"both": "0"}])
def test_answer_of_another_form(answer: Any) -> None:
    """What has not the form of the right answer is told so, and not explained."""
    found = answer_equals(lambda _: {"both": "0 1"})(answer, seen())

    assert isinstance(found, Misshapen) == (answer != {"both": "0"})


def test_answer_of_another_type_is_another_answer() -> None:
    """True is not 1, although Python says that they are equal; nor is it under a name."""
    for right, wrong in ((1, True), ({"committed": 1}, {"committed": True})):
        rule = answer_equals(lambda _, right=right: right)

        assert rule(wrong, seen()) is not None
        assert rule(right, seen()) is None


BOTH = [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("right", "returned", "expected"),
    [
        (BOTH, ({"n": 2}, {"n": 1}), None),
        (BOTH, ({"n": 1, "more": 0}, {"n": 2}), None),
        (BOTH, ({"m": 1},), ("'n'", "m.")),
        (BOTH, ({"n": 1},), ("returns 1 row;", "should be 2", "Not found: {'n': 2}")),
        (BOTH, ({"n": 1}, {"n": 1}), ("2 rows", "Not right: {'n': 1}", "Not found: {'n': 2}")),
        (BOTH, (), ("returns 0 rows", "should be 2", "Not found: {'n': 1}")),
        # Of a single row it is not said that not all are right.
        ([{"n": 2}], ({"n": 1},), ("returns 1 row, but it is another one.",)),
        ([], (), None),
        ([], ({"n": 1},), ("1 row;", "be 0", "Not right: {'n': 1}")),
    ],
)
def test_rows_equal(right: Any, returned: Any, expected: Facts) -> None:
    """Rows are compared as a bag, in the columns that were asked for."""
    assert says(rows_equal(lambda _: right)(None, seen(returned=returned)), expected)


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


def notice(number: int, sequence: int | None, value: str | None = "0") -> tuple[Event, Event]:
    """A notice that is acked: the request of this number, and its answer."""
    sent = Event(run="r", source="wire", actor="producer-1", kind="request", api="Produce",
                 topic="r-notices", partition=0, value=value, sequence=sequence,
                 correlation_id=number, fate="forwarded")  # fmt: skip
    return sent, replace(sent, kind="response", value=None, sequence=None)


@pytest.mark.parametrize(
    ("acks", "is_gone"),
    [
        ([notice(1, -1)], False),
        ([notice(1, -1), notice(2, -1)], True),  # lost, and sent again by a rewound program
        ([notice(1, 0), notice(2, 1)], True),
        ([notice(1, 0), notice(2, 0)], False),  # one batch, which the broker knew again
        ([notice(1, 0), notice(2, None, None)], False),  # a request without a batch
    ],
)
def test_an_acked_notice_that_is_gone(acks: list[tuple[Event, Event]], is_gone: bool) -> None:
    """Each ack has its copy in the log, whatever was sent again later."""
    rows = [row for both in acks for row in both]
    (rule,) = [it for it in exercise("07.2").rules if it.__name__ == "each_has_its_notice"]
    kept = replace(record("0", 1), run="r", topic="r-notices")

    found = rule(None, seen(*rows, kept, orders="0"))

    assert (found == "a notice of order 0 was acked, and is gone.") == is_gone
    assert is_gone or found is None


def test_an_open_transaction_is_given_to_nobody() -> None:
    """Also where no marker says that there are transactions at all."""
    rows = [replace(row, run="r", topic="r-t") for row in (*IN_TRANSACTIONS, visible("0", 0))]

    assert {"0": 1} == final(seen(*rows), "t")
    assert {"0": 1, "1": 1} == final(seen(*rows[1:3]), "t")


def by(number: int, api: str = "JoinGroup", group: str = "billing") -> Event:
    """A request of a consumer to its group."""
    detail = {"group_id": group} if api != "Fetch" else {}
    return replace(asked(api), actor=f"consumer-{number}", detail=detail)


def placed(partition: int) -> Event:
    """What the controller says of a partition."""
    return Event(run="r", source="broker", actor="controller", kind="partition", topic="t",
                 partition=partition)  # fmt: skip


LARGE = [
    replace(produce(), correlation_id=number, partition=it, detail={"bytes": "15000000"})
    for number in (7, 8) for it in range(3)
]  # fmt: skip
EXAMINED: dict[str, tuple[list[Event], Facts]] = {
    "some groups": ([by(1, group=str(each % 20)) for each in range(40)], None),
    "many groups": ([by(1, group=str(each)) for each in range(21)], ("21 groups", "20 are")),
    "many records": (
        [replace(produce(), records=100_001)], ("100,001 records", "100,000 are"),
    ),
    "many records and fewer than none": (
        [produce(-(2**31)), produce(100_001)], ("100,001 records", "100,000 are"),
    ),
    "some partitions": ([placed(number) for number in range(50)], None),
    "many partitions": ([placed(number) for number in range(51)], ("51 partitions", "50 are")),
    "many bytes": ([replace(produce(), detail={"bytes": "20000001"})], ("20,000,001 bytes",)),
    "one large request to three partitions": (LARGE[:3], None),
    "two of them": (LARGE, ("30,000,000 bytes",)),
    "as much as is looked at": (
        [replace(produce(100_000), detail={"bytes": "20000000"})], None,
    ),
    # Each of them would be held against each answer with that number.
    "one number": ([by(1)] * 201, ("one number to 201 requests", "200 are")),
    "compressed": (
        [replace(produce(), detail={"compression": "gzip"})], ("compression.type=gzip",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), EXAMINED.values(), ids=EXAMINED)
def test_what_can_be_examined(rows: list[Event], expected: Facts) -> None:
    """Of more than so much the grader reads nothing, and says so."""
    assert says(it_can_be_examined(seen(*rows)), expected)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([by(1, "Fetch"), by(2, "Fetch")], ("2 processes", "0 joined")),
        ([by(1), by(1, "Fetch"), by(2, "Fetch")], ("1 joined",)),
        ([by(1), by(2, "ConsumerGroupHeartbeat")], None),
        ([by(1, "Fetch")], None),
    ],
    ids=["both chose", "one chose", "both joined", "one was not seen at all"],
)
def test_who_shares_joins(rows: list[Event], expected: Facts) -> None:
    """Where nobody could be given partitions, for the processes asked no group for them."""
    alone = seen(*rows)
    shared = replace(alone, trial=replace(alone.trial, members=2), trouble=("waited 30 s.",))

    assert says(it_can_be_examined(shared), expected)
    assert it_can_be_examined(replace(shared, trouble=())) is None
    assert it_can_be_examined(alone) is None
