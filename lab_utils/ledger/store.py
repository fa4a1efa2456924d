"""The append-only store: one JSONL file for each witness of a run.

    run folder ─┬─ client-4711.jsonl   the learner's kernel or child process
                ├─ wire.jsonl          the proxy: requests, responses, faults
                └─ log.jsonl           the log, read back when the run is over

A line is written whole with one append, so SIGKILL loses at most the line being written. A
witness that can no longer write (disk full) keeps what it has and says so in `trouble`; it never
raises into the code under study. It knows no other room.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from threading import RLock
from typing import Any

import orjson

from lab_utils.errors import LedgerError
from lab_utils.ledger.events import COLUMNS, Event

NUMBERS = tuple(column.name for column in fields(Event) if str(column.type).startswith("int"))
LARGEST = 2**63 - 1

# No number of an open file: a client that outlives its run must not write into the next one's.
CLOSED = -1


class Witness:
    """One writer of a run's ledger, with a file of its own; safe to use from several threads.

    Raises LedgerError where there can be no such file.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.jsonl"
        self.trouble: str | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise LedgerError(
                f"the ledger cannot be kept in {folder}: {error.strerror}. Make room there, or "
                "make it a folder that you may write to; then run again."
            ) from None
        # Who closes it waits for who writes: the system gives its number to the next file. Python
        # may collect a client in between, whose last reports the same thread then writes.
        self._lock = RLock()

    def record(self, event: Event) -> None:
        """Append one event."""
        self.record_line(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))

    def record_line(self, line: bytes) -> None:
        """Append a line that is an encoded event already; the fast path of the clients."""
        with self._lock:
            if self.trouble:
                return
            try:
                append(self._file, line)
            except OSError as error:
                self.trouble = f"the ledger could not be written: {error.strerror}"

    def close(self) -> None:
        """Close the file; what is recorded after this is lost, and in no other file."""
        with self._lock:
            file, self._file = self._file, CLOSED
            if file != CLOSED:
                os.close(file)


def append(file: int, line: bytes) -> None:
    """Append a whole line to an open file, or nothing. Raises OSError where it has no room."""
    written = os.write(file, line)
    if written < len(line):
        # The disk filled up inside a line: take the torn half away, keep all whole lines.
        os.ftruncate(file, os.fstat(file).st_size - written)
        raise OSError(errno.ENOSPC, "no space left for a whole line")


def write_ledger(folder: Path, events: Iterable[Event], name: str = "events") -> None:
    """Write events as the ledger folder of a run; for histories that no broker has seen."""
    witness = Witness(folder, name)
    for event in events:
        witness.record(event)
    witness.close()
    if witness.trouble:
        raise LedgerError(f"{witness.path}: {witness.trouble}. Free some space, then run again.")


def read_ledger(folder: Path) -> list[Event]:
    """All whole events of a run's ledger, oldest first."""
    events = (event for path in _files(folder) for event in _whole_events(path))
    return sorted(events, key=lambda event: event.at_ns)


def torn_lines(folder: Path) -> list[str]:
    """Where a witness was killed while it wrote: one `file:line` for each line that is no event.

    For the ledger of a run: it reads every line. audit/ledgers.py does that for large ones.
    """
    return [
        f"{path.name}:{number}"
        for path in _files(folder)
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        if _decoded(line) is None
    ]


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _whole_events(path: Path) -> Iterator[Event]:
    for line in path.read_bytes().splitlines():
        columns = _decoded(line)
        if columns is not None:
            yield Event(**{name: columns[name] for name in COLUMNS if name in columns})


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        columns = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return columns if isinstance(columns, dict) and _has_numbers(columns) else None


def _has_numbers(columns: dict[str, Any]) -> bool:
    """Is each number of an event one, as the audit's schema asks for it?"""
    numbers = (columns.get(name) for name in NUMBERS)
    return all(it is None or (type(it) is int and -LARGEST <= it <= LARGEST) for it in numbers)
