"""The board counts matches of each fault, from its arming, for its own run."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils.codec.frames import Request, read_request
from lab_utils.errors import BadArgument
from lab_utils.ledger.events import Event
from lab_utils.proxy.armed import FaultBoard
from lab_utils.proxy.faults import crash_client, drop_response
from tests.proxy import wire

PRODUCE = read_request(wire.produce(7))
OTHER = read_request(wire.produce(7, client_id="03-c.producer-1"))


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def board(events: list[Event]) -> FaultBoard:
    return FaultBoard(events.append)


# the run it is armed for, the fault, the requests that come, at which of them it fires
COUNTS = {
    "the nth from the arming": ("03-b", {"nth": 2}, [PRODUCE] * 4, [0, 1, 0, 0]),
    "each from the nth on": ("03-b", {"nth": 2, "once": False}, [PRODUCE] * 4, [0, 1, 1, 1]),
    "another run is not counted": ("03-b", {"nth": 1}, [OTHER, PRODUCE], [0, 1]),
    "of no run, as the panel arms it: any client": ("", {"nth": 2}, [PRODUCE, OTHER], [0, 1]),
}


@pytest.mark.parametrize(("run", "given", "requests", "fires"), COUNTS.values(), ids=COUNTS)
def test_counts(
    board: FaultBoard, run: str, given: Any, requests: list[Request], fires: list[int]
) -> None:
    """A fault counts what matches from its arming on, for its own run."""
    board.match(PRODUCE)
    board.arm(run, drop_response("Produce", **given))

    assert fires == [len(board.match(request)) for request in requests]


def test_faults_count_each_for_itself(board: FaultBoard) -> None:
    """Two faults see the same requests, each with a count of its own."""
    board.arm("03-b", drop_response("Produce", nth=1))
    board.match(PRODUCE)
    board.arm("03-b", drop_response("Produce", nth=1))

    assert [1, 0] == [len(board.match(PRODUCE)) for _ in range(2)]


def test_disarm_ends_the_faults_of_one_run(board: FaultBoard, events: list[Event]) -> None:
    """The faults of a run end together; those of another stay.

    What never fired is said when the scope ends, so that the run proves nothing.
    """
    fired = board.arm("03-b", drop_response("Produce")).id
    unfired = board.arm("03-b", drop_response("Produce", nth=9)).id
    other = board.arm("03-c", drop_response("Produce")).id
    board.fired(board.match(PRODUCE)[0], PRODUCE, connection="b1-1")

    assert [
        (fired, drop_response("Produce"), 1),
        (unfired, drop_response("Produce", nth=9), 0),
    ] == (board.disarm("03-b"))
    assert [other] == [armed.id for armed in board.armed()]
    assert [(fired, "armed"), (unfired, "armed"), (other, "armed"), (fired, "fired"),
            (unfired, "unfired")] == [
        (event.detail["fault"], event.kind) for event in events
    ]  # fmt: skip


def test_fired_event_names_the_request(board: FaultBoard, events: list[Event]) -> None:
    """The ledger can be searched for the very request that a fault acted on."""
    board.arm("03-b", drop_response("Produce", topic="orders"))
    board.fired(board.match(PRODUCE)[0], PRODUCE, connection="b1-1")

    event = events[-1]

    assert ("03-b", "drop_response", "Produce", 7) == (
        event.run, event.actor, event.api, event.correlation_id,
    )  # fmt: skip
    assert {
        "api": "Produce",
        "nth": "1",
        "topic": "orders",
        "once": "True",
        "sent": "0",
        "call": 'drop_response("Produce", topic="orders")',
        "fault": "f1",
        "connection": "b1-1",
    } == event.detail


def test_crash_client_is_not_for_the_wire(board: FaultBoard) -> None:
    """A fault that the client acts on is refused, rather than armed and never fired."""
    with pytest.raises(BadArgument, match=r"Pass it to lab\.run"):
        board.arm("03-b", crash_client("after_ack"))
