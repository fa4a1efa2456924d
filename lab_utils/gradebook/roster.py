"""Who is who: the people of a class from a CSV, under the names that Moodle and Canvas give them.

A list that either of them exports can be used as it is. A learner of the grading is found in it by
any column: the name, the email, what stands before its @, the username, an id.
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from io import StringIO
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

from lab_utils.audit.report import plain
from lab_utils.errors import BadArgument
from lab_utils.grading.results import LONGEST

# What Canvas writes between the header and the learners.
NOT_PEOPLE: Final = ("points possible", "student, test")


def _column(*names: str) -> Any:
    """What a column says that has one of these names in Moodle, Canvas or nbgrader."""
    return field(default="", metadata={"names": names})


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One person of a class; what the list does not say is empty."""

    learner: str = _column("learner", "student_id")
    name: str = _column("name", "student", "full name")
    first_name: str = _column("first name", "first_name", "firstname")
    last_name: str = _column("last name", "last_name", "lastname", "surname")
    email: str = _column("email", "email address")
    username: str = _column("username")
    id_number: str = _column("id number", "id_number", "idnumber")
    identifier: str = _column("identifier")
    canvas_id: str = _column("id")
    sis_user_id: str = _column("sis user id", "sis_user_id")
    sis_login_id: str = _column("sis login id", "sis_login_id")
    section: str = _column("section")

    @property
    def shown(self) -> str:
        """The name as one says it."""
        return self.name or f"{self.first_name} {self.last_name}".strip() or self.learner

    def keys(self) -> Iterator[str]:
        """Under what a submission may call this person."""
        yield from (self.learner, self.name, self.email, self.email.partition("@")[0],
                    self.username, self.id_number, self.canvas_id, self.sis_user_id,
                    self.sis_login_id)  # fmt: skip
        yield from map(" ".join, self._names())

    def names(self) -> Iterator[str]:
        """How a platform may write the name; some put the last name first."""
        yield self.name
        if number := "".join(filter(str.isdigit, self.identifier)):  # Moodle: Participant 4711
            yield from (f"{self.shown} {number}", self.identifier)
        for first, last in self._names():
            yield from (f"{first} {last}", f"{last} {first}")
            yield f"{last} {first} {self.canvas_id}"  # Canvas: lovelaceada_12345

    def _names(self) -> set[tuple[str, str]]:
        last, _, first = self.name.partition(",")
        pairs = {(self.first_name, self.last_name), (first.strip(), last) if first else ("", "")}
        return pairs - {("", "")}


class Roster:
    """The people of a class, found by what a submission calls them."""

    def __init__(self, people: Sequence[Person]) -> None:
        self.people = people
        self._found: dict[str, set[int]] = defaultdict(set)
        self._loosely: dict[str, set[int]] = defaultdict(set)
        for number, person in enumerate(people):
            for key in person.keys():  # noqa: SIM118 - no dictionary
                self._found[spelled(key.casefold())].add(number)
            for letters in filter(None, map(_letters, person.names())):
                self._loosely[letters].add(number)

    def find(self, learner: str) -> Person | None:
        """The one person whom a submission calls so; None if there is none, or several.

        If nobody is called exactly so, the letters and digits of the name decide: Moodle and Canvas
        take an apostrophe, and Canvas a hyphen, out of the name of a file.
        """
        exactly = self._found.get(spelled(learner.casefold()), set())
        numbers = exactly or self._loosely.get(_letters(learner), set())
        return self.people[next(iter(numbers))] if learner and len(numbers) == 1 else None


def spelled(name: str) -> str:
    """A name in one spelling; a folder from a Mac has its umlauts in two characters.

    A grading shows what cannot be printed as text, such as the joiners within Persian names.
    """
    return plain(normalize("NFC", name), LONGEST)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, spelled(name.casefold())))


def read_roster(file: Path) -> Roster:
    """The people in a CSV, each once; raises BadArgument when no column says who they are."""
    names = {name: it.name for it in fields(Person) for name in it.metadata["names"]}
    people = []
    for _, row in read_rows(file):
        known = {names[column]: value for column, value in row.items() if value and column in names}
        person = Person(**known)
        if not known or person.shown.strip().casefold() in NOT_PEOPLE:
            continue
        people.append(person)
    if not people:
        expected = ", ".join(sorted(names))
        raise BadArgument(f"{file} names nobody. Its first line must have one of {expected}.")
    return Roster([*dict.fromkeys(people)])


def read_rows(file: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV, each with its line, by the names of its columns in lower case.

    Its separator is a comma, a semicolon or a tab.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise BadArgument(f"{file} cannot be read: {error.strerror}.") from error
    text = _decoded(raw)
    head = text.splitlines()[0] if text else ""
    reader = csv.reader(StringIO(text, newline=None), delimiter=max(",;\t", key=head.count))
    try:
        header = [name.strip().casefold() for name in next(reader, [])]
        return [
            (reader.line_num, dict(zip(header, row, strict=False)))
            for row in (list(map(_one_line, cells)) for cells in reader)
            if any(row)
        ]
    except csv.Error as error:
        raise BadArgument(
            f"{file}: a cell is too large ({error}). There may be a quotation mark without its "
            "other one. Correct it, then run the command again."
        ) from error


def _one_line(cell: str) -> str:
    return cell.strip().replace("\n", " ")


def _decoded(raw: bytes) -> str:
    """What Excel saves as CSV UTF-8, as CSV, or as Unicode text."""
    if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")
