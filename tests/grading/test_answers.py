"""Answers are judged on recorded evidence: each named mistake gets its own hint."""

from __future__ import annotations

import ast
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import cache
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pandas
import pytest

from lab_utils.audit.queries import planned
from lab_utils.checking import decide
from lab_utils.grading import inside
from lab_utils.grading.cases import Evidence, Exercise, Trial, exercise, exercises
from lab_utils.grading.examination import REFERENCE_S
from lab_utils.grading.notebook import further_notebook, read_source
from lab_utils.grading.results import Verdict
from lab_utils.grading.rules import is_transactional
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import delay_response
from tests.grading.recorded import (
    BLANK,
    LABS,
    NO_FAULT,
    REFERENCE,
    RIGHT,
    WRONG,
    Case,
    all_cases,
    evidence,
)
from tests.notebooks import FURTHER, SOURCES, blank_notebook, solutions

# What is missing if the first order was too late: its ack, and its record.
SLOW = (("acked", "0"), ("record", "0"))


def right(ending: str) -> Case:
    """The right answer by other means than the lab's whose name ends so."""
    return next(Case(*each, RIGHT[each]) for each in RIGHT if each[1].endswith(ending))


def as_recorded(seen: Evidence) -> Iterable[Event]:
    """The rows of a run, as they are."""
    return seen.rows


def decided(
    asked: Exercise, answer: Any, rows_of: Callable[[Evidence], Iterable[Event]] = as_recorded
) -> Verdict:
    """What lab.check would say, had it made these runs now, and had they these rows."""

    def performed(trial: Trial) -> Evidence:
        seen = evidence(asked, trial, answer)
        return replace(seen, rows=tuple(rows_of(seen)))

    return decide(asked, answer, performed)


def test_every_named_mistake_is_made() -> None:
    """The tables of wrong answers and the mistakes of the checks are the same."""
    asked = [each for lab in LABS for each in exercises(lab)]
    named = {(each.item, name) for each in asked for name in each.mistakes}

    assert named == {(item, name) for item, name, _ in WRONG}


@pytest.mark.parametrize("path", SOURCES.values(), ids=lambda it: it.stem)
def test_no_name_stands_for_two(path: Path) -> None:
    """Of two entries with one key Python keeps the last, and ruff does not read the sources."""
    for node in ast.walk(ast.parse(read_source(path))):
        keys = [ast.dump(it) for it in node.keys if it] if isinstance(node, ast.Dict) else []
        assert len(keys) == len(set(keys)), ast.unparse(node)


def test_there_are_three_right_answers() -> None:
    """For each workload and each query, the lab's own and two by other means."""
    kinds = ("workload", "query")
    asked = [each.item for lab in LABS for each in exercises(lab) if each.kind in kinds]
    given = Counter(item for item, _ in RIGHT)

    assert dict.fromkeys(asked, 2) == {item: min(given[item], 2) for item in asked}


def another_is_late(row: Event) -> list[Event]:
    """The first order was too late as well: it has no ack, and is not in the log."""
    return [] if (row.kind, row.value) in SLOW else [row]


def none_is_late(row: Event) -> list[Event]:
    """The client looked at its clock so late that it took the late answer."""
    is_late = (row.kind, row.value) == ("unknown", "3")
    return [replace(row, kind="acked", offset=3, error=None) if is_late else row]


@pytest.mark.parametrize("slow", [another_is_late, none_is_late])
@pytest.mark.parametrize(
    ("slow_runs", "outcome", "status"),
    [(2, "unknown", "PASS"), (2, "failed", "FAIL"), (9, "unknown", "INCONCLUSIVE")],
    ids=["made again", "a wrong answer", "never whole"],
)
def test_a_run_on_a_slow_machine(
    slow: Callable[[Event], list[Event]], slow_runs: int, outcome: str, status: str
) -> None:
    """It proves nothing about the answer of 00.2, so it is made again, and no answer suffers."""
    asked = exercise("00.2")
    answer = {"outcome": outcome, "offset": 3}
    made: list[int] = []

    def slowly(seen: Evidence) -> Iterable[Event]:
        made.append(0)
        rows = [it for row in seen.rows for it in slow(row)]
        assert rows != [*seen.rows]
        return seen.rows if len(made) > slow_runs else rows

    assert (status, 3) == (decided(asked, answer, slowly).status, len(made))


def test_who_loses_a_broker_is_patient() -> None:
    """How long it takes until another one leads is chance: no order is given up meanwhile."""
    performed = [it for lab in LABS for it in exercises(lab) if it.kind in ("workload", "pipeline")]
    trials = [trial for it in performed for trial in it.public]
    gone = [it for it in trials if any("_broker" in repr(f) for f in it.faults)]

    assert gone
    assert all(trial.patient for trial in gone)


def test_settings_that_lose_a_broker_are_given_time() -> None:
    """Until another one leads may take longer than 15 s; to give up takes less than the run may."""
    given: list[dict[str, Any]] = []
    run: Any = SimpleNamespace(orders=(), producer=given.append)
    for trial in exercise("02.3").public:
        trial.answered("settings", {"replicas": 3, "topic": {}, "producer": {}}).workload(run)

    assert [30 < it["message.timeout.ms"] / 1000 < REFERENCE_S - 30 for it in given] == [True, True]


def test_a_late_answer_is_later_than_the_client_may_be() -> None:
    """The client looks once a second for what has timed out: up to a second after its time."""
    trials = [*exercise("00.1").public, *exercise("00.2").public]
    faults = [fault for trial in trials for fault in trial.faults]
    late = [fault for fault in faults if isinstance(fault, delay_response)]

    assert len(late) == 5
    assert all(fault.by_ms > 1000 + 1000 for fault in late)


def test_an_answer_that_nobody_was_given() -> None:
    """Who has lost its connection before it is killed had no answer: it was dropped before that."""
    case = Case("03.5", REFERENCE)
    dropped: list[Event] = []

    def at_once(row: Event) -> Event:
        if (row.kind, row.fate) != ("response", "dropped"):
            return row
        dropped.append(row)
        return replace(row, detail={**row.detail, "released_at_ns": "0"})

    found = decided(case.exercise, case.answer, lambda seen: map(at_once, seen.rows))

    assert ("PASS", True) == (found.status, bool(dropped))


@pytest.mark.parametrize(("copies", "status"), [(1, "PASS"), (3, "INCONCLUSIVE")])
def test_a_refusal_that_copies_survive(copies: int, status: str) -> None:
    """A program may send each dead letter twice; if it sends six, a refusal says nothing of it."""
    case = right("each dead letter is sent twice")

    def with_copies(seen: Evidence) -> list[Event]:
        letters = [it for it in seen.rows if (it.source, it.kind) == ("log", "record")
                   and it.topic == f"{it.run}-dead_letters"]  # fmt: skip
        return [*seen.rows, *letters * (copies - 1)]

    assert status == decided(case.exercise, case.answer, with_copies).status


@pytest.mark.parametrize(("again", "status"), [("", "PASS"), ("1", "INCONCLUSIVE")])
def test_a_report_is_the_last_word_on_its_order(again: str, status: str) -> None:
    """Who sends orders until they are acked has sorted nothing. A record may have no value."""
    case = Case("01.2", REFERENCE)

    def sent_again(seen: Evidence) -> list[Event]:
        *sent, last = seen.requests()
        first = sent[0].actor, sent[0].correlation_id
        exchange = [it for it in seen.rows if (it.actor, it.correlation_id) == first]
        more = [
            replace(it, value=it.value and value, correlation_id=100, at_ns=it.at_ns + last.at_ns)
            for value in again
            for it in exchange
        ]
        rows = [
            replace(it, value=f"acked {again}") if (it.value or "").endswith(f" {again}") else it
            for it in seen.rows
        ]
        blank = replace(seen.log[0], topic=last.topic, value=None)
        return [*rows, *more, last, blank]

    assert status == decided(case.exercise, case.answer, sent_again).status


@pytest.mark.parametrize("of_another", [{"actor": "producer-1"}, {"producer_id": 99}])
@pytest.mark.parametrize("item", ["05.2", "05.3"])
def test_receipts_that_came_before_the_work(item: str, of_another: dict[str, Any]) -> None:
    """A loop that commits first loses nothing that has its receipt: it must not write that."""
    case = Case(item, REFERENCE)

    def written_at_first(seen: Evidence) -> list[Event]:
        receipt = next(it for it in seen.requests() if it.topic == f"{it.run}-receipts")
        return [replace(receipt, **of_another, at_ns=1), *seen.rows]

    verdict = decided(case.exercise, case.answer, written_at_first)

    assert (verdict.status, "wrote receipts itself" in verdict.reason) == ("FAIL", True)


def met_what_was_taken_back(seen: Evidence) -> list[Event]:
    """The fault met an order in a transaction that is aborted."""
    visible = [replace(it, kind="visible") for it in seen.log if not is_transactional(seen)]
    aborted = replace(seen.log[-1], offset=99, detail={"transactional": "True"})
    batch = replace(aborted, kind="batch", records=1, producer_id=99)
    sent = [it for it in seen.requests() if it.topic == aborted.topic]
    return [*seen.rows, *visible, *sent, batch, aborted]


def aborted_what_it_began(seen: Evidence) -> list[Event]:
    """It was killed in a transaction that it would abort: more are aborted than by kills."""
    marker = replace(seen.log[-1], kind="marker", value=None, detail={"type": "ABORT"})
    return [*seen.rows, *(replace(marker, offset=offset) for offset in (90, 91))]


def not_read_to_the_end(seen: Evidence) -> list[Event]:
    """The last invoice may be on its way when a slow machine is done."""
    last = next(it for it in reversed(seen.log) if it.topic == f"{it.run}-receipts")
    return [it for it in seen.rows if it != last]


def lost_to_another_producer(seen: Evidence) -> list[Event]:
    """It met the fault with idempotence, and then wrote without."""
    last = [it for it in seen.requests() if it.topic == f"{it.run}-invoices"][-1]
    plain = replace(last, producer_id=-1)
    return [plain if it == last else it for it in seen.rows]


def without_a_moment(seen: Evidence) -> list[Event]:
    """02.1 asks of four ISRs, and the controller decided on three."""
    return [it for it in seen.rows if it.detail.get("isr") != "2 3"]


@pytest.mark.parametrize(
    ("case", "rows_of", "said"),
    [
        *((Case(item, REFERENCE), met_what_was_taken_back,
           "the program never committed 1 record, so") for item in ("03.2", "03.5", "04.2")),
        (Case("72.2", REFERENCE), met_what_was_taken_back,
         "a producer that commits nothing wrote 1 record, so"),
        (Case("72.2", REFERENCE), aborted_what_it_began,
         "the program aborted 2 transactions itself, so"),
        (right("two orders in a transaction"), not_read_to_the_end,
         "the table does not have order 7 when all is over"),
        (right("needs no transaction"), lost_to_another_producer,
         "none of the producer without idempotence"),
        (Case("02.1", REFERENCE), without_a_moment, "what is asked about did not happen"),
    ],
    ids=lambda it: getattr(it, "__name__", str(it)),
)  # fmt: skip
def test_a_right_answer_in_a_run_that_shows_nothing(
    case: Case, rows_of: Callable[[Evidence], list[Event]], said: str
) -> None:
    """What was to happen has not, or nobody saw it: it is nobody's mistake, and proves nothing."""
    found = decided(case.exercise, case.answer, rows_of)

    assert "INCONCLUSIVE" == found.status
    assert said in found.reason


# For each item the answers from which a learner may choose.
CHOICES = {
    "01.1": ("once", "lost", "twice"),
    "02.1": ([1], [1, 2], [1, 3], [2, 3], [1, 2, 3]),
    "02.4": ("lost", "unavailable", "duplicated", "nothing"),
    "02.5": ([1], [1, 2], [1, 2, 3]),
    "05.1": (1, 2, 3),
    "06.4": ("once", "lost", "twice"),
    "06.5": ("once", "lost", "twice"),
    "07.1": ("once", "lost", "twice"),
}
Names = tuple[str, ...]


def flat(answer: dict[str, Any]) -> dict[Names, Any]:
    """What an answer says, by its names: one, or in 07.1 a run and an output."""
    return {
        (name, *names): word
        for name, said in answer.items()
        for names, word in (flat(said).items() if isinstance(said, dict) else [((), said)])
    }


def nested(said: dict[Names, Any]) -> dict[str, Any]:
    """The answer that says this."""
    answer: dict[str, Any] = {}
    for (name, *names), word in said.items():
        if names:
            answer.setdefault(name, {})[names[0]] = word
        else:
            answer[name] = word
    return answer


@pytest.mark.parametrize("item", CHOICES)
def test_the_hint_is_that_of_the_first_wrong_name(item: str) -> None:
    """Each wrong choice has a hint. What else is wrong has its turn later: it changes nothing."""
    asked = exercise(item)
    right = flat(solutions(item[:2])[asked.answer])

    def others(names: Names) -> list[Any]:
        return [it for it in CHOICES[item] if it != right[names]]

    def said(wrong: dict[Names, Any]) -> tuple[str, str | None]:
        answer = nested(right | wrong)
        found = decided(asked, answer)
        return found.reason, found.hint

    for index, names in enumerate(right):
        for other in others(names):
            reason, hint = said({names: other})
            rest = {it: others(it)[0] for it in list(right)[index + 1 :]}
            assert all(word in reason for word in (*names, repr(other)))
            assert hint, reason
            assert (reason, hint) == said({**rest, names: other})


@pytest.mark.parametrize(
    ("item", "name", "said", "reason"),
    [
        ("08.3", "files", 2, "files = 2, and that is none of the three words."),
        ("06.4", "counts", "Twice",
         "'counts': you said 'Twice', and that is none of the three words."),
        ("06.4", "counts", None, "your answer does not name 'counts'."),
    ],
)  # fmt: skip
def test_an_answer_in_no_word_is_told_the_words(
    item: str, name: str, said: object, reason: str
) -> None:
    """A reader who has an order 2 times has it "twice": that 2 is no answer says the form."""
    asked = exercise(item)
    answer = solutions(item[:2])[asked.answer] | {name: said}
    if said is None:
        del answer[name]
    found = decided(asked, answer)

    assert (reason, asked.blank) == (found.reason, found.hint)


@pytest.mark.parametrize(
    ("item", "form"),
    [
        ("02.5", tuple),
        ("02.5", set),
        ("02.5", lambda brokers: dict.fromkeys(brokers).keys()),
        ("02.5", lambda brokers: range(brokers[0], brokers[-1] + 1)),
        ("02.5", lambda brokers: [float(it) for it in brokers]),
        ("02.5", lambda brokers: numpy.array(brokers, dtype=float)),
        ("02.5", pandas.Series),
        ("05.1", float),
        ("05.1", numpy.float64),
        ("05.1", Decimal),
    ],
)
def test_what_is_equal_is_right(item: str, form: Callable[[Any], object]) -> None:
    """A number or a list is known by what it holds, and not by what kind of object holds it."""
    asked = exercise(item)
    right = solutions(item[:2])[asked.answer]

    assert "PASS" == decided(asked, {name: form(said) for name, said in right.items()}).status


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (lambda _: None, "returned no DataFrame: has it a return at its end?"),
        # It is no truth value, and a stream cannot be shown.
        (lambda _: pandas.DataFrame(), "returned a pandas.core.frame.DataFrame, and no DataFrame"),
        (lambda orders: [orders], "returned a list, and no DataFrame of Spark."),
        (lambda it: it.sparkSession.range(3), "raised BadArgument: the query returned +---+"),
        (lambda _: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_stream_that_comes_to_nothing(query: Callable[[Any], object], reason: str) -> None:
    """Whatever is returned in place of a stream is told as what it is."""
    found = decided(exercise("08.2"), query)

    assert ("FAIL", True) == (found.status, f"your function {reason}" in found.reason)


def ways(answer: object) -> int:
    """About how many answers have this form: two truth values, three words, twenty numbers."""
    if isinstance(answer, dict):
        return prod(map(ways, answer.values()))
    is_word = isinstance(answer, str) and answer.isalpha()
    return 2 if isinstance(answer, bool) else 3 if is_word else 20


@pytest.mark.parametrize("lab", LABS)
def test_a_value_cannot_be_guessed(lab: str) -> None:
    """At least fifty answers have the form of the right one."""
    asked = [each for each in exercises(lab) if each.kind == "value"]

    assert [] == [each.item for each in asked if ways(solutions(lab)[each.answer]) < 50]


def test_hints_do_not_hold_the_answer() -> None:
    """A hint holds no line of configuration."""
    hints = [
        text
        for lab in LABS
        for each in exercises(lab)
        for mistake in each.mistakes.values()
        for text in (mistake.likely, mistake.look)
    ]

    assert [] == [text for text in hints if "enable.idempotence" in text]


# What a hint names: `name`, run.method, a.setting, setting=value, and another notebook.
NAMED = re.compile(
    r"`([^`]+)`|\b([A-Za-z_]\w*)(?:\.\w+)+|\b([\w.]+=[\w.]+)|\b(?:the run|of) (\w+) above"
)
ELSEWHERE = re.compile(r"further/(\w+)\.ipynb|\blab (\d\d)")
# The check's own run, and what a ledger or a picture shows of each run.
SHOWN = ("_", "apis=None", "detail", "of=commit", "in the log")


@pytest.mark.parametrize("lab", LABS)
def test_a_hint_names_what_the_notebook_has(lab: str) -> None:
    """A run, a cell's name or a setting stands in the notebook, or in the one that is named."""
    hints = [
        text
        for each in exercises(lab)
        for text in (each.blank, *(f"{it.likely} {it.look}" for it in each.mistakes.values()))
    ]
    missing = [
        (hint, name)
        for hint in hints
        for groups in NAMED.findall(hint)
        for name in filter(None, groups)
        if name not in SHOWN and name not in notebooks(lab, hint)
    ]

    assert [] == missing


def notebooks(lab: str, hint: str) -> str:
    """The text of a lab's notebook, and of each other that the hint names."""
    return "\n".join(text_of(*names) for names in [("", lab), *ELSEWHERE.findall(hint)])


@cache
def text_of(further: str, lab: str) -> str:
    """The text of a further notebook, or of a lab's if none is named."""
    notebook = further_notebook(FURTHER[further]) if further else blank_notebook(lab)
    return "\n".join(cell.source for cell in notebook.cells)


@pytest.mark.parametrize(
    ("item", "wrong", "is_in_form"),
    [
        ("02.1", {"3 is paused": [1, 3]}, True),
        ("02.1", {"at the start": 3}, False),
        ("02.4", {"retries": "lost"}, True),
        ("02.5", {"the last order before": [2]}, True),
        ("02.5", {"the first order": "1 2 3"}, False),
    ],
)
def test_a_verdict_does_not_hold_the_answer(
    item: str, wrong: dict[str, object], is_in_form: bool
) -> None:
    """It says what the learner said; what is no list of brokers is told the form."""
    asked, (name, said) = exercise(item), *wrong.items()
    right = solutions("02")[asked.answer]
    answer = right | wrong
    found = decided(asked, answer)

    assert repr(said) in found.reason
    assert str(right[name]) not in found.reason
    assert is_in_form == found.reason.endswith("and that is not what happened.")
    assert is_in_form or asked.blank == found.hint


MISTAKEN_STREAMS = ("the time is part of the key", "too impatient", "remembers too long")


def cases() -> list[Any]:
    """Every case; a query needs Spark, and a stream three seconds of it."""
    return [
        pytest.param(case, id=str(case), marks=[
            *([pytest.mark.kafka] if case.exercise.is_query else []),
            *([pytest.mark.long] if case.item == "08.2" and case.name in MISTAKEN_STREAMS else []),
        ])
        for case in all_cases()
    ]  # fmt: skip


def as_graded(function: Any, folder: str) -> str:
    """What a query finds as the grader asks it: its plan, where it has one that Spark takes."""
    with suppress(Exception):  # whatever a wrong one raises
        plan = b64encode(planned(function)[1]).decode()
        if "rows" in (found := inside.run_plan(plan, folder)):
            return found
    return RUN_QUERY(function, folder)


RUN_QUERY = inside.run_query


@pytest.mark.parametrize("case", cases())
def test_verdict(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake or a blank gets a hint and no points; without its fault a run proves nothing."""
    monkeypatch.setattr(inside, "run_query", as_graded)
    found = decided(case.exercise, case.answer)

    if case.name == NO_FAULT:
        assert ("INCONCLUSIVE", 0) == (found.status, found.points)
        assert "proves nothing" in found.reason
    elif case.name == BLANK:
        assert (0, True) == (found.points, found.status in ("FAIL", "INCONCLUSIVE"))
        assert found.hint
    elif case.is_right:
        assert ("PASS", case.exercise.points) == (found.status, found.points)
    else:
        hint = (found.hint or "").partition("\n")[0]
        assert f"Likely: {case.exercise.mistakes[case.name].likely}" == hint
        failed = [row for row in found.card if row["status"] == "FAIL"]
        assert [] == [row for row in failed if not row["hint"]]
        assert found.points < found.possible if found.card else found.points == 0
