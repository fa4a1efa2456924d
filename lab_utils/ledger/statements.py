"""Statements about Kafka that were true or are said to be, and what is answered today.

`now` is what Kafka 4.3.1 answered with confluent-kafka 2.16.1 and its own Java client. Kafka 3.9.2
answered the same clients, and `before` is its answer where that is another one. A notebook asks
anew (labs/source/further/90_is_it_still_true.py); where it gets another answer, that is news.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab_utils.errors import one_of


@dataclass(frozen=True, slots=True)
class Statement:
    """What texts say, where, and what is answered now.

    source  a row of docs/claims.md, or the documentation that says so
    before  what Kafka 3.9.2 answers, where it is not the answer of now
    """

    text: str
    source: str
    then: str
    now: str
    before: str = ""

    def recorded(self, kafka: str) -> str:
        """What this Kafka answered."""
        return self.before or self.now if kafka == "3.9" else self.now


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
    "last in sync": Statement(
        "When the last in-sync replica stops, nobody leads.", "C7", "leader: nobody, 0 lost",
        "leader: 2, 1 lost", before="leader: nobody, 0 lost"),
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
        "librdkafka: EndTxn 1; Java: EndTxn 5", before="librdkafka: EndTxn 1; Java: EndTxn 4"),
    "zookeeper": Statement(
        "Brokers keep their state in ZooKeeper.", "Kafka 2 documentation", "zookeeper.connect",
        "process.roles=broker", before="process.roles=broker zookeeper.connect=None"),
}  # fmt: skip
KAFKAS: Final = {"3.9": "Kafka 3.9.2", "4.3": "Kafka 4.3.1"}
_GIVEN: Final[dict[str, dict[str, str]]] = {kafka: {} for kafka in KAFKAS}


class Answers:
    """What a Kafka answered so far, by the name of the statement, beside the other Kafka.

    What was answered stays as long as this process: a notebook runs once for each Kafka.
    """

    columns: Final = ("statement", "source", "then", *KAFKAS.values())

    def __init__(self, kafka: str) -> None:
        self._kafka = one_of("kafka", kafka, KAFKAS)
        self.given = _GIVEN[kafka]
        self.given.clear()

    def of(self, name: str, answer: str) -> str:
        """Keep an answer; return it, with what it should be where it is another one."""
        recorded = STATEMENTS[one_of("a statement", name, STATEMENTS)].recorded(self._kafka)
        self.given[name] = answer
        is_news = answer != recorded
        return f"{answer} ({KAFKAS[self._kafka]} answered: {recorded})" if is_news else answer

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """A row for each statement: what it says, its source, then, and what each Kafka answered.

        What was not asked here is in brackets, as it is recorded.
        """
        return [
            (each.text, each.source, each.then, *(
                _GIVEN[kafka].get(name, f"({each.recorded(kafka)})") for kafka in KAFKAS
            ))
            for name, each in STATEMENTS.items()
        ]  # fmt: skip

    @property
    def news(self) -> frozenset[int]:
        """The numbers of the rows with an answer that is not the one recorded."""
        return frozenset(
            number
            for number, (name, each) in enumerate(STATEMENTS.items())
            for kafka, given in _GIVEN.items()
            if given.get(name, each.recorded(kafka)) != each.recorded(kafka)
        )
