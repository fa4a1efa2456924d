"""Where a workload's process can be killed: named points, counted from its start.

Only a child process has crash points; a kernel must survive its own experiment.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping

from lab_utils.ledger.events import Event
from lab_utils.ledger.store import Witness

POINTS = ("after_send", "after_ack", "after_poll", "after_process", "after_commit")


class CrashPoints:
    """Counts the points that a workload reaches, and kills the process at the chosen one."""

    def __init__(
        self, witness: Witness, run: str, chosen: Iterable[Mapping[str, str | int]] = ()
    ) -> None:
        self._witness = witness
        self._run = run
        self._chosen = {(str(crash["at"]), int(crash["nth"])): crash for crash in chosen}
        self._reached: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._chosen)

    def reached(self, point: str) -> None:
        """Count the point, and end the process here if this is the chosen time."""
        self._reached[point] += 1
        crash = self._chosen.get((point, self._reached[point]))
        if crash is not None:
            self._last_words(point, crash)
            os.kill(os.getpid(), signal.SIGKILL)

    def _last_words(self, point: str, crash: Mapping[str, str | int]) -> None:
        detail = {name: str(value) for name, value in crash.items()}
        self._witness.record(
            Event(run=self._run, source="fault", actor="crash_client", kind="fired", detail=detail)
        )
        crashed = Event(run=self._run, source="workload", actor="process", kind="crashed")
        crashed.detail["point"] = point
        self._witness.record(crashed)
