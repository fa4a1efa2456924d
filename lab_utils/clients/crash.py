"""The points where a workload's process can be killed or stalled, counted from its start.

Their names are in lab_utils/proxy/faults/client_faults.py. Only a child process has such points;
a kernel must survive its own experiment.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event as Flag
from threading import Lock, Timer
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.ledger.store import Witness
from lab_utils.proxy.faults.client_faults import CRASH_POINTS

# How long a commit has been under way when a process is killed in it: long enough to be sent.
# Its answer must be held for longer: delay_response("OffsetCommit", by_ms=3000).
SENT_AFTER_S: Final = 0.5

ClientFault = Mapping[str, str | int | None]


class CrashPoints:
    """Counts the points that a workload reaches, and kills or stalls it at the chosen ones."""

    def __init__(self, witness: Witness, run: str, chosen: Iterable[ClientFault] = ()) -> None:
        self._witness = witness
        self._run = run
        # Stalls come first: who is stalled and killed at one point dies at the end of it.
        self._chosen = sorted(chosen, key=lambda fault: fault.get("fault") != "stall_client")
        self._reached: Counter[int] = Counter()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._chosen)

    def reached(self, point: str, value: str | None = None) -> None:
        """Count the point, and end or stall the process here if this is the chosen time.

        `value` is the order that the point is about, where it is about one.
        """
        for fault in self._due(point, value):
            self._act(point, fault)

    @contextmanager
    def during(self, point: str) -> Iterator[None]:
        """Count the point, and act while its block is still under way."""
        timers = [Timer(SENT_AFTER_S, self._act, (point, fault)) for fault in self._due(point)]
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    def _due(self, point: str, value: str | None = None) -> list[ClientFault]:
        assert point in CRASH_POINTS, point
        due = []
        with self._lock:
            for number, fault in enumerate(self._chosen):
                if fault["at"] == point and fault.get("value") in (None, value):
                    self._reached[number] += 1
                    if self._reached[number] == fault["nth"]:
                        due.append(fault)
        return due

    def _act(self, point: str, fault: ClientFault) -> None:
        detail = {name: str(value) for name, value in fault.items()}
        actor = str(fault.get("fault", "crash_client"))
        self._witness.record(
            Event(run=self._run, source="fault", actor=actor, kind="fired", detail=detail)
        )
        if actor == "stall_client":
            Flag().wait(int(fault["for_ms"] or 0) / 1000)
            return
        crashed = Event(run=self._run, source="workload", actor="process", kind="crashed")
        crashed.detail["point"] = point
        self._witness.record(crashed)
        os.kill(os.getpid(), signal.SIGKILL)
