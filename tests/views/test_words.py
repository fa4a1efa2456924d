"""The headline names what happened, worst first, and its cause where the wire shows one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab_utils.ledger.events import Event
from lab_utils.views.words import headline
from tests.views import histories
from tests.views.histories import (
    TOPIC,
    acked,
    event,
    exchange,
    log,
    request,
    response,
    sent,
    unknown,
)

KEY = {"producer_id": 0, "producer_epoch": 0, "sequence": 0}
# name: what happened, and the sentence that says it
HEADLINES: dict[str, tuple[list[Event], str]] = {
    "calm": (histories.calm(), "3 orders sent, and each is stored once"),
    "a lost answer": (
        histories.lost_answer(),
        "Order 2 was stored twice: its answer was lost and the client sent it again",
    ),
    "many are counted": (
        histories.flood(),
        "6 orders were stored twice: their answers were lost and the client sent them again",
    ),
    "the broker knew the sequence number": (
        histories.recognised(),
        "Order 2 crossed the wire twice and was stored once: the broker knew its sequence number",
    ),
    "the broker knew the copy": (
        histories.replayed(),
        "Order 0 crossed the wire twice and was stored once: the broker knew its sequence number",
    ),
    "the broker refused the copy": (
        histories.replayed("OUT_OF_ORDER_SEQUENCE_NUMBER"),
        "Order 0 crossed the wire twice and was stored once: "
        "the broker refused the proxy's copy with OUT_OF_ORDER_SEQUENCE_NUMBER",
    ),
    "a copy that was stored": (
        [sent(0, "0"), *exchange(1, "0", 1, 0), acked(2, "0", 0),
         request(2.1, "0", -1, fate="replayed"), response(2.5, -1, 1, fate="dropped"),
         *log("0", "0")],
        "Order 0 was stored twice: the proxy sent it again",
    ),
    "what never reached the broker is not recognised": (
        [sent(0, "0"), request(1, "0", 1, fate="dropped", **KEY), *exchange(60, "0", 2, 0, **KEY),
         acked(61, "0", 0), *log("0")],
        "Order 0 crossed the wire twice and was stored once: "
        "its request was lost and the client sent it again",
    ),
    "refused, and then last": (
        histories.last(),
        "Order 0 was stored after order 3: its first answer was CORRUPT_MESSAGE, "
        "and the client sent it again",
    ),
    "a value with braces": (
        [replace(row, value="{3}") if row.value == "3" else row for row in histories.last()],
        "Order 0 was stored after order {3}: its first answer was CORRUPT_MESSAGE, "
        "and the client sent it again",
    ),
    "a loss is worse than a duplicate": (
        [*histories.lost_answer(), sent(70, "5"), acked(71, "5", 9)],
        "Order 5 was acked and is not in the log",
    ),
    "a loss has a cause": (
        histories.hole(),
        "Order 0 was acked and is not in the log: the answer was CORRUPT_MESSAGE, "
        "and the client did not send it again",
    ),
    "a log that was not drained shows no loss": (
        [row for row in histories.hole() if row.kind != "end"],
        "4 Produce requests crossed the wire",
    ),
    "acked without an offset": (
        histories.twin(), "Order 1 was acked without an offset and is in the log"
    ),
    "unknown, and stored": (
        histories.late_answer(), "Order 3 is in the log, and the client cannot know it"
    ),
    "unknown, and absent, is no loss": (
        [sent(0, "0"), request(1, "0", 1, fate="dropped"), unknown(9, "0"), *log()],
        "Order 0 was not acked and is not in the log",
    ),
    "a second produce() is not the client's": (
        [sent(0, "0"), *exchange(1, "0", 1, 0), acked(2, "0", 0),
         sent(3, "0"), *exchange(4, "0", 2, 1), acked(5, "0", 1), *log("0", "0")],
        "Order 0 was stored twice: the program sent it again",
    ),
    "a fault that never fired": (
        [histories.armed(0, "drop_response", 30), *histories.calm()],
        "The fault never fired, so this run proves nothing",
    ),
    "two orders with two causes have none": (
        [sent(0, "0"), request(1, "0", 1), response(2, 1, 0, fate="dropped"),
         *exchange(60, "0", 6, 1), sent(0, "1"), request(1, "1", 2), response(2, 2, 0),
         *exchange(60, "1", 7, 1), *log("0", "1", "0", "1")],
        "Orders 0 and 1 were stored twice",
    ),
    "one value in two topics is no duplicate": (
        [*histories.calm(1), event(5, "log", "reader", "record", topic="03-b-bills", value="0",
                                   partition=0, offset=0)],
        "1 order sent, and each is stored once",
    ),
    "what the lab has filled in was not sent": (
        [*histories.calm(2), event(5, "log", "reader", "record", topic="03-b-orders", value="7",
                                   partition=0, offset=0)],
        "2 orders sent, and each is stored once",
    ),
    "nothing was sent": (
        [row for row in histories.calm() if row.source == "log"], "3 orders in the log, each once",
    ),
    "sent, and nothing was ever heard of it": (
        [*histories.calm(2), sent(9, "5")], "3 orders sent, and 2 are stored once",
    ),
    "aborted": (
        [*histories.calm(2), event(9, "log", "broker-1", "marker", partition=0, offset=2),
         event(9, "log", "reader", "visible", topic=TOPIC, value="0",
               partition=0, offset=0)],
        "2 orders sent, and each is stored once; 1 not committed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADLINES)
def test_headline(name: str) -> None:
    """The sentence of a run; this table is the one place that holds these words."""
    rows, sentence = HEADLINES[name]

    assert sentence == headline(rows)
