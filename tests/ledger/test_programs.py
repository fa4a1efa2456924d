"""What a program that records nothing sent and was told follows from the wire alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab_utils.ledger.events import Event
from lab_utils.ledger.programs import ROLE, program_events
from tests.views.histories import event, exchange, request, response

NOTE = event(0, "client", "producer-1", "note", detail=ROLE)
BATCH = {"records": 2, "detail": {"acks": "-1", "values": '["0", "1"]'}}


def told(*rows: Event) -> list[tuple[str, str | None, int | None]]:
    found = program_events([NOTE, *rows])
    return [(row.kind, row.value, row.offset) for row in found if row.kind != "created"]


def test_batch() -> None:
    """Each record of a batch was sent, and is acked at an offset of its own."""
    assert [("sent", "0", None), ("acked", "0", 7), ("sent", "1", None), ("acked", "1", 8)] == told(
        request(1, None, 1, **BATCH), response(2, 1, 7)
    )


def test_an_order_is_its_key_and_its_value() -> None:
    """As the log has it: a value without a key, another with one, a tombstone."""
    batch = {"records": 2, "detail": {"values": '["0", null]', "keys": '[null, "k"]'}}
    rows = [NOTE, request(1, None, 1, **batch), response(2, 1, 7), request(3, "0", 2, key="k"),
            response(4, 2, 9)]  # fmt: skip

    assert [(None, "0"), ("k", None), ("k", "0")] == [
        (row.key, row.value) for row in program_events(rows) if row.kind == "acked"
    ]


def test_retry_is_no_second_send() -> None:
    """What crosses the wire again was sent once, and is acked by the answer that arrives."""
    lost = [request(1, "0", 1), response(2, 1, 0, fate="dropped")]

    assert [("sent", "0", None), ("acked", "0", 1)] == told(*lost, *exchange(3, "0", 2, 1))


def test_equal_orders_are_told_apart_by_their_sequence() -> None:
    """With idempotence two equal records of a batch are two; a retry has the sequence it had."""
    twice = {"records": 2, "detail": {"acks": "-1", "values": '["0", "0"]'},
             "producer_id": 4, "producer_epoch": 0, "sequence": 0}  # fmt: skip
    rows = [request(1, None, 1, **twice), response(2, 1, 0, fate="dropped"),
            request(3, None, 2, **twice), response(4, 2, 0)]  # fmt: skip

    assert [("sent", "0", None), ("sent", "0", None), ("acked", "0", 0), ("acked", "0", 1)] == told(
        *rows
    )


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


def test_answer_that_never_arrived_is_no_ack() -> None:
    """A lost answer, an error, and what the proxy wrote: nobody was told that it is stored."""
    for fate, error in (("dropped", None), ("forwarded", "CORRUPT_MESSAGE"), ("replaced", None)):
        rows = request(1, "0", 1), response(2, 1, 0, fate=fate, error=error)
        assert [("sent", "0", None)] == told(*rows)


def test_acks_0_asks_for_no_answer() -> None:
    """As a client with acks=0 takes it for granted, it counts as acked, without an offset."""
    asked = request(1, "0", 1, detail={"acks": "0"})

    assert [("sent", "0", None), ("acked", "0", None)] == told(asked)


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
