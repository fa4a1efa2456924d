"""What is drawn for each learner of a large class decides no grade: right passes, wrong fails."""

from __future__ import annotations

from dataclasses import replace
from inspect import getclosurevars
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab_utils.checking import decide
from lab_utils.grading.cases import Exercise, exercise, exercises
from lab_utils.grading.examination import Examiner
from lab_utils.grading.grader import Terms
from lab_utils.grading.judge import judge
from lab_utils.grading.results import FAIL, INCONCLUSIVE, PASS
from lab_utils.grading.submission import Cell, Submission
from lab_utils.grading.weakness import killed_early, seen_in_part
from lab_utils.ledger.history import carried
from lab_utils.machine.confinement import BUBBLEWRAP
from lab_utils.proxy.faults import crash_client
from tests.grading.recorded import DRAWS, REFERENCE, Case, drawn, drawn_cases, draws, evidence
from tests.notebooks import SOURCES


def cases() -> list[Any]:
    """Every case; queries need Spark, one for each trial."""
    marks = [pytest.mark.kafka, pytest.mark.long]
    return [
        pytest.param(case, id=str(case), marks=marks * exercise(case.item).is_query)
        for case in drawn_cases()
    ]


@pytest.mark.parametrize("case", cases())
def test_every_draw(case: Case) -> None:
    """For each of two hundred learners the right answer passes, and a mistake fails."""
    given, answer = case.exercise, case.answer
    decided = {
        drawn(trial): decide(
            replace(given, public=(trial,)), answer, lambda it: evidence(given, it, answer)
        ).status
        for trial in given.public
    }
    found = [{decided[name] for name in them} for them in draws(case.item)]

    if case.is_right:
        assert [{PASS}] * len(DRAWS) == found
    else:
        # What does nothing is not there to be killed: that proves nothing, and has no points.
        wanted = INCONCLUSIVE if {FAIL, PASS}.isdisjoint(decided.values()) else FAIL
        drawn_for = zip(DRAWS, found, strict=True)
        assert [] == [nonce for nonce, each in drawn_for if wanted not in each]


QUERIES = [each for lab in sorted(SOURCES) for each in exercises(lab) if each.is_query]


@pytest.mark.parametrize("given", QUERIES, ids=lambda it: it.item)
def test_the_public_run_known_by_heart_is_worth_nothing(given: Exercise) -> None:
    """Who returns what was right of it, by the numbers of its orders, is wrong for each learner."""
    (equals,) = given.rules
    expected = getclosurevars(equals).nonlocals["expected"]
    (public,) = given.public
    rows = tuple(expected(evidence(given, public, None)))
    drawn_trials = {drawn(it): it for nonce in DRAWS for it in given.trials(nonce)}
    found = [
        judge(given, None, [replace(evidence(given, trial, None), returned=rows)]).status
        for trial in drawn_trials.values()
    ]

    assert rows
    assert {FAIL} == set(found)


PERFORMED = [
    each
    for lab in sorted(SOURCES)
    for each in exercises(lab)
    if each.is_performed and each.unseen is not None
]


def an_examiner(nonce: str) -> Examiner:
    session: Any = SimpleNamespace(isolation=BUBBLEWRAP)
    return Examiner(session, Path(), nonce, "a", stages=None, shared_spark=None)  # type: ignore[arg-type]


def test_an_exercise_tells_nothing_of_the_next_one() -> None:
    """A function remembers what it met: whose answer was lost in 03.2 says no death of 03.5."""
    places = set()
    for nonce in DRAWS:
        first, later = (
            {it.name: it.faults[0].nth for it in an_examiner(nonce)._trials(exercise(item))}
            for item in ("03.2", "03.5")
        )
        places.add((first["a lost answer"], later["a crash after an ack"]))

    assert len(places) == 5 * 5


@pytest.mark.parametrize("given", PERFORMED, ids=lambda it: it.item)
def test_a_run_that_is_made_again_has_faults_that_nobody_has_seen(given: Exercise) -> None:
    """A program may spoil its run, and remember where the fault was: it is elsewhere then."""
    examiner = an_examiner("n")
    again = {each.name: each for each in given.trials(f"n {given.item} again 1")}
    trials = {each.name: each for each in examiner._trials(given)}

    assert again.keys() == trials.keys()
    assert trials == {name: examiner._unseen(given, it) for name, it in trials.items()}
    assert {name: replace(it, faults=again[name].faults) for name, it in trials.items()} == {
        name: examiner._unseen(given, it) for name, it in trials.items()
    }


@pytest.mark.parametrize("given", PERFORMED, ids=lambda it: it.item)
def test_who_counts_runs_does_not_know_which_one_it_is(given: Exercise) -> None:
    """Whatever is expected of each run by its number is wrong for most of the class."""
    sequences = [tuple(each.name for each in given.trials(nonce)) for nonce in DRAWS]
    most = max(map(sequences.count, sequences)) / len(sequences)

    assert len(set(map(frozenset, sequences))) == 1
    assert most < 0.25 or len(set(sequences[0])) == 1


@pytest.mark.parametrize("given", PERFORMED, ids=lambda it: it.item)
def test_a_commit_of_a_database_may_be_of_no_order(given: Exercise) -> None:
    """So a process dies at that of an order: who commits something else has done nothing yet."""
    trials = [trial for nonce in DRAWS for trial in given.trials(nonce)]
    kills = {it for trial in trials for it in trial.faults if isinstance(it, crash_client)}

    assert [] == [it for it in kills if "_db_" in it.at and it.value is None]


def test_one_thread_needs_no_bookmark_of_four() -> None:
    """Who does one order after the other sets the bookmark before the slow one is in work."""
    case = Case("05.3", REFERENCE)
    (trial,) = case.exercise.public
    found = evidence(case.exercise, trial, case.answer)
    first_ns = min(row.at_ns for row in found.requests("OffsetCommit"))
    later = [
        row for row in found.requests()
        if (row.actor, row.at_ns < first_ns) == ("worker-1", True)
        and found.given[0].value not in carried(row)
    ]  # fmt: skip
    alone = replace(found, rows=tuple(row for row in found.rows if row not in later))

    assert killed_early(found) is None
    assert "no order was done before an earlier one" in (killed_early(alone) or "")
    assert seen_in_part(alone)


def test_who_has_the_answer_has_said_late_that_it_has_sent() -> None:
    """A process says itself where it is, and may wait for an ack before that."""
    case = Case("03.5", REFERENCE)
    trial = case.exercise.public[1]
    found = evidence(case.exercise, trial, case.answer)
    asked = next(row for row in found.requests() if carried(row) == [trial.faults[0].value])
    told = replace(asked, kind="response", value=None, at_ns=asked.at_ns + 1)
    held = replace(told, detail=asked.detail | {"released_at_ns": str(2**62)})

    assert [None, None] == [
        killed_early(replace(found, rows=(*found.rows, *more))) for more in ((), (held,))
    ]
    assert "had its answer" in (killed_early(replace(found, rows=(*found.rows, told))) or "")


def test_a_bookmark_is_seen_however_it_is_set() -> None:
    """In a transaction it is set at the end; a receipt that was refused is none."""
    case = Case("05.2", REFERENCE)
    trial = case.exercise.public[1]
    found = evidence(case.exercise, trial, case.answer)
    (rule,) = (it for it in case.exercise.rules if it.__name__ == "no_bookmark_is_ahead")

    def said(**of_api: Any) -> str | None:
        """What the rule says of these rows, where some of an API and kind are changed."""
        rows = [replace(row, **of_api.get(f"{row.api}_{row.kind}", {})) for row in found.rows]
        return rule(None, replace(found, rows=tuple(rows)))

    early = {"at_ns": 1}
    ended = {"api": "EndTxn", "detail": {"committed": "True"}, "at_ns": 2}
    assert said() is None
    assert "not processed yet" in (said(OffsetCommit_request=early) or "")
    assert "not processed yet" in (said(Produce_response={"error": "NOT_ENOUGH_REPLICAS"}) or "")
    assert "not processed yet" in (said(Produce_request={"topic": "elsewhere"}) or "")
    assert "several partitions" in (said(OffsetCommit_request={"topic": None}) or "")
    in_transaction = {"api": "TxnOffsetCommit", "at_ns": 1}
    assert said(OffsetCommit_request=in_transaction) is None
    assert "not processed yet" in (
        said(OffsetCommit_request=in_transaction, OffsetCommit_response=ended | {"kind": "request"})
        or ""
    )


def test_each_learner_has_schedules_of_their_own() -> None:
    """Of one class, from one nonce: another learner or text, another draw; the same, the same."""
    paths = [Path(f"{name}.ipynb") for name in ("ada", "bob")]
    first, second = (Cell("first"),), (Cell("sec\ud800nd"),)
    given: dict[str, Any] = dict.fromkeys(("cell_s", "total_s", "place", "isolation"))
    lent = {"stages": None, "shared_spark": None, "processors": None}
    terms = Terms(nonce="n", **given, **lent, learners={it: it.stem for it in paths})
    nonces = [
        terms.nonce_of(Submission(path, "01", (), cells, ()))
        for path, cells in [*product(paths, (first, second)), (paths[0], first)]
    ]
    drawn_trials = [exercise("01.2").trials(nonce) for nonce in nonces]

    assert nonces[0] == nonces[-1]
    assert len(set(nonces)) == 4
    assert drawn_trials[0] not in drawn_trials[1:-1]
