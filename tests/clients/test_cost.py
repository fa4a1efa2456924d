"""The cost of transactions: every mode is measured, and what is measured is answered for."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils.clients import cost
from lab_utils.clients.cost import costs
from lab_utils.clients.reader import HonestReader

pytestmark = pytest.mark.kafka


def test_each_mode_is_measured_and_stored(
    stage: Any, reader: HonestReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key, idempotent, and two sizes of transaction; every record is in the log."""
    monkeypatch.setattr(cost, "PLAIN_RECORDS", 20)
    monkeypatch.setattr(cost, "TRANSACTIONS", {10: 2, 1: 3})
    reader.create_topic("cost", 1)
    measured = list(costs(stage.direct, "cost", repeats=1))
    stored = [row for row in reader.read("r", "cost", 1) if row.kind == "record"]

    assert {"not idempotent": 20, "idempotent": 20, "10 in a transaction": 20,
            "1 in a transaction": 3} == {it["mode"]: it["records"] for it in measured}  # fmt: skip
    assert 4 == len(measured)
    assert 2 * (21 + 21 + 20 + 3) == len(stored)
    assert [True, True, False, False] == [it["ms_a_transaction"] is None for it in measured]
