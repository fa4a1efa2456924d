"""docs/ledger.md is true: its tables are complete, and its programs keep a ledger."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest

from lab_utils.audit.command import audit_with
from lab_utils.audit.contracts.defaults import effective
from lab_utils.audit.declared import read_contract
from lab_utils.audit.ledgers import COLUMNS
from lab_utils.audit.session import spark
from lab_utils.ledger.events import KINDS, NEEDED, SCHEMA
from lab_utils.machine.jars import locked
from lab_utils.machine.java import find_java

PAGE: Final = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")


def code(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(block)


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_column_and_kind_is_on_the_page() -> None:
    """And nothing else is, in the tables of the schema that the lab has."""
    first_cells = [row.split("|")[1] for row in section("Columns").splitlines() if "| `" in row]
    columns = re.findall(r"`(\w+)`", " ".join(first_cells))
    source, kinds = "", {}
    needed = {name: {} for name in NEEDED}
    for row in section("Kinds").splitlines():
        if match := re.match(r"\| (?:`(\w+)` )?\| ((?:`\w+` )+)\|", row):
            source = match[1] or source
            named = re.findall(r"\w+", match[2])
            kinds.setdefault(source, set()).update(named)
            for column in re.findall(r"`(\w+)`", row.split("|")[4].partition("`detail`")[0]):
                if column in needed:
                    needed[column].setdefault(source, set()).update(named)

    assert {*COLUMNS, "schema"} == set(columns)
    assert {source: set(names) for source, names in KINDS.items()} == kinds
    assert f"This is schema {SCHEMA}." in PAGE
    for column, sources in NEEDED.items():
        for source, names in sources.items():
            assert set(names) <= needed[column][source]
    may_lack = {"acked", "sought", "stored", "committed"}
    assert needed["offset"]["client"] - {*NEEDED["offset"]["client"]} == may_lack
    assert needed["offset"]["log"] - {*NEEDED["offset"]["log"]} == {"end", "committed"}


@pytest.mark.kafka
def test_the_program_keeps_a_ledger(stage: Any, reader: Any, tmp_path: Path) -> None:
    """It runs as it stands; the audit finds nothing, and in a copy the record that it lacks."""
    reader.create_topic("a_ledger", 2)
    program = [sys.executable, "-c", code("python"), stage.direct, "a_ledger", "1", "2", "3"]
    subprocess.run(program, cwd=tmp_path, check=True)
    rows = list(map(json.loads, (tmp_path / "ledger.jsonl").read_text().splitlines()))
    without = [row | {"run": "without"} for row in rows
               if (row["kind"], row.get("value")) != ("record", "2")]  # fmt: skip
    (tmp_path / "without.jsonl").write_text("\n".join(map(json.dumps, without)))
    audited = tmp_path / "audited"
    audited.mkdir()
    paths = [str(tmp_path / name) for name in ("ledger.jsonl", "without.jsonl")]
    found = audit_with(spark(), paths, None, audited)
    lost = pd.read_parquet(audited / "findings").to_dict("records")

    assert 0 == found.rejected.counts.total()
    assert (1 + 3 + 3 + 3 + 2, len(rows) - 1) == (len(rows), len(without))
    assert len(rows) + len(without) == found.events
    assert [("without", "lost-write", "2", "breach")] == [
        (row["run"], row["finding"], row["value"], row["judgement"]) for row in lost
    ]


@pytest.mark.kafka
def test_the_java_program_compiles(tmp_path: Path) -> None:
    """Against the client that Kafka's jars bring, where there is a compiler."""
    compiler = shutil.which("javac", path=str(find_java().home / "bin"))
    if compiler is None:
        pytest.skip("this Java has no compiler; a JDK has one")
    (tmp_path / "Shop.java").write_text(code("java"), encoding="utf-8")
    jars = ":".join(str(jar.path) for jar in locked("kafka"))
    subprocess.run([compiler, "-cp", jars, "Shop.java"], cwd=tmp_path, check=True)

    assert (tmp_path / "Shop.class").exists()


def test_the_contract_is_one(tmp_path: Path) -> None:
    """The example is read as it stands."""
    path = tmp_path / "contract.toml"
    path.write_text(code("toml"), encoding="utf-8")
    declared = read_contract(path)

    assert tomllib.loads(code("toml"))["clients"].keys() == declared.clients.keys()
    assert "true" == effective(declared.clients["shop"])["enable.idempotence"]
    assert "3" == declared.topics["orders"]["replicas"]
