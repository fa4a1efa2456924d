"""The judge gives three verdicts, and never points for a run that proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab_utils.errors import BadArgument, LeftUnreadable
from lab_utils.grading.cases import Evidence, Exercise, Mistake, Trial
from lab_utils.grading.judge import decide, judge, no_answer, witnessed
from lab_utils.grading.rules import (
    answer_equals,
    each_order_is_stored,
    no_order_is_stored_twice,
    nothing_else_is_stored,
    rows_equal,
)
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import crash_client
from tests.histories import TOPIC, end, record


def event(source: str, kind: str, **columns: Any) -> Event:
    return Event(run="r", source=source, actor=columns.pop("actor", "a"), kind=kind, **columns)


def produce(actor: str = "producer-1") -> Event:
    return event("wire", "request", actor=actor, api="Produce", topic=TOPIC, partition=0, records=9,
                 fate="forwarded")  # fmt: skip


KILL, DIED = crash_client("after_ack", nth=3), event("workload", "crashed")
ARMED, FIRED, UNFIRED = (event("fault", kind) for kind in ("armed", "fired", "unfired"))
END, STUCK = end(), end(drained=False)
STORED = (produce(), record("0", 0), record("1", 1), END)
TWICE = (*STORED, record("1", 2))


def evidence(*rows: Event, faults: tuple[Any, ...] = (), **columns: Any) -> Evidence:
    trial = Trial(name="lost answer", faults=faults)
    return Evidence(trial=trial, orders=("0", "1"), rows=rows, **columns)


EXERCISE = Exercise(
    item="03.2",
    title="Store each order once",
    points=5,
    kind="workload",
    answer="send_once",
    public=(Trial(name="lost answer"),),
    rules=(each_order_is_stored, no_order_is_stored_twice),
    mistakes={
        "sent again by hand": Mistake(
            is_made=lambda _, seen: len(seen.requests()) > 1,
            likely="the function sends again by itself.",
        ),
        "no idempotence": Mistake(
            is_made=lambda _, seen: "1" in seen.stored,
            likely="the broker could not recognise the retry.",
            look="Look at the second Produce request.",
        ),
    },
)


def test_all_rules_hold() -> None:
    """When every rule holds in every trial the points are given, with the numbers."""
    faulted = evidence(*STORED, ARMED, FIRED, faults=("a fault",))
    verdict = judge(EXERCISE, None, [evidence(*STORED), faulted])

    assert ("PASS", 5, 5) == (str(verdict.status), verdict.points, verdict.possible)
    for number in ("4 orders", "2 runs", "4 in the log", "0 missing", "0 dupl", "under 1 fault:"):
        assert number in verdict.reason


def test_what_was_not_committed_is_no_duplicate() -> None:
    """A record of an aborted transaction is in the log, and no reader has it."""
    visible = [replace(it, kind="visible") for it in STORED[1:3]]
    seen = (*STORED, record("0", 2), event("log", "marker"), *visible)
    verdict = judge(replace(EXERCISE, rules=()), None, [evidence(*seen)])

    assert "3 in the log (1 not committed), 0 missing, 0 duplicated" in verdict.reason


def test_a_mistake_that_cannot_be_looked_for_is_not_made() -> None:
    """An answer in a form that nobody thought of does not end the judging."""
    unread = Mistake(is_made=lambda answer, _: answer["order"], likely="it.")
    mistakes = {"another order": unread, **EXERCISE.mistakes}
    verdict = judge(replace(EXERCISE, mistakes=mistakes), None, [evidence(*TWICE)])

    assert (verdict.hint or "").startswith("Likely: the broker could not recognise the retry.")


@pytest.mark.parametrize(
    ("weak", "reason"),
    [
        (evidence(*TWICE, ARMED, UNFIRED), "the fault never fired"),
        (evidence(*TWICE, ARMED), "the fault never fired"),
        (evidence(*TWICE[:3], STUCK), "the log could not be read to its end"),
        (evidence(*TWICE[:3]), "the log could not be read to its end"),
        (evidence(*TWICE, trouble=("no space left",)), "the evidence is not whole: no space left."),
        (evidence(trouble=("Rename it.",)), "the evidence is not whole: Rename it."),
        (evidence(*TWICE, faults=(KILL,)), "no process came to after_ack 3 times, to be killed"),
        (evidence(*TWICE, UNFIRED), "the fault never fired, so this run proves nothing. It waits"),
    ],
)
def test_a_run_that_proves_nothing(weak: Evidence, reason: str) -> None:
    """A weak trial makes the verdict INCONCLUSIVE, whatever rule it breaks itself."""
    verdict = judge(EXERCISE, None, [evidence(*STORED), weak])

    assert ("INCONCLUSIVE", 0) == (str(verdict.status), verdict.points)
    assert verdict.reason.startswith(reason)


CARD = replace(EXERCISE, points=36, claims={"lost answer": "D1"})


def test_a_report_card_has_points_by_trial() -> None:
    """Each trial has a verdict of its own, and those that passed their share of the points."""
    found = judge(CARD, None, [evidence(*STORED), evidence(*TWICE), evidence(*STORED, UNFIRED)])

    assert ("FAIL", 12) == (found.status, found.points)
    assert ["PASS", "FAIL", "INCONCLUSIVE"] == [row["status"] for row in found.card]
    assert ["", "Likely: the broker could not recognise the retry.\nLook at the second Produce "
            "request.", ""] == [row["hint"] for row in found.card]  # fmt: skip
    assert {"D1"} == {row["claim"] for row in found.card}


def test_a_report_card_without_a_fail() -> None:
    """All passed is a PASS with all points; what proves nothing has none of them."""
    whole = judge(CARD, None, [evidence(*STORED)] * 3)
    weak = judge(CARD, None, [evidence(*STORED), evidence(*STORED, UNFIRED)])

    assert ("PASS", 36) == (whole.status, whole.points)
    assert ("INCONCLUSIVE", 18) == (weak.status, weak.points)
    assert "1 proved nothing: the fault never fired" in weak.reason


EARLY: dict[str, Any] = {
    "faults": (KILL,), "unmet": ("a process came to after_ack, and 0 were acked",)
}  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "status", "reason"),
    [
        # With acks=0 there is no answer to drop: that proves nothing, but the other trial does.
        ([evidence(*STORED, ARMED, UNFIRED), evidence(*TWICE)], "FAIL", "offsets 1 and 2"),
        # Whatever else is true of it: it was not read, and is nobody's bad luck.
        ([evidence(*STORED, replace(produce(), detail={"compression": "zstd"}))], "FAIL",
         "(compression.type=zstd)"),
        # What a function raised is the reason, before anything else is looked at.
        ([evidence(raised="your function raised KeyError: 1")], "FAIL",
         "your function raised KeyError: 1"),
        # Nothing sent is the learner's inaction, not a weak run, although no fault fired.
        ([evidence(END, ARMED, UNFIRED)], "FAIL", "nothing was sent"),
        # A workload that writes past the proxy gets no points, whatever the log looks like.
        ([evidence(*STORED[1:], replace(produce(), records=1))], "FAIL", "2 records"),
        # Who killed the process says that it crashed; clients that count on by themselves do not.
        ([evidence(*STORED, DIED, produce(), faults=(KILL,))], "PASS", "0 missing"),
        ([evidence(*STORED, produce("producer-11"), faults=(KILL,))], "INCONCLUSIVE", "after_ack"),
        # It told of a point before its work was done: no proof of survival, but a loss is a loss.
        ([evidence(*STORED, DIED, produce(), **EARLY)], "INCONCLUSIVE", "0 were acked"),
        ([evidence(*TWICE, DIED, produce(), **EARLY)], "FAIL", "offsets 1 and 2"),
    ],
)  # fmt: skip
def test_what_is_decided_by_what_was_seen(seen: list[Evidence], status: str, reason: str) -> None:
    """Each witness is believed in what it can know, and only what passes has points."""
    verdict = judge(EXERCISE, None, seen)

    assert (status, 5 * (status == "PASS")) == (verdict.status, verdict.points)
    assert reason in verdict.reason
    assert reason != "nothing was sent" or verdict.hint == EXERCISE.blank


FOUND = Event(run="", source="wire", actor="consumer-1", kind="response", api="FindCoordinator")


@pytest.mark.parametrize(
    "stuck",
    [
        evidence(*STORED, FOUND),
        evidence(*STORED, unmet=("a process came to after_ack, and 0 were acked",)),
        evidence(*TWICE[:3], STUCK),
    ],
    ids=["a client hung", "a deed was not seen", "the log was not read"],
)
def test_a_run_that_chance_has_spoiled_is_made_again(stuck: Evidence) -> None:
    """What a slow machine kept from being seen is nobody's answer; three times proves nothing."""
    whole = evidence(*STORED)
    statuses = []
    for runs in ([stuck, whole], [stuck] * 3):
        them = iter(runs)
        verdict = decide(EXERCISE, [whole.trial], None, lambda _, them=them: next(them))
        statuses.append((verdict.status, next(them, None)))

    assert [("PASS", None), ("INCONCLUSIVE", None)] == statuses


@pytest.mark.parametrize(
    "seen",
    [evidence(*STORED, ARMED, UNFIRED), evidence(*TWICE, unmet=("0 were acked",))],
    ids=["the fault never fired", "a rule is broken"],
)
def test_a_run_that_would_be_the_same_again_is_made_once(seen: Evidence) -> None:
    """Nothing of it is chance, so its first verdict stands."""
    made = []
    decide(EXERCISE, [seen.trial], None, lambda trial: made.append(trial) or seen)

    assert 1 == len(made)


def test_whoever_spoils_one_trial_takes_no_more_time_for_the_others() -> None:
    """Nothing can pass any more, and a machine that is so slow is as slow for the next one."""
    stuck, made = evidence(*STORED, FOUND), []
    decide(EXERCISE, [stuck.trial] * 3, None, lambda trial: made.append(trial) or stuck)

    assert 3 + 1 + 1 == len(made)


CHOSEN = replace(EXERCISE, kind="faults", public=())
VALUE = replace(CHOSEN, kind="value")
SETTINGS = replace(EXERCISE, kind="settings", public=())
REFUSED_IN_THE_RUN = "start_broker(1) was not carried out: broker 1 is running already."
LEFT_BY_IT = str(LeftUnreadable("the table bookings has no column value, only name."))


@pytest.mark.parametrize(
    ("exercise", "trouble", "said"),
    [
        (CHOSEN, REFUSED_IN_THE_RUN, ("FAIL", REFUSED_IN_THE_RUN)),
        (CHOSEN, "the stage is gone", ("INCONCLUSIVE", "the evidence is not whole: the stage")),
        (EXERCISE, REFUSED_IN_THE_RUN, ("INCONCLUSIVE", "the evidence is not whole: start_br")),
        (SETTINGS, REFUSED_IN_THE_RUN, ("INCONCLUSIVE", "the evidence is not whole: start_br")),
        (EXERCISE, LEFT_BY_IT, ("FAIL", "the workload has left what nobody can read: the table")),
        (SETTINGS, LEFT_BY_IT, ("INCONCLUSIVE", "the evidence is not whole: the workload has")),
    ],
    ids=[
        "chosen by the answer", "by nobody", "chosen by the trial", "beside its settings",
        "left by the answer", "left by the trial's own",
    ],
)  # fmt: skip
def test_what_has_spoiled_a_run(exercise: Any, trouble: str, said: Any) -> None:
    """What a stage refuses, or a workload leaves: only an answer of whose own it is has failed."""
    seen = evidence(*STORED, trouble=(trouble,))
    answer: dict[str, Any] = {"replicas": 1, "topic": {}, "producer": {}}

    found = decide(exercise, [replace(seen.trial, workload=print)], answer, lambda _: seen)

    assert said == (found.status, found.reason[: len(said[1])])


def test_what_a_workload_has_done_to_a_topic() -> None:
    """It has failed by it, in lab.check as in a grading, also where its run is not whole for it."""
    deleted = event("wire", "request", api="DeleteTopics")
    seen = evidence(*STORED, deleted, trouble=("the topic is not there.",))
    found = decide(EXERCISE, [seen.trial], None, lambda _: seen)

    assert ("FAIL", True) == (found.status, "asked the broker for DeleteTopics" in found.reason)


def test_what_a_stage_refuses_before_a_run() -> None:
    """Only an answer that asked for it has failed; else it is an error of the lab."""

    def refused(_: Any) -> Any:
        raise BadArgument("this stage has the brokers [1]; got 2.")

    found = decide(CHOSEN, [evidence().trial], (), refused)
    with pytest.raises(BadArgument, match="got 2"):
        decide(EXERCISE, [evidence().trial], None, refused)

    assert ("FAIL", "this stage has the brokers [1]; got 2.") == (found.status, found.reason)


def test_a_value_that_is_no_order_has_no_hint() -> None:
    """What the mistakes look for may hold as well: they say nothing of where it comes from."""
    asked = replace(EXERCISE, rules=(nothing_else_is_stored, no_order_is_stored_twice))
    strange = judge(asked, None, [evidence(*TWICE, record("odd", 3))])

    assert "the log holds a value that is no order of this run: 'odd'." == strange.reason
    assert strange.hint is None
    assert judge(asked, None, [evidence(*TWICE)]).hint is not None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            (produce(), record("odd", 0)),
            "the log holds a value that is no order of this run: 'odd'.",
        ),
        (
            (replace(produce("me"), detail={"outside": "true"}),),
            "a client that calls itself 'me' w",
        ),
        ((replace(produce(), topic="r-orders"),), "your function wrote to run.topic, which holds"),
        ((produce(), *TWICE[1:3]), EXERCISE.mistakes["no idempotence"].likely),
    ],
    ids=["values that are no orders", "a client of its own", "what it is to read", "neither"],
)
def test_a_run_in_which_the_fault_could_meet_nothing(rows: tuple[Event, ...], said: str) -> None:
    """The hint says what the function sent instead of orders, and no mistake that looks alike."""
    asked = replace(EXERCISE, rules=(nothing_else_is_stored, *EXERCISE.rules))
    seen = evidence(*rows, event("wire", "request", api="Fetch"), END, ARMED, UNFIRED)
    verdict = judge(asked, None, [replace(seen, trial=Trial(name="t", filled=True))])

    assert ("INCONCLUSIVE", True) == (verdict.status, "never fired" in verdict.reason)
    assert (verdict.hint or "").startswith(f"Likely: {said}")


def test_a_rule_that_finds_nothing_to_judge_gives_no_points() -> None:
    """What it looks for with next() did not happen; that must not end the judging with a PASS."""
    sought = replace(EXERCISE, rules=(lambda _, __: next(iter(())),))
    verdict = judge(sought, None, [evidence(*STORED)])

    assert ("INCONCLUSIVE", 0, None) == (str(verdict.status), verdict.points, verdict.hint)


def test_no_answer_has_a_hint() -> None:
    """A blank cell fails with the exercise's own hint."""
    found = no_answer(EXERCISE)

    assert ("FAIL", 0) == (found.status, found.points)
    assert ("there is no answer yet.", EXERCISE.blank) == (found.reason, found.hint)


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (["NotImplementedError"], "there is no answer yet."),
        (["NotImplementedError: later"], "there is no answer yet."),
        (["PySparkNotImplementedError: no"], "your function raised PySparkNotImplementedError: no"),
        # Who came through a trial has written something.
        ([None, "NotImplementedError"], "your function raised NotImplementedError"),
    ],
)
def test_an_answer_that_is_not_written(raised: list[str | None], reason: str) -> None:
    """What nbgrader puts in place of a solution is no answer, and no mistake."""
    found = [evidence(*STORED, raised=it and f"your function raised {it}") for it in raised]
    given = iter(found)
    verdict = decide(EXERCISE, [it.trial for it in found], None, lambda _: next(given))

    assert ("FAIL", reason) == (verdict.status, verdict.reason)


@pytest.mark.parametrize(("answer", "runs"), [({"order": "1"}, 3), ("1", 1), ({"order": ["0"]}, 1)])
def test_a_value_in_another_form_costs_one_run(answer: Any, runs: int) -> None:
    """The lab performs all of its runs for an answer that may be right, and one for another."""
    asked, made = replace(VALUE, rules=(answer_equals(lambda _: {"order": "0"}),)), []
    verdict = decide(asked, [it.trial for it in [evidence(*STORED)] * 3], answer,
                     lambda trial: made.append(trial) or evidence(*STORED))  # fmt: skip

    assert ("FAIL", runs) == (verdict.status, len(made))


def test_an_answer_in_another_form_fails() -> None:
    """An answer that a rule cannot read fails; it does not break the judge."""
    asked = replace(VALUE, rules=(lambda answer, _: None if answer["order"] else "wrong",))
    verdict = judge(asked, [1], [evidence(*STORED)])

    assert ("FAIL", True) == (verdict.status, "[1]" in verdict.reason)
    assert asked.blank == verdict.hint


@pytest.mark.parametrize("answer", [{"log": "0 1"}, {"log": "0,1"}, {"log": " 0, 1"}])
def test_one_spelling_of_an_answer(answer: Any) -> None:
    """Values one after the other may have commas between them."""
    asked = replace(VALUE, rules=(answer_equals(lambda _: {"log": "0 1"}),))

    assert "PASS" == str(judge(asked, answer, [evidence(*STORED)]).status)


def test_a_missing_column_has_no_hint() -> None:
    """Rows without a column show every mistake, and none was made."""
    made = Mistake(is_made=lambda *_: True, likely="no.")
    asked = replace(VALUE, kind="query", rules=(rows_equal(lambda _: [{"n": 1}]),),
                    mistakes={"any": made})  # fmt: skip

    assert judge(asked, None, [evidence(*STORED, returned=({"m": 1},))]).hint is None


def test_a_query_without_a_return() -> None:
    """It may be written whole: the reason names what is then missing."""
    verdict = judge(replace(VALUE, kind="query", rules=()), None, [evidence(*STORED)])

    assert ("FAIL", True) == (verdict.status, "a return" in verdict.reason)


def test_only_witnesses_are_heard() -> None:
    """What the learner's process wrote is left out: its clients' reports and its crashes."""
    forged = [
        event("client", "acked", value="0"),
        event("workload", "finished"),
        event("fault", "fired", actor="crash_client"),
    ]
    true = [event("workload", "order", value="0"), produce(), FIRED, record("0", 0)]

    assert tuple(true) == witnessed([*forged, *true])


def test_unknown_kind_is_refused() -> None:
    """A kind that nobody can examine is refused when the checks are read."""
    with pytest.raises(BadArgument, match="Did you mean 'workload'"):
        Exercise(title="", points=1, kind="worklod", answer="f", public=(), rules=())
