"""Landlock: a process gives up what it may do to files and others, and so do its children.

    python -m lab_utils.machine.landlock PID JSON COMMAND…
    grader ── SIGTERM, or its death ──▶ this process ── SIGKILL ──▶ the command and all of its own

PID is the grader's; JSON names the folders that the command may list, read and write. This process
is not confined, so the command cannot signal it; orphans become its children, and none outlives it.

It needs no root, no container and no namespaces, so it works where bubblewrap does not: in an
image that no one has given rights. What stays shared is the network, and the list of processes.
Source: Linux, Documentation/userspace-api/landlock.rst; ABI 6 is Linux 6.12.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from lab_utils.machine import seccomp

# Signals to processes outside, and abstract sockets, can be refused from this version on.
OLDEST_ABI: Final = 6
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
PATH_BENEATH: Final = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
EVERYTHING: Final = (1 << 16) - 1
READ: Final = EXECUTE | READ_FILE | READ_DIR
# What a rule on a file, and not on a folder, may allow: truncate, and ioctl of a device.
OF_A_FILE: Final = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
SCOPED: Final = 1 << 0 | 1 << 1  # abstract sockets, signals
NO_NEW_PRIVILEGES: Final = 38
DROP_FROM_BOUNDS: Final = 24
CAPABILITIES: Final = range(64)
CHILD_SUBREAPER: Final = 36
DEATH_SIGNAL: Final = 1


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock that this system has; 0 where it has none."""
    if sys.platform != "linux":
        return 0
    with suppress(OSError):
        return _call(CREATE_RULESET, None, 0, 1)
    return 0


def confine(listable: Iterable[Path], readable: Iterable[Path], writable: Iterable[Path]) -> None:
    """From now on this process and its children list, read and write there alone; for good.

    They signal and trace only one another, and make no call that seccomp.py names. Raises OSError
    where the system refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in CAPABILITIES:  # root's would let it look into others; execve takes them
        libc.prctl(DROP_FROM_BOUNDS, capability, 0, 0, 0)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    attributes = _Ruleset(EVERYTHING, 0, SCOPED)
    ruleset = _call(CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    for paths, allowed in ((listable, READ_DIR), (readable, READ), (writable, EVERYTHING)):
        for path in filter(Path.exists, paths):
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = _Beneath(allowed if path.is_dir() else allowed & OF_A_FILE, folder)
            _call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
            os.close(folder)
    _call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    seccomp.refuse()


def _call(number: int, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    returned: int = libc.syscall(ctypes.c_long(number), *arguments)
    if returned < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return returned


def main(grader: int, given: str, command: list[str]) -> int:
    """Run the command, and end what it leaves; its exit code."""
    libc = ctypes.CDLL(None)
    libc.prctl(CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # none is lost before it is waited for
    if os.getppid() != grader:  # it had ended before its end could be heard of
        return 1
    first = os.fork()
    if first == 0:
        confine(**{name: map(Path, paths) for name, paths in json.loads(given).items()})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        os.execvp(command[0], command)  # noqa: S606
    try:
        status = _wait(first, signals)
    finally:
        _end_all()
    return status if status >= 0 else 128 - status


def _wait(first: int, signals: set[signal.Signals]) -> int:
    """How the first child ended, as os.waitstatus_to_exitcode() says it; SIGTERM ends it, too."""
    while signal.sigwait(signals) == signal.SIGCHLD:
        for pid, found in iter(lambda: os.waitpid(-1, os.WNOHANG), (0, 0)):
            if pid == first:
                return os.waitstatus_to_exitcode(found)
    return -signal.SIGTERM


def _end_all() -> None:
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
