"""The outcome of a whole run, in a word or two that fit into the cell of a table.

The words are facts that `history` has computed. They judge nothing: whether the configuration
allows a duplicate is for the audit to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History

# Worst first. A run may have several; the last four stand alone.
LOST: Final = "lost"
SKIPPED: Final = "skipped"
DUPLICATED: Final = "duplicated"
REPEATED: Final = "repeated"
OUT_OF_SEQUENCE: Final = "out of sequence"
UNKNOWN: Final = "unknown"
FAILED: Final = "failed"
ONCE: Final = "stored once"
PROCESSED: Final = "processed once"
NOTHING: Final = "nothing stored"
UNPROVEN: Final = "inconclusive"


def outcomes(rows: Iterable[Event], trouble: bool = False) -> tuple[str, ...]:
    """What happened to the orders of a run, worst first.

    lost             acked, and not in the log
    duplicated       in the log of one topic more than once
    out of sequence  in the log after an order that was sent later
    unknown          reported with an error that does not rule the record out
    failed           reported with an error that does
    skipped, repeated   never processed, and the bookmark is after it; processed more than once
    inconclusive     a fault that was armed has not fired, or the evidence is not whole
    """
    run = History(rows)
    if trouble or not run.is_drained or run.is_unproven:
        return (UNPROVEN,)
    found = {
        LOST: run.lost,
        SKIPPED: run.skipped,
        DUPLICATED: run.duplicated,
        REPEATED: run.repeated,
        OUT_OF_SEQUENCE: [] if run.duplicated else run.reordered,
        UNKNOWN: run.of("client", "unknown"),
        FAILED: run.of("client", "failed"),
    }
    said = tuple(word for word, cases in found.items() if cases)
    return said or (_calm(run),)


def _calm(run: History) -> str:
    if run.work:
        return PROCESSED
    return ONCE if run.log else NOTHING
