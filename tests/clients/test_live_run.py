"""A ticket is all that a process needs, and a live run is what its workload holds in hand."""

from __future__ import annotations

import os
import weakref
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients.live_run import LiveRun, Ticket, perform
from lab_utils.errors import BadArgument
from lab_utils.ledger.store import read_ledger
from lab_utils.proxy.faults import crash_client
from tests.clients.opened import Opened


@pytest.fixture
def ticket(tmp_path: Path) -> Ticket:
    return Ticket(
        run="03-a",
        folder=str(tmp_path),
        bootstrap="127.0.0.1:1",
        topic="03-a-orders",
        orders=("0", "ü", '"'),
        attempt=2,
        crashes=(crash_client("after_ack", nth=3),),
    )


def test_what_a_workload_sees(ticket: Ticket) -> None:
    """A run says its orders, its topic and which start this is; changing them changes no other.

    A ticket that was written and read is the same ticket, but for where the process will end.
    """
    live = LiveRun(ticket)
    live.orders.clear()

    assert replace(ticket, crashes=()) == Ticket.from_json(ticket.to_json())
    assert (["0", "ü", '"'], "03-a-orders", 2) == (LiveRun(ticket).orders, live.topic, live.attempt)


class Held:
    """What a frame of a workload holds."""


def test_two_errors_that_are_each_others_cause(ticket: Ticket) -> None:
    """Each is let go once, with what its frames hold, and the run has its end."""
    held = []

    def workload(_: LiveRun) -> None:
        held.append(weakref.ref(local := Held()))
        first, second = ValueError("a"), KeyError("b")
        try:
            raise second from first
        except KeyError:
            raise first from second
        finally:
            assert local

    error = perform(workload, LiveRun(ticket))

    assert isinstance(error, ValueError)
    assert error.__cause__ is not None
    assert error is error.__cause__.__cause__
    assert held[0]() is None


def test_a_workload_that_forks(ticket: Ticket) -> None:
    """What it forked and did not end goes no further: it would go on as a second kernel."""
    ends = []

    def workload(_: LiveRun) -> None:
        if child := os.fork():
            ends.append(os.waitpid(child, 0)[1])

    here = os.getpid()
    perform(workload, LiveRun(ticket))
    if os.getpid() != here:
        os._exit(9)
    assert [0] == ends


class Speechless(Exception):
    """An exception that cannot be told."""

    def __str__(self) -> str:
        raise AttributeError("told")


RAISED = [
    (ZeroDivisionError("no"), "no"), (KeyboardInterrupt(), ""), (SystemExit(3), "3"),
    (ValueError("a\ud800"), "a\\ud800"), (Speechless(), ""),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said"), RAISED, ids=lambda it: type(it).__name__)
def test_raised(ticket: Ticket, tmp_path: Path, error: BaseException, said: str) -> None:
    """What a workload raises is recorded, with its text and place, and returned, if not Ctrl-C."""

    def workload(run: LiveRun) -> None:
        raise error

    line = workload.__code__.co_firstlineno + 1
    is_raised = isinstance(error, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt) if is_raised else nullcontext():
        assert error is perform(workload, LiveRun(ticket))

    started, raised = read_ledger(tmp_path)
    detail = {"message": said, "at": f"line {line} of workload"}
    assert ("started", "raised") == (started.kind, raised.kind)
    assert (type(error).__name__, detail) == (raised.error, raised.detail)


REFUSED = [
    *(({name: "x:9092"}, f"{name} is set by the lab; got 'x:9092'")
      for name in ("bootstrap.servers", "metadata.broker.list", "client.id")),
    # The client itself would raise SystemError, or end the process.
    *((given, "must be a text") for given in ({"group.id": "\ud800"}, {"\udfff": "1"}, {1: "1"})),
    ("acks=all", r"is a dictionary, as in .*; got 'acks=all'\."),  # as another tool takes it
]  # fmt: skip


@pytest.mark.parametrize("client", [LiveRun.producer, LiveRun.consumer])
@pytest.mark.parametrize(("setting", "said"), REFUSED)
def test_settings_that_are_refused(ticket: Ticket, client: Any, setting: Any, said: str) -> None:
    """One that would be overwritten, and what is no text; the others are the learner's."""
    with pytest.raises(BadArgument, match=said):
        client(LiveRun(ticket), setting)


@pytest.mark.parametrize("group", ["", None])
def test_no_group(ticket: Ticket, group: Any) -> None:
    """The client itself would end the process."""
    with pytest.raises(BadArgument, match=r"group\.id must name a group; got "):
        LiveRun(ticket).consumer({"group.id": group})


def test_what_is_in_hand_is_named(ticket: Ticket) -> None:
    """A value in the place of its message, a producer in that of a consumer, a size of no batch."""
    live = LiveRun(ticket)
    with pytest.raises(BadArgument, match=r"takes the message.*; got b'order 1'"):
        live.processed(b"order 1")
    with pytest.raises(BadArgument, match=r"run\.consumer\(\) made; got a RecordingProd"):
        next(live.messages(live.producer()))  # type: ignore[arg-type]
    for size in (0, -1, "2", None):
        with pytest.raises(BadArgument, match=f"size must be a whole number .*; got {size!r}"):
            next(live.batches(live.consumer(), size))  # type: ignore[arg-type]


@pytest.mark.parametrize("client", [LiveRun.producer, LiveRun.consumer])
def test_over(ticket: Ticket, client: Any) -> None:
    """A thread that outlives its workload gets no further client, whose work nobody would see."""
    live = LiveRun(ticket)
    live.close()
    with pytest.raises(BadArgument, match=r"is over; got a call for its .* Join each thread"):
        client(live)


def test_an_error_keeps_no_client(ticket: Ticket) -> None:
    """Who keeps what a workload raised keeps nothing alive that its lines had in hand."""
    held: list[weakref.ref[set[int]]] = []

    def cause() -> None:
        client = {1}
        held.append(weakref.ref(client))
        raise ValueError

    def raises(_: LiveRun) -> None:
        client = {2}
        held.append(weakref.ref(client))
        try:
            cause()
        except ValueError as error:
            raise KeyError from error

    error = perform(raises, LiveRun(ticket))

    assert isinstance(error, KeyError)
    assert [None, None] == [each() for each in held]


def test_finished_and_closed_twice(ticket: Ticket) -> None:
    """A workload that returns is started and finished, each once.

    Closing its run again does nothing, and takes nobody else's file.
    """
    live = LiveRun(ticket)
    assert perform(lambda run: "ignored", live) is None
    live.close()
    with (Path(ticket.folder) / "another").open("wb") as another:
        live.close()
        another.write(b"still open")

    assert live.close() is None
    assert [("started", 2), ("finished", 2)] == [
        (row.kind, row.attempt) for row in read_ledger(Path(ticket.folder))
    ]


@pytest.mark.kafka
def test_in_sync(opened: Opened) -> None:
    """A broker is asked by its number, and one that is not there is not taken for another."""
    assert [1] == opened.live.in_sync(broker=1)
    with pytest.raises(BadArgument, match=r"has the brokers \[1\]; got 0"):
        opened.live.in_sync(broker=0)


@pytest.mark.kafka
def test_orders_in_the_log(opened: Opened) -> None:
    """The values of the topic are read from its start, in order, through the proxy, each time.

    Reading the log this way is no delivery.
    """
    producer = opened.live.producer()
    empty = opened.live.orders_in_the_log()
    for order in opened.live.orders:
        producer.produce(opened.live.topic, order, partition=0)
        producer.flush()

    assert ([], ["0", "1", "2"]) == (empty, opened.live.orders_in_the_log())
    assert [] == opened.rows("delivered")
    rows = opened.finish()
    assert "reader-1" in {row.actor for row in rows if (row.api, row.kind) == ("Fetch", "request")}


def test_a_stream_needs_a_process(ticket: Ticket) -> None:
    """No driver of Spark is started in a kernel; the error says how to come by a process."""
    with pytest.raises(BadArgument, match="crash_client"):
        LiveRun(ticket).stream()
