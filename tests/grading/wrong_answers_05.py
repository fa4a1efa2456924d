"""A wrong answer for each named mistake of lab 05: item, the mistake's name, and the cell.

The cells stand behind those of the notebook: its helpers are there.
"""

from __future__ import annotations

from typing import Final

LOOP: Final = """
def loses_nothing(run):
    consumer = run.consumer({settings})
    consumer.subscribe([run.topic])
    for message in run.messages(consumer):
        {first}
        {then}
"""
BY_HAND: Final = '{"enable.auto.commit": False}'
COMMIT: Final = "consumer.commit(message, asynchronous=False)"
WORK: Final = "run.processed(message)"
THREADS: Final = """
def with_four_threads(run):
    def bookmark(given, done):
        return {bookmark}
    by_threads(run, bookmark)
"""
QUERY: Final = """
def skipped_and_repeated(events):
    said = events.where("source = 'client'")
    end = said.where("kind = 'committed'").agg(F.max_by("offset", "at_ns").alias("end"))
    orders = said.where("kind IN ('delivered', 'processed')").groupBy("value", "offset").agg(
        F.count_if(F.col("kind") == "processed").alias("times"),
        F.count_if(F.col("kind") == "delivered").alias("given")).crossJoin(end)
    outcome = F.expr("CASE WHEN {repeated} THEN 'repeated' WHEN {skipped} THEN 'skipped' END")
    return orders.select("value", outcome.alias("outcome")).where("outcome IS NOT NULL")
"""
# The orders themselves are in the log, read or not.
EVERY_ORDER: Final = """
def skipped_and_repeated(events):
    done = events.where("kind = 'processed'").groupBy("value").agg(F.count("*").alias("times"))
    orders = events.where("kind = 'record'").select("value").join(done, "value", "left")
    outcome = F.expr("CASE WHEN times > 1 THEN 'repeated' WHEN times IS NULL THEN 'skipped' END")
    return orders.select("value", outcome.alias("outcome")).where("outcome IS NOT NULL")
"""


def _loop(first: str, then: str, settings: str = BY_HAND) -> str:
    return LOOP.format(first=first, then=then, settings=settings)


def _where(poll: object, process: object, commit: object) -> str:
    given = {"after_poll": poll, "after_process": process, "after_commit": commit}
    return f"answer_1 = {given!r}"


def _who(owner: str = "consumer-1", refused: str = "UNKNOWN_MEMBER_ID", repeated: int = 2) -> str:
    given = {"owner": owner, "refused": refused, "repeated": repeated}
    return f"answer_5 = {given!r}"


WRONG: Final = (
    ("05.1", "text", _where("2", "2", "3")),
    ("05.1", "the last one", _where(1, 1, 2)),
    ("05.1", "done is committed", _where(2, 3, 3)),
    ("05.1", "delivered is committed", _where(3, 2, 3)),
    ("05.1", "nothing is committed", _where(2, 2, 2)),
    ("05.1", "an earlier one", _where(1, 2, 3)),
    ("05.2", "does nothing", _loop("pass", COMMIT)),
    ("05.2", "commits first", _loop(COMMIT, WORK)),
    ("05.2", "commits on a timer", _loop("pass", WORK, "{}")),
    ("05.2", "commits nothing", _loop("pass", WORK)),
    ("05.3", "past the slow one", THREADS.format(bookmark="max(done) + 1")),
    ("05.3", "stays behind", THREADS.format(bookmark="min(given - done, default=max(given))")),
    ("05.4", "not read yet", EVERY_ORDER),
    ("05.4", "not read yet", QUERY.format(repeated="times > 1", skipped="times = 0")),
    (
        "05.4",
        "not read yet",
        QUERY.replace('F.max_by("offset", "at_ns")', 'F.max("offset")').format(
            repeated="times > 1", skipped="times = 0 AND offset < end"
        ),
    ),
    (
        "05.4",
        "counted deliveries",
        QUERY.format(repeated="given > 1", skipped="times = 0 AND offset < end"),
    ),
    (
        "05.4",
        "one short",
        QUERY.format(repeated="times > 1", skipped="times = 0 AND offset < end - 1"),
    ),
    ("05.4", "only one kind", QUERY.format(repeated="times > 1", skipped="false")),
    ("05.5", "the old owner", _who(owner="consumer-2")),
    ("05.5", "the poll's error", _who(refused="_MAX_POLL_EXCEEDED")),
    ("05.5", "another name", _who(refused="ILLEGAL_GENERATION")),
    ("05.5", "counted one", _who(repeated=1)),
    ("05.5", "counted one", _who(repeated=0)),
)
