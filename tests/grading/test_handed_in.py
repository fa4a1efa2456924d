"""Who handed in what, and what a notebook tells besides its answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from lab_utils.errors import BadArgument
from lab_utils.grading.cases import exercises
from lab_utils.grading.handed_in import (
    answers,
    described,
    found,
    handed_out,
    mostly_of_one,
    no_notebooks,
)
from lab_utils.grading.results import SubmissionResult
from lab_utils.grading.submission import known_cells
from lab_utils.ledger.predictions import Compared
from lab_utils.views.tables import prediction_table

STEM = "03_why_did_the_order_arrive_twice"
OUT = Path("grades")


def touched(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [folder]


@pytest.mark.parametrize(
    ("name", "pattern", "learner"),
    [
        (f"ada/{STEM}.ipynb", None, "ada"),
        (f"ada/lab03/{STEM}.ipynb", None, "ada"),
        ("ada.ipynb", None, "ada"),
        (f"{STEM}_ada.ipynb", None, "ada"),
        (f"ada-{STEM}.ipynb", None, "ada"),
        (f"Ada Lovelace_4711_assignsubmission_file_/{STEM}.ipynb", None, "Ada Lovelace"),
        (f"Ada Lovelace_4711_assignsubmission_file/{STEM}.ipynb", None, "Ada Lovelace"),
        (f"Ada Lovelace_4711_assignsubmission_file_{STEM}.ipynb", None, "Ada Lovelace"),
        (f"lovelaceada_12345_67890_{STEM}.ipynb", None, "lovelaceada_12345"),
        (f"lovelaceada_LATE_12345_67890_{STEM}-1.ipynb", None, "lovelaceada_12345"),
        # A pattern says where the name stands; it fits the end of the path.
        ("submitted/ada/lab03/x.ipynb", "{learner}/*/*.ipynb", "ada"),
        ("spring/03_ada.ipynb", "*_{learner}.ipynb", "ada"),
        ("a.b+03.ipynb", "{learner}+*.ipynb", "a.b"),
    ],
)
def test_whose_it_is(tmp_path: Path, name: str, pattern: str | None, learner: str) -> None:
    """A folder a learner, a file a learner, and what Moodle and Canvas hand over."""
    assert [learner] == [each.learner for each in found(touched(tmp_path, name), pattern)]


OF_MOODLE = "_4711_assignsubmission_file_"


@pytest.mark.parametrize(
    ("name", "others", "pattern", "learner"),
    [
        (f"eve{OF_MOODLE}/ada{OF_MOODLE}/x.ipynb", f"bob{OF_MOODLE}/x.ipynb", None, "eve"),
        (f"eve{OF_MOODLE}ada{OF_MOODLE}x.ipynb", f"bob{OF_MOODLE}x.ipynb", None, "eve"),
        (f"03/eve{OF_MOODLE}/ada{OF_MOODLE}/x.ipynb", f"03/bob{OF_MOODLE}/x.ipynb", None, "eve"),
        (f"eve/ada{OF_MOODLE}/x.ipynb", "bob/x.ipynb", None, "eve"),
        (f"eve/ada{OF_MOODLE}x.ipynb", "bob/x.ipynb", None, "eve"),
        ("eve/ada_1_2_x.ipynb", "bob/x.ipynb", None, "eve"),
        ("eve_1_2_ada_1_2_x.ipynb", "bob_1_2_x.ipynb", None, "eve_1"),
        ("eve/ada/x.ipynb", "bob/x.ipynb", "{learner}/*.ipynb", "eve"),
        ("in/eve/03/ada/03/x.ipynb", "in/bob/03/x.ipynb", "{learner}/*/*.ipynb", "eve"),
    ],
)
def test_nobody_hands_in_for_another(
    tmp_path: Path, name: str, others: str, pattern: str | None, learner: str
) -> None:
    """The last of several notebooks counts, so another's name in one's own folder is no name."""
    handed = found(touched(tmp_path, name, others), pattern)

    assert learner in {each.learner for each in handed}
    assert not {each.learner for each in handed} & {"ada", "ada_1"}


def test_two_people_of_one_name(tmp_path: Path) -> None:
    """Each has their own row: the last notebook of one would count for both."""
    names = [f"{lab}/Ada L{number}" for lab, number in (("3", "_1"), ("3", "_2"), ("4", "_7"))]
    end = "_assignsubmission_file_/x.ipynb"
    paths = touched(tmp_path, *(f"{name}{end}" for name in names), f"4/Ada L_8{end}.zip")
    handed = found(paths)

    assert ["Ada L_1", "Ada L_2", "Ada L"] == [each.learner for each in handed]
    assert ["Ada L_8"] == [each.learner for each in no_notebooks(paths, handed, OUT)]


def test_who_handed_in_no_notebook(tmp_path: Path) -> None:
    """An archive in place of a notebook would be no row, and nobody would know."""
    others = ("ada/more.zip", "bob/lab.ZIP", "eve/03.ipynb.txt", "eve/notes.txt")
    paths = touched(tmp_path, "ada/03.ipynb", "kim/03.IPYNB", *others)
    handed = found(paths)

    assert ["ada", "kim"] == [each.learner for each in handed]
    assert [("bob", "lab.ZIP"), ("eve", "03.ipynb.txt")] == [
        (each.learner, each.path.name) for each in no_notebooks(paths, handed, OUT)
    ]


@pytest.mark.parametrize("out", [".", "../grades", "{}/grades"])
@pytest.mark.parametrize("folder", ["..", "{}"])
def test_the_pages_of_a_grading_were_handed_in_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, out: str
) -> None:
    """OUT may lie among the submissions, and either be named by another way than the other."""
    touched(tmp_path, "ada/03.ipynb", "grades/feedback/ada.html", "bob/03.pdf")
    monkeypatch.chdir(tmp_path / "grades")
    paths = [Path(folder.format(tmp_path))]
    left_out = no_notebooks(paths, found(paths), Path(out.format(tmp_path)))

    assert ["bob"] == [each.learner for each in left_out]


def test_the_download_of_a_platform_is_unpacked_first(tmp_path: Path) -> None:
    """It was one notebook that is none; beside notebooks an archive is somebody's."""
    touched(tmp_path, "CS-lab03.ZIP", "old.zip/ada/x.ipynb")

    with pytest.raises(BadArgument, match=r"CS-lab03\.ZIP is an archive.*Unpack it"):
        found([tmp_path / "CS-lab03.ZIP"])
    assert ["ada"] == [each.learner for each in found([tmp_path / "old.zip"])]


def test_a_class_that_is_one_learner(tmp_path: Path) -> None:
    """Whoever names the folder above Gradescope's or nbgrader's is told before the night."""
    names = [f"assignment_7_export/submission_{n}/x.ipynb" for n in range(3)]
    handed = found(touched(tmp_path, *names, "me.ipynb"))

    assert ["3 of 4 notebooks are of one learner, assignment_7_export."] == [
        told.partition(" If")[0] for told in mostly_of_one(handed)
    ]
    inside = found([tmp_path / "assignment_7_export"])
    assert ["submission_0", "submission_1", "submission_2"] == [it.learner for it in inside]
    assert [[], [], []] == [[*mostly_of_one(its)] for its in (inside, inside[:1], [])]


def test_what_macos_adds_is_nobodys(tmp_path: Path) -> None:
    """An archive of a Mac has a shadow of each file, which was a learner __MACOSX."""
    moodle = f"CS/Ada{OF_MOODLE}/x.ipynb"
    paths = touched(tmp_path, moodle, "__MACOSX/CS/._x.ipynb", f"CS/Ada{OF_MOODLE}/._x.ipynb",
                    "__MACOSX/lab.zip")  # fmt: skip
    handed = found(paths)

    assert [("Ada", tmp_path / moodle)] == [(each.learner, each.path) for each in handed]
    assert [] == no_notebooks(paths, handed, OUT)


def test_a_file_alone(tmp_path: Path) -> None:
    """A lab's notebook that nobody renamed is that of its folder."""
    touched(tmp_path, f"ada/{STEM}.ipynb")

    assert ["ada"] == [each.learner for each in found([tmp_path / "ada" / f"{STEM}.ipynb"])]


def test_a_pattern_that_does_not_fit(tmp_path: Path) -> None:
    """Nobody's name is guessed where a pattern was given."""
    with pytest.raises(BadArgument, match=r"x\.ipynb does not fit --learner \*_\{learner\}"):
        found(touched(tmp_path, "x.ipynb"), "*_{learner}.ipynb")
    with pytest.raises(BadArgument, match="must have"):
        found(touched(tmp_path, "x.ipynb"), "*.ipynb")


def cell(source: Any, **columns: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": []} | columns


def table(*rows: Compared) -> list[dict[str, Any]]:
    """The output of a cell that compares a prediction."""
    return [{"output_type": "execute_result", "data": {"text/plain": repr(prediction_table(rows))}}]


def ran(at: str) -> dict[str, Any]:
    return {"execution": {"iopub.execute_input": f"2026-11-20T{at}Z"}}


def read(tmp_path: Path, *cells: Any) -> SubmissionResult:
    path = tmp_path / "03.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    return described(SubmissionResult(path="03.ipynb", lab="03", status="graded"), path)


def asked() -> list[str]:
    return [it["id"] for it in handed_out("03") if ".predict(" in it["source"]]


def test_predictions(tmp_path: Path) -> None:
    """What was expected, as the lab spells it, and what the notebook's own table shows."""
    first, second, *_ = asked()
    result = read(
        tmp_path,
        cell('guess = lab.predict(acked=5, log=[0, 1], because="x")', id=first),
        cell("guess.compare(twice)", outputs=table(
            Compared("acked", "5", "4"), Compared("log", "0 1", "0 1 0"))),
        cell('guess = lab.predict(log="0, 1 2", because=f"{1}")', id=second),
    )  # fmt: skip
    told = [(it.cell, it.question, it.predicted, it.observed) for it in result.predictions]

    assert [
        (first, "acked", "5", "4"),
        (first, "log", "0 1", "0 1 0"),
        (second, "log", "0 1 2", None),
    ] == told
    assert ["Predict, then break", "Several in flight"] == [
        it.where for it in result.predictions[1:]
    ]


def test_predictions_without_ids(tmp_path: Path) -> None:
    """Where a tool took out the ids, the predictions are counted."""
    result = read(tmp_path, cell("lab.predict(acked=1)"), cell("lab.predict(log='0')"))

    assert asked()[:2] == [it.cell for it in result.predictions]


def test_predictions_of_an_older_format(tmp_path: Path) -> None:
    """A notebook that is graded in format 3 tells what it predicts, too."""
    path = tmp_path / "03.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("lab.predict(acked=1)")]), path, version=3)
    result = described(SubmissionResult(path="03.ipynb", lab="03", status="graded"), path)

    assert asked()[:1] == [it.cell for it in result.predictions]


def test_a_prediction_that_was_copied(tmp_path: Path) -> None:
    """It counts once, so no number of copies makes a large file."""
    copies = [cell("lab.predict(acked=1)", id=asked()[0])] * 1_000

    assert 1 == len(read(tmp_path, *copies).predictions)


@pytest.mark.parametrize(
    "source",
    [
        "lab.predict(acked=..., because='...')",
        "lab.predict(acked=5",
        "lab.predict(nonsense=5)",
        "lab.predict(acked=open('x').read())",
        "lab.predict(**{'acked': 5})",
        f"lab.predict(acked={'(' * 1_000})",
        f"lab.predict(acked={'-' * 3_900}1)",
        f"lab.predict(acked={'-' * 1_000_000}1)",
        None,
        5,
        ["lab.predict(", 3],
    ],
    ids=lambda it: str(it)[:20],
)
def test_what_is_no_prediction(tmp_path: Path, source: Any) -> None:
    """Not answered, no Python, no question of ours, not written out, or a trap."""
    assert () == read(tmp_path, cell(source, id=asked()[0])).predictions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        '{"cells": 5}',
        '{"cells": [[], 5, {}]}',
        "[" * 100_000,
        '{"cells": [{"cell_type": "code", "id": [], "source": "lab.predict(acked=1)"}]}',
    ],
)
def test_what_is_no_notebook(tmp_path: Path, text: str) -> None:
    """Of what cannot be read nothing is told but the time of the file."""
    path = tmp_path / "03.ipynb"
    path.write_text(text)
    result = described(SubmissionResult(path="x", lab="03", status="graded"), path)

    assert ({}, (), {}) == (result.answers, result.predictions, result.worked_s)
    assert result.handed_in is not None


@pytest.mark.parametrize("seconds", [1e12, -1e12, 1e19])
def test_a_time_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Some file systems keep any time that an archive gives to a file, also one of no calendar."""
    path = tmp_path / "03.ipynb"
    path.write_text("{}")
    monkeypatch.setattr(Path, "stat", lambda _: SimpleNamespace(st_mtime=seconds))
    result = described(SubmissionResult(path="x", lab=None, status="rejected"), path)

    assert result.handed_in is None


def test_time_at_work(tmp_path: Path) -> None:
    """The time up to a check is its item's; a long pause is no work."""
    check = {"nbgrader": {"grade_id": "check-03-1"}}
    result = read(
        tmp_path,
        cell("1", metadata=ran("08:00:00")),
        cell("2", metadata=ran("08:10:00")),
        cell("lab.check", metadata=ran("08:12:00.5") | check),
        cell("3", metadata=ran("11:00:00")),
        cell("4", metadata=ran("11:01:00")),
        cell("5", metadata={"execution": "yesterday"}),
    )

    assert {"03.1": 720.5, "": 60.0} == result.worked_s


@pytest.mark.parametrize("metadata", [{"nbgrader": {"grade_id": "answer-03-2"}}, {}])
def test_answers(metadata: dict[str, Any]) -> None:
    """The text of the answers is kept, bounded, with its control characters shown.

    A tool that takes out the metadata of cells takes none of them.
    """
    given = new_code_cell("send_once = 1\nb = '\x1b'\n" + "c" * 10**6, metadata=metadata)
    told = answers(known_cells([given], exercises("03")))

    assert {"03.2"} == set(told)
    assert told["03.2"].startswith("send_once = 1\nb = '\\x1b'\nccc")
    assert 15_000 > len(told["03.2"])


def test_an_answer_that_uses_its_verdict() -> None:
    """The reader of an answer is shown no stand-in for its check."""
    text = "send_once = 1\nif lab.check('03.2', send_once).points:\n    pass"
    given = new_code_cell(text)

    assert {"03.2": text.replace("'03.2', send_once", "...")} == answers(
        known_cells([given], exercises("03"))
    )
