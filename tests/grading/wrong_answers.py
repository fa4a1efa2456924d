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


def _send(name: str, settings: str = "", after: str = "producer.flush()") -> str:
    return SEND.format(name=name, settings=settings, after=after)


def _query(name: str, where: str, select: str) -> str:
    return f"def {name}(events):\n    return events.where({where!r}).selectExpr({select!r})\n"


REPEATS: Final = """
def resent(events):
    requests = events.where("api = 'Produce' AND {where}")
    key = [{key}]
    counted = requests.groupBy(key).count().withColumnRenamed("count", "times")
    return counted.where("times {least}").selectExpr(
        {partition}, "producer_id", "producer_epoch", "sequence", "times")
"""
KEY: Final = '"partition", "producer_id", "producer_epoch", "sequence"'
IDS: Final = "kind = 'request' AND producer_id >= 0"

COPIES: Final = """
def first_copies(events):
    records = events.where("source = 'log' AND kind = 'record'")
    return {result}
"""

WRONG: Final = (
    ("00.1", "counted reports", _query("count_acked", "kind = 'acked'", "count(*) AS acked")),
    (
        "00.1",
        "counted what was sent",
        _query("count_acked", "kind = 'sent'", "count(distinct value) AS acked"),
    ),
    (
        "00.1",
        "took away what is unknown",
        _query(
            "count_acked",
            "kind IN ('sent', 'unknown')",
            "count(distinct value) - count(distinct if(kind = 'unknown', value, NULL)) AS acked",
        ),
    ),
    ("00.1", "counted the log", _query("count_acked", "kind = 'record'", "count(*) AS acked")),
    ("00.2", "an error is a failure", 'answer_2 = {"outcome": "failed", "offset": 3}'),
    ("00.2", "a stored order is acked", 'answer_2 = {"outcome": "acked", "offset": 3}'),
    ("00.2", "not in the log", 'answer_2 = {"outcome": "unknown", "offset": None}'),
    ("00.2", "another place", 'answer_2 = {"outcome": "unknown", "offset": 4}'),
    ("00.2", "a number as text", 'answer_2 = {"outcome": "unknown", "offset": "3"}'),
    ("00.3", "too late", 'fault_3 = drop_response("Produce", nth=30)'),
    ("03.1", "order as a number", 'answer_1 = {"order": 2, "first_copy": 2, "reported": 3}'),
    ("03.1", "another order", 'answer_1 = {"order": "3", "first_copy": 2, "reported": 3}'),
    ("03.1", "the other way round", 'answer_1 = {"order": "2", "first_copy": 3, "reported": 2}'),
    (
        "03.1",
        "the lost answer's offset",
        'answer_1 = {"order": "2", "first_copy": 2, "reported": 2}',
    ),
    ("03.1", "counted requests", 'answer_1 = {"order": "2", "first_copy": 3, "reported": 4}'),
    ("03.1", "the second copy", 'answer_1 = {"order": "2", "first_copy": 3, "reported": 3}'),
    ("03.1", "offset as text", 'answer_1 = {"order": "2", "first_copy": "2", "reported": "3"}'),
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
    (
        "03.3",
        "no producer id",
        REPEATS.format(where="kind = 'request'", key=KEY, least=">= 2", partition='"partition"'),
    ),
    (
        "03.3",
        "counted the log, too",
        REPEATS.replace("api = 'Produce' AND ", "").format(
            where="producer_id >= 0", key=KEY, least=">= 2", partition='"partition"'
        ),
    ),
    (
        "03.3",
        "without the partition",
        REPEATS.format(
            where=IDS,
            key='"producer_id", "producer_epoch", "sequence"',
            least=">= 2",
            partition='"0 AS partition"',
        ),
    ),
    (
        "03.3",
        "just twice",
        REPEATS.format(where=IDS, key=KEY, least="= 2", partition='"partition"'),
    ),
    (
        "03.3",
        "everything",
        REPEATS.format(where=IDS, key=KEY, least=">= 1", partition='"partition"'),
    ),
    (
        "03.4",
        "every copy",
        COPIES.format(result='records.select("value", "partition", "offset")'),
    ),
    (
        "03.4",
        "the last copy",
        COPIES.format(
            result='records.groupBy("value", "partition").agg({"offset": "max"})'
            '.withColumnRenamed("max(offset)", "offset")'
        ),
    ),
    (
        "03.4",
        "the last copy",
        COPIES.format(
            result='records.dropDuplicates(["value"]).select("value", "partition", "offset")'
        ),
    ),
    (
        "03.4",
        "only the doubled ones",
        COPIES.format(
            result='records.groupBy("value", "partition")'
            '.agg({"offset": "min", "*": "count"}).where("`count(1)` > 1")'
            '.withColumnRenamed("min(offset)", "offset")'
        ),
    ),
    ("03.5", "began anew", _send("send_the_rest", '{"enable.idempotence": True}')),
    (
        "03.5",
        "gave up",
        "def send_the_rest(run):\n    if run.attempt > 1:\n        return\n"
        + "    producer = run.producer()\n    for order in run.orders:\n"
        + "        producer.produce(run.topic, order, partition=0)\n    producer.flush()\n",
    ),
)
