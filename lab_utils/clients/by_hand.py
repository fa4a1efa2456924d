"""Transactions by hand: two producers with one transactional.id, one call at a time.

It is a run like any other, recorded and behind the proxy, whose workload is the person at the
buttons. Each call has a bound, so that a kernel is never held up for long.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from lab_utils.clients.live_run import LiveRun, Ticket
from lab_utils.clients.producer import RecordingProducer
from lab_utils.clients.reader import HonestReader
from lab_utils.errors import one_of
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import read_ledger

PATIENCE_S: Final = 5
NAMES: Final = ("A", "B")
VERBS: Final = ("init", "begin", "produce", "commit", "abort")
Begun = tuple[Ticket, Callable[[], object]]


class ByHand:
    """The run behind the transaction panel; a new one when it is asked for.

    begin  begins a run; returns its ticket, and what finishes it
    """

    def __init__(self, reader: HonestReader, begin: Callable[[], Begun]) -> None:
        self._reader = reader
        self._begin = begin
        self._ticket: Ticket | None = None
        self._live: LiveRun | None = None
        self._producers: dict[str, RecordingProducer] = {}
        self._sent = 0

    def act(self, name: str, verb: str) -> str:
        """Let producer `name` do one thing; return what it was told, as a sentence."""
        verb = one_of("verb", verb, VERBS)
        producer = self._producer(one_of("producer", name, NAMES))
        calls: dict[str, Callable[[], Any]] = {
            "init": lambda: producer.init_transactions(PATIENCE_S),
            "begin": producer.begin_transaction,
            "produce": lambda: self._produce(producer),
            "commit": lambda: producer.commit_transaction(PATIENCE_S),
            "abort": lambda: producer.abort_transaction(PATIENCE_S),
        }
        try:
            said = calls[verb]()
        except KafkaException as refusal:
            error = refusal.args[0]
            return f"{name} {verb}: {error.name()}. {error.str()}"
        return f"{name} {verb}: {said or 'ok'}"

    def rows(self) -> list[Event]:
        """The events of the run so far, and what a reader of each isolation level is given now.

        The latter are `record` and `visible`, as in a run that was read back.
        """
        if self._ticket is None:
            return []
        run, topic = self._ticket.run, self._ticket.topic
        records = [row for row in self._reader.read(run, topic, 1) if row.kind == "record"]
        visible, _ = self._reader.read_committed(run, topic, 1)
        return [*read_ledger(Path(self._ticket.folder)), *records, *visible]

    def begin_again(self) -> str:
        """End this run, if there is one; the next call begins a new one."""
        self.close()
        return "a new run: nothing has been written yet"

    def close(self) -> None:
        """End the run and its producers."""
        live, self._live, self._ticket = self._live, None, None
        self._producers, self._sent = {}, 0
        if live is not None:
            live.close()
            self._finish()

    def _producer(self, name: str) -> RecordingProducer:
        if self._live is None:
            self._ticket, self._finish = self._begin()
            self._live = live = LiveRun(self._ticket)
            name_of_both = {"transactional.id": live.topic}
            self._producers = {each: live.producer(name_of_both) for each in NAMES}
        return self._producers[name]

    def _produce(self, producer: RecordingProducer) -> str:
        assert self._live is not None
        self._sent += 1
        producer.produce(self._live.topic, str(self._sent), partition=0)
        left = producer.flush(PATIENCE_S)
        return f"order {self._sent} {'has no answer yet' if left else 'has been answered'}"
