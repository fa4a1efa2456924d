"""Literal histories of consumers: what was handed over, done and committed, and what came out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab_utils.ledger.events import Event

RUN = "05-a"
TOPIC = f"{RUN}-orders"
MARKER = Event(run=RUN, source="log", actor="broker-1", kind="marker", topic=f"{RUN}-invoices")


def event(source: str, kind: str, **columns: Any) -> Event:
    columns = {"actor": "consumer-1", "topic": TOPIC, "partition": 0} | columns
    return Event(run=RUN, source=source, kind=kind, **columns)


def delivered(offset: int, **columns: Any) -> Event:
    return event("client", "delivered", offset=offset, value=str(offset), **columns)


def processed(offset: int) -> Event:
    return event("client", "processed", offset=offset, value=str(offset))


def committed(offset: int, fate: str = "forwarded") -> Event:
    return event("wire", "request", api="OffsetCommit", offset=offset, fate=fate)


def read_on_at(offset: int) -> Event:
    """Where the broker holds that the group reads on, at the end of the run."""
    return event("log", "committed", actor="05-a-group", offset=offset, detail={"when": "end"})


KILLED = event("workload", "crashed", topic=None, partition=None)
AGAIN = event("workload", "started", attempt=2, topic=None, partition=None)


def history(*events: Event) -> list[Event]:
    """A log of three orders, and these events one after the other."""
    log = [event("log", "record", offset=n, value=str(n)) for n in range(3)]
    return [replace(row, at_ns=at) for at, row in enumerate([*log, *events])]


def repeated_and_skipped() -> list[Event]:
    """Order 1 is done again after the crash; order 2 is committed and never done."""
    return history(
        delivered(0), processed(0), committed(1), delivered(1), processed(1),
        KILLED, AGAIN, delivered(1), processed(1), committed(3), read_on_at(3),
    )  # fmt: skip


def rebalanced(kind: str, actor: str = "consumer-1", partition: int = 0) -> Event:
    return event("client", kind, actor=actor, partition=partition)


def taken_away() -> list[Event]:
    """A busy consumer loses its partition, does not know it, and commits too late."""
    refused = event("client", "error", topic=None, error="UNKNOWN_MEMBER_ID",
                    detail={"of": "commit"})  # fmt: skip
    rows = history(
        rebalanced("assigned"), delivered(0), processed(0),
        rebalanced("assigned", "consumer-2"), delivered(0, actor="consumer-2"), processed(0),
        refused, rebalanced("revoked"), rebalanced("revoked", "consumer-2"),
    )  # fmt: skip
    return [replace(row, at_ns=row.at_ns * 1_000_000) for row in rows]


def orders(values: str) -> list[Event]:
    return [Event(run=RUN, source="workload", actor="lab", kind="order", value=v) for v in values]


def had(kind: str, values: str, topic: str = "invoices") -> list[Event]:
    return [
        event("log", kind, actor="reader", topic=f"{RUN}-{topic}", value=value, offset=offset)
        for offset, value in enumerate(values)
    ]


def out(seen: str, visible: str, written: str = "01") -> list[Event]:
    """Orders 0 and 1 in; what was written, and given to the concurrent and to the final reader."""
    return [*orders("01"), MARKER, *had("record", written), *had("seen", seen),
            *had("visible", visible)]  # fmt: skip
