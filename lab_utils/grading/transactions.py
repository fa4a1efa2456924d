"""Rules on transactions: what a read_committed reader was given, and who was fenced.

They read what the honest reader and the proxy wrote down, never a client's word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from lab_utils.grading.cases import Evidence
from lab_utils.ledger.events import Event

FENCED: Final = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")


def visible(evidence: Evidence, topic: str = "-orders", partition: int | None = None) -> list[str]:
    """The values that a read_committed reader was given, in the order of the log."""
    rows = [
        row for row in evidence.rows
        if (row.source, row.kind) == ("log", "visible")
        and (row.topic or "").endswith(topic) and partition in (None, row.partition)
    ]  # fmt: skip
    rows.sort(key=lambda row: (row.partition or 0, row.offset or 0))
    return [row.value or "" for row in rows]


def visible_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """What a read_committed reader was given, as rows."""
    return [
        {"topic": row.topic, "partition": row.partition, "offset": row.offset, "value": row.value}
        for row in evidence.rows
        if (row.source, row.kind) == ("log", "visible")
    ]


def both_levels(evidence: Evidence) -> dict[str, str]:
    """What each isolation level was given."""
    return {
        "read_uncommitted": " ".join(evidence.stored),
        "read_committed": " ".join(visible(evidence)),
    }


def no_transaction(_: Any, evidence: Evidence) -> bool:
    """Was no transaction ever ended?"""
    return not evidence.requests("EndTxn")


def aborts(evidence: Evidence) -> list[Event]:
    """The requests that end a transaction with an abort."""
    return [row for row in evidence.requests("EndTxn") if row.detail["committed"] == "False"]


def pairs_that_can_be_read(_: Any, evidence: Sequence[Evidence]) -> str:
    """How many orders and invoices a read_committed reader is given, run by run."""
    runs = [f"{each.trial.name}: {len(visible(each))}" for each in evidence]
    return f"orders that can be read, each once and with its invoice: {', '.join(runs)}."


def answers(evidence: Evidence) -> list[Event]:
    """The responses that crossed the wire, oldest first."""
    rows = [row for row in evidence.rows if (row.source, row.kind) == ("wire", "response")]
    return sorted(rows, key=lambda row: row.at_ns)


def fenced(evidence: Evidence) -> list[dict[str, Any]]:
    """Each fenced client, the request that told it, and who had taken its name."""
    told: dict[str, Event] = {}
    for row in answers(evidence):
        if row.error in FENCED:
            told.setdefault(row.actor, row)
    return [
        {"fenced": actor, "api": row.api, "by": _last_taker(evidence, row)}
        for actor, row in told.items()
    ]


def strangers(evidence: Evidence, returned: dict[str, Any]) -> set[str]:
    """The clients that never had the producer id of a returned row's fenced client."""
    ids = {row.producer_id for row in _taken(evidence) if row.actor == returned.get("fenced")}
    return {row.actor for row in _taken(evidence) if row.producer_id not in ids}


def each_order_has_its_invoice(_: Any, evidence: Evidence) -> str | None:
    """Is each order visible exactly once in both topics, or in neither?"""
    orders, invoices = Counter(visible(evidence)), Counter(visible(evidence, "-invoices"))
    for order in evidence.orders:
        if orders[order] != invoices[order]:
            return (
                f"order {order} can be read {orders[order]} times, "
                f"and its invoice {invoices[order]} times."
            )
        if orders[order] > 1:
            return f"order {order} and its invoice can be read {orders[order]} times."
    return None


def all_that_should_be_there(_: Any, evidence: Evidence) -> str | None:
    """Is each order visible; if the producer was fenced, each one before that?"""
    wanted = evidence.orders[: _committed_before_the_end(evidence)]
    missing = [order for order in wanted if order not in visible(evidence)]
    if not missing:
        return None
    return f"{len(missing)} of {len(wanted)} orders cannot be read: {', '.join(missing[:3])}."


def nothing_after_the_end(_: Any, evidence: Evidence) -> str | None:
    """Did the program stop when its producer had been fenced?"""
    end = _end(evidence)
    if end is None:
        return None
    later = [
        row for row in evidence.rows
        if (row.source, row.kind) == ("wire", "request") and row.at_ns > end.at_ns
        and row.api in ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")
    ]  # fmt: skip
    if not later:
        return None
    return f"after it was fenced, {later[0].actor} went on: {later[0].api} crossed the wire."


def _taken(evidence: Evidence) -> list[Event]:
    """The answers that gave a client its producer id."""
    return [row for row in answers(evidence) if row.api == "InitProducerId" and not row.error]


def _last_taker(evidence: Evidence, refused: Event) -> str | None:
    mine = {row.producer_id for row in _taken(evidence) if row.actor == refused.actor}
    takers = [
        row.actor
        for row in _taken(evidence)
        if row.producer_id in mine and row.at_ns < refused.at_ns and row.actor != refused.actor
    ]
    return takers[-1] if takers else None


def _end(evidence: Evidence) -> Event | None:
    """The answer that told the producer that it was fenced."""
    return next((row for row in answers(evidence) if row.error in FENCED), None)


def _committed_before_the_end(evidence: Evidence) -> int:
    end = _end(evidence)
    if end is None:
        return len(evidence.orders)
    return int(evidence.trial.faults[0].nth) - 1
