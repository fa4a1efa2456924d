"""A workload with crash points runs in a process that is really killed, and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients.crash import CrashWatch
from lab_utils.clients.live_run import LiveRun, Workload
from lab_utils.clients.workload import Children, WorkloadError, carry_out, pickled
from lab_utils.errors import BadArgument, WaitTimeout
from lab_utils.processes import is_running
from lab_utils.proxy.faults import crash_client, refuse
from lab_utils.waiting import wait_until
from tests.clients.opened import Opened, billing
from tests.performed import sending, transactional

pytestmark = pytest.mark.kafka


begin_anew = sending()


def story(opened: Opened) -> list[str]:
    """What the process did, in order: its acks, its ends, and its starts."""
    told = {"acked", "started", "finished", "crashed", "raised"}
    rows = opened.rows(source="workload") + opened.rows("acked")
    return [
        row.value if row.kind == "acked" else row.kind
        for row in sorted(rows, key=lambda row: row.at_ns)
        if row.kind in told
    ]  # type: ignore[misc]


def test_killed_and_started_again(opened: Opened) -> None:
    """The process dies after its second ack, and its successor begins anew.

    The fault is armed, fires once, and says where; the second process and its clients can be told
    from the first in every event.
    """
    opened.under(crash_client("after_ack", nth=2))
    error, told = carry_out(begin_anew, opened.ticket), story(opened)
    rows = opened.finish()
    names = ["producer-1", "producer-11"]

    assert error is None
    assert ["started", "0", "1", "crashed", "started", "0", "1", "2", "finished"] == told
    assert ["0", "1", "0", "1", "2"] == [
        row.value for row in rows if (row.source, row.kind) == ("log", "record")
    ]
    assert [("armed", "2"), ("fired", "2")] == [
        (row.kind, row.detail["nth"]) for row in opened.rows(source="fault")
    ]
    assert ["after_ack"] == [
        row.detail["point"] for row in opened.rows("crashed", source="workload")
    ]
    assert [1, 2] == [row.attempt for row in opened.rows("started", source="workload")]
    assert names == [row.actor for row in opened.rows("created")]
    assert set(names) == {
        row.actor for row in rows if (row.api, row.kind) == ("Produce", "request")
    }


def test_two_crashes(opened: Opened) -> None:
    """The second crash is for the second process, counted from its own start.

    After the second send the third is never handed over.
    """
    opened.under(crash_client("after_ack", nth=1), crash_client("after_send", nth=2))
    carry_out(begin_anew, opened.ticket)

    assert "started 0 crashed started 0 crashed started 0 1 2 finished" == " ".join(story(opened))
    assert ["0", "0", "1", "0", "1", "2"] == [row.value for row in opened.rows("sent")]


def is_fenced(run: LiveRun) -> None:
    """Sends in a transaction; a commit that is refused for good ends it."""
    producer = transactional(run)
    producer.begin_transaction()
    producer.produce(run.topic, run.orders[run.attempt], partition=0)
    producer.commit_transaction()


@pytest.mark.parametrize(
    ("once", "told"),
    [(True, "started raised started finished"), (False, "started raised started raised")],
)
def test_supervised(opened: Opened, once: bool, told: str) -> None:
    """A process that a client's error has ended is started again, once and no more."""
    opened.under(refuse("EndTxn", nth=1, error="PRODUCER_FENCED", once=once))
    error = carry_out(is_fenced, replace(opened.ticket, supervised=True))
    seen = [it for it in story(opened) if not it.isdigit()]
    opened.finish()

    assert error is None
    assert told == " ".join(seen)


def test_consumer_that_dies(opened: Opened) -> None:
    """With the protocol of KIP-848, too, what was not committed is processed again."""
    opened.under(crash_client("after_process", nth=2), filled=True)

    assert carry_out(billing(group_protocol="consumer"), opened.ticket) is None
    assert "0 1 1 2" == " ".join(row.value or "" for row in opened.rows("processed"))


def divide(run: LiveRun) -> None:
    print("before")  # noqa: T201
    1 / 0  # noqa: B018


def print_without_end(run: LiveRun) -> None:
    while True:
        print("x" * 1_000_000)  # noqa: T201


def loud(run: LiveRun) -> None:
    for _ in range(100):
        os.write(1, b"\xff" * 10_000)
    raise SystemExit("enough")


NOT_BY_THE_LAB = r"The workload's process {}, and not by the lab\.$"
TOO_MUCH = r"\nThe process printed more than 20,000,000 characters: no more is read\.$"
# how a process ends that nobody has killed, what is told of it, and its story
ENDS: dict[str, tuple[Workload, str, list[str]]] = {
    "raises": (
        divide, r"^before\nTraceback(?s:.*)ZeroDivisionError: division by zero\n$",
        ["started", "raised"],
    ),
    "prints without end": (print_without_end, TOO_MUCH, ["started", "raised"]),
    "prints what is no text, and much": (loud, "SystemExit: enough\n$", ["started", "raised"]),
    "leaves": (
        lambda _: os._exit(1), NOT_BY_THE_LAB.format("ended with exit code 1"), ["started"],
    ),
    "leaves as who gave up": (
        lambda _: os._exit(3), NOT_BY_THE_LAB.format("ended with exit code 3"), ["started"],
    ),
    "kills itself": (
        lambda _: os.kill(os.getpid(), signal.SIGKILL),
        NOT_BY_THE_LAB.format("was killed by SIGKILL"), ["started"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("workload", "said", "told"), ENDS.values(), ids=ENDS)
def test_ended_by_itself(opened: Opened, workload: Workload, said: str, told: list[str]) -> None:
    """It has not finished its workload, is not started again, and there is always a reason."""
    opened.under(crash_client("after_ack", nth=1))
    error = carry_out(workload, opened.ticket)

    assert isinstance(error, WorkloadError)
    assert re.search(said, str(error))
    assert told == story(opened)


def test_files_beside_the_notebook(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner's own module is found there, and none that has the name of an installed one."""
    (tmp_path / "mine_alone.py").write_text("")
    for name in ("click", "orjson", "confluent_kafka"):
        (tmp_path / f"{name}.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    opened.under(crash_client("after_ack", nth=1))

    assert carry_out(lambda run: __import__("mine_alone"), opened.ticket) is None


def test_says_points_without_end(opened: Opened) -> None:
    """Nobody listens to that for as long as it lasts; a process without an answer cannot go on."""
    opened.under(crash_client("after_ack", nth=1))

    def talk(run: LiveRun) -> None:
        while True:
            run._crashes._asked(point="after_poll", values=["x" * 50_000])

    assert isinstance(carry_out(talk, opened.ticket), WorkloadError)


def sorts(_: object) -> str:
    """A workload that makes a class, whose body names what the module has imported."""

    class Word(Enum):
        ACKED = auto()

    return Word.ACKED.name


def test_what_the_body_of_a_class_names() -> None:
    """A class that a workload makes finds in another process what its body names."""
    load = "import sys, cloudpickle; print(cloudpickle.load(sys.stdin.buffer)(None))"
    done = subprocess.run([sys.executable, "-c", load], input=pickled(sorts), capture_output=True)

    assert (b"ACKED\n", b"") == (done.stdout, done.stderr)


def test_workload_that_cannot_travel() -> None:
    """A workload that holds what cannot be pickled is refused with a sentence that names it.

    Where one of its names has no value yet, which is to blame cannot be looked up.
    """
    lock = threading.Lock()

    def too_early(_: object) -> object:
        return lock, later

    for workload, held in ((lambda _: lock, "`lock`"), (too_early, "something")):
        with pytest.raises(BadArgument, match=f"in a process of its own.* uses {held}, which"):
            pickled(workload)
    later = None


def test_hanging_child_is_killed(opened: Opened) -> None:
    """A workload that does not end is killed when its time is up, children and all."""
    opened.under(crash_client("after_ack", nth=1))
    note = opened.experiment.folder / "pids"

    def hang(run: Any) -> None:
        other = os.fork()
        if other:
            note.write_text(f"{os.getpid()} {other}")
        signal.pause()

    with pytest.raises(WaitTimeout, match=r"waited 2 s for the workload's process"):
        carry_out(hang, opened.ticket, timeout_s=2)
    pids = [int(pid) for pid in note.read_text().split()]
    wait_until(lambda: not any(map(is_running, pids)), f"the end of {pids}", timeout_s=60)


@pytest.mark.parametrize(
    ("at", "point", "values", "is_killed"),
    [
        ("after_ack", "after_ack", ["1", "2"], True),
        ("after_ack", "after_ack", ["1"], False),
        ("after_ack", "after_ack", "12", False),
        ("after_ack", "after_poll", None, False),
        ("after_db_write", "after_commit", ["1", "2"], True),
        ("after_db_write", "after_commit", ["1"], False),
    ],
)
def test_a_point_counts_that_is_about_the_order(
    at: str, point: str, values: object, is_killed: bool, tmp_path: Path
) -> None:
    """The parent asks which orders a point is about, where that matters; it never says of which.

    A fault may name two points: then the process dies at the one that it comes to first.
    """
    fault, died_at = crash_client(at, value="2", or_at="after_commit"), list[Any]()
    parent = Children(tmp_path, tmp_path, 60)
    parent.before_kill = lambda _, it: died_at.append(it)  # type: ignore[method-assign]
    watch = CrashWatch("r", [fault], lambda _: None, parent, lambda: None)
    watch.start()
    with watch.channel.dup() as channel, channel.makefile("rwb") as lines:

        def said(**message: object) -> bytes:
            lines.write(json.dumps(message).encode() + b"\n")
            lines.flush()
            return lines.readline()

        first = said(point=point)
        then = said(point=point, values=values)
    watch.close()

    assert (b"0\n" if values is None else b"-1\n") == first
    assert (b"" if is_killed else b"0\n") == then
    assert [point] * is_killed == died_at


@pytest.mark.parametrize("last", [b"[" * 50_000, b"5"])
def test_a_process_that_says_what_no_workload_says(last: bytes, tmp_path: Path) -> None:
    """What it says a thousand times starts no thread, and what has another form ends the watch."""
    watch = CrashWatch("r", [], lambda _: None, Children(tmp_path, tmp_path, 60), lambda: None)
    watch.start()
    before = threading.active_count()
    with watch.channel.dup() as channel, channel.makefile("rb") as answers:
        for _ in range(1000):
            channel.sendall(b'{"point": "while_committing", "under_way": true}\n')
            assert b"0\n" == answers.readline()
        during = threading.active_count()
        channel.sendall(last + b"\n")
        said = answers.readline()
    watch.close()

    assert (before, b"") == (during, said)
