"""How the audit grows, and what a cluster and another engine make of it.

What was sown into ledgers of four kinds is found again, at each size.

Spark makes the ledgers and writes them as Parquet, so that a figure is the audit's: the survey, the
prefilter and all findings, with the Spark that `./lab audit` starts. `ratio` is processor time an
event beside that of the smallest ledger of the kind: 1 is linear. Seconds depend on who else is
there; processor time does less. A finding that is missing, or too many, is an error and no figure.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

import psutil

from benchmarks import Figure
from benchmarks.ledgers import LEDGERS
from benchmarks.spark_cluster import SparkCluster
from lab_utils.audit import spark_server
from lab_utils.audit.command import audit_with
from lab_utils.audit.finding import RULES, found_by
from lab_utils.audit.judged import judged_run, rehearse
from lab_utils.audit.prefilter import prefiltering
from lab_utils.audit.session import LARGE, own_folder, own_spark
from lab_utils.audit.survey import survey
from lab_utils.errors import one_of
from lab_utils.ledger.store import write_ledger
from lab_utils.site.recordings import own_state, recorded
from lab_utils.views.explorer.choices import OFFERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZES: Final = (1_000_000, 3_000_000)
# The first query pays for the start of everything.
WARM: Final = 50_000
# Sizes and kinds of ledgers for one run of the benchmark:
# LAB_BENCH_EVENTS=1000000,10000000 LAB_BENCH_LEDGERS=transactional ./lab bench audit
SIZES_ASKED: Final = "LAB_BENCH_EVENTS"
LEDGERS_ASKED: Final = "LAB_BENCH_LEDGERS"
# Acked more often than stored: the finding lost-write, for a log that was read to its end.
MISSING: Final = """
SELECT count(*) FROM (
  SELECT run, topic, key, value FROM events WHERE kind IN ('acked', 'record')
  GROUP BY run, topic, key, value
  HAVING sum(CASE WHEN kind = 'acked' THEN 1 ELSE -1 END) > 0) lost
"""


class Judged(NamedTuple):
    """What one audit took: events, seconds, and those of the processors."""

    events: int
    seconds: float
    processor_s: float


def run_findings(times: int = 3) -> Iterator[Figure]:
    """Seconds of findings() of a run of each lab, as its explorer begins: the first, and later."""
    with own_state(), TemporaryDirectory(prefix="audit-") as place:
        folders = [Path(place, lab) for lab in OFFERS]
        for folder in folders:
            folder.mkdir()
            write_ledger(folder, next(iter(recorded(folder.name).values())).rows)
        rehearse()
        took = [[_took_s(folder) for _ in range(1 + times)] for folder in reversed(folders)]
    (first, *_), *others = took
    known = [it for _, *its in took for it in its]
    yield Figure("seconds of the first findings()", first, "at most 4")
    yield Figure(
        "seconds of findings(), a plan that is new",
        statistics.median(it[0] for it in others),
        "stated",
    )
    yield Figure("seconds of findings(), a plan that is known", statistics.median(known),
                 "at most 0.5", {"slowest": round(max(known), 2)})  # fmt: skip


def _took_s(folder: Path) -> float:
    begun = time.perf_counter()
    judged_run(folder)
    return time.perf_counter() - begun


def audit_growth() -> Iterator[Figure]:
    """Processor time an event of each kind and size of ledger, beside that of the smallest."""
    with TemporaryDirectory(prefix="audit-") as folder, own_spark(LARGE, "bench") as spark:
        for kind in _kinds():
            yield from _growth(spark, Path(folder), kind, _sizes())


def audit_of_jsonl() -> Iterator[Figure]:
    """Processor time an event of `./lab audit`, once Spark runs: of JSONL, and of its Parquet."""
    kind, used = "consuming", []
    with TemporaryDirectory(prefix="audit-") as place, own_spark(LARGE, "bench") as spark:
        _judged(spark, Path(place), kind, WARM)
        ledger, sown = LEDGERS[kind](spark, _sizes()[0])
        ledger.write.json(f"{place}/written")
        for number, file in enumerate(sorted(Path(place, "written").glob("*.json"))):
            file.rename(file.with_name(f"{number}.jsonl"))
        for read, made in ("written", "of_jsonl"), ("of_jsonl/ledger", "of_parquet"):
            (out := Path(place, made)).mkdir()
            before = processor_s(own_folder())
            report = audit_with(spark, [f"{place}/{read}"], None, out)
            used.append((processor_s(own_folder()) - before) / report.events * 1e6)
            found: Counter[str] = Counter()
            for group in report.groups:
                found[group.finding] += group.count
            _refuse_others(f"{kind} of {report.events} events", found, sown)
    jsonl, parquet = used
    detail = {"of its Parquet": round(parquet, 1)}
    yield Figure("us an event of an audit of JSONL", jsonl, "at most 40", detail)


def cluster() -> Iterator[Figure]:
    """Seconds of an audit on a standalone cluster of two workers, beside those of this machine."""
    kind, size = "replicated", _sizes()[0]
    with TemporaryDirectory(prefix="audit-") as place:
        folder = Path(place)
        with own_spark(LARGE, "bench") as spark:
            _judged(spark, folder, kind, WARM)
            here = _judged(spark, folder, kind, size)
        with closing(SparkCluster(folder)) as started:
            given = {"SPARK_MASTER": started.address, "SPARK_LOCAL_IP": "127.0.0.1"}
            with patch.dict(os.environ, given), own_spark(LARGE, "bench") as spark:
                _judged(spark, folder, kind, WARM)
                there = _judged(spark, folder, kind, size)
    detail = {"here_s": round(here.seconds, 1), "there_s": round(there.seconds, 1)}
    yield Figure(f"cluster: {here.events} events", there.seconds / here.seconds, "stated", detail)


def duckdb() -> Iterator[Figure]:
    """Seconds of one finding, as one query, in DuckDB, beside those of Spark.

    DuckDB is no part of the lab: pip install duckdb.
    """
    name = "one finding in DuckDB, beside Spark"
    if find_spec("duckdb") is None:
        yield Figure(name, math.nan, "stated", "not installed: pip install duckdb")
        return
    other = import_module("duckdb")
    with TemporaryDirectory(prefix="audit-") as folder, own_spark(LARGE, "bench") as spark:
        ledger, sown = LEDGERS["producing"](spark, _sizes()[0])
        ledger.write.parquet(f"{folder}/ledger")
        spark.read.parquet(f"{folder}/ledger").createOrReplaceTempView("events")
        parquet = f"read_parquet('{folder}/ledger/*.parquet')"
        ours = _asked(lambda: spark.sql(MISSING).collect()[0][0], sown)
        theirs = _asked(
            lambda: other.sql(MISSING.replace("events", parquet)).fetchall()[0][0], sown
        )
    detail = {"spark_s": round(ours, 2), "duckdb_s": round(theirs, 2)}
    yield Figure(name, theirs / ours, "stated", detail)


def _asked(ask: Callable[[], int], sown: Mapping[str, int]) -> float:
    """Seconds of the second of two equal questions; the answer is what was sown."""
    for _ in range(2):
        begun = time.perf_counter()
        found = ask()
        seconds = time.perf_counter() - begun
    if found != sown["lost-write"]:
        raise AssertionError(f"found {found} lost orders, sown {sown['lost-write']}")
    return seconds


def _sizes() -> tuple[int, ...]:
    given = os.environ.get(SIZES_ASKED)
    return tuple(sorted(map(int, given.split(",")))) if given else SIZES


def _kinds() -> list[str]:
    given = os.environ.get(LEDGERS_ASKED)
    return [one_of("ledger", it, LEDGERS) for it in given.split(",")] if given else list(LEDGERS)


def _growth(spark: SparkSession, folder: Path, kind: str, sizes: Sequence[int]) -> Iterator[Figure]:
    _judged(spark, folder, kind, WARM)
    smallest = 0.0
    for size in sizes:
        judged = _judged(spark, folder, kind, size)
        each = judged.processor_s / judged.events
        smallest = smallest or each
        detail = {
            "us_an_event": round(each * 1e6, 1),
            "seconds": round(judged.seconds, 1),
            "peak_mb": peak_mb(_jvm(own_folder())),
        }
        yield Figure(f"{kind}: {judged.events} events", each / smallest, "at most 1.3", detail)


def _judged(spark: SparkSession, folder: Path, kind: str, size: int) -> Judged:
    ledger, sown = LEDGERS[kind](spark, size)
    place = str(folder / "ledger")
    ledger.write.mode("overwrite").parquet(place)
    count = spark.read.parquet(place).count()
    begun, used = time.perf_counter(), processor_s(own_folder())
    events = spark.read.parquet(place)
    found = findings(events)
    judged = Judged(count, time.perf_counter() - begun, processor_s(own_folder()) - used)
    _refuse_others(f"{kind} of {count} events", found, sown)
    return judged


def _refuse_others(what: str, found: Mapping[str, int], sown: Mapping[str, int]) -> None:
    if dict(found) != dict(sown):
        raise AssertionError(f"{what}: found {found}, sown {sown}")


def findings(events: DataFrame) -> dict[str, int]:
    """How many of each finding a large ledger has."""
    with prefiltering() as prefilter:
        found = found_by(RULES.values(), events, survey(events), prefilter)
        return {row[0]: row[1] for row in found.groupBy("finding").count().collect()}


def processor_s(folder: Path) -> float:
    """The processor time that a folder's Spark has taken so far."""
    times = psutil.Process(_jvm(folder)).cpu_times()
    return float(times.user + times.system)


def peak_mb(pid: int) -> int | None:
    """The peak resident memory of a process; None where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")]
    return peaks[0] if peaks else None


def _jvm(folder: Path) -> int:
    running = spark_server.running(folder)
    assert running is not None
    return running.jvm
