"""The evidence of wrong answers, recorded once on a real stage and kept in tests/evidence.

    case (item, name, cell) ── its trials ──▶ key ──▶ evidence ── judge ──▶ verdict

A key says what was performed: the trial where it differs from the defaults, the text of the
workload and of what it calls, the columns of the ledger and Kafka's version. When one of them
changes nothing is recorded for the new key, and the tests say so. `python -m tests.record` records
what is missing.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import inspect
import re
import textwrap
from collections import ChainMap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeAlias

import orjson

from lab_utils.grading import cases
from lab_utils.grading.cases import Evidence, Exercise, Trial
from lab_utils.grading.notebook import grade_id, part, read_source
from lab_utils.ledger.events import Event
from lab_utils.machine.jars import ROOTS
from lab_utils.proxy.faults import StageFault
from tests.grading import right_answers, wrong_answers, wrong_answers_from_06
from tests.notebooks import SOURCES, answers_in, blank_notebook, execute, source_notebook

FOLDER: Final = Path(__file__).parents[1] / "evidence"
LABS: Final = tuple(SOURCES)


def held(source: Path) -> dict[str, Any]:
    """What the cells for the tests in a source define, given its solution to change."""
    text = read_source(source)
    solution = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", text, re.DOTALL)[-1]
    names: dict[str, Any] = {"changed": lambda *pairs: changed(solution, pairs)}
    for cell in part(text, "tests"):
        exec(cell, names)
    return names


def changed(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A text in which each first text of a pair, which must be there, is the second one."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


HELD: Final = tuple(held(path) for path in SOURCES.values())
WRONG: Final = (
    *wrong_answers.WRONG,
    *wrong_answers_from_06.WRONG,
    *(each for names in HELD for each in names.get("WRONG", ())),
)
RIGHT: Final = ChainMap(*(names.get("RIGHT", {}) for names in HELD), right_answers.RIGHT)
GIVEN: Final = (*WRONG, *((*which, answer) for which, answer in RIGHT.items()))
NO_FAULT: Final = "without its fault"
BLANK: Final = "as it is handed out"
REFERENCE: Final = "the lab's own answer"
# A class of two hundred: what is drawn for each of them. The twelve schedules of lab 07 are drawn
# on a stage, by tests/test_report_card_kafka.py. Of the incidents named here only the public trials
# are recorded.
DRAWS: Final = tuple(f"the nonce of learner {number}" for number in range(200))
NOT_DRAWN: Final = ("07.2", "71.2", "74.2", "75.2", "76.2")
NEVER: Final = 999
KEY: Final = b'{"key":"'  # what a line of evidence begins with
ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
# A cell; or of the lab's own answer the names that have other values, or texts of its cell with
# what stands there instead.
Answer: TypeAlias = str | dict[str, Any] | list[tuple[str, str]]


@dataclass(frozen=True)
class Case:
    """An answer whose verdict is known; if nothing is given it is the lab's own.

    is_drawn  its trials are all that are ever drawn for a learner, and not the public ones
    """

    item: str
    name: str
    given: Answer = ""
    is_drawn: bool = False

    def __str__(self) -> str:
        return f"{self.item} {self.name}"

    @property
    def is_right(self) -> bool:
        """Is it an answer that gets all points?"""
        return self.name == REFERENCE or (self.item, self.name) in RIGHT

    @property
    def lab(self) -> str:
        """The lab, as "03"."""
        return self.item.partition(".")[0]

    @property
    def exercise(self) -> Exercise:
        """The exercise; of a case without faults the trials wait for a request in vain."""
        found = cases.exercise(self.item)
        if self.is_drawn:
            each = {name: trial for them in draws(self.item) for name, trial in them.items()}
            return replace(found, public=tuple(each.values()))
        if self.name != NO_FAULT:
            return found
        quiet = (replace(it, faults=tuple(map(_never, it.faults))) for it in found.public)
        return replace(found, public=tuple(quiet))

    @property
    def answer(self) -> Any:
        """The answer: a cell stands below those of the notebook, and finds what they define."""
        names = dict(_answers(self.lab, is_blank=self.name == BLANK))
        if isinstance(self.given, dict):
            return _otherwise(names[self.exercise.answer], self.given)
        is_cell = isinstance(self.given, str)
        if cell := self.given if is_cell else changed(_solution(self.item), self.given):
            execute(ast.parse(cell).body, cell, names)
        return names[self.exercise.answer]


def all_cases(labs: Iterable[str] = LABS) -> Iterator[Case]:
    """Wrong and right answers, the lab's own, blank ones, and exercises whose faults never fire."""
    yield from (case for each in GIVEN if (case := Case(*each)).lab in labs)
    for lab in labs:
        for exercise in cases.exercises(lab):
            yield Case(exercise.item, BLANK)
            if exercise.is_performed:
                yield Case(exercise.item, REFERENCE)
            if any(trial.faults for trial in exercise.public):
                yield Case(exercise.item, NO_FAULT)


def drawn_cases(labs: Iterable[str] = LABS) -> Iterator[Case]:
    """The right answers and each wrong one of the exercises whose schedules are drawn."""
    items = {
        exercise.item: exercise
        for lab in labs
        for exercise in cases.exercises(lab)
        if exercise.unseen and exercise.item not in NOT_DRAWN
    }
    yield from (Case(item, REFERENCE, is_drawn=True) for item in items)
    yield from (Case(*each, is_drawn=True) for each in GIVEN if each[0] in items)


@cache
def draws(item: str) -> tuple[dict[str, Trial], ...]:
    """What is drawn of an exercise for each of DRAWS: trials by their names, see drawn()."""
    exercise = cases.exercise(item)
    return tuple({drawn(trial): trial for trial in exercise.trials(nonce)} for nonce in DRAWS)


def drawn(trial: Trial) -> str:
    """What tells a trial from the others that are drawn for its exercise."""
    return repr(_chosen(replace(trial, workload=None, assumes=None))) + _text(trial.workload)


def _chosen(it: Any) -> Any:
    """What of a dataclass is not as by default: a field that is new leaves the keys as they are."""
    if isinstance(it, tuple):
        return tuple(map(_chosen, it))
    if not is_dataclass(it):
        return it
    given = {each: getattr(it, each.name) for each in fields(it)}
    chosen = [(each.name, _chosen(value)) for each, value in given.items() if value != each.default]
    return type(it).__name__, dict(chosen)


def key(exercise: Exercise, trial: Trial, answer: Any) -> str:
    """What is performed in a trial, as a name that changes with it."""
    performed = answer if exercise.kind == "workload" else trial.workload
    if exercise.kind == "pipeline":
        performed = answer["workload"]
    text = _text(performed)
    if exercise.kind == "settings":  # a function of the lab's, which holds workload and settings
        text = "".join(_text(it.cell_contents) for it in trial.workload.__closure__)
    columns = [(field.name, str(field.type)) for field in fields(Event)]
    parts = [
        ROOTS["kafka"],
        columns,
        _chosen(replace(trial, name="", workload=None, assumes=None)),
        text,
    ]
    return hashlib.blake2s(repr(parts).encode(), digest_size=8).hexdigest()


def evidence(exercise: Exercise, trial: Trial, answer: Any) -> Evidence:
    """What was recorded of a trial; raises LookupError with the command that records it."""
    lab = exercise.item.partition(".")[0]
    found = kept(lab).get(key(exercise, trial, answer))
    if found is None:
        raise LookupError(
            f"nothing is recorded of {trial.name!r} of {exercise.item}: the trial, its workload, "
            "the answer, the columns of the ledger or Kafka's version has changed since. "
            f"Run: python -m tests.record {lab}"
        )
    return read(found, trial)


@cache
def kept(lab: str) -> dict[str, bytes]:
    """All that is recorded of a lab, by its keys: what `written` wrote, a line each."""
    path = FOLDER / f"{lab}.jsonl.gz"
    if not path.is_file():
        return {}
    lines = gzip.decompress(path.read_bytes()).splitlines()
    return {line[len(KEY) :].partition(b'"')[0].decode(): line for line in lines}


def keep(lab: str, found: Iterable[bytes]) -> Path:
    """Write what was recorded of a lab; equal evidence makes equal bytes."""
    path = FOLDER / f"{lab}.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in found), mtime=0))
    return path


def written(name: str, found: Evidence) -> bytes:
    """Evidence as a line of JSON; columns without a value are left out."""
    first = min((row.at_ns for row in found.rows), default=0)
    columns = [field.name for field in fields(Event)]
    rows = [
        {it: value for it in columns if (value := getattr(row, it)) not in (None, {})}
        | {"at_ns": row.at_ns - first}
        for row in found.rows
    ]
    told = {"orders": found.orders, "raised": found.raised, "trouble": found.trouble}
    return orjson.dumps({"key": name, **told, "rows": rows})


def read(line: bytes, trial: Trial) -> Evidence:
    """The evidence that `written` wrote."""
    return replace(_read(line), trial=trial)


@lru_cache(maxsize=64)  # a case asks for its trials several times
def _read(line: bytes) -> Evidence:
    columns = orjson.loads(line)
    return Evidence(
        trial=Trial(name=""),
        orders=tuple(columns["orders"]),
        rows=tuple(Event(**row) for row in columns["rows"]),
        raised=columns["raised"],
        trouble=tuple(columns["trouble"]),
    )


@cache
def _answers(lab: str, *, is_blank: bool) -> dict[str, Any]:
    return answers_in(blank_notebook(lab) if is_blank else source_notebook(lab))


@cache
def _solution(item: str) -> str:
    """The cell that answers an exercise, as the lab has solved it."""
    cells = source_notebook(item.partition(".")[0]).cells
    return next(str(cell.source) for cell in cells if cell.id == grade_id("answer", item))


def _otherwise(value: Any, other: Any) -> Any:
    """The value, in which the names of the other have its values."""
    if not isinstance(other, dict):
        return other
    return value | {name: _otherwise(value.get(name), it) for name, it in other.items()}


def _never(fault: Any) -> Any:
    """The same fault, waiting for a request that never comes."""
    if isinstance(fault, StageFault):
        return replace(fault, api="Produce", nth=NEVER)
    return replace(fault, nth=NEVER)


def _text(it: Any) -> str:
    """What a function does, as text: its source, that of what it calls, and what it holds."""
    return ADDRESS.sub("", "\n".join(_texts(it, set())))


def _texts(it: Any, seen: set[Any]) -> Iterator[str]:
    if not isinstance(it, FunctionType):
        yield repr(it)
        return
    if it in seen or "lab_utils" in it.__code__.co_filename:
        return
    seen.add(it)
    yield _source(it.__code__.co_filename, it.__code__)
    for held in it.__closure__ or ():
        yield from _texts(held.cell_contents, seen)
    for value in _globals(it):
        yield from _texts(value, seen)


def _globals(function: FunctionType) -> Iterator[Any]:
    """The functions and constants that a function names, those of a module beside it, too."""
    names = sorted(set(_names(function.__code__)))
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [it for it in found if isinstance(it, ModuleType) and "/labs/" in str(it.__file__)]
    found += [getattr(it, name) for it in modules for name in names if hasattr(it, name)]
    constants = FunctionType | str | int | float | tuple | list | dict
    return (it for it in found if isinstance(it, constants))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


@cache  # most cases of an exercise have the functions of its lab in common
def _source(_file: str, code: CodeType) -> str:
    """The source of a function, without comments and docstrings, which no run depends on."""
    source = inspect.getsource(code)
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:  # a lambda's lines may be a part of something
        return source
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and len(node.body) > 1:
            del node.body[0]
    return ast.unparse(tree)
