"""The grader: many submissions, as many at once as there are cores, into one Results.

Each submission has a thread, and a kernel and a stage that nobody shares with it. Its cells run in
sequence, and each item is examined when its cell has run. Whatever a cell does costs its own item
at most. A failure of the grader's own machinery is no verdict: the item or the submission is
reported as `infrastructure`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Final

from lab_utils.errors import BadArgument, LabError
from lab_utils.grading.cases import LABS, Exercise
from lab_utils.grading.examination import Examiner, Infrastructure
from lab_utils.grading.judge import failed, no_answer
from lab_utils.grading.kernel import Budget, KernelSession
from lab_utils.grading.reports import table, write_reports
from lab_utils.grading.results import (
    GRADED,
    INFRASTRUCTURE,
    REJECTED,
    Results,
    SubmissionResult,
    Verdict,
)
from lab_utils.grading.sandbox import end_within, required_isolation
from lab_utils.grading.submission import NotASubmission, Submission, read_submission, submissions
from lab_utils.machine.prepare import prepare

EXIT_GRADED: Final = 0
EXIT_INFRASTRUCTURE: Final = 2

# Why an answer cell that did not end well leaves nothing to examine.
UNWELL: Final = {
    "error": "the cell of this answer raised {}",
    "late": "the cell of this answer had not ended when its time was up, and was interrupted.",
    "dead": "the kernel died while the cell of this answer ran.",
    "spent": "the submission's time was spent before the cell of this answer.",
}

ENDED: Final = {
    "error": "raised {}",
    "late": "was interrupted when its time was up.",
    "dead": "ended the kernel.",
    "spent": "was not run: the submission's time was spent.",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """What one submission is doing; `result` is there when it is done."""

    path: Path
    doing: str
    result: SubmissionResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms that are the same for every submission of a grading.

    isolation  what keeps the submissions apart (sandbox.py)
    place  a private folder; each submission gets a folder in it
    stop   when it is set, whatever is still to be done is given up
    """

    nonce: str
    cell_s: float
    total_s: float
    place: Path
    isolation: str
    labs: Path = LABS
    stop: threading.Event = field(default_factory=threading.Event)


def grade_and_report(
    paths: Sequence[Path],
    out: Path,
    jobs: int | None,
    cell_s: float,
    total_s: float,
    console: Any,
) -> int:
    """Grade, write the reports to `out`, print the table; return the exit code.

    `console` is where progress is shown; the table goes to standard output.
    """
    with console.status("Grading") as status:
        results = grade(
            paths,
            jobs=jobs,
            cell_s=cell_s,
            total_s=total_s,
            say=lambda progress: _show(progress, console, status),
        )
    write_reports(results, out)
    sys.stdout.write(table(results) + "\n")
    console.print(f"The reports are in {out}.", markup=False, highlight=False)
    return EXIT_INFRASTRUCTURE if results.infrastructure_failed else EXIT_GRADED


def grade(
    paths: Sequence[Path],
    *,
    jobs: int | None = None,
    cell_s: float = 120,
    total_s: float = 900,
    nonce: str | None = None,
    labs: Path = LABS,
    unsafe: bool = False,
    say: Callable[[Progress], object] = lambda _: None,
) -> Results:
    """Grade notebooks, sources and folders of notebooks; progress is told by callback.

    `nonce` decides the unseen schedules; the same for all, and drawn anew if it is not given.
    Raises BadArgument when there is nothing to grade.
    """
    files = submissions(paths)
    if not files:
        names = ", ".join(map(str, paths))
        raise BadArgument(f"there is no notebook in {names}. Name files or folders with *.ipynb.")
    isolation = required_isolation(unsafe=unsafe)
    prepare()  # what a sandbox may read, and not write
    os.environ.setdefault("LAB_OWNER", str(os.getpid()))
    os.environ.pop("LAB_FAULTS", None)  # The faults of an examination are the lab's.
    with tempfile.TemporaryDirectory(prefix="lab-grade-", ignore_cleanup_errors=True) as place:
        terms = Terms(
            nonce=nonce or secrets.token_hex(8),
            cell_s=cell_s,
            total_s=total_s,
            labs=labs,
            place=Path(place),
            isolation=isolation,
        )
        found = _all(files, terms, jobs or os.cpu_count() or 1, say)
    return Results(nonce=terms.nonce, versions=versions(), submissions=tuple(found))


def versions() -> dict[str, str]:
    """What a grade may depend on, by name."""
    import confluent_kafka

    from lab_utils.machine.jars import ROOTS

    project = (LABS.parent / "pyproject.toml").read_text(encoding="utf-8")
    return {
        "lab": str(tomllib.loads(project)["project"]["version"]),
        "python": python_version(),
        "kafka": ROOTS["kafka"][0].rpartition(":")[2],
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "pyspark": version("pyspark"),
    }


def _all(
    files: Sequence[Path], terms: Terms, jobs: int, say: Callable[[Progress], object]
) -> list[SubmissionResult]:
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            return list(pool.map(lambda path: _one(path, terms, say), files))
        except BaseException:  # Ctrl-C: end the kernels, or the threads would wait for them
            terms.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            end_within(terms.place)
            raise


def _one(path: Path, terms: Terms, say: Callable[[Progress], object]) -> SubmissionResult:
    started = time.monotonic()
    try:
        result = _submission(path, terms, lambda doing: say(Progress(path, doing)))
    except Exception as error:  # a defect of ours must not end the other gradings
        reason = f"the grader itself failed: {type(error).__name__}: {error}"
        result = SubmissionResult(path=str(path), lab=None, status=INFRASTRUCTURE, reason=reason)
    result = replace(result, seconds=round(time.monotonic() - started, 1))
    say(Progress(path, "done", result))
    return result


def _submission(path: Path, terms: Terms, say: Callable[[str], object]) -> SubmissionResult:
    """Grade one file. Raises nothing that a submission can cause."""
    try:
        submission = read_submission(path, terms.labs)
    except NotASubmission as error:
        return SubmissionResult(path=str(path), lab=None, status=REJECTED, reason=str(error))
    unwell = SubmissionResult(path=str(path), lab=submission.lab, status=INFRASTRUCTURE)
    for _ in range(2):
        try:
            items, notes = _graded(submission, terms, say)
        except LabError as error:
            unwell = replace(unwell, reason=str(error))
        else:
            return replace(unwell, status=GRADED, reason=None, items=items, notes=notes)
    return unwell


def _graded(
    submission: Submission, terms: Terms, say: Callable[[str], object]
) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    """The items and notes of a submission; raises LabError when no kernel could be started."""
    name = f"grade-{secrets.token_hex(6)}"
    theirs, ours = terms.place / f"{name}-theirs", terms.place / f"{name}-ours"
    ours.mkdir(mode=0o700)
    budget = Budget(terms.cell_s, terms.total_s, terms.stop)
    session = KernelSession(submission, theirs, budget, terms.isolation)
    examiner = Examiner(session, ours, terms.nonce, name)
    try:
        return _examined(submission, session, examiner, say), _notes(session)
    finally:
        session.close()
        examiner.close()
        for folder in (theirs, ours):
            shutil.rmtree(folder, ignore_errors=True)


def _examined(
    submission: Submission,
    session: KernelSession,
    examiner: Examiner,
    say: Callable[[str], object],
) -> tuple[Verdict, ...]:
    found: dict[str, Verdict] = {}
    for position, cell in enumerate(submission.cells):
        if not cell.checks:
            say(f"cell {position + 1} of {len(submission.cells)}")
            session.run_cell(position)
        for exercise in submission.due_after(position):
            say(exercise.item)
            found[exercise.item] = _item(submission, session, examiner, exercise, position)
    return tuple(
        replace(
            found.get(each.item) or no_answer(each, "the answer cell is missing."),
            notes=submission.notes(each.item),
        )
        for each in submission.exercises
    )


def _item(
    submission: Submission,
    session: KernelSession,
    examiner: Examiner,
    exercise: Exercise,
    position: int,
) -> Verdict:
    answer = submission.answer_cell(exercise.item)
    if answer is None:
        return no_answer(exercise, "the answer cell is missing.")
    reply = session.replies[answer]
    if reply.status != "ok":
        return failed(exercise, UNWELL[reply.status].format(reply.error))
    try:
        return examiner.examine(exercise, position)
    except Infrastructure as error:
        return exercise.verdict("INFRASTRUCTURE", str(error))


def _notes(session: KernelSession) -> tuple[str, ...]:
    """Which cells did not end well; a cell that answers nothing costs nothing."""
    return tuple(
        f"Code cell {position + 1} {ENDED[reply.status].format(reply.error)}"
        for position, reply in sorted(session.replies.items())
        if reply.status in ENDED
    )


def _show(progress: Progress, console: Any, status: Any) -> None:
    name = progress.path.name
    if progress.result is None:
        status.update(f"{name}: {progress.doing}")
    else:
        score = f"{progress.result.points}/{progress.result.possible}"
        console.print(f"{name}: {score}", markup=False, highlight=False)
