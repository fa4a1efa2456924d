"""The counts say how many orders met which outcome, and never more than the ledger knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab_utils.ledger.counts import count
from lab_utils.ledger.events import Event


def client(kind: str, value: str) -> Event:
    return Event(run="r", source="client", actor="p", kind=kind, topic="t", value=value)


def log(kind: str, **columns: Any) -> Event:
    return Event(run="r", source="log", actor="reader", kind=kind, topic="t", **columns)


DRAINED = log("end", partition=0, offset=2, at_ns=2**62, detail={"drained": "true"})


def test_each_outcome_is_counted() -> None:
    """Two offsets are a duplicate; a report that does not know makes no loss, and no failure."""
    rows = [client("sent", "1"), client("acked", "1"), client("unknown", "2"),
            *(client("failed", value) for value in "34"), log("record", value="1", offset=0),
            log("record", value="1", offset=1), DRAINED]  # fmt: skip

    assert "1 sent, 1 acked, 2 in the log, 2 failed, 1 unknown, 1 duplicated" == str(count(rows))
    assert 0 == count(rows).lost


def test_two_topics_are_counted_apart() -> None:
    """One value in each of two topics is no duplicate, and each topic says what it holds."""
    rows = [
        log("record", value="1", offset=0), DRAINED,
        Event(run="r", source="log", actor="reader", kind="record", topic="r-u", value="1"),
        Event(run="r", source="log", actor="reader", kind="end", topic="r-u", at_ns=2**62 + 1),
    ]  # fmt: skip

    assert "0 sent, 0 acked, 1 in t, 1 in u" == str(count(rows))


def test_work_is_counted_by_order() -> None:
    """What was done twice is repeated; what was never done is skipped if the bookmark is after it.

    That is what lab 05 calls skipped: what comes after the bookmark will be read yet.
    """
    records = [log("record", value=value, offset=int(value)) for value in "0123"]
    work = [client(kind, value) for value in "001" for kind in ("delivered", "processed")]
    bookmark = log("committed", offset=3, detail={"when": "end"})

    assert "4 in the log, 3 delivered, 3 processed, 1 repeated, 1 skipped, committed 3" == str(
        count([*records, *work, bookmark])
    )


def test_two_groups_that_each_did_the_work_repeat_nothing() -> None:
    """Each group has all orders; one of them that does an order twice repeats it."""
    groups = [
        Event(run="r", source="client", actor=name, kind="created", detail={"group.id": name})
        for name in "gh"
    ]
    work = [client("processed", "0"), client("processed", "0")]
    given = [replace(client("delivered", "0"), actor=name) for name in "gh"]

    assert 0 == count([*groups, *given, *work]).repeated
    assert 1 == count([*groups, given[0], *work]).repeated
    assert 1 == count([*groups, *given, *work, *work]).repeated


def test_equal_orders_of_two_topics_are_two_orders() -> None:
    """One of each was done; a topic of which nobody did any promises no work."""
    other = [replace(row, topic="u") for row in (client("processed", "0"), client("sent", "1"))]
    record = replace(log("record", value="1", offset=0, partition=0), topic="v")
    bookmark = replace(log("committed", offset=1, partition=0, detail={"when": "end"}), topic="v")

    assert 0 == count([client("processed", "0"), *other]).repeated
    assert 0 == count([client("processed", "0"), record, bookmark]).skipped
    assert 1 == count([replace(client("processed", "0"), topic="v"), record, bookmark]).skipped


def test_aborted_order_is_not_skipped() -> None:
    """A bookmark is after what no read_committed reader is given, and nobody could do its work."""
    rows = [log("record", value=value, offset=int(value)) for value in "01"]
    rows += [log("visible", value="0", offset=0), client("processed", "0")]
    rows += [log("committed", offset=3, detail={"when": "end"})]

    assert 1 == count(rows).skipped
    assert 0 == count([*rows, log("marker", offset=2)]).skipped
