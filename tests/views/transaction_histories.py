"""Literal runs with transactions: what the client, the wire, the coordinator and the log said."""

from __future__ import annotations

from typing import Any

from lab_utils.ledger.events import Event
from tests.views.histories import TOPIC, event

MS = 1_000_000
WALL_MS = 1_700_000_000_000  # what the broker's clock shows when the ledger's shows 0


def txn(ms: float, kind: str, number: int = 1, actor: str = "producer-1", **columns: Any) -> Event:
    return event(ms, "client", actor, f"txn_{kind}", detail={"transaction": str(number)}, **columns)


def sent(ms: float, value: str, number: int = 1, actor: str = "producer-1") -> Event:
    detail = {"transaction": str(number)} if number else {}
    return event(ms, "client", actor, "sent", topic=TOPIC, value=value, detail=detail)


def asked(ms: float, api: str, committed: bool | None = None, late_ms: float = 0) -> Event:
    detail = {"connection": "b1-1"} | ({} if committed is None else {"committed": str(committed)})
    if late_ms:
        detail["released_at_ns"] = str(int(late_ms * MS))
    return event(
        ms, "wire", "producer-1", "request", api=api, correlation_id=int(ms * 10),
        fate="held" if late_ms else "forwarded", detail=detail,
    )  # fmt: skip


def wrote(ms: int, state: str, epoch: int = 0) -> Event:
    detail = {
        "transactional_id": TOPIC, "state": state, "partitions": f'["{TOPIC}-0"]',
        "timestamp_ms": str(WALL_MS + ms),
    }  # fmt: skip
    return event(
        ms, "log", "coordinator", "transaction", topic="__transaction_state", partition=7,
        offset=ms, producer_id=1, producer_epoch=epoch, detail=detail,
    )  # fmt: skip


def stored(
    ms: float, value: str, offset: int, partition: int = 0, readable: bool = True
) -> list[Event]:
    """A record in a transactional batch: when it was acked, and who may read it."""
    place = {"topic": TOPIC, "partition": partition, "offset": offset}
    detail = {"timestamp_ms": str(int(WALL_MS + ms))}
    rows = [
        event(ms, "client", "producer-1", "acked", value=value, **place),
        event(900, "log", "reader", "record", value=value, detail=detail, **place),
        event(900, "log", "broker-1", "batch", producer_id=1, records=1,
              detail=detail | {"transactional": "true"}, **place),
    ]  # fmt: skip
    return rows + ([event(900, "log", "reader", "visible", value=value, **place)] * readable)


def marker(ms: int, kind: str, offset: int, partition: int = 0) -> Event:
    return event(
        900, "log", "broker-1", "marker", topic=TOPIC, partition=partition, offset=offset,
        producer_id=1, detail={"type": kind, "timestamp_ms": str(WALL_MS + ms)},
    )  # fmt: skip


def stop(last_stable: int, end: int, partition: int = 0) -> Event:
    return event(
        900, "log", "reader", "end", topic=TOPIC, partition=partition, offset=end,
        detail={"drained": "true", "last_stable": str(last_stable)},
    )  # fmt: skip


def commit_and_abort() -> list[Event]:
    """Order 0 is committed, order 1 is aborted."""
    return [
        asked(0, "InitProducerId"), wrote(1, "Empty"), txn(2, "began"), sent(3, "0"),
        wrote(4, "Ongoing"), *stored(5, "0", 0), asked(6, "EndTxn", committed=True),
        wrote(7, "PrepareCommit"), txn(8, "committed"), marker(9, "COMMIT", 1),
        wrote(10, "CompleteCommit"), txn(12, "began", 2), sent(13, "1", 2), wrote(14, "Ongoing"),
        *stored(15, "1", 2, readable=False), asked(16, "EndTxn", committed=False),
        wrote(17, "PrepareAbort"), txn(18, "aborted", 2), marker(19, "ABORT", 3), stop(4, 4),
    ]  # fmt: skip


def torn() -> list[Event]:
    """Transaction 2 was aborted, and a late commit let one half of it through."""
    return [
        txn(2, "began"), sent(3, "0"), *stored(5, "0", 0),
        asked(6, "EndTxn", committed=True, late_ms=16), asked(7, "EndTxn", committed=True),
        marker(9, "COMMIT", 1), txn(10, "committed"),
        txn(12, "began", 2), sent(13, "1", 2), *stored(15, "1", 2), marker(17, "COMMIT", 3),
        sent(18, "2", 2), *stored(20, "2", 0, partition=1, readable=False),
        asked(21, "EndTxn", committed=False), txn(22, "aborted", 2),
        marker(23, "ABORT", 1, partition=1), stop(4, 4), stop(2, 2, partition=1),
        wrote(8, "PrepareCommit"),
    ]  # fmt: skip


def left_open() -> list[Event]:
    """Order 0 is open, and nobody ever ends its transaction."""
    return [
        txn(2, "began"), sent(3, "0"), wrote(4, "Ongoing"), *stored(5, "0", 0, readable=False),
        stop(0, 2),
    ]  # fmt: skip
