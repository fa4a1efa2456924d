"""A streaming query on recorded records: the same batches each time, and what each left as state.

    records of the ledger ── a file for each batch ──▶ Spark's file source ──▶ query ──▶ rows

The query is any function from a streaming DataFrame to another one. It runs on the Spark of the
notebooks, in append mode.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import orjson

from lab_utils.audit.session import spark
from lab_utils.errors import BadArgument, WaitTimeout, within
from lab_utils.ledger.events import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_S: Final = 120
SIZE_MAX: Final = 1_000_000
SCHEMA: Final = "value STRING, timestamp TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: the records it read, the rows that came out, and what it left as state.

    records    value and time of each
    watermark  the one that it began with, as text; empty if the query has none
    state      how many rows the query remembers after it
    """

    records: tuple[tuple[str, str], ...]
    watermark: str
    rows: tuple[dict[str, Any], ...]
    state: int


def streamed(
    query: Callable[[DataFrame], DataFrame], rows: Sequence[Event], size: int
) -> list[Batch]:
    """Let a query read the orders of a run as a stream, `size` records in a batch.

    After the last record Spark may plan one more batch, without any, to clean up the state. Raises
    BadArgument for a query that is none, and what Spark raises.
    """
    within("size", size, 1, SIZE_MAX)
    records = [
        (row.value or "", _time(int(row.detail["timestamp_ms"])))
        for row in rows
        if (row.source, row.kind, row.topic) == ("log", "record", f"{row.run}-orders")
    ]
    given = [tuple(records[at : at + size]) for at in range(0, len(records), size)]
    with TemporaryDirectory(prefix="lab-stream-", ignore_cleanup_errors=True) as folder:
        _write(Path(folder) / "in", given)
        progress, out = _performed(query, Path(folder))
    return list(_batches(given, progress, out))


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _write(folder: Path, given: Sequence[tuple[tuple[str, str], ...]]) -> None:
    """A file for each batch; Spark reads the oldest first."""
    folder.mkdir()
    for number, records in enumerate(given):
        path = folder / f"{number:06}.json"
        lines = (orjson.dumps({"value": value, "timestamp": at}) for value, at in records)
        path.write_bytes(b"\n".join(lines))
        os.utime(path, (number, number))


def _performed(
    query: Callable[[DataFrame], DataFrame], folder: Path
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Run the query to the end of its files: the progress of each batch, and the rows."""
    files = spark().readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    found = query(files.json(str(folder / "in")))
    if not getattr(found, "isStreaming", False):
        raise BadArgument(
            f"the query returned {found!r}, and that is no streaming DataFrame. Return what the "
            "methods of the one that it is given return, as in orders.dropDuplicates()."
        )
    name = f"streamed_{uuid4().hex}"
    writer = found.writeStream.format("memory").queryName(name).outputMode("append")
    running = writer.option("checkpointLocation", str(folder / "state"))
    started = running.trigger(availableNow=True).start()
    try:
        if not started.awaitTermination(QUERY_S):
            raise WaitTimeout(f"waited {QUERY_S} s for the streaming query to end; it was stopped.")
        rows = [row.asDict() for row in spark().table(name).collect()]
        return list(started.recentProgress), rows
    finally:
        started.stop()
        spark().catalog.dropTempView(name)


def _batches(
    given: Sequence[tuple[tuple[str, str], ...]],
    progress: Sequence[Any],
    out: Sequence[dict[str, Any]],
) -> Iterator[Batch]:
    """Put together what was read, what came out, and what was kept, batch by batch."""
    read = iter(given)  # a file a batch; the last batch may have none
    shown = 0
    for each in progress:
        rows = max(0, int(each["sink"]["numOutputRows"]))
        yield Batch(
            next(read, ()),
            str(each["eventTime"].get("watermark", "")),
            tuple(out[shown : shown + rows]),
            sum(int(it["numRowsTotal"]) for it in each["stateOperators"]),
        )
        shown += rows
