"""The same work gets the same grade, and whatever a submission does costs itself alone."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Event
from types import SimpleNamespace
from typing import Any, TypeAlias

import psutil
import pytest

from lab_utils import processes, waiting
from lab_utils.errors import SetupError, StageError
from lab_utils.grading import examination
from lab_utils.grading.cases import exercises
from lab_utils.grading.examination import (
    EXAMINED_GROUPS,
    GROUPS_MAX,
    RUN,
    Examiner,
    Infrastructure,
)
from lab_utils.grading.grader import grade
from lab_utils.grading.results import Results, SubmissionResult, Verdict
from lab_utils.machine.confinement import BUBBLEWRAP, isolation
from lab_utils.machine.java import find_java
from tests.busy import busy_processor, come_last, comes_last
from tests.grading import exploits, handed_in
from tests.notebooks import blank_notebook, source_notebook

pytestmark = [pytest.mark.labs, pytest.mark.timeout(900)]
Graded: TypeAlias = dict[str, SubmissionResult]  # by the name of the submission
# The two cells that never end take as long, beside the others, which have to be done by then.
CELL_S = 60
RIGHT_4 = "from lab_utils import *\nfault_4 = drop_response('Produce', nth=4)"
NONCE = "exploits"
# Other workloads of the lab's own are done in a few seconds.
REFERENCE_S = 30
# Faults that no stage of the exercise can be asked for, and what it says; the last while it runs.
REFUSED = {
    "no_such_broker": ("pause_broker(2)", "this stage has the brokers [1]; got 2."),
    "paused_twice": (
        "[pause_broker(1), pause_broker(1)]",
        "broker 1 is paused; only one that is running can be paused.",
    ),
    "started_twice": (
        'start_broker(1, api="Produce")',
        'start_broker(1, api="Produce") was not carried out: broker 1 is running already. There '
        "is nothing to start.",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the gradings of this module put their submissions; the name is short for sockets."""
    tmp_path_factory.getbasetemp()  # pytest's own folder is not to be in it
    with TemporaryDirectory(prefix="lab-test-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setattr(examination, "REFERENCE_S", REFERENCE_S)
        yield Path(folder)


EXPLOITS = [
    pytest.param(name, marks=() if name in exploits.OF_EACH_KIND else pytest.mark.long)
    for name in exploits.ANSWERS
]
is_confined = pytest.mark.skipif(isolation() != BUBBLEWRAP, reason="no bubblewrap on this machine")


@pytest.fixture(scope="module")
def results(
    request: pytest.FixtureRequest, place: Path, tmp_path_factory: pytest.TempPathFactory
) -> Graded:
    """A class, all graded at once, by name: with each exploit that is asked about.

    A stage and a Spark of their own have the right one, and the one that breaks what it can reach.
    """
    folder = handed_in.hand_in(
        tmp_path_factory.mktemp("class"),
        an_unruly_one=handed_in.changed(handed_in.UNRULY),
        blank=blank_notebook("90", handed_in.LABS),
        correct=source_notebook("90", handed_in.LABS),
        half=handed_in.changed(handed_in.WRONG_HALF),
        hostile=handed_in.changed(handed_in.HOSTILE, opens_the_lab=True),
        no_spark=handed_in.changed(handed_in.NO_SPARK),
        no_notebook="Dear teacher, my dog ate it.",
        no_rule=handed_in.only({"90.1": "answer_1 = ['breaks the rule']", "90.4": RIGHT_4}),
        **{
            name: handed_in.only({"90.4": f"from lab_utils import *\nfault_4 = {faults}"})
            for name, (faults, _) in REFUSED.items()
        },
        **{name: handed_in.only(exploits.ANSWERS[name]) for name in asked_about(request)},
    )
    (folder / "linked.ipynb").symlink_to(folder / "correct.ipynb")
    os.mkfifo(folder / "pipe.ipynb")
    (folder / "device.ipynb").symlink_to("/dev/zero")
    # Who grades in this folder would run them, if Python looked for modules there.
    for name in ("click", "tornado", "confluent_kafka", "pyspark"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n1 / 0")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        results = grade([folder], cell_s=CELL_S, labs=handed_in.LABS)
    assert not (folder / "ran").exists()
    return by_name(results)


def asked_about(request: pytest.FixtureRequest) -> list[str]:
    """The exploits that are chosen of this session's tests."""
    return [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.function is test_it_earns_nothing
        and isolation() == BUBBLEWRAP
    ]


def by_name(results: Results) -> Graded:
    return {Path(each.path).stem: each for each in results.submissions}


def outcomes(submission: SubmissionResult) -> dict[str, tuple[str, int]]:
    return {item.item: (item.status, item.points) for item in submission.items}


def items(submission: SubmissionResult) -> dict[str, Verdict]:
    return {item.item: item for item in submission.items}


def test_correct(results: Graded) -> None:
    """Right answers of each kind get all points, under the schedules of any nonce."""
    right = exercises("90", handed_in.LABS)

    assert {it.item: ("PASS", it.points) for it in right} == outcomes(results["correct"])


def test_blank(results: Graded) -> None:
    """The notebook as it was handed out gets nothing, with a hint where an answer is missing."""
    blank = results["blank"]

    assert {
        "90.1": ("FAIL", 0),
        "90.2": ("FAIL", 0),
        "90.3": ("FAIL", 0),
        "90.4": ("INCONCLUSIVE", 0),
        "90.5": ("FAIL", 0),
    } == outcomes(blank)
    assert "# YOUR CODE" in (items(blank)["90.1"].hint or "")
    assert "Likely: the retry carried no producer id." in (items(blank)["90.2"].hint or "")


def test_half_right(results: Graded) -> None:
    """A wrong answer costs its own points; the mistake that has a name gets its hint."""
    half = results["half"]

    verdicts = [(item.item, item.status, item.reason) for item in half.items]
    assert (6, 12) == (half.points, half.possible), verdicts
    assert "Likely: that is the offset of the first copy." == items(half)["90.1"].hint


COSTS: dict[str, dict[str, tuple[str, str]]] = {
    # A broker that it pauses, or a fault that its stage refuses, is the learner's own choice.
    "half": {"90.4": ("FAIL", examination.WITH_THE_ANSWER)},
    **{name: {"90.4": ("FAIL", said)} for name, (_, said) in REFUSED.items()},
    "no_spark": {
        # Where Spark starts without its cells, they fail, and the grading has not.
        "90.3": ("FAIL", "Spark did not start after your cells (ZeroDivisionError"),
        # Who has not begun is told so, and not that something was raised.
        "90.1": ("FAIL", "there is no answer yet."),
        "90.5": ("FAIL", "there is no answer yet."),
    },
    # A dead kernel, a loop, a missing cell and a function without end cost their own items.
    "an_unruly_one": {
        "90.1": ("FAIL", "the kernel died while the cell of this answer ran."),
        "90.2": ("PASS", "18 orders in 3 runs under 3 faults: 18 in the log, 0 miss"),
        "90.3": ("FAIL", "the cell of this answer had not ended when its time was up"),
        "90.4": ("FAIL", "the answer cell is missing."),
        "90.5": ("FAIL", "your function had not returned when its time was up"),
    },
    # A rule that raises is no learner's fault; the other exercises keep their points.
    "no_rule": {
        "90.1": ("INFRASTRUCTURE", "the grader itself failed: ZeroDivisionError: division by zero"),
        "90.4": ("PASS", "6 orders"),
    },
    # Forged events, patched code and answers that equal everything earn nothing.
    "hostile": {
        "90.1": ("FAIL", "the answer is not plain data"),
        "90.2": ("FAIL", "nothing was sent: no Produce request crossed the wire."),
        "90.3": ("FAIL", "your query returns 1 row, but it is another one."),
        "90.4": ("PASS", "6 orders"),
        "90.5": ("INCONCLUSIVE", "no process came to after_ack "),
    },
}


@pytest.mark.parametrize(
    ("name", "item", "status", "reason"),
    [(name, item, *told) for name, items in COSTS.items() for item, told in items.items()],
)
def test_what_a_submission_does_costs_itself_alone(
    results: Graded, name: str, item: str, status: str, reason: str
) -> None:
    """Each item has its own verdict, points if it passed, and the reason says what was wrong."""
    found = items(results[name])[item]

    assert (status, found.possible * (status == "PASS")) == (found.status, found.points)
    assert reason in found.reason


def test_an_edited_check_is_noted(results: Graded) -> None:
    """The teacher is told of the edited check, and it changes nothing."""
    (note,) = items(results["an_unruly_one"])["90.2"].notes

    assert note.startswith("The check cell was edited")


def test_no_notebook(results: Graded) -> None:
    """A file that is no notebook is rejected with its reason, and the others are graded."""
    rejected = results["no_notebook"]

    assert ("rejected", 0) == (rejected.status, rejected.possible)
    assert "the file is not a notebook" in (rejected.reason or "")


@pytest.mark.parametrize("name", ["linked", "pipe", "device"])
def test_what_is_no_file_of_its_own(results: Graded, name: str) -> None:
    """A link to another's notebook, a pipe and a device are rejected, and nobody waits for them."""
    assert ("rejected", 0) == (results[name].status, results[name].points)


@is_confined
@pytest.mark.parametrize("name", EXPLOITS)
def test_it_earns_nothing(results: Graded, name: str) -> None:
    """No exploit has a point, and none is the grader's failure: it has a verdict with a reason."""
    found = [item for item in results[name].items if item.item in exploits.ANSWERS[name]]

    points = [it.points for it in found]

    assert ("graded", [0] * len(found)) == (results[name].status, points), results[name].reason
    assert all(item.status in ("FAIL", "INCONCLUSIVE") and item.reason for item in found), found


@pytest.mark.usefixtures("results")
def test_nothing_is_left(place: Path) -> None:
    """No process and no folder of any submission survives the grading."""
    words = " ".join(word for it in psutil.process_iter() for word in processes.words(it))
    assert str(place) not in words
    assert [] == list(place.glob("lab-grade-*"))


@pytest.mark.long
def test_what_is_not_right_on_a_machine_that_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What passes has its points, however long it took; the rest is nobody's fault, and told so."""
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(waiting, "SCARCE", 0)  # each look finds that it took too long
    monkeypatch.setattr(waiting, "SCARCE_S_MIN", 0)
    handed_in.hand_in(tmp_path, it=handed_in.only({"90.1": "answer_1 = 0", "90.4": RIGHT_4}))

    found = items(by_name(grade([tmp_path / "it.ipynb"], labs=handed_in.LABS))["it"])

    assert ("INFRASTRUCTURE", 0) == (found["90.1"].status, found["90.1"].points)
    assert "had hardly a processor" in found["90.1"].reason
    assert ("PASS", 1) == (found["90.4"].status, found["90.4"].points)


RIGHT = """
def send_once(run):
    from pathlib import Path

    Path("begun-{name}").touch()
    while not Path("go on").exists(): pass
    for _ in range(40_000_000): pass
    producer = run.producer({{"enable.idempotence": True}})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
"""


def starve(place: Path, processor: int, over: Event) -> None:
    """Let all others come before what has begun, and before the grader's look at its share.

    Of `once` that is its first try alone.
    """
    known: set[Path] = set()
    while not over.wait(0.05):
        for mark in set(place.glob("lab-grade-*/grade-*-theirs/work/begun-*")) - known:
            if mark.name != "begun-once" or mark.name not in {each.name for each in known}:
                come_last(mark.parent, processor)
                for thread in threading.enumerate():
                    if thread.name == "processor share" and thread.native_id:
                        comes_last(thread.native_id, processor)
            known.add(mark)
            with suppress(OSError):  # the end of its time may have come first
                (mark.parent / "go on").touch()


@pytest.mark.long
def test_a_machine_that_stands_still_is_nobodys_zero(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right answer that had no processor is examined again, and passes if it has one then."""
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(waiting, "SCARCE_S_MIN", 10)
    names, over = ("once", "always"), Event()
    answers = {name: handed_in.only({"90.2": RIGHT.format(name=name)}) for name in names}
    handed_in.hand_in(tmp_path, **answers)
    with busy_processor() as busy, ThreadPoolExecutor(1) as pool:
        starving = pool.submit(starve, place, busy, over)
        try:
            results = grade([tmp_path], labs=handed_in.LABS, cell_s=8)
        finally:
            over.set()
        starving.result()

    graded = by_name(results)
    assert outcomes(graded["once"])["90.2"] == ("PASS", 4)
    assert results.infrastructure_failed
    # Also its kernel may have taken too long to end.
    assert outcomes(graded["always"]).get("90.2") in (("INFRASTRUCTURE", 0), None)


BROKEN_JAVA = """#!/bin/sh
case "$*" in *kafka.Kafka*) exit 1 ;; esac
exec {java} "$@"
"""


@pytest.mark.long
def test_no_stage_is_nobodys_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no broker can be started the items say so, and the grading as a whole has failed."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(BROKEN_JAVA.format(java=find_java().executable))
    java.chmod(0o700)
    monkeypatch.setenv("LAB_JAVA", str(java))
    answer = {"90.2": "def send_once(run):\n    pass"}
    handed_in.hand_in(tmp_path, correct=handed_in.only(answer))

    graded: Results = grade([tmp_path], labs=handed_in.LABS)

    assert graded.infrastructure_failed
    assert "INFRASTRUCTURE" in {item.status for item in graded.submissions[0].items}


def test_what_is_missing_is_said_at_the_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Java nothing is graded, and nobody has a zero for it."""
    monkeypatch.setenv("LAB_JAVA", str(tmp_path / "no-java"))
    handed_in.hand_in(tmp_path, correct=handed_in.changed({}))

    with pytest.raises(SetupError, match="LAB_JAVA"):
        grade([tmp_path], labs=handed_in.LABS)


@is_confined
@pytest.mark.long
def test_who_is_killed_at_no_work(tmp_path: Path) -> None:
    """No kill finds in its work who dies elsewhere, or later: neither has a point of 72.2."""
    for name, text in (("input", exploits.TO_ITS_INPUT), ("later", exploits.LOOKS_LATER)):
        notebook = source_notebook("72")
        notebook.cells = [it for it in notebook.cells if it.get("id") != "answer-72-1"]
        next(it for it in notebook.cells if it.get("id") == "answer-72-2").source = text
        handed_in.hand_in(tmp_path, **{name: notebook})
    results = grade([tmp_path], jobs=1, nonce=NONCE)
    input_, later = (each.items[1] for each in results.submissions)

    assert ("FAIL", 0) == (input_.status, input_.points)
    assert "wrote to run.topic" in input_.reason
    assert ("INCONCLUSIVE", 0) == (later.status, later.points)
    assert "had committed when it came to after_ack" in later.reason


@is_confined
@pytest.mark.long
@pytest.mark.parametrize(
    ("holds", "group"),
    [
        (exploits.HOLDS_A_GROUP, "billing"),
        (exploits.HOLDS_IT_UNSEEN, "billing"),
        (exploits.HOLDS_A_GROUP, f"{RUN}billing"),
    ],
    ids=["seen", "unseen", "named almost as a run's"],
)
def test_who_holds_a_group_holds_up_nobody(holds: str, group: str, tmp_path: Path) -> None:
    """A group outlives its topics, a member its death; the next one may name its own alike."""
    texts = (it.replace("billing", group) for it in (holds, exploits.READS_WHAT_IT_SENT))
    answers = dict(zip("ab", texts, strict=True))
    handed_in.hand_in(
        tmp_path, **{name: handed_in.only({"90.2": text}) for name, text in answers.items()}
    )
    results = grade([tmp_path], labs=handed_in.LABS, jobs=1, nonce=NONCE)

    assert [("FAIL", 0), ("PASS", 4)] == [
        (item.status, item.points)
        for each in results.submissions
        for item in each.items
        if item.item == "90.2"
    ]


@pytest.mark.parametrize(
    ("group", "up_to"), [(f"{RUN}{0:08x}-", GROUPS_MAX), (f"{RUN}g-", EXAMINED_GROUPS)]
)
def test_a_stage_with_many_groups_is_ended(
    group: str, up_to: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those named after runs are left there; a submission may name thousands of its own so."""
    ended: list[bool] = []
    for count in (up_to, up_to + 1):
        names = [f"{group}{number}" for number in range(count)]
        groups = SimpleNamespace(names=lambda names=names: names, forget=lambda *_: None)
        monkeypatch.setattr(examination, "Groups", lambda _, groups=groups: groups)
        stages = SimpleNamespace(take_back=lambda _, is_odd: ended.append(is_odd))
        session: Any = SimpleNamespace(isolation=BUBBLEWRAP)
        examiner = Examiner(session, tmp_path, NONCE, "ada", stages, None)  # type: ignore[arg-type]
        examiner._stage = SimpleNamespace(direct="")  # type: ignore[assignment]
        examiner.close()

    assert [False, True] == ended


class Full:
    """An experiment whose broker has ended for want of room."""

    orders = ("0",)
    folder = Path()
    attended = nullcontext

    def finish(self, *_: object) -> None:
        """Find no broker that could be asked."""
        raise StageError("broker 1 ended with exit code 1 while it started.")


def test_a_full_disk_is_nobodys_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the function raised when the broker was gone, it is graded again."""
    session: Any = SimpleNamespace(isolation=BUBBLEWRAP)
    examiner = Examiner(session, tmp_path, NONCE, "ada", None, None)  # type: ignore[arg-type]
    (exercise,) = (it for it in exercises("90", handed_in.LABS) if it.item == "90.2")
    begun = Full(), SimpleNamespace(folder="")
    monkeypatch.setattr(examiner, "_begun", lambda *_: begun)
    run = partial(examiner._run, exercise, exercise.public[0], lambda *_: "KafkaException")
    assert "KafkaException" == run().raised
    monkeypatch.setattr(examination, "is_full", lambda _: True)

    with pytest.raises(Infrastructure, match="the disk is full in"):
        run()


@is_confined
def test_a_full_disk_for_a_cell_is_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right answer raises, too, when there is no room for what it writes."""
    raises = "raise OSError(28, 'No space left on device')"
    handed_in.hand_in(tmp_path, ada=handed_in.only({"90.1": raises}))
    monkeypatch.setattr(examination, "is_full", lambda folder: folder == Path(gettempdir()))
    results = grade([tmp_path], labs=handed_in.LABS, jobs=1, nonce=NONCE)

    assert results.infrastructure_failed
    assert "the disk is full in" in results.submissions[0].items[0].reason
