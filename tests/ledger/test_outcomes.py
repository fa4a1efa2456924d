"""The outcome of a run in a word or two, worst first."""

from __future__ import annotations

import pytest

from lab_utils.ledger.counts import outcomes
from lab_utils.ledger.events import Event
from tests.histories import (
    acked,
    bookmark,
    delivered,
    fault,
    in_run,
    log,
    order,
    processed,
    sent,
    unknown,
)

SENT = [sent("0"), acked("0", 0), sent("1"), acked("1", 1)]
GIVEN = [order("0"), order("1"), *log("0", "1"), delivered("0", 0), delivered("1", 1)]
WORDS = [
    ([*SENT, *log("0", "1")], "stored once"),
    ([*SENT, *log("0")], "lost"),
    ([*SENT, *log("0", "1", "1")], "duplicated"),
    ([*SENT, *log("0", "0")], "lost, duplicated"),
    ([*SENT, *log("1", "0")], "out of sequence"),
    ([sent("0"), unknown("0"), *log("0")], "unknown"),
    ([*log()], "nothing stored"),
    ([*SENT, *log("0", "1", drained=False)], "inconclusive"),
    ([fault("armed"), *SENT, *log("0", "1")], "inconclusive"),
    ([fault("armed"), fault("fired"), *SENT, *log("0", "1")], "stored once"),
    ([fault("unfired"), *SENT, *log("0", "1")], "inconclusive"),
    # What the group will not read again and nobody has processed is skipped.
    ([*GIVEN, processed("1", 1), processed("1", 1), bookmark(2)], "skipped, repeated"),
    ([*GIVEN, processed("0", 0), bookmark(1)], "processed once"),
]


@pytest.mark.parametrize(("events", "words"), WORDS)
def test_word(events: list[Event], words: str) -> None:
    """Worst first; with trouble nothing is proven."""
    assert words == ", ".join(outcomes(in_run("r", events)))
    assert ("inconclusive",) == outcomes(in_run("r", events), trouble=True)
