"""Streaming queries on recorded records, and what a driver of Spark left on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lab_utils.audit.queries import Batch, streamed
from lab_utils.errors import BadArgument
from lab_utils.grading.cases import exercise
from lab_utils.ledger.events import Event
from tests.grading import recorded

pytestmark = pytest.mark.kafka

# An order comes again after 4 minutes, another after 38; one is 9 minutes late, one 41.
TIMES = (("a", 0), ("b", 2), ("b", 6), ("c", 14), ("d", 5), ("e", 40), ("f", 41), ("g", 42),
         ("b", 44), ("h", 45), ("i", 3), ("j", 46))  # fmt: skip


NOON = 12 * 60


def orders(times: Sequence[tuple[str, int]] = TIMES) -> list[Event]:
    """The records of a run, minute by minute."""
    return [
        Event(run="r", source="log", actor="reader", kind="record", topic="r-orders", partition=0,
              offset=offset, value=value, detail={"timestamp_ms": str((NOON + minute) * 60_000)})
        for offset, (value, minute) in enumerate(times)
    ]  # fmt: skip


def out(batches: list[Batch]) -> str:
    return "".join(str(row["value"]) for batch in batches for row in batch.rows)


def test_global_deduplication_remembers_every_order() -> None:
    """Every copy is found, and the state ends with as many rows as there were orders."""
    batches = streamed(lambda given: given.dropDuplicates(["value"]), orders(), 2)

    assert ("abcdefghij", 10) == (out(batches), batches[-1].state)


def within_ten_minutes(given: Any) -> Any:
    """Each order once, as long as it is remembered."""
    late = given.withWatermark("timestamp", "10 minutes")
    return late.dropDuplicatesWithinWatermark(["value"])


@pytest.mark.parametrize(("minute", "comes_out"), [(34, "abcdefgh"), (32, "abcdefh")])
def test_too_late_is_older_than_the_watermark_of_the_batch_before(
    minute: int, comes_out: str
) -> None:
    """The batch of `g` begins with the watermark 12:35, and drops by that of the one before."""
    names = "abcdefgh"
    minutes = (40, 41, 42, 43, 44, 45, minute, 46)
    batches = streamed(within_ten_minutes, orders(tuple(zip(names, minutes, strict=True))), 2)

    assert ["12:33", "12:35"] == [batch.watermark[11:16] for batch in batches[2:4]]
    assert comes_out == out(batches)


def test_within_the_watermark() -> None:
    """Late in time comes out, too late does not; what is forgotten comes out again."""
    batches = streamed(within_ten_minutes, orders(), 2)

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
