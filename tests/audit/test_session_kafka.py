"""The Spark session: one JVM for a state folder, and nothing left when it is over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab_utils.audit import server, session
from lab_utils.errors import LedgerError
from lab_utils.grading.inside import run_query
from lab_utils.ledger.store import write_ledger
from lab_utils.waiting import wait_until
from tests.histories import in_run, log, sent

pytestmark = pytest.mark.kafka

JOIN = "from lab_utils.audit import server; print(server.join('local[1]').pid)"


def join_in_process(state: Path, owner: int | None = None) -> int:
    """Join from another process; the pid of the JVM."""
    environment = {**os.environ, "LAB_STATE": str(state), "LAB_OWNER": str(owner or os.getpid())}
    joined = subprocess.run(
        [sys.executable, "-c", JOIN], env=environment, capture_output=True, text=True, check=True
    )
    assert joined.stderr == ""
    return int(joined.stdout)


def test_processes_share_one_server(state: Path) -> None:
    """Two processes of one state folder join one JVM; stop() ends it and removes its folder."""
    first, second = join_in_process(state), join_in_process(state)
    keeper = server.running(state / "spark")
    assert keeper is not None
    server.stop(state / "spark")

    assert first == second
    assert (False, False) == (server.is_running(first), server.is_running(keeper.keeper))
    assert not (state / "spark").exists()


def test_the_server_ends_with_its_owner(state: Path) -> None:
    """When the owner is killed, the JVM, the keeper and every file of theirs are gone."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        jvm = join_in_process(state, owner.pid)
        owner.kill()
        owner.wait()
    wait_until(lambda: not (state / "spark").exists(), "the folder to go", timeout_s=20)

    assert not server.is_running(jvm)


def test_a_removed_folder_is_left_to_who_makes_it_anew(state: Path) -> None:
    """A keeper whose folder was removed ends, and takes nothing from the next one's."""
    join_in_process(state)
    removed = server.running(state / "spark")
    assert removed is not None
    os.kill(removed.keeper, signal.SIGSTOP)
    shutil.rmtree(state / "spark")
    jvm = join_in_process(state)
    os.kill(removed.keeper, signal.SIGCONT)
    wait_until(lambda: not server.is_running(removed.keeper), "the keeper to end", timeout_s=20)
    found, has_files = server.running(state / "spark"), (state / "spark" / "tmp").exists()
    server.stop(state / "spark")

    assert not server.is_running(removed.pid)
    assert found is not None
    assert (jvm, True) == (found.pid, has_files)


def test_warm_up_does_not_block() -> None:
    """warm_up() returns at once, and spark() gives the session that it started."""
    session.warm_up()

    assert session.spark().range(3).count() == 3
    assert session.spark() is session.spark()


def test_a_torn_line_is_reported(tmp_path: Path) -> None:
    """What is half written is left out, and a warning says where."""
    write_ledger(tmp_path, in_run("00-a", [sent("1"), *log("1")]))
    with (tmp_path / "client.jsonl").open("w", encoding="utf-8") as file:
        file.write('{"run":"00-a","source":"cli')
    with pytest.warns(UserWarning, match="client.jsonl:1"):
        events = session.read_events(tmp_path)

    assert events.count() == 3


def test_no_ledger(tmp_path: Path) -> None:
    """A folder without a ledger is refused by name."""
    with pytest.raises(LedgerError, match="there is no ledger in"):
        session.read_events(tmp_path)


def test_columns_of_a_ledger(tmp_path: Path) -> None:
    """A ledger's detail is a map, and what an event does not say is null."""
    write_ledger(tmp_path, in_run("00-a", log("1")))
    rows = session.read_events(tmp_path).orderBy("at_ns").collect()

    assert [(row.offset, row.value, row.error) for row in rows] == [(0, "1", None), (None,) * 3]
    assert rows[1].detail == {"drained": "true"}


def test_a_wrong_query_is_told_in_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark's error says what is wrong first; nothing is printed, and no Scala is in it."""
    write_ledger(tmp_path, in_run("00-a", log("1")))
    said = run_query(lambda events: events.where("ofset = 1"), str(tmp_path))

    assert "`ofset` cannot be resolved. Did you mean" in json.loads(said)["raised"]
    assert ("", "") == capfd.readouterr()
