"""Receipts: what the work for a record leaves outside the process that did it.

A process can claim anything in its own diary. A receipt is a record in a topic of the run, written
through the proxy and acked, so that the wire and the log can bear witness to the work.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, Producer

from lab_utils.clients import timers

if TYPE_CHECKING:
    from lab_utils.clients.live_run import Ticket

TOPIC: Final = "receipts"
ACKED_S: Final = 10


class Receipts:
    """Writes a receipt for each record that was processed, where the run has a topic for them."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._topic = ticket.topics.get(TOPIC)
        self._lock = Lock()
        # Connected before the work begins: the first receipt takes no longer than the others.
        self._producer = self._connected() if self._topic else None

    def write(self, message: Any) -> None:
        """Write the record's value as a receipt; return when it is acked, raise if it is not."""
        producer, topic = self._producer, self._topic
        if producer is None or topic is None:
            return
        failed: list[Any] = []
        with self._lock:
            producer.produce(
                topic,
                message.value(),
                partition=0,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            if producer.flush(ACKED_S) or failed:
                raise KafkaException(*failed[:1])

    def close(self) -> None:
        """Let the producer go."""
        self._producer = None

    def _connected(self) -> Producer:
        number = self._ticket.member + 10 * (self._ticket.attempt - 1)
        producer = Producer(
            {
                **timers.values(timers.PRODUCER),
                "enable.idempotence": True,
                "bootstrap.servers": self._ticket.bootstrap,
                "client.id": f"{self._ticket.run}.worker-{number}",
                "log_level": 0,
            }
        )
        with suppress(KafkaException):
            producer.list_topics(self._topic, timeout=ACKED_S)
        return producer
