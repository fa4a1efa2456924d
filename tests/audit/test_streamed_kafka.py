"""Streaming queries on recorded records, and what a driver of Spark left on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils.audit.streamed import Batch, streamed
from lab_utils.errors import BadArgument
from lab_utils.grading.cases import exercise
from lab_utils.ledger.events import Event
from tests.grading import recorded

pytestmark = pytest.mark.kafka

# An order comes again after 4 minutes, another after 38; one is 9 minutes late, one 41.
TIMES = (("a", 0), ("b", 2), ("b", 6), ("c", 14), ("d", 5), ("e", 40), ("f", 41), ("g", 42),
         ("b", 44), ("h", 45), ("i", 3), ("j", 46))  # fmt: skip


NOON = 12 * 60


def orders() -> list[Event]:
    """The records of a run, minute by minute."""
    return [
        Event(run="r", source="log", actor="reader", kind="record", topic="r-orders", partition=0,
              offset=offset, value=value, detail={"timestamp_ms": str((NOON + minute) * 60_000)})
        for offset, (value, minute) in enumerate(TIMES)
    ]  # fmt: skip


def out(batches: list[Batch]) -> str:
    return "".join(str(row["value"]) for batch in batches for row in batch.rows)


def test_global_deduplication_remembers_every_order() -> None:
    """Every copy is found, and the state ends with as many rows as there were orders."""
    batches = streamed(lambda given: given.dropDuplicates(["value"]), orders(), 2)

    assert ("abcdefghij", 10) == (out(batches), batches[-1].state)


def test_within_the_watermark() -> None:
    """Late in time comes out, too late does not; what is forgotten comes out again."""

    def query(given: Any) -> Any:
        late = given.withWatermark("timestamp", "10 minutes")
        return late.dropDuplicatesWithinWatermark(["value"])

    batches = streamed(query, orders(), 2)

    assert "abcdefgbhj" == out(batches)
    assert max(batch.state for batch in batches) < 8
    assert [("e", "1970-01-01T12:40:00+00:00")] == list(batches[2].records[1:])


def test_no_stream_is_refused() -> None:
    """A query that returns no streaming DataFrame is told so."""
    with pytest.raises(BadArgument, match="no streaming DataFrame"):
        streamed(lambda _: None, orders(), 2)  # type: ignore[arg-type, return-value]


def test_spark_commits_no_offset() -> None:
    """A driver fetched, and asked for no OffsetCommit; its group holds no offset."""
    found = exercise("08.3")
    (trial,) = found.public
    evidence = recorded.evidence(found, trial, None)

    assert evidence.requests("Fetch")
    assert [] == evidence.requests("OffsetCommit") + evidence.requests("TxnOffsetCommit")
    assert [] == [row for row in evidence.rows if row.kind == "committed"]
