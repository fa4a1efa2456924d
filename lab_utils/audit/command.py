"""./lab audit: any ledger in; a table, findings as Parquet and one page of HTML out.

    PATH ... ─▶ ledgers ─▶ + contract ─▶ findings ─▶ DIR/ledger  DIR/findings  DIR/audit.html

Everything is made beside DIR, or hidden in it, and put there when it is whole; an audit that
fails, or is interrupted, leaves what was there before, and ends the Spark that it started.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit import report
from lab_utils.audit.declared import Declared, read_contract
from lab_utils.audit.judged import write_judged
from lab_utils.audit.ledgers import (
    Ledger,
    broken_files_named,
    listed,
    literal,
    read,
    readable,
)
from lab_utils.audit.report import Report
from lab_utils.audit.session import LARGE, own_spark
from lab_utils.errors import BadArgument, LedgerError
from lab_utils.folders import put, refuse_what_is_not_ours
from lab_utils.ledger.on_disk import PARQUET, is_local, local_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = "audit.html"
# An event has ten bytes or thirty in Parquet, and hundreds as JSON.
DENSER: Final = 16
MADE: Final = ("ledger", "findings", PAGE)


def audit(
    paths: Sequence[str], contract: Path | None, out: Path | None, say: Callable[[str], object]
) -> Report:
    """Audit the ledgers at these paths; write DIR if `out` is given; tell `say` what is being done.

    Raises LabError if it cannot: nothing there, a wrong contract, no Spark, no space.
    """
    declared = read_contract(contract) if contract else None
    size = _size(paths)
    _refuse_an_inner_folder(paths, out)
    with _made_beside(out) as place:
        say("Starting Spark")
        with own_spark(size, "audit") as spark:
            return audit_with(spark, paths, declared, place, say)


def audit_with(
    spark: SparkSession,
    paths: Sequence[str],
    declared: Declared | None,
    place: Path,
    say: Callable[[str], object] = lambda _: None,
) -> Report:
    """Audit the ledgers with this Spark, and write ledger, findings and page to a folder."""
    with _progress(spark, say, "Listing the files"):
        files = listed(spark, paths)
    with _progress(spark, say, f"Reading {(files.jsonl + files.parquet) / 2**20:,.1f} MB"):
        ledger = read(spark, files, f"file://{place}/ledger")
        events = ledger.events
        ((count, runs),) = events.selectExpr("count(*)", "count(DISTINCT run)").collect()
        if not count:
            raise LedgerError(_nothing(ledger, paths))
        if declared:
            events = declared.events(spark, events)
    judging = f"Judging {report.counted(count, 'event')}"
    with _progress(spark, say, judging), broken_files_named():
        found = f"file://{place}/findings"
        write_judged(events, found)
        groups = report.groups(spark.read.parquet(literal(found)))
        unsaid = report.unsaid(events) + report.strange(events)
    made = Report(paths, count, runs, groups, ledger.rejected, ledger.unknown, unsaid, files.unread)
    (place / PAGE).write_text(report.page(made), encoding="utf-8")
    return made


def _size(paths: Sequence[str]) -> int:
    """How many bytes there are to read; what this machine cannot see is taken to be large."""
    if not all(map(is_local, paths)):
        return LARGE
    files = (each for path in paths for each in local_files(path).items())
    return sum(size * (DENSER if name.endswith(PARQUET) else 1) for name, size in files)


def _nothing(ledger: Ledger, paths: Sequence[str]) -> str:
    left_out = sum(ledger.rejected.counts.values())
    first = "".join(
        f" The first one: line {line} of {readable(file)}: {reason}."
        for file, line, reason, _ in sorted(ledger.rejected.first)[:1]
    )
    return (
        f"there is no event in {', '.join(paths)}: {left_out:,} lines are there, and none is an "
        f"event of a ledger.{first} docs/ledger.md describes the format."
    )


def _refuse_an_inner_folder(paths: Sequence[str], out: Path | None) -> None:
    """What is written must not be read by the next audit, nor over what is being read."""
    if out is None:
        return
    if os.path.lexists(out) and not out.is_dir():
        what = f"a link to {out.readlink()}" if out.is_symlink() else "a file"
        raise BadArgument(f"--out names {out}, which is {what}. Name a folder.")
    where = Path(os.path.realpath(out))
    for path in filter(is_local, paths):
        read_from = Path(os.path.realpath(path))
        if where == read_from or read_from in where.parents or where in read_from.parents:
            raise BadArgument(
                f"--out {out} and the ledger {path} lie one within the other: the audit would "
                "read what it writes. Name a folder beside it."
            )


@contextmanager
def _made_beside(out: Path | None) -> Iterator[Path]:
    """A new folder for what is made; at the end it is put into `out`, whole or not at all.

    A folder that is there may be a disk of its own, so it is made within.
    """
    name = f".{out.name}-" if out else "lab-audit-"
    try:
        if out is not None:
            refuse_what_is_not_ours(out, MADE)
            out.parent.mkdir(parents=True, exist_ok=True)
        beside = out if out is None or out.is_dir() else out.parent
        place = Path(tempfile.mkdtemp(prefix=name, dir=beside)).absolute()
    except OSError as error:
        where = f"--out {out}" if out else tempfile.gettempdir()
        raise BadArgument(
            f"the audit cannot write to {where}: {error}. Name a folder that you may write to, "
            "with --out."
        ) from None
    try:
        yield place
        if out is not None:
            put(place, out, MADE)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _progress(spark: SparkSession, say: Callable[[str], object], what: str) -> Iterator[None]:
    """Say what is being done, and how far Spark has come."""
    begun = time.monotonic()
    say(what)

    def told(stages: Any, **_: Any) -> None:
        tasks = sum(stage.num_tasks for stage in stages or ())
        ended = sum(stage.num_completed_tasks for stage in stages or ())
        say(f"{what}: {ended} of {tasks} tasks, {round(time.monotonic() - begun)} s")

    handler: Any = told
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
