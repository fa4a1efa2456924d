"""A request that is late: kept while its client goes on, and delivered after a later one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab_utils.proxy.faults import late_request
from lab_utils.waiting import wait_until
from tests.proxy import wire
from tests.proxy.rig import Client, Rig

LATE = late_request("Heartbeat", nth=2)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def cut_off(rig: Rig) -> Client:
    """A client that was cut off at its second heartbeat."""
    client = rig.client()
    client.send(wire.heartbeat(1), wire.heartbeat(2))
    client.receive_all()
    return client


def test_fires_on_the_nth_match(rig: Rig) -> None:
    """The first heartbeat is answered; the second arrives behind a request that was sent later."""
    rig.arm(LATE)
    cut_off(rig)
    rig.client().send(wire.produce(3))
    rig.events_of("fault", "fired")

    assert [wire.heartbeat(1), wire.produce(3), wire.heartbeat(2)] == rig.received


def test_later_answer_waits_for_it(rig: Rig) -> None:
    """When the client is given the later answer, the late request has been answered too."""
    rig.arm(LATE)
    cut_off(rig)
    rig.is_silent = True
    other = rig.client()
    other.send(wire.produce(3))
    wait_until(lambda: len(rig.received) == 2, "the later request", timeout_s=5)
    rig.answer(wire.produce(3))
    wait_until(lambda: len(rig.received) == 3, "the late request", timeout_s=5)
    rig.call(lambda: rig.listeners[0].answer(wire.heartbeat(2)))

    assert wire.produce_answer(3) == other.receive()
    _, later, late = rig.events_of("wire", "response", 3)
    assert ("Produce", "Heartbeat") == (later.api, late.api)
    assert late.at_ns <= int(later.detail["released_at_ns"])


def test_does_not_fire_on_another_api(rig: Rig) -> None:
    """A fault that means Heartbeat leaves Produce alone."""
    armed = rig.arm(LATE)
    client = rig.client()
    client.send(*(wire.produce(number) for number in (1, 2, 3)))

    assert wire.produce_answer(3) == [client.receive() for _ in range(3)][-1]
    assert [(armed, LATE, 0)] == rig.disarm()


def test_is_gone_after_its_scope(rig: Rig) -> None:
    """What is kept when the scope ends never arrives, and the fault is unfired."""
    rig.arm(LATE)
    cut_off(rig)
    rig.disarm()
    other = rig.client()
    other.send(wire.produce(3))

    assert wire.produce_answer(3) == other.receive()
    assert [wire.heartbeat(1), wire.produce(3)] == rig.received
    assert 1 == len(rig.events_of("fault", "unfired"))


def test_appears_in_the_ledger(rig: Rig) -> None:
    """The late request was held and says when it left; nobody was there for its answer."""
    rig.arm(LATE)
    cut_off(rig)
    rig.client().send(wire.produce(3))
    rig.events_of("fault", "fired")
    held = [event for event in rig.events_of("wire", "request", 3) if event.fate == "held"]
    answers = {event.correlation_id: event.fate for event in rig.events_of("wire", "response", 3)}

    assert [2] == [event.correlation_id for event in held]
    assert int(held[0].detail["released_at_ns"]) > held[0].at_ns
    assert {1: "forwarded", 2: "dropped", 3: "held"} == answers
