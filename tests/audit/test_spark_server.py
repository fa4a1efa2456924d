"""The shared Spark server: one JVM for a state folder, replaced when it died, gone when it is over.

The test of its life is a story, because each start of Spark costs seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lab_utils import processes, single_server
from lab_utils.audit import spark_server
from lab_utils.audit.spark_server import SparkServer
from lab_utils.errors import StageError
from lab_utils.machine.java import find_java
from lab_utils.waiting import wait_until

JOIN = """
from lab_utils import single_server
from lab_utils.audit import spark_server
single_server.ANSWER_S = 1.0  # what is silent here stays so
print(spark_server.join("local[1]").jvm)
"""
# The server is killed when it has answered, and before the first request.
JOIN_AN_END = """
import os, signal
from lab_utils.audit import session, spark_server
os.environ["SPARK_MASTER"] = "local[1]"
join = spark_server.join
def join_an_end(*arguments, **named):
    spark_server.join = join
    server = join(*arguments, **named)
    os.kill(server.jvm, signal.SIGKILL)
    return server
spark_server.join = join_an_end
print(session.spark().range(3).count())
"""


def join_in_process(owner: int, code: str = JOIN, warned: str = "") -> int:
    """Join from another process; the pid of the JVM, or what else the code prints."""
    environment = {**os.environ, processes.OWNER: str(owner)}
    joined = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert (joined.stderr == "") if not warned else (warned in joined.stderr)
    return int(joined.stdout)


def kill(pid: int) -> None:
    """SIGKILL, and return when it is gone."""
    processes.end([psutil.Process(pid)])


def found() -> SparkServer:
    """The server that runs."""
    server = spark_server.running()
    assert server is not None
    return server


@pytest.mark.parametrize("jvm", [os.getpid(), 2**22 + 1], ids=["taken", "free"])
def test_a_server_that_is_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jvm: int
) -> None:
    """What a killed container has left names nobody, nor who has its number in the next one.

    No program is needed to see it: the image has no ps.
    """
    monkeypatch.setenv("PATH", "/nowhere")
    lock = single_server.take_lock(tmp_path)
    assert lock is not None
    where = {"url": "sc://localhost:1", "token": "t", "jvm": jvm}
    single_server.Life(tmp_path, lock, None).say("serving", **where)
    assert single_server.is_served(tmp_path)
    assert spark_server.running(tmp_path) is None
    os.close(lock)


@pytest.mark.kafka
@pytest.mark.long
def test_the_life_of_a_spark_server(state: Path) -> None:
    """Processes share it; killed, stopped or removed it is replaced; it ends with its owner.

    Who asks for another cluster than the one that runs is told, and given no other's answers.
    """
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        first = join_in_process(owner.pid)
        assert first == join_in_process(owner.pid)

        with pytest.raises(StageError, match=r"runs on local\[1\].* asks for spark://host:7077"):
            spark_server.join("spark://host:7077")

        assert 3 == join_in_process(owner.pid, JOIN_AN_END)
        stopped = found().jvm
        assert stopped != first
        os.kill(stopped, signal.SIGSTOP)
        pid = single_server.read(state / "spark")["pid"]
        said = f"Spark (process {pid}) has not answered for 1 s: it is stopped or stuck"
        second = join_in_process(owner.pid, warned=said)
        assert second not in (first, stopped)
        assert not processes.is_running(stopped)

        removed = found()
        assert second == removed.jvm
        (state / "spark").rename(state.parent / "gone")  # at once: its JVM makes files meanwhile
        third = join_in_process(owner.pid)
        server = found()
        assert third == server.jvm
        wait_until(
            lambda: not any(map(processes.is_running, (removed.pid, removed.jvm))),
            "the end of the server whose folder was removed",
            timeout_s=300,
        )
        assert 0o600 == (state / "spark" / "server.json").stat().st_mode & 0o777

        owner.kill()
        owner.wait()
    wait_until(
        lambda: not any(map(processes.is_running, (third, server.pid))),
        "the end of a server whose owner has ended",
        timeout_s=300,
    )
    assert not (state / "spark").exists()


@pytest.mark.kafka
def test_a_spark_that_does_not_start(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says why: how its JVM ended, and what that printed."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\n[ $1 = -version ] && exec {find_java().executable} -version\n"
        "echo 'There is no memory for this JVM.' >&2\nexit 7\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("LAB_JAVA", str(java))
    with pytest.raises(StageError) as raised:
        spark_server.join("local[1]")

    assert "Spark did not start: its JVM ended with exit code" in str(raised.value)
    assert "There is no memory for this JVM." in str(raised.value)
    spark_server.stop()
    assert not (state / "spark").exists()


@pytest.mark.kafka
def test_a_shell_that_lets_nothing_be_opened(state: Path) -> None:
    """Spark's JVM ends over it in the midst of a hundred lines; the error says what to change."""
    limited = ["sh", "-c", 'ulimit -n 128; exec "$0" -c "$1"', sys.executable, JOIN]
    joined = subprocess.run(limited, capture_output=True, text=True, check=False)

    assert "Spark did not start: its JVM ended with exit code" in joined.stderr
    assert "start the lab in a shell in which `ulimit -n` says 1024" in joined.stderr
    assert "\tat java." not in joined.stderr


@pytest.mark.kafka
def test_a_machine_that_works_with_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings of Java, Hadoop and Spark are not the lab's, and a folder may have any name."""
    for name in ("HADOOP_CONF_DIR", "SPARK_HOME", "_JAVA_OPTIONS"):
        monkeypatch.setenv(name, "/no/such")
    properties = spark_server.write_properties(tmp_path, {"tmp": "a\nb\\"})

    assert "/no/such" not in spark_server.local_environment().values()
    assert "tmp=a\\nb\\\\\n" == properties.read_text()


@pytest.mark.kafka
def test_a_spark_that_is_too_slow(tmp_path: Path) -> None:
    """The error has what Spark had printed, although its server removes that when it is ended."""
    logs = ("server.log", "spark.log")
    arguments = (tmp_path, processes.SPARK_SERVER, ["local[1]"], lambda _: None, "Spark", logs)
    joining = single_server.Joining[None](*arguments)
    wait_until(
        lambda: joining.look() or processes.tail(tmp_path / "spark.log"),
        "its first words",
        timeout_s=300,
    )
    with pytest.raises(StageError) as raised:
        joining.join(0.1)

    assert str(raised.value).startswith("Spark did not start: waited 0.1 s for Spark to answer")
    assert "The last lines of spark.log:" in str(raised.value)
    assert [] == processes.of_folder(tmp_path)
