"""The cases of a lab as data: exercises, the runs that decide them, rules and named mistakes.

    Exercise ── trials ──▶ runs on a stage ──▶ Evidence ── rules, mistakes ──▶ Verdict (judge.py)

labs/checks/labNN.py, or the lab's own source, holds EXERCISES: these by their items, as "03.2".
`lab.check` uses the public trials, the grader those that `unseen(nonce)` returns; both judge in the
same way. This module runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Final, TypeAlias

from lab_utils.errors import BadArgument, one_of
from lab_utils.grading.results import PASS, Verdict
from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History

LABS: Final = Path(__file__).parents[2] / "labs"
# The parts of a source that are its lab's checks; what is shared stands in the notebook, too.
OF_CHECKS: Final = ("checks", "shared")

# value     the answer is data; it is compared with a run that the lab or the grader made
# workload  the answer is a function f(run); it is performed under the faults of each trial
# query     the answer is a function DataFrame -> DataFrame; it reads the ledger of each trial
# stream    the same, and the DataFrames are streaming: it reads the records of run.topic
# faults    the answer is a fault, or a list of them; the trial's own workload runs under it
# settings  the answer is the topic's and the producer's settings; the trial's workload has them
# pipeline  the answer is a function f(run) and the topics' settings; performed as a workload is
KINDS: Final = ("value", "workload", "query", "stream", "faults", "settings", "pipeline")

Workload: TypeAlias = Callable[[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run that helps to decide an exercise.

    orders    how many; the grader names them after its nonce
    workload  what performs the run; None is the learner's own function
    without   sources and kinds (as "log") that a learner's query is not given of the ledger
    filled    are the orders in run.topic from the start, to be consumed?
    topics    short names of further topics
    members   how many processes perform the workload at once
    until_stable  is the log read only when every open transaction has ended?
    patient   do its clients wait for brokers that are away for long?
    supervised  is a process that a client's error has ended started again, once?
    brokers   how many the stage has
    replicas, topic_config  of the topics; as many replicas as brokers if not given
    assumes   what is missing in the evidence for the trial to prove what it is for; None: nothing
    """

    name: str
    faults: tuple[Any, ...] = ()
    orders: int = 6
    partitions: int = 1
    workload: Workload | None = None
    without: tuple[str, ...] = ()
    filled: bool = False
    topics: tuple[str, ...] = ()
    members: int = 1
    until_stable: bool = False
    patient: bool = False
    supervised: bool = False
    brokers: int = 1
    replicas: int | None = None
    topic_config: Mapping[str, object] = field(default_factory=dict)
    assumes: Callable[[Evidence], str | None] | None = None

    @property
    def conditions(self) -> dict[str, Any]:
        """What an experiment is told of this trial, besides its orders and faults."""
        return {
            "partitions": self.partitions,
            "filled": self.filled,
            "topics": self.topics,
            "members": self.members,
            "until_stable": self.until_stable,
            "patient": self.patient,
            "supervised": self.supervised,
            "replicas": self.replicas or self.brokers,
            "topic_config": {name: str(value) for name, value in self.topic_config.items()},
        }

    def answered(self, kind: str, answer: Any) -> Trial:
        """This trial with a learner's faults or settings in place."""
        if kind == "faults":
            return replace(self, faults=answer)
        if kind not in ("settings", "pipeline"):
            return self
        given = replace(self, replicas=answer["replicas"], topic_config=answer["topic"])
        if kind == "pipeline":
            return given
        workload = self.workload
        assert workload is not None, self.name
        return replace(given, workload=lambda run: workload(run, answer["producer"]))  # type: ignore[call-arg]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one trial left behind, as its witnesses saw it.

    rows      wire, fault and log events and the orders; of the client only if the trial's own
              workload ran, for a learner's code could write anything there
    returned  query: the rows that the learner's function returned
    raised    what the learner's function raised, as one line
    trouble   why the ledger of this run is not whole
    unmet     what a process had not done when it was killed at a point
    """

    trial: Trial
    orders: tuple[str, ...]
    rows: tuple[Event, ...]
    returned: tuple[dict[str, Any], ...] | None = None
    raised: str | None = None
    trouble: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()

    @property
    def crashes(self) -> list[Event]:
        """The deaths of the workload's processes, as their parent saw them, oldest first."""
        return self.history.of("workload", "crashed")

    @property
    def ledger(self) -> list[Event]:
        """What a query is given, the newest line first: in which order lines lie nobody promises.

        A query that keeps whichever copy it meets first is wrong here, and right by chance there.
        """
        left_out = self.trial.without
        return [row for row in reversed(self.rows) if not {row.source, row.kind} & {*left_out}]

    @cached_property
    def history(self) -> History:
        """What became of each order, from these rows."""
        return History(self.rows)

    @property
    def log(self) -> list[Event]:
        """The records that an honest reader found, partition by partition, by offset.

        In a trial that is filled only what was written by the workload: not the orders to consume.
        """
        return [row for row in self.history.log if not self.is_given(row)]

    @property
    def given(self) -> list[Event]:
        """The records that were there to be consumed, partition by partition, by offset."""
        return [row for row in self.history.log if self.is_given(row)]

    def is_given(self, row: Event) -> bool:
        """Is this row about the topic that was filled before the workload started?"""
        return self.trial.filled and row.topic == f"{row.run}-orders"

    @property
    def stored(self) -> list[str]:
        """The values in the log, in the order of `log`."""
        return [row.value or "" for row in self.log]

    def requests(self, *apis: str) -> list[Event]:
        """The requests of these APIs, or of Produce, that crossed the wire, oldest first."""
        named = apis or ("Produce",)
        return [row for row in self.history.of("wire", "request") if row.api in named]

    def column(self, name: str) -> list[Any]:
        """One column of the rows that the learner's query returned; empty if there was no query."""
        return [row.get(name) for row in self.returned or ()]

    def faults(self, kind: str) -> list[Event]:
        """The fault events of one kind: armed, fired or unfired."""
        return self.history.of("fault", kind)


# A rule says in one sentence, with numbers, what is wrong; None is: it holds.
Rule: TypeAlias = Callable[[Any, Evidence], "str | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake: how the evidence shows it, and a thought that leads out of it.

    likely  a clause; it is printed after "Likely: "
    look    a sentence that names a place to look, never the answer
    finding, claim   on a report card: what the audit calls it, and the claim behind it
    """

    is_made: Callable[[Any, Evidence], object]
    likely: str
    look: str = ""
    finding: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise: where its answer is, what decides it, what it is worth.

    item      its key in EXERCISES
    answer    the name that holds the learner's answer in the notebook
    public    the trials of lab.check
    unseen    nonce -> the trials of the grader; None: the public ones, with other order names
    rules     all must hold in every trial
    mistakes  by their names; the first that is made gives the hint
    passed    one sentence with numbers for PASS; None: what was counted
    blank     the hint while there is no answer
    claims    the claim behind each trial, by the trial's name: the verdict is then a report card,
              a row for each trial, and each trial that passed has its share of the points
    """

    item: str = ""
    title: str
    points: int
    kind: str
    answer: str
    public: tuple[Trial, ...]
    rules: tuple[Rule, ...]
    unseen: Callable[[str], Sequence[Trial]] | None = None
    mistakes: Mapping[str, Mistake] = field(default_factory=dict)
    passed: Callable[[Any, Sequence[Evidence]], str] | None = None
    blank: str = "Replace `# YOUR CODE` in the cell above, run it, then run this check again."
    claims: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of(f"the kind of {self.title!r}", self.kind, KINDS)
        for trial in self.public:
            assert self.is_performed == (trial.workload is None), (self.title, trial.name)

    @property
    def is_performed(self) -> bool:
        """Is the answer a function that is performed under the faults of each trial?"""
        return self.kind in ("workload", "pipeline")

    @property
    def is_condition(self) -> bool:
        """Is the answer what each trial is performed under, so that it may be refused there?"""
        return self.kind in ("faults", "settings")

    @property
    def function(self) -> str:
        """Where the learner's function is in the notebook, as an expression."""
        return f'{self.answer}["workload"]' if self.kind == "pipeline" else self.answer

    @property
    def is_query(self) -> bool:
        """Is the answer a function that Spark performs on what a trial has left?"""
        return self.kind in ("query", "stream")

    def verdict(self, status: str, reason: str, **told: Any) -> Verdict:
        """A verdict on this exercise; only a PASS has all its points, and only a card has some."""
        points = {"points": self.points if status == PASS else 0}
        return Verdict(
            item=self.item,
            title=self.title,
            kind=self.kind,
            status=status,
            possible=self.points,
            reason=reason,
            **points | told,
        )

    def trials(self, nonce: str) -> tuple[Trial, ...]:
        """The trials drawn from the grader's nonce; the public ones, where none are drawn.

        A function may count its runs, and do in each what the fault of that one asks for. So their
        sequence is drawn, too, and one of two comes again (with other faults: Examiner._unseen).
        """
        if self.unseen is None:
            return self.public
        trials, place = tuple(self.unseen(nonce)), Random(f"{nonce} sequence")
        if not self.is_performed:
            return trials
        more = place.sample(trials, len(trials) == 2)
        return tuple(place.sample([*trials, *more], len(trials) + len(more)))


def drawn(trials: Callable[[Random], Iterable[Trial]]) -> Callable[[str], Sequence[Trial]]:
    """Trials for `Exercise.unseen`: their places are drawn from what the nonce seeds."""
    return lambda nonce: tuple(trials(Random(nonce)))


def exercises(lab: str, labs: Path = LABS) -> tuple[Exercise, ...]:
    """The exercises of a lab, in its source or in labs/checks/labNN.py; none if in neither."""
    return _loaded(*held_by_sources(labs, lab).get(lab, (checks_path(lab, labs), "")))


def checks_path(lab: str, labs: Path) -> Path:
    """The file of a lab's checks, for a lab whose source does not hold them."""
    return Path(labs) / "checks" / f"lab{lab}.py"


def held_by_sources(labs: Path, lab: str = "") -> dict[str, tuple[Path, str]]:
    """The sources that hold their lab's checks, by lab, with the text of these checks.

    lab  whose source alone is looked at
    """
    sources = sorted((Path(labs) / "source").glob("[0-9][0-9]_*.py"))
    asked = (path for path in sources if lab in ("", path.stem[:2]))
    found = ((path, _checks_in(path.read_text(encoding="utf-8"))) for path in asked)
    return {path.stem[:2]: (path, text) for path, text in found if text}


@cache  # asked for every exercise of every lab; each source is read anew, for it may be edited
def _checks_in(source: str) -> str:
    """The cells of a source that are its checks, each line at its place; empty if it has none."""
    lines, is_kept = [], False
    for line in source.splitlines():
        if is_marker := line.startswith("# %%"):
            is_kept = any(f'part="{part}"' in line for part in OF_CHECKS)
        lines.append(line if is_kept and not is_marker else "")
    text = "\n".join(lines).rstrip()
    return f"{text}\n" if text else ""


def exercise(item: str, labs: Path = LABS) -> Exercise:
    """The exercise of one item as "03.2"; raises BadArgument with the nearest right one."""
    lab = str(item).partition(".")[0]
    found = {each.item: each for each in exercises(lab, labs)}
    if not found:
        raise BadArgument(f"there are no checks for lab {lab!r}; an item is named as in '03.2'.")
    return found[one_of("an item", item, found)]


@cache
def _loaded(path: Path, text: str) -> tuple[Exercise, ...]:
    if not text and not path.is_file():
        return ()
    # In no package, so that a learner's workload never imports a lab's checks by name.
    module = ModuleType(path.stem)
    code = compile(text or path.read_text(encoding="utf-8"), str(path), "exec")
    exec(code, module.__dict__)  # noqa: S102 - the lab's own file
    return tuple(replace(each, item=item) for item, each in module.EXERCISES.items())
