"""When a rule is asked at all, and what the oracle says of a coarse clock. No Spark.

A rule is not asked where its kinds of events are missing: then the oracle finds nothing either.
That the rules find what the oracle finds, on literal histories too, is tested on Spark.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from lab_utils.audit.finding import RULES, Rule
from lab_utils.audit.survey import BEHIND, EPOCHS, IN_TRANSACTIONS, ONE_ID, STOPS
from lab_utils.ledger.events import Event
from tests.audit.cases import CASES
from tests.audit.random_histories import history
from tests.histories import delivered, in_run, log, placed
from tests.oracle import oracle


def test_each_finding_has_a_case() -> None:
    """A finding without a literal history is tested by nobody."""
    assert set(RULES) == {finding for cases in CASES.values() for finding in cases}


@pytest.mark.parametrize("module", CASES)
def test_what_is_found_is_asked_for(module: str) -> None:
    """Whatever the oracle finds in a history, and nothing else beside it, its kinds ask for."""
    found: set[str] = set()
    drawn = [history(module, seed) for seed in range(300)]
    smallest = [case[0] for cases in CASES[module].values() for case in cases.values()]
    for rows in (*drawn, *smallest):
        kinds = set(kinds_of(rows))
        for finding, *_ in oracle(in_run("00-a", rows), module):
            assert can_answer(RULES[finding], kinds), (finding, kinds)
            found.add(finding)
    assert found, "the histories have no finding at all, so nothing was tested"


def kinds_of(history: Iterable[Event]) -> Iterator[str]:
    """As the survey calls them, or more; a topic of several replicas has a leader.

    That the survey asks for no less is seen where Spark is asked.
    """
    yield from ("partition", EPOCHS, BEHIND, ONE_ID)
    for row in history:
        yield row.kind
        if row.kind == "sent" and "transaction" in row.detail:
            yield IN_TRANSACTIONS
        if row.kind == "end" and "last_stable" in row.detail:
            yield STOPS


def can_answer(rule: Rule, kinds: set[str]) -> bool:
    """Is the rule asked of events of these kinds?"""
    return any(part.can_answer(kinds) for part in rule.parts)


def test_a_calm_run_is_asked_little() -> None:
    """Where nothing was consumed or refused, five rules are left."""
    calm = {"order", "sent", "acked", "record", "end", "request", "response", "batch"}
    asked = [name for name, rule in RULES.items() if can_answer(rule, calm)]

    assert asked == [
        "lost-write", "duplicate", "nonmonotonic-send", "inconsistent-offsets", "inconclusive"
    ]  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_finding_fits_a_page(name: str) -> None:
    """What a learner may print: a finding and its rule have 45 lines."""
    function = inspect.getsource(RULES[name].function)

    assert 10 < len(function.splitlines()) <= 45


# What a consumer saw at one time, and then at the next; and what is found in that.
COARSE = {
    "polls": ([delivered("1", 1), delivered("0", 0), delivered("2", 2)], [], []),
    "back": ([delivered("2", 2), placed("sought", offset=0)], [delivered("0", 0)], []),
    "over": ([delivered("0", 0), placed("sought", offset=2)], [delivered("2", 2)], []),
    "back, not moved": ([delivered("2", 2)], [delivered("0", 0)], ["nonmonotonic-poll"]),
    "over, not moved": ([delivered("0", 0)], [delivered("2", 2)], ["poll-skip"]),
}


@pytest.mark.parametrize(("first", "then", "expected"), COARSE.values(), ids=COARSE)
def test_a_coarse_clock(first: list[Event], then: list[Event], expected: list[str]) -> None:
    """Polls of one time go neither back nor on, nor does the next after them from a seek."""
    ticks = enumerate(([placed("assigned")], [*log("0", "1", "2"), *first], then))
    coarse = [replace(row, at_ns=at) for at, rows in ticks for row in rows]

    assert expected == [each[0] for each in oracle(coarse, "consuming")]
