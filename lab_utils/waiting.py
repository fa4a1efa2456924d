"""Waiting for a condition, with a bound, and with the last thing seen in the error.

This is the one module that sleeps; everything else waits through it. It knows no other room.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab_utils.errors import WaitTimeout

Seen = TypeVar("Seen")


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
