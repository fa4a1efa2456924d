"""Nothing is lost: a real ./lab grade is ended in every way, and the same command goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from lab_utils import processes
from lab_utils.errors import BadArgument, SetupError
from lab_utils.grading import grader, records
from lab_utils.grading.handed_in import found
from lab_utils.grading.notebook import notebook_text
from lab_utils.grading.reports import table, write_reports
from lab_utils.grading.results import Results, SubmissionResult, Verdict, presentable
from lab_utils.waiting import wait_until

LAB: Final = [sys.executable, "-m", "lab_utils.cli", "grade"]
# It waits: a loop that is busy would only take processor time from the other tests.
ENDLESS: Final = "answer_1 = {}\nwhile True: __import__('signal').pause()"
VERSIONS: Final = {"kafka": "4.3.1"}


def notebook(*cells: str) -> str:
    """A notebook of lab 03 without any of its cells: it is graded at once, with no kernel."""
    about = {"delivery_lab": {"lab": "03"}}
    return notebook_text(new_notebook(cells=[*map(new_code_cell, cells)], metadata=about))


@pytest.fixture
def handed_in(tmp_path: Path) -> Iterator[Path]:
    """Three submissions that take no time, and a last one that takes all there is."""
    folder = tmp_path / "submissions"
    temporary(folder).mkdir()
    for learner in ("ada", "bob", "cleo"):
        (folder / learner).mkdir(parents=True)
        (folder / learner / "03.ipynb").write_text(notebook())
    (folder / "zoe").mkdir()
    (folder / "zoe" / "03.ipynb").write_text(notebook(ENDLESS))
    yield folder
    shutil.rmtree(temporary(folder), ignore_errors=True)


def temporary(handed_in: Path) -> Path:
    """Where its grading has its own files; the name is short for sockets."""
    return Path(tempfile.gettempdir(), f"lab-test-{sha256(bytes(handed_in)).hexdigest()[:8]}")


def grading(handed_in: Path, *options: str) -> subprocess.Popen[str]:
    out = handed_in.parent / "grades"
    return processes.spawn(
        [*LAB, str(handed_in), "--out", str(out), "--jobs", "1", *options],
        environment={**os.environ, "TMPDIR": str(temporary(handed_in))},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Who runs the tests may not listen to it, and then nor would the grading: as with nohup.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip


def wait_for_the_last(handed_in: Path) -> None:
    """Wait until the three are kept, and the last one's kernel has begun."""
    begun = lambda: [*temporary(handed_in).glob("lab-grade-*/grade-*-theirs/*/connection.json")]  # noqa: E731
    wait_until(lambda: len(kept(handed_in)) == 3 and begun(), "the last one", timeout_s=100)


def graded(handed_in: Path, *options: str) -> tuple[str, str]:
    """Grade to the end; what stands in the table and in the log."""
    done = grading(handed_in, *options)
    table, log = done.communicate()
    assert 0 == done.returncode, log
    return table, log


def kept(handed_in: Path) -> dict[str, dict[str, Any]]:
    """What OUT has, by learner."""
    files = (handed_in.parent / "grades" / "submissions").glob("*.json")
    read = (json.loads(file.read_text()) for file in files)
    return {each["learner"]: each for each in read}


def result(path: str = "ada/03.ipynb", **columns: Any) -> SubmissionResult:
    given = {"lab": "03", "status": "graded", "sha256": "5a"} | columns
    return SubmissionResult(path=path, **given)


@pytest.mark.labs
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGKILL,
        # They end it as the first does.
        *(pytest.param(it, marks=pytest.mark.long) for it in (signal.SIGTERM, signal.SIGHUP)),
    ],
    ids=lambda it: it.name,
)
def test_a_signal_costs_one_submission(handed_in: Path, number: signal.Signals) -> None:
    """What was graded is whole, the same command grades the rest, with the same schedules."""
    killed = grading(handed_in)
    wait_for_the_last(handed_in)
    killed.send_signal(number)
    _, log = killed.communicate()
    before = kept(handed_in)
    table, log_of_the_rest = graded(handed_in, "--cell-seconds", "1")
    after = kept(handed_in)

    is_kill = number == signal.SIGKILL
    assert (-9 if is_kill else 128 + number) == killed.returncode
    assert is_kill or "Ended after 3 of 4.\nInterrupted: what is graded is kept" in log
    assert {"ada", "bob", "cleo"} == set(before)
    assert before == {learner: after[learner] for learner in before}
    assert "3 of 4 are graded and unchanged.\n1 of 1  " in log_of_the_rest
    assert 1 == len({each["nonce"] for each in after.values()})
    assert "was interrupted when its time was up." in after["zoe"]["notes"][0]
    assert 4 == sum(" 0/20 " in line for line in table.splitlines())
    assert [] == [*(handed_in.parent / "grades").rglob(f"*{records.UNFINISHED}")]
    assert [] == [*temporary(handed_in).iterdir()]


def test_what_killed_gradings_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes; what a grading works in stays, and so does what a link of such a name leads to."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("lab-grade-left/deep", "elsewhere", "lab-grader"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lab-grade-link").symlink_to("elsewhere")
    with grader._place() as first, grader._place() as second:
        found = {path.name for path in tmp_path.iterdir()}

    assert {first.name, second.name, "elsewhere", "lab-grader", "lab-grade-link"} == found
    assert {"elsewhere", "lab-grader", "lab-grade-link"} == {it.name for it in tmp_path.iterdir()}
    assert [] == [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.labs
def test_a_regrade_merges_and_keeps_the_history(handed_in: Path) -> None:
    """--only, a changed notebook and --again grade those alone; the rest stays, verdicts too."""
    shutil.rmtree(handed_in / "zoe")
    graded(handed_in)
    first = kept(handed_in)
    (handed_in / "bob" / "03.ipynb").write_text(notebook("1"))
    changed = graded(handed_in, "--only", "ada", "--only", "b*")[1]
    second = kept(handed_in)
    again, _ = graded(handed_in, "--only", "ada", "--again")
    third = kept(handed_in)

    assert "1 of 2 are graded and unchanged." in changed
    assert [False, True] == [first[it]["sha256"] == second[it]["sha256"] for it in ("bob", "cleo")]
    assert [0, 1, 0] == [len(second[it]["earlier"]) for it in ("ada", "bob", "cleo")]
    assert [1, 1, 0] == [len(third[it]["earlier"]) for it in ("ada", "bob", "cleo")]
    assert first["ada"]["graded_at"] == third["ada"]["earlier"][0]["graded_at"]
    assert "FAIL" == third["ada"]["earlier"][0]["items"]["03.1"]
    assert 1 == again.count("0/20"), "the table shows what was asked for"
    results = json.loads((handed_in.parent / "grades" / "results.json").read_text())
    assert ["ada", "bob", "cleo"] == [each["learner"] for each in results["submissions"]]


@pytest.mark.labs
def test_another_lab_is_rejected(handed_in: Path) -> None:
    """--lab names the lab that is graded; what was graded as another is graded again."""
    shutil.rmtree(handed_in / "zoe")
    graded(handed_in)
    table, _ = graded(handed_in, "--lab", "04")
    _, back = graded(handed_in, "--lab", "03")

    assert 3 == table.count("this is a notebook of lab 03, and lab 04 was asked for.")
    assert "3 of 3  " in back


@pytest.mark.labs
def test_any_name(handed_in: Path) -> None:
    """Names that are no text, too long or alike have files of their own, and say what they are."""
    names = [b"Jos\xe9", b"Jos\xe8", "José".encode(), b"\x1b[31mred", b"[bold]", b"n" * 240,
             b"n" * 239 + b"m", b"Ada", b"a\nb", b"a\\nb"]  # fmt: skip
    shutil.rmtree(handed_in)
    handed_in.mkdir()
    for name in names:
        Path(os.fsdecode(os.fsencode(handed_in) + b"/" + name + b".ipynb")).write_text(notebook())
    table, log = graded(handed_in)
    _, second = graded(handed_in)
    out = handed_in.parent / "grades"

    assert "10 of 10 are graded and unchanged." in second
    assert {"Jos\\xe9", "Jos\\xe8", "José", "\\x1b[31mred", "[bold]", "n" * 240, "n" * 239 + "m",
            "Ada", "a\\nb", "a\\\\nb"} == set(kept(handed_in))  # fmt: skip
    for folder, kind in (("submissions", "json"), ("feedback", "html"), ("gradescope", "json")):
        files = [path.name.lower() for path in (out / folder).glob(f"*.{kind}")]
        assert 10 == len(set(files)), "also where the file system knows no upper case"
    written = [path.read_text() for path in out.rglob("*.*") if path.is_file()]
    assert [] == [text for text in (table, log, second, *written) if "\x1b" in text]
    assert 100 > max(map(len, table.splitlines()))


@pytest.fixture
def small_disk(handed_in: Path) -> Iterator[Path]:
    """OUT on a disk of its own that can be filled."""
    out = handed_in.parent / "grades"
    out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(out)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a disk that fills up is mounted, which only root may")
    yield out
    subprocess.run(["umount", "--lazy", str(out)], check=True)


@pytest.mark.labs
def test_a_full_disk(handed_in: Path, small_disk: Path) -> None:
    """Where nothing can be written any more the grading ends; with room, it goes on."""
    full = grading(handed_in, "--cell-seconds", "10")
    wait_for_the_last(handed_in)
    with suppress(OSError), (small_disk / "others").open("wb", buffering=0) as others:
        while others.write(b"." * 10_000):
            pass
    _, log = full.communicate()
    before = kept(handed_in)
    (small_disk / "others").unlink()
    _, log_of_the_rest = graded(handed_in, "--cell-seconds", "1")

    assert 2 == full.returncode
    assert "cannot be written: No space left on device. What was written before is whole." in log
    assert {"ada", "bob", "cleo"} == set(before)
    assert "3 of 4 are graded and unchanged." in log_of_the_rest
    assert 4 == len(kept(handed_in))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda out: out.write_text(""), "cannot be made: File exists"),
        (lambda out: out.symlink_to("/proc/self/fd"), "cannot be made: No such file"),
    ],
    ids=["a file", "not writable"],
)
def test_out_is_tried_first(handed_in: Path, make: Any, said: str) -> None:
    """Nothing is graded into a place that cannot be written to."""
    make(handed_in.parent / "grades")
    done = grading(handed_in)
    _, log = done.communicate()

    assert 2 == done.returncode
    assert said in log
    assert "--out" in log


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ({"lab": "3"}, "--lab must be one of 00, .*; got '3'"),
        ({"paths": [Path("handed_inn")]}, "handed_inn is not there"),
    ],
)
def test_a_slip_rejects_nobody(handed_in: Path, slip: dict[str, Any], said: str) -> None:
    """A lab or a path that nobody has is the teacher's, and no submission's."""
    given = {"paths": [handed_in], "out": handed_in.parent / "grades"} | slip

    with pytest.raises(BadArgument, match=said):
        grader.grade_and_report(grader.Wanted(**given), print, print)
    assert not (handed_in.parent / "grades").exists()


@pytest.mark.parametrize(
    ("folder", "only"),
    [
        (normalize("NFD", "Jörg"), "Jörg"),
        ("a[1]", "a[1]"),
        ("ada", "a*"),
        *[("\u0639\u0644\u06cc\u200c\u0631\u0636\u0627",) * 2],
        ("a\u200cb", "a\\u200cb"),
    ],
)
def test_only_takes_a_name_as_it_is_said(tmp_path: Path, folder: str, only: str) -> None:
    """A Mac writes an umlaut in two characters, a bracket is no pattern, a joiner is shown as text.

    It may be said as the folder has it, and as a grading shows it.
    """
    (tmp_path / "in" / folder).mkdir(parents=True)
    (tmp_path / "in" / folder / "03.ipynb").touch()
    handed = found([tmp_path / "in"])

    assert handed == grader._chosen(handed, grader.Wanted(paths=[], out=tmp_path, only=[only]))


def test_a_folder_that_goes_away(handed_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is told, and not that the reports could not be, either."""
    out = handed_in.parent / "grades"

    def graded(paths: list[Path], *, keep: Any, **_: object) -> None:
        shutil.rmtree(out)
        keep(paths[0], result())

    monkeypatch.setattr(grader, "grade", graded)
    told: list[str] = []
    with pytest.raises(SetupError, match="json cannot be written: No such file"):
        grader.grade_and_report(grader.Wanted(paths=[handed_in], out=out), told.append, print)

    assert ["Ended after 0 of 4."] == told


def test_one_grading_at_a_time(tmp_path: Path) -> None:
    """A second grader is refused; anyone may read what is there."""
    with records.opened(tmp_path, VERSIONS, 1, None) as first:
        first.keep(tmp_path / "a.ipynb", result())
        with (
            pytest.raises(BadArgument, match="another grading is writing"),
            records.opened(tmp_path, VERSIONS, 1, None),
        ):
            pass
        found = records.results(tmp_path)

    assert ["ada/03.ipynb"] == [each.path for each in found.submissions]


def test_the_nonce_is_the_first_ones(tmp_path: Path) -> None:
    """It stays for the class; another one needs all to be graded again."""
    with records.opened(tmp_path, VERSIONS, 1, None) as first:
        drawn = first.nonce
    with records.opened(tmp_path, VERSIONS, 1, drawn) as second:
        assert drawn == second.nonce
    with pytest.raises(BadArgument, match=drawn), records.opened(tmp_path, VERSIONS, 1, "n"):
        pass
    (tmp_path / "ada.ipynb").write_text("")
    one = grader.Wanted(paths=[tmp_path], out=tmp_path, nonce="n", again=True, only=["ada"])
    with pytest.raises(BadArgument, match=drawn):
        grader.grade_and_report(one, print, print)
    with records.opened(tmp_path, VERSIONS, 1, "n", again=True) as third:
        assert "n" == third.nonce


@pytest.mark.parametrize(
    ("columns", "digest", "versions", "lab", "is_current"),
    [
        ({}, "5a", VERSIONS, None, True),
        ({}, "5a", VERSIONS, "03", True),
        ({}, "5b", VERSIONS, None, False),
        ({}, None, VERSIONS, None, False),
        ({}, "5a", {"kafka": "4.4.0"}, None, False),
        ({}, "5a", VERSIONS, "04", False),
        ({"status": "rejected", "lab": None}, "5a", VERSIONS, None, True),
        ({"status": "infrastructure"}, "5a", VERSIONS, None, False),
        ({"items": [Verdict(item="03.1", title="", kind="value", status="INFRASTRUCTURE", points=0,
                            possible=1, reason="")]}, "5a", VERSIONS, None, False),
    ],
)  # fmt: skip
def test_what_is_graded_again(
    tmp_path: Path, columns: Any, digest: Any, versions: Any, lab: Any, is_current: bool
) -> None:
    """Another text, another version, another lab, and what was nobody's fault."""
    path = tmp_path / "a.ipynb"
    with records.opened(tmp_path, VERSIONS, 1, "n") as then:
        then.keep(path, result(**columns))
    with records.opened(tmp_path, versions, 1, "n") as now:
        assert is_current == now.is_current(path, digest, lab)


def test_a_file_that_no_grading_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grading that goes on names it, whatever it is about, and the others are read."""
    with records.opened(tmp_path, VERSIONS, 1, None) as kept:
        kept.keep(tmp_path / "a.ipynb", result())
    (tmp_path / "a.ipynb").touch()
    broken = tmp_path / "submissions" / "b.json"
    broken.write_text('{"schema": "delivery-lab-submission/1"')
    monkeypatch.setattr(grader, "grade", lambda *_, **__: None)
    told: list[str] = []
    wanted = grader.Wanted(paths=[tmp_path / "a.ipynb"], out=tmp_path)
    grader.grade_and_report(wanted, told.append, print)

    assert f"{broken} cannot be read and was left out. Delete it and grade again." in told
    assert 1 == len(records.results(tmp_path).submissions)


def test_any_text(tmp_path: Path) -> None:
    """Half surrogates, escapes and megabytes are kept, bounded, in every report."""
    evil = "\ud800 \x1b[2J \x00 \u202e ]]> <b> " + "x" * 900_000
    item = Verdict(item="03.1", title="Which", kind="value", status="FAIL", points=0, possible=3,
                   reason=evil, hint=f"{evil}\n{evil}", evidence=(evil,) * 500,
                   notes=(evil,))  # fmt: skip
    whole = result(path=evil, items=(item,), learner=evil, notes=(evil,) * 500)
    with records.opened(tmp_path, VERSIONS, 1, None) as kept:
        kept.keep(tmp_path / "a.ipynb", whole)
    raw = Results(nonce="n", versions=VERSIONS, submissions=(whole,))
    write_reports(records.results(tmp_path), tmp_path)
    shown = table(raw)

    files = [path for path in tmp_path.rglob("*.*") if path.is_file()]
    assert 400_000 > max(path.stat().st_size for path in files)
    assert 10_000 > len(shown)
    for text in (shown, *(path.read_text(encoding="utf-8") for path in files)):
        assert not any(it in text for it in ("\x1b", "\x00", "\u202e", "\ud800"))
    assert presentable(presentable(whole)) == presentable(whole)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """What is no plain file has no text, and nobody waits for one."""
    os.mkfifo(tmp_path / "a.ipynb")
    (tmp_path / "b.ipynb").symlink_to("/dev/zero")

    assert [None] * 3 == [records.digest(tmp_path / f"{name}.ipynb") for name in "abc"]
