"""The course page says where to go on, and keeps the best of what was reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab_utils import course
from lab_utils.folders import runs_folder
from lab_utils.grading.cases import exercises

pytestmark = pytest.mark.usefixtures("state")


def test_each_lab_is_on_it() -> None:
    """A row says of each lab what its notebook says, with the points of its exercises."""
    entries = course.entries()
    text = course.page(entries)

    numbers = "00 01 02 03 04 05 06 07 08 71 72 73 74 75 76"
    assert numbers.split() == [each.lab for each in entries]
    assert [sum(it.points for it in exercises(each.lab)) for each in entries] == [
        each.points for each in entries
    ]
    assert all((course.ROOT / "labs" / name).exists() for name in re.findall(r"\]\((.+?)\)", text))
    assert all(f"| {each.link} | {each.minutes} | {each.runs_on} |" in text for each in entries)


def test_the_further_notebooks_are_on_it() -> None:
    """A row says of each what its first cell says, and links to it; none has points."""
    more = course.further()
    text = course.page(course.entries(), more)

    assert {f"further/{it.name}" for it in course.ROOT.glob("labs/further/*.ipynb")} == {
        each.notebook for each in more
    }
    assert [] == [each for each in more if each.points or not each.builds_on]
    assert all(f"| {each.link} | {each.minutes} | {each.runs_on} |" in text for each in more)


def test_it_says_where_to_go_on() -> None:
    """Begin with the first; go on with the lab that was checked last, or with the next one."""
    first, third, last = (course.entries()[place] for place in (0, 3, -1))
    assert f"**Begin with {first.link}**: 15 minutes." in course.page(course.entries())
    course.keep("03", "03.1", "FAIL", 0)
    assert f"**Go on with {third.link}**: 0 of 20 points" in course.page(course.entries())
    course.keep("03", "03.1", "PASS", 3)
    assert f"**Go on with {third.link}**: 3 of 20 points so far." in course.page(course.entries())
    course.keep("03", "rest", "PASS", third.points - 3)
    after = course.entries()[4]
    assert f"**Go on with {after.link}**: 0 of" in course.page(course.entries())
    for each in course.entries():
        if each != last:
            course.keep(each.lab, "all", "PASS", each.points)
    assert f"**Go on with {last.link}**: 0 of {last.points} points" in course.page(course.entries())
    course.keep(last.lab, "all", "PASS", last.points)
    assert "**You have every point of the course.**" in course.page(course.entries())


def test_the_best_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong answer after a right one costs nothing; each check writes the page anew."""
    monkeypatch.setenv("LAB_FOLDER", str(tmp_path))
    for status, points in (("FAIL", 0), ("PASS", 3), ("FAIL", 0)):
        course.keep("03", "03.1", status, points)

    assert {"03.1": ("PASS", 3)} == course.best("03")
    assert "| 3 of 20 |" in (tmp_path / course.PAGE).read_text()


@pytest.mark.parametrize("there", ["", "[]", '{"03.1": 3}', '{"03.1": ["PASS", "many"]}'])
def test_what_somebody_wrote_there_is_nothing(there: str) -> None:
    """What is no list of verdicts is none, and the next check is kept."""
    runs_folder("03").mkdir(parents=True)
    (runs_folder("03") / course.KEPT).write_text(there)

    assert {} == course.best("03")
    course.keep("03", "03.1", "PASS", 3)
    assert {"03.1": ("PASS", 3)} == course.best("03")


def test_no_check_fails_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be kept, a check goes on without."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAB_FOLDER", str(tmp_path / "file"))
    course.keep("03", "03.1", "PASS", 3)

    assert {"03.1": ("PASS", 3)} == course.best("03")
