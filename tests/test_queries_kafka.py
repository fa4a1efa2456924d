"""The window queries of the further notebooks, on runs of a real broker: they answer rightly.

Each is held against what plain Python reads from the rows of the same run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab_utils.audit.session import read_events
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import crash_client
from tests.notebooks import further
from tests.performed import Perform

pytestmark = pytest.mark.kafka


def answered(tmp_path: Path, rows: list[Event], notebook: str, query: str) -> list[dict[str, Any]]:
    """What a query of a further notebook answers about this run."""
    found = further(notebook)[query](read_events(tmp_path / rows[0].run))
    return [row.asDict() for row in found.collect()]


def test_copies_of_an_order_and_their_distance(perform: Perform, tmp_path: Path) -> None:
    """Three orders are sent again, each three records after its first copy."""
    crash = crash_client("after_ack", nth=3)
    rows = perform(further("03_how_far_the_sequence_holds")["idempotent"], crash, orders=5)
    found = answered(tmp_path, rows, "03_how_far_the_sequence_holds", "copies")
    log = [row.value for row in rows if (row.source, row.kind) == ("log", "record")]
    again = [(at, value) for at, value in enumerate(log) if value in log[:at]]

    assert [(3, "0"), (4, "1"), (5, "2")] == again
    assert again == [(row["offset"], row["value"]) for row in found]
    assert {(2, 3)} == {(row["copy"], row["records_since"]) for row in found}


def test_copies_that_count(perform: Perform, tmp_path: Path) -> None:
    """Of an invoice with two copies the second is given to read_committed readers."""
    rows = perform(further("06_six_crash_points")["bills_in_a_transaction"],
                   crash_client("after_send_offsets", nth=2), orders=8, filled=True,
                   topics=["invoices"], until_stable=True)  # fmt: skip
    found = answered(tmp_path, rows, "06_six_crash_points", "copies_that_count")
    twice = [row["value"] for row in found if row["copies"] == 2]

    assert {"2": 2, "3": 2} == {value: twice.count(value) for value in twice}
    assert all(row["given"] == (row["copy"] == row["copies"]) for row in found)
    assert len(found) == 10
