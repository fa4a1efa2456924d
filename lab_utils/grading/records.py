"""The folder of a grading, OUT: one file a submission, whole and atomic, as soon as it is graded.

    OUT/grading.json            the nonce of the class
    OUT/submissions/NAME.json   a submission: verdicts, what they rest on, and the verdicts before
    OUT/results.json, …         made from these at any time (reports.py)

A file is written under another name, brought to the disk, and renamed, so whatever ends a grading
leaves whole files. One grader at a time writes; anyone may read meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lab_utils.errors import BadArgument, LedgerError, SetupError
from lab_utils.grading.notebook import BYTES_MAX
from lab_utils.grading.results import (
    GRADED,
    REJECTED,
    Results,
    SubmissionResult,
    presentable,
    read_submission_result,
    safe_name,
)

SCHEMA: Final = "delivery-lab-submission/1"
FOLDER: Final = "submissions"
ABOUT: Final = "grading.json"
# What a submission leaves in OUT at most, with its reports, is under this.
BYTES_EACH: Final = 1_000_000
AT_FIRST: Final = 10_000_000
LOCK: Final = ".lock"
UNFINISHED: Final = ".unfinished"


@dataclass(frozen=True, slots=True)
class Store:
    """A grading's folder that this process writes to."""

    out: Path
    nonce: str
    versions: Mapping[str, str]

    def name(self, path: Path) -> str:
        """The name of a submission's file: of the way to it from OUT, wherever one stands."""
        return safe_name(os.fsencode(os.path.relpath(path, self.out)))

    def is_current(self, path: Path, digest: str | None, lab: str | None) -> bool:
        """Is this submission graded, and is all that a verdict depends on as it was?

        `lab` is the lab that is asked for. What was nobody's fault is graded again.
        """
        try:
            kept = _read(self.out / FOLDER / f"{self.name(path)}.json")
        except (OSError, LedgerError):
            return False
        is_of_lab = {
            GRADED: lab in (None, kept.lab),
            REJECTED: lab == kept.wanted_lab,
        }.get(kept.status, False)
        then = (kept.sha256, kept.nonce, kept.versions)
        now = (digest, self.nonce, self.versions)
        return digest is not None and is_of_lab and not kept.is_nobodys_fault and then == now

    def keep(self, path: Path, result: SubmissionResult) -> None:
        """Write the file of a submission; the verdict that it had moves into its history.

        Raises SetupError when it cannot be written: nothing that is graded then is kept.
        """
        name = self.name(path)
        file = self.out / FOLDER / f"{name}.json"
        with suppress(OSError, LedgerError):
            before = _read(file)
            result = replace(result, earlier=(*before.earlier, _summary(before)))
        kept = replace(
            presentable(result),
            name=name,
            nonce=self.nonce,
            versions=dict(self.versions),
            graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        # One line: Spark reads a file of such lines as it is.
        write_whole(file, json.dumps({"schema": SCHEMA, **kept.to_json()}) + "\n", sync=True)


@contextmanager
def opened(
    out: Path, versions: Mapping[str, str], count: int, nonce: str | None, *, again: bool = False
) -> Iterator[Store]:
    """Try OUT before anything is graded, and keep other graders out of it.

    Its nonce is the one that it has, else `nonce`, else a new one. Raises SetupError when it cannot
    be written to, BadArgument for another nonce, unless everything is graded `again`.
    """
    make_folder(out)
    make_folder(out / FOLDER)
    try:
        lock = os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SetupError(
            f"nothing can be written to {out}: {error.strerror}. Name another folder with --out."
        ) from error
    with os.fdopen(lock):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadArgument(
                f"another grading is writing to {out}. Wait for its end, or name another --out."
            ) from error
        _try(out, count)
        for left in (*out.glob(f"*{UNFINISHED}"), *out.glob(f"*/*{UNFINISHED}")):
            left.unlink()
        yield Store(out, _nonce(out, nonce, again=again), versions)


def files(out: Path) -> Iterator[Path]:
    """The files of submissions in OUT; raises BadArgument when it is no folder of a grading."""
    if not (out / FOLDER).is_dir():
        raise BadArgument(
            f"{out} is not the folder of a grading: it has no folder {FOLDER}. Name one, or make "
            f"it: ./lab grade SUBMISSIONS --out {out}"
        )
    return (out / FOLDER).glob("*.json")


def results(out: Path, line: Callable[[str], object] = lambda _: None) -> Results:
    """What OUT holds; `line` is told of files that cannot be read. Raises BadArgument as files."""
    found = []
    for file in sorted(files(out)):
        try:
            found.append(_read(file))
        except (OSError, LedgerError):
            line(f"{file} cannot be read and was left out. Delete it and grade again.")
    found.sort(key=lambda each: each.path)
    last = max(found, key=lambda each: each.graded_at or "", default=None)
    if last is None:
        return Results(nonce="", versions={})
    about: dict[str, Any] = {
        "nonce": last.nonce or "", "versions": last.versions, "isolation": last.isolation
    }  # fmt: skip
    return Results(submissions=tuple(found), **about)


def digest(path: Path) -> str | None:
    """The SHA-256 of a submission, by which a change is known.

    None for what is no plain file, cannot be read or is too large; no pipe or device is waited for.
    """
    with suppress(OSError), os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size <= BYTES_MAX:
            return hashlib.sha256(file.read(BYTES_MAX)).hexdigest()
    return None


def write_whole(file: Path, text: str, *, sync: bool = False) -> None:
    """Write a file that only its owner reads, all of it or nothing.

    With `sync` a power cut right after it costs nothing. Raises SetupError if it cannot be written.
    """
    unfinished = file.with_name(f"{file.name}.{os.getpid()}{UNFINISHED}")
    try:
        how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(unfinished, how, 0o600), "wb") as target:
            # What a name may hold and no text may: a half of a surrogate pair.
            target.write(text.encode(errors="backslashreplace"))
            target.flush()
            if sync:
                os.fsync(target.fileno())
        unfinished.replace(file)
    except OSError as error:
        with suppress(OSError):
            unfinished.unlink()
        raise SetupError(
            f"{file} cannot be written: {error.strerror}. What was written before is whole. "
            "Make room, or name another --out; then the same command goes on."
        ) from error


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner reads; raises SetupError when it cannot be made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"the folder {folder} cannot be made: {error.strerror}. Name another with --out."
        ) from error


def _try(out: Path, count: int) -> None:
    """Write to OUT and see how much room it has; a class must not be graded into nowhere."""
    needed = AT_FIRST + count * BYTES_EACH
    free = shutil.disk_usage(out).free
    if free < needed:
        raise SetupError(
            f"{out} has {free / 1e6:,.0f} MB left, and {count} submissions with their reports may "
            f"take {needed / 1e6:,.0f} MB. Make room, or name another --out."
        )
    probe = out / FOLDER / "probe"
    write_whole(probe, "." * 100_000)
    probe.unlink()


def nonce_of(out: Path) -> str:
    """The nonce of a grading; empty if it has none yet."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((out / ABOUT).read_text(encoding="utf-8"))["nonce"])
    return ""


def _nonce(out: Path, wanted: str | None, *, again: bool) -> str:
    """The nonce of the class: the first grading decides it, so that all get the same schedules."""
    kept = nonce_of(out)
    if kept and wanted and wanted != kept and not again:
        raise BadArgument(
            f"{out} was begun with the nonce {kept!r}, so {wanted!r} would give some of the class "
            "other schedules. Leave out --nonce, name another --out, or grade all --again."
        )
    nonce = wanted or kept or os.urandom(8).hex()
    if nonce != kept:
        write_whole(out / ABOUT, json.dumps({"schema": SCHEMA, "nonce": nonce}) + "\n", sync=True)
    return nonce


def _read(file: Path) -> SubmissionResult:
    """The submission in a file; raises LedgerError for what no grading has written."""
    try:
        columns = json.loads(file.read_bytes())
        if columns.pop("schema") != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        return read_submission_result(columns)
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise LedgerError(
            f"{file} is not a submission's file ({error}). Delete it and grade again."
        ) from error


def _summary(result: SubmissionResult) -> Mapping[str, Any]:
    """A verdict as the history keeps it."""
    return {
        "graded_at": result.graded_at,
        "sha256": result.sha256,
        "nonce": result.nonce,
        "status": result.status,
        "points": result.points,
        "possible": result.possible,
        "items": {item.item: item.status for item in result.items},
    }
