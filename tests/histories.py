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


def sent(value: str | None, **columns: Any) -> Event:
    return client("sent", value, **columns)


def acked(value: str | None, offset: int | None, **columns: Any) -> Event:
    return client("acked", value, offset=offset, **columns)


def failed(value: str | None, error: str = "NOT_ENOUGH_REPLICAS", **columns: Any) -> Event:
    return client("failed", value, error=error, **columns)


def unknown(value: str | None, error: str = "_MSG_TIMED_OUT", **columns: Any) -> Event:
    return client("unknown", value, error=error, **columns)


def delivered(value: str | None, offset: int, actor: str = "consumer-1", **columns: Any) -> Event:
    return client("delivered", value, offset=offset, actor=actor, **columns)


def created(actor: str, **settings: str) -> Event:
    """A client with these settings; a dot in a setting's name is written as two underscores."""
    detail = {name.replace("__", "."): value for name, value in settings.items()}
    return client("created", None, actor=actor, detail=detail)


def order(value: str) -> Event:
    return Event(run="", source="workload", actor="lab", kind="order", value=value)


def fault(kind: str) -> Event:
    return Event(run="", source="fault", actor="drop_response", kind=kind)


def logged(kind: str, offset: int | None, partition: int, **columns: Any) -> Event:
    """What the log holds, or the reader says of it."""
    columns = {"actor": "reader", "topic": TOPIC} | columns
    return Event(run="", source="log", kind=kind, partition=partition, offset=offset, **columns)


def record(value: str | None, offset: int, partition: int = 0, key: str | None = None) -> Event:
    return logged("record", offset, partition, key=key, value=value)


def end(
    drained: bool = True, partition: int = 0, offset: int | None = None, start: int = 0
) -> Event:
    detail = {"drained": "true" if drained else "false", **({"start": str(start)} if start else {})}
    return logged("end", offset, partition, detail=detail)


def log(*values: str, drained: bool = True) -> list[Event]:
    """The log of partition 0, and that it was read to its end."""
    return [*(record(value, offset) for offset, value in enumerate(values)), end(drained)]


def in_run(run: str, events: Iterable[Event]) -> list[Event]:
    """The history as one run: each event a nanosecond after the one before."""
    return [replace(event, run=run, at_ns=at) for at, event in enumerate(events)]


def processed(value: str | None, offset: int, **columns: Any) -> Event:
    return client("processed", value, offset=offset, **{"actor": "workload"} | columns)


def placed(kind: str, actor: str = "consumer-1", **columns: Any) -> Event:
    """The consumer was assigned the partition, or sought an offset in it."""
    return client(kind, None, actor=actor, **columns)


def position(offset: int, actor: str = "consumer-1") -> Event:
    """The consumer committed this offset."""
    return placed("committed", actor, offset=offset)


def bookmark(offset: int, when: str = "end", partition: int = 0, group: str = "group") -> Event:
    return logged("committed", offset, partition, actor=group, detail={"when": when})


def effect(value: str, times: int = 1, table: str = "bookings", key: str | None = None) -> Event:
    columns = {"actor": table, "key": key, "value": value, "records": times}
    return Event(run="", source="sink", kind="effect", **columns)


def sent_in(transaction: int, value: str, **columns: Any) -> Event:
    """Sent in this transaction; 0 is none."""
    detail = {"transaction": str(transaction)} if transaction else {}
    return client("sent", value, detail=detail, **columns)


def told(
    kind: str, transaction: int, asked_at_ns: int | None = 0, actor: str = "producer-1",
    call: str | None = None,
) -> Event:  # fmt: skip
    """The program was told that this transaction had been `committed` or `aborted`, or `failed`."""
    detail = {"transaction": str(transaction)}
    detail |= {} if asked_at_ns is None else {"called_at_ns": str(asked_at_ns)}
    detail |= {} if call is None else {"call": call}
    return Event(run="", source="client", actor=actor, kind=f"txn_{kind}", detail=detail)


def initialised(called_at_ns: int, **columns: str) -> Event:
    """A producer was initialised, by a call that began then."""
    return replace(told("initialised", 0, called_at_ns), **columns)


def visible(value: str, offset: int, partition: int = 0) -> Event:
    return logged("visible", offset, partition, value=value)


def both(value: str, offset: int, partition: int = 0) -> list[Event]:
    """A record that every reader is given."""
    return [record(value, offset, partition), visible(value, offset, partition)]


def stop(
    last_stable: int, offset: int, partition: int = 0, drained: bool = True, committed: bool = True,
    start: int = 0,
) -> Event:  # fmt: skip
    """Where a read_committed reader stops, and where the log ends."""
    detail = {
        "drained": str(drained).lower(),
        "committed_drained": str(committed).lower(),
        "last_stable": str(last_stable),
        **({"start": str(start)} if start else {}),
    }
    return logged("end", offset, partition, detail=detail)


def offsets(transaction: int, position: int, group: str | None = None, **columns: Any) -> Event:
    """The program made this offset of partition 0 part of its transaction."""
    detail = {"transaction": str(transaction), "offsets": f'["{TOPIC}-0:{position}"]'}
    detail |= {"group": group} if group is not None else {}
    return client("txn_offsets_sent", None, detail=detail, **{"partition": None} | columns)


def out(transaction: int, value: str, **columns: Any) -> Event:
    """Sent to the topic of results, in this transaction."""
    return sent_in(transaction, value, **{"topic": "results"} | columns)


def asked(api: str, **columns: Any) -> Event:
    """An administrator's request that the proxy saw."""
    columns = {"topic": TOPIC, "fate": "forwarded"} | columns
    return Event(run="", source="wire", actor="rdkafka", kind="request", api=api, **columns)


def written(kind: str, offset: int, epoch: int, producer_id: int = 7, partition: int = 0) -> Event:
    ids = {"producer_id": producer_id, "producer_epoch": epoch}
    return logged(kind, offset, partition, actor="broker-1", **ids)


def noted(state: str, offset: int, producer_id: int = 7) -> Event:
    """What the coordinator wrote down of this producer id."""
    by = {"actor": "coordinator", "topic": "__transaction_state", "producer_id": producer_id}
    return logged("transaction", offset, 0, **by, producer_epoch=0, detail={"state": state})


def decision(isr: str, leader: int | str = 1, replicas: str = "1 2 3") -> Event:
    """The controller decides who leads and who is in sync."""
    detail = {"leader": str(leader), "isr": isr, "replicas": replicas}
    return Event(run="", source="broker", actor="controller", kind="partition", topic=TOPIC,
                 partition=0, detail=detail)  # fmt: skip


def power_cut(broker: int = 1) -> Event:
    return Event(run="", source="broker", actor=f"broker-{broker}", kind="power_cut")


def watermark(offset: int, broker: str = "broker-1") -> Event:
    """Readers may read up to here."""
    return Event(run="", source="broker", actor=broker, kind="watermark", topic=TOPIC,
                 partition=0, offset=offset, detail={"lso": str(offset)})  # fmt: skip


def topic(floor: int | None, replicas: int = 3, policy: str = "", **settings: str) -> Event:
    """The topic's own settings; without a floor, Kafka's default holds, which is 1."""
    given = {} if floor is None else {"min.insync.replicas": str(floor)}
    given |= {"cleanup.policy": policy} if policy else {}
    given |= {name.replace("__", "."): value for name, value in settings.items()}
    detail = {"replicas": str(replicas), **given}
    return Event(run="", source="workload", actor="lab", kind="topic", topic=TOPIC, detail=detail)


# A batch of a transaction, which is still open where no marker follows.
OPEN = replace(written("batch", 0, 0), detail={"transactional": "true"})
MARKER = logged("marker", None, 0, actor="broker-1")
FINISHED = Event(run="", source="workload", actor="workload", kind="finished")
