"""What is made once for a machine: it is made by one, kept while it is used, and then removed."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from lab_utils.errors import SetupError
from lab_utils.folders import cache_folder, state_folder
from lab_utils.machine.quick_start import KEPT_S, make_once


def made(path: Path) -> Path:
    """What is at this path, made if it is not there."""
    make_once(path, lambda aside: aside.write_text("made"))
    return path


def leave_for(path: Path, seconds: float) -> None:
    """Let it be so long since somebody asked for it."""
    at = time.time() - seconds
    os.utime(path, (at, at))


def test_what_nobody_asks_for_is_removed(tmp_path: Path) -> None:
    """When another is made; one that was asked for lately stays, and so does another kind."""
    old, used, other = (made(tmp_path / it) for it in ("spark-1.jsa", "spark-2.jsa", "kafka-1.jsa"))
    for each in (old, used, other):
        leave_for(each, KEPT_S + 60)
    made(used)
    made(tmp_path / "spark-3.jsa")

    assert {"kafka-1.jsa", "spark-2.jsa", "spark-3.jsa"} == {
        path.name for path in tmp_path.glob("*.jsa")
    }


def test_a_folder_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    """Templates are folders; the lock of one is not of its kind."""
    for name in ("template-1", "template-2"):
        make_once(tmp_path / name, lambda aside: (aside / "meta").mkdir(parents=True))
        leave_for(tmp_path / name, KEPT_S + 60)

    assert ["template-2"] == [path.name for path in tmp_path.iterdir() if path.is_dir()]


def test_what_a_killed_start_has_left_goes(tmp_path: Path) -> None:
    """The next start that makes the same removes it, and nothing that makes another thing."""
    for name in ("spark-1.jsa", "spark-2.jsa"):
        (tmp_path / f"making-{name}-abc" / name).mkdir(parents=True)
    make_once(tmp_path / "spark-1.jsa", Path.touch)

    assert {"making-spark-2.jsa-abc", "spark-1.jsa"} == {
        path.name for path in tmp_path.iterdir() if path.suffix != ".lock"
    }


def test_nothing_can_be_written(tmp_path: Path) -> None:
    """What the system refuses is told with what to do."""
    (tmp_path / "cache").touch()

    with pytest.raises(SetupError, match=r"template-1 cannot be made .*set LAB_CACHE"):
        made(tmp_path / "cache" / "template-1")


def test_a_name_that_java_takes_for_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars of a class path are parted by a character that a folder's name may have."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / f"a{os.pathsep}b"))

    with pytest.raises(SetupError, match="Set LAB_CACHE to a folder without one"):
        cache_folder()


def test_a_name_that_spark_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A colon is one thing, a sign of a pattern another; with both Hadoop takes it for a URI."""
    monkeypatch.setenv("LAB_STATE", str(tmp_path / "a:b"))
    assert tmp_path / "a:b" == state_folder()
    monkeypatch.setenv("LAB_STATE", str(tmp_path / "a:b [1]"))

    with pytest.raises(
        SetupError, match=r"has a ':' and a '\[' .* Set LAB_STATE to a folder without"
    ):
        state_folder()


def test_an_interrupt_leaves_nothing_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where it came between a folder and the knowledge of its name."""
    real = tempfile.mkdtemp

    def interrupted(**place: Any) -> str:
        real(**place)
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_once(tmp_path / "spark-1.jsa", Path.touch)

    assert [] == list(tmp_path.glob("making-*"))
