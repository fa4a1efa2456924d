"""How the audit grows: all findings of a ledger of one, three and ten million events.

Half of the orders are sent, half of the events are the log; one order in a thousand is acked and
not stored, one in a thousand is stored twice. The events are made by Spark and written as Parquet,
so that the figure is the queries' and not the JSON reader's. `ratio` is seconds per event beside
the smallest ledger's: 1 is linear. To reach: at most 1.3.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import Figure
from lab_utils.audit import spark_server
from lab_utils.audit.finding import RULES, found_by
from lab_utils.audit.session import spark
from lab_utils.audit.survey import survey
from lab_utils.ledger.events import Event, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS = (1_000_000, 3_000_000, 10_000_000)
EVENTS_AN_ORDER = 3

# A large ledger is worth compiling for, and its groups do not fit two partitions.
SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.shuffle.partitions": "16",
}


def audit_scaling(events: tuple[int, ...] = EVENTS) -> Iterator[Figure]:
    """Seconds of all findings for each size beside linear growth, and the JVM's memory."""
    folder = Path(tempfile.mkdtemp(prefix="audit-scaling-"))
    for name, value in SETTINGS.items():
        spark().conf.set(name, value)
    found_in(history(1000)).count()  # the first query pays for the start of everything
    smallest_s = 0.0
    for number in sorted(events):
        made = folder / str(number)
        history(number // EVENTS_AN_ORDER).write.parquet(str(made))
        begun = time.perf_counter()
        found = found_in(spark().read.parquet(str(made))).groupBy("finding").count().collect()
        seconds = time.perf_counter() - begun
        smallest_s = smallest_s or seconds / number
        detail = {"seconds": round(seconds, 1), "peak_mb": peak_mb()} | {
            row["finding"]: row["count"] for row in found
        }
        ratio = seconds / number / smallest_s
        yield Figure(f"audit of {number} events beside linear", ratio, "at most 1.3", detail)
        shutil.rmtree(made)
    shutil.rmtree(folder)


def found_in(events: DataFrame) -> DataFrame:
    """All findings that this history can have."""
    return found_by(RULES.values(), events, survey(events))


def history(orders: int) -> DataFrame:
    """Sent, acked and stored, on four partitions; a few lost, a few duplicated, all drained."""
    numbers = spark().range(orders).selectExpr("id", "id % 4 AS partition", "id div 4 AS offset")
    # The second copy of a duplicate takes the place of an order that was lost.
    lost, copied = "id % 1000 = 7", "id % 1000 = 503"
    sent = numbers.selectExpr("id", "'client' AS source", "'sent' AS kind", "partition",
                              "NULL AS offset", "3 * id AS at_ns")  # fmt: skip
    acked = numbers.selectExpr("id", "'client' AS source", "'acked' AS kind", "partition",
                               "offset", "3 * id + 1 AS at_ns")  # fmt: skip
    log = numbers.where(f"NOT ({lost})").selectExpr(
        "id", "'log' AS source", "'record' AS kind", "partition", "offset", "3 * id + 2 AS at_ns"
    )
    twice = numbers.where(copied).selectExpr(
        "id", "'log' AS source", "'record' AS kind", "partition",
        f"{orders} + offset AS offset", "3 * id + 2 AS at_ns",
    )  # fmt: skip
    orders_seen = sent.unionByName(acked).unionByName(log).unionByName(twice).selectExpr(
        "*", "CAST(id AS STRING) AS value", "map('', '') AS detail"
    )  # fmt: skip
    ends = spark().range(4).selectExpr(
        "id", "'log' AS source", "'end' AS kind", "id AS partition", f"2L * {orders} AS offset",
        f"4L * {orders} AS at_ns", "CAST(NULL AS STRING) AS value",
        "map('drained', 'true') AS detail",
    )  # fmt: skip
    actor = "if(source = 'client', 'producer-1', 'reader')"
    given = {"run": "'00-a'", "topic": "'orders'", "actor": actor}
    every = orders_seen.unionByName(ends)
    # The last column is a map, with a comma of its own.
    columns = spark_schema().split(", ", len(fields(Event)) - 1)
    return every.selectExpr(
        *(
            f"CAST({given.get(name, name if name in every.columns else 'NULL')} AS {kind}) {name}"
            for name, kind in (column.split(" ", 1) for column in columns)
        )
    )


def peak_mb() -> int | None:
    """The peak resident memory of the shared JVM; None where the system does not say."""
    running = spark_server.running()
    if running is None:
        return None
    status = Path(f"/proc/{running.jvm}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")]
    return peaks[0] if peaks else None
