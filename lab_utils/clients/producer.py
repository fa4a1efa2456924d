"""The recording producer: the real confluent_kafka.Producer whose calls are in the ledger.

Every method and setting of the parent works as documented there. It counts its transactions from
1; each call of one that ends becomes an event when it returns: `txn_initialised`, `txn_began`,
`txn_offsets_sent`, `txn_committed` or `txn_aborted` if it succeeded, else `txn_failed` with what
the error asks the program to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from lab_utils.clients.consumer import GroupMetadata
from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.recorder import Notes, Recorder, order_json, recorded_errors, served
from lab_utils.ledger.events import value_text

# A delivery report: `callback(error, message)`; exactly one of them says how it went.
Report: TypeAlias = Any

# The events by the call that they tell of.
KINDS: Final = {
    "init_transactions": "txn_initialised",
    "begin_transaction": "txn_began",
    "send_offsets_to_transaction": "txn_offsets_sent",
    "commit_transaction": "txn_committed",
    "abort_transaction": "txn_aborted",
}
ENDS: Final = ("commit_transaction", "abort_transaction")


class RecordingProducer(Producer):
    """A confluent_kafka.Producer whose sends, reports and transactions are in the ledger."""

    def __init__(
        self, configuration: dict[str, Any], recorder: Recorder, crashes: CrashPoints
    ) -> None:
        self._recorder = recorder
        self._crashes = crashes
        self._begun = 0
        # What the open transaction carries: which orders a commit is about.
        self._carried: list[str | None] = []
        self.is_in_transaction = False
        # The report of the configuration, which produce() uses when it is given none of its own.
        self._default_report = _first(configuration.get("on_delivery"), configuration.get("dr_cb"))
        self._report = _recorded(recorder, crashes)
        error_cb = recorded_errors(recorder, configuration.get("error_cb"))
        super().__init__({"logger": Notes(recorder), **configuration, "error_cb": error_cb})
        recorder.created("producer", configuration)

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Report = None,
        on_delivery: Report = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Hand a record to the client, as confluent_kafka.Producer.produce does."""
        order = order_json(value_text(key), value_text(value))
        theirs = _first(on_delivery, callback, self._default_report)
        report = partial(self._report, order, theirs)
        # The parent takes `headers` as it is or not at all: None is not the same as absent.
        optional = {} if headers is None else {"headers": headers}
        place = partition if partition >= 0 else None
        transaction = str(self._begun) if self.is_in_transaction else None
        self._recorder.sent(topic, order, place, transaction)
        try:
            super().produce(
                topic, value, key, partition, on_delivery=report, timestamp=timestamp, **optional
            )
        except Exception as refusal:  # whatever it is, the client took nothing
            self._recorder.refused(topic, value_text(key), value_text(value), refusal)
            raise
        if self._crashes:
            if self.is_in_transaction:
                self._carried.append(value_text(value))
            self._crashes.reached("after_send", lambda: [value_text(value)])

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Report = None,
        on_delivery: Report = None,
    ) -> int:
        """Hand a list of records over, each through produce(); return how many were taken."""
        taken = 0
        for message in messages:
            try:
                given = {"partition": partition, "callback": _first(callback, on_delivery)}
                self.produce(topic, **given | message)
                taken += 1
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as refusal:
                message["_error"] = refusal.args[0]
        return taken

    def init_transactions(self, timeout: float = -1) -> None:
        """Take the transactional.id over, as confluent_kafka.Producer.init_transactions does."""
        with self._told("init_transactions"):
            super().init_transactions(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction: a local step, of which the broker hears nothing yet."""
        with self._told("begin_transaction"):
            super().begin_transaction()
        self._carried.clear()

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Make consumed offsets part of the transaction; each is the next one to read."""
        named = [f"{place.topic}-{place.partition}:{place.offset}" for place in positions]
        offsets = orjson.dumps(named).decode()
        # That of a plain Consumer has the name, too, in a form that is not documented.
        known = isinstance(group_metadata, GroupMetadata)
        group = {"group": group_metadata.group} if known else {}
        with self._told("send_offsets_to_transaction", offsets=offsets, **group):
            super().send_offsets_to_transaction(positions, group_metadata, timeout)
        self._crashes.reached("after_send_offsets", lambda: self._carried)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit the open transaction, as confluent_kafka.Producer.commit_transaction does."""
        self._crashes.reached("before_commit", lambda: self._carried)
        with self._told("commit_transaction"), self._crashes.committing():
            super().commit_transaction(timeout)
        self._crashes.reached("after_commit", lambda: self._carried)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort the open transaction, as confluent_kafka.Producer.abort_transaction does."""
        with self._told("abort_transaction"):
            super().abort_transaction(timeout)

    @contextmanager
    def _told(self, call: str, **detail: str) -> Iterator[None]:
        """Record how a call went that this block makes; what it raises is raised on."""
        begins = call == "begin_transaction"
        detail |= {"called_at_ns": str(time.monotonic_ns())}
        if call != "init_transactions":
            detail["transaction"] = str(self._begun + begins)
        try:
            yield
        except KafkaException as refusal:
            error = refusal.args[0]
            detail |= {"call": call, "asks_for": asks_for(error), "text": error.str()}
            self._recorder.record("txn_failed", error=error.name(), detail=detail)
            raise
        self._begun += begins
        self.is_in_transaction = begins or (self.is_in_transaction and call not in ENDS)
        self._recorder.record(KINDS[call], detail=detail)


def _recorded(recorder: Recorder, crashes: CrashPoints) -> Report:
    """The report of every record, to which its order and its own report are bound.

    It knows no producer: one that is let go goes, with what its client still holds.
    """

    def report(
        order: bytes, theirs: Report, error: KafkaError | None, message: Message[Any, Any]
    ) -> None:
        recorder.reported(error, message, order)
        if crashes and error is None:
            crashes.reached("after_ack", lambda: [value_text(message.value())])
        if theirs is not None:
            theirs(error, message)

    return served(report)


def asks_for(error: KafkaError) -> str:
    """What an error of a transaction asks the program to do: stop, abort or retry.

    stop    the producer is fatally ill, and every further call will say so; also what is
            neither retriable nor abortable (librdkafka INTRODUCTION, transactional producer)
    abort   abort this transaction, then begin it again
    retry   call the same method again
    """
    if error.fatal():
        return "stop"
    if error.txn_requires_abort():
        return "abort"
    return "retry" if error.retriable() else "stop"


def _first(*reports: Report) -> Report:
    """The first that there is: one that is a dict, which is called, is false while it is empty."""
    for report in reports:
        if report is not None:
            return report
    return None
