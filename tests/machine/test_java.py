"""The Java that is used, and what is said where none serves.

`java` is a program that is asked for its version; where a version is not on this machine, a script
answers as that version does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab_utils import jupyter
from lab_utils.errors import SetupError
from lab_utils.machine.java import Java, find_java, why

SAYS = {
    8: 'openjdk version "1.8.0_392"\nOpenJDK Runtime Environment (build 1.8.0_392-b08)',
    11: 'openjdk version "11.0.22" 2024-01-16\nOpenJDK Runtime Environment',
    17: 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment',
    21: 'java version "21" 2023-09-19\nJava(TM) SE Runtime Environment',
}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("LAB_JAVA", raising=False)
    return tmp_path


def java(folder: Path, version: int) -> Path:
    """A java that says it is of this version."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "java"
    script.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'.'\n{SAYS[version]}\n.\n")
    script.chmod(0o755)
    return script


def test_java_on_path(machine: Path) -> None:
    """The java on PATH is used."""
    here = java(machine / "path", 17)

    assert Java(here, 17, SAYS[17] + "\n") == find_java(may_fetch=False)


@pytest.mark.parametrize(("home", "used"), [(21, 21), (8, 17)])
def test_java_home_comes_before_path(
    machine: Path, monkeypatch: pytest.MonkeyPatch, home: int, used: int
) -> None:
    """JAVA_HOME, a folder; with an old Java it does not hide the one on PATH that serves."""
    java(machine / "path", 17)
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk"))
    java(machine / "jdk" / "bin", home)

    assert used == find_java(may_fetch=False).version


@pytest.mark.parametrize(
    ("on_path", "variable", "version", "said"),
    [
        (17, "LAB_JAVA", 11, "LAB_JAVA must name Java 17 or newer; LAB_JAVA has Java 11"),
        (11, "JAVA_HOME", None, "JAVA_HOME has no Java that runs .*; PATH has Java 11"),
    ],
    ids=["LAB_JAVA is a wish, whatever else is there", "what there is does not serve"],
)
def test_refused(
    machine: Path, monkeypatch: pytest.MonkeyPatch, on_path: int, variable: str,
    version: int | None, said: str,
) -> None:  # fmt: skip
    """The message names what is there, and what to type on each system."""
    java(machine / "path", on_path)
    monkeypatch.setenv(variable, str(java(machine / "old", version) if version else machine))
    with pytest.raises(SetupError, match=f"(?s){said}.*apt-get install openjdk-17-jre-headless"):
        find_java(may_fetch=False)


def test_a_path_from_here(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAB_JAVA may be named from the folder that one is in; Kafka and kernels run in others."""
    here = java(machine / "jdk" / "bin", 17)
    monkeypatch.chdir(machine)
    monkeypatch.setenv("LAB_JAVA", "jdk")

    assert here == find_java().executable
    assert str(machine / "jdk") == jupyter.environment(Path("work"), "token")["LAB_JAVA"]


def test_a_fetched_jdk_is_found_again(machine: Path) -> None:
    """The JDK that an earlier start fetched is used, without a network."""
    java(machine / "fetched" / "bin", 17)
    (machine / "cache").mkdir()
    (machine / "cache" / "jdk").symlink_to(machine / "fetched")

    assert 17 == find_java(may_fetch=False).version


def test_few_files() -> None:
    """Where few files may be open a JVM does not always say so; another cause goes before."""
    code = (
        "from lab_utils.machine.java import why\n"
        "for said in ('Error loading java.security file', 'No space left on device'):\n"
        "    print(why(said, 'Ask. '))"
    )
    few, full = subprocess.check_output(
        ["/bin/sh", "-c", 'ulimit -n 128; exec "$0" -c "$1"', sys.executable, code], text=True
    ).splitlines()

    assert "a shell in which `ulimit -n` says 1024 or more." in few
    assert full.startswith("The disk is full;")
    assert "Ask. " == why("Error loading java.security file", "Ask. ")
