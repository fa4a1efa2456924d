"""Statements about Kafka that were true or are said to be, and what is answered today.

`now` is what Kafka 4.3.1 answered with confluent-kafka 2.16.1 and its own Java client. A notebook
asks anew (labs/source/further/90_is_it_still_true.py); where it gets another answer, that is news.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab_utils.errors import one_of


@dataclass(frozen=True, slots=True)
class Statement:
    """What texts say, where, and what is answered now.

    source  a row of docs/claims.md, or the documentation that says so
    """

    text: str
    source: str
    then: str
    now: str


STATEMENTS: Final = {
    "idempotence": Statement(
        "A producer is not idempotent by default.", "D5", "off everywhere",
        "librdkafka: off; Java: on"),
    "acks": Statement(
        "By default a producer waits for the leader only.", "Kafka 2 documentation", "acks=1",
        "librdkafka: acks=-1; Java: acks=all"),
    "retries": Statement(
        "By default a producer does not retry.", "Kafka 2.0 documentation", "retries=0",
        "librdkafka: sent again; Java: retries=2147483647"),
    "partition": Statement(
        "hash(key) modulo the number of partitions is the partition.", "B11",
        "one key, one partition", "librdkafka: 0; Java: 2"),
    "isolation": Statement(
        "By default a consumer reads uncommitted records.", "E6", "read_uncommitted everywhere",
        "librdkafka: read_committed; Java: read_uncommitted"),
    "spark": Statement(
        "Spark does not read what was aborted.", "G12", "0 aborted", "1 aborted"),
    "ack": Statement(
        "An acknowledgement means that the record was written exactly once.", "A8",
        "1 ack, 1 copy", "1 ack, 2 copies"),
    "at least once": Statement(
        "At least once guarantees that nothing is doubled, and not that nothing is lost.", "A9",
        "1 lost, 0 doubled", "0 lost, 1 doubled"),
    "hole": Statement(
        "Idempotence and at least once are exactly once in a partition.", "A3",
        "4 acked, 4 in the log", "4 acked, 3 in the log"),
    "disk": Statement(
        "acks=1 is answered when the record is on the disk.", "B3", "a power cut takes nothing",
        "a power cut takes acked records"),
    "one in flight": Statement(
        "max.in.flight=1 keeps the sequence.", "D7", "0 1 2 3", "0 2 1 3"),
    "five in flight": Statement(
        "Idempotence needs max.in.flight=1.", "Kafka 0.11 documentation", "1", "5: 0 1 2 3"),
    "one replica": Statement(
        "min.insync.replicas=2 stops writes to a topic of one replica.", "C3", "0 acked",
        "1 acked"),
    "floor": Statement(
        "min.insync.replicas has no effect on acks=1.", "C4", "1 acked, 1 readable",
        "1 acked, 0 readable"),
    "one thing": Statement(
        "Idempotence and transactions are one thing.", "E14", "the same after a restart",
        "producer ids after a restart: 2; with a transactional.id: 1"),
    "unfinished": Statement(
        "After a restart a producer goes on with its unfinished transaction.", "E19",
        "0 1 of 0 1", "1 of 0 1"),
    "dirty": Statement(
        "Transactions prevent dirty writes.", "E16", "a second writer waits", "0 1 2"),
    "progress": Statement(
        "The consumer's progress is attached to the messages of the topic that it writes to.",
        "G6", "the topic itself", "__consumer_offsets"),
    "all or nothing": Statement(
        "A transaction is all or nothing, whatever the client.", "E1", "any EndTxn",
        "librdkafka: EndTxn 1; KIP-890 begins with 5"),
    "zookeeper": Statement(
        "Brokers keep their state in ZooKeeper.", "Kafka 2 documentation", "zookeeper.connect",
        "process.roles=broker"),
}  # fmt: skip


class Answers:
    """What was answered so far, by the name of the statement."""

    columns: Final = ("statement", "source", "then", "Kafka 4.3.1", "here")

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def of(self, name: str, answer: str) -> str:
        """Keep an answer; return it, with what it should be where it is another one."""
        now = STATEMENTS[one_of("a statement", name, STATEMENTS)].now
        self.given[name] = answer
        return answer if answer == now else f"{answer} (Kafka 4.3.1 answered: {now})"

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """A row for each statement: what it says, its source, then, with Kafka 4.3.1, and here."""
        return [
            (each.text, each.source, each.then, each.now, self.given.get(name, "not asked"))
            for name, each in STATEMENTS.items()
        ]

    @property
    def news(self) -> frozenset[int]:
        """The numbers of the rows whose answer here is another one."""
        return frozenset(number for number, row in enumerate(self.rows) if row[-1] != row[-2])
