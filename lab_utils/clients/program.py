"""A program of any language, performed as a part of a run: a child process with an end.

    workload ── arguments, environment, orders on standard input ──▶ program ──▶ proxy ──▶ broker
       │                                                                │
       ╰── guardian: when the workload is gone, so is the program       ╰── what it printed

The program knows an address and a name. What it sent and what it was told is taken from the wire,
which needs no word of its own (ledger/programs.py).
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from lab_utils import processes
from lab_utils.errors import BadArgument, SetupError, WaitTimeout
from lab_utils.machine.guardian import Guardian


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code, below zero for a signal, and the end of what it printed.

    Standard output and standard error are together, as on a terminal.
    """

    code: int
    output: str


def execute(
    command: Sequence[str],
    *,
    folder: Path,
    given: str,
    environment: Mapping[str, str],
    timeout_s: float,
) -> Ended:
    """Perform a program, with `given` on its standard input; return when it and its group ended.

    Raises BadArgument for what is no list of arguments, SetupError for a program that is not
    there, and WaitTimeout for one that was still running after `timeout_s` and has been killed.
    """
    if isinstance(command, str) or not command or not all(isinstance(it, str) for it in command):
        raise BadArgument(
            f"a program is a list of texts, its name and its arguments; got {command!r}. No shell "
            'reads it. Write it as in ["kcat", "-P", "-b", run.bootstrap].'
        )
    with closing(Guardian(folder)) as guardian, tempfile.TemporaryFile() as stdin:
        stdin.write(given.encode())
        stdin.seek(0)
        child = _started(command, stdin, environment, guardian)
        guardian.watch(child.pid)
        try:
            return _ended(child, command[0], timeout_s)
        finally:
            processes.kill_group(child)
            guardian.forget(child.pid)


def _started(
    command: Sequence[str], stdin: object, environment: Mapping[str, str], guardian: Guardian
) -> subprocess.Popen[str]:
    try:
        return processes.spawn(
            list(command),
            environment=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=guardian.from_birth(),
        )
    except OSError as error:
        raise SetupError(
            f"{command[0]!r} could not be started: {error.strerror}. Install it, or name it by "
            "its whole path."
        ) from None


def _ended(child: subprocess.Popen[str], name: str, timeout_s: float) -> Ended:
    end = processes.OutputEnd(child)
    try:
        code = child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        processes.kill_group(child)
        raise WaitTimeout(
            f"waited {timeout_s:g} s for {name!r} to end; it was still running and has been "
            f"killed. It printed last: {end.text()[-500:]!r}. Does it wait for ever? Else give it "
            "more time: run.execute(…, timeout_s=…)."
        ) from None
    processes.kill_group(child)  # what it started and left behind holds its output open
    return Ended(code, end.text())
