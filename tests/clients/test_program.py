"""A program of any language in a run: bounded, and seen on the wire (its parent: test_orphans)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lab_utils.clients.live_run import LiveRun, Ticket
from lab_utils.errors import BadArgument, LabError, SetupError, WaitTimeout
from lab_utils.ledger.counts import count
from lab_utils.processes import is_running
from lab_utils.proxy.faults import drop_response

pytestmark = pytest.mark.processes

TELLS = """
import os, sys
print(*(os.environ[name] for name in ("BOOTSTRAP", "CLIENT_ID", "TOPIC", "MORE")))
print(sys.stdin.read().split(), file=sys.stderr)
sys.exit(3)
"""
# A shell begins in no time: the program is there when its time is up.
HANGS = ["sh", "-c", 'sleep 1000 & echo $! >"$0~"; mv "$0~" "$0"; echo I wait; wait']
OPENS = """
import os, sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP"], "linger.ms": 100,
                     "client.id": os.environ["CLIENT_ID"]})
"""
SENDS = f"""{OPENS}
for line in sys.stdin:
    producer.produce(os.environ["TOPIC"], line.strip(), partition=0)
    producer.flush()
"""
NAMES = f"""{OPENS}for key, value in (("shop", "0"), (None, "1"), ("shop", None)):
    producer.produce(os.environ["TOPIC"], value, key, partition=0)
    if key and value:
        producer.flush()  # alone in its batch
producer.flush()
"""


@pytest.fixture
def run(tmp_path: Path) -> LiveRun:
    ticket = Ticket(
        run="03-a", folder=str(tmp_path), bootstrap="127.0.0.1:1", topic="t", orders=("0", "ü")
    )
    return LiveRun(ticket)


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


def test_what_a_program_is_given(run: LiveRun, capsys: pytest.CaptureFixture[str]) -> None:
    """An address, a name, a topic, the orders; its code and all that it printed come back."""
    ended = run.execute(python(TELLS), name="java-1", environment={"MORE": "more"})

    assert 3 == ended.code
    assert {"127.0.0.1:1 03-a.java-1 t more", "['0', 'ü']"} == set(ended.output.splitlines())
    assert ended.output == capsys.readouterr().out


def test_output_is_bounded(run: LiveRun) -> None:
    """The end of a long output is kept, and a full pipe holds nobody up."""
    ended = run.execute(python("print('x' * 1_000_000 + 'end')"))

    assert (20_000, "end") == (len(ended.output), ended.output.strip()[-3:])


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        ("kcat -P", BadArgument, "got 'kcat -P'. No shell reads it"),
        ([], BadArgument, "a list of texts"),
        (["no-such-program"], SetupError, "'no-such-program' could not be started"),
    ],
)
def test_what_is_no_program(run: LiveRun, command: Any, kind: type[LabError], message: str) -> None:
    """A text, nothing, and what is not there are refused with what to do."""
    with pytest.raises(kind, match=message):
        run.execute(command)


@pytest.mark.parametrize("name", ["", "a.b", "producer-1", 3])
def test_what_is_no_name(run: LiveRun, name: Any) -> None:
    """A name is plain, and none of the lab's own."""
    with pytest.raises(BadArgument, match="a client's name is made of letters"):
        run.client_id(name)


def test_program_that_does_not_end(run: LiveRun, tmp_path: Path) -> None:
    """It is killed in its time with all that it started, and what it printed is told."""
    with pytest.raises(WaitTimeout, match="I wait"):
        run.execute([*HANGS, str(tmp_path / "pid")], timeout_s=2)

    assert not is_running(int((tmp_path / "pid").read_text()))


@pytest.mark.kafka
def test_outcomes_of_a_program_are_the_wires(perform: Any) -> None:
    """A fault finds it by its name; it writes nothing down, and what it was told is known."""
    fault = drop_response("Produce", nth=2, client_id="plain")
    rows = perform(lambda run: run.execute(python(SENDS), name="plain"), fault)
    told = [(row.kind, row.value, row.offset) for row in rows if row.source == "client"]
    (created,) = (row.detail for row in rows if row.kind == "created")

    assert "3 sent, 3 acked, 4 in the log, 1 duplicated" == str(count(rows))
    assert [("sent", "0", None), ("acked", "0", 0), ("sent", "1", None), ("acked", "1", 2),
            ("sent", "2", None), ("acked", "2", 3)] == [it for it in told if it[1]]  # fmt: skip
    assert ("-1", "false") == (created["acks"], created["enable.idempotence"])


@pytest.mark.kafka
def test_what_a_program_sent_is_what_the_log_has(perform: Any) -> None:
    """A key, no key, a tombstone; alone in its batch, and not."""
    rows = perform(lambda run: run.execute(python(NAMES), name="names"))
    found = {
        kind: sorted(str((row.offset, row.key, row.value)) for row in rows if row.kind == kind)
        for kind in ("acked", "record")
    }

    assert 3 == len(found["record"])
    assert found["record"] == found["acked"]
