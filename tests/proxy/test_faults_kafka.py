"""Each fault on a real broker with a real client: the log and the reports, exactly.

The rows are those of the labs. Every one of them was the same in 25 of 25 runs when it was
written; a row that changes is a finding about Kafka or its client, or a race in the proxy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab_utils.clients.live_run import LiveRun
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import (
    WireFault,
    corrupt_request,
    delay_response,
    drop_request,
    drop_response,
    refuse,
    replay_request,
)
from lab_utils.waiting import wait_until
from tests.performed import Perform, Workload, values

pytestmark = pytest.mark.kafka

ONE_IN_FLIGHT = {"max.in.flight": 1}
# All are in the queue by then, and the next one is sent before the retry, on a busy machine, too.
LATE_AGAIN = {**ONE_IN_FLIGHT, "retry.backoff.ms": 1000}
IDEMPOTENT = {"enable.idempotence": True}
ONE_BATCH = {"linger.ms": 50, "batch.num.messages": 100}
AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"


def sending(settings: dict[str, Any], *, paced: bool) -> Workload:
    """A workload that sends the orders; `paced` waits for each report before the next order."""

    def send(run: LiveRun) -> None:
        producer = run.producer(settings)
        producer.list_topics(run.topic)
        # The first idempotent produce may wait half a second for its producer id: not in this run.
        producer.produce(run.topics["primer"], b"", partition=0)
        producer.flush()
        for order in run.orders:
            producer.produce(run.topic, order, partition=0)
            if paced:
                producer.flush()
        producer.flush()

    return send


def struck(
    perform: Perform,
    fault: WireFault,
    orders: int,
    settings: dict[str, Any],
    *,
    paced: bool = False,
) -> list[Event]:
    """All rows of a run whose fault meets its orders."""
    workload = sending(settings, paced=paced)
    return perform(workload, replace(fault, topic="orders"), orders=orders, topics=("primer",))


def reports(rows: list[Event]) -> str:
    """What the client was told of each order, as order:offset or order:error."""
    told = [row for row in rows if row.kind in ("acked", "failed", "unknown") and row.value]
    return " ".join(f"{row.value}:{row.error or row.offset}" for row in told)


ROWS = {
    "lost answer, several in flight: all that had arrived comes twice": (
        4, {}, drop_response("Produce", 1, sent=4), "0 1 2 3 0 1 2 3", "0:4 1:5 2:6 3:7"),
    "lost answer to the third: the two before it come once": (
        6, {}, drop_response("Produce", 3, sent=6),
        "0 1 2 3 4 5 2 3 4 5", "0:0 1:1 2:6 3:7 4:8 5:9"),
    "lost answer, one in flight: one batch twice": (
        5, ONE_IN_FLIGHT, drop_response("Produce", 3), "0 1 2 2 3 4", "0:0 1:1 2:3 3:4 4:5"),
    "lost answer, one batch of four: the whole batch twice": (
        4, ONE_BATCH, drop_response("Produce", 1), "0 1 2 3 0 1 2 3", "0:4 1:5 2:6 3:7"),
    "lost answer, idempotent: once": (
        4, IDEMPOTENT, drop_response("Produce", 1, sent=4), "0 1 2 3", "0:0 1:1 2:2 3:3"),
    "lost request: once": (
        5, {}, drop_request("Produce", 3), "0 1 2 3 4", "0:0 1:1 2:2 3:3 4:4"),
    "damaged batch, several in flight: it comes last": (
        4, {}, corrupt_request("Produce", 1, sent=4), "1 2 3 0", "1:0 2:1 3:2 0:3"),
    "damaged batch, one in flight: still out of order": (
        4, LATE_AGAIN, corrupt_request("Produce", 2, sent=4), "0 2 1 3", "0:0 2:1 1:2 3:3"),
    "damaged batch, idempotent, not the first: in order": (
        6, IDEMPOTENT, corrupt_request("Produce", 2, sent=6),
        "0 1 2 3 4 5", "0:0 1:1 2:2 3:3 4:4 5:5"),
    "the hole: damaged first batch, idempotent: reported and nowhere": (
        4, IDEMPOTENT, corrupt_request("Produce", 1, sent=4), "1 2 3", "0:None 1:0 2:1 3:2"),
    "the hole by a refusal": (
        4, IDEMPOTENT, refuse("Produce", 1, sent=4), "1 2 3", "0:None 1:0 2:1 3:2"),
    "no hole with one in flight": (
        4, IDEMPOTENT | ONE_IN_FLIGHT, corrupt_request("Produce", 1),
        "0 1 2 3", "0:0 1:1 2:2 3:3"),
    "refused, several in flight: it comes last": (
        4, {}, refuse("Produce", 1, sent=4), "1 2 3 0", "1:0 2:1 3:2 0:3"),
    "refused, one in flight: out of order": (
        4, LATE_AGAIN, refuse("Produce", 2, sent=4), "0 2 1 3", "0:0 2:1 1:2 3:3"),
    "refused, idempotent, not the first: in order": (
        4, IDEMPOTENT, refuse("Produce", 2, sent=4), "0 1 2 3", "0:0 1:1 2:2 3:3"),
    "refused after append: twice, and last": (
        4, {}, refuse("Produce", 1, AFTER_APPEND, sent=4), "0 1 2 3 0", "1:1 2:2 3:3 0:4"),
    "refused after append, idempotent: once, offset unknown": (
        4, IDEMPOTENT, refuse("Produce", 2, AFTER_APPEND, sent=4),
        "0 1 2 3", "0:0 1:None 2:2 3:3"),
    "refused for good: failed, and the rest is stored": (
        4, {}, refuse("Produce", 1, "TOPIC_AUTHORIZATION_FAILED", sent=4),
        "1 2 3", "0:TOPIC_AUTHORIZATION_FAILED 1:0 2:1 3:2"),
    "late answer: once, in order": (
        4, {}, delay_response("Produce", 2, 100), "0 1 2 3", "0:0 1:1 2:2 3:3"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_row(perform: Perform, row: tuple[int, dict[str, Any], WireFault, str, str]) -> None:
    """The log and the reports are exactly these, and every frame of the client is read."""
    orders, config, fault, log, told = row
    rows = struck(perform, fault, orders, config)

    assert (log, told) == (values(rows, "record"), reports(rows))
    assert 1 == sum(event.kind == "fired" for event in rows)
    assert [] == [row for row in rows if row.kind == "opaque"]


REPLAYS = {
    "fifth-last, idempotent: recognised, at its offset": (
        IDEMPOTENT, replay_request("Produce", 2, later=4), "0 1 2 3 4 5 6", [(1, None)]),
    "sixth-last, idempotent: refused": (
        IDEMPOTENT, replay_request("Produce", 1, later=5), "0 1 2 3 4 5 6",
        [(None, "OUT_OF_ORDER_SEQUENCE_NUMBER")]),
    "each copy is recognised": (
        IDEMPOTENT, replay_request("Produce", 2, times=2), "0 1 2 3 4 5 6", [(1, None)] * 2),
    "without idempotence: stored at each copy": (
        {}, replay_request("Produce", 2, times=2, later=1), "0 1 2 1 1 3 4 5 6",
        [(3, None), (4, None)]),
}  # fmt: skip


@pytest.mark.parametrize("row", REPLAYS.values(), ids=REPLAYS)
def test_replay(perform: Perform, row: tuple[Any, WireFault, str, list[Any]]) -> None:
    """The broker keeps the last five batches of a producer; the client hears of no copy."""
    config, fault, log, answers = row
    rows = struck(perform, fault, 7, config)
    copies = {each.correlation_id for each in rows if each.fate == "replayed"}
    told = [
        (each.offset, each.error)
        for each in rows
        if each.kind == "response" and each.correlation_id in copies
    ]

    assert (log, answers) == (values(rows, "record"), told)
    places = dict(pair.split(":") for pair in reports(rows).split())
    assert list("0123456") == [log.split()[int(place)] for place in places.values()]
    assert 1 == sum(event.kind == "fired" for event in rows)


def test_paced_lost_answer(perform: Perform) -> None:
    """With a flush after each order, exactly one order is stored twice."""
    rows = struck(perform, drop_response("Produce", 3), 5, {}, paced=True)

    assert ("0 1 2 2 3 4", "0:0 1:1 2:3 3:4 4:5") == (values(rows, "record"), reports(rows))


def test_acks_0_loses_without_a_word(perform: Perform, reader: Any) -> None:
    """The producer is told of five sent orders; the lost one is nowhere.

    What it sends before it has noticed the cut is lost, too; with luck that is none. And what it
    sends on a new connection may overtake what the broker has still to read from the old one.
    """
    rows = struck(perform, drop_request("Produce", 3), 5, {"acks": 0}, paced=True)
    run = rows[0].run

    def log() -> list[str | None]:
        return [row.value for row in reader.read(run, f"{run}-orders", 1) if row.kind == "record"]

    assert "0:None 1:None 2:None 3:None 4:None" == reports(rows)
    sent = [row for row in rows if (row.api, row.kind) == ("Produce", "request") and row.value]
    stored = [row.value for row in sent if row.fate == "forwarded"]
    assert ["0", "1"] == stored[:2]
    assert "2" not in stored
    # Nobody told the producer when they were stored, so the log is waited for.
    wait_until(
        lambda: sorted(map(str, log())) == sorted(map(str, stored)),
        str(stored), timeout_s=60, last_seen=lambda _: str(log()),
    )  # fmt: skip
