"""Who handed in what, and what a notebook tells besides its answers; no point rests on any of it.

    the path of a file  ─▶ learner
    its text            ─▶ predictions and what its outputs say happened, time at work
    its cells           ─▶ answers

The text is a learner's: it is read as data, within bounds, and nothing of it is run.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from lab_utils.audit.report import plain
from lab_utils.errors import BadArgument
from lab_utils.grading.cases import LABS, exercises
from lab_utils.grading.notebook import (
    grade_id,
    handed_in_notebook,
    learner_notebook,
    read_source,
    sources,
)
from lab_utils.grading.results import LONGEST, Believed, SubmissionResult
from lab_utils.grading.submission import (
    HAS_PASSED,
    Cell,
    files_below,
    known_cells,
    name_of,
    submissions,
)
from lab_utils.ledger.predictions import NO_ANSWER, predict

# How learning platforms name what they hand over. Moodle: a folder for each learner, or their files
# with such a name. Canvas: the name without spaces, the number of the user, that of the submission,
# and the file's own name.
MOODLE: Final = re.compile(
    r"(?P<learner>.+?)_(?P<number>\d+)_assignsubmission_(file|onlinetext)_?.*"
)
CANVAS: Final = re.compile(r"(?P<learner>[^_]+)(_LATE)?_(?P<user>\d+)_\d+_.+")
LEARNER: Final = "{learner}"
# What comes instead of a notebook. A browser may add an ending of its own to one.
ARCHIVE: Final = re.compile(r".*\.(zip|7z|rar|tar|tgz|gz)", re.IGNORECASE)
INSTEAD: Final = re.compile(rf"{ARCHIVE.pattern}|.*\.(ipynb\..+|html?|pdf)", re.IGNORECASE)

CHARACTERS_MAX: Final = 10_000  # of an answer
CALL_MAX: Final = 4_000  # of a cell with a prediction, which Python parses
PAUSE_S: Final = 15 * 60
TABLE: Final = ["yours", "observed"]


class HandedIn(NamedTuple):
    """A file that was handed in, and by whom."""

    path: Path
    learner: str


class Asked(NamedTuple):
    """A prediction that a lab asks for: its cell, and the heading above it."""

    cell: str
    where: str


def found(paths: Sequence[Path], pattern: str | None = None) -> list[HandedIn]:
    """The files to grade and who handed in each.

    Raises BadArgument if the pattern does not fit all, or for an archive that was named itself.
    """
    for path in paths:
        if ARCHIVE.fullmatch(path.name) and path.is_file():
            raise BadArgument(
                f"{plain(shown_path(path))} is an archive, and notebooks are graded. Unpack it, "
                "then name the folder with what was in it."
            )
    wanted = re.compile(_expression(pattern)) if pattern else None
    handed = []
    files = submissions(paths)
    layout = _Layout(paths, files)
    for path in files:
        fits = wanted.search(layout.as_others(path).as_posix()) if wanted else None
        if wanted and not fits:
            raise BadArgument(
                f"{plain(shown_path(path))} does not fit --learner {pattern}, so nobody knows who "
                "handed it in. Write {learner} where the name stands, * for what else varies."
            )
        learner = fits["learner"] if fits else layout.learner(path)
        handed.append(HandedIn(path, plain(shown_path(learner), LONGEST)))
    return handed


def no_notebooks(paths: Sequence[Path], handed: Sequence[HandedIn], out: Path) -> list[HandedIn]:
    """What was handed in by those of whom there is no notebook: an archive, a page, a print.

    The pages of OUT are the grading's own, by whatever way they are found.
    """
    others = [
        file
        for folder in paths if folder.is_dir()
        for file in files_below(folder) if INSTEAD.fullmatch(file.name)
        if not file.parent.resolve().is_relative_to(out.resolve())
    ]  # fmt: skip
    layout = _Layout(paths, [*(each.path for each in handed), *others])
    there = {layout.learner(each.path) for each in handed}
    found = ((file, layout.learner(file)) for file in others)
    return [
        HandedIn(file, plain(shown_path(learner), LONGEST))
        for file, learner in found
        if learner not in there
    ]


def mostly_of_one(handed: Sequence[HandedIn]) -> Iterator[str]:
    """What to tell if most notebooks are of one learner: that may be the name of a folder."""
    for learner, count in Counter(each.learner for each in handed).most_common(1):
        if count > max(2, len(handed) / 2):
            yield (
                f"{count} of {len(handed)} notebooks are of one learner, {learner}. If that is the "
                "name of a folder, name this folder, or say with --learner where the name stands."
            )


def described(result: SubmissionResult, path: Path) -> SubmissionResult:
    """The result with what its notebook tells besides answers; nothing of what cannot be read."""
    with suppress(OSError, ValueError, OverflowError):  # an archive may hold any time
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        result = replace(result, handed_in=at)
    if result.lab is None:
        return result
    # Whatever a learner's file holds: it must not end the grading of the others.
    with suppress(Exception):
        cells = handed_in_notebook(path).cells
        items = [each.item for each in exercises(result.lab)]
        return replace(
            result,
            predictions=tuple(_predictions(cells, asked(handed_out(result.lab)))),
            worked_s=_worked(cells, items),
        )
    return result


def _expression(pattern: str) -> str:
    """The regular expression of a pattern, which fits the end of a path.

    >>> re.search(_expression("{learner}/*.ipynb"), "course/ada/03.ipynb")["learner"]
    'ada'
    """
    if pattern.count(LEARNER) != 1:
        raise BadArgument(f"--learner must have {LEARNER} once; got {pattern!r}.")
    before, after = (re.escape(it).replace(r"\*", "[^/]*") for it in pattern.split(LEARNER))
    return f"(?:^|/){before}(?P<learner>[^/]+?){after}$"


class _Layout:
    """How the files lie below the folders that were named; of one that was named, it is itself.

    What lies in a learner's own folder has names of the learner's choice, which may be others'.
    """

    def __init__(self, paths: Sequence[Path], files: Iterable[Path]) -> None:
        self._roots = paths
        self._depths: dict[Path, int] = {}
        self._named_by_others: set[Path] = set()
        self._numbers: dict[tuple[Path, str], set[str]] = defaultdict(set)
        for path in files:
            root, below = self._below(path)
            self._depths[root] = min(len(below), self._depths.get(root, len(below)))
            if named := _by_platform(path):
                self._numbers[named.place, named.learner].add(named.number)
            else:
                self._named_by_others.add(root)

    def _below(self, path: Path) -> tuple[Path, tuple[str, ...]]:
        roots = (root for root in self._roots if root != path and path.is_relative_to(root))
        root = next(roots, path)
        return root, path.relative_to(root).parts

    def as_others(self, path: Path) -> Path:
        """The path as if it lay no deeper than the others: a pattern fits the end of a path."""
        root, below = self._below(path)
        return Path(root, *below[: self._depths[root] - 1], *below[-1:])

    def learner(self, path: Path) -> str:
        """Who handed in a file, where no pattern says it.

        The name in Moodle's folder or Canvas's file, if all have one, or if nothing is above it;
        else the first folder below the one that was named; else the file's name without what it
        has of the lab's own. Of two people with one name in Moodle, each has their number, too.
        """
        root, below = self._below(path)
        is_whole = len(below) < 2 or root not in self._named_by_others
        if named := _by_platform(path if is_whole else root / below[0] / "_"):
            is_one = len(self._numbers[named.place, named.learner]) < 2
            return named.learner if is_one else f"{named.learner}_{named.number}"
        if len(below) > 1:
            return below[0]
        for source in stems():
            if source in path.stem:
                rest = path.stem.replace(source, "", 1).strip("-_ .")
                return rest or path.absolute().parent.name
        return path.stem


class _Named(NamedTuple):
    """A name that a platform gave to what lies in a folder, and the number beside it."""

    place: Path
    learner: str
    number: str = ""


def _by_platform(path: Path) -> _Named | None:
    """Who handed in a file by the names that Moodle and Canvas give.

    The outermost one counts: what is in a folder of Moodle's the learner has named.
    """
    for place in (*reversed(path.parents), path):
        canvas = CANVAS.fullmatch(path.stem) if place == path else None
        if canvas:
            return _Named(place.parent, f"{canvas['learner']}_{canvas['user']}")
        if moodle := MOODLE.fullmatch(place.name):
            return _Named(place.parent, moodle["learner"], moodle["number"])
    return None


@cache
def stems() -> tuple[str, ...]:
    """The names of the labs' notebooks, without their ending."""
    return tuple(source.stem for source in sources(LABS).values())


def shown_path(path: Path | str) -> str:
    r"""A path as text that says which bytes it has; two that differ never look the same.

    >>> shown_path(os.fsdecode(b"Jos\xe9"))
    'Jos\\xe9'
    """
    return os.fsencode(path).replace(b"\\", b"\\\\").decode(errors="backslashreplace")


@cache
def handed_out(lab: str) -> list[dict[str, Any]]:
    """The cells of a lab's notebook as a learner gets it; none of a lab that is not there."""
    if (source := sources(LABS).get(lab)) is None:
        return []
    return list(learner_notebook(read_source(source), lab, exercises(lab)).cells)


@cache
def handed_out_answers(lab: str) -> dict[str, str]:
    """What stands in the answer cells before anyone has answered, by item."""
    return answers(known_cells(handed_out(lab), exercises(lab)))


def answers(cells: Iterable[Cell]) -> dict[str, str]:
    """What stands in the answer cells, by item, bounded and safe to show."""
    return {
        item: _lines(cell.source.replace(HAS_PASSED, "lab.check(...)"))
        for cell in cells
        for item in cell.answers
    }


def asked(cells: Sequence[dict[str, Any]]) -> tuple[Asked, ...]:
    """The predictions that a notebook asks for, as it was handed out, in its order."""
    found, heading = [], ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            headings = [line for line in cell["source"].splitlines() if line.startswith("#")]
            heading = headings[-1].lstrip("# ") if headings else heading
        if ".predict(" in _source(cell):
            found.append(Asked(cell["id"], heading))
    return tuple(found)


def _predictions(cells: list[dict[str, Any]], asked: Sequence[Asked]) -> Iterator[Believed]:
    """Each question of each prediction, with what the notebook's next comparison shows."""
    places = [place for place, cell in enumerate(cells) if ".predict(" in _source(cell)]
    by_cell = {each.cell: each for each in asked}
    if not any(cells[place].get("id") in by_cell for place in places):  # a tool took out the ids
        by_cell = {str(place): each for place, each in zip(places, asked, strict=False)}
    told: set[str] = set()
    for place, end in pairwise([*places, len(cells)]):
        cell = cells[place]
        about = by_cell.get(str(cell.get("id"))) or by_cell.get(str(place))
        if about is None or about.cell in told:
            continue
        told.add(about.cell)  # Once each, however many copies there are.
        seen = _observed(cells[place:end])
        for question, answer in _expected(_source(cell)).items():
            yield Believed(
                cell=about.cell,
                where=about.where,
                question=question,
                predicted=plain(answer),
                observed=seen.get(question),
            )


def _expected(source: str) -> dict[str, str]:
    """What a cell predicts, spelled as the lab compares it; {} if it is not written out."""
    # What is not written out, is no Python, or is of a size that no prediction has.
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError, TypeError, BadArgument):
        tree = ast.parse(source if len(source) <= CALL_MAX else "")
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "predict":
                said = {
                    keyword.arg: ast.literal_eval(keyword.value)
                    for keyword in node.keywords
                    if keyword.arg and keyword.arg != "because"
                }
                expected = predict(said, "").expected
                return {name: it for name, it in expected.items() if it != NO_ANSWER}
    return {}


def _observed(cells: list[dict[str, Any]]) -> dict[str, str]:
    """What the tables in these cells' outputs say was observed, by question."""
    seen = {}
    for cell in cells:
        for output in cell.get("outputs", ()):
            lines = str(output.get("data", {}).get("text/plain", "")).splitlines()
            if lines and lines[0].split() == TABLE:
                rows = (re.split(r" {2,}", line.strip()) for line in lines[1:LONGEST])
                seen.update({row[0]: plain(row[2]) for row in rows if len(row) > 2})
    return seen


def _worked(cells: list[dict[str, Any]], items: Sequence[str]) -> dict[str, float]:
    """Seconds between the runs of cells, by the item that they lead to; a long pause is no work.

    JupyterLab writes down when a cell ran last, if it is set to (recordTiming).
    """
    checks = {grade_id("check", item): item for item in items}
    ends = [(place, checks[name]) for place, cell in enumerate(cells)
            if (name := name_of(cell, checks.keys()))]  # fmt: skip
    ran: list[tuple[float, str]] = []
    for place, cell in enumerate(cells):
        with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            at = datetime.fromisoformat(cell["metadata"]["execution"]["iopub.execute_input"])
            item = next((item for end, item in ends if place <= end), "")
            ran.append((at.timestamp(), item))
    worked: dict[str, float] = {}
    for (begun, _), (ended, item) in pairwise(sorted(ran)):
        if ended - begun <= PAUSE_S:
            worked[item] = round(worked.get(item, 0.0) + ended - begun, 1)
    return worked


def _source(cell: dict[str, Any]) -> str:
    return str(cell["source"]) if cell["cell_type"] == "code" else ""


def _lines(source: str) -> str:
    return "\n".join(plain(line, LONGEST) for line in source[:CHARACTERS_MAX].splitlines())
