"""./lab gradebook: one row for each learner over the labs, for Moodle, for Canvas, to send back.

    OUT/submissions   ─╮                               ╭─ gradebook.csv  moodle.csv  canvas.csv
    OUT/overrides.csv ─┼─▶ a Mark by learner and lab ─┼─ learners/NAME/lab03.html
    roster, due times ─╯                               ╰─ similar.csv, a hint and no grade

It grades nothing and changes nothing in OUT. Of several notebooks of a learner for a lab the last
one handed in counts.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import compress
from math import ceil
from pathlib import Path
from typing import Final

from lab_utils.errors import BadArgument
from lab_utils.gradebook.roster import Person, Roster, read_roster, read_rows, spelled
from lab_utils.gradebook.similarity import alike
from lab_utils.grading import records
from lab_utils.grading.handed_in import handed_out_answers
from lab_utils.grading.reports import csv_text, feedback
from lab_utils.grading.results import GRADED, REJECTED, SubmissionResult, safe_name

OVERRIDES: Final = "overrides.csv"
ROSTER: Final = "roster.csv"
CANVAS: Final = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
NO_GRADE: Final = "-"
MOODLE: Final = ("Username", "ID number", "Email address")
ALIKE: Final = ("lab", "item", "learner", "and", "share of what is rare", "runs of tokens")
FEEDBACK_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Override:
    """Points that a teacher gave, for an item or for a whole lab, and why."""

    learner: str
    lab: str
    item: str
    points: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a learner has for a lab: what was graded, and what the teacher decided.

    result  None if there is only an override
    count   how many notebooks were handed in; one that was downloaded twice is one
    late    by how much the due time was missed; None if it is unknown or was not missed
    """

    result: SubmissionResult | None = None
    count: int = 0
    late: timedelta | None = None
    overrides: tuple[Override, ...] = ()

    @property
    def points(self) -> float | None:
        """The points; None where there is no grade: the teacher, or a new grading, decides."""
        whole = [each.points for each in self.overrides if not each.item]
        if whole:
            return whole[-1]
        if self.result is None or self.result.status != GRADED:
            return None
        given = {each.item: each.points for each in self.overrides}
        left = [item for item in self.result.items if item.item not in given]
        if any(item.status == "INFRASTRUCTURE" for item in left):
            return None
        return sum(given.values()) + sum(item.points for item in left)

    def remarks(self) -> Iterator[str]:
        """What the learner should know beside the verdicts."""
        if self.late:
            yield f"Handed in {timedelta(seconds=ceil(self.late.total_seconds()))} late."
        if self.count > 1:
            yield f"{self.count} notebooks were handed in; the last one counts."
        for each in self.overrides:
            yield f"{each.item or 'The whole lab'}: {each.points:g} points, {each.reason}"


@dataclass(slots=True)
class Book:
    """The marks by learner and lab, and what the teacher should know of."""

    roster: Roster
    marks: dict[str, dict[str, Mark]] = field(default_factory=lambda: defaultdict(dict))
    possible: dict[str, int] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _names: dict[int, str] = field(default_factory=dict)

    def known_as(self, learner: str) -> str:
        """The one name that a learner has here, whatever a file calls them.

        Of someone on the roster it is the first that is asked for.
        """
        person = self.roster.find(learner)
        name = spelled(learner)
        return self._names.setdefault(id(person), name) if person else name

    def knows(self, learner: str) -> bool:
        """Has this learner, by the name they have here, handed in anything, or are they listed?"""
        is_here = learner in self.marks or learner in self.notes
        return is_here or self.roster.find(learner) is not None

    @property
    def labs(self) -> list[str]:
        """The labs that somebody handed in."""
        return sorted(self.possible)

    def rows(self) -> list[tuple[str, Person, dict[str, Mark]]]:
        """Each learner: whoever handed in, and whoever is on the roster."""
        here = [(it, self.roster.find(it) or Person(learner=it)) for it in self.marks | self.notes]
        present = {id(person) for _, person in here}
        absent = [("", person) for person in self.roster.people if id(person) not in present]
        rows = [(name or person.shown, person, self.marks.get(name, {}))
                for name, person in (*here, *absent)]  # fmt: skip
        return sorted(rows, key=lambda row: (row[1].shown.casefold(), row[0]))

    def members(self) -> list[tuple[str, Person, dict[str, Mark]]]:
        """Those of whom a platform knows: who is on the roster; without one, each learner."""
        listed = set(map(id, self.roster.people))
        return [row for row in self.rows() if not listed or id(row[1]) in listed]


def gradebook(
    outs: Sequence[Path],
    out: Path,
    *,
    roster: Path | None = None,
    due: Sequence[str] = (),
    handed_in: Path | None = None,
    line: Callable[[str], object] = lambda _: None,
) -> Book:
    """Write the gradebook of one or several gradings; raises BadArgument for what does not fit."""
    lists = [roster] if roster else [it / ROSTER for it in outs if (it / ROSTER).exists()]
    people = read_roster(lists[0]) if lists else Roster([])
    book = Book(people)
    submissions = [each for folder in outs for each in records.results(folder, line).submissions]
    for each in submissions:
        book.known_as(each.learner or each.path)
    times, until = _times(handed_in, book), _due(due)
    _enter(book, submissions, until, times)
    for lab in sorted({*until, *(lab for _, lab in times)} - {"", *book.possible}):
        line(f"A time is given for lab {lab}, and nobody handed in that lab.")
    if strangers := sorted({it for it, _ in times if not book.knows(it)}):
        line(f"In {handed_in}, and nobody handed in anything by this name: {', '.join(strangers)}.")
    for folder in outs:
        for override in _overrides(folder / OVERRIDES, book, line):
            mark = book.marks[override.learner].get(override.lab, Mark())
            changed = replace(mark, overrides=(*mark.overrides, override))
            book.marks[override.learner][override.lab] = changed
    for lab in book.labs:
        its = sorted({it.possible for it in submissions if it.lab == lab and it.status == GRADED})
        if len(its) > 1:
            line(f"Of lab {lab} some have {its[0]} points possible, and others {its[-1]}, which "
                 "counts for all: the lab has changed meanwhile. Grade it --again.")  # fmt: skip
    for learner, marks in book.marks.items():
        for mark in marks.values():
            if mark.result and mark.points is None:
                why = mark.result.reason or "an item could not be examined."
                note = f"{mark.result.path}: no grade yet, grade it again: {why}"
                book.notes[learner].append(note)
    similar = list(_similar(book))
    records.make_folder(out)
    texts = {"gradebook.csv": _gradebook_csv(book), "moodle.csv": _moodle_csv(book),
             "canvas.csv": _canvas_csv(book), "similar.csv": csv_text(ALIKE, similar)}  # fmt: skip
    for name, text in texts.items():
        records.write_whole(out / name, text)
    _send_back(book, out / "learners")
    for learner, notes in sorted(book.notes.items()):
        for note in notes:
            line(f"{learner}: {note}")
    unknown = sorted(it for it in book.marks if people.people and not people.find(it))
    if unknown:
        line(f"Not, or more than once, on the roster, so in gradebook.csv alone: "
             f"{', '.join(unknown)}.")  # fmt: skip
    if similar:
        line(f"{len(similar)} pairs of answers are alike: {out / 'similar.csv'}. Look at them; "
             "that two answers are alike is no proof of anything.")  # fmt: skip
    return book


def _enter(
    book: Book,
    submissions: Iterable[SubmissionResult],
    due: Mapping[str, datetime],
    times: Mapping[tuple[str, str], datetime],
) -> None:
    """Enter what was graded; of several for a lab the last."""
    handed: dict[tuple[str, str], list[tuple[datetime, SubmissionResult]]] = defaultdict(list)
    for each in submissions:
        learner, lab = book.known_as(each.learner or each.path), each.lab
        if lab is None or each.status == REJECTED:
            book.notes[learner].append(f"{each.path}: {each.status}: {each.reason}")
            continue
        at = datetime.fromisoformat(each.handed_in or "1970-01-01T00:00:00+00:00")
        handed[learner, lab].append((at, each))
        if each.status == GRADED:
            book.possible[lab] = max(book.possible.get(lab, 0), each.possible)
        book.possible.setdefault(lab, 0)
    for (learner, lab), its in handed.items():
        at, last = max(its, key=lambda it: (it[0], it[1].graded_at or "", it[1].path))
        at = times.get((learner, lab)) or times.get((learner, "")) or at
        until = due.get(lab) or due.get("")
        late = at - until if until and at > until else None
        count = len({each.sha256 or each.path for _, each in its})
        book.marks[learner][lab] = Mark(result=last, count=count, late=late)


def _overrides(file: Path, book: Book, line: Callable[[str], object]) -> Iterator[Override]:
    """What a teacher decided; raises BadArgument for a line that would change nothing."""
    if not file.exists():
        return
    for number, row in read_rows(file):
        said, lab, item = (row.get(name, "") for name in ("learner", "lab", "item"))
        lab, item = _with_zero(lab), _with_zero(item)
        learner = book.known_as(said)
        mark = book.marks.get(learner, {}).get(lab)
        items = {it.item: it.possible for it in mark.result.items} if mark and mark.result else {}
        wrong = ""
        if not book.knows(learner):
            wrong = f"no learner {said!r} handed in anything or is on the roster"
        elif lab not in book.possible:
            wrong = f"the lab {lab!r} is not among {', '.join(book.labs)}"
        elif item and item not in items:
            wrong = f"the item {item!r} is not among {', '.join(items) or 'those graded'}"
        elif not row.get("reason"):
            wrong = "there is no reason; a learner may ask for it"
        points = _number(row.get("points", ""))
        if points is None and not wrong:
            wrong = f"{row.get('points', '')!r} is no number of points"
        if wrong or points is None:
            raise BadArgument(
                f"{file}:{number}: {wrong}. Its columns are learner, lab, item (empty for the "
                "whole lab), points and reason. Correct the line, then run the command again."
            )
        if points > (possible := items[item] if item else book.possible[lab]):
            line(f"{file}:{number}: {learner} has {points:g} points of {possible} possible.")
        yield Override(learner, lab, item, points, row["reason"])


def _with_zero(lab: str) -> str:
    """The number of a lab or an item; a spreadsheet takes its first digit away if it is a 0.

    >>> _with_zero("3"), _with_zero("3.2"), _with_zero("71.2"), _with_zero("")
    ('03', '03.2', '71.2', '')
    """
    return f"0{lab}" if re.fullmatch(r"\d(\.\d+)?", lab) else lab


def _number(text: str) -> float | None:
    """A number of points, with a comma or a point; None for what is none."""
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _due(given: Sequence[str]) -> dict[str, datetime]:
    """When each lab is due; "" is every lab that is not named."""
    due = {}
    for text in given:
        lab, is_of_lab, at = text.rpartition("=")
        if is_of_lab and not re.fullmatch(r"\d\d", lab):
            raise BadArgument(f"--due {text}: a lab has two digits, as in --due 03={at}.")
        due[lab if is_of_lab else ""] = _time("--due", at)
    return due


def _times(file: Path | None, book: Book) -> dict[tuple[str, str], datetime]:
    """When each was handed in, by learner and lab, where a CSV says so."""
    if file is None:
        return {}
    rows = read_rows(file)
    if any(not {"learner", "handed_in"} <= row.keys() for _, row in rows):
        raise BadArgument(f"{file} must have the columns learner and handed_in, and may have lab.")
    return {
        (book.known_as(row["learner"]), _with_zero(row.get("lab", ""))): _time(
            str(file), row["handed_in"]
        )
        for _, row in rows
        if row["handed_in"]
    }


def _time(where: str, text: str) -> datetime:
    """A time; without an offset it is this machine's."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise BadArgument(
            f"{where}: {text!r} is no time. Write it as 2026-11-20T18:00, or with its offset as "
            "2026-11-20T18:00+01:00."
        ) from error


def _gradebook_csv(book: Book) -> str:
    each_lab = [f"{kind} {lab}" for lab in book.labs for kind in ("lab", "late hours")]
    columns = ["learner", "name", "email", *each_lab, "total", "possible", "percent", "notes"]
    possible = sum(book.possible.values())
    rows = []
    for learner, person, marks in book.rows():
        cells: list[object] = []
        total = 0.0
        notes = list(book.notes.get(learner, ()))
        for lab in book.labs:
            mark = marks.get(lab, Mark())
            total += mark.points or 0
            cells += [_points(mark), _hours(mark.late) if mark.late else ""]
            notes += [f"lab {lab}: {remark}" for remark in mark.remarks()]
        percent = round(100 * total / possible, 1) if possible else ""
        about = (learner, person.shown, person.email)
        rows.append((*about, *cells, _short(total), possible, percent, " | ".join(notes)))
    return csv_text(columns, rows)


def _moodle_csv(book: Book) -> str:
    """What Grades, Import, CSV file takes; it asks which column is which.

    Where the column that says whose a row is has no entry, Moodle gives the grades of that row to
    the learner above it: a column with a gap is left out.
    """
    each_lab = [name for lab in book.labs for name in (f"Lab {lab}", f"Lab {lab} feedback")]
    members = book.members()
    whose = [(it.username or learner, it.id_number, it.email) for learner, it, _ in members]
    is_full = [all(column) for column in zip(*whose, strict=True)]
    rows = [
        (
            *compress(keys, is_full),
            *(cell for lab in book.labs for cell in _moodle_cells(marks.get(lab, Mark()))),
        )
        for keys, (_, _, marks) in zip(whose, members, strict=True)
    ]
    return csv_text((*compress(MOODLE, is_full), *each_lab), rows)


def _moodle_cells(mark: Mark) -> tuple[object, str]:
    items = mark.result.items if mark.result else ()
    told = [f"{it.item} {it.points}/{it.possible} {it.status}: {it.reason}" for it in items]
    text = " | ".join([*mark.remarks(), *told])
    # To a new grade item an empty cell is a 0 in some editions of Moodle.
    points = NO_GRADE if mark.points is None else _short(mark.points)
    return points, text if len(text) <= FEEDBACK_MAX else f"{text[:FEEDBACK_MAX]} …"


def _canvas_csv(book: Book) -> str:
    """What Canvas takes as a gradebook: five columns of its own, and the points in a second row."""
    points = ("    Points Possible", "", "", "", "", *(book.possible[lab] for lab in book.labs))
    rows = [
        (
            person.shown, person.canvas_id, person.sis_user_id, person.sis_login_id or
            ("" if book.roster.people else learner), person.section,
            *(_points(marks.get(lab, Mark())) for lab in book.labs),
        )
        for learner, person, marks in book.members()
    ]  # fmt: skip
    return csv_text((*CANVAS, *(f"Lab {lab}" for lab in book.labs)), [points, *rows])


def _send_back(book: Book, folder: Path) -> None:
    """A folder for each learner, with a page for each lab that has a grade; no other page stays."""
    for page in [*folder.glob("*/lab??.html")]:
        page.unlink()
        with suppress(OSError):  # what a teacher has put there stays
            page.parent.rmdir()
    names: dict[str, str] = {}
    for learner, person, marks in book.rows():
        graded = {lab: it for lab, it in marks.items() if it.result and it.points is not None}
        if not graded:
            continue
        # Where the system knows no upper case, Ada and ada would be one folder.
        is_plain = learner.replace(" ", "").isalnum() and len(learner) <= 60
        is_free = names.setdefault(learner.casefold(), learner) == learner
        name = learner if is_plain and is_free else _folder_name(learner, person)
        for made in (folder, folder / name):
            records.make_folder(made)
        for lab, mark in graded.items():
            assert mark.result is not None
            told = replace(mark.result, learner=person.shown)
            text = feedback(told, points=mark.points, remarks=mark.remarks())
            records.write_whole(folder / name / f"lab{lab}.html", text)


def _folder_name(learner: str, person: Person) -> str:
    """A name in the letters of the person's own script, and what tells it from any other."""
    readable = "".join(it for it in person.shown if it.isalnum() or it in " -_")[:60].strip()
    return f"{readable}-{safe_name(os.fsencode(learner))[-12:]}".lstrip("-")


def _similar(book: Book) -> Iterator[tuple[object, ...]]:
    answers: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for learner, marks in book.marks.items():
        for lab, mark in marks.items():
            for item, answer in mark.result.answers.items() if mark.result else ():
                answers[lab, item][learner] = answer
    for (lab, item), its in sorted(answers.items()):
        for pair in alike(its, handed_out_answers(lab).get(item, "")):
            yield (lab, item, pair.first, pair.second, round(pair.share, 2), pair.runs)


def _points(mark: Mark) -> object:
    return "" if mark.points is None else _short(mark.points)


def _short(points: float) -> object:
    """As many digits as Moodle keeps: 1.1 and 2.2 are 3.3."""
    points = round(points, 5)
    return int(points) if points == int(points) else points


def _hours(late: timedelta) -> float:
    """To the next hundredth: a learner who is late is late by more than 0."""
    return ceil(late.total_seconds() / 36) / 100
