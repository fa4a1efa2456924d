"""How the audit grows: what was sown into ledgers of four kinds is found again, at each size.

Spark makes the ledgers and writes them as Parquet, so that a figure is the audit's: the survey, the
sieve and all findings, with the Spark that `./lab audit` starts. `ratio` is processor time an event
beside that of the smallest ledger of the kind: 1 is linear. Seconds depend on who else is there;
processor time does less. A finding that is missing, or too many, is an error and no figure.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import psutil

from benchmarks import Figure
from benchmarks.ledgers import LEDGERS
from lab_utils.audit import spark_server
from lab_utils.audit.finding import RULES, found_by
from lab_utils.audit.session import LARGE, own_folder, own_spark
from lab_utils.audit.sieve import SIEVE
from lab_utils.audit.survey import survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZES: Final = (1_000_000, 3_000_000)
# The first query pays for the start of everything.
WARM: Final = 50_000
# Sizes for one run of the benchmark: LAB_BENCH_EVENTS=1000000,10000000 ./lab bench audit
ENVIRONMENT: Final = "LAB_BENCH_EVENTS"


class Judged(NamedTuple):
    """What one audit took: events, seconds, and those of the processors."""

    events: int
    seconds: float
    processor_s: float


def audit() -> Iterator[Figure]:
    """Processor time an event of each kind and size of ledger, beside that of the smallest."""
    given = os.environ.get(ENVIRONMENT)
    sizes = tuple(map(int, given.split(","))) if given else SIZES
    folder = Path(tempfile.mkdtemp(prefix="audit-"))
    try:
        with own_spark(LARGE) as spark:
            for kind in LEDGERS:
                yield from _growth(spark, folder, kind, sizes)
    finally:
        shutil.rmtree(folder)


def _growth(spark: SparkSession, folder: Path, kind: str, sizes: Sequence[int]) -> Iterator[Figure]:
    _judged(spark, folder, kind, WARM)
    smallest = 0.0
    for size in sorted(sizes):
        judged = _judged(spark, folder, kind, size)
        each = judged.processor_s / judged.events
        smallest = smallest or each
        detail = {
            "us_an_event": round(each * 1e6, 1),
            "seconds": round(judged.seconds, 1),
            "peak_mb": peak_mb(own_folder()),
        }
        yield Figure(f"{kind}: {judged.events} events", each / smallest, "at most 1.3", detail)


def _judged(spark: SparkSession, folder: Path, kind: str, size: int) -> Judged:
    ledger, sown = LEDGERS[kind](spark, size)
    place = str(folder / "ledger")
    ledger.write.mode("overwrite").parquet(place)
    count = spark.read.parquet(place).count()
    begun, used = time.perf_counter(), processor_s(own_folder())
    events = spark.read.parquet(place)
    rows = findings(events).groupBy("finding").count().collect()
    judged = Judged(count, time.perf_counter() - begun, processor_s(own_folder()) - used)
    found = {row["finding"]: row["count"] for row in rows}
    if found != sown:
        raise AssertionError(f"{kind} of {count} events: found {found}, sown {sown}")
    return judged


def findings(events: DataFrame) -> DataFrame:
    """All findings of a large ledger."""
    return found_by(RULES.values(), events, survey(events), SIEVE)


def processor_s(folder: Path) -> float:
    """The processor time that a folder's Spark has taken so far."""
    times = psutil.Process(_jvm(folder)).cpu_times()
    return float(times.user + times.system)


def peak_mb(folder: Path) -> int | None:
    """The peak resident memory of a folder's JVM; None where the system does not say."""
    status = Path(f"/proc/{_jvm(folder)}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")]
    return peaks[0] if peaks else None


def _jvm(folder: Path) -> int:
    running = spark_server.running(folder)
    assert running is not None
    return running.jvm
