"""The guardian: kills the process groups it was told of when its parent is gone.

    parent ──"+4711", "-4711"──▶ standard input ──▶ guardian ──at the end of input──▶ SIGKILL

It is a process of its own with the standard library alone, so that a stage server that is killed
(SIGKILL tells nobody) takes its brokers with it on Linux and on macOS alike.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress


class Guardian:
    """The parent's half: tells the guardian which process groups to end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """End this process group when this process is gone."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """This process group has ended; its number may be used by another."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the guardian, and every process group that it still watches."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


def main() -> None:
    """Read until the parent is gone, then kill."""
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
