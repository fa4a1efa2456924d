"""`python -m lab_utils.grading.confined PID JSON COMMAND…`: a command under Landlock, and its end.

    grader ── SIGTERM, or its death ──▶ this process ── SIGKILL ──▶ the command and all of its own

PID is the grader's; JSON names the folders that the command may list, read and write. This process
is not confined, so the command cannot signal it; orphans become its children, and none outlives it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from lab_utils.machine.landlock import confine

CHILD_SUBREAPER: Final = 36
DEATH_SIGNAL: Final = 1


def main(grader: int, given: str, command: list[str]) -> int:
    """Run the command, and end what it leaves; its exit code."""
    libc = ctypes.CDLL(None)
    libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, _terminated)
    if os.getppid() != grader:  # it had ended before its end could be heard of
        return 1
    first = os.fork()
    if first == 0:
        confine(**{name: map(Path, paths) for name, paths in json.loads(given).items()})
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606
    status = 1
    try:
        while True:
            pid, found = os.wait()
            if pid == first:
                status = os.waitstatus_to_exitcode(found)
                break
    finally:
        _end_all()
    return status if status >= 0 else 128 - status


def _terminated(_: int, __: FrameType | None) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _end_all() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
