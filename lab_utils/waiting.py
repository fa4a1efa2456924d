"""Waiting for a condition, with a bound, and with the last thing seen in the error.

This is the one module that sleeps; everything else waits through it. It knows no other room.
What has waited in vain may have had no processor to run on: ProcessorShare tells it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeVar

from lab_utils.errors import WaitTimeout

Seen = TypeVar("Seen")

LOOK_EVERY_S: Final = 2.0
# Some 10 ms of work: more than a scheduler gives at once to who has just woken. hashlib does it
# without Python's lock, for which a thread may wait on the quietest machine.
PIECE: Final = bytes(4_000_000)
# A right workload needs a tenth of its time at most, and beside a few busy programs has a quarter.
SCARCE: Final = 10
# For a moment they are so on any machine that is at work.
SCARCE_S_MIN: Final = 10.0


def wait_until(
    look: Callable[[], Seen],
    what: str,
    *,
    timeout_s: float,
    every_s: float = 0.02,
    last_seen: Callable[[Seen], str] = repr,
) -> Seen:
    """Call `look` until it returns something true, and return that.

    Raises WaitTimeout with what was awaited, for how long, and what was last seen.

    >>> wait_until(lambda: 3, "three", timeout_s=1)
    3
    """
    deadline = time.monotonic() + timeout_s
    while not (seen := look()):
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"waited {timeout_s:g} s for {what}; last saw {last_seen(seen)}.")
        time.sleep(every_s)
    return seen


class ProcessorShare:
    """Tells whether processors are scarce, by a piece of work every two seconds.

    They were since the piece before if one takes ten times as long as it has a processor. Programs
    that come after all others, as a crowd does in a sandbox, make none of them scarce.
    """

    def __init__(self) -> None:
        self._scarce: list[tuple[float, float]] = []
        self._under_way: tuple[float, float] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="processor share", daemon=True)
        self._thread.start()

    def was_scarce(self, since: float) -> bool:
        """Were they for ten seconds, and more than half of the time since then (time.monotonic)?"""
        now = time.monotonic()
        scarce = self._scarce.copy()
        if (under_way := self._under_way) and under_way[1] < now:
            scarce.append((under_way[0], now))
        scarce_s = sum(max(0, end - max(begin, since)) for begin, end in scarce)
        return scarce_s > max(SCARCE_S_MIN, (now - since) / 2)

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        begin = time.monotonic()
        had_s = self._piece()
        while not self._over.wait(LOOK_EVERY_S):
            began = time.monotonic()
            self._under_way = (begin, began + SCARCE * had_s)
            had_s = self._piece()
            end = time.monotonic()
            if end - began > SCARCE * had_s:
                self._scarce.append((begin, end))
            self._under_way = None
            begin = end

    @staticmethod
    def _piece() -> float:
        """Do the work; the seconds for which it had a processor."""
        had_s = time.thread_time()
        sha256(PIECE)
        return time.thread_time() - had_s
