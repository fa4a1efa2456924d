"""The event_log: every event of a stage, given to the run it belongs to and to who watches.

A run that is open has a ledger file of the stage's own. What a broker does belongs to every run
that is open. The latest events are kept, numbered, for a panel that comes later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lab_utils.errors import BadArgument
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import Witness

KEPT_EVENTS: Final = 500


class EventLog:
    """Where the events of one stage go."""

    def __init__(self) -> None:
        self._runs: dict[str, Witness] = {}
        self._watchers: set[Callable[[], object]] = set()
        self.events: deque[tuple[int, Event]] = deque(maxlen=KEPT_EVENTS)
        self.seen = 0

    @property
    def runs(self) -> list[str]:
        """The runs that are open."""
        return sorted(self._runs)

    def open(self, run: str, folder: Path) -> None:
        """Keep this run's events in a ledger in this folder."""
        if run in self._runs:
            raise BadArgument(f"run {run!r} is open already. Close it, or choose another name.")
        self._runs[run] = Witness(folder, "wire")

    def close(self, run: str) -> str | None:
        """Close a run's ledger; return what went wrong with it."""
        self.require(run)
        witness = self._runs.pop(run)
        witness.close()
        return witness.trouble

    def require(self, run: str) -> None:
        """Raise BadArgument if this run is not open."""
        if run not in self._runs:
            there = ", ".join(self.runs) or "none"
            raise BadArgument(f"no run {run!r} is open on this stage; open are: {there}.")

    def record(self, event: Event) -> None:
        """Give an event to its run, and to who watches."""
        witness = self._runs.get(event.run)
        if witness is not None:
            witness.record(event)
        self.seen += 1
        self.events.append((self.seen, event))
        for notify in self._watchers:
            notify()

    def record_for_all(self, kind: str, actor: str, **columns: Any) -> None:
        """Give a broker's event to every run that is open."""
        for run in [*self._runs, ""]:
            self.record(Event(run=run, source="broker", actor=actor, kind=kind, **columns))

    def watch(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call `notify` at each event from now on; return what ends it."""
        self._watchers.add(notify)
        return lambda: self._watchers.discard(notify)


def as_columns(event: Event) -> Mapping[str, Any]:
    """An event as the columns that are set."""
    columns = {name: getattr(event, name) for name in event.__dataclass_fields__}
    return {name: value for name, value in columns.items() if value not in (None, {}, "")}
