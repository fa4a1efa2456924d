"""What lab.check does: perform an exercise's public trials on the learner's stage, and judge them.

The judge and the rules are the grader's; only the schedules differ. It raises nothing but
BadArgument for an item that its lab does not have: an answer of any shape gets a verdict.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab_utils.clients.workload import is_outcome
from lab_utils.errors import BadArgument, LabError
from lab_utils.experiment import order_values
from lab_utils.grading import cases, inside, judge
from lab_utils.grading.cases import Evidence, Exercise, Trial
from lab_utils.grading.results import FAIL, INCONCLUSIVE, INDENT, PASS, Score, Verdict
from lab_utils.ledger.store import write_ledger

if TYPE_CHECKING:
    from lab_utils.lab import Lab
    from lab_utils.run import Run

# What to call to see a run, and what a run has that is seen so; `_` is what the last cell returned.
VIEWS: Final[tuple[tuple[str, Callable[[Run], object]], ...]] = (
    ("_.timeline()", lambda run: run.requests("Produce")),
    ("_.runs[{}].sinks()", lambda run: run.effects),
    ("_.runs[{}]", lambda _: True),
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checked(Verdict):
    """What lab.check returns: a verdict, and the runs that it rests on, the last one made last.

    It is of no use in a grading, whose evidence is the grader's.

    about  which run the verdict is about: the first that did not pass; else the last, as -1
    """

    runs: tuple[Run, ...] = ()
    about: int = -1

    @classmethod
    def of(cls, verdict: Verdict, runs: Sequence[Run], about: int = -1) -> Checked:
        """This verdict with its runs."""
        given = {each.name: getattr(verdict, each.name) for each in fields(Verdict)}
        about = about if about < len(runs) - 1 else -1
        return cls(**given, runs=tuple(runs), about=about)

    @property
    def raised(self) -> BaseException | None:
        """What the learner's function raised, where that is what the verdict says."""
        is_said = bool(self.runs) and inside.RAISED in self.reason
        return self.runs[self.about].raised if is_said else None

    def timeline(self, apis: Sequence[str] | None = ("Produce",)) -> Any:
        """The run that it is about, drawn as Run.timeline draws it; None is every API."""
        if not self.runs:
            raise BadArgument(f"{self.item} was decided without a run, so there is none to draw.")
        return self.runs[self.about].timeline(apis)

    def __repr__(self) -> str:
        return Verdict.__repr__(self) + (f"\n{' ' * INDENT}{self._see()}" if self.runs else "")

    def _repr_html_(self) -> str:
        told = Verdict._repr_html_(self)
        if not self.runs:
            return told
        return told.removesuffix("</div>") + f"<br><small>{self._see()}</small></div>"

    def _see(self) -> str:
        """How to look at the run: at what it has, for not every run sends anything."""
        view = next(view for view, has in VIEWS if has(self.runs[self.about]))
        which = "Its last run" if self.about == -1 else "The run that it is about"
        return f"{which}: {view.format(self.about)}"


def score(lab: str, best: Mapping[str, tuple[str, int]]) -> Score:
    """The score of a lab from the best verdicts so far, status and points by exercise."""
    rows = []
    for each in cases.exercises(lab):
        status, points = best.get(each.item, ("not checked", 0))
        rows.append((each.item, each.title, status, points, each.points))
    return Score(lab, tuple(rows))


def which_run(item: str, made: Sequence[Run]) -> str:
    """Which of its runs a check is making, if it makes several: some checks take minutes.

    >>> which_run("07.2", []), which_run("00.2", [])
    ('Run 1 of 12. ', '')
    """
    wanted = len(cases.exercise(item).public)
    return f"Run {min(len(made) + 1, wanted)} of {wanted}. " if wanted > 1 else ""


def check(
    lab: Lab, item: str, answer: Any, runs: Sequence[Run], *, run: Run | None = None
) -> Checked:
    """Decide one exercise; `run` is a run of the learner's own that stands for the trials.

    `runs` has the runs of the trials when these have been performed.
    """
    exercise = cases.exercise(item)
    own = [each.item for each in cases.exercises(lab.name)]
    if own and exercise.item not in own:
        raise BadArgument(
            f"{exercise.item} is an exercise of another lab, which may have other brokers. "
            f"Lab {lab.name} has {', '.join(own)}."
        )
    asked: list[Trial] = []
    about: list[int] = []

    def evidence_of(trial: Trial) -> Evidence:
        asked.append(trial)
        return perform(lab, exercise, trial, answer, run)

    verdict = decide(exercise, answer, evidence_of, about.append)
    # Where there is no answer, nothing is asked of a run that is given.
    return Checked.of(verdict, runs if asked else (), *about)


def decide(
    exercise: Exercise,
    answer: Any,
    evidence_of: Callable[[Trial], Evidence],
    tell: Callable[[int], object] = lambda _: None,
) -> Verdict:
    """The verdict on an answer, given how to come by the evidence of a trial.

    `tell` is told which trial the verdict is about, where one was performed.
    """
    if inside.is_blank(answer):
        return judge.no_answer(exercise)
    if exercise.kind in ("value", "faults", "settings", "pipeline"):
        text = inside.pipeline_text if exercise.kind == "pipeline" else inside.answer_text
        try:
            answer = inside.read_answer(json.loads(text(answer)), exercise.kind)
        except ValueError as error:
            return exercise.verdict(FAIL, str(error))
    elif not callable(answer):
        return exercise.verdict(
            FAIL,
            f"your answer is {answer!r:.200}, and that is no function. Pass the function itself, "
            "without calling it.",
        )

    made: list[Evidence] = []

    def found(trial: Trial) -> Evidence:
        evidence = evidence_of(trial)
        made.append(_queried(exercise, evidence, answer) if exercise.is_query else evidence)
        return made[-1]

    try:
        verdict = judge.decide(exercise, exercise.public, answer, found)
        if verdict.status != PASS:
            tell(judge.first_of(exercise, answer, made, verdict.status))
        return verdict
    except LabError as error:
        return exercise.verdict(INCONCLUSIVE, str(error))


def perform(
    lab: Lab, exercise: Exercise, trial: Trial, answer: Any, run: Run | None = None
) -> Evidence:
    """Perform one trial on the stage of a lab; a query has yet to be asked of its evidence."""
    if exercise.kind == "workload":
        return _learners(lab, trial, answer)
    if exercise.kind == "pipeline":
        return _learners(lab, trial, answer["workload"])
    return _of(run or _run(lab, trial, trial.workload), trial)


def _learners(lab: Lab, trial: Trial, answer: Any) -> Evidence:
    """The learner's workload under the trial's faults; what it raises is its own doing."""
    error: BaseException | None
    try:
        found = _run(lab, trial, answer)
        error = found.raised
    except BadArgument as refusal:  # of the workload, or of a call that it made
        error = refusal
    if error is not None and not is_outcome(error):
        orders = order_values(trial.orders)
        return Evidence(trial=trial, orders=orders, rows=(), raised=inside.raised(error))
    evidence = _of(found, trial)
    return replace(evidence, rows=judge.witnessed(evidence.rows))


def _queried(exercise: Exercise, evidence: Evidence, answer: Any) -> Evidence:
    """The learner's query on a copy of the ledger, less what the trial leaves out."""
    with tempfile.TemporaryDirectory(prefix="lab-check-") as folder:
        write_ledger(Path(folder), evidence.ledger)
        perform = inside.run_query if exercise.kind == "query" else inside.run_stream
        said = json.loads(perform(answer, folder))
    rows = None if "blank" in said else tuple(said.get("rows", ()))
    return replace(evidence, returned=rows, raised=said.get("raised"))


def _run(lab: Lab, trial: Trial, workload: Any) -> Run:
    return lab.run(workload, orders=trial.orders, faults=trial.faults, **trial.conditions)


def _of(run: Run, trial: Trial) -> Evidence:
    orders = tuple(row.value or "" for row in run.rows if row.kind == "order")
    return Evidence(trial=trial, orders=orders, rows=tuple(run.rows), trouble=run.trouble)
