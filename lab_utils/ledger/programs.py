"""What programs that record nothing sent and were told, as the wire says.

    note (this name is a program's) + Produce requests and answers ──▶ created, sent, acked

A record that crosses the wire again is a retry, and was sent once: with idempotence it has the
producer id, epoch and sequence that it had, without it the same value. A client that sends again
under a new id or epoch is taken for a program that does. What a program was told beside an
acknowledgement the wire cannot say: a client may try again, or give up, where nobody sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import Exchange, History, carried_records, released_ns

REACHED: Final = ("forwarded", "held")
ROLE: Final = {"role": "program"}
# Key and value, by which an order is known.
Record: TypeAlias = tuple[str | None, str | None]


def program_events(rows: Iterable[Event]) -> Iterator[Event]:
    """The events of a run's programs that follow from its other rows."""
    run = History(rows)
    names = {row.actor for row in run.of("client", "note") if row.detail == ROLE}
    for name in sorted(names):
        yield from _events([it for it in run.exchanges if it.first.actor == name])


def _events(exchanges: Iterable[Exchange]) -> Iterator[Event]:
    sent: set[tuple[object, ...]] = set()
    acked: set[tuple[object, ...]] = set()
    known: list[dict[str, str]] = []
    for exchange in exchanges:
        for row in exchange.requests:
            # A program may have several producers.
            if (settings := _settings(row)) not in known:
                known.append(settings)
                yield _event(row, "created", row.at_ns, detail=settings)
            for number, order in enumerate(carried_records(row)):
                record = row.topic, row.partition, *order, *_numbers(row, number)
                if record not in sent:
                    sent.add(record)
                    yield _event(row, "sent", row.at_ns, order)
                if exchange.told_stored(row, REACHED) and record not in acked:
                    acked.add(record)
                    yield _acked(exchange, row, number, order)


def _numbers(row: Event, number: int) -> tuple[int | None, ...]:
    """What the broker recognises a record of a batch by; nothing without idempotence."""
    if not _is_idempotent(row) or row.sequence is None:
        return ()
    return row.producer_id, row.producer_epoch, row.sequence + number


def _is_idempotent(row: Event) -> bool:
    return row.producer_id is not None and row.producer_id >= 0


def _acked(exchange: Exchange, row: Event, number: int, order: Record) -> Event:
    """The acknowledgement of one record; a batch is answered with the offset of its first."""
    answer = next((it for it in exchange.responses if it.topic == row.topic
                   and it.partition == row.partition), None)  # fmt: skip
    at_ns = released_ns(answer) if answer else row.at_ns
    first = answer.offset if answer else None
    offset = None if first is None else first + number
    return _event(row, "acked", at_ns, order, offset=offset)


def _settings(row: Event) -> dict[str, str]:
    """What a Produce request says of its producer's settings."""
    told = {"acks": "acks", "transactional.id": "transactional_id"}
    settings = {name: row.detail[key] for name, key in told.items() if row.detail.get(key)}
    is_idempotent = str(_is_idempotent(row)).lower()
    return {"role": "producer", "enable.idempotence": is_idempotent, **settings}


def _event(
    row: Event,
    kind: str,
    at_ns: int,
    order: Record | None = None,
    *,
    offset: int | None = None,
    detail: dict[str, str] | None = None,
) -> Event:
    key, value = order or (None, None)
    topic, partition = (row.topic, row.partition) if order else (None, None)
    return Event(
        run=row.run, source="client", actor=row.actor, kind=kind, at_ns=at_ns, topic=topic,
        partition=partition, key=key, value=value, offset=offset, producer_id=row.producer_id,
        detail=detail or {"from": "wire"},
    )  # fmt: skip
