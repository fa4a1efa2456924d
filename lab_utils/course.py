"""The course page: the question of each lab, its minutes, and the points that were reached.

    lab.check ── keep ──▶ runs/NN/points.json, the best ones ── write ──▶ work/Course.md

JupyterLab opens on it and shows it as a page, with links to the notebooks, light or dark as all
else. What stands in it of a lab is read from the notebook's first cell.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from lab_utils.folders import FURTHER, runs_folder
from lab_utils.working_folder import ROOT, handed_out, write_whole

PAGE: Final = "Course.md"
KEPT: Final = "points.json"
# In the environment of a kernel that ./lab up has started.
FOLDER: Final = "LAB_FOLDER"
ABOUT: Final = re.compile(
    r"^(\d+) minutes · (.+?)(?: · (\d+) points)?(?: · builds on (.+))?$", re.M
)

HEAD: Final = """\
# What does Kafka really promise?

Write real client code, predict, break exactly one thing, and see on the wire and in the log what
happened.

{next}

| lab | minutes | runs on | builds on | points |
|:----|--------:|:--------|:----------|-------:|
{rows}
"""
MORE: Final = """
More runs, without points:

| further | minutes | runs on | builds on |
|:--------|--------:|:--------|:----------|
{rows}
"""
FOOT: Final = """
The points are the best that `lab.check` has given you here; each check writes this page anew, and
to open it again shows it. A grading runs your answers under faults that you have not seen.
[Claims](Claims.md) has what common texts say of delivery, and which runs decide it.
"""
# Ends the page, and is not shown: who writes into the page finds it beside the next one.
SEAL: Final = "\n<!-- {} -->\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One lab: its notebook, its question, and what its first cell says of it."""

    lab: str
    notebook: str
    question: str
    minutes: str
    runs_on: str
    points: int
    builds_on: str

    @property
    def link(self) -> str:
        """The lab as a link to its notebook."""
        return f"[{self.lab} {self.question}]({self.notebook})"


def entries() -> list[Entry]:
    """The labs of the course, in sequence."""
    return list(map(_entry, handed_out()))


def further() -> list[Entry]:
    """The notebooks without exercises."""
    return list(map(_entry, handed_out(folder=FURTHER)))


def best(lab: str) -> dict[str, tuple[str, int]]:
    """The best verdict on each exercise of a lab so far: its status and its points."""
    try:
        kept = json.loads((runs_folder(lab) / KEPT).read_bytes())
        return {str(item): (str(status), int(points)) for item, (status, points) in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # nothing was checked yet, or somebody has written there


def keep(lab: str, item: str, status: str, points: int) -> None:
    """Keep a verdict if none was better, and write the page anew; no check fails for it."""
    kept = best(lab)
    if item in kept and kept[item][1] > points:
        return
    with suppress(OSError):
        folder = runs_folder(lab)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / KEPT, json.dumps(kept | {item: (status, points)}).encode())
        if FOLDER in os.environ:
            write(Path(os.environ[FOLDER]))


def write(folder: Path) -> str | None:
    """Write the course page into the folder where a learner works.

    What is there and was not written here is the learner's: it gets another name, which is
    returned.
    """
    place, text, kept = folder / PAGE, page(entries(), further()), None
    if os.path.lexists(place) and not _is_as_written(place):
        names = (place.with_stem(f"{place.stem}-yours{number}") for number in ("", *range(2, 1000)))
        kept = next(name for name in names if not os.path.lexists(name))
        place.rename(kept)
    write_whole(place, f"{text}{SEAL.format(sha256(text.encode()).hexdigest())}".encode())
    return kept.name if kept else None


def _is_as_written(place: Path) -> bool:
    """Does a page end with the seal of what stands above it?"""
    try:
        found = re.fullmatch(f"(.*){SEAL.format('(.*)')}", place.read_text(encoding="utf-8"), re.S)
    except (OSError, ValueError):
        return False
    return found is not None and sha256(found[1].encode()).hexdigest() == found[2]


def page(course: list[Entry], more: Sequence[Entry] = ()) -> str:
    """The course page, as Markdown; `more` are the notebooks without exercises."""
    reached = {each.lab: sum(points for _, points in best(each.lab).values()) for each in course}
    rows = "\n".join(
        f"| {each.link} | {each.minutes} | {each.runs_on} | {each.builds_on} "
        f"| {reached[each.lab]} of {each.points}{' ✓' * (reached[each.lab] >= each.points)} |"
        for each in course
    )
    others = "\n".join(
        f"| {each.link} | {each.minutes} | {each.runs_on} | {each.builds_on} |" for each in more
    )
    head = HEAD.format(next=_next(course, reached), rows=rows)
    return head + (MORE.format(rows=others) if more else "") + FOOT


def _next(course: list[Entry], reached: Mapping[str, int]) -> str:
    """Where to go on: from the lab that was checked last, the first that lacks points."""
    last = max(course, key=lambda each: (_checked_at(each.lab), -course.index(each)))
    on = [*course[course.index(last) :], *course]
    lacking = next((each for each in on if reached[each.lab] < each.points), None)
    if lacking is None:
        return "**You have every point of the course.**"
    points = reached[lacking.lab]
    if _checked_at(last.lab):
        return f"**Go on with {lacking.link}**: {points} of {lacking.points} points so far."
    return f"**Begin with {lacking.link}**: {lacking.minutes} minutes."


def _checked_at(lab: str) -> float:
    try:
        return (runs_folder(lab) / KEPT).stat().st_mtime
    except OSError:
        return 0


def _entry(path: Path) -> Entry:
    """What the first cell of a notebook says: its question, and a line of facts."""
    first = "".join(json.loads(path.read_bytes())["cells"][0]["source"])
    about = ABOUT.search(first)
    assert about is not None, path
    minutes, runs_on, points, builds_on = about.groups("")
    question = first.partition("\n")[0].removeprefix("# ")
    place = path.relative_to(ROOT / "labs").as_posix()
    return Entry(path.name[:2], place, question, minutes, runs_on, int(points or 0), builds_on)
