"""The judge: an exercise, an answer and the evidence of its trials become one verdict.

    no answer, NotImplementedError as well, or it raised ──▶ FAIL
    a rule that does not hold in a trial that proves something ──▶ FAIL
    a trial that proves nothing ──▶ INCONCLUSIVE   else ──▶ PASS

`lab.check` and the grader judge here, so they cannot differ. It runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from lab_utils.audit.report import counted
from lab_utils.errors import LEFT, BadArgument
from lab_utils.grading.cases import Evidence, Exercise, Mistake, Trial
from lab_utils.grading.inside import is_unwritten
from lab_utils.grading.results import FAIL, INCONCLUSIVE, PASS, Verdict
from lab_utils.grading.rules import (
    Misshapen,
    everything_crossed_the_proxy,
    it_can_be_examined,
    no_order_is_added,
    nothing_else_is_stored,
    only_what_clients_need,
    readable,
)
from lab_utils.grading.weakness import hung, killed_early, seen_in_part, weakness
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults.broker_fault import REFUSED

# What a learner's own code may not bear witness of: its clients write these.
SOURCES_OF_WITNESSES: Final = ("wire", "fault", "log", "sink", "broker")
NOT_THERE: Final = "what is asked about did not happen, so this run proves nothing."
BY_THE_CLIENT: Final = ("crash_client", "stall_client")
# How often a run is made, if a slow machine spoils it.
RUNS_MAX: Final = 3


def witnessed(rows: Iterable[Event]) -> tuple[Event, ...]:
    """The rows that do not come from the learner's own process.

    That a process crashed is its parent's word. Which points it told of before is its own.
    """
    return tuple(
        row
        for row in rows
        if (row.source in SOURCES_OF_WITNESSES and row.actor not in BY_THE_CLIENT)
        or (row.source, row.kind) in (("workload", "order"), ("workload", "crashed"))
    )


def no_answer(exercise: Exercise, reason: str = "there is no answer yet.") -> Verdict:
    """The verdict on a cell that is still blank, or gone."""
    return exercise.verdict(FAIL, reason, hint=exercise.blank)


def decide(
    exercise: Exercise,
    trials: Iterable[Trial],
    answer: Any,
    evidence_of: Callable[[Trial], Evidence | None],
) -> Verdict:
    """The verdict on an answer after its trials; None for evidence: the answer is still blank.

    Whoever has spoiled one trial as often as it is made does not have the others made again.
    """
    evidence: list[Evidence] = []
    runs = RUNS_MAX
    for trial in trials:
        asked = trial.answered(exercise.kind, answer)
        for _ in range(runs):
            found = _found(exercise, asked, evidence_of)
            if found is None or not _is_spoiled(exercise, answer, found):
                break
        else:
            runs = 1
        if found is None or (not evidence and is_unwritten(found.raised)):
            return no_answer(exercise)
        evidence.append(found)
        if (found.raised and not exercise.claims) or _is_misshapen(exercise, answer, found):
            break
    return judge(exercise, answer, evidence)


def _is_misshapen(exercise: Exercise, answer: Any, found: Evidence) -> bool:
    """Has a value not the form that was asked for? No other run of the lab's would change that."""
    if exercise.kind != "value":
        return False
    return isinstance(_decided(exercise, _spelled(answer), [found])[1], Misshapen)


def own_trouble(exercise: Exercise, found: Evidence) -> str | None:
    """What of the answer's own has spoiled its run.

    Faults that it chose and the stage refused; what its function has left that nobody can read, as
    its sink, has not done, or has done to a topic.
    """
    if exercise.kind == "faults":
        return next((each for each in found.trouble if REFUSED in each), None)
    if not (exercise.is_performed and found.trouble):
        return None
    unreadable = next((each for each in found.trouble if LEFT in each), None)
    return unreadable or it_can_be_examined(found) or only_what_clients_need(None, found)


def _found(
    exercise: Exercise, trial: Trial, evidence_of: Callable[[Trial], Evidence | None]
) -> Evidence | None:
    """The evidence of a trial; what of the answer's own has spoiled it has `raised`."""
    try:
        found = evidence_of(trial)
    except BadArgument as error:
        if not exercise.is_condition:
            raise
        return Evidence(trial=trial, orders=(), rows=(), raised=str(error))
    if found is not None and (said := own_trouble(exercise, found)):
        return replace(found, raised=said, trouble=())
    return found


def first_of(exercise: Exercise, answer: Any, evidence: Sequence[Evidence], status: str) -> int:
    """Which trial is the first that has this status by itself; the last, if none has."""
    answer = _spelled(answer) if exercise.kind == "value" else answer
    each = (_decided(exercise, answer, [it])[0] for it in evidence)
    return next((number for number, it in enumerate(each) if it == status), len(evidence) - 1)


def _is_spoiled(exercise: Exercise, answer: Any, found: Evidence) -> bool:
    """Does a run prove nothing in which nothing was the learner's, or that chance has spoiled?"""
    if hung(found):
        return True
    answer = _spelled(answer) if exercise.kind == "value" else answer
    is_ours = exercise.kind == "value" or exercise.is_query
    by_chance = is_ours or (not found.trouble and seen_in_part(found))
    return by_chance and _decided(exercise, answer, [found])[0] == INCONCLUSIVE


def judge(exercise: Exercise, answer: Any, evidence: Sequence[Evidence]) -> Verdict:
    """The verdict on an answer; `answer` is data for the kinds value and faults, else unused."""
    answer = _spelled(answer) if exercise.kind == "value" else answer
    if exercise.claims:
        return _report_card(exercise, answer, evidence)
    lines = tuple(map(_line, evidence))
    status, found = _decided(exercise, answer, evidence)
    if status != PASS:
        met = _met_instead(exercise, evidence) if status == INCONCLUSIVE else None
        hint = None if found == NOT_THERE else _hint(exercise, answer, evidence, found)
        return exercise.verdict(
            status, found, hint=f"Likely: {met}" if met else hint, evidence=lines
        )
    said = exercise.passed(answer, evidence) if exercise.passed else _passed(exercise, evidence)
    return exercise.verdict(PASS, said, evidence=lines)


def _report_card(exercise: Exercise, answer: Any, evidence: Sequence[Evidence]) -> Verdict:
    """The verdict with a row for each trial, and its share of the points for each that passed."""
    names = [*exercise.claims]
    evidence = sorted(evidence, key=lambda each: names.index(each.trial.name))
    card = tuple(_graded(exercise, answer, each) for each in evidence)
    held = sum(row["status"] == PASS for row in card)
    status = FAIL if any(row["status"] == FAIL for row in card) else INCONCLUSIVE
    failing = [each for each, row in zip(evidence, card, strict=True) if row["status"] == FAIL]
    weak = [row["reason"] for row in card if row["status"] == INCONCLUSIVE]
    told = f" {len(weak)} proved nothing: {weak[0]}" if weak else ""
    return exercise.verdict(
        PASS if held == len(card) else status,
        f"{held} of {counted(len(card), 'schedule')} passed.{told}",
        points=exercise.points * held // len(card),
        hint=_hint(exercise, answer, failing, "") if failing else None,
        evidence=tuple(map(_line, evidence)),
        card=card,
    )


def _graded(exercise: Exercise, answer: Any, each: Evidence) -> dict[str, str]:
    """One row of a report card: the schedule, its verdict, the finding, the claim and a hint."""
    status, found = _decided(exercise, answer, [each])
    made = _made(exercise, answer, [each]) if status == FAIL and not each.raised else None
    return {
        "schedule": each.trial.name,
        "status": status,
        "finding": made.finding if made else "",
        "claim": (made.claim if made else "") or exercise.claims[each.trial.name],
        "reason": found,
        "hint": _thought(made) if made else "",
    }


def _decided(exercise: Exercise, answer: Any, evidence: Sequence[Evidence]) -> tuple[str, str]:
    """PASS, FAIL or INCONCLUSIVE, and why."""
    steps: tuple[tuple[str, Callable[[Evidence], str | None]], ...] = (
        (FAIL, lambda each: _failure(exercise, each)),
        (FAIL, lambda each: None if weakness(each) else _breach(exercise, answer, each)),
        (INCONCLUSIVE, weakness),
        (INCONCLUSIVE, killed_early),
    )
    for status, step in steps:
        try:
            found = _first(step, evidence)
        except StopIteration:  # what a rule looks for with next() is not there
            return INCONCLUSIVE, NOT_THERE
        if found is not None:
            return status, found
    return PASS, ""


def _first(step: Callable[[Evidence], str | None], evidence: Sequence[Evidence]) -> str | None:
    """What the first trial says that says something. A loop: next() would hide a StopIteration."""
    for each in evidence:
        if (found := step(each)) is not None:
            return found
    return None


def summary(evidence: Sequence[Evidence]) -> str:
    """What was counted over all trials, in one sentence."""
    orders = sum(len(each.orders) for each in evidence)
    stored = sum(len(each.stored) for each in evidence)
    given = [[row.value for row in readable(each)] for each in evidence]
    hidden = stored - sum(map(len, given))
    missing = sum(len({*each.orders} - {*it}) for each, it in zip(evidence, given, strict=True))
    twice = sum(len(it) - len(set(it)) for it in given)
    faults = sum(len(each.trial.faults) for each in evidence)
    in_log = f"{stored} in the log" + (f" ({hidden} not committed)" if hidden else "")
    under = f" under {counted(faults, 'fault')}" if faults else ""
    return (
        f"{orders} orders in {counted(len(evidence), 'run')}{under}: {in_log}, {missing} missing, "
        f"{twice} duplicated."
    )


def _passed(exercise: Exercise, evidence: Sequence[Evidence]) -> str:
    if exercise.kind == "value":
        return "that is what happened."
    if exercise.is_query:
        rows = sum(len(each.returned or ()) for each in evidence)
        runs = counted(len(evidence), "run")
        return f"the rows are right: {counted(rows, 'row')} for {runs}."
    return summary(evidence)


def _failure(exercise: Exercise, each: Evidence) -> str | None:
    """What went wrong with the learner's function itself."""
    if exercise.is_performed and (said := it_can_be_examined(each)):
        return said
    if each.raised:
        return each.raised
    if each.trouble:
        return None
    if exercise.is_query and each.returned is None:
        return "your function returned no DataFrame: has it a return at its end?"
    if exercise.is_performed and not each.requests("Produce") and not each.stored:
        if not each.trial.filled:
            return "nothing was sent: no Produce request crossed the wire."
        if not each.requests("Fetch"):
            return "nothing was read: no Fetch request crossed the wire."
    return None


def _breach(exercise: Exercise, answer: Any, each: Evidence) -> str | None:
    """The first rule that does not hold."""
    rules = exercise.rules
    if exercise.is_performed:
        rules = (
            everything_crossed_the_proxy, only_what_clients_need, no_order_is_added, *rules
        )  # fmt: skip
    for rule in rules:
        try:
            broken = rule(answer, each)
        except (TypeError, KeyError, ValueError, IndexError, AttributeError):
            if exercise.kind != "value":
                raise
            said = f"your answer {answer!r} does not have the form that was asked for."
            broken = Misshapen(said)
        if broken:
            return broken
    return None


def _spelled(answer: Any) -> Any:
    """The answer in one spelling: "0, 1" is as good as "0 1", and 2.0 as 2."""
    if isinstance(answer, float) and answer.is_integer():
        return int(answer)
    if isinstance(answer, str):
        return " ".join(answer.replace(",", " ").split())
    if isinstance(answer, dict):
        return {name: _spelled(value) for name, value in answer.items()}
    return [_spelled(it) for it in answer] if isinstance(answer, list) else answer


def _hint(exercise: Exercise, answer: Any, evidence: Sequence[Evidence], found: str) -> str | None:
    """What leads on: the way to an answer, or the first mistake that the evidence shows."""
    if isinstance(found, Misshapen):
        return exercise.blank if exercise.kind == "value" else None
    if any(each.raised for each in evidence):
        return None
    if all(_failure(exercise, each) for each in evidence):
        return exercise.blank
    if exercise.kind == "value":  # each trial asks for a part of it: the hint is about what is told
        evidence = [it for it in evidence if _decided(exercise, answer, [it])[0] == FAIL][:1]
    made = _made(exercise, answer, evidence)
    return _thought(made) if made else None


def _met_instead(exercise: Exercise, evidence: Sequence[Evidence]) -> str | None:
    """What a workload sent that no fault meets: no order, to what it reads, or by a stranger."""
    if not exercise.is_performed:
        return None
    asked = (it for it in exercise.rules if it is nothing_else_is_stored)
    rules = (only_what_clients_need, no_order_is_added, *asked)
    return _first(lambda each: next(filter(None, (it(None, each) for it in rules)), None), evidence)


def _made(exercise: Exercise, answer: Any, evidence: Sequence[Evidence]) -> Mistake | None:
    """The first mistake that the evidence shows."""
    for mistake in exercise.mistakes.values():
        if any(_is_made(mistake.is_made, answer, each) for each in evidence):
            return mistake
    return None


def _thought(mistake: Mistake) -> str:
    return "\n".join(filter(None, [f"Likely: {mistake.likely}", mistake.look]))


def _is_made(predicate: Any, answer: Any, each: Evidence) -> bool:
    """Is the mistake made? An answer in a form that nobody thought of makes none with a name."""
    try:
        return bool(predicate(answer, each))
    except (TypeError, KeyError, ValueError, IndexError, AttributeError):
        return False


def _line(each: Evidence) -> str:
    """One trial as a line of a report."""
    faults = ", ".join(map(repr, each.trial.faults)) or "no fault"
    rows = "" if each.returned is None else f"; {len(each.returned)} rows returned"
    return (
        f"{each.trial.name}: {faults}; {len(each.requests())} Produce requests; "
        f"log {' '.join(each.stored[:40])}{rows}"
    )
