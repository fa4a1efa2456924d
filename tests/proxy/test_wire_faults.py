"""Each fault of the wire: it fires at the nth match, at nothing else, and the ledger has it."""

from __future__ import annotations

import pytest

from lab_utils.codec.frames import Request
from lab_utils.ledger.events import Event
from lab_utils.ledger.history import released_ns
from lab_utils.proxy import exchange
from lab_utils.proxy.faults import (
    Fault,
    WireFault,
    corrupt_request,
    delay_response,
    drop_request,
    drop_response,
    late_request,
    refuse,
    replay_request,
)
from lab_utils.proxy.faults.wire_fault import Forward
from lab_utils.waiting import wait_until
from tests.proxy import wire
from tests.proxy.rig import Client, Rig

BY_MS = 100


class hold_request(WireFault):  # noqa: N801
    """No fault of the lab holds a request; one of a learner's may."""

    def on_request(self, request: Request) -> Forward:  # noqa: D102
        return Forward(after_ms=BY_MS)


EACH = [
    drop_response("Produce", nth=2),
    drop_request("Produce", nth=2),
    corrupt_request("Produce", nth=2),
    refuse("Produce", nth=2),
    hold_request("Produce", nth=2),
    delay_response("Produce", nth=2, by_ms=BY_MS),
    late_request("Produce", nth=2, after="Heartbeat"),
    replay_request("Produce", nth=2, later=1),
]
each = pytest.mark.parametrize("fault", EACH, ids=lambda fault: type(fault).__name__)


def send_produces(rig: Rig, count: int = 3) -> Client:
    """Send requests 1, 2, 3 … in one go, and wait until there is nothing more to come."""
    client = rig.client()
    client.send(*(wire.produce(number) for number in range(1, count + 1)))
    return client


def meet(rig: Rig) -> None:
    """Send three Produce requests, and then a Heartbeat of another client."""
    send_produces(rig)
    rig.events_of("wire", "request")
    other = rig.client()
    other.send(wire.heartbeat(9))

    assert wire.heartbeat_answer(9) == other.receive()


def one(events: list[Event]) -> Event:
    (event,) = events
    return event


def test_each_fault_is_tried_here() -> None:
    """A new fault of the wire is added to the list above, or this fails."""
    of_the_wire = {name for name, kind in Fault.kinds.items() if issubclass(kind, WireFault)}

    assert of_the_wire == {type(fault).__name__ for fault in EACH}


@each
def test_fires_on_the_nth_match(rig: Rig, fault: WireFault) -> None:
    """Of three requests, the fault acts on the second; another connection is left alone.

    Armed and fired are events of the run, with the fault's parameters and its id.
    """
    armed = rig.arm(fault)
    meet(rig)
    events = rig.events_of("fault", "armed") + rig.events_of("fault", "fired")

    assert [None, 2] == [event.correlation_id for event in events]
    assert [("03-b", type(fault).__name__, armed, "2")] * 2 == [
        (event.run, event.actor, event.detail["fault"], event.detail["nth"]) for event in events
    ]


@each
def test_does_not_fire_on_another_api(rig: Rig, fault: WireFault) -> None:
    """Heartbeats pass a fault that means Produce, and are not counted."""
    armed = rig.arm(fault)
    client = rig.client()
    client.send(*(wire.heartbeat(number) for number in (1, 2, 3)))

    assert wire.heartbeat_answer(3) == [client.receive() for _ in range(3)][-1]
    assert [(armed, fault, 0)] == rig.disarm()


@each
def test_is_gone_after_its_scope(rig: Rig, fault: WireFault) -> None:
    """A fault that has been disarmed is said to be unfired, and leaves every request alone."""
    armed = rig.arm(fault)
    rig.disarm()
    client = send_produces(rig)

    assert armed == one(rig.events_of("fault", "unfired")).detail["fault"]
    assert [wire.produce_answer(n) for n in (1, 2, 3)] == [client.receive() for _ in range(3)]
    assert [wire.produce(n) for n in (1, 2, 3)] == rig.received


def fates(rig: Rig, kind: str, count: int) -> list[str | None]:
    return [event.fate for event in rig.events_of("wire", kind, count)]


def test_drop_response(rig: Rig) -> None:
    """The broker gets all requests; from the second on, the client gets no answer."""
    rig.arm(drop_response("Produce", nth=2))

    assert [wire.produce_answer(1)] == send_produces(rig).receive_all()
    assert [wire.produce(number) for number in (1, 2, 3)] == rig.received
    assert ["forwarded"] * 3 == fates(rig, "request", 3)
    assert ["forwarded", "dropped", "dropped"] == fates(rig, "response", 3)
    assert "fault" == one(rig.events_of("wire", "closed")).detail["by"]


def test_drop_request(rig: Rig) -> None:
    """The first is answered; the second and all behind it never reach the broker."""
    rig.arm(drop_request("Produce", nth=2))

    assert [wire.produce_answer(1)] == send_produces(rig).receive_all()
    assert [wire.produce(1)] == rig.received
    assert ["forwarded", "dropped", "dropped"] == fates(rig, "request", 3)
    assert ["forwarded"] == fates(rig, "response", 1)


def test_corrupt_request_changes_one_byte(rig: Rig) -> None:
    """The broker gets the second request with one byte changed, and the ledger says which."""
    rig.arm(corrupt_request("Produce", nth=2))
    client = send_produces(rig)
    [client.receive() for _ in range(3)]
    at = len(wire.produce(2)) - 1

    assert [wire.produce(1), wire.produce(3)] == [rig.received[0], rig.received[2]]
    assert wire.produce(2)[:at] + b"\xff" == rig.received[1]
    assert f"byte {at}: 00 to ff" == one(rig.events_of("fault", "fired")).detail["changed"]


def test_replay_is_a_copy_under_another_number(rig: Rig) -> None:
    """It follows the later request; its answer ends at the proxy, and all the others pass."""
    rig.arm(replay_request("Produce", nth=1, later=1, times=2))
    client = send_produces(rig)
    answers = [client.receive() for _ in range(3)]
    copies = [event for event in rig.events_of("wire", "request", 5) if event.fate == "replayed"]
    dropped = [event for event in rig.events_of("wire", "response", 5) if event.fate == "dropped"]

    assert [wire.produce(number) for number in (1, 2, -1, -2, 3)] == rig.received
    assert [wire.produce_answer(number) for number in (1, 2, 3)] == answers
    assert [-1, -2] == [event.correlation_id for event in copies]
    assert [-1, -2] == [event.correlation_id for event in dropped]
    assert "-1" == one(rig.events_of("fault", "fired")).detail["copy"]


def test_replay_never_arrives_after_the_scope(rig: Rig) -> None:
    """What is to be copied when the scope ends is given up, and the fault is unfired."""
    rig.arm(replay_request("Produce", later=1))
    client = send_produces(rig, 1)
    client.receive()
    rig.disarm()
    client.send(wire.produce(2))

    assert wire.produce_answer(2) == client.receive()
    assert [wire.produce(1), wire.produce(2)] == rig.received
    assert 1 == len(rig.events_of("fault", "unfired"))


def test_replay_of_an_acks_0_request(rig: Rig) -> None:
    """Nobody waits for an answer, neither the client nor the proxy."""
    rig.arm(replay_request("Produce"))
    client = rig.client()
    client.send(wire.produce(1, acks=0), wire.heartbeat(2))
    wait_until(lambda: wire.heartbeat(2) in rig.received, "what follows", timeout_s=60)

    assert 1 == len(rig.events_of("fault", "fired"))
    assert [wire.produce(1, acks=0), wire.produce(-1, acks=0)] == rig.received[:2]


def test_refuse_answers_in_the_brokers_place(rig: Rig) -> None:
    """The broker never sees the second request; the client's answers stay in order."""
    rig.arm(refuse("Produce", nth=2, error="NOT_ENOUGH_REPLICAS"))
    client = send_produces(rig)
    refusal = wire.produce_answer(2, error=19, offset=-1)

    assert [wire.produce_answer(1), refusal, wire.produce_answer(3)] == [
        client.receive() for _ in range(3)
    ]
    assert [wire.produce(1), wire.produce(3)] == rig.received
    assert "NOT_ENOUGH_REPLICAS" == one(rig.events_of("fault", "fired")).detail["answer"]


@pytest.mark.parametrize(
    ("error", "code"), [("NOT_ENOUGH_REPLICAS_AFTER_APPEND", 20), ("DUPLICATE_SEQUENCE_NUMBER", 46)]
)
def test_refuse_as_stored_is_seen_by_the_broker(rig: Rig, error: str, code: int) -> None:
    """The records are stored, as the error says, and only the answer is replaced."""
    rig.arm(refuse("Produce", error=error))
    client = send_produces(rig, 1)

    assert wire.produce_answer(1, error=code, offset=-1) == client.receive()
    assert [wire.produce(1)] == rig.received
    assert ["replaced"] == fates(rig, "response", 1)


UNTIL_SENT = [
    (drop_response("Produce", sent=3), "dropped"),
    (corrupt_request("Produce", sent=3), "held"),
    (refuse("Produce", sent=3), "replaced"),
    (refuse("Produce", error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", sent=3), "replaced"),
]


@pytest.mark.parametrize(("fault", "fate"), UNTIL_SENT, ids=repr)
def test_what_the_client_gets_waits_until_so_many_are_sent(
    rig: Rig, fault: WireFault, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer comes, or is lost, behind the third request, and the ledger has when."""
    monkeypatch.setattr(exchange, "SENT_LIMIT_S", 600)
    rig.arm(fault)
    client = send_produces(rig, 2)
    rig.events_of("wire", "request", 2)
    client.send(wire.produce(3))
    first = rig.events_of("wire", "response", 3)[0]

    third = rig.events_of("wire", "request", 3)[2]
    assert fate in (first.fate, "held")  # it is not held if it comes behind the third
    assert third.at_ns <= released_ns(first)


def test_what_is_never_sent_is_waited_for_no_longer_than_its_limit(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends less than the fault waits for has its answer all the same."""
    monkeypatch.setattr(exchange, "SENT_LIMIT_S", 0.1)
    rig.arm(refuse("Produce", sent=3))

    assert wire.produce_answer(1, error=19, offset=-1) == send_produces(rig, 1).receive()


@pytest.mark.parametrize("fault", [drop_response("Produce"), corrupt_request("Produce")], ids=repr)
def test_what_the_broker_answers_is_not_held(rig: Rig, fault: WireFault) -> None:
    """Nothing but the fault itself is done: no answer of the broker waits at the proxy."""
    rig.arm(fault)
    send_produces(rig, 2)

    assert [] == [
        event for event in rig.events_of("wire", "response", 2) if "released_at_ns" in event.detail
    ]


def test_refusal_without_a_listener_for_it(rig: Rig) -> None:
    """With acks=0 there is no answer to give; the connection is cut, as a broker does."""
    rig.arm(refuse("Produce"))
    client = rig.client()
    client.send(wire.produce(1, acks=0))

    assert ([], []) == (client.receive_all(), rig.received)
    assert 1 == len(rig.events_of("fault", "fired"))


@pytest.mark.parametrize("fault", [EACH[4], EACH[5]], ids=["request", "response"])
def test_delay_holds_what_is_behind(rig: Rig, fault: WireFault) -> None:
    """The order on the connection stays, and the ledger says how long a frame was held."""
    rig.arm(fault)
    client = send_produces(rig)
    kind = "request" if isinstance(fault, hold_request) else "response"

    assert [wire.produce_answer(n) for n in (1, 2, 3)] == [client.receive() for _ in range(3)]
    assert ["forwarded", "held", "held"] == fates(rig, kind, 3)
    held = rig.events_of("wire", kind, 3)[1]
    assert BY_MS * 1_000_000 <= released_ns(held) - held.at_ns


def test_delayed_request_arrives_after_its_sender_is_gone(rig: Rig) -> None:
    """A late packet: the client has hung up, and the broker still gets its request."""
    rig.arm(hold_request("Produce"))
    send_produces(rig, 1).close()
    wait_until(lambda: rig.received == [wire.produce(1)], "the late request", timeout_s=60)
    late = one(rig.events_of("wire", "request"))

    assert BY_MS * 1_000_000 <= released_ns(late) - late.at_ns


def test_no_answer_waits_for_a_client_that_is_gone(rig: Rig) -> None:
    """What it was to be given reaches nobody, the fault has fired, and the connection ends."""
    rig.arm(delay_response("Produce", by_ms=10 * 60_000))
    send_produces(rig, 1).close()  # and what is waited for comes within a minute

    assert ["undelivered"] == fates(rig, "response", 1)
    assert 1 == len(rig.events_of("fault", "fired"))
    assert 1 == len(rig.events_of("wire", "closed"))


def test_fault_on_an_acks_0_request_that_has_no_answer(rig: Rig) -> None:
    """There is no answer to drop, so the fault has not fired, and says so."""
    armed = rig.arm(drop_response("Produce"))
    client = rig.client()
    client.send(wire.produce(1, acks=0), wire.heartbeat(2))
    [client.receive() for _ in range(2)]

    assert [(armed, drop_response("Produce"), 0)] == rig.disarm()


LATE = late_request("Heartbeat", nth=2)


def cut_off(rig: Rig) -> Client:
    """A client that was cut off at its second heartbeat; return another one."""
    rig.arm(LATE)
    client = rig.client()
    client.send(wire.heartbeat(1), wire.heartbeat(2))

    assert [wire.heartbeat_answer(1)] == client.receive_all()
    return rig.client()


def test_late_request_arrives_after_a_later_one(rig: Rig) -> None:
    """It was held and says when it left; nobody was there for its answer."""
    cut_off(rig).send(wire.produce(3))
    rig.events_of("fault", "fired")
    late = one([event for event in rig.events_of("wire", "request", 3) if event.fate == "held"])
    answers = {event.correlation_id: event.fate for event in rig.events_of("wire", "response", 3)}

    assert [wire.heartbeat(1), wire.produce(3), wire.heartbeat(2)] == rig.received
    assert 2 == late.correlation_id
    assert int(late.detail["released_at_ns"]) > late.at_ns
    assert {1: "forwarded", 2: "dropped", 3: "held"} == answers


def test_later_answer_waits_for_the_late_request(rig: Rig) -> None:
    """When the client is given the later answer, the late request has been answered too."""
    other = cut_off(rig)
    rig.is_silent = True
    other.send(wire.produce(3))
    wait_until(lambda: len(rig.received) == 2, "the later request", timeout_s=60)
    rig.answer(wire.produce(3))
    wait_until(lambda: len(rig.received) == 3, "the late request", timeout_s=60)
    rig.call(lambda: rig.listeners[0].answer(wire.heartbeat(2)))

    assert wire.produce_answer(3) == other.receive()
    _, later, late = rig.events_of("wire", "response", 3)
    assert ("Produce", "Heartbeat") == (later.api, late.api)
    assert late.at_ns <= int(later.detail["released_at_ns"])


def test_kept_request_whose_broker_has_ended_holds_nobody(rig: Rig) -> None:
    """It ends with its connection to the broker; what was to wait for it does not."""
    other = cut_off(rig)
    rig.call(lambda: rig.listeners[0].transport.abort())
    rig.events_of("wire", "closed")
    other.send(wire.produce(3))

    assert wire.produce_answer(3) == other.receive()
    assert [0] == [fired for _, _, fired in rig.disarm()]


def test_kept_request_never_arrives_after_the_scope(rig: Rig) -> None:
    """What is kept when the scope ends is given up, and the fault is unfired."""
    other = cut_off(rig)
    rig.disarm()
    other.send(wire.produce(3))

    assert wire.produce_answer(3) == other.receive()
    assert [wire.heartbeat(1), wire.produce(3)] == rig.received
    assert 1 == len(rig.events_of("fault", "unfired"))
