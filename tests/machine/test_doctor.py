"""The doctor finds what is there and what is not, and harms nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab_utils import single_server
from lab_utils.cli import main
from lab_utils.folders import stage_folder
from lab_utils.machine import doctor
from lab_utils.machine.doctor import Row, examine
from lab_utils.machine.jars import locked
from lab_utils.processes import PORTS

pytestmark = pytest.mark.processes


def row(name: str) -> Row:
    """What the doctor says of one thing."""
    return next(row for row in examine() if row.name == name)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_runs_this_test_is_well() -> None:
    """Python and the locked packages, which this test runs on; the rows are those of the JSON."""
    said = CliRunner().invoke(main, ["doctor", "--json"]).stdout
    rows = {row.name: row for row in (Row(**each) for each in json.loads(said))}

    assert [True, True] == [rows["Python"].ok, rows["packages"].ok]
    assert {"Chromium", "Kafka 3.9's jars", "isolation", "quick start", "stages"} == {
        name for name, row in rows.items() if not row.required
    }


def test_an_empty_cache(cache: Path) -> None:
    """It has none of Kafka's 49 jars, which ./lab up fetches, and needs none of 3.9; it stays so.

    Every row that is not well names a command; every row that is well names none.
    """
    rows = examine()
    found = {row.name: row for row in rows}
    jars, older = found["Kafka's jars"], found["Kafka 3.9's jars"]

    assert all(row.ok == (row.fix is None) for row in rows)
    assert (False, "0 of 49", "./lab up") == (jars.ok, jars.what[:7], jars.fix)
    assert (False, False, "./lab prepare --kafka 3.9") == (older.ok, older.required, older.fix)
    assert f"from {PORTS.start} to {PORTS.stop}" in found["ports"].what
    assert [] == list(cache.iterdir())


def test_a_damaged_jar_is_named(cache: Path) -> None:
    """All of Spark's connector is there, and none is what its name says; ./lab up heals it."""
    jars = locked("spark")
    (cache / "jars").mkdir(parents=True)
    for jar in jars:
        jar.path.write_bytes(b"half of a jar")
    found = row("Spark's Kafka connector")

    assert (False, "./lab up") == (found.ok, found.fix)
    assert all(jar.path.name in found.what for jar in jars)


def test_no_java(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Without a Java anywhere, the row names the package that brings one; nothing is fetched."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("LAB_JAVA", raising=False)
    found = row("Java")

    assert not found.ok
    assert "openjdk-17-jre-headless" in (found.fix or "")


def test_a_cache_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache where a file is already is named, with the variable that chooses another."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "file" / "cache"))
    found = row("cache folder")

    assert (False, "set LAB_CACHE to a folder of yours") == (found.ok, found.fix)
    assert str(tmp_path / "file") in found.what


def test_a_stage_that_died(state: Path) -> None:
    """A stage whose process is gone is named, and ./lab down cleans up after it."""
    folder = stage_folder("03")
    folder.mkdir(parents=True)
    (folder / "server.json").write_text(json.dumps({"pid": os.getpid()}))

    assert Row("stages", False, "03 ended without cleaning up", "./lab down", False) == row(
        "stages"
    )


def test_a_stage_that_runs(state: Path) -> None:
    """A stage whose server lives is named with its process, whatever its file says."""
    lock = single_server.take_lock(stage_folder("03"))
    (stage_folder("03") / "server.json").write_text(json.dumps({"pid": 4711}))
    running = row("stages")
    (stage_folder("03") / "server.json").write_text("{")
    damaged = row("stages")
    os.close(lock or 0)

    assert ["running: 03 (pid 4711)", "running: 03 (pid None)"] == [running.what, damaged.what]


@pytest.mark.parametrize("version", [1, 2])
def test_memory_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A container's limit counts, whichever cgroups set it; what can be given back is free."""
    folder, names = {
        1: ("memory/", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")),
        2: ("", ("memory.max", "memory.current", "inactive_file")),
    }[version]
    (tmp_path / folder).mkdir(exist_ok=True)
    limit, used, cache = names
    (tmp_path / folder / limit).write_text("2000000000\n")
    (tmp_path / folder / used).write_text("900000000\n")
    (tmp_path / folder / "memory.stat").write_text(f"anon 1\n{cache} 100000000\n")
    monkeypatch.setattr(doctor, "CGROUP", tmp_path)

    assert "2000 MB, 1200 MB free" == row("memory").what
