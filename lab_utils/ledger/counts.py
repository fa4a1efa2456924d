"""A run in few words: its counts, which a summary says, and its outcome, for a cell of a table.

They state facts that `history` has computed, and judge nothing: whether the configuration allows a
duplicate is for the audit to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Counts:
    """How many orders met which outcome.

    sent          calls of produce()
    acked         delivery reports without an error
    failed        delivery reports that say that it is not stored
    unknown       delivery reports that leave it open: the record may be in the log or not
    stored        records that an independent reader found in the log
    duplicated    values that are in the log of one topic more than once
    lost          values that were acked and are not in the log; None if it was not read to its end
    by_topic      what is stored in each topic, by its name in the run, if there are several
    delivered     records that were handed to a consumer
    processed     records for which the work was done
    repeated      orders for which the work was done more often than groups were given them
    skipped       orders for which it was never done, and which a group's bookmark is after
    committed     where the group reads on in each partition, as the broker holds it
    """

    sent: int
    acked: int
    failed: int
    unknown: int
    stored: int
    duplicated: int
    lost: int | None
    by_topic: tuple[tuple[str, int], ...] = ()
    delivered: int = 0
    processed: int = 0
    repeated: int = 0
    skipped: int = 0
    committed: tuple[int, ...] = ()

    def __str__(self) -> str:
        places = [f"{n} in {name}" for name, n in self.by_topic] or [f"{self.stored} in the log"]
        sent = [f"{self.sent} sent", f"{self.acked} acked"]
        others = ("failed", "unknown", "duplicated", "lost")
        read = ("delivered", "processed", "repeated", "skipped")
        said = [] if self.delivered and not self.sent else sent
        said += places + [f"{n} {name}" for name in (*others, *read) if (n := getattr(self, name))]
        if self.committed:
            said += [f"committed {' and '.join(map(str, self.committed))}"]
        elif self.delivered:
            said += ["nothing committed"]
        return ", ".join(said)


def count(rows: Iterable[Event]) -> Counts:
    """Count the outcomes of one run's events."""
    history = History(rows)
    client = Counter(row.kind for row in history.rows if row.source == "client")
    lost = {(row.topic, row.key, row.value) for row in history.lost}
    return Counts(
        sent=client["sent"],
        acked=client["acked"],
        failed=client["failed"],
        unknown=client["unknown"],
        stored=len(history.log),
        duplicated=len(history.duplicated),
        lost=len(lost) if history.is_drained else None,
        by_topic=_by_topic(history),
        delivered=client["delivered"],
        processed=history.work.total(),
        repeated=len(history.repeated),
        skipped=len({row.value for row in history.skipped}),
        committed=tuple(row.offset or 0 for row in history.committed),
    )


def _by_topic(history: History) -> tuple[tuple[str, int], ...]:
    """How many records each topic holds; nothing if there is one topic only."""
    read = {row.topic or "": row.run for row in history.of("log", "end")}
    if len(read) < 2:
        return ()
    held = Counter(row.topic for row in history.log)
    return tuple((topic.removeprefix(f"{run}-"), held[topic]) for topic, run in read.items())


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
