"""Where a workload's process can be killed or stalled: named points, counted from its start.

    after_send        produce() took a record            after_poll      a record was delivered
    after_ack         its report said so                 after_process   run.process() is done
    before_commit     before the commit is sent          after_commit    it was answered
    while_committing  it was sent, its answer is held    after_send_offsets   in a transaction
    after_db_write    a row was written  ·  before_db_commit  ·  after_db_commit

A commit is a consumer's or a transaction's. Only a child process has such points; a kernel must
survive its own experiment.
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

POINTS: Final = (
    "after_send", "after_ack", "after_poll", "after_process", "before_commit",
    "while_committing", "after_commit", "after_send_offsets",
    "after_db_write", "before_db_commit", "after_db_commit",
)  # fmt: skip

# How long a commit has been under way when a process is killed in it: long enough to be sent.
# Its answer must be held for longer: delay_response("OffsetCommit", by_ms=3000).
SENT_AFTER_S: Final = 0.5

ClientFault = Mapping[str, str | int]


class CrashPoints:
    """Counts the points that a workload reaches, and kills or stalls it at the chosen ones."""

    def __init__(self, witness: Witness, run: str, chosen: Iterable[ClientFault] = ()) -> None:
        self._witness = witness
        self._run = run
        self._chosen = {(str(fault["at"]), int(fault["nth"])): fault for fault in chosen}
        self._reached: Counter[str] = Counter()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._chosen)

    def reached(self, point: str) -> None:
        """Count the point, and end or stall the process here if this is the chosen time."""
        fault = self._due(point)
        if fault is not None:
            self._act(point, fault)

    @contextmanager
    def during(self, point: str) -> Iterator[None]:
        """Count the point, and act while its block is still under way."""
        fault = self._due(point)
        if fault is None:
            yield
            return
        timer = Timer(SENT_AFTER_S, self._act, (point, fault))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _due(self, point: str) -> ClientFault | None:
        assert point in POINTS, point
        if not self._chosen:
            return None
        with self._lock:
            self._reached[point] += 1
            return self._chosen.get((point, self._reached[point]))

    def _act(self, point: str, fault: ClientFault) -> None:
        detail = {name: str(value) for name, value in fault.items()}
        actor = str(fault.get("fault", "crash_client"))
        self._witness.record(
            Event(run=self._run, source="fault", actor=actor, kind="fired", detail=detail)
        )
        if actor == "stall_client":
            Flag().wait(int(fault["for_ms"]) / 1000)
            return
        crashed = Event(run=self._run, source="workload", actor="process", kind="crashed")
        crashed.detail["point"] = point
        self._witness.record(crashed)
        os.kill(os.getpid(), signal.SIGKILL)
