"""Why a run proves nothing: its fault did not fire, its log was not read, nobody did anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lab_utils.audit.finding import Found, finding
from lab_utils.audit.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASON_SCHEMA: Final = "run STRING, topic STRING, partition BIGINT, actor STRING, reason STRING"
UNREAD: Final = "the log was not read"
IDLE: Final = "nobody sent, was given or committed anything"
# What somebody did. A run without any of these proves nothing.
DONE: Final = (
    "sent", "acked", "failed", "unknown", "delivered", "processed", "stored", "committed",
    "txn_initialised",
)  # fmt: skip
Reason = tuple[str, str | None, int | None, str | None, str]


def reasons(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a reason; columns as in REASON_SCHEMA. The survey knows them all."""
    found = [*_faults(survey), *_logs(survey), *_idle(survey)]
    return survey.table(events, found, REASON_SCHEMA)


@finding("inconclusive", reasons)
def inconclusive() -> Found:
    """The run proves nothing.

    Rule: a fault was armed and did not fire; or a reader did not read a partition to its end, or a
    read_committed reader did not come as far as it can; or a topic that was sent to was not read,
    or a partition of it that an order was acked in; or nobody sent, was given or committed
    anything, and no sink has an effect. Other findings of the run still stand: what the events
    prove is proved.
    Smallest: `armed(drop_response) unfired(drop_response)`.
    Near miss: `armed(drop_response) fired(drop_response)`; a log that was drained at the second
    attempt.
    No setting allows or forbids it.
    """
    return Found(
        where="reason IS NOT NULL",
        said="reason",
        about={"partition": "partition", "actor": "actor"},
    )


def _faults(survey: Survey) -> Iterator[Reason]:
    of: dict[tuple[str, str], Counter[str]] = {}
    for (run, source, actor, kind), count in survey.counts.items():
        if source == "fault":
            of.setdefault((run, str(actor)), Counter())[kind] += count
    for (run, actor), times in of.items():
        if times["unfired"] or (times["armed"] and not times["fired"]):
            some = f"{times['unfired']} of {times['armed']} {actor} did not fire"
            said = some if times["fired"] else f"{actor} never fired"
            yield run, None, None, actor, said


def _logs(survey: Survey) -> Iterator[Reason]:
    for (run, topic), it in survey.topics.items():
        if "sent" in it.said_by and not it.ends:
            yield run, topic, None, None, UNREAD
        for partition in it.acked_in - it.ends.keys() if it.ends else ():
            yield run, topic, partition, None, UNREAD
        for partition, end in it.ends.items():
            if not end.drained:
                yield run, topic, partition, None, "the log was not read to its end"
            elif not it.stable.get(partition, end).drained:
                yield (
                    run, topic, partition, None,
                    "what a read_committed reader is given was not read to its end",
                )  # fmt: skip


def _idle(survey: Survey) -> Iterator[Reason]:
    done = {
        run
        for run, source, _, kind in survey.counts
        if (source == "client" and kind in DONE) or (source, kind) == ("sink", "effect")
    }
    for run in sorted({run for run, *_ in survey.counts} - done):
        yield run, None, None, None, IDLE
