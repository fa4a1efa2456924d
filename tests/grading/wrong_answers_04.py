"""A wrong answer for each named mistake of lab 04: item, the mistake's name, and the cell.

The cells stand behind those of the notebook: its helpers are there.
"""

from __future__ import annotations

from typing import Final

SEND: Final = """
def send_each(run):
    producer = run.producer({{"transactional.id": run.topic}})
    producer.init_transactions()
    for order in run.orders:
        try:
            {body}
        except KafkaException as error:
            {refused}
"""
BOTH: Final = "send_both(run, producer, order)"
AGAIN: Final = """
def send_each(run):
    left = list(run.orders)
    while left:
        producer = run.producer({"transactional.id": run.topic})
        producer.init_transactions()
        try:
            while left:
                send_both(run, producer, left[0])
                left.pop(0)
        except KafkaException:
            pass
"""
PLAIN: Final = """
def send_each(run):
    producer = run.producer({"enable.idempotence": True})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.produce(run.topics["invoices"], order, partition=0)
    producer.flush()
"""
RECORDS: Final = """
def visible_records(events):
    log = log_of(events).where({where!r})
    return log.select("topic", "partition", "offset", "value")
"""
STOPPED: Final = """
def visible_records(events):
    log = log_of(events)
    stop = log.where("transactional AND next_marker IS NULL").agg(F.min("offset").alias("stop"))
    decided = log.where("NOT transactional OR next_marker = 'COMMIT'")
    return decided.crossJoin(stop).where("offset < stop").select(
        "topic", "partition", "offset", "value")
"""
WITHOUT_TOPIC: Final = """
def visible_records(events):
    log = log_of(events)
    open_ones = log.where("transactional AND next_marker IS NULL").groupBy("partition")
    decided = log.where("NOT transactional OR next_marker = 'COMMIT'")
    given = decided.join(open_ones.agg(F.min("offset").alias("stop")), "partition", "left")
    return given.where("stop IS NULL OR offset < stop").select(
        "topic", "partition", "offset", "value")
"""
LAST_OPEN: Final = (
    WITHOUT_TOPIC.replace('"partition")', '["topic", "partition"])')
    .replace('"partition", "left"', '["topic", "partition"], "left"')
    .replace("F.min", "F.max")
)
SEEN: Final = """
def visible_records(events):
    return events.where("kind = 'visible'").select("topic", "partition", "offset", "value")
"""
FENCED: Final = """
def fenced_clients(events):
    answers = events.where("source = 'wire' AND kind = 'response'")
    refused = answers.where({refused!r}).groupBy("actor").agg(F.min(F.struct("at_ns", "api"))
                                                          .alias("first"))
    taken = answers.where("api = 'InitProducerId' AND error IS NULL")
    mine = taken.selectExpr("actor", "producer_id AS mine")
    takers = taken.selectExpr("producer_id", "actor AS taker", "at_ns AS taken_ns")
    pairs = refused.join(mine, "actor").join(takers, F.expr({same!r}))
    before = pairs.where({before!r})
    by = before.groupBy("actor", "first").agg(F.{last}("taker", "taken_ns").alias("by"))
    return by.selectExpr("actor AS fenced", "first.api AS api", "by")
"""
EPOCH: Final = "error IN ('INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED')"


def _fenced(**other: str) -> str:
    given = {
        "refused": EPOCH,
        "same": "producer_id = mine",
        "before": "taken_ns < first.at_ns AND taker <> actor",
        "last": "max_by",
    }
    return FENCED.format(**given | other)


def _levels(uncommitted: str, committed: str) -> str:
    return f'answer_1 = {{"read_uncommitted": "{uncommitted}", "read_committed": "{committed}"}}'


def _kinds(idempotent: list[str], transactional: list[str]) -> str:
    return f'answer_5 = {{"idempotent": {idempotent}, "transactional": {transactional}}}'


KEYED: Final = ["0 1 2", "0 1", "0 1 0 1 2"]
NAMED: Final = ["0 1 2", "", "0 1 2"]

WRONG: Final = (
    ("04.1", "the aborted one is gone", _levels("0 2 3 4 5", "0 2 3")),
    ("04.1", "uncommitted waits", _levels("0 1 2 3", "0 2 3")),
    ("04.1", "what is open is committed", _levels("0 1 2 3 4 5", "0 2 3 4 5")),
    ("04.1", "what is aborted is read", _levels("0 1 2 3 4 5", "0 1 2 3 5")),
    ("04.1", "plain records are free", _levels("0 1 2 3 4 5", "0 2 3 5")),
    ("04.1", "what is open is committed", _levels("0 1 2 3 4 5", "0 2 3 4")),
    ("04.1", "plain records are hidden", _levels("0 1 2 3 4 5", "3")),
    ("04.2", "no transaction", PLAIN),
    ("04.2", "went on when fenced", AGAIN),
    (
        "04.2",
        "never aborted",
        SEND.format(body="send_both(run, producer, order)", refused="return"),
    ),
    (
        "04.2",
        "aborted and left out",
        SEND.format(
            body=BOTH,
            refused="return None if error.args[0].fatal() else producer.abort_transaction()",
        ),
    ),
    ("04.3", "everything", RECORDS.format(where="true")),
    ("04.3", "no plain records", RECORDS.format(where="next_marker = 'COMMIT'")),
    (
        "04.3",
        "behind the open transaction",
        RECORDS.format(where="NOT transactional OR next_marker = 'COMMIT'"),
    ),
    ("04.3", "behind the open transaction", LAST_OPEN),
    ("04.3", "stopped everywhere", STOPPED),
    ("04.3", "without the topic", WITHOUT_TOPIC),
    ("04.3", "asked the reader", SEEN),
    ("04.4", "every refusal", _fenced(refused="error IS NOT NULL")),
    ("04.4", "by itself", _fenced(before="taken_ns < first.at_ns", last="min_by")),
    ("04.4", "another name", _fenced(same="true")),
    ("04.4", "the first taker", _fenced(last="min_by")),
    ("04.4", "the last taker", _fenced(before="taker <> actor")),
    ("04.5", "a lost answer doubles", _kinds(["0 1 1 2", *KEYED[1:]], NAMED)),
    ("04.5", "a lost answer loses", _kinds(KEYED, ["0 2", *NAMED[1:]])),
    ("04.5", "all records wait", _kinds(["0 1 2", "", "0 1 2"], NAMED)),
    ("04.5", "idempotence survives a restart", _kinds([*KEYED[:2], "0 1 2"], NAMED)),
    ("04.5", "half a transaction", _kinds(KEYED, ["0 1 2", "0 1", "0 1 2"])),
    ("04.5", "the successor's are gone", _kinds(KEYED, ["0 1 2", "", ""])),
    ("04.5", "the dead one's orders", _kinds(KEYED, ["0 1 2", "", "0 1 0 1 2"])),
)
