"""Ends what a submission left running, wherever it hid.

Every process of a submission inherits one variable in its environment: the folder it may write
to, which lies in the folder of its grading. On Linux they are found by
it, also those that left the kernel's process group. Elsewhere they end with their owner, the
grader, whose pid they watch (LAB_OWNER).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from lab_utils.waiting import wait_until

MARKER: Final = "LAB_SUBMISSION"


def end(marker: str) -> None:
    """Kill every process whose mark begins so, until none is left: one's, or all of a grading."""
    wait_until(
        lambda: not _killed(marker),
        "the processes of a submission to end",
        timeout_s=10,
        last_seen=lambda _: f"{list(running(marker))}",
    )


def running(marker: str) -> Iterator[int]:
    """The processes whose mark begins so; one that has ended carries nothing any more."""
    wanted = f"{MARKER}={marker}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(wanted) for variable in variables):
                yield int(folder.name)


def _killed(marker: str) -> list[int]:
    found = list(running(marker))
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return found
