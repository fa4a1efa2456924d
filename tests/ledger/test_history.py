"""The history of an order: requests and answers paired, and the same facts as the oracle's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lab_utils.ledger.counts import count
from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History, exchanges
from tests import histories as tiny
from tests.oracle import oracle
from tests.views.histories import acked, event, fired, log, request, response

VALUES = st.sampled_from("012")
PARTITIONS = st.integers(0, 1)
ROWS = st.one_of(
    VALUES.map(tiny.sent),
    st.builds(lambda value, at: tiny.acked(value, 0, partition=at), VALUES, PARTITIONS),
    VALUES.map(tiny.unknown),
    VALUES.map(tiny.failed),
    st.builds(tiny.record, VALUES, st.integers(0, 3), PARTITIONS),
    st.builds(tiny.visible, VALUES, st.integers(0, 3), PARTITIONS),
    st.builds(tiny.end, st.booleans(), PARTITIONS),
    st.builds(lambda value, at: tiny.client("processed", value, offset=at), VALUES, PARTITIONS),
    st.builds(tiny.bookmark, st.integers(0, 3)),
)


def read_once(rows: list[Event]) -> list[Event]:
    """Without what a reader finds after its end: the lab reads each partition of a run once."""
    kept: list[Event] = []
    for row in rows:
        ended = {it.partition for it in kept if it.kind == "end"}
        if row.kind not in ("record", "visible", "end") or row.partition not in ended:
            kept.append(row)
    return kept


@given(st.lists(ROWS, max_size=12).map(read_once))
@example([tiny.processed("0", 0), tiny.bookmark(1), tiny.record("1", 0)])
@settings(max_examples=300, deadline=None)
def test_history_counts_what_the_oracle_finds(rows: list[Event]) -> None:
    """Lost and duplicated are the oracle's; what was done twice at one offset is repeated.

    Where it calls an order skipped, the oracle does. The oracle counts copies, too: of two that
    were acked each needs its work.
    """
    rows = tiny.in_run("r", rows)
    found = Counter(name for name, *_ in oracle(rows, "producing").elements())
    history, counts = History(rows), count(rows)
    consuming = oracle(rows, "consuming")
    twice = {value for name, _, _, value, *_ in consuming if "effect" in name}
    skipped = {
        (partition, *offsets)
        for name, _, partition, _, offsets, *_ in consuming
        if name == "skipped-processing"
    }

    assert found["lost-write"] == len({(it.topic, it.value) for it in history.lost})
    assert counts.lost == (found["lost-write"] if history.is_drained else None)
    assert found["duplicate"] == counts.duplicated
    assert twice <= {value for _, _, value in history.repeated}
    assert {(it.partition, it.offset) for it in history.skipped} <= skipped


@pytest.mark.parametrize("drained", [True, False])
def test_loss_needs_the_end_of_its_own_partition(drained: bool) -> None:
    """That another partition was not read to its end makes no order of this one unsure."""
    rows = [*log(), acked(1, "0", 0), event(2, "log", "reader", "end", topic="t", partition=0,
                                            detail={"drained": str(drained).lower()})]  # fmt: skip

    assert ["0"] == [row.value for row in History(rows).lost]
    assert (1 if drained else None) == count(rows).lost


@pytest.mark.parametrize(("offset", "lost"), [(0, 1), (1, 0)])
def test_what_was_stored_after_the_reader_ended_is_not_lost(offset: int, lost: int) -> None:
    """It read to offset 1, where the next record comes: one that is acked there it never met."""
    rows = [tiny.end(offset=1), tiny.sent("0"), tiny.acked("0", offset)]

    assert lost == count(tiny.in_run("r", rows)).lost


def test_same_correlation_id_on_two_connections() -> None:
    """A correlation id counts for its connection alone; the exchanges are in sequence."""
    rows = [request(1, "0", 5, detail={"connection": "c2"}), request(2, "1", 5), response(3, 5, 7)]

    assert [None, 7] == [it.response and it.response.offset for it in exchanges(rows)]


def test_partitions_of_one_request_are_one() -> None:
    """A request to two partitions is one exchange that carries both values."""
    rows = [request(1, "0", 5, partition=0), request(1, "1", 5, partition=1)]

    assert [("0", "1")] == [exchange.values for exchange in exchanges(rows)]


@pytest.mark.parametrize(
    ("fate", "answer", "reached"),
    [
        ("forwarded", {}, True), ("forwarded", {"error": "E"}, False),
        ("forwarded", {"error": "E", "fate": "replaced"}, True), ("forwarded", None, True),
        ("dropped", None, False), ("corrupted", None, False),
    ],
)  # fmt: skip
def test_reached_the_broker(fate: str, answer: dict[str, Any] | None, reached: bool) -> None:
    """What passed unharmed and was accepted; what the proxy answers says nothing about that."""
    answers = [] if answer is None else [response(2, 1, **answer)]
    (found,) = exchanges([request(1, "0", 1, fate=fate), *answers])

    assert reached == found.reached_broker


def test_repeat() -> None:
    """What crossed the wire before is a repeat; elsewhere, or beside what is new, it is none."""
    batch = request(4, None, 4, detail={"values": '["0", "1"]'})
    rows = [request(1, "0", 1), request(2, "0", 2), request(3, "0", 3, partition=1), batch]

    assert [False, True, False, False] == [exchange.is_repeat for exchange in exchanges(rows)]


def test_repeat_of_a_batch_that_was_not_unpacked() -> None:
    """A large batch is recognised by the broker's key; producer id 0 is one, -1 is none."""
    large = {"records": 500, "producer_epoch": 0, "sequence": 0}
    known = [request(at, None, at, producer_id=0, **large) for at in (1, 2)]
    plain = [request(at, None, at, producer_id=-1, **large) for at in (3, 4)]

    assert [False, True, False, False] == [it.is_repeat for it in exchanges(known + plain)]


def test_other_apis_on_demand() -> None:
    """Only the APIs that are asked for are there; None asks for all."""
    rows = [request(1, "0", 1), request(2, None, 2, api="Metadata", records=None)]

    assert (1, 2) == (len(exchanges(rows)), len(exchanges(rows, None)))


def test_told_stored_is_what_an_answer_said() -> None:
    """An answer without an error that arrived, for each part of a batch; with acks=0 no answer."""
    batch = {"detail": {"values": '["1", "2"]'}, "records": 2}
    rows = [
        request(1, None, 1, **batch), response(2, 1, 0),
        request(3, "3", 2), response(4, 2, 2, fate="dropped"),
        request(5, "4", 3), response(6, 3, error="NOT_ENOUGH_REPLICAS"),
        request(7, "5", 4, detail={"acks": "0"}),
        request(8, "6", 5), request(8, "7", 5, partition=1), response(9, 5, 1),
        response(9, 5, partition=1, error="NOT_LEADER_OR_FOLLOWER"),
    ]  # fmt: skip

    assert {"1", "2", "5", "6"} == History(rows).told_stored


def test_log_ends_before_the_repair() -> None:
    """Where each log ended counts as it was while the cluster was broken."""
    ends = [
        event(ms, "broker", f"broker-{at}", "log_end", topic="t", partition=0, offset=offset)
        for ms, at, offset in ((1, 1, 1), (2, 2, 0), (3, 1, 2), (9, 2, 2))
    ]
    rows = [*ends, event(5, "broker", "lab", "healing"), fired(1, "drop_response", 1, 1)]

    assert {"broker-1": 2, "broker-2": 0} == History(rows).log_ends("t")
    assert {} == History(rows).log_ends("u")


def test_exchanges_are_those_of_the_order() -> None:
    """An order knows the requests that carried it, also where no client has borne witness."""
    order = History([request(1, "0", 1), request(2, "0", 2), request(3, "1", 3)]).orders
    (carried,) = [it for (*_, value), it in order.items() if value == "0"]

    assert [1, 2] == [it.first.correlation_id for it in carried.exchanges]
    assert not carried.sent


def test_orders_are_told_apart_by_key_and_value() -> None:
    """Two tombstones, and an empty text beside none, are orders of their own."""
    rows = [
        *(tiny.sent(value, key=key) for key, value in (("a", None), ("b", None), ("a", ""))),
        *(tiny.record(value, at, key=key)
          for at, (key, value) in enumerate((("a", None), ("b", None), ("a", "")))),
    ]  # fmt: skip

    assert (3, []) == (len(History(rows).orders), History(rows).duplicated)


@pytest.mark.parametrize(
    ("rows", "late"),
    [
        ([*map(tiny.sent, "12"), *tiny.log("2", "1")], ["1"]),
        ([*map(tiny.sent, "121"), *tiny.log("1", "2", "1")], []),
        ([tiny.sent("1"), tiny.sent("2", actor="producer-2"), *tiny.log("2", "1")], []),
        ([tiny.sent("1", producer_id=7), tiny.sent("2", producer_id=8), *tiny.log("2", "1")], []),
    ],
)
def test_out_of_sequence(rows: list[Event], late: list[str]) -> None:
    """What is stored after a later one; not what was sent twice, or by another producer."""
    assert late == [order.value for order, _ in History(tiny.in_run("r", rows)).reordered]


def test_one_of_two_tombstones_is_lost() -> None:
    """The log holds the one, and says nothing of the other."""
    rows = [tiny.sent(None, key="a"), tiny.acked(None, 0, key="a"), tiny.sent(None, key="b"),
            tiny.acked(None, 1, key="b"), tiny.record(None, 0, key="a"), tiny.end()]  # fmt: skip

    assert 1 == count(tiny.in_run("r", rows)).lost
