"""A submission is read whatever a learner did to it, and a file that is none says why."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbformat.v4 import new_code_cell

from lab_utils.grading import grader
from lab_utils.grading.notebook import NotASubmission
from lab_utils.grading.submission import (
    HAS_PASSED,
    Cell,
    Submission,
    read_submission,
    submissions,
)

LABS = Path(__file__).parent / "files" / "labs"
ROOT_LABS = Path(__file__).parents[2] / "labs"
FORMAT = {"metadata": {}, "nbformat": 4, "nbformat_minor": 5}
NOTES = "The check cell {}; the grader's own examination stands in its place."


def cell(source: str, grade_id: str = "") -> dict[str, Any]:
    metadata = {"nbgrader": {"grade_id": grade_id}} if grade_id else {}
    made: dict[str, Any] = new_code_cell(source, metadata=metadata)
    return made


ANSWER = cell("answer_1 = {}", "answer-90-1")
CHECK = cell('lab.check("90.1", answer_1)', "check-90-1")


def read(folder: Path, *cells: dict[str, Any], **metadata: Any) -> Submission:
    path = folder / "90_tiny.ipynb"
    path.write_text(json.dumps({**FORMAT, "cells": cells, "metadata": metadata}))
    return read_submission(path, LABS)


def due(submission: Submission) -> list[list[str]]:
    return [[each.item for each in submission.due_after(position)]
            for position in range(len(submission.cells))]  # fmt: skip


IS_DUE: dict[str, tuple[list[dict[str, Any]], list[list[str]], str]] = {
    "at its check, in the state that a learner saw there": (
        [cell("x = 1"), ANSWER, cell("y = 2"), CHECK], [[], [], [], ["90.1"]], "",
    ),
    "at its answer, if its check is gone": (
        [cell("x = 1"), ANSWER], [[], ["90.1"]], NOTES.format("is missing"),
    ),
    "at its answer, if its check was moved above it": ([CHECK, ANSWER], [[], ["90.1"]], ""),
    "at an edited check, which is no check of ours": (
        [ANSWER, cell("print('PASS')", "check-90-1")], [[], ["90.1"]], NOTES.format("was edited"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cells", "expected", "note"), IS_DUE.values(), ids=IS_DUE)
def test_where_an_item_is_due(
    tmp_path: Path, cells: list[dict[str, Any]], expected: list[list[str]], note: str
) -> None:
    """Nothing that becomes of a check cell costs anything; the teacher is told."""
    submission = read(tmp_path, *cells)

    assert (expected, (note,) if note else ()) == (due(submission), submission.notes("90.1"))


@pytest.mark.parametrize(
    ("check", "left"),
    [
        ('lab.check("90.1", answer_1)', "None"),
        ('lab.check("90.1", answer_1); # now', "None"),
        ('verdict = lab.check(\n    "90.1",\n    answer_1,\n)', f"verdict = {HAS_PASSED}"),
        ('if answer_1:\n    print(lab.check("90.1"))', f"if answer_1:\n    print({HAS_PASSED})"),
        ('Lab("90").check("90.1", answer_1)', "None"),
        ('check = lab.check\ncheck("90.1")', f"check = {HAS_PASSED}\ncheck('90.1')"),
        ('!ls\nlab.check("90.1")', "get_ipython().system('ls')\nNone"),
        ('%time lab.check("90.1")', "get_ipython().run_line_magic('time', 'None')"),
        ('spelling.check("word")', 'spelling.check("word")'),
        ('lab.check("90.1"', 'lab.check("90.1"'),
    ],
)
def test_a_check_in_an_answer_is_left_out(tmp_path: Path, check: str, left: str) -> None:
    """Where it is graded there are no checks: the call would raise, and cost a right answer."""
    submission = read(tmp_path, cell(f"answer_1 = {{}}\n{check}", "answer-90-1"))

    assert [f"answer_1 = {{}}\n{left}"] == [each.source for each in submission.cells]


def test_a_check_in_a_cell_with_a_magic_is_left_out(tmp_path: Path) -> None:
    """The magic has the rest of the cell as a text."""
    submission = read(tmp_path, cell('%%time\nx = 1\nlab.check("90.1", answer_1)', "answer-90-1"))

    called = "get_ipython().run_cell_magic('time', '', 'x = 1\\nNone')"
    assert [called] == [each.source for each in submission.cells]


def test_what_goes_on_with_a_verdict_goes_on() -> None:
    """It may ask whether it has passed, and look at its run."""
    exec(f"verdict = {HAS_PASSED}\nassert verdict.status == 'PASS'\nverdict.timeline().show()")


@pytest.mark.parametrize(
    "check", [CHECK, cell('answer_1 = 2\nlab.check("90.1", answer_1)', "check-90-1")]
)
def test_several_answers_in_one_cell(tmp_path: Path, check: dict[str, Any]) -> None:
    """Two cells made one, or all answers in one of a learner's own, are known by their names.

    So is an answer that stands where it is checked.
    """
    both = cell("answer_1, note = 1, 2\nfrom shop import (send_once,\n    f)", "answer-90-2")
    one = int(check is not CHECK)
    submission = read(tmp_path, both, check)

    assert (0, one) == (submission.answer_cell("90.2"), submission.answer_cell("90.1"))
    assert submission.needed().cells[one].source.startswith("answer_1")


@pytest.mark.parametrize(
    ("above", "expected"), [("answer_1 = {}", 1), (None, 2), ("# see below", 2), ("", 2)]
)
def test_an_answer_below_its_check(tmp_path: Path, above: str | None, expected: int) -> None:
    """It counts where the cell for it is blank or emptied; else it may be a further look."""
    (blank,) = (it for it in read(tmp_path).handed_out if "90.1" in it.answers)
    first = cell(blank.source if above is None else above, "answer-90-1")
    submission = read(tmp_path, first, CHECK, cell("answer_1 = {'order': '2'}"))

    assert [expected] == [at for at, items in enumerate(due(submission)) if items]


def test_the_last_of_two_answers_counts(tmp_path: Path) -> None:
    """A copied cell keeps its id; the last one is the answer, as it is for the reader."""
    submission = read(tmp_path, ANSWER, cell("answer_1 = 2", "answer-90-1"), CHECK)

    assert 1 == submission.answer_cell("90.1")


def test_metadata_names_the_lab(tmp_path: Path) -> None:
    """A renamed file is still of its lab."""
    path = read(tmp_path, ANSWER, delivery_lab={"lab": "90"}).path

    renamed = path.rename(tmp_path / "Anna (2).ipynb")

    assert "90" == read_submission(renamed, LABS).lab


def test_a_source_is_a_submission() -> None:
    """The source of a lab, with its solutions, can be graded itself."""
    (source,) = (LABS / "source").glob("90_*.py")

    submission = read_submission(source, LABS)

    assert all(submission.answer_cell(each.item) is not None for each in submission.exercises)


@pytest.mark.parametrize(
    "text",
    ["fault_4: object = 4", "if True:\n    fault_4 = 4", "(fault_4 := 4)", "fault_4 = 4 if",
     "from faults import fault_4", "%%time\nfault_4 = 4"],
)  # fmt: skip
def test_cells_without_metadata(tmp_path: Path, text: str) -> None:
    """Where a tool has stripped them, a cell's id tells; where it was typed anew, what it binds."""
    by_id = {**cell("answer_1 = 1"), "id": "answer-90-1"}
    by_text = cell(text)
    function = cell("def send_once(run):\n    answer_1 = 2")
    check = cell('lab.check("90.4", fault_4)')
    more = cell('lab.check("90.2", send_once)\nx = 1')

    submission = read(tmp_path, by_id, by_text, function, check, more)

    assert [0, 1, 2] == [submission.answer_cell(item) for item in ("90.1", "90.4", "90.2")]
    assert [None, None, None, "90.4", None] == [each.checks for each in submission.cells]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_any_unicode(tmp_path: Path, encoding: str) -> None:
    """An editor may have written another encoding of Unicode, or a byte order mark."""
    path = read(tmp_path, ANSWER).path
    path.write_text(path.read_text(), encoding=encoding)

    assert 0 == read_submission(path, LABS).answer_cell("90.1")


OF_90 = {"delivery_lab": {"lab": "90"}}
NO_SUBMISSION: dict[str, tuple[bytes | dict[str, Any], str]] = {
    "nothing": (b"", "the file is not a notebook"),
    "no text": (b"\x00\xff", "the file is not a notebook"),
    "a list": (b"[1]", "the file is not a notebook"),
    "a number of cells": ({"cells": 3}, "the file is not a notebook"),
    "no cells": ({}, "the file is not a notebook"),
    "no lab": ({"cells": []}, "mine.ipynb is no notebook of a lab of this course (90)."),
    "another lab": (
        {"cells": [], "metadata": {"delivery_lab": {"lab": "../x"}}}, "is no notebook of a lab",
    ),
    "a cell without metadata": (
        {"cells": [{"cell_type": "code", "source": 3}], "metadata": OF_90},
        "the file is not a notebook",
    ),
    "a cell without a text": (
        {"cells": [{**cell(""), "source": 3}], "metadata": OF_90}, "cell of the notebook has no t",
    ),
    # Each cell costs the grader time, and each part of the file memory.
    "cells": ({"cells": [cell("")] * 1_001}, "has 1,001 cells, and 1,000"),
    "parts": ({"cells": [], "x": [{}] * 1_000_000}, "braces, and 1,000,000 are the limit"),
    "values": ({"cells": [], "x": [0] * 5_000_001}, "commas, and 5,000,000 are the limit"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "reason"), NO_SUBMISSION.values(), ids=NO_SUBMISSION)
def test_what_is_no_submission(tmp_path: Path, given: bytes | dict[str, Any], reason: str) -> None:
    """A file that cannot be graded is refused with its reason, whatever is in it."""
    path = tmp_path / "mine.ipynb"
    made = given if isinstance(given, bytes) else json.dumps({**FORMAT, **given}).encode()
    path.write_bytes(made)

    with pytest.raises(NotASubmission, match=re.escape(reason)):
        read_submission(path, LABS)


def test_what_is_no_file(tmp_path: Path) -> None:
    """It is a submission's problem, not the grading's; a link may lead to another's notebook."""
    (tmp_path / "link.ipynb").symlink_to(read(tmp_path, ANSWER).path)

    for name, reason in (("none", "cannot be read: No such file"), ("link", "is a link")):
        with pytest.raises(NotASubmission, match=reason):
            read_submission(tmp_path / f"{name}.ipynb", LABS)


def test_folders_are_searched(tmp_path: Path) -> None:
    """A folder stands for the labs' notebooks below it, each once, without Jupyter's own copies."""
    others = ("a/.ipynb_checkpoints/x.ipynb", "a/further/x.ipynb", "a/notes.txt")
    for name in ("b/x.ipynb", "a/x.IPYNB", *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.ipynb").mkdir()
    a, b = tmp_path / "a" / "x.IPYNB", tmp_path / "b" / "x.ipynb"

    assert [b, a] == submissions([b, tmp_path])


def test_answered(tmp_path: Path) -> None:
    """An answer's cell is held against what was handed out; without one there is no answer."""
    blank = read_submission(next((ROOT_LABS).glob("03_*.ipynb")))
    solved = read_submission(next((ROOT_LABS / "source").glob("03_*.py")))

    assert {False} == set(map(blank.is_answered, items(blank)))
    assert {True} == set(map(solved.is_answered, items(solved)))
    assert not read(tmp_path, ANSWER).is_answered("90.3")


def test_an_answer_beside_its_cell(tmp_path: Path) -> None:
    """Who leaves the cell of a query as it is, and writes another, has answered."""
    handed_out = read(tmp_path, ANSWER).handed_out
    cells = [cell(it.source, "answer-90-3") for it in handed_out if "90.3" in it.answers]
    asked = read(tmp_path, *cells), read(tmp_path, *cells, cell("def count_acked(events): ..."))

    assert [False, True] == [each.is_answered("90.3") for each in asked]


ANSWERS = "def send_once(run):\n    return settings, helper(run)"
SEND = cell(ANSWERS, "answer-90-2")
SHOWN = cell("shown = lab.run(send, orders=5)")
NOTES_DOWN = "def note(*it):\n    settings.add(it)\ndef mine(run):\n    send(run, note)\n"
OPENS = cell('from lab_utils import Lab, drop_response\n\nlab = Lab("90")')


def left(submission: Submission) -> list[str]:
    """The texts of the cells that are to run."""
    return [each.source for each in submission.needed().cells if each.source]


@pytest.mark.parametrize("lab", [path.stem for path in (ROOT_LABS / "source").glob("0*.py")])
def test_no_solution_needs_a_lab(lab: str) -> None:
    """The answers of each lab as they are handed out run without a demonstration of theirs."""
    submission = read_submission(ROOT_LABS / "source" / f"{lab}.py")
    needed = submission.needed()

    assert all(needed.cells[at].source for at in map(needed.answer_cell, items(submission)))
    assert not any("Lab(" in each.source for each in needed.cells)
    assert len([each for each in needed.cells if each.source and not each.checks]) < 10


def items(submission: Submission) -> list[str]:
    return [each.item for each in submission.exercises]


@pytest.mark.parametrize(
    "source",
    [
        "settings = {}",
        "settings['acks'] = 'all'",
        "settings.update(acks='all')",
        "settings.acks = 'all'",
        "for settings in ({}, {}): pass",
        "def helper(run): pass",
        "import json as helper",
        "def change():\n    global settings\n    settings = {}",
        "with open('x') as settings: pass",
        "change(settings)",
        "[change(each, settings) for each in 'ab']",
        "def send_once(run):\n    return 'a better one'",
        "del settings",
        "from elsewhere import *",
        "@settings.add\ndef mine(run): pass",
        "mine = settings\nmine['acks'] = 'all'",
        "for mine in settings:\n    mine['acks'] = 'all'",
        "for mine in (settings, {}):\n    mine['acks'] = 'all'",
        "mine, other = settings, {}\nmine['acks'] = 'all'",
        "mine: dict = other or settings\nmine['acks'] = 'all'",
        "def mine():\n    return settings\nmine()['acks'] = 'all'",
        "mine = lambda: {'a': settings}\nmine()['a']['acks'] = 'all'",
        "def mine(it=settings):\n    it['acks'] = 'all'\nmine()",
        "match settings:\n    case dict() as mine: mine['acks'] = 'all'",
        "settings.safe",
        "print(settings.safe)",
        "settings << {'acks': 'all'}",
        "import nest_asyncio\nnest_asyncio.apply()",
        "with open('settings', 'w') as file:\n    file.write('acks=all')",
        "import lab_utils.lab\nlab_utils.lab.x = 1",
        "import json\njson.settings['x'] = 1",
        "(a or b).settings = 1",
        "%run settings.py",
        "!ls",
        "!ls\n%time settings = {}\nfiles = !ls",
        "%%time\nsettings = {}",
        pytest.param("!ls\nsettings = {}\n" + "y = 1\n" * 5_000, id="a long cell with a magic"),
        pytest.param("settings = " + " + ".join("1" * 900), id="a long sum"),
        "get_ipython().user_ns['settings'] = {}",
        "print(settings, helper)",
        "x = [settings for settings in 'ab']",
    ],
)
def test_what_is_a_learners_own_runs(tmp_path: Path, source: str) -> None:
    """Nobody can tell what it is for: it may change what an answer uses in many ways."""
    assert [source, ANSWERS] == left(read(tmp_path, OPENS, cell(source), SEND))


def test_a_copy_of_what_was_handed_out_runs_where_it_replaces_an_answer(tmp_path: Path) -> None:
    """The check below it has it, and so does who examines the answer there."""
    handed_out = read(tmp_path).handed_out
    (blank,) = (each.source for each in handed_out if "90.2" in each.answers)

    assert [ANSWERS, blank] == left(read(tmp_path, OPENS, SEND, cell(blank)))


def test_what_a_learner_adds_to_a_check_runs(tmp_path: Path) -> None:
    """An answer may use it, for it is called only then; the check itself is left out."""
    check = cell('def helper(run): ...\nlab.check("90.2", send_once)', "check-90-2")
    submission = read(tmp_path, OPENS, SEND, check)

    assert [ANSWERS, "def helper(run):\n    ...\nNone"] == left(submission)
    assert [False, True] == [each.cells[-1].runs for each in (read(tmp_path, CHECK), submission)]


@pytest.mark.parametrize(
    "source",
    [
        "lab.run(send_once, orders=6)",
        "mine = lab.run(send_once)\nmine.findings()\nmine.settings = 3",
        "guess = lab.predict(acked=3, because='settings')",
        "runs = [lab.run(send_once, orders=each) for each in (1, 2)]\nprint(runs[0], settings)",
        "runs = Lab('90').run(send_once)\nfor run in runs:\n    run.timeline()",
        "send_once(lab.run(send_once).events()).show()",
        "_.timeline(apis=None)\nlast = _.runs[-1]",
        "spark = SparkSession.getActiveSession()\nspark.range(3).show()",
        "this is no Python",
        ">>> y = 1\n... this is no Python",
        "y = 1\ndef mine():\n    nonlocal y",
        "%time mine = lab.run(print)",
        "%%time\nmine = lab.run(print)\nmine.findings()",
        "mine = lab.run(print).acked\nmine += 1",
        "mine = lab.run(print)\ndel mine",
        "",
    ],
)
def test_what_only_asks_the_lab_does_not_run(tmp_path: Path, source: str) -> None:
    """What only shows something is left out, a run with an answer, too."""
    assert [ANSWERS] == left(read(tmp_path, OPENS, cell(source), SEND))


def test_what_that_rests_on_runs_too(tmp_path: Path) -> None:
    """A learner's own statement leads to what was handed out that it uses, and so on."""
    owns = "again = drop_response('Produce', nth=2)", "%time again = drop_response('Fetch')"
    for own in owns:
        assert [OPENS["source"].partition("\n")[0], own] == left(
            read(tmp_path, OPENS, cell("x = lab.orders"), cell(own))
        )


@pytest.mark.parametrize("source", ["lab.run(print)", "print(lab)", "for _ in lab.runs: ..."])
def test_what_asks_the_lab_beside_an_answer(tmp_path: Path, source: str) -> None:
    """The lab need not be opened for what stands in one cell with it."""
    own = cell(OPENS["source"].replace("drop", "delay_response, drop") + f"\n{source}")
    answer = cell(f"fault_4 = drop_response('Produce', nth=1)\n{source}", "answer-90-4")

    assert left(read(tmp_path, own, answer)) == [
        "from lab_utils import Lab, delay_response, drop_response",
        "fault_4 = drop_response('Produce', nth=1)",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "globals()['settings'] = {}",
        "exec('settings = {}')",
        "%time settings = lab.run(print).settings",
        "!ls\n%time settings = lab.acks\nfiles = !ls",
        "settings = lab.run(print).settings",
        "settings = _.runs[-1].settings",
        "settings.update(lab.run(print).settings)",
        "settings['acks'] = lab.acks",
        "fill(settings, lab.run(print))",
        "def fill(run):\n    global settings\n    settings = run\nfill(lab.run(print))",
        "def fill(run):\n    settings.append(run)\nfill(lab.run(print))",
        "runs = {}\nruns['x'] = lab.run(print)\nsettings = runs['x'].settings",
        "from pyspark.sql import SparkSession\nsettings = SparkSession.getActiveSession()",
        "def helper(run):\n    return lab",
        f"{NOTES_DOWN}lab.run(mine)",
        f"{NOTES_DOWN}for each in [mine]:\n    lab.run(each)",
        f"{NOTES_DOWN}print(lab, mine(1))",
        "mine = lambda run: settings.append(run)\nlab.run(mine)",
        "mine = partial(print, settings)\nlab.run(mine)",
        "settings = Mine()\nlab.run(settings.send)",
        "settings = Mine()\nlab.run(faults=[], workload=settings)",
        "settings = Mine()\nlab.run(**{'workload': settings})",
        "import settings\nsettings.acks = lab.run(print).acks",
        "box = [{'x': (1, settings)}]\nbox[0]['x'][1].update(lab.run(print).acks)",
        "def fill(run, to=settings):\n    to.append(run)\nfill(lab.run(print))",
        "class settings: ...\nclass Mine(settings):\n    acks = lab.run(print).acks",
        "class Mine(metaclass=settings):\n    acks = lab.run(print).acks",
        "@settings.append\ndef mine(run):\n    return lab.run(print).acks",
        "send, settings = [], 1\ndef mine(run):\n    send()\nlab.run(mine)",
        "note = settings.append\ndef mine(run):\n    note(run)\nlab.run(mine)",
        "mine = lab.run(print)\nwith open('settings', 'w') as file:\n    json.dump(mine.log, file)",
        "def mine(run):\n    Path('settings').write_text('x')\nlab.run(mine)",
        "os.environ['ACKS'] = lab.acks",
        "%%writefile shop.py\nfor _ in range(3):\n    print(_)",
        "%%bash\necho '# of the lab' > shop.py",
        "SparkSession.getActiveSession().udf.register('is_safe', print)",
        "lab.run(print).events().createOrReplaceTempView('settings')",
        "def send(run):\n    settings.append(run)",  # below which a demonstration performs it
    ],
)
def test_where_nobody_can_tell_all_runs(tmp_path: Path, source: str) -> None:
    """A cell that finds names by their text, or what an answer rests on uses the lab: all stays.

    What the lab says depends on all that was done with it.
    """
    submission = read(tmp_path, OPENS, cell("x = 1"), cell(source), SHOWN, SEND)
    as_handed_out = replace(submission, handed_out=(Cell(SHOWN["source"]),))

    assert as_handed_out.needed() is as_handed_out


UNLIKELY = {
    "magics": ("answer_1 = {}\n" + "!true\n" * 600, 1),  # IPython gives up at 500
    "magics and lines": ("answer_1 = {}\n" + "!true\n" * 400 + "x = 1\n" * 20_000, 1),
    "magics in each cell": ("answer_1 = {}\n" + "!true\n" * 499, 60),
    "one long line": ("answer_1 = [" + "0," * 1_000_000 + "]", 1),
    "one long name": ("answer_1 = {}\nimport a" + ".a" * 90_000, 1),
    "functions in functions": ("answer_1 = {}\nx = " + "lambda: " * 2_000 + "1", 1),
}


@pytest.mark.parametrize(("source", "cells"), UNLIKELY.values(), ids=UNLIKELY)
def test_code_that_nobody_could_have_written(tmp_path: Path, source: str, cells: int) -> None:
    """It is handed to its kernel as it is, and takes the grader no time and no memory."""
    started = time.process_time()
    answers = [cell(source, "answer-90-1")] * cells
    submission = read(tmp_path, *answers, CHECK).needed()

    assert [source] * cells + [CHECK["source"]] == [each.source for each in submission.cells]
    assert time.process_time() - started < 5


def test_more_parts_than_anyone_could_look_at(tmp_path: Path) -> None:
    """A hundred thousand outputs are read in seconds: nobody asks whether each is a right one."""
    output = {"output_type": "stream", "name": "stdout", "text": "x"}
    started = time.process_time()
    read(tmp_path, cell("x = 1") | {"outputs": [output] * 100_000})

    assert time.process_time() - started < 10


BLANKS = " " * 100_000


@pytest.mark.parametrize(
    "sources",
    [
        [f'lab.check("90.1"{BLANKS}\n x'],
        [f'lab.check("90.1"{BLANKS}{BLANKS}\n x', f"answer_1{BLANKS}x"],
        [f"a{number} = a{number + 1}" for number in range(900)] + ["answer_1 = a0"],
        ["a\n" * 200_000, "answer_1, " * 40_000],
        ["x;" * 24_000],
    ],
    ids=["blanks in a check", "blanks in an answer", "a chain of names", "lines", "statements"],
)
def test_what_takes_the_longest_to_look_through(tmp_path: Path, sources: list[str]) -> None:
    """Who looks for a learner's cells holds up all other gradings, so it takes no time."""
    started = time.process_time()
    read(tmp_path, *map(cell, sources)).needed()

    assert time.process_time() - started < 1.5


def test_what_is_kept_of_an_answer_is_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what need not run: who reads it sees the comments, and the demonstration in its cell."""
    text = "answer_1 = {}  # for nothing was sent\nlab.run(print)"
    read(tmp_path, OPENS, cell(text, "answer-90-1"))
    monkeypatch.setattr(grader, "_graded", lambda *_: ((), ()))
    terms: Any = SimpleNamespace(labs=LABS, lab=None)
    found = grader._submission(tmp_path / "90_tiny.ipynb", terms, lambda _: None)

    assert {"90.1": text} == found.answers


@pytest.mark.parametrize(("times", "status"), [(1, "graded"), (2, "infrastructure")])
def test_what_a_machine_could_not_do_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, status: str
) -> None:
    """Once, whatever kind of error it was; then the submission says so, and costs no other."""
    read(tmp_path, ANSWER, CHECK)
    errors = iter([BlockingIOError(11, "Resource temporarily unavailable")] * times)

    def graded(*_: object) -> tuple[tuple[()], tuple[()]]:
        for error in errors:
            raise error
        return (), ()

    monkeypatch.setattr(grader, "_graded", graded)
    terms: Any = SimpleNamespace(labs=LABS, lab=None)
    found = grader._submission(tmp_path / "90_tiny.ipynb", terms, lambda _: None)

    assert status == found.status
    assert ("temporarily unavailable" in (found.reason or "")) == (status != "graded")
