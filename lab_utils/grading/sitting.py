"""A sitting: one submission's kernel, also across its deaths.

    cells in order ──▶ kernel ── dies ──▶ a new kernel, the cells so far again, less the killers

It owns the kernel, its folders and its environment, and spends the time budgets. It knows nothing
of points.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab_utils.folders import cache_folder
from lab_utils.grading import leftovers
from lab_utils.grading.kernel import Kernel, Reply, parsed
from lab_utils.grading.submission import Submission

ROOT: Final = Path(__file__).parents[2]

# All that a kernel may know of the grader's environment: no tokens, no owner's settings. Whoever
# sets SPARK_REMOTE means it for the graded notebooks, too: then they share that one server.
PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "JAVA_HOME", "LAB_JAVA",
                    "LD_LIBRARY_PATH", "SPARK_REMOTE")  # fmt: skip


@dataclass
class Budget:
    """The seconds that a cell, or an examination, and a whole submission may take."""

    cell_s: float
    total_s: float
    stop: threading.Event = field(default_factory=threading.Event)
    started: float = field(default_factory=time.monotonic)

    def left_s(self, wanted_s: float | None = None) -> float:
        """What the next piece of code may take: zero when the submission's time is spent."""
        if self.stop.is_set():
            return 0.0
        left_s = self.started + self.total_s - time.monotonic()
        return max(0.0, min(wanted_s or self.cell_s, left_s))


class Sitting:
    """Runs a submission's cells and evaluates expressions in the state that they made."""

    def __init__(self, submission: Submission, folder: Path, budget: Budget) -> None:
        self.submission = submission
        self.folder = folder
        self.budget = budget
        self.replies: dict[int, Reply] = {}
        self._killers: set[int] = set()
        self._environment = _environment(folder)
        self._kernel: Kernel | None = None

    def run_cell(self, position: int) -> Reply:
        """Run one cell in the state that the cells before it made; how it ended is kept."""
        reply = self._execute(position, self.submission.cells[position].source)
        self.replies[position] = reply
        return reply

    def evaluate(
        self, position: int, expression: str, timeout_s: float | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Evaluate an expression after the cell at `position`: its status and the JSON it gave.

        `timeout_s` is for what is the lab's own doing; without it there is the time of a cell.
        """
        reply = self._execute(position + 1, "", timeout_s, said=expression)
        return reply.status, parsed(reply.values.get("said", ""))

    def close(self) -> None:
        """End the kernel and everything that it started."""
        if self._kernel is not None:
            self._kernel.kill()
            self._kernel = None

    def _execute(
        self, position: int, code: str, timeout_s: float | None = None, **expressions: str
    ) -> Reply:
        if self.budget.left_s() == 0:
            return Reply("spent")
        kernel = self._prepared(position)
        reply = kernel.execute(code, self.budget.left_s(timeout_s), **expressions)
        if not kernel.is_alive:
            self._bury(position if code else None)
        return reply

    def _prepared(self, position: int) -> Kernel:
        """A living kernel in which the cells before `position` have run."""
        if self._kernel is not None and not self._kernel.is_alive:
            self.close()
        while self._kernel is None:
            self._kernel = self._started()
            self._replay(position)  # may kill it again; each time there is a killer less to run
        return self._kernel

    def _replay(self, end: int) -> None:
        again = (each for each in sorted(self.replies) if each < end and each not in self._killers)
        for position in again:
            left_s = self.budget.left_s()
            if self._kernel is None or left_s == 0:
                return
            self._kernel.execute(self.submission.cells[position].source, left_s)
            if not self._kernel.is_alive:
                self._bury(position)

    def _bury(self, killer: int | None) -> None:
        if killer is not None:
            self._killers.add(killer)
        self.close()

    def _started(self) -> Kernel:
        kernel = Kernel(self.folder, self._environment, self.folder / "work")
        kernel.wait_until_ready()
        return kernel


def _environment(folder: Path) -> Mapping[str, str]:
    """The kernel's environment: an installation, a home and a state of its own."""
    for name in ("work", "home", "state", "temporary"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        leftovers.MARKER: str(folder),
        "HOME": str(folder / "home"),
        "IPYTHONDIR": str(folder / "home" / "ipython"),
        "TMPDIR": str(folder / "temporary"),
        "PYTHONPATH": str(_installation(folder)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "JPY_PARENT_PID": str(os.getpid()),  # ipykernel ends when this process is gone
        "LAB_CACHE": str(cache_folder()),
        "LAB_STATE": str(folder / "state"),
        "LAB_OWNER": str(os.getpid()),
    }


def _installation(folder: Path) -> Path:
    """A copy of the package: a submission that rewrites it rewrites its own."""
    copy = folder / "installation"
    for name in ("lab_utils", "labs"):
        ignored = shutil.ignore_patterns("__pycache__", "*.ipynb")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored, dirs_exist_ok=True)
    return copy
