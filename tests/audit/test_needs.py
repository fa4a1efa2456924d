"""A rule is not asked where its kinds of events are missing: then the oracle finds nothing either.

No Spark: what the rules find, and that it is what the oracle finds, others test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from lab_utils.audit.judged import RULES
from lab_utils.ledger.events import Event
from tests.audit import (
    test_consuming,
    test_findings_kafka,
    test_replication,
    test_transactions,
)
from tests.histories import in_run
from tests.oracle import oracle
from tests.oracle_consuming import oracle_of_consuming
from tests.oracle_replication import oracle_of_replication
from tests.oracle_transactions import oracle_of_transactions

NEEDED_BY = {rule.finding: rule for rule in RULES}
# A client that writes in transactions says so first, and a topic of several replicas has a leader.
ALWAYS = {"txn_initialised", "partition"}

FAMILIES: dict[str, tuple[Any, Callable[[Iterable[Event]], Any]]] = {
    "producing": (test_findings_kafka.histories, oracle),
    "consuming": (test_consuming.histories, oracle_of_consuming),
    "transactions": (test_transactions.histories, oracle_of_transactions),
    "replication": (test_replication.histories, oracle_of_replication),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_found_is_asked_for(family: str) -> None:
    """Whatever the oracle finds in a history, the kinds of its events ask for."""
    histories, find = FAMILIES[family]
    found: set[str] = set()

    @settings(
        max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(histories)
    def each(history: list[Event]) -> None:
        kinds = {row.kind for row in history} | ALWAYS
        for finding, *_ in find(in_run("00-a", history)):
            assert NEEDED_BY[finding].can_answer(kinds), (finding, kinds)
            found.add(finding)

    each()
    assert found, "the histories have no finding at all, so nothing was tested"


def test_a_calm_run_is_asked_little() -> None:
    """Where nothing was consumed, refused or replicated, four rules are left."""
    calm = {"order", "sent", "acked", "record", "end", "request", "response", "batch"}

    asked = [rule.finding for rule in RULES if rule.can_answer(calm)]

    assert asked == ["lost-write", "duplicate", "nonmonotonic-send", "inconclusive"]
