"""Constructors for tiny histories: sent("1"), acked("1", 1). Time is the place in the list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lab_utils.ledger.events import Event

TOPIC = "orders"


def client(kind: str, value: str | None, **columns: Any) -> Event:
    columns = {"actor": "producer-1", "topic": TOPIC, "partition": 0, "value": value} | columns
    return Event(run="", source="client", kind=kind, **columns)


def sent(value: str, **columns: Any) -> Event:
    return client("sent", value, **columns)


def acked(value: str, offset: int | None, **columns: Any) -> Event:
    return client("acked", value, offset=offset, **columns)


def failed(value: str, error: str = "NOT_ENOUGH_REPLICAS", **columns: Any) -> Event:
    return client("failed", value, error=error, **columns)


def unknown(value: str, error: str = "_MSG_TIMED_OUT", **columns: Any) -> Event:
    return client("unknown", value, error=error, **columns)


def delivered(value: str, offset: int, actor: str = "consumer-1", **columns: Any) -> Event:
    return client("delivered", value, offset=offset, actor=actor, **columns)


def created(actor: str, **settings: str) -> Event:
    """A client with these settings; a dot in a setting's name is written as two underscores."""
    detail = {name.replace("__", "."): value for name, value in settings.items()}
    return client("created", None, actor=actor, detail=detail)


def order(value: str) -> Event:
    return Event(run="", source="workload", actor="lab", kind="order", value=value)


def fault(kind: str, actor: str = "drop_response") -> Event:
    return Event(run="", source="fault", actor=actor, kind=kind)


def record(value: str, offset: int, partition: int = 0) -> Event:
    return Event(
        run="", source="log", actor="reader", kind="record",
        topic=TOPIC, partition=partition, offset=offset, value=value,
    )  # fmt: skip


def end(drained: bool = True, partition: int = 0) -> Event:
    detail = {"drained": "true" if drained else "false"}
    return Event(
        run="", source="log", actor="reader", kind="end",
        topic=TOPIC, partition=partition, detail=detail,
    )  # fmt: skip


def log(*values: str, drained: bool = True) -> list[Event]:
    """The log of partition 0, and that it was read to its end."""
    return [*(record(value, offset) for offset, value in enumerate(values)), end(drained)]


def in_run(run: str, events: Iterable[Event]) -> list[Event]:
    """The history as one run: each event a nanosecond after the one before."""
    return [replace(event, run=run, at_ns=at) for at, event in enumerate(events)]
