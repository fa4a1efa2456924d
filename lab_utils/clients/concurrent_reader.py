"""The concurrent reader: a read_committed consumer that reads while the workload still writes.

Kafka's own system tests decide exactly-once by two readers: one that reads all along, and one that
reads when all is over. This is the first; the honest reader is the second. Past the proxy, in no
group.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event as Flag
from threading import Thread
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from lab_utils.ledger.events import Event, value_text
from lab_utils.ledger.store import Witness

ACTOR: Final = "concurrent-reader"
READ_S: Final = 5


class ConcurrentReader:
    """Reads topics from their start in a thread of its own; what it is given becomes `seen`."""

    def __init__(self, bootstrap: str, run: str, topics: Sequence[str], partitions: int) -> None:
        self._run = run
        self._places = [TopicPartition(t, n, 0) for t in topics for n in range(partitions)]
        self._ended: dict[tuple[str | None, int | None], int] = {}
        self._until = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": ACTOR,
                "group.id": ACTOR,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        self._is_over = Flag()
        self._thread = Thread(target=self._read, daemon=True)
        self._seen: list[Event] = []

    def start(self) -> None:
        """Begin to read."""
        self._consumer.assign(self._places)
        self._thread.start()

    def finish(self, witness: Witness) -> None:
        """Read on to the end of what is committed by now; write down what was given, in order."""
        self._until = monotonic() + READ_S
        self._is_over.set()
        self._thread.join(2 * READ_S)
        for event in self._seen:
            witness.record(event)

    def _read(self) -> None:
        while not (self._is_over.is_set() and self._is_at_the_end()):
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._seen.append(self._event(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended[message.topic(), message.partition()] = message.offset() or 0
        self._consumer.close()

    def _is_at_the_end(self) -> bool:
        """Has all been read that is in the log, or is there no time left for it?"""
        if monotonic() > self._until:
            return True
        ends = {
            (place.topic, place.partition): self._consumer.get_watermark_offsets(place, READ_S)[1]
            for place in self._places
        }
        return all(self._ended.get(place, -1) >= end for place, end in ends.items())

    def _event(self, message: Any) -> Event:
        return Event(
            run=self._run, source="log", actor=ACTOR, kind="seen",
            topic=message.topic(), partition=message.partition(),
            offset=message.offset(), value=value_text(message.value()),
        )  # fmt: skip
