"""./lab audit, as somebody calls it: what it prints, writes and leaves, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lab_utils import processes
from lab_utils.audit.command import MADE, audit_with
from lab_utils.audit.declared import Declared
from lab_utils.audit.session import spark
from lab_utils.cli import main
from lab_utils.ledger.store import write_ledger
from lab_utils.waiting import wait_until
from tests.histories import acked, in_run, log, sent

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

LOST = [sent("1"), acked("1", 0), *log()]
KEPT = [sent("1"), acked("1", 0), *log("1")]
LAB = [sys.executable, "-c", "from lab_utils.cli import main; main(prog_name='lab')", "audit"]


def command(arguments: Sequence[str | Path], **how: Any) -> subprocess.Popen[str]:
    return processes.spawn(
        [*LAB, *map(str, arguments)],
        environment=dict(os.environ),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how,
    )  # fmt: skip


def test_an_audit_from_the_command_line(tmp_path: Path, state: Path) -> None:
    """It prints the table, writes findings, page and ledger, ends its Spark, and exits with 1."""
    write_ledger(tmp_path / "runs" / "a", in_run("a", LOST))
    write_ledger(tmp_path / "runs" / "b", in_run("b", KEPT))
    with (tmp_path / "runs" / "b" / "events.jsonl").open("a") as file:
        file.write('{"torn')
    (tmp_path / "contract.toml").write_text('[clients."producer-1"]\nrole = "producer"\nacks = -1')
    out = tmp_path / "out" / "first"
    (tmp_path / "out" / "first").mkdir(parents=True)
    (out / "audit.html").write_text("of an earlier audit")
    audit = command([tmp_path / "runs", "--contract", tmp_path / "contract.toml", "--out", out])
    table, progress = audit.communicate()

    assert (1, f"The findings are in {out}.\n") == (audit.returncode, progress)
    assert "lost-write" in table
    assert "breach" in table
    assert f"{tmp_path}/runs/b/events.jsonl:5: no whole JSON object" in table
    assert "7 events, 2 runs: 1 finding, 1 breach; 1 line left out." in table
    assert sorted(MADE) == sorted(path.name for path in out.iterdir())
    (found,) = pd.read_parquet(out / "findings").to_dict("records")
    assert ("a", "lost-write", "1", "breach") == tuple(
        found[name] for name in ("run", "finding", "value", "judgement")
    )
    assert "lost-write" in (out / "audit.html").read_text()
    assert [] == [*processes.of_folder(state), *(tmp_path / "out").glob(".*"), *state.glob("*/*")]


@pytest.mark.parametrize("while_spark", ["starts", "works"])
def test_ctrl_c(tmp_path: Path, state: Path, while_spark: str) -> None:
    """An audit that is interrupted ends Spark, and leaves what was there before."""
    write_ledger(tmp_path / "runs", in_run("a", LOST))
    audit = command([tmp_path / "runs", "--out", tmp_path / "out"])
    signs = {"starts": "audits/*/spark.log", "works": "../.out-*/ledger"}
    wait_until(lambda: [*state.glob(signs[while_spark])], "Spark", timeout_s=100)
    audit.send_signal(signal.SIGINT)
    _, said = audit.communicate(timeout=60)

    assert 130 == audit.returncode
    assert "Interrupted: Spark has ended, and nothing was written.\n" in said
    assert [] == [*processes.of_folder(state), *state.glob("*/*")]
    assert ["runs"] == sorted(path.name for path in tmp_path.iterdir() if path != state)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no ledger at nowhere"),
        ([], "Missing argument 'PATH...'"),
        (["runs", "--contract", "nothing.toml"], "File 'nothing.toml' does not exist"),
        (["runs", "--contract", "wrong.toml"], "a table of the contract wrong.toml"),
        (["runs", "--out", "wrong.toml"], "--out names wrong.toml, which is a file"),
        (["runs", "--out", "runs/out"], "--out runs/out and the ledger runs lie one within"),
        (["runs", "--out", "."], "--out . and the ledger runs lie one within"),
    ],
)
def test_what_cannot_be_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    """It is refused before Spark starts, with exit code 2."""
    write_ledger(tmp_path / "runs", in_run("a", LOST))
    (tmp_path / "wrong.toml").write_text("[client]")
    monkeypatch.chdir(tmp_path)
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(SystemExit) as ended:
        main(["audit", *arguments], prog_name="lab")
    for each, handler in before.items():
        signal.signal(each, handler)

    assert 2 == ended.value.code
    assert said in " ".join(capsys.readouterr().err.split())


def audited(tmp_path: Path, lines: Sequence[dict[str, Any]], declared: Declared | None) -> Any:
    """The report of an audit by the Spark of the tests."""
    (tmp_path / "ledger.jsonl").write_text("\n".join(map(json.dumps, lines)))
    place = tmp_path / "place"
    place.mkdir()
    return audit_with(spark(), [str(tmp_path / "ledger.jsonl")], declared, place)


def test_a_contract_decides(tmp_path: Path) -> None:
    """What the ledger does not say of its clients the contract does."""
    names = {"run": "r", "topic": "orders", "partition": 0, "at_ns": 0, "value": "1"}
    client = names | {"source": "client", "actor": "shop"}
    lines = [
        client | {"kind": "sent"},
        client | {"kind": "acked", "offset": 0},
        names | {"source": "log", "actor": "reader", "kind": "end", "value": None,
                 "detail": {"drained": "true"}},
    ]  # fmt: skip
    declared = Declared({"shop": {"role": "producer", "acks": "1"}}, {"orders": {"replicas": "3"}})
    report = audited(tmp_path, lines, declared)

    assert [("lost-write", "allowed by acks=1")] == [
        (group.finding, group.judgement) for group in report.groups
    ]
    assert 0 == report.breaches
    assert not any("--contract" in sentence for sentence in report.unsaid)
    assert any("No consumer recorded" in sentence for sentence in report.unsaid)
    assert any("Nobody recorded the wire" in sentence for sentence in report.unsaid)
