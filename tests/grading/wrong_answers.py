"""A wrong answer for each named mistake of the labs: item, the mistake's name, and the cell."""

from __future__ import annotations

from typing import Final

SEND = """
def {name}(run):
    producer = run.producer({settings})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    {after}
"""


GIVES_UP: Final = """
def send_the_rest(run):
    if run.attempt > 1:
        return
    producer = run.producer()
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
    producer.flush()
"""


def _send(name: str, settings: str = "", after: str = "producer.flush()") -> str:
    return SEND.format(name=name, settings=settings, after=after)


def _counts(where: str, select: str) -> str:
    return f"def count_acked(events):\n    return events.where({where!r}).selectExpr({select!r})\n"


RESENT: Final = """
def resent(events):
    requests = events.where("{where}")
    key = [{key}]
    counted = requests.groupBy(key).count().withColumnRenamed("count", "times")
    return counted.where("times {least}").selectExpr(
        {partition}, "producer_id", "producer_epoch", "sequence", "times")
"""
OF_A_BATCH: Final = '"producer_id", "producer_epoch", "sequence"'
COPIES: Final = """
def first_copies(events):
    records = events.where("source = 'log' AND kind = 'record'")
    return records.{result}
"""


def _resent(**other: str) -> str:
    right = {
        "where": "api = 'Produce' AND kind = 'request' AND producer_id >= 0",
        "key": f'"partition", {OF_A_BATCH}',
        "least": ">= 2",
        "partition": '"partition"',
    }
    return RESENT.format(**right | other)


def _which(**wrong: object) -> str:
    return f"answer_1 = { ({'order': '2', 'first_copy': 2, 'reported': 3} | wrong)!r}"


def _became(**wrong: object) -> str:
    return f"answer_2 = { ({'outcome': 'unknown', 'offset': 3} | wrong)!r}"


WRONG: Final = (
    ("00.1", "counted reports", _counts("kind = 'acked'", "count(*) AS acked")),
    ("00.1", "counted what was sent", _counts("kind = 'sent'", "count(distinct value) AS acked")),
    (
        "00.1",
        "took away what is unknown",
        _counts(
            "kind IN ('sent', 'unknown')",
            "count(distinct value) - count(distinct if(kind = 'unknown', value, NULL)) AS acked",
        ),
    ),
    ("00.1", "counted the log", _counts("kind = 'record'", "count(*) AS acked")),
    ("00.2", "an error is a failure", _became(outcome="failed")),
    ("00.2", "a stored order is acked", _became(outcome="acked")),
    ("00.2", "not in the log", _became(offset=None)),
    ("00.2", "another place", _became(offset=4)),
    ("00.2", "a number as text", _became(offset="3")),
    ("00.3", "too late", 'fault_3 = drop_response("Produce", nth=30)'),
    ("03.1", "order as a number", _which(order=2)),
    ("03.1", "another order", _which(order="3")),
    ("03.1", "the other way round", _which(first_copy=3, reported=2)),
    ("03.1", "the lost answer's offset", _which(reported=2)),
    ("03.1", "counted requests", _which(first_copy=3, reported=4)),
    ("03.1", "the second copy", _which(first_copy=3)),
    ("03.1", "offset as text", _which(first_copy="2", reported="3")),
    ("03.2", "no producer id", _send("send_once", '{"acks": "all"}')),
    ("03.2", "gave up", _send("send_once", '{"acks": "all", "retries": 0}')),
    (
        "03.2",
        "sent again by hand",
        _send(
            "send_once",
            '{"enable.idempotence": True}',
            "producer.produce(run.topic, run.orders[0], partition=0); producer.flush()",
        ),
    ),
    ("03.3", "no producer id", _resent(where="api = 'Produce' AND kind = 'request'")),
    ("03.3", "counted the log, too", _resent(where="producer_id >= 0")),
    ("03.3", "without the partition", _resent(key=OF_A_BATCH, partition='"0 AS partition"')),
    ("03.3", "just twice", _resent(least="= 2")),
    ("03.3", "everything", _resent(least=">= 1")),
    ("03.4", "every copy", COPIES.format(result='select("value", "partition", "offset")')),
    (
        "03.4",
        "the last copy",
        COPIES.format(
            result='groupBy("value", "partition").agg({"offset": "max"})'
            '.withColumnRenamed("max(offset)", "offset")'
        ),
    ),
    (
        "03.4",
        "the last copy",
        COPIES.format(result='dropDuplicates(["value"]).select("value", "partition", "offset")'),
    ),
    (
        "03.4",
        "only the doubled ones",
        COPIES.format(
            result='groupBy("value", "partition")'
            '.agg({"offset": "min", "*": "count"}).where("`count(1)` > 1")'
            '.withColumnRenamed("min(offset)", "offset")'
        ),
    ),
    ("03.5", "began anew", _send("send_the_rest", '{"enable.idempotence": True}')),
    ("03.5", "gave up", GIVES_UP),
)
