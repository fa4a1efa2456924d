"""The events of a stage: each is given to the run it belongs to, and kept for a while.

A run that is open has a ledger file of the stage's own. What a broker does belongs to every run
that is open. The latest events are kept for a panel that comes later, numbered, and with their long
texts cut: they are bounded in number and in size.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lab_utils.errors import BadArgument
from lab_utils.folders import state_folder
from lab_utils.ledger.events import CLIENTS_NEED, Event
from lab_utils.ledger.store import Witness
from lab_utils.processes import AnyProcess, is_running, named

KEPT_EVENTS: Final = 500
KEPT_RUNS: Final = 50  # their topics can be read
KNOWN_RUNS: Final = 1000
KEPT_TEXT: Final = 500  # so that the events that are kept take a few megabytes at most
OPEN_RUNS: Final = 200
WRITES: Final = ("Produce", "CreatePartitions", "OffsetCommit", "TxnOffsetCommit")
# In the detail of a request, and its answer, that no client of the run has made.
OUTSIDE: Final = {"outside": "true"}
BY_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RUN: Final = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,100}")


class EventLog:
    """Where the events of one stage go."""

    def __init__(self) -> None:
        self._runs: dict[str, Witness] = {}
        self._owners: dict[str, AnyProcess] = {}
        self._known: list[str] = []
        self._troubles: dict[str, list[str]] = {}
        self.events: deque[tuple[int, Event]] = deque(maxlen=KEPT_EVENTS)
        self.seen = 0

    @property
    def runs(self) -> list[str]:
        """The runs that are open."""
        return sorted(self._runs)

    @property
    def latest(self) -> str:
        """The run that was opened last; empty before the first."""
        return self._known[-1] if self._known else ""

    def forsaken(self) -> list[str]:
        """The open runs whose owner has ended without closing them."""
        return [run for run, owner in self._owners.items() if not is_running(owner)]

    def past(self, topics: Collection[str]) -> list[str]:
        """Those of the topics that belong to a run before the last fifty."""
        kept = {*self._known[-KEPT_RUNS:], *self._runs}
        found = {
            run: [topic for topic in topics if topic.startswith(f"{run}-")]
            for run in self._known
            if run not in kept
        }
        self._known = [run for run in self._known if run in kept or found[run]]
        return [topic for each in found.values() for topic in each]

    def open(self, run: str, folder: Path, owner: str = "") -> None:
        """Keep this run's events in a ledger in this folder; its owner is the process named so."""
        if not RUN.fullmatch(run):
            raise BadArgument(
                f"a run's name has up to 100 letters, digits, '.', '_' and '-', and begins with no "
                f"dot; got {run!r:.200}. By another name it could not be closed."
            )
        if not _is_ours(folder):
            raise BadArgument(
                f"the folder of a run is an absolute path in {state_folder()}, or a directory that "
                f"exists and can be written; got {str(folder)!r:.200}."
            )
        if len(self._runs) >= OPEN_RUNS:
            raise BadArgument(
                f"{OPEN_RUNS} runs are open already. Close one, for example by "
                f"lab.stage.close_run({next(iter(self._runs))!r})."
            )
        if run in self._runs:
            raise BadArgument(f"run {run!r} is open already. Close it, or choose another name.")
        self._runs[run] = Witness(folder, "wire")
        if (process := named(owner)) is not None:
            self._owners[run] = process
        self._known = [*(it for it in self._known if it != run), run][-KNOWN_RUNS:]

    def close(self, run: str) -> str | None:
        """Close a run's ledger; return what went wrong with it."""
        self.require(run)
        witness = self._runs.pop(run)
        self._owners.pop(run, None)
        witness.close()
        return "; ".join(filter(None, [witness.trouble, *self._troubles.pop(run, [])])) or None

    def add_trouble(self, run: str, what: str) -> None:
        """Say this when the run is closed, if it is open."""
        if run in self._runs:
            self._troubles.setdefault(run, []).append(what)

    def require(self, run: str) -> None:
        """Raise BadArgument if this run is not open."""
        if run not in self._runs:
            there = ", ".join(self.runs) or "none"
            raise BadArgument(f"no run {run!r} is open on this stage; open are: {there}.")

    def record(self, event: Event) -> None:
        """Give an event to its run, and keep it for a panel."""
        if (witness := self._runs.get(event.run)) is not None:
            witness.record(event)
        elif event.kind in ("request", "response", "opaque"):
            for run, each in self._runs.items():
                if _is_about(event, run):
                    each.record(replace(event, run=run, detail=event.detail | OUTSIDE))
        self.seen += 1
        self.events.append((self.seen, _shortened(event)))

    def since(self, number: int) -> list[tuple[int, Event]]:
        """What is kept of the events after this number."""
        return [kept for kept in self.events if kept[0] > number]

    def record_for_all(self, kind: str, actor: str, **columns: Any) -> None:
        """Give a broker's event to every run that is open."""
        for run in [*self._runs, ""]:
            self.record(Event(run=run, source="broker", actor=actor, kind=kind, **columns))


def _is_about(event: Event, run: str) -> bool:
    """Is a frame that belongs to no run of concern to this one?

    What changes the cluster, under whatever name, has changed it for each run; so has what is
    written to a topic of Kafka's own, or to one that the request names by its id alone.
    """
    if event.api not in WRITES:
        return event.api not in CLIENTS_NEED
    topic = event.topic
    return topic is None or topic.startswith((f"{run}-", "__")) or bool(BY_ID.fullmatch(topic))


def _is_ours(folder: Path) -> bool:
    """May a ledger be written there?"""
    with suppress(OSError, ValueError):  # no path at all, or through a file
        inside = folder.resolve().is_relative_to(state_folder())
        return folder.is_absolute() and (inside or (folder.is_dir() and os.access(folder, os.W_OK)))
    return False


def _shortened(event: Event) -> Event:
    """The event with its long texts cut, for a panel; the ledger keeps them."""
    columns = {name: getattr(event, name) for name in event.__dataclass_fields__}
    changes: dict[str, Any] = {
        name: _cut(value)
        for name, value in columns.items()
        if isinstance(value, str) and len(value) > KEPT_TEXT
    }
    if any(len(text) > KEPT_TEXT for text in event.detail.values()):
        changes["detail"] = {name: _cut(text) for name, text in event.detail.items()}
    return replace(event, **changes) if changes else event


def _cut(text: str) -> str:
    return text if len(text) <= KEPT_TEXT else f"{text[:KEPT_TEXT]}… ({len(text)} characters)"


def as_columns(event: Event) -> Mapping[str, Any]:
    """An event as the columns that are set."""
    columns = {name: getattr(event, name) for name in event.__dataclass_fields__}
    return {name: value for name, value in columns.items() if value not in (None, {}, "")}
