"""The grader: many submissions, as many at once as there are cores, each kept when it is graded.

    paths ─▶ files ─▶ less those that OUT has ─▶ graded ─▶ OUT/submissions/NAME.json ─▶ reports

Each submission has a thread, a kernel of its own, and a stage that nobody shares with it and that
is made whole before the next one has it. The cells that its answers rest on run in sequence, and
each item is examined when its cell has run. Whatever a cell does costs its own item at most. A
failure of the grader's own machinery is no verdict: the item or the submission is reported as
`infrastructure`.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from types import MappingProxyType
from typing import Final
from unicodedata import normalize

from lab_utils.audit.report import plain
from lab_utils.audit.spark_server import make_class_archive
from lab_utils.errors import BadArgument, LabError, one_of
from lab_utils.grading import records
from lab_utils.grading.cases import LABS, Exercise, held_by_sources
from lab_utils.grading.examination import Examiner, Infrastructure, require_room
from lab_utils.grading.handed_in import (
    HandedIn,
    answers,
    described,
    found,
    mostly_of_one,
    no_notebooks,
    shown_path,
)
from lab_utils.grading.inside import is_unwritten
from lab_utils.grading.judge import no_answer
from lab_utils.grading.kernel import Budget, KernelSession, SharedSpark, keep_bytecode
from lab_utils.grading.notebook import NotASubmission, sources
from lab_utils.grading.reports import short, table, write_reports
from lab_utils.grading.results import (
    FAIL,
    GRADED,
    INFRASTRUCTURE,
    PASS,
    REJECTED,
    Results,
    SubmissionResult,
    Verdict,
)
from lab_utils.grading.sandbox import end_within, remove, required_isolation
from lab_utils.grading.submission import Submission, read_submission, submissions
from lab_utils.machine.prepare import prepare
from lab_utils.processes import open_many_files
from lab_utils.single_server import take_lock
from lab_utils.stage.lending import Lending
from lab_utils.waiting import ProcessorShare

EXIT_GRADED: Final = 0
EXIT_INFRASTRUCTURE: Final = 2
END_S: Final = 15
LOOK_S: Final = 0.5
PLACE: Final = "lab-grade-"

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

STOOD_STILL: Final = (
    "this machine had hardly a processor for this item, so that what was seen ({}) says nothing of "
    "the answer. Grade it again when less runs beside it, or with fewer --jobs."
)


# Is told what a submission is doing; its result is there when it is done.
Say = Callable[[Path, str, SubmissionResult | None], object]
Keep = Callable[[Path, SubmissionResult], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms that are the same for every submission of a grading.

    isolation  what keeps the submissions apart (sandbox.py)
    place  a private folder; each submission gets a folder in it
    learners  who handed in each path; the unseen schedules are drawn for each of them
    lab    the lab that is to be graded; any if it is None
    keep   is called with each result, on the thread that graded it
    stages  from which each submission is lent one, or two
    shared_spark  asks the plans of all
    stop   when it is set, whatever is still to be done is given up
    processors  tells whether the machine stood still while an item was graded
    """

    nonce: str
    cell_s: float
    total_s: float
    place: Path
    isolation: str
    stages: Lending
    shared_spark: SharedSpark
    processors: ProcessorShare
    learners: Mapping[Path, str] = field(default_factory=dict)
    labs: Path = LABS
    lab: str | None = None
    keep: Keep = lambda *_: None
    stop: threading.Event = field(default_factory=threading.Event)

    def nonce_of(self, submission: Submission) -> str:
        """What the schedules of one submission are drawn from.

        Other cells have others: whoever hands in again has been told which faults there were.
        """
        text = repr([cell.source for cell in submission.cells])
        digest = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
        return f"{self.nonce} {self.learners.get(submission.path, '')} {digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a teacher asks for with ./lab grade.

    only     names of learners or files, or patterns; all if there is none
    again    grade also what is graded and unchanged
    learner  where a path has the learner's name, as in "{learner}/*.ipynb"
    unsafe   grade also where nothing keeps the submissions apart
    """

    paths: Sequence[Path]
    out: Path
    jobs: int | None = None
    cell_s: float = 120
    total_s: float = 900
    nonce: str | None = None
    lab: str | None = None
    only: Sequence[str] = ()
    again: bool = False
    learner: str | None = None
    unsafe: bool = False


def grade_and_report(
    wanted: Wanted, line: Callable[[str], object], status: Callable[[str], object]
) -> int:
    """Grade what is not graded yet, keep each in `out`, write the reports; return the exit code.

    Progress goes to `line`, for each submission one, and to `status`, which shows the last text
    that it was given; the table goes to standard output. Whatever ends it, the reports are written.
    """
    chosen = _chosen(found(wanted.paths, wanted.learner), wanted)
    all_again = wanted.again and not wanted.only
    with records.opened(wanted.out, versions(), len(chosen), wanted.nonce, again=all_again) as kept:
        digests = {each.path: records.digest(each.path) for each in chosen}
        todo = [
            each for each in chosen
            if wanted.again or not kept.is_current(each.path, digests[each.path], wanted.lab)
        ]  # fmt: skip
        learners = {each.path: each.learner for each in todo}

        def keep(path: Path, result: SubmissionResult) -> None:
            result = replace(
                result, learner=learners[path], sha256=digests[path], wanted_lab=wanted.lab
            )
            kept.keep(path, described(result, path))

        board = Board(len(todo), line, status)
        for told in _left_out(wanted, chosen):
            line(told)
        if len(todo) < len(chosen):
            line(f"{len(chosen) - len(todo)} of {len(chosen)} are graded and unchanged.")
        try:
            if todo:
                grade(
                    [each.path for each in todo],
                    jobs=wanted.jobs,
                    cell_s=wanted.cell_s,
                    total_s=wanted.total_s,
                    nonce=kept.nonce,
                    learners=learners,
                    lab=wanted.lab,
                    unsafe=wanted.unsafe,
                    say=board.show,
                    keep=keep,
                    progress=status,
                )
        except BaseException:
            line(f"Ended after {board.done} of {len(todo)}.")
            with suppress(LabError):  # a folder that is gone has none; what ended it is told
                write_reports(records.results(wanted.out), wanted.out)
            raise
        results = records.results(wanted.out, line)
        write_reports(results, wanted.out)
        names = {kept.name(each.path) for each in chosen}
        mine = tuple(each for each in results.submissions if each.name in names)
        shown = replace(results, submissions=mine)
    sys.stdout.write(table(shown) + "\n")
    line(f"The reports are in {wanted.out}.")
    return EXIT_INFRASTRUCTURE if shown.infrastructure_failed else EXIT_GRADED


def report(out: Path, line: Callable[[str], object]) -> None:
    """Write the reports again from what OUT holds, also while it is being graded."""
    results = records.results(out, line)
    write_reports(results, out)
    sys.stdout.write(table(results) + "\n")
    line(f"The reports are in {out}.")


class Board:
    """Tells a terminal or a log how far a grading is; called by all of its threads."""

    def __init__(
        self, total: int, line: Callable[[str], object], status: Callable[[str], object]
    ) -> None:
        self.total, self.done = total, 0
        self._line, self._status = line, status
        self._begun = time.monotonic()
        self._doing: dict[Path, str] = {}
        self._lock = threading.Lock()

    def show(self, path: Path, doing: str, result: SubmissionResult | None = None) -> None:
        """Take notice of what a submission is doing; a terminal that is gone ends no grading."""
        with self._lock, suppress(OSError):
            self._doing[path] = doing
            if result is not None:
                self.done += 1
                del self._doing[path]
                self._line(f"{self._far()}  {_told(path)}  {result.score}"
                           f"  {result.seconds:.1f} s{self._left()}")  # fmt: skip
            workers = (f"\n  {_told(each)}: {its}" for each, its in self._doing.items())
            self._status(f"Grading: {self._far()} are done{self._left()}{''.join(workers)}")

    def _far(self) -> str:
        return f"{self.done} of {self.total}"

    def _left(self) -> str:
        """The time left, if those to come take as long as those that are done."""
        if not 0 < self.done < self.total:
            return ""
        seconds = (time.monotonic() - self._begun) / self.done * (self.total - self.done)
        return f", about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """A time as one says it.

    >>> duration(42), duration(130), duration(6000)
    ('42 s', '2 min', '1 h 40 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def grade(
    paths: Sequence[Path],
    *,
    jobs: int | None = None,
    cell_s: float = 120,
    total_s: float = 900,
    nonce: str | None = None,
    learners: Mapping[Path, str] = MappingProxyType({}),
    labs: Path = LABS,
    lab: str | None = None,
    unsafe: bool = False,
    say: Say = lambda *_: None,
    keep: Keep = lambda *_: None,
    progress: Callable[[str], object] = lambda _: None,
) -> Results:
    """Grade notebooks, sources and folders of notebooks; progress is told by callback.

    `nonce`, drawn anew if it is not given, the learner and the cells decide the unseen schedules.
    What has to be fetched or made first, once for a machine, is told to `progress`.
    `keep` is called with each result at once. Raises BadArgument when there is nothing to grade.
    """
    files = submissions(paths)
    if not files:
        raise _nothing(paths)
    isolation = required_isolation(unsafe=unsafe)
    open_many_files()
    prepare(progress)  # what a sandbox may read, and not write
    make_class_archive(progress)
    keep_bytecode(progress)
    jobs = jobs or os.cpu_count() or 1
    os.environ.pop("LAB_FAULTS", None)  # The faults of an examination are the lab's.
    with (
        _place() as place,
        closing(Lending(f"grade-{secrets.token_hex(6)}", jobs)) as stages,
        closing(SharedSpark(place, isolation)) as shared_spark,
        closing(ProcessorShare()) as processors,
    ):
        terms = Terms(
            nonce=nonce or secrets.token_hex(8),
            cell_s=cell_s,
            total_s=total_s,
            learners=learners,
            labs=labs,
            lab=lab,
            keep=keep,
            place=place,
            isolation=isolation,
            stages=stages,
            shared_spark=shared_spark,
            processors=processors,
        )
        done = _all(files, terms, jobs, say)
    return Results(
        nonce=terms.nonce, versions=versions(labs), isolation=isolation, submissions=tuple(done)
    )


@contextmanager
def _place() -> Iterator[Path]:
    """A folder for the submissions of this grading; those that killed gradings have left are gone.

    Whoever is at work in one has its lock, from before it has its name.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PLACE}*"):
        # A link may lead anywhere, and so may the lock in a folder of somebody else's.
        with suppress(OSError):
            is_ours = left.lstat().st_uid == os.getuid() and not left.is_symlink()
            if is_ours and (lock := take_lock(left)) is not None:
                remove(left)
                os.close(lock)
    made = Path(tempfile.mkdtemp(prefix="lab-grading-"))
    lock = take_lock(made)
    place = made.rename(made.with_name(made.name.replace("lab-grading-", PLACE)))
    try:
        yield place
    finally:
        remove(place)
        if lock is not None:
            os.close(lock)


def _nothing(paths: Sequence[Path]) -> BadArgument:
    names = ", ".join(map(_told, paths))
    return BadArgument(f"there is no notebook in {names}. Name files or folders with *.ipynb.")


def _chosen(handed: Sequence[HandedIn], wanted: Wanted) -> list[HandedIn]:
    """Those that --only names; raises BadArgument for a name, a path or a lab that is not there."""
    if absent := [path for path in wanted.paths if not os.path.lexists(path)]:
        raise BadArgument(f"{_told(absent[0])} is not there. Name files or folders that are.")
    if wanted.lab is not None:
        one_of("--lab", wanted.lab, filter(None, sources(LABS)))
    if not handed:
        raise _nothing(wanted.paths)
    fits = {
        only: [
            each for each in handed
            if any(name == said or fnmatch(normalize("NFC", name), normalize("NFC", said))
                   for said in (only, plain(shown_path(only)))  # as it is typed, and as it is shown
                   for name in (each.learner, each.path.name, each.path.stem, each.path.as_posix()))
        ]
        for only in wanted.only
    }  # fmt: skip
    for only, its in fits.items():
        if not its:
            raise BadArgument(
                f"--only {only} fits none of the {len(handed)} submissions. It is a learner's name "
                f"or a file's, such as {handed[0].learner} or {_told(handed[0].path)}; * stands "
                "for any text."
            )
    named = {each.path for its in fits.values() for each in its}
    return [each for each in handed if each.path in named or not wanted.only]


def _left_out(wanted: Wanted, chosen: Sequence[HandedIn]) -> Iterator[str]:
    """Whose hand-in is none: nobody may learn of it on Monday, by a row that is not there."""
    if wanted.learner or wanted.only:
        return
    yield from mostly_of_one(chosen)
    for each in no_notebooks(wanted.paths, chosen, wanted.out):
        yield f"{_told(each.path)} is no notebook, and there is none of {short(each.learner)}."


def _told(path: Path) -> str:
    return short(plain(shown_path(path)))


def versions(labs: Path = LABS) -> dict[str, str]:
    """What a grade may depend on, by name; `checks` changes with any check of the labs."""
    import confluent_kafka

    from lab_utils.machine.jars import ROOTS

    checks = hashlib.sha256()
    for path in sorted((labs / "checks").glob("*.py")):
        checks.update(path.read_bytes())
    for _, text in held_by_sources(labs).values():
        checks.update(text.encode())
    project = (LABS.parent / "pyproject.toml").read_text(encoding="utf-8")
    return {
        "lab": str(tomllib.loads(project)["project"]["version"]),
        "checks": checks.hexdigest()[:12],
        "python": python_version(),
        "kafka": ROOTS["kafka"][0].rpartition(":")[2],
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "pyspark": version("pyspark"),
    }


def _all(files: Sequence[Path], terms: Terms, jobs: int, say: Say) -> list[SubmissionResult]:
    pool = ThreadPoolExecutor(max_workers=jobs)
    grading = [pool.submit(_one, path, terms, say) for path in files]
    try:
        for each in finished(grading):
            each.result()  # What could not be kept ends the grading at once.
    except BaseException:  # and so does Ctrl-C
        terms.stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        _end_kernels(terms.place, [each for each in grading if not each.cancelled()])
        raise
    pool.shutdown()
    return [each.result() for each in grading]


def finished(grading: Iterable[Future[SubmissionResult]]) -> Iterator[Future[SubmissionResult]]:
    """Each of them as soon as it is done.

    Python hears a signal when its main thread runs. One that came as it began to wait, or that
    another thread took, would be heard when the next submission is done: it wakes up for it.
    """
    left = set(grading)
    while left:
        done, left = wait(left, timeout=LOOK_S, return_when=FIRST_COMPLETED)
        yield from done


def _end_kernels(place: Path, grading: Sequence[Future[SubmissionResult]]) -> None:
    """End the kernels that threads wait for, also one that was just being started."""
    for _ in range(END_S):
        with suppress(LabError):
            end_within(place)
        if not wait(grading, timeout=1).not_done:
            return


def _one(path: Path, terms: Terms, say: Say) -> SubmissionResult:
    started = time.monotonic()
    say(path, "starting", None)
    try:
        result = _submission(path, terms, lambda doing: say(path, doing, None))
    except Exception as error:  # a defect of ours must not end the other gradings
        reason = _reason(error)
        result = SubmissionResult(path=str(path), lab=None, status=INFRASTRUCTURE, reason=reason)
    took = round(time.monotonic() - started, 1)
    result = replace(result, path=shown_path(path), seconds=took, isolation=terms.isolation)
    if not terms.stop.is_set():  # What was cut short has no verdict.
        terms.keep(path, result)
        say(path, "done", result)
    return result


def _submission(path: Path, terms: Terms, say: Callable[[str], object]) -> SubmissionResult:
    """Grade one file. Raises nothing that a submission can cause."""
    try:
        submission = read_submission(path, terms.labs)
    except NotASubmission as error:
        return SubmissionResult(path=str(path), lab=None, status=REJECTED, reason=str(error))
    if terms.lab not in (None, submission.lab):
        reason = f"this is a notebook of lab {submission.lab}, and lab {terms.lab} was asked for."
        return SubmissionResult(path=str(path), lab=submission.lab, status=REJECTED, reason=reason)
    unwell = SubmissionResult(
        path=str(path),
        lab=submission.lab,
        status=INFRASTRUCTURE,
        answers=answers(submission.cells),
    )
    for last_time in (False, True):
        try:
            items, notes = _graded(submission.needed(), terms, say, last_time)
        except Exception as error:  # what a machine had none left of, it may have again
            unwell = replace(unwell, reason=_reason(error))
        else:
            return replace(unwell, status=GRADED, reason=None, items=items, notes=notes)
    return unwell


def _reason(error: Exception) -> str:
    """What is told of an error; what is no LabError is a defect of ours."""
    if isinstance(error, LabError):
        return str(error)
    return f"the grader itself failed: {type(error).__name__}: {error}"


def _graded(
    submission: Submission, terms: Terms, say: Callable[[str], object], last_time: bool
) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    """The items and notes of a submission; raises LabError when no kernel could be started."""
    name = f"grade-{secrets.token_hex(6)}"
    theirs, ours = terms.place / f"{name}-theirs", terms.place / f"{name}-ours"
    ours.mkdir(mode=0o700)
    budget = Budget(terms.cell_s, terms.total_s, terms.stop)
    session = KernelSession(submission, theirs, budget, terms.isolation)
    nonce = terms.nonce_of(submission)
    examiner = Examiner(session, ours, nonce, name, terms.stages, terms.shared_spark)
    with ExitStack() as ended:  # each of these, whatever the others raise
        ended.callback(remove, theirs)
        ended.callback(remove, ours)
        # Of a submission that did not end as it should the stage is lent to nobody else.
        ended.push(lambda kind, *_: examiner.close(is_odd=kind is not None))
        ended.callback(session.close)
        return _examined(session, examiner, terms, say, last_time), _notes(session)


def _examined(
    session: KernelSession,
    examiner: Examiner,
    terms: Terms,
    say: Callable[[str], object],
    last_time: bool,
) -> tuple[Verdict, ...]:
    submission = session.submission
    if any(it.kind == "query" and submission.is_answered(it.item) for it in submission.exercises):
        terms.shared_spark.warm_up()
    found: dict[str, Verdict] = {}
    begun = session.budget.started
    for position, cell in enumerate(submission.cells):
        if cell.runs and (cell.source or cell.answers):
            say(f"cell {position + 1} of {len(submission.cells)}")
            session.run_cell(position)
        for exercise in submission.due_after(position):
            say(exercise.item)
            try:
                verdict = _item(session, examiner, exercise, position)
                if verdict.status != PASS:
                    require_room()
                since = begun if session.budget.left_s() else session.budget.started
                if verdict.status != PASS and terms.processors.was_scarce(since):
                    raise LabError(STOOD_STILL.format(verdict.reason.rstrip(".")))
            except Exception as error:  # an error of ours costs one item, and not the others
                if not (last_time or isinstance(error, Infrastructure)):
                    raise
                examiner.close(is_odd=True)
                verdict = exercise.verdict("INFRASTRUCTURE", _reason(error))
            found[exercise.item] = verdict
            begun = time.monotonic()
    return tuple(
        replace(
            found.get(each.item) or no_answer(each, "the answer cell is missing."),
            notes=submission.notes(each.item),
        )
        for each in submission.exercises
    )


def _item(session: KernelSession, examiner: Examiner, exercise: Exercise, position: int) -> Verdict:
    answer = session.submission.answer_cell(exercise.item)
    if answer is None:
        return no_answer(exercise, "the answer cell is missing.")
    if exercise.is_query and not session.submission.is_answered(exercise.item):
        return no_answer(exercise)  # Spark need not start to say so
    reply = session.replies[answer]
    if is_unwritten(reply.error):
        return no_answer(exercise)
    if reply.status != "ok":
        return exercise.verdict(FAIL, UNWELL[reply.status].format(reply.error))
    return examiner.examine(exercise, position)


def _notes(session: KernelSession) -> tuple[str, ...]:
    """Which cells did not end well; a cell that answers nothing costs nothing."""
    ended = tuple(
        f"Code cell {position + 1} {ENDED[reply.status].format(reply.error)}"
        for position, reply in sorted(session.replies.items())
        if reply.status in ENDED
    )
    return (*ended, *(f"Its processes were ended: {each}." for each in session.exceeded))
