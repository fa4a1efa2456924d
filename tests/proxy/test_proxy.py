"""The proxy between a plain socket and a listener: what passes, in which order, and who is cut."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress

import pytest

from lab_utils.proxy import connections, links, proxy
from lab_utils.proxy.faults import drop_request, drop_response, kill_broker
from lab_utils.proxy.relay import OPEN_LIMIT
from lab_utils.waiting import wait_until
from tests.called import result_of
from tests.proxy import wire
from tests.proxy.rig import RUN, Rig


def test_pipelined_requests_are_answered_in_order(rig: Rig) -> None:
    """Requests sent back to back reach the broker as they are, and so do the answers.

    Another client with the same correlation id gets its own.
    """
    requests = [wire.heartbeat(1), wire.produce(2), wire.heartbeat(3)]
    client, other = rig.client(), rig.client()
    client.send(*requests)
    answers = [client.receive() for _ in range(3)]
    other.send(wire.produce(1))

    assert wire.produce_answer(1) == other.receive()
    assert [*requests, wire.produce(1)] == rig.received
    assert [wire.heartbeat_answer(1), wire.produce_answer(2), wire.heartbeat_answer(3)] == answers


def test_answer_belongs_to_the_request_of_its_number(rig: Rig) -> None:
    """An answer that comes before its turn is told of its own request, and given in its turn."""
    rig.is_silent = True
    client = rig.client()
    client.send(wire.heartbeat(1), wire.produce(2))
    rig.answer(wire.produce(2))
    rig.answer(wire.heartbeat(1))

    assert [wire.heartbeat_answer(1), wire.produce_answer(2)] == [
        client.receive() for _ in range(2)
    ]


def test_large_frame_passes(rig: Rig) -> None:
    """A request larger than any buffer of the proxy arrives as it was sent."""
    request = wire.produce(1, wire.batch([bytes(20_000_000)]))
    client = rig.client()
    client.send(request)

    assert wire.produce_answer(1) == client.receive()
    assert [request] == rig.received


UNKNOWN_API, NO_KAFKA = wire.request(999, 0, 1, b"whatever"), b"\xff\xff\xff\xff and so on"


@pytest.mark.parametrize("unread", [UNKNOWN_API, NO_KAFKA])
def test_what_cannot_be_read(rig: Rig, unread: bytes) -> None:
    """It reaches the broker as it is, and the ledger says so; what is no Kafka, in pieces.

    Where a run is examined, who sends it is cut off before it arrives.
    """
    rig.board.is_examining = True
    client = rig.client()
    client.send(unread, wire.produce(2, wire.batch([b"0"], attributes=1)))
    assert (b"", []) == (client.receive(), rig.received)

    rig.board.is_examining = False
    client = rig.client()
    client.send(unread, wire.heartbeat(2))
    assert ["request"] * 2 == [it.detail["side"] for it in rig.events_of("wire", "opaque", 2)]
    if unread == UNKNOWN_API:
        assert wire.heartbeat_answer(2) == client.receive()
        assert [unread, wire.heartbeat(2)] == rig.received


def test_nothing_compressed_is_examined(rig: Rig) -> None:
    """Where a run is examined the client is told that its compressed records are not taken."""
    packed = wire.produce(1, wire.batch([b"0"], attributes=1))
    client = rig.client()
    rig.board.is_examining = True
    client.send(packed, wire.produce(2))

    assert wire.produce_answer(1, error=76, offset=-1) == client.receive()
    assert wire.produce_answer(2) == client.receive()
    assert [wire.produce(2)] == rig.received
    (fired,) = rig.events_of("fault", "fired")
    assert "UNSUPPORTED_COMPRESSION_TYPE" == fired.detail["answer"]

    rig.board.is_examining = False
    client.send(packed)

    assert wire.produce_answer(1) == client.receive()


def test_client_is_turned_away_without_a_broker(rig: Rig) -> None:
    """No connection hangs: it is closed before the client has said a word, and so before one."""
    rig.stop_listening()
    assert b"" == rig.client().receive()

    rig.proxy.upstream = None
    assert b"" == rig.client().receive()


def test_client_is_cut_when_the_broker_dies(rig: Rig) -> None:
    """The death of the broker reaches the client, and the ledger names who ended it."""
    client = rig.client()
    client.send(wire.heartbeat(1))
    client.receive()
    rig.stop_listening()

    assert b"" == client.receive()
    assert ["broker"] == [event.detail["by"] for event in rig.events_of("wire", "closed")]


def test_request_of_a_client_that_is_gone_still_reaches_the_broker(rig: Rig) -> None:
    """What a client sent before it died is delivered, as a network would; then all has ended."""
    client = rig.client()
    client.send(wire.produce(1), wire.produce(2))
    client.close()

    wait_until(lambda: len(rig.received) == 2, "both requests", timeout_s=60)
    assert ["client"] == [event.detail["by"] for event in rig.events_of("wire", "closed")]
    wait_until(lambda: rig.lost == 1, "the broker's side to end", timeout_s=60)
    assert not rig.proxy.serves(RUN)


def test_strangers_take_no_connection_of_a_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """At one connection too many, one that is no run's goes, however long the run's is idle."""
    monkeypatch.setattr(proxy, "CONNECTIONS", 3)
    client = rig.client()
    client.send(wire.heartbeat(1))
    client.receive()
    strangers = [rig.client() for _ in range(4)]
    assert b"" == strangers[0].receive()

    client.send(wire.heartbeat(2))
    assert wire.heartbeat_answer(2) == client.receive()


def test_nobody_is_connected_for_who_has_gone(rig: Rig) -> None:
    """A broker that is paused takes no connection any more; those for whom it is made may go."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as paused, ExitStack() as queue:
        for _ in range(3):  # then its queue is full
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(paused.getsockname())
        rig.proxy.upstream = paused.getsockname()
        for _ in range(20):
            rig.client().close()

        left = lambda: len(rig.proxy._connecting)  # noqa: E731
        wait_until(lambda: not rig.call(left), "no connection to be made", timeout_s=60,
                   last_seen=lambda _: str(rig.call(left)))  # fmt: skip


def test_links_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than so many the oldest is cut, and before all others who is no broker."""
    monkeypatch.setattr(links, "CONNECTIONS", 3)

    async def left() -> list[int | None]:
        proxy = links.LinkProxy()
        for caller in (2, None, 2, 3, None):
            link = links.Link(proxy)
            link.caller = caller
            proxy.remember(link)
        return [it.caller for it in proxy._links]

    assert [2, 3, None] == result_of(left())


def test_drop_response_waits_for_the_answers_of_the_rest(rig: Rig) -> None:
    """The connection is not cut while the broker has yet to answer what it was sent."""
    rig.is_silent = True
    rig.arm(drop_response("Produce"))
    client = rig.client()
    client.send(wire.produce(1), wire.produce(2))
    wait_until(lambda: len(rig.received) == 2, "both requests", timeout_s=60)
    rig.answer(wire.produce(1))
    rig.events_of("fault", "fired")
    before_ns = time.monotonic_ns()
    rig.answer(wire.produce(2))

    assert [] == client.receive_all()
    assert before_ns < rig.events_of("wire", "closed")[0].at_ns


def test_requests_behind_a_cut_are_not_counted(rig: Rig) -> None:
    """How many were in flight behind a lost request does not move the next fault."""
    rig.arm(drop_request("Produce", nth=1))
    rig.arm(drop_request("Produce", nth=3))
    rig.client().send(*(wire.produce(number) for number in (1, 2, 3)))
    rig.events_of("wire", "closed")
    client = rig.client()
    client.send(wire.produce(4))
    client.receive()

    assert [1, 0] == [fired for _, _, fired in rig.disarm()]


def test_client_that_never_reads_starves_nobody(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one client pumps requests and reads no answer, the others have their turn."""
    monkeypatch.setattr(connections, "TURN_S", -1)  # over when one frame has been worked off
    hostile = rig.client()
    hostile.socket.setblocking(False)
    requests = b"".join(wire.heartbeat(number) for number in range(20_000))
    sent = 0
    served = []
    for _ in range(60):
        with suppress(BlockingIOError):
            sent += hostile.socket.send(requests[sent % len(requests) :])
        served.append(rig.turn())

    assert sent > 250_000
    assert 0 < max(served) < 10


def test_requests_without_answers_are_bounded(rig: Rig) -> None:
    """A broker that answers nothing is sent so many, and the rest stays with its sender."""
    rig.is_silent = True
    rig.client().send(*(wire.heartbeat(number) for number in range(OPEN_LIMIT * 4)))
    wait_until(lambda: len(rig.received) >= OPEN_LIMIT, "the first requests", timeout_s=60)
    rig.call(lambda: None)
    unanswered = len(rig.received)
    rig.is_silent = False
    for request in rig.received[:OPEN_LIMIT]:
        rig.answer(request)
    wait_until(lambda: len(rig.received) == OPEN_LIMIT * 4, "the rest", timeout_s=60)

    assert OPEN_LIMIT == unanswered


def test_what_all_hold_is_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that send half a frame, those that hold the most are cut; who holds less stays."""
    monkeypatch.setattr(connections, "MEMORY_LIMIT", 10 * 2**20)
    honest = rig.client()
    honest.send(wire.heartbeat(1))
    honest.receive()
    half = (8 * 2**20).to_bytes(4, "big") + bytes(2 * 2**20)
    greedy = [rig.client() for _ in range(8)]
    for client in greedy:
        with suppress(ConnectionError):
            client.send(half)
    wait_until(lambda: rig.lost, "some to be cut", timeout_s=60)
    honest.send(wire.heartbeat(2))

    assert wire.heartbeat_answer(2) == honest.receive()
    assert 10 * 2**20 >= rig.call(lambda: sum(side.held_bytes for side in connections._sides))


def test_what_many_hold_is_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of many that hold little each: who holds more than its share is looked at."""
    monkeypatch.setattr(connections, "MEMORY_LIMIT", 2**20)
    little = (8 * 2**20).to_bytes(4, "big") + bytes(100_000)
    for _ in range(40):
        with suppress(ConnectionError):
            rig.client().send(little)
    wait_until(lambda: rig.lost, "some to be cut", timeout_s=60)

    assert 2 * 2**20 >= rig.call(lambda: sum(side.held_bytes for side in connections._sides))


def test_producer_that_waits_no_more(rig: Rig) -> None:
    """What is to happen at an answer happens when the producer hangs up, and not once more."""
    rig.is_silent = True
    rig.arm(kill_broker(1, api="Produce"))
    client = rig.client()
    client.send(wire.produce(1))
    wait_until(lambda: rig.received == [wire.produce(1)], "the request", timeout_s=60)
    client.close()
    rig.events_of("fault", "fired")
    rig.answer(wire.produce(1))
    rig.events_of("wire", "closed")

    assert 1 == rig.disarm()[0][2]
