"""Each finding about transactions: its smallest history, and its near miss."""

from __future__ import annotations

from typing import Any

from lab_utils.ledger.events import Event
from tests.histories import TOPIC, client, delivered, record


def sent_in(transaction: int, value: str, **columns: Any) -> Event:
    """Sent in this transaction; 0 is none."""
    detail = {"transaction": str(transaction)} if transaction else {}
    return client("sent", value, detail=detail, **columns)


def told(kind: str, transaction: int, asked_at_ns: int = 0, actor: str = "producer-1") -> Event:
    """The program was told that this transaction had been `committed` or `aborted`."""
    detail = {"transaction": str(transaction), "called_at_ns": str(asked_at_ns)}
    return Event(run="", source="client", actor=actor, kind=f"txn_{kind}", detail=detail)


def visible(value: str, offset: int, partition: int = 0) -> Event:
    return Event(
        run="", source="log", actor="reader", kind="visible",
        topic=TOPIC, partition=partition, offset=offset, value=value,
    )  # fmt: skip


def both(value: str, offset: int, partition: int = 0) -> list[Event]:
    """A record that every reader is given."""
    return [record(value, offset, partition), visible(value, offset, partition)]


def stop(last_stable: int, offset: int, partition: int = 0, drained: bool = True) -> Event:
    """Where a read_committed reader stops, and where the log ends."""
    detail = {"drained": "true" if drained else "false", "last_stable": str(last_stable)}
    return Event(
        run="", source="log", actor="reader", kind="end",
        topic=TOPIC, partition=partition, offset=offset, detail=detail,
    )  # fmt: skip


def written(kind: str, offset: int, epoch: int, producer_id: int = 7, partition: int = 0) -> Event:
    return Event(
        run="", source="log", actor="broker-1", kind=kind, topic=TOPIC, partition=partition,
        offset=offset, producer_id=producer_id, producer_epoch=epoch,
    )  # fmt: skip


def noted(state: str, offset: int, producer_id: int = 7) -> Event:
    """What the coordinator wrote down of this producer id."""
    return Event(
        run="", source="log", actor="coordinator", kind="transaction", topic="__transaction_state",
        partition=0, offset=offset, producer_id=producer_id, producer_epoch=0,
        detail={"state": state},
    )  # fmt: skip


OTHER = {"actor": "producer-2"}
INTERLEAVED = [
    sent_in(1, "1"), sent_in(1, "2", **OTHER), sent_in(1, "3"),
    told("committed", 1), told("committed", 1, **OTHER),
]  # fmt: skip

# name: (finding, its smallest history, its near miss)
CASES: dict[str, tuple[str, list[Event], list[Event]]] = {
    "aborted, and a consumer was given it": (
        "aborted-read",
        [sent_in(1, "1"), delivered("1", 0), told("aborted", 1)],
        [sent_in(1, "1"), delivered("1", 0), told("committed", 1)],
    ),
    "aborted, and read_committed": (
        "aborted-read",
        [sent_in(1, "1"), told("aborted", 1), *both("1", 0)],
        [sent_in(1, "1"), told("aborted", 1), record("1", 0)],
    ),
    "aborted and sent again": (
        "aborted-read",
        [sent_in(1, "1"), told("aborted", 1), *both("1", 0)],
        [
            sent_in(1, "1"), told("aborted", 1), record("1", 0),
            sent_in(2, "1"), told("committed", 2), *both("1", 2),
        ],
    ),
    "an end that nobody was told": (
        "aborted-read",
        [sent_in(1, "1"), told("aborted", 1), *both("1", 0)],
        [sent_in(1, "1"), *both("1", 0)],
    ),
    "given before the commit was asked": (
        "precommitted-read",
        [sent_in(1, "1"), delivered("1", 0), told("committed", 1, asked_at_ns=2)],
        [sent_in(1, "1"), delivered("1", 0), told("committed", 1, asked_at_ns=1)],
    ),
    "one half can be read": (
        "torn-transaction",
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 0, 1), stop(2, 2)],
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), *both("2", 0, 1), stop(2, 2)],
    ),
    "the other half is still open": (
        "torn-transaction",
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 0, 1), stop(1, 1, 1)],
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 0, 1), stop(0, 1, 1)],
    ),
    "the other half is another transaction": (
        "torn-transaction",
        [sent_in(1, "1"), sent_in(1, "2"), *both("1", 0), record("2", 2)],
        [sent_in(1, "1"), sent_in(2, "2"), *both("1", 0), record("2", 2)],
    ),
    "each wrote before the other": (
        "write-cycle",
        [*INTERLEAVED, *both("1", 0), *both("2", 1), *both("3", 2)],
        [*INTERLEAVED, *both("1", 0), *both("3", 1), *both("2", 2)],
    ),
    "before in one partition, behind in another": (
        "write-cycle",
        [
            *INTERLEAVED, sent_in(1, "4", **OTHER),
            *both("1", 0), *both("2", 1), *both("4", 0, 1), *both("3", 1, 1),
        ],
        [
            *INTERLEAVED, sent_in(1, "4", **OTHER),
            *both("1", 0), *both("2", 1), *both("3", 0, 1), *both("4", 1, 1),
        ],
    ),
    "an old epoch behind a newer one": (
        "zombie-effect",
        [written("batch", 0, 0), written("marker", 1, 1), written("batch", 2, 0)],
        [written("batch", 0, 0), written("marker", 1, 1), written("batch", 2, 2)],
    ),
    "an old epoch of another producer id": (
        "zombie-effect",
        [written("batch", 0, 3), written("batch", 1, 0)],
        [written("batch", 0, 3), written("batch", 1, 0, producer_id=8)],
    ),
    "an old epoch in another partition": (
        "zombie-effect",
        [written("batch", 0, 3), written("marker", 1, 0)],
        [written("batch", 0, 3), written("marker", 1, 0, partition=1)],
    ),
    "over to its coordinator, and no marker": (
        "hanging-transaction",
        [written("batch", 0, 0), noted("Ongoing", 0), noted("CompleteCommit", 1), stop(0, 2)],
        [written("batch", 0, 0), noted("CompleteCommit", 0), noted("Ongoing", 1), stop(0, 2)],
    ),
    "another transaction is over": (
        "hanging-transaction",
        [written("batch", 1, 0), noted("CompleteAbort", 0), stop(1, 2)],
        [written("batch", 1, 0), noted("CompleteAbort", 0, producer_id=8), stop(1, 2)],
    ),
    "decided, and its markers are on their way": (
        "stuck-lso",
        [written("batch", 0, 0), noted("PrepareCommit", 0), stop(0, 1)],
        [written("batch", 0, 0), noted("CompleteCommit", 0), stop(0, 1)],
    ),
    "readers stop before the end": ("stuck-lso", [stop(0, 2)], [stop(2, 2)]),
}  # fmt: skip
