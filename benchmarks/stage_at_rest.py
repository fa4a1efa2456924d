"""What the whole lab takes at rest: JupyterLab, one kernel with lab 03 open, a broker, Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import start_new_kernel

from benchmarks import Figure
from lab_utils import processes
from lab_utils.jupyter import command, environment
from lab_utils.waiting import wait_until

FIRST_CELLS = """
from lab_utils import Lab
lab = Lab("rest")
def send(run):
    producer = run.producer()
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()
lab.run(send).events().count()
"""


def stage_at_rest() -> Iterator[Figure]:
    """Megabytes of all and of each part (its proportional share of the memory)."""
    labs = Path(__file__).parents[1] / "labs"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state:
        variables = environment(labs, "bench") | {"LAB_STATE": state}
        os.environ.update({"LAB_STATE": state, "PYTHONPATH": variables["PYTHONPATH"],
                           "LAB_OWNER": str(os.getpid())})  # fmt: skip
        server = subprocess.Popen(
            command(labs, processes.free_port(0), browser=False), env=variables,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        manager, client = start_new_kernel(kernel_name="python3", env=dict(os.environ))
        try:
            reply = client.execute_interactive(FIRST_CELLS, output_hook=lambda _: None, timeout=120)
            assert reply["content"]["status"] == "ok", reply["content"]
            provisioner: Any = manager.provisioner
            parts = _parts(state, server.pid, provisioner.process.pid)
            client.execute_interactive("lab.close()", output_hook=lambda _: None, timeout=60)
        finally:
            manager.shutdown_kernel(now=True)
            server.terminate()
            server.wait()
            subprocess.run([sys.executable, "-m", "lab_utils.cli", "down"], check=False,
                           env=variables, capture_output=True)  # fmt: skip
            wait_until(lambda: not _of_state(state), "the stage to end", timeout_s=30)
    sizes = {name: round(size) for name, size in parts.items()}
    yield Figure("megabytes of the lab at rest", sum(parts.values()), "at most 1500", sizes)


def _parts(state: str, jupyterlab: int, kernel: int) -> dict[str, float]:
    sizes = {"JupyterLab": _mb([jupyterlab]), "kernel": _mb([kernel])}
    for process in _of_state(state):
        line = " ".join(process.cmdline())
        is_kafka, is_java = "kafka.Kafka" in line, "java" in process.cmdline()[0]
        name = "broker" if is_kafka else "Spark" if is_java else "servers and guardian"
        sizes[name] = sizes.get(name, 0) + _mb([process.pid])
    return sizes


def _of_state(state: str) -> list[psutil.Process]:
    """The processes that were started for this state folder, but for Jupyter's."""
    found = processes.with_variable("LAB_STATE", state)
    names = {process.pid: " ".join(processes.words(process)) for process in found}
    return [it for it in found if not re.search("ipykernel|jupyterlab", names[it.pid])]


def _mb(pids: list[int]) -> float:
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids) / 1e6
