"""What a program that records nothing sent and was told follows from the wire alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab_utils.ledger.events import Event
from lab_utils.ledger.programs import ROLE, program_events
from tests.views.histories import event, exchange, request, response

NOTE = event(0, "client", "producer-1", "note", detail=ROLE)
SENT = ("sent", "0", None)
BATCH = {"records": 2, "detail": {"acks": "-1", "values": '["0", "1"]'}}
TWICE = {"records": 2, "detail": {"acks": "-1", "values": '["0", "0"]'},
         "producer_id": 4, "producer_epoch": 0, "sequence": 0}  # fmt: skip
LOST = [request(1, "0", 1), response(2, 1, 0, fate="dropped")]
# What crossed the wire, and what the program sent and was told.
TOLD = {
    "each record of a batch is acked at an offset of its own": (
        [request(1, None, 1, **BATCH), response(2, 1, 7)],
        [SENT, ("acked", "0", 7), ("sent", "1", None), ("acked", "1", 8)],
    ),
    "a retry is no second send": ([*LOST, *exchange(3, "0", 2, 1)], [SENT, ("acked", "0", 1)]),
    "with idempotence two equal records are two, and a retry has their sequence": (
        [request(1, None, 1, **TWICE), response(2, 1, 0, fate="dropped"),
         request(3, None, 2, **TWICE), response(4, 2, 0)],
        [SENT, SENT, ("acked", "0", 0), ("acked", "0", 1)],
    ),
    "a lost answer is no ack": (LOST, [SENT]),
    "nor is an error": (
        [request(1, "0", 1), response(2, 1, 0, error="CORRUPT_MESSAGE")], [SENT],
    ),
    "nor is what the proxy wrote": (
        [request(1, "0", 1), response(2, 1, 0, fate="replaced")], [SENT],
    ),
    "with acks=0 no answer is asked for, and none counts": (
        [request(1, "0", 1, detail={"acks": "0"})], [SENT, ("acked", "0", None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "told"), TOLD.values(), ids=TOLD)
def test_what_a_program_was_told(rows: list[Event], told: list[object]) -> None:
    """What crosses the wire again was sent once, and is acked by the answer that arrives."""
    found = program_events([NOTE, *rows])

    assert told == [(row.kind, row.value, row.offset) for row in found if row.kind != "created"]


def test_an_order_is_its_key_and_its_value() -> None:
    """As the log has it: a value without a key, another with one, a tombstone."""
    batch = {"records": 2, "detail": {"values": '["0", null]', "keys": '[null, "k"]'}}
    rows = [NOTE, request(1, None, 1, **batch), response(2, 1, 7), request(3, "0", 2, key="k"),
            response(4, 2, 9)]  # fmt: skip

    assert [(None, "0"), ("k", None), ("k", "0")] == [
        (row.key, row.value) for row in program_events(rows) if row.kind == "acked"
    ]


@pytest.mark.parametrize("other", [{"producer_id": 5}, {"producer_epoch": 1}])
def test_equal_orders_of_two_producers(other: dict[str, int]) -> None:
    """Each was sent: by two producers of a program, or in two transactions of one."""
    first = {"producer_id": 4, "producer_epoch": 0, "sequence": 0}
    rows = [NOTE, *exchange(1, "0", 1, 0, **first), *exchange(3, "0", 2, 1, **first | other)]
    found = [(row.kind, row.producer_id) for row in program_events(rows)]
    ids = 4, other.get("producer_id", 4)

    assert [("created", 4), *((kind, it) for it in ids for kind in ("sent", "acked"))] == found


def test_producers_with_other_settings() -> None:
    """A finding of a program may be of each producer that it has."""
    rows = [NOTE, *(request(at, str(at), at, detail={"acks": acks})
                    for at, acks in enumerate(("1", "-1", "1")))]  # fmt: skip

    assert ["1", "-1"] == [
        row.detail["acks"] for row in program_events(rows) if row.kind == "created"
    ]


def test_settings_that_the_wire_tells() -> None:
    """acks, idempotence and the transactional.id are in each Produce request."""
    detail = {"acks": "1", "transactional_id": "t"}
    rows = [NOTE, request(1, "0", 1, producer_id=4, detail=detail)]
    (created,) = (row.detail for row in program_events(rows) if row.kind == "created")

    assert {"role": "producer", "enable.idempotence": "true", "acks": "1",
            "transactional.id": "t"} == created  # fmt: skip


def test_recorded_clients_speak_for_themselves() -> None:
    """Without a note, and with another one, a client is no program."""
    for rows in ([], [replace(NOTE, detail={"text": "hello"})]):
        assert [] == list(program_events([*rows, *exchange(1, "0", 1, 0)]))
