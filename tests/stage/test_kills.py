"""A hundred kills by chance: the next first cell and the next run work, and nothing is left.

LAB_KILLS says how many, and LAB_SEED repeats a run; both are printed. A kill comes while a cell
runs or between two; its victim is any process of the lab, or the kernel.
"""

from __future__ import annotations

import json
import os
import queue
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lab_utils import processes
from lab_utils.ledger.store import torn_lines

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("LAB_KILLS", "100"))
SEED = int(os.environ.get("LAB_SEED", random.SystemRandom().randrange(10**6)))
CELL_S = 300
VICTIMS = ("kernel", "stage server", "guardian", "Kafka", "Spark server", "Spark")
CELLS = """
import sys
from lab_utils import Lab

def send_orders(run):
    producer = run.producer({"message.timeout.ms": 20000})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()

def first():
    global lab
    lab = Lab("90")

def send():
    global run
    run = lab.run(send_orders, orders=5)
    return run.log

def query():
    return run.events().count() > 0

for line in sys.stdin:
    try:
        print("ok", globals()[line.strip()](), flush=True)
    except Exception as error:
        print(type(error).__name__, " ".join(str(error).split()), flush=True)
"""


class Kernel:
    """A process that runs the cells it is told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CELLS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self, cell: str) -> None:
        """Begin to run a cell."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{cell}\n")
        self.process.stdin.flush()

    def said(self) -> str:
        """How the cell ended; nothing if the kernel has died."""
        return self._said.get(timeout=CELL_S)

    def run(self, cell: str) -> str:
        """Run a cell; how it ended."""
        self.begin(cell)
        return self.said()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(line.strip())
        self._said.put("")


def kill(victim: str, kernel: Kernel, state: Path) -> None:
    """SIGKILL a process of this kind, if there is one; return when it is gone."""
    if victim == "kernel":
        kernel.process.kill()
        kernel.process.wait()
    processes.end(it.process for it in processes.of_folder(state) if it.program == victim)


def unseen_torn_lines(state: Path) -> list[str]:
    """The lines of a ledger that are no JSON and that the lab does not name."""
    unseen = []
    for path in state.glob("runs/*/*/*.jsonl"):
        named = " ".join(torn_lines(path.parent))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                json.loads(line)
            except ValueError:
                if f"{path.name}:{number}" not in named:
                    unseen.append(f"{path}:{number}")
    return unseen


def test_any_process_may_be_killed_at_any_time(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next first cell and the next run work; no line is torn unseen; down leaves nothing."""
    # As a JupyterLab is the owner of what its kernels start: a suite that is ended leaves nothing.
    monkeypatch.setenv(processes.OWNER, str(os.getpid()))
    chance = random.Random(SEED)
    kernel = Kernel()
    kernel.run("first")
    for number in range(1, KILLS + 1):
        victim, cell = chance.choice(VICTIMS), chance.choice(("first", "send", "query", ""))
        delay_s = chance.expovariate(2)
        told = f"LAB_SEED={SEED}: kill {number} of {KILLS}, {victim}, {delay_s:.2f} s into {cell!r}"
        print(told, flush=True)  # noqa: T201
        if cell:
            kernel.begin(cell)
            threading.Event().wait(delay_s)
        kill(victim, kernel, state)
        if cell:
            kernel.said()  # An error is right, and so is none.
        if not processes.is_running(kernel.process):
            kernel = Kernel()
        assert kernel.run("first").startswith("ok"), told
        assert "ok ['0', '1', '2', '3', '4']" == kernel.run("send"), told
        if victim.startswith("Spark"):
            assert "ok True" == kernel.run("query"), told
    assert [] == unseen_torn_lines(state)
    kernel.process.kill()
    kernel.process.communicate()
    subprocess.run([sys.executable, "-m", "lab_utils.cli", "down"], check=True)

    assert [] == processes.of_folder(state)
    assert [] == [*state.glob("spark"), *state.glob("stages/*")]
