"""No child process outlives who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lab_utils.waiting import wait_until

PARENT = """
import signal, sys
from pathlib import Path
from lab_utils.clients.workload import carry_out
from lab_utils.clients.live_run import Ticket

def hang(run):
    print("alive", flush=True)
    Path(run.topic).write_text("alive")
    signal.pause()

folder = sys.argv[1]
ticket = Ticket(run="03-a", folder=folder, bootstrap="", topic=folder + "/alive", orders=(),
                crashes=({"at": "after_ack", "nth": 1},))
carry_out(hang, ticket, timeout_s=100)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_child_ends_with_its_parent(tmp_path: Path, ending: signal.Signals) -> None:
    """However the parent ends, its child is gone a moment later."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path], stderr=subprocess.DEVNULL, cwd=Path.cwd()
    )
    wait_until((tmp_path / "alive").exists, "the child's workload", timeout_s=60)
    (child,) = psutil.Process(parent.pid).children()
    os.kill(parent.pid, ending)
    parent.wait()

    wait_until(lambda: not child.is_running(), f"the end of {child}", timeout_s=60)
