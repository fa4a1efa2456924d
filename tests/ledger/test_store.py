"""The store keeps every whole line, whatever happens to the process or the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event as Flag

import orjson
import pytest

from lab_utils.errors import LedgerError
from lab_utils.ledger import store
from lab_utils.ledger.predictions import predict
from lab_utils.ledger.store import Witness, read_ledger, torn_lines, write_ledger
from tests.called import call
from tests.histories import sent


def test_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    """What two witnesses wrote is read as one history, oldest first, by its owner alone.

    A line break, a quote or a NUL in a value cannot forge a second event.
    """
    hostile = 'a\n{"run":"r","source":"client","kind":"acked"}\x00"\u2028'
    first, second, third = sent("1", at_ns=10), sent("2", at_ns=20), sent(hostile, at_ns=30)
    write_ledger(tmp_path / "run", [first, third], "client")
    write_ledger(tmp_path / "run", [second], "wire")

    assert [first, second, third] == read_ledger(tmp_path / "run")
    assert 0o600 == (tmp_path / "run" / "wire.jsonl").stat().st_mode & 0o777
    assert 0o700 == (tmp_path / "run").stat().st_mode & 0o777


def test_torn_line_is_reported_and_the_rest_is_kept(tmp_path: Path) -> None:
    """A witness that was killed inside a line loses that line and no other."""
    write_ledger(tmp_path, [sent("1"), sent("2")])
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"run":"r","source":"cli')

    assert ["1", "2"] == [event.value for event in read_ledger(tmp_path)]
    assert ["events.jsonl:3"] == torn_lines(tmp_path)


@pytest.mark.parametrize("number", ["3", 3.5, True, 2**63])
def test_a_wrong_type_is_reported(tmp_path: Path, number: object) -> None:
    """Spark's schema leaves such a line out, and so it is named."""
    line = {"run": "r", "source": "client", "actor": "p", "kind": "acked", "offset": number}
    (tmp_path / "events.jsonl").write_bytes(orjson.dumps(line))

    assert ["events.jsonl:1"] == torn_lines(tmp_path)
    assert [] == read_ledger(tmp_path)


def test_a_file_is_not_closed_under_a_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number would be another file's by then, which would get the line."""
    witness = Witness(tmp_path, "client")
    writes, may_go_on = Flag(), Flag()

    def append(file: int, line: bytes) -> None:
        writes.set()
        may_go_on.wait(10)
        os.fstat(file)  # Raises OSError once it is closed.

    monkeypatch.setattr(store, "append", append)
    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(witness.record, sent("1"))
        assert writes.wait(10)
        closing = threads.submit(witness.close)
        with pytest.raises(TimeoutError):
            closing.result(0.2)
        may_go_on.set()
        writing.result(10)
        closing.result(10)

    assert witness.trouble is None


ENDLESS = """
import sys
from pathlib import Path
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import Witness
witness = Witness(Path(sys.argv[1]), "killed")
number = 0
while True:
    witness.record(Event(run="r", source="client", actor="p", kind="sent", value=str(number)))
    number += 1
    if number == 1000:
        print("alive", flush=True)
"""


def test_where_nothing_can_be_kept(tmp_path: Path) -> None:
    """A file where a folder has to be: a sentence, before anything is run."""
    (tmp_path / "03").touch()
    with pytest.raises(LedgerError, match=r"ledger cannot be kept in .*/03/a: Not a directory\."):
        Witness(tmp_path / "03" / "a", "wire")
    with pytest.raises(LedgerError, match=r"prediction cannot be kept in .*/03: File exists\."):
        predict({"acked": 3}, "nothing breaks").store(tmp_path / "03")


def test_sigkill_loses_at_most_the_last_line(tmp_path: Path) -> None:
    """A process killed while it writes leaves every earlier event, in order, without a gap."""
    child = subprocess.Popen([sys.executable, "-c", ENDLESS, tmp_path], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"alive\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()

    values = [int(event.value or -1) for event in read_ledger(tmp_path)]
    assert list(range(len(values))) == values
    assert len(values) >= 1000
    assert len(torn_lines(tmp_path)) <= 1


FULL = """
import resource, signal, sys
from pathlib import Path
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import Witness, write_ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
events = [Event(run="r", source="client", actor="p", kind="sent", value=str(n)) for n in range(100)]
witness = Witness(Path(sys.argv[1]), "full")
for event in events:
    witness.record(event)
print(witness.trouble)
write_ledger(Path(sys.argv[1]), events, "history")
"""


def test_full_disk_keeps_what_is_recorded_and_says_so(tmp_path: Path) -> None:
    """A file that may not grow (a real limit) ends in whole lines and a reason, not in an error.

    A history that does not fit is an error at once.
    """
    child = call([sys.executable, "-c", FULL, tmp_path])
    (tmp_path / "history.jsonl").unlink()

    values = [int(event.value or -1) for event in read_ledger(tmp_path)]
    assert list(range(len(values))) == values
    assert 10 < len(values) < 100
    assert [] == torn_lines(tmp_path)
    assert child.stdout.startswith("the ledger could not be written: ")
    assert 1 == child.returncode
    assert LedgerError.__name__ in child.stderr
    assert "Free some space" in child.stderr
