"""One row for each learner: who is who, what counts, what a teacher decided, what is sent back."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from click.testing import CliRunner

from lab_utils.cli import main
from lab_utils.errors import BadArgument
from lab_utils.gradebook.book import gradebook
from lab_utils.gradebook.roster import read_roster, read_rows
from lab_utils.gradebook.similarity import alike
from lab_utils.gradebook.understood import _line
from lab_utils.grading import records
from lab_utils.grading.handed_in import found, handed_out_answers
from lab_utils.grading.results import SubmissionResult, Verdict

MOODLE_LIST = """"First name","Last name","ID number","Email address"
Ada,Lovelace,007,ada@example.org
Bob,"O'Neill, Jr.",008,bob@example.org
Zoe,Late,009,zoe@example.org
"""
CANVAS_LIST = """Student,ID,SIS User ID,SIS Login ID,Section,Lab 00 (91)
    Points Possible,,,,,10
"Lovelace, Ada",11,S11,ada,Tuesday,3
"Student, Test",12,,x,Tuesday,
"""


def verdict(item: str, points: int, possible: int, status: str | None = None) -> Verdict:
    status = status or ("PASS" if points else "FAIL")
    return Verdict(item=item, title="Title", kind="value", status=status, points=points,
                   possible=possible, reason="=said <b>so</b>.")  # fmt: skip


def result(learner: str, lab: str, *points: int, **columns: Any) -> SubmissionResult:
    items = tuple(verdict(f"{lab}.{n}", it, 4) for n, it in enumerate(points, start=1))
    given = {"path": f"{learner}/{lab}.ipynb", "status": "graded", "items": items,
             "handed_in": "2026-11-20T17:00:00+00:00"} | columns  # fmt: skip
    return SubmissionResult(learner=learner, lab=lab, **given)


def graded(out: Path, *results: SubmissionResult) -> Path:
    with records.opened(out, {}, len(results), "5eed") as kept:
        for each in results:
            kept.keep(out / each.path, each)
    return out


@pytest.fixture
def outs(tmp_path: Path) -> list[Path]:
    """Two labs: ada has both, bob one, and a file of cleo's was no notebook."""
    late = "2026-11-21T19:30:00+00:00"
    broken = verdict("04.1", 0, 4, "INFRASTRUCTURE")
    return [
        graded(tmp_path / "03", result("ada", "03", 4, 0),
               result("bob", "03", 4, 4, handed_in=late),
               result("ada", "03", 0, 0, path="ada/old.ipynb",
                      handed_in="2026-11-19T17:00:00+00:00"),
               SubmissionResult(path="cleo/x.ipynb", lab=None, status="rejected", learner="cleo",
                                reason="no notebook.")),
        graded(tmp_path / "04", result("ada", "04", 4), result("bob", "04", items=(broken,))),
    ]  # fmt: skip


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def booked(outs: list[Path], place: Path, **given: Any) -> list[dict[str, str]]:
    """The rows of the gradebook that is written beside these gradings."""
    gradebook(outs, place / "book", **given)
    return rows(place / "book" / "gradebook.csv")


def test_a_row_for_each_learner(outs: list[Path], tmp_path: Path) -> None:
    """The last notebook counts; what nobody is to blame for has no grade, and a note says why."""
    said: list[str] = []
    ada, bob, cleo = booked(outs, tmp_path, due=["03=2026-11-20T18:00+00:00"], line=said.append)

    assert ("ada", "4", "", "4", "8", "12", "66.7") == tuple(
        ada[it] for it in ("learner", "lab 03", "late hours 03", "lab 04", "total", "possible",
                           "percent")
    )  # fmt: skip
    assert "lab 03: 2 notebooks were handed in; the last one counts." == ada["notes"]
    assert ("8", "25.5", "") == (bob["lab 03"], bob["late hours 03"], bob["lab 04"])
    assert "no grade yet, grade it again" in bob["notes"]
    assert ("", "0") == (cleo["lab 03"], cleo["total"])
    assert "cleo: cleo/x.ipynb: rejected: no notebook." in said


def test_a_time_of_the_platform_chooses_no_notebook(outs: list[Path], tmp_path: Path) -> None:
    """It is the same for each of a learner's notebooks; the last one by its own time counts."""
    (tmp_path / "t.csv").write_text("learner,lab,handed_in\nada,03,2026-11-20T19:00+00:00\n")
    due = ["2026-11-20T18:00+00:00"]
    ada, *_ = booked(outs, tmp_path, handed_in=tmp_path / "t.csv", due=due)

    assert ("4", "1.0") == (ada["lab 03"], ada["late hours 03"])


def test_a_notebook_that_was_downloaded_twice(tmp_path: Path) -> None:
    """After an extension the download has those of before again, in another folder."""
    outs = [graded(tmp_path / "03", result("ada", "03", 4, path=f"{it}/03.ipynb", sha256=same),
                   result("bob", "03", 4, path=f"{it}/bob.ipynb", sha256=it))
            for it, same in (("first", "5eed"), ("second", "5eed"))]  # fmt: skip
    ada, bob = booked(outs[:1], tmp_path)

    assert "" == ada["notes"]
    assert "lab 03: 2 notebooks were handed in; the last one counts." == bob["notes"]


def test_overrides(outs: list[Path], tmp_path: Path) -> None:
    """What a teacher decides stands above what was graded, with its reason."""
    decided = (
        "learner;lab;item;points;reason\nada;03;03.2;2,5;the idea is right\n"
        "bob;04;;3;shown in person\ncleo;03;;1;on paper\n"
    )
    (outs[0] / "overrides.csv").write_text(decided)
    ada, bob, cleo = booked(outs, tmp_path)

    assert ("6.5", "3", "1") == (ada["lab 03"], bob["lab 04"], cleo["lab 03"])
    assert "03.2: 2.5 points, the idea is right" in ada["notes"]
    assert decided == (outs[0] / "overrides.csv").read_text()
    page = (tmp_path / "book" / "learners" / "ada" / "lab03.html").read_text()
    assert "<h1>ada, lab 03</h1>\n<p><strong>6.5 of 8 points</strong></p>" in page
    assert "<p>03.2: 2.5 points, the idea is right</p>" in page


def test_what_has_a_grade_is_not_to_be_graded_again(tmp_path: Path) -> None:
    """The teacher has decided what nobody was to blame for, or the last notebook was graded."""
    broken = verdict("03.1", 0, 4, "INFRASTRUCTURE")
    out = graded(tmp_path / "03", result("ada", "03", items=(broken,)), result("bob", "03", 4),
                 result("bob", "03", items=(broken,), path="old", handed_in="2026-11-01T00:00Z"),
                 result("cleo", "03", items=(broken,)))  # fmt: skip
    decided = "learner,lab,item,points,reason\nada,03,03.1,3,shown\n , ,,,\n"
    (out / "overrides.csv").write_text(decided)

    assert [("3", False), ("4", False), ("", True)] == [
        (it["lab 03"], "no grade yet" in it["notes"]) for it in booked([out], tmp_path)
    ]


def test_a_lab_that_has_changed_meanwhile(tmp_path: Path) -> None:
    """Who was graded before has not all points, with all that there were."""
    out = graded(tmp_path / "03", result("ada", "03", 4), result("bob", "03", 4, 4))
    said: list[str] = []
    gradebook([out], tmp_path / "book", line=said.append)

    (told,) = said
    assert told.startswith("Of lab 03 some have 4 points possible, and others 8, which counts")


def test_what_a_spreadsheet_makes_of_a_lab(outs: list[Path], tmp_path: Path) -> None:
    """It takes the 0 away; more points than there are, and a time for no lab, are pointed out."""
    (outs[0] / "overrides.csv").write_text(
        "learner,lab,item,points,reason\nada,3,3.2,25,why\nbob,4,,3,why\nada,4,,4.5,why\n"
    )
    (tmp_path / "t.csv").write_text("learner,lab,handed_in\nada,3,2026-11-30T10:00Z\n"
                                    "ada,5,2026-11-30T10:00Z\n")  # fmt: skip
    said: list[str] = []
    due = ["2026-11-30T09:00Z", "30=2026-11-20T18:00Z"]
    times = tmp_path / "t.csv"
    ada, bob, _ = booked(outs, tmp_path, handed_in=times, line=said.append, due=due)

    assert ("29", "1.0", "3") == (ada["lab 03"], ada["late hours 03"], bob["lab 04"])
    assert [
        "A time is given for lab 05, and nobody handed in that lab.",
        "A time is given for lab 30, and nobody handed in that lab.",
        f"{outs[0]}/overrides.csv:2: ada has 25 points of 4 possible.",
        f"{outs[0]}/overrides.csv:4: ada has 4.5 points of 4 possible.",
    ] == said[:4]


def test_points_with_decimals(outs: list[Path], tmp_path: Path) -> None:
    """1.1 and 2.2 are 3.3, and no 3.3000000000000003."""
    (outs[0] / "overrides.csv").write_text(
        "learner,lab,item,points,reason\nada,03,03.1,1.1,why\nada,03,03.2,2.2,why\n"
    )
    ada, *_ = booked(outs, tmp_path)

    assert ("3.3", "7.3") == (ada["lab 03"], ada["total"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("eve,03,,1,why", "no learner 'eve'"),
        ("ada,05,,1,why", "the lab '05' is not among 03, 04"),
        ("ada,03,03.9,1,why", r"the item '03.9' is not among 03.1, 03.2"),
        ("ada,03,,one,why", "'one' is no number"),
        ("ada,03,,-1,why", "'-1' is no number"),
        ("ada,03,,nan,why", "'nan' is no number"),
        ("ada,03,,1,", "there is no reason"),
    ],
)
def test_an_override_that_would_change_nothing(
    outs: list[Path], tmp_path: Path, line: str, said: str
) -> None:
    """A slip is named with its line, and nothing is written."""
    (outs[0] / "overrides.csv").write_text(f"learner,lab,item,points,reason\n{line}\n")

    with pytest.raises(BadArgument, match=f"overrides.csv:2: {said}"):
        gradebook(outs, tmp_path / "book")
    assert not (tmp_path / "book").exists()


def test_moodle(outs: list[Path], tmp_path: Path) -> None:
    """A column by which Moodle knows people, a grade for each lab, and feedback; no formula."""
    (tmp_path / "people.csv").write_text(MOODLE_LIST)
    gradebook(outs, tmp_path / "book", roster=tmp_path / "people.csv")
    by_mail = {row["Email address"]: row for row in rows(tmp_path / "book" / "moodle.csv")}
    ada = by_mail["ada@example.org"]

    assert ("007", "4", "4") == (ada["ID number"], ada["Lab 03"], ada["Lab 04"])
    assert "03.1 4/4 PASS: =said <b>so</b>." in ada["Lab 03 feedback"]
    assert {"zoe@example.org", "bob@example.org", ""} < by_mail.keys() | {""}
    assert "-" == by_mail["zoe@example.org"]["Lab 03"], "no submission is no grade"


def test_a_grade_goes_to_nobody_else(tmp_path: Path) -> None:
    """Moodle gives a row of which it is not told whose it is to the learner of the row above.

    Canvas takes one without a number for the first who has that name.
    """
    (tmp_path / "people.csv").write_text(
        "name,id number,email,id\nAda,7,a@x.org,1\nBob,,b@x.org,2\nEve,8,e@x.org,3\n"
        "Eve,9,f@x.org,4\n"
    )
    out = graded(tmp_path / "03", *(result(it, "03", 4) for it in ("Ada", "Bob", "Eve", "Zoe")))
    said: list[str] = []
    gradebook([out], tmp_path / "book", roster=tmp_path / "people.csv", line=said.append)
    moodle = rows(tmp_path / "book" / "moodle.csv")

    assert [("a@x.org", "4"), ("b@x.org", "4"), ("e@x.org", "-"), ("f@x.org", "-")] == [
        (row["Email address"], row["Lab 03"]) for row in moodle
    ]
    assert "ID number" not in moodle[0], "Bob has none, and would have Ada's"
    _, *canvas = rows(tmp_path / "book" / "canvas.csv")
    assert [("1", "4"), ("2", "4"), ("3", ""), ("4", "")] == [
        (row["ID"], row["Lab 03"]) for row in canvas
    ]
    assert ["Not, or more than once, on the roster, so in gradebook.csv alone: Eve, Zoe."] == said


def test_canvas(outs: list[Path], tmp_path: Path) -> None:
    """The columns of Canvas's own export, in its order, and the points possible below them."""
    (tmp_path / "people.csv").write_text(CANVAS_LIST)
    gradebook(outs, tmp_path / "book", roster=tmp_path / "people.csv")
    lines = (tmp_path / "book" / "canvas.csv").read_text().splitlines()

    assert "Student,ID,SIS User ID,SIS Login ID,Section,Lab 03,Lab 04" == lines[0]
    assert "    Points Possible,,,,,8,4" == lines[1]
    assert '"Lovelace, Ada",11,S11,ada,Tuesday,4,4' in lines
    assert not any("Student, Test" in line for line in lines)


# A list, and who is meant by what a submission calls a learner, by the email.
PEOPLE = {
    "any column that is one person's": (
        "Name;Email address;Username\nJosé Ruiz;j@x.org;jr\nAda X;a@x.org;jr\n",
        {"j@x.org": "j@x.org", "josé ruiz": "j@x.org", "J": "j@x.org",
         "jr": None, "eve": None, "": None},
    ),
    # A file's name has no apostrophe, Canvas takes out hyphens, some put the last name first.
    "a name as Moodle's folder or Canvas's file has it": (
        "first name,last name,email,id\nBob,O'Neill,bob,11\nMary-Ann,D'Angelo,mary,12\n"
        "Suharto,,su,\n小龙,李,bruce,\nLi,Wang,li,\nWang,Li,wang,\n,,nameless,\n",
        {"Bob ONeill": "bob", "Mary-Ann DAngelo": "mary", "oneillbob_11": "bob",
         "dangelomaryann_12": "mary", "dangelomaryann_13": None, "Suharto": "su", "李小龙": "bruce",
         "Li Wang": "li", "Wang Li": "wang", "---": None},
    ),
    # The grading worksheet of an assignment has the number by which its download tells them.
    "two people of one name in Moodle": (
        "Identifier,Full name,Email address\nParticipant 11,Ada L,a\nParticipant 12,Ada L,b\n",
        {"Ada L_11": "a", "Ada L_12": "b", "Participant_12": "b", "Ada L": None, "Ada L_13": None,
         "11": None},
    ),
    "a line that was pasted twice is one person, and two addresses are two": (
        "name,email,group\nAda,a@x.org,1\n,,\n\nAda,a@x.org,2\nBob,b@x.org,1\nBob,c@x.org,1\n",
        {"Ada": "a@x.org", "Bob": None, "b@x.org": "b@x.org", "c@x.org": "c@x.org"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "mails"), PEOPLE.values(), ids=PEOPLE)
def test_who_is_who(tmp_path: Path, text: str, mails: dict[str, str | None]) -> None:
    """A learner is found by what is one person's, and nobody by what is of two."""
    (tmp_path / "people.csv").write_text(text)
    roster = read_roster(tmp_path / "people.csv")

    assert mails == {called: (it := roster.find(called)) and it.email for called in mails}


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_list_from_a_spreadsheet(tmp_path: Path, codec: str) -> None:
    """Each way in which Excel saves it, with a line's end within a cell, and a column to spare."""
    text = 'Full name\tName\tEmail address\r\nJosé Ruiz\t\tj@x.org\r\n"Al\r\nTwo"\t\ta@x.org\r\n'
    (tmp_path / "people.csv").write_bytes(text.encode(codec))
    roster = read_roster(tmp_path / "people.csv")

    assert ["j@x.org", "a@x.org"] == [
        person.email for it in ("José Ruiz", "Al Two") if (person := roster.find(it))
    ]


def test_a_quotation_mark_without_its_other_one(tmp_path: Path) -> None:
    """The rest of the file is one cell then; what is said names the file."""
    (tmp_path / "people.csv").write_text('name,email\n"Ada,a@x.org\n' + "b,c\n" * 50_000)

    with pytest.raises(BadArgument, match=r"people.csv: a cell is too large .* quotation mark"):
        read_roster(tmp_path / "people.csv")


@pytest.mark.parametrize("name", ["\u0639\u0644\u06cc\u200c\u0631\u0636\u0627", "Zoé\u00a0Dupont"])
def test_a_name_with_what_cannot_be_printed(name: str, tmp_path: Path) -> None:
    """A joiner or a fixed space is text in what a grading says of the learner; it is one person."""
    (tmp_path / "people.csv").write_text(f"name,email\n{name},a@x.org\n")
    folder = tmp_path / "in" / f"{name}_4711_assignsubmission_file_"
    folder.mkdir(parents=True)
    (folder / "03.ipynb").touch()
    ((_, learner),) = found([tmp_path / "in"])
    gradebook([graded(tmp_path / "03", result(learner, "03", 4))], tmp_path / "book",
              roster=tmp_path / "people.csv")  # fmt: skip
    (row,) = rows(tmp_path / "book" / "moodle.csv")

    assert ("a@x.org", "4") == (row["Email address"], row["Lab 03"])


def test_one_person_by_many_names(tmp_path: Path) -> None:
    """Each lab, a teacher's decision and a time may call a learner otherwise; the row is one.

    A platform knows better than a file when something was handed in: of a lab, or of all.
    """
    (tmp_path / "people.csv").write_text('student,email,id\r"Ruiz, Jörg",j@x.org,11\r')
    outs = [graded(tmp_path / "03", result(normalize("NFD", "Jörg Ruiz"), "03", 4)),
            graded(tmp_path / "04", result("ruizjörg_11", "04", 4))]  # fmt: skip
    (outs[0] / "overrides.csv").write_text("learner,lab,item,points,reason\nJ@x.org,03,,3,shown\n")
    (tmp_path / "t.csv").write_text(
        "learner,lab,handed_in\n11,03,2026-11-20T20:00+01:00\nj@x.org,,2026-11-20T18:00:20Z\n"
        "eve,,2026-11-20\n"
    )
    said: list[str] = []
    given = {"roster": tmp_path / "people.csv", "handed_in": tmp_path / "t.csv"}
    (row,) = booked(outs, tmp_path, due=["2026-11-20T18:00Z"], line=said.append, **given)

    assert ("Jörg Ruiz", "3", "4") == (row["learner"], row["lab 03"], row["lab 04"])
    assert ("1.0", "0.01") == (row["late hours 03"], row["late hours 04"])
    assert "lab 04: Handed in 0:00:20 late." in row["notes"]
    assert [f"In {tmp_path / 't.csv'}, and nobody handed in anything by this name: eve."] == said


def test_a_list_of_nobody(tmp_path: Path) -> None:
    """A file without a known column is refused with those that are known."""
    (tmp_path / "x.csv").write_text("colour\nred\n")

    with pytest.raises(BadArgument, match=r"names nobody.*email address"):
        read_roster(tmp_path / "x.csv")
    with pytest.raises(BadArgument, match="cannot be read: No such file"):
        read_rows(tmp_path / "y.csv")


def test_a_time_that_is_none(outs: list[Path], tmp_path: Path) -> None:
    """It is quoted, with the way to write it."""
    with pytest.raises(BadArgument, match="'Friday' is no time"):
        gradebook(outs, tmp_path / "book", due=["03=Friday"])
    with pytest.raises(BadArgument, match="'9999-12-31T23:59-23:00' is no time"):
        gradebook(outs, tmp_path / "book", due=["9999-12-31T23:59-23:00"])
    with pytest.raises(BadArgument, match="a lab has two digits, as in --due 03=2026-11-20"):
        gradebook(outs, tmp_path / "book", due=["3=2026-11-20"])


def test_folders_to_send_back(tmp_path: Path) -> None:
    """Each learner has a folder, also where the file system knows no upper case."""
    names = ["ada", "Ada", "../../etc", "a/b", "Ada Lovelace", "\x1b[31m", "n" * 300,
             "李-小龙 D'Été", "字-" * 99]  # fmt: skip
    out = graded(tmp_path / "03", *(result(it, "03", 4, path=f"{n}.ipynb")
                                    for n, it in enumerate(names)))  # fmt: skip
    gradebook([out], tmp_path / "book")
    folders = [it.name for it in (tmp_path / "book" / "learners").iterdir()]

    assert len(names) == len({it.casefold() for it in folders})
    assert any(it.startswith("李-小龙 DÉté-") for it in folders), "a teacher reads whose it is"
    assert {"Ada", "Ada Lovelace"} < set(folders) or {"ada", "Ada Lovelace"} < set(folders)
    assert len(names) == len([*(tmp_path / "book").rglob("lab03.html")])
    assert sorted(it.name for it in tmp_path.iterdir()) == ["03", "book"]


def test_what_is_sent_back_is_of_this_gradebook(outs: list[Path], tmp_path: Path) -> None:
    """What has no grade yet has no page with points; a page of an earlier gradebook is gone."""
    learners = tmp_path / "book" / "learners"
    gradebook(outs, tmp_path / "book")
    pages = ["ada/lab03.html", "ada/lab04.html", "bob/lab03.html"]
    assert pages == sorted(str(it.relative_to(learners)) for it in learners.glob("*/*"))

    (learners / "bob" / "mine.txt").touch()
    gradebook(outs[1:], tmp_path / "book")
    assert ["ada/lab04.html", "bob/mine.txt"] == sorted(
        str(it.relative_to(learners)) for it in learners.glob("*/*")
    )
    gradebook([graded(tmp_path / "05", result("eve", "05", 4))], tmp_path / "book")
    assert ["bob", "eve"] == sorted(it.name for it in learners.iterdir())


COPIED = """
def send_all(run):
    producer = run.producer({"acks": "all", "linger.ms": 5, "retries": 7})
    for number, order in enumerate(run.orders):
        while True:
            try:
                producer.produce(run.topic, order, partition=number % 3)
                break
            except BufferError:
                producer.poll(0.25)
    producer.flush(30)
"""
OTHER = """
def send_all(run):
    for chunk in chunks(run.orders, 10):
        with_retry(lambda: [run.producer({"acks": 1}).produce(run.topic, it) for it in chunk])
    assert not errors, "some were lost"
    return sorted(errors, key=lambda error: error.code())
"""


def test_answers_that_are_alike() -> None:
    """Other names, comments and layout hide nothing; another way to do it is another answer."""
    disguised = COPIED.replace("producer =", "sender  =").replace("producer.", "sender.")
    disguised = disguised.replace("number", "k").replace("    for", "    # mine\n\n    for")
    found = alike({"ada": COPIED, "bob": disguised, "cleo": OTHER})

    assert [("ada", "bob", 1.0)] == [it[:3] for it in found]


def test_what_was_handed_out_or_all_have_is_no_likeness() -> None:
    """Nor is an answer of a line."""
    assert [] == alike({"ada": COPIED, "bob": COPIED}, handed_out=COPIED)
    assert [] == alike(dict.fromkeys("abcdefgh", COPIED))
    assert [] == alike({"ada": "x = 1\n", "bob": "x = 1\n"})
    assert [] == alike({"ada": "def (", "bob": "'" * 7, "cleo": "\x00"})


def test_what_was_handed_out_is_no_answer(tmp_path: Path) -> None:
    """The code that 03.2 begins with runs, and fails: who left it has made no mistake."""
    left = handed_out_answers("03")["03.2"]
    for learner, answer in (("ada", left), ("bob", f"{left}\n# mine")):
        its = result(learner, "03", 4, 0, answers={"03.2": answer, "03.1": "x = 1"})
        out = graded(tmp_path / learner, its)
        ((first, second),) = [json.loads(_line(it))["items"] for it in records.files(out)]
        assert "=said <b>so</b>." == first["reason"]
        assert (second["reason"] == "there is no answer yet.") is (answer == left)


def test_the_command(outs: list[Path], tmp_path: Path) -> None:
    """It says where the gradebook is, and that likeness proves nothing."""
    for learner in ("ada", "bob"):
        graded(outs[0], result(learner, "03", 4, 4, path=f"{learner}/2.ipynb",
                               answers={"03.2": COPIED},
                               handed_in="2026-11-22T00:00:00+00:00"))  # fmt: skip
    done = CliRunner().invoke(main, ["gradebook", *map(str, outs), "--out", str(tmp_path / "book")])

    assert 0 == done.exit_code, done.output
    assert "1 pairs of answers are alike" in done.output
    assert f"3 learners, labs 03, 04: the gradebook is in {tmp_path / 'book'}." in done.output
    (pair,) = rows(tmp_path / "book" / "similar.csv")
    assert ("ada", "bob") == (pair["learner"], pair["and"])
