"""A processor that is busy, and who comes last on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from lab_utils.grading.sandbox import _give_way

BUSY = """
import os
os.sched_setaffinity(0, {{{processor}}})
while os.getppid() == {parent}: pass
"""


@contextmanager
def busy_processor() -> Iterator[int]:
    """A processor on which a program runs that never waits.

    It is of this program's session: Linux may weigh sessions, and a thread only within its own.
    """
    if sys.platform != "linux":
        pytest.skip("where a thread runs cannot be chosen")
    processor = min(os.sched_getaffinity(0))
    code = BUSY.format(processor=processor, parent=os.getpid())
    with subprocess.Popen([sys.executable, "-c", code]) as program:
        try:
            yield processor
        finally:
            program.kill()


def comes_last(thread: int, processor: int) -> None:
    """Let all others on this processor run before a thread of this program."""
    os.sched_setaffinity(thread, {processor})
    os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def come_last(folder: Path, processor: int) -> None:
    """Let all others on this processor run before the processes that work in this folder."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.cwd() == str(folder):
                for thread in process.threads():
                    os.sched_setaffinity(thread.id, {processor})
                _give_way([process])
