"""What a timeline says in words: labels, marks where a fault fired, hover texts, and the table.

Pure shaping: exchanges and events in, text out, not yet escaped for Plotly except in hover texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab_utils.ledger.events import Event
from lab_utils.views.elastic_time import MS, ElasticTime, ms_text
from lab_utils.views.exchanges import Exchange, carried
from lab_utils.views.palette import AGAIN
from lab_utils.views.table import Table
from lab_utils.views.wording import in_picture, shown

HOVER_LINES = 6
BROKER_KINDS = ("killed", "stopped", "paused", "resumed", "died", "started")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment, to be marked across all lanes."""

    at_ns: int
    text: str


def name_of(exchange: Exchange, *, with_api: bool = False) -> str:
    """What a request is called in the picture: its orders, or its API."""
    row = exchange.first
    name = batch_text(exchange.values, sum(it.records or 0 for it in exchange.requests))
    if row.api != "Produce" or not exchange.requests:
        name = row.api or "?"
    elif with_api:
        name = f"Produce {name}"
    return f"{AGAIN}{name}" if exchange.is_repeat else name


def batch_text(values: Sequence[str], records: int) -> str:
    """The values of a batch, the first and last of many, or only their number.

    >>> batch_text(["0"], 1), batch_text(["0", "1", "2", "3"], 4), batch_text([], 500)
    ('0', '0…3', '500 records')
    """
    if not values:
        return f"{records} records"
    names = [shown(value, 16) for value in values]
    return " ".join(names) if len(names) <= 3 else f"{names[0]}…{names[-1]}"


def answer_of(exchange: Exchange) -> str:
    """What the broker answered to a Produce request: the offsets of the records, if it did."""
    records = {row.partition: row.records or 1 for row in exchange.requests}
    answers = [row for row in exchange.responses if row.api == "Produce" and row.fate != "replaced"]
    places = [(row.offset, records.get(row.partition, 1)) for row in answers]
    return " ".join(_offsets(offset, many) for offset, many in places if offset is not None)


def _offsets(offset: int, records: int) -> str:
    return str(offset) if records == 1 else f"{offset}…{offset + records - 1}"


def marks(rows: Sequence[Event], found: Sequence[Exchange]) -> list[Mark]:
    """Where faults fired, clients crashed, and brokers were killed, paused or resumed."""
    fired = [
        _fault_mark(row, found) for row in rows if (row.source, row.kind) == ("fault", "fired")
    ]
    brokers = [
        Mark(row.at_ns, f"{row.actor} {row.kind}")
        for row in rows
        if row.source == "broker" and row.kind in BROKER_KINDS
    ]
    again = [
        Mark(row.at_ns, "the process starts again")
        for row in rows
        if (row.source, row.kind) == ("workload", "restarted")
    ]
    return sorted(fired + brokers + again, key=lambda mark: mark.at_ns)


def _fault_mark(row: Event, found: Sequence[Exchange]) -> Mark:
    """A fault that fired, at the frame it acted on; it may have waited before it did."""
    given = row.detail
    of_client = f'{row.actor}("{given.get("at", "")}", nth={given.get("nth", "1")})'
    text = given.get("call", of_client)
    for exchange in found:
        first = exchange.first
        place = (first.correlation_id, first.detail.get("connection"))
        if place == (row.correlation_id, given.get("connection")):
            struck = _struck(exchange)
            return Mark(struck.at_ns if struck else row.at_ns, text)
    return Mark(row.at_ns, text)


def _struck(exchange: Exchange) -> Event | None:
    """The frame of an exchange that a fault acted on; an answer may not have come yet."""
    request = exchange.request
    return exchange.response if request is None or request.fate == "forwarded" else request


def hover(row: Event, exchange: Exchange, time: ElasticTime) -> str:
    """A decoded frame, line by line, for Plotly."""
    of = exchange.requests if row.kind == "request" else exchange.responses
    verb = "to" if row.kind == "request" else "from"
    place = row.detail
    lines = [
        f"{row.api} {row.kind}, {ms_text(time.ms(row.at_ns))} ms",
        f"{row.actor} {verb} broker {place.get('broker', '1')}",
        *(line for part in of[:HOVER_LINES] for line in _part_lines(part)),
        *([f"and {len(of) - HOVER_LINES} partitions more"] if len(of) > HOVER_LINES else []),
        f"connection {place.get('connection', '?')}, correlation id {row.correlation_id}",
        fate_text(row),
    ]
    return "<br>".join(in_picture(line, 90) for line in lines if line)


def _part_lines(row: Event) -> list[str]:
    """What a frame says about one partition."""
    lines = [f"{row.topic or ''}-{row.partition}" if row.partition is not None else row.topic or ""]
    if row.kind == "request" and row.api == "Produce":
        what = batch_text(carried(row), row.records or 0)
        lines.append(f"order {what}" if row.records == 1 else f"orders {what} ({row.records})")
        lines.append(key_text(row))
    if row.kind == "response":
        offset = "" if row.offset is None else f", offset {row.offset}"
        lines.append(f"error {row.error}" if row.error else f"no error{offset}")
    return [line for line in lines if line]


def key_text(row: Event) -> str:
    """The broker's key of a batch."""
    key = (row.producer_id, row.producer_epoch, row.sequence)
    return "producer id {}, epoch {}, sequence {}".format(*key)


def fate_text(row: Event) -> str:
    """What the proxy did with a frame, in words."""
    held_ns = int(row.detail.get("released_at_ns", row.at_ns)) - row.at_ns
    wait = f"held for {ms_text(held_ns / MS)} ms" if held_ns > 0 else ""
    fates = {
        "dropped": "dropped by the proxy", "corrupted": "one byte changed by the proxy",
        "replaced": f"written by the proxy{wait and f', {wait}'}", "held": wait,
    }  # fmt: skip
    return fates.get(row.fate or "", "")


def table(found: Sequence[Exchange], time: ElasticTime) -> Table:
    """The exchanges as a table, one row each; those that went wrong or came again are marked."""
    columns = (
        "ms", "client", "connection", "request", "partition", "producer id, epoch, sequence",
        "done to the request", "answer", "done to the answer",
    )  # fmt: skip
    rows = [_table_row(exchange, time) for exchange in found]
    odd = {at for at, exchange in enumerate(found) if is_odd(exchange)}
    return Table(columns, rows, "Requests and their answers, oldest first.", frozenset(odd))


def is_odd(exchange: Exchange) -> bool:
    """Did something happen to this exchange, or has it crossed the wire before?"""
    fates = {row.fate for row in (exchange.request, exchange.response) if row}
    return exchange.is_repeat or bool(exchange.error) or not fates <= {"forwarded", "held", None}


def _table_row(exchange: Exchange, time: ElasticTime) -> tuple[object, ...]:
    row, request, response = exchange.first, exchange.request, exchange.response
    keys = [(it.producer_id, it.producer_epoch, it.sequence) for it in exchange.requests]
    has_key = row.api == "Produce" and request is not None
    return (
        ms_text(time.ms(row.at_ns)),
        row.actor,
        row.detail.get("connection"),
        name_of(exchange, with_api=True),
        ", ".join(str(it.partition) for it in exchange.requests if it.partition is not None),
        "; ".join("{}, {}, {}".format(*key) for key in keys) if has_key else "",
        fate_text(request) if request else "",
        _answer_text(exchange),
        fate_text(response) if response else "",
    )


def _answer_text(exchange: Exchange) -> str:
    if exchange.response is None:
        return "none"
    offsets = answer_of(exchange)
    return exchange.error or (f"offset {offsets}" if offsets else "no error")
