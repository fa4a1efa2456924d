"""A wrong answer for each named mistake of lab 02: item, the mistake's name, and the cell.

The cells stand behind those of the notebook: its helpers are there.
"""

from __future__ import annotations

from typing import Any, Final

EVERY_ACK: Final = """
def acked_alone(events):
    return events.where("source = 'client' AND kind = 'acked'").select("value")
"""
BY_THE_ISR: Final = """
def acked_alone(events):
    acked = events.where("source = 'client' AND kind = 'acked'").selectExpr("value", "at_ns AS acked_ns")
    isr = events.where("kind = 'partition'").selectExpr("at_ns", "size(split(detail.isr, ' ')) AS members")
    before = acked.crossJoin(isr).where("at_ns <= acked_ns")
    latest = before.groupBy("value").agg(F.max_by("members", "at_ns").alias("members"))
    return latest.where("members = 1").select("value")
"""  # noqa: E501
COUNTED: Final = """
def acked_alone(events):
    healed = events.where("kind = 'healing'").agg(F.min("at_ns").alias("healed_ns"))
    looks = events.where("kind = 'log_end'").crossJoin(healed).where({before!r})
    ends = looks.groupBy("actor").agg(F.max("offset").alias("end"))
    acked = events.where({acked!r}).select("value", "offset")
    copies = acked.join(ends, F.expr("end > offset")).groupBy("value").count()
    return copies.where({few!r}).select("value")
"""


def _counted(**other: str) -> str:
    right = {"before": "at_ns < healed_ns", "few": "count < 2",
             "acked": "source = 'client' AND kind = 'acked'"}  # fmt: skip
    return COUNTED.format(**right | other)


def _moments(**wrong: list[int]) -> str:
    right = {"at the start": [1, 2, 3], "3 is paused": [1, 2], "3 is back": [1, 2, 3],
             "1 is dead": [2, 3]}  # fmt: skip
    return f"answer_1 = {right | wrong!r}"


def _settings(replicas: int, floor: int, unclean: bool = False, **producer: Any) -> str:
    topic = {"min.insync.replicas": floor, "unclean.leader.election.enable": str(unclean).lower()}
    return f"answer_3 = { ({'replicas': replicas, 'topic': topic, 'producer': producer})!r}"


def _lines(**wrong: str) -> str:
    right = {
        "acks=all": "lost",
        "replicas > min.insync.replicas": "unavailable",
        "unclean election off": "lost",
        "retries": "unavailable",
    }
    return f"answer_4 = {right | wrong!r}"


BRIEF: Final = {"message.timeout.ms": 1000}

WRONG: Final = (
    ("02.1", "paused is in sync", _moments(**{"3 is paused": [1, 2, 3]})),
    ("02.1", "once out, always out", _moments(**{"3 is back": [1, 2]})),
    ("02.1", "the dead are in sync", _moments(**{"1 is dead": [1, 2, 3]})),
    ("02.1", "others leave, too", _moments(**{"3 is paused": [1], "1 is dead": [1, 2, 3]})),
    ("02.1", "others leave, too", _moments(**{"at the start": [1]})),
    ("02.2", "all acked", EVERY_ACK),
    ("02.2", "an ISR of one", BY_THE_ISR),
    ("02.2", "when all was repaired", _counted(before="true")),
    ("02.2", "stored, and not acked", _counted(acked="source = 'log' AND kind = 'record'")),
    ("02.2", "not on every broker", _counted(few="count < 3")),
    ("02.3", "acks too low", _settings(3, 2, acks="1")),
    ("02.3", "too few replicas", _settings(2, 2, acks="all", **BRIEF)),
    ("02.3", "no replica to spare", _settings(3, 3, acks="all", **BRIEF)),
    ("02.3", "one is enough", _settings(3, 1, unclean=True, acks="all")),
    ("02.4", "refused is lost", _lines(retries="lost")),
    ("02.4", "acked is stored", _lines(**{"acks=all": "nothing"})),
    ("02.4", "given up is stored", _lines(**{"replicas > min.insync.replicas": "nothing"})),
    (
        "02.5",
        "acked is everywhere",
        'answer_5 = {"the first order": [1, 2, 3], "the last order before": [1, 2, 3]}',
    ),
    (
        "02.5",
        "acked by all is on one",
        'answer_5 = {"the first order": [1], "the last order before": [1, 2, 3]}',
    ),
)
