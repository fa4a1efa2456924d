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

pytestmark = pytest.mark.processes

PARENT = """
import os, signal, sys
from pathlib import Path
from lab_utils.clients.live_run import LiveRun, Ticket
from lab_utils.clients.workload import carry_out
from lab_utils.proxy.faults import crash_client

def hang(run):
    print("alive", flush=True)
    Path(run.topic + "~").write_text(str(os.getpid()))
    Path(run.topic + "~").rename(run.topic)
    signal.pause()

how, pid = sys.argv[1:]
ticket = Ticket(run="03-a", folder=os.path.dirname(pid), bootstrap="", topic=pid, orders=(),
                crashes=(crash_client("after_ack"),))
if how == "workload":
    carry_out(hang, ticket, timeout_s=100)
else:
    shell = 'sleep 1000 & echo $! > "$0~"; mv "$0~" "$0"; wait'
    LiveRun(ticket).execute(["sh", "-c", shell, pid])
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["workload", "program"])
def test_child_ends_with_its_parent(tmp_path: Path, how: str, ending: signal.Signals) -> None:
    """However the parent ends, its workload, or what its program has started, is gone soon."""
    pid = tmp_path / "pid"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, how, pid], stderr=subprocess.DEVNULL, cwd=Path.cwd()
    )
    wait_until(pid.exists, "the child", timeout_s=60)
    child = psutil.Process(int(pid.read_text()))
    os.kill(parent.pid, ending)
    parent.wait()

    wait_until(lambda: not child.is_running(), f"the end of {child}", timeout_s=60)
