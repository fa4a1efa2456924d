"""A standalone Spark cluster on this machine: Spark's own master and its workers, a core each.

    spark://127.0.0.1:PORT   master ◀── worker 1 ── executor
                                    ◀── worker 2 ── executor

It is what docs/cluster.md describes, on one machine: the tests and the benchmark run the audit on
it. What a worker was running dies with the worker.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lab_utils import processes
from lab_utils.audit.spark_server import spark_home
from lab_utils.machine.java import find_java
from lab_utils.waiting import wait_until

START_S: Final = 60
WORKERS: Final = 2
MEMORY: Final = "2g"
CLASSES: Final = "org.apache.spark.deploy"


class SparkCluster:
    """A running cluster with its files in `folder`. `address` is what SPARK_MASTER takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port, web = processes.free_ports(2)
        self.address = f"spark://127.0.0.1:{port}"
        address = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
        self._running = [self._start("master", "master.Master", *address)]
        self._wait_for(lambda: _is_open(port), "Spark's master")
        for number in range(1, WORKERS + 1):
            self._start_worker(number)

    def kill_worker(self) -> None:
        """SIGKILL the last worker, with all that runs on it."""
        processes.kill_group(self._running.pop())

    def close(self) -> None:
        """End the workers, then the master."""
        while self._running:
            processes.kill_group(self._running.pop())

    def _start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        self._running.append(
            self._start(
                name, "worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", MEMORY,
                "--webui-port", "0", "--work-dir", str(self._folder / name), self.address,
            )
        )  # fmt: skip
        log = self._folder / f"{name}.log"
        registered = "Successfully registered with master"
        self._wait_for(lambda: registered in log.read_text(), f"Spark's {name}")

    def _start(self, name: str, main_class: str, *arguments: str) -> subprocess.Popen[Any]:
        return processes.spawn(
            [str(spark_home() / "bin" / "spark-class"), f"{CLASSES}.{main_class}", *arguments],
            log=self._folder / f"{name}.log",
            environment={
                **{it: value for it, value in os.environ.items() if not it.startswith("SPARK_")},
                "SPARK_HOME": str(spark_home()),
                "JAVA_HOME": str(find_java().home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
            },
            preexec_fn=processes.end_with_parent,
        )

    def _wait_for(self, is_there: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            assert all(each.poll() is None for each in self._running), f"{what}: a process ended"
            return is_there()

        wait_until(look, what, timeout_s=START_S)


def _is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0
