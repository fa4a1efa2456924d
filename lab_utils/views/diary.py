"""The coordinator's diary as a table: each entry of `__transaction_state`, in order.

A function of rows; codec/transaction_log.py read them from the broker's own log.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from lab_utils.ledger.events import Event
from lab_utils.views.table import Table
from lab_utils.views.wording import counted

COLUMNS = (
    "partition", "offset", "transactional.id", "state", "producer id", "epoch", "writes to"
)  # fmt: skip


def diary(rows: Iterable[Event]) -> Table:
    """What the transaction coordinator wrote down of this run's transactions."""
    entries = [row for row in rows if (row.source, row.kind) == ("log", "transaction")]
    entries.sort(key=lambda row: (row.partition or 0, row.offset or 0))
    about = f"{counted(len(entries), 'entry', 'entries')} of __transaction_state."
    return Table(COLUMNS, [_cells(row) for row in entries], about)


def _cells(row: Event) -> tuple[object, ...]:
    places: list[str] = orjson.loads(row.detail["partitions"])
    return (
        row.partition,
        row.offset,
        row.detail["transactional_id"],
        row.detail["state"],
        row.producer_id,
        row.producer_epoch,
        tuple(place.removeprefix(f"{row.run}-") for place in places),
    )
