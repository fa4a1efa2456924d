"""Literal histories of runs, as measured on a real broker: what the wire, the client and log said.

Times are milliseconds. A history is a list of events; each constructor makes one or two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab_utils.ledger.events import Event

TOPIC = "03-b-orders"
DRAINED = {"drained": "true"}


def event(ms: float, source: str, actor: str, kind: str, **columns: Any) -> Event:
    return Event(run="03-b", source=source, actor=actor, kind=kind, at_ns=int(ms * 1e6), **columns)


def sent(ms: float, value: str, **columns: Any) -> Event:
    return event(ms, "client", "producer-1", "sent", topic=TOPIC, value=value, **columns)


def acked(ms: float, value: str, offset: int | None = None, partition: int = 0) -> Event:
    place = {"topic": TOPIC, "partition": partition, "offset": offset}
    return event(ms, "client", "producer-1", "acked", value=value, **place)


def unknown(ms: float, value: str, error: str = "_MSG_TIMED_OUT") -> Event:
    place = {"topic": TOPIC, "partition": 0}
    return event(ms, "client", "producer-1", "unknown", value=value, error=error, **place)


def request(ms: float, value: str | None, number: int, **columns: Any) -> Event:
    batch = {"records": 1, "producer_id": -1, "producer_epoch": -1, "sequence": -1}
    return frame(ms, "request", number, value=value, **batch | columns)


def response(ms: float, number: int, offset: int | None = None, **columns: Any) -> Event:
    return frame(ms, "response", number, offset=offset, **columns)


def frame(ms: float, kind: str, number: int, **columns: Any) -> Event:
    """A Produce request, or its answer, that went through the proxy."""
    given = {"actor": "producer-1", "api": "Produce", "topic": TOPIC, "partition": 0,
             "fate": "forwarded"} | columns  # fmt: skip
    place = {"connection": "c1", "broker": "1", "version": "10", **given.pop("detail", {})}
    return event(ms, "wire", kind=kind, correlation_id=number, detail=place, **given)


def fired(ms: float, fault: str, number: int, nth: int, connection: str = "c1") -> Event:
    call = f'{fault}("Produce", nth={nth})'
    detail = {"nth": str(nth), "call": call, "fault": "f1", "connection": connection}
    return event(ms, "fault", fault, "fired", api="Produce", correlation_id=number, detail=detail)


def armed(ms: float, fault: str, nth: int) -> Event:
    detail = {"api": "Produce", "nth": str(nth), "fault": "f1"}
    return event(ms, "fault", fault, "armed", api="Produce", detail=detail)


def log(*values: str, partition: int = 0, ms: float = 900) -> list[Event]:
    """The log of one partition, read to its end."""
    records = [
        event(ms, "log", "reader", "record", topic=TOPIC, partition=partition, offset=at, value=it)
        for at, it in enumerate(values)
    ]
    end = event(
        ms, "log", "reader", "end",
        topic=TOPIC, partition=partition, offset=len(values), detail=DRAINED,
    )  # fmt: skip
    return [*records, end]


def exchange(ms: float, value: str, number: int, offset: int, **columns: Any) -> list[Event]:
    """A Produce request that went well."""
    detail = columns.get("detail", {})
    return [
        request(ms, value, number, **columns),
        response(ms + 0.6, number, offset, detail=detail),
    ]


def calm(orders: int = 3) -> list[Event]:
    """Nothing went wrong."""
    rows = []
    for at in range(orders):
        rows += [
            sent(at, str(at)),
            *exchange(at + 0.2, str(at), at + 3, at),
            acked(at + 0.9, str(at), at),
        ]
    return rows + log(*map(str, range(orders)))


def lost_answer() -> list[Event]:
    """Row 1c: the answer to the third of five is dropped; the client sends it again."""
    second = {"connection": "c2"}
    return [
        armed(-1, "drop_response", 3),
        sent(0, "0"), *exchange(0.3, "0", 3, 0), acked(1, "0", 0),
        sent(1.1, "1"), *exchange(1.3, "1", 4, 1), acked(2.1, "1", 1),
        sent(2.2, "2"),
        request(2.4, "2", 5), response(3.1, 5, 2, fate="dropped"),
        fired(3.2, "drop_response", 5, 3),
        request(61, "2", 2, detail=second), response(61.8, 2, 3, detail=second),
        acked(62.1, "2", 3),
        sent(62.2, "3"), *exchange(62.4, "3", 3, 4, detail=second), acked(63.2, "3", 4),
        sent(63.3, "4"), *exchange(63.5, "4", 4, 5, detail=second), acked(64.3, "4", 5),
        *log("0", "1", "2", "2", "3", "4"),
    ]  # fmt: skip


def flood() -> list[Event]:
    """Row 1f: the first of six in flight loses its answer, and so do those behind it."""
    second = {"connection": "c2"}
    rows = [armed(-1, "drop_response", 1), *(sent(at / 50, str(at)) for at in range(6))]
    for at in range(6):
        rows.append(request(0.5 + at / 20, str(at), at + 3))
        rows.append(response(1.5 + at / 20, at + 3, at, fate="dropped"))
        rows.append(request(65 + at / 20, str(at), at + 2, detail=second))
        rows.append(response(66 + at / 20, at + 2, at + 6, detail=second))
        rows.append(acked(67 + at / 20, str(at), at + 6))
    return [*rows, fired(1.6, "drop_response", 3, 1), *log(*"012345", *"012345")]


def recognised() -> list[Event]:
    """Row 2b: as lost_answer, with idempotence: the broker knows the sequence number."""
    key = {"producer_id": 4000, "producer_epoch": 0}
    second = {"connection": "c2"}
    rows = [armed(-1, "drop_response", 3)]
    for at in range(5):
        ms = at + 0.3 if at < 2 else at + 60
        place = {} if at < 2 else second
        rows += [sent(at, str(at)), request(ms, str(at), at + 3, sequence=at, detail=place, **key)]
        rows += [response(ms + 0.5, at + 3, at, detail=place), acked(ms + 0.8, str(at), at)]
    rows += [
        request(2.4, "2", 5, sequence=2, **key), response(3.1, 5, 2, fate="dropped"),
        fired(3.2, "drop_response", 5, 3), *log(*"01234"),
    ]  # fmt: skip
    return rows


def replayed(error: str | None = None) -> list[Event]:
    """The proxy copies the first of three; the broker knows it, or refuses it with an error."""
    key = {"producer_id": 4000, "producer_epoch": 0}
    rows = [armed(-1, "replay_request", 1)]
    for at in range(3):
        rows += [sent(at, str(at)), *exchange(at + 0.2, str(at), at + 3, at, sequence=at, **key)]
        rows += [acked(at + 0.9, str(at), at)]
    mark = fired(2.95, "replay_request", 3, 1)
    return [
        *rows, replace(mark, detail=mark.detail | {"copy": "-1"}),
        request(2.92, "0", -1, sequence=0, fate="replayed", **key),
        response(3.4, -1, None if error else 0, error=error, fate="dropped"), *log(*"012"),
    ]  # fmt: skip


def last() -> list[Event]:
    """Row 6: the first of four in flight is corrupted; its retry comes last."""
    rows = [armed(-1, "corrupt_request", 1), *(sent(at / 50, str(at)) for at in range(4))]
    rows += [request(0.5 + at / 20, str(at), at + 3) for at in range(1, 4)]
    rows += [
        request(0.5, "0", 3, fate="corrupted"), fired(0.51, "corrupt_request", 3, 1),
        held_response(1.2, 3, 41.2, error="CORRUPT_MESSAGE"),
        *(held_response(1.2 + at / 10, at + 3, 41.2 + at / 10, offset=at - 1) for at in (1, 2, 3)),
        *(acked(41.5 + at / 10, str(at), at - 1) for at in (1, 2, 3)),
        *exchange(92, "0", 7, 3), acked(92.9, "0", 3),
        *log(*"1230"),
    ]  # fmt: skip
    return rows


def held_response(ms: float, number: int, released_ms: float, **columns: Any) -> Event:
    released = {"released_at_ns": str(int(released_ms * 1e6))}
    return response(ms, number, detail=released, **{"fate": "held", **columns})


def hole() -> list[Event]:
    """The hole: idempotent, the first of four is refused and never sent again."""
    key = {"producer_id": 4000, "producer_epoch": 0}
    rows = [armed(-1, "corrupt_request", 1), *(sent(at / 50, str(at)) for at in range(4))]
    rows += [
        request(0.5, "0", 3, fate="corrupted", sequence=0, **key),
        fired(0.51, "corrupt_request", 3, 1),
        *(request(0.5 + at / 20, str(at), at + 3, sequence=at, **key) for at in (1, 2, 3)),
        held_response(1.2, 3, 41.2, error="CORRUPT_MESSAGE"),
        *(held_response(1.2 + at / 10, at + 3, 41.2 + at / 10, offset=at - 1) for at in (1, 2, 3)),
        *(acked(42 + at / 10, str(at), at - 1 if at else None) for at in range(4)),
        *log(*"123"),
    ]  # fmt: skip
    return rows


def twin() -> list[Event]:
    """The hole's twin: stored, then answered with an error by the proxy."""
    key = {"producer_id": 4000, "producer_epoch": 0}
    rows = [armed(-1, "refuse", 2), *(sent(at / 50, str(at)) for at in range(4))]
    rows += [request(0.5 + at / 20, str(at), at + 3, sequence=at, **key) for at in range(4)]
    error = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    rows += [response(1.2, 3, 0), response(1.4, 4, fate="replaced", error=error)]
    rows += [held_response(1.5 + at / 10, at + 3, 41 + at / 10, offset=at) for at in (2, 3)]
    rows += [fired(41, "refuse", 4, 2)]
    rows += [acked(42 + at / 10, str(at), None if at == 1 else at) for at in range(4)]
    return rows + log(*"0123")


def refused() -> list[Event]:
    """The proxy answers the second of four in the broker's place, one in flight: 0, 2, 1, 3."""
    rows = [armed(-1, "refuse", 2), *(sent(at / 50, str(at)) for at in range(4))]
    rows += [*exchange(0.5, "0", 3, 0), request(1.4, "1", 4, fate="dropped")]
    rows += [response(1.41, 4, fate="replaced", error="NOT_ENOUGH_REPLICAS")]
    rows += [fired(41.5, "refuse", 4, 2), *exchange(42, "2", 5, 1), *exchange(93, "1", 6, 2)]
    rows += [*exchange(94, "3", 7, 3)]
    rows += [acked(95, value, at) for at, value in enumerate("0213")]
    return rows + log(*"0213")


def late_answer() -> list[Event]:
    """Lab 00: an answer is held until its client has hung up; the order is in the log."""
    rows = calm(3)[:-4]
    rows += [armed(-1, "delay_response", 4), sent(3, "3"), request(3.2, "3", 6)]
    rows += [held_response(3.8, 6, 1503.8, offset=3, fate="undelivered")]
    rows += [fired(3.9, "delay_response", 6, 4)]
    rows += [unknown(1004, "3"), *log(*"0123")]
    return rows
