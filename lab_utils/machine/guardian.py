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
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

CLOSE_S: Final = 5


class Guardian:
    """The parent's half: tells the guardian which process groups to end.

    A guardian that somebody kills is replaced: by the next word to it, or by `keep`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._groups: set[int] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._process = self._start()

    def watch(self, group: int) -> None:
        """End this process group when this process is gone; at once if it is about to be."""
        with self._lock:
            self._groups.add(group)
            self._tell(f"+{group}\n")
            if self._is_closed:
                _kill(group)

    def from_birth(self) -> Callable[[], None]:
        """A preexec_fn: the child is watched before it is anything, whatever becomes of its parent.

        Only for as long as this guardian lives; `watch` is to follow.
        """
        self.keep()
        assert self._process.stdin is not None
        pipe = -1 if self._is_closed else self._process.stdin.fileno()

        def tell() -> None:
            with suppress(OSError):
                os.write(pipe, b"+%d\n" % os.getpid())

        return tell

    def forget(self, group: int) -> None:
        """This process group has ended; its number may be used by another."""
        with self._lock:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    def keep(self) -> None:
        """Start another guardian if this one has been killed."""
        with self._lock:
            if not self._is_closed and self._process.poll() is not None:
                self._tell("")

    def close(self) -> None:
        """End the guardian, and every process group that it still watches."""
        with self._lock:
            self._is_closed = True
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            # It alone knows of a child that was watched from birth and of nobody since.
            with suppress(subprocess.TimeoutExpired):
                self._process.send_signal(signal.SIGCONT)
                self._process.wait(CLOSE_S)
            self._process.kill()
            self._process.wait()
            for group in self._groups:
                _kill(group)

    def _tell(self, line: str) -> None:
        if self._is_closed:
            return
        try:
            self._write(line)
        except BrokenPipeError:
            self._process.wait()
            self._process = self._start()
            self._write("".join(f"+{group}\n" for group in self._groups))

    def _write(self, text: str) -> None:
        if self._process.poll() is not None:
            raise BrokenPipeError
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def _start(self) -> subprocess.Popen[Any]:
        from lab_utils import processes

        return processes.spawn(
            # Its name and its folder are for who looks at the list of processes.
            [sys.executable, "-I", "-S", __file__, processes.GUARDIAN, str(self._folder)],
            stdin=subprocess.PIPE,
        )


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    """Read until the parent is gone, then kill."""
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    for group in groups:
        _kill(group)


if __name__ == "__main__":
    main()
