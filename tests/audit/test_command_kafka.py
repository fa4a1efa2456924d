"""./lab audit, as somebody calls it: what it prints, writes and leaves, and how it ends."""

from __future__ import annotations

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
from lab_utils.audit.command import MADE, _made_beside, _refuse_an_inner_folder
from lab_utils.cli import main
from lab_utils.errors import BadArgument
from lab_utils.folders import put
from lab_utils.ledger.store import write_ledger
from lab_utils.waiting import wait_until
from tests.histories import acked, in_run, log, sent

pytestmark = pytest.mark.kafka

LOST = [sent("1"), acked("1", 0), *log()]
KEPT = [sent("1"), acked("1", 0), *log("1")]
LOST_BY_ANOTHER = [sent("1", actor="shop"), acked("1", 0, actor="shop"), *log()]
CONTRACT = """
[clients."producer-1"]
role = "producer"
acks = -1
[clients.shop]
role = "producer"
acks = 1
[topics.orders]
replicas = 3
"""


def command(arguments: Sequence[str | Path], **how: Any) -> subprocess.Popen[str]:
    return processes.spawn(
        [sys.executable, "-m", "lab_utils.cli", "audit", *map(str, arguments)],
        environment=dict(os.environ),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how,
    )  # fmt: skip


def test_an_audit_from_the_command_line(tmp_path: Path, state: Path) -> None:
    """It prints the table, writes findings, page and ledger, ends its Spark, and exits with 1.

    What the ledger does not say of its clients, the contract does.
    """
    write_ledger(tmp_path / "runs" / "a", in_run("a", LOST))
    write_ledger(tmp_path / "runs" / "b", in_run("b", KEPT))
    write_ledger(tmp_path / "runs" / "c", in_run("c", LOST_BY_ANOTHER))
    with (tmp_path / "runs" / "b" / "events.jsonl").open("a") as file:
        file.write('{"torn')
    (tmp_path / "contract.toml").write_text(CONTRACT)
    out = tmp_path / "out" / "first"
    (tmp_path / "out" / "first").mkdir(parents=True)
    (out / "audit.html").write_text("of an earlier audit")
    audit = command([tmp_path / "runs", "--contract", tmp_path / "contract.toml", "--out", out])
    table, progress = audit.communicate()

    assert (1, f"The findings are in {out}.\n") == (audit.returncode, progress)
    assert "lost-write" in table
    assert "breach" in table
    assert f"{tmp_path}/runs/b/events.jsonl:5: no whole JSON object" in table
    assert "10 events, 3 runs: 2 findings, 1 breach; 1 line left out." in table
    assert "No consumer recorded" in table
    assert "Nobody recorded the wire" in table
    assert "--contract" not in table
    assert sorted(MADE) == sorted(path.name for path in out.iterdir())
    names = ["run", "finding", "value", "judgement", "allowed_by"]
    found = pd.read_parquet(out / "findings").sort_values("run")[names]
    assert [
        ["a", "lost-write", "1", "breach", None],
        ["c", "lost-write", "1", "allowed", "acks=1"],
    ] == found.to_numpy().tolist()
    assert "lost-write" in (out / "audit.html").read_text()
    assert [] == [*processes.of_folder(state), *(tmp_path / "out").glob(".*"), *state.glob("*/*")]


@pytest.mark.parametrize("while_spark", ["starts", pytest.param("works", marks=pytest.mark.long)])
def test_ctrl_c(tmp_path: Path, state: Path, while_spark: str) -> None:
    """An audit that is interrupted ends Spark, and leaves what was there before."""
    write_ledger(tmp_path / "runs", in_run("a", LOST))
    audit = command([tmp_path / "runs", "--out", tmp_path / "out"])
    signs = {"starts": "audits/*/spark.log", "works": "../.out-*/ledger"}
    wait_until(lambda: [*state.glob(signs[while_spark])], "Spark", timeout_s=100)
    audit.send_signal(signal.SIGINT)
    _, said = audit.communicate()

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
        (["runs", "--out", "wrong.toml/out"], "the audit cannot write to --out wrong.toml/out: "),
        (["runs", "--out", "runs/out"], "--out runs/out and the ledger runs lie one within"),
        (["runs", "--out", "."], "--out . and the ledger runs lie one within"),
        (["runs", "--out", "link/out"], "--out link/out and the ledger runs lie one within"),
        (["runs", "--out", "gone"], "--out names gone, which is a link to nowhere. Name a folder"),
        (["runs", "--out", "mine"], "--out mine has a ledger that this command has not made"),
        (["runs", "--out", "mixed"], "--out mixed has a findings that this command has not made"),
        (["runs", "--out", "page"], "--out page has a audit.html that this command has not made"),
        (["runs", "--out", "linked"], "--out linked has a ledger that this command has not made"),
        (["a\x1b[2J\u202e"], r"there is no ledger at a\x1b[2J\u202e: no such file"),
    ],
)
def test_what_cannot_be_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    """It is refused before Spark starts, with exit code 2."""
    write_ledger(tmp_path / "runs", in_run("a", LOST))
    (tmp_path / "wrong.toml").write_text("[client]")
    (tmp_path / "link").symlink_to("runs")
    (tmp_path / "gone").symlink_to("nowhere")
    for own in ("mine/ledger/part-0.parquet", "mixed/audit.html", "mixed/findings/a.jsonl",
                "page/audit.html/x", "linked/audit.html"):  # fmt: skip
        (tmp_path / own).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / own).touch()
    (tmp_path / "linked" / "ledger").symlink_to("../mine/ledger")
    monkeypatch.chdir(tmp_path)
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(SystemExit) as ended:
        main(["audit", *arguments], prog_name="lab")
    for each, handler in before.items():
        signal.signal(each, handler)

    assert 2 == ended.value.code
    assert said in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "mine/ledger/part-0.parquet").exists()
    assert (tmp_path / "mixed/findings/a.jsonl").exists()


@pytest.mark.parametrize("ledger", [".", "../runs"])
@pytest.mark.parametrize("out", ["../audit", "../audit/of", "../runs-2"])
def test_a_folder_beside_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str, out: str
) -> None:
    """Dots in a path put nothing within it."""
    write_ledger(tmp_path / "runs", in_run("a", LOST))
    monkeypatch.chdir(tmp_path / "runs")
    _refuse_an_inner_folder([ledger], Path(out))


def test_where_the_results_are_put(tmp_path: Path) -> None:
    """In the place of those of an earlier audit; a folder that is there is used, not left."""
    out = tmp_path / "out"
    for audit, made in ((1, MADE), (2, ("findings", "audit.html"))):
        with _made_beside(out) as place:
            assert place.parent == (tmp_path if audit == 1 else out)  # which may be another disk
            for name in made:
                (place / name).mkdir() if "." not in name else (place / name).touch()
    assert ["audit.html", "findings"] == sorted(it.name for it in out.iterdir())

    (tmp_path / "file").touch()
    with pytest.raises(BadArgument, match=r"cannot be put into --out .*file: .* Does another one"):
        put(out, tmp_path / "file", MADE)


def test_closed_descriptors(tmp_path: Path) -> None:
    """No file that a command opens has the number of one, as Spark's log: it would be closed."""
    opens = "main(['prepare'], standalone_mode=False); sys.exit(open('log', 'w').fileno())"
    line = f'"{sys.executable}" -c "import sys; from lab_utils.cli import main; {opens}"'
    ended = subprocess.run(f"{line} <&- >&- 2>&-", shell=True, cwd=tmp_path, check=False)

    assert ended.returncode > 2


@pytest.mark.parametrize(
    ("way", "code", "said"),
    [(">&-", 0, "--out DIR keeps the findings and a page.\n"),
     (">/dev/full", 2, "the report cannot be printed: No space left on device. --out DIR keeps")],
)  # fmt: skip
def test_an_output_that_takes_nothing(
    tmp_path: Path, spark_address: str, monkeypatch: pytest.MonkeyPatch,
    way: str, code: int, said: str,
) -> None:  # fmt: skip
    """What can be said is, and a full disk is named."""
    write_ledger(tmp_path / "runs", in_run("a", KEPT))
    monkeypatch.setenv("SPARK_REMOTE", spark_address)
    line = f'"{sys.executable}" -m lab_utils.cli audit "{tmp_path}/runs" {way}'
    ended = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)

    assert code == ended.returncode
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_nobody_reads_on(
    tmp_path: Path, spark_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `| head -1` an audit ends with the code that it has found, and without a word."""
    monkeypatch.setenv("SPARK_REMOTE", spark_address)
    write_ledger(tmp_path / "runs", in_run("a", KEPT))
    audit = command([tmp_path / "runs"])
    audit.stdout.close()  # type: ignore[union-attr]
    audit.stdout = None
    _, said = audit.communicate()

    assert (0, "") == (audit.returncode, said)
