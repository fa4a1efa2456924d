"""A request and its answer become one exchange."""

from __future__ import annotations

from lab_utils.views.exchanges import exchanges
from tests.views import histories
from tests.views.histories import request, response


def test_one_for_each_request() -> None:
    """Six Produce requests are six exchanges, in the order of their requests."""
    values = [exchange.values for exchange in exchanges(histories.lost_answer())]

    assert [("0",), ("1",), ("2",), ("2",), ("3",), ("4",)] == values


def test_same_correlation_id_on_two_connections() -> None:
    """A correlation id counts for its connection alone."""
    rows = [request(1, "0", 5), request(2, "1", 5, detail={"connection": "c2"}), response(3, 5, 7)]

    assert [7, None] == [it.response and it.response.offset for it in exchanges(rows)]


def test_partitions_of_one_request_are_one() -> None:
    """A request to two partitions is one exchange that carries both values."""
    rows = [request(1, "0", 5, partition=0), request(1, "1", 5, partition=1)]

    assert [("0", "1")] == [exchange.values for exchange in exchanges(rows)]


def test_repeat() -> None:
    """What crossed the wire before is a repeat; the same value elsewhere is none."""
    rows = [request(1, "0", 1), request(2, "0", 2), request(3, "0", 3, partition=1)]

    assert [False, True, False] == [exchange.is_repeat for exchange in exchanges(rows)]


def test_repeat_of_a_batch_that_was_not_unpacked() -> None:
    """A large batch is recognised by the broker's key; producer id 0 is one, -1 is none."""
    large = {"records": 500, "producer_epoch": 0, "sequence": 0}
    known = [request(at, None, at, producer_id=0, **large) for at in (1, 2)]
    plain = [request(at, None, at, producer_id=-1, **large) for at in (3, 4)]

    assert [False, True, False, False] == [it.is_repeat for it in exchanges(known + plain)]


def test_other_apis_on_demand() -> None:
    """Only the APIs that are asked for are there; None asks for all."""
    rows = [request(1, "0", 1), request(2, None, 2, api="Metadata", records=None)]

    assert 1 == len(exchanges(rows))
    assert 2 == len(exchanges(rows, None))
