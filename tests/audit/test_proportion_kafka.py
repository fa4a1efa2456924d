"""Generated ledgers: each anomaly that was sown comes back, and nothing else; in linear time."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.audit import findings
from benchmarks.ledgers import LEDGERS
from lab_utils import audit
from lab_utils.audit.session import spark

EVENTS = 25_000
# What these sow, random histories hold too: in the default tier they would cost a minute each.
LONG = ("consuming", "transactional")


@pytest.mark.kafka
@pytest.mark.parametrize(
    "kind", [pytest.param(it, marks=[pytest.mark.long] * (it in LONG)) for it in LEDGERS]
)
def test_what_was_sown_is_found(kind: str, tmp_path: Path) -> None:
    """The number of each finding is exactly what the ledger was made with."""
    ledger, sown = LEDGERS[kind](spark(), EVENTS)
    ledger.write.parquet(str(tmp_path / "ledger"))
    events = spark().read.parquet(str(tmp_path / "ledger"))

    assert sown == findings(events)


def test_no_frame_ends_at_the_last_row() -> None:
    """Spark goes through the rest of the partition for each row of such a frame: quadratic."""
    modules = Path(audit.__file__).parent.rglob("*.py")

    assert [] == [it.name for it in modules if "UNBOUNDED FOLLOWING" in it.read_text("utf-8")]
