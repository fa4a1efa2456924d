"""What a learner has done is never overwritten.

Each edition is a folder of notebooks as a clone has it, and each step is a start of the lab.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from lab_utils import course
from lab_utils.cli import main
from lab_utils.course import PAGE
from lab_utils.errors import SetupError
from lab_utils.working_folder import (
    CLAIMS,
    RECORD,
    Handed,
    hand_out,
    handed_out,
    write_whole,
)

ROOT = Path(__file__).parents[1]


@pytest.fixture
def labs(tmp_path: Path) -> Path:
    """A clone's folder of one lab, in edition A."""
    (tmp_path / "labs" / "source").mkdir(parents=True)
    edition(tmp_path / "labs", "A")
    (tmp_path / "labs" / "Untitled.ipynb").write_text("somebody's")
    (tmp_path / "labs" / "source" / "draft.py").touch()
    return tmp_path / "labs"


def edition(labs: Path, text: str, name: str = "00_one") -> None:
    """What an update brings."""
    for folder in ("", "source"):
        (labs / folder / name).parent.mkdir(exist_ok=True)
    (labs / "source" / f"{name}.py").touch()
    (labs / f"{name}.ipynb").write_text(text)


def contents(folder: Path) -> dict[str, str]:
    """The files that the learner sees."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_what_is_unchanged_is_replaced(labs: Path, tmp_path: Path) -> None:
    """The first start fills the folder, the second does nothing, an update brings the new one."""
    work = tmp_path / "work"
    assert Handed(added=["00_one.ipynb"]) == hand_out(work, labs)
    assert Handed() == hand_out(work, labs)
    edition(labs, "B")
    edition(labs, "b", "01_two")
    edition(labs, "more", "further/00_more")
    (labs / "further" / "mine.ipynb").touch()
    added = ["01_two.ipynb", "00_more.ipynb"]
    assert Handed(added, ["00_one.ipynb"]) == hand_out(work, labs)
    given = {"00_one.ipynb": "B", "01_two.ipynb": "b", "further/00_more.ipynb": "more"}
    assert given == contents(work)
    assert Handed() == hand_out(work, labs)


def test_a_seat_without_solutions(labs: Path, tmp_path: Path) -> None:
    """Where there is no source at all, each notebook is a lab."""
    shutil.rmtree(labs / "source")
    (labs / "Untitled.ipynb").unlink()

    assert Handed(added=["00_one.ipynb"]) == hand_out(tmp_path / "work", labs)


def test_what_is_changed_is_kept(labs: Path, tmp_path: Path) -> None:
    """Each new edition is put beside the learner's own; one that is changed is kept, too."""
    work = tmp_path / "work"
    hand_out(work, labs)
    (work / "00_one.ipynb").write_text("mine")
    assert Handed() == hand_out(work, labs)

    for text in ("B", "C"):  # C replaces B, in which nothing was done
        edition(labs, text)
        assert Handed(kept={"00_one.ipynb": "00_one-new.ipynb"}) == hand_out(work, labs)
        assert {"00_one.ipynb": "mine", "00_one-new.ipynb": text} == contents(work)
        assert Handed() == hand_out(work, labs)

    (work / "00_one-new.ipynb").write_text("mine, too")
    for text in ("D", "E"):
        edition(labs, text)
        assert Handed(kept={"00_one.ipynb": "00_one-new-2.ipynb"}) == hand_out(work, labs)
    assert {"mine", "mine, too", "E"} == set(contents(work).values())


def test_what_is_no_notebook_stays(labs: Path, tmp_path: Path) -> None:
    """A folder of that name, a pipe, a link to a disk that is away: the notebook is put beside."""
    for number, name in enumerate(("01_two", "02_three", "03_four")):
        edition(labs, str(number), name)
    work = tmp_path / "work"
    (work / "01_two.ipynb").mkdir(parents=True)
    (work / "02_three.ipynb").symlink_to(tmp_path / "away")
    os.mkfifo(work / "03_four.ipynb")
    handed = hand_out(work, labs)

    names = ["01_two", "02_three", "03_four"]
    assert {f"{name}.ipynb": f"{name}-new.ipynb" for name in names} == handed.kept
    assert ["0", "1", "2"] == [(work / f"{name}-new.ipynb").read_text() for name in names]
    assert (work / "01_two.ipynb").is_dir()
    assert (work / "02_three.ipynb").is_symlink()


def test_a_page_of_the_learners_is_kept(labs: Path, tmp_path: Path) -> None:
    """Of that name one may be there before the first start, or be written into later."""
    work = tmp_path / "work"
    work.mkdir()
    (labs / CLAIMS).write_text("claims")
    (work / CLAIMS).write_text("mine")
    assert {CLAIMS: "Claims-new.md"} == hand_out(work, labs).kept
    assert ("mine", "claims") == ((work / CLAIMS).read_text(), (work / "Claims-new.md").read_text())

    (work / PAGE).write_text("mine")
    assert "Course-yours.md" == course.write(work)
    assert course.write(work) is None
    written = (work / PAGE).read_text()
    (work / PAGE).write_text(f"{written}mine, too")
    assert "Course-yours2.md" == course.write(work)
    (work / PAGE).unlink()
    (work / PAGE).mkdir()
    assert "Course-yours3.md" == course.write(work)
    kept = [(work / f"Course-yours{number}.md").read_text() for number in ("", "2")]
    assert (["mine", f"{written}mine, too"], written) == (kept, (work / PAGE).read_text())


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """No half of a file stays, whose name nobody knows."""
    (tmp_path / "there").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "there", b"text")

    assert ["there"] == [path.name for path in tmp_path.iterdir()]


def test_two_starts_at_once(labs: Path, tmp_path: Path) -> None:
    """Neither takes away what the other is writing."""
    with ThreadPoolExecutor(4) as starts:
        done = [starts.submit(hand_out, tmp_path / "work", labs) for _ in range(40)]

    assert [None] * 40 == [each.exception() for each in done]


def test_what_is_deleted_comes_back(labs: Path, tmp_path: Path) -> None:
    """To begin anew is to delete the notebook; a new edition that was deleted stays away."""
    work = tmp_path / "work"
    hand_out(work, labs)
    (work / "00_one.ipynb").write_text("mine")
    edition(labs, "B")
    hand_out(work, labs)
    (work / "00_one-new.ipynb").unlink()
    assert Handed() == hand_out(work, labs)
    (work / "00_one.ipynb").unlink()
    assert Handed(added=["00_one.ipynb"]) == hand_out(work, labs)
    assert {"00_one.ipynb": "B"} == contents(work)


@pytest.mark.parametrize("record", [None, "", "[1, 2]", '{"00_one.ipynb": 5}'])
def test_a_lost_record_overwrites_nothing(labs: Path, tmp_path: Path, record: str | None) -> None:
    """Without what was handed out, each notebook that differs counts as the learner's."""
    work = tmp_path / "work"
    hand_out(work, labs)
    edition(labs, "B")
    (work / RECORD).unlink() if record is None else (work / RECORD).write_text(record)

    assert Handed(kept={"00_one.ipynb": "00_one-new.ipynb"}) == hand_out(work, labs)
    assert {"00_one.ipynb": "A", "00_one-new.ipynb": "B"} == contents(work)


def test_a_folder_that_cannot_be_written(labs: Path, tmp_path: Path) -> None:
    """A file where the folder should be is named, and the option that chooses another."""
    (tmp_path / "work").touch()
    with pytest.raises(SetupError, match=r"could not be put into .*/work: File exists.*--folder"):
        hand_out(tmp_path / "work", labs)


def test_the_command_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAB_FOLDER, as in a container, is filled with the labs; what is kept is named."""
    monkeypatch.setenv("LAB_FOLDER", str(tmp_path))
    said = [CliRunner().invoke(main, ["notebooks"]) for _ in range(2)]
    names = sorted(path.name for path in (ROOT / "labs").glob("[0-9]*.ipynb"))
    more = {f"further/{path.name}" for path in (ROOT / "labs").glob("further/*.ipynb")}
    (tmp_path / names[3]).write_text("mine")
    (tmp_path / RECORD).unlink()
    said.append(CliRunner().invoke(main, ["notebooks"]))
    first, second, third = ("".join(each.output.split()) for each in said)
    there = set(contents(tmp_path)) - {new_name(names[3]), PAGE, CLAIMS} - more

    assert names == sorted(there)
    assert [] == [name for name in names if name not in first]
    assert "" == second
    assert f"changedit:{names[3]}.Theneweditionisbesideit:{new_name(names[3])}." in third


@pytest.mark.kafka
def test_up_serves_the_folder(tmp_path: Path) -> None:
    """`./lab up` fills the folder and serves it where it was told to.

    There are the notebooks and the course page.
    """
    ip = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
    command = [sys.executable, "-m", "lab_utils.cli", "up", "--port", "0", "--ip", ip]
    chosen = {"LAB_FOLDER": str(tmp_path / "work"), "LAB_TOKEN": "t", "COLUMNS": "200"}
    environment = {**os.environ, **chosen}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as up:
        assert up.stderr is not None
        said = next((line for line in up.stderr if "http://" in line), "ended")
        address = said.split()[-1].partition("/lab/tree/Course.md?")[0]
        assert address.startswith(f"http://{ip}:")
        answer = httpx.get(f"{address}/api/contents", params={"token": "t"}, timeout=None)
        shown = answer.json()["content"]
        up.terminate()
        assert 0 == up.wait()

    given = {name.partition("/")[0] for name in contents(tmp_path / "work")}
    assert given == {each["name"] for each in shown}
    assert len(handed_out()) + len([PAGE, CLAIMS, "further"]) == len(shown)


def new_name(name: str) -> str:
    return name.replace(".ipynb", "-new.ipynb")
