"""The recorder: one client's voice in the ledger.

It writes down and never decides. Its own failure (a full disk) is kept in the witness and makes
the run INCONCLUSIVE; it is never raised into the code under study.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError

from lab_utils.ledger.events import Event, value_text
from lab_utils.ledger.store import Witness

# After these errors the record may be in the log: the request was, or may have been, on its way.
# The Python client cannot tell a record that timed out in the queue from one that timed out in
# flight (confluent-kafka-python issue 529), so both are unknown.
UNKNOWN_ERRORS: Final = frozenset(
    {
        "_MSG_TIMED_OUT",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_PURGE_INFLIGHT",
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "DUPLICATE_SEQUENCE_NUMBER",
    }
)

SECRETS: Final = ("password", "secret", "key.pem", "sasl.username", "oauthbearer")


def order_json(key: str | None, value: str | None) -> bytes:
    """The key and the value of a record as fields of a line; a key that is not there is left out.

    >>> order_json(None, "3"), order_json("a", None)
    (b'"value":"3"', b'"key":"a","value":null')
    """
    named = b"" if key is None else b'"key":%b,' % orjson.dumps(key)
    return named + b'"value":%b' % orjson.dumps(value)


def outcome(error: KafkaError) -> str:
    """What an error in a delivery report means for its record: failed or unknown."""
    return "unknown" if error.name() in UNKNOWN_ERRORS else "failed"


def kafka_name(raised: BaseException) -> str | None:
    """Kafka's name of the error that an exception carries; None if it carries none.

    >>> from confluent_kafka import KafkaException
    >>> kafka_name(KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)))
    'NOT_COORDINATOR'
    """
    error = raised.args[0] if raised.args else None
    return error.name() if isinstance(error, KafkaError) else None


def refused_setting(raised: BaseException) -> str | None:
    """The client's sentence about a setting that it does not take; None if it raised another error.

    All else that the client raises is an outcome of a run. This one is a mistake in the program.

    >>> from confluent_kafka import KafkaException
    >>> refused_setting(KafkaException(KafkaError(KafkaError._INVALID_ARG, "No such property")))
    'No such property'
    """
    return raised.args[0].str() if kafka_name(raised) == "_INVALID_ARG" else None


def served(callback: Callable[..., None]) -> Callable[..., None]:
    """A callback of a client that runs also where a fatal error is about to be raised.

    The poll or flush that serves it has then set the exception already. Whatever the callback does
    first either fails with a SystemError, so that its event is lost and the program told nonsense,
    or clears the exception, and the call fails without any. So the error is taken here, and raised
    when the callback is done.
    """

    def serve(*given: Any) -> None:
        fatal = None
        try:
            # The first builtin that is called fails, with the error as its cause. It is no
            # attribute of a module, for to look one up may clear the error.
            monotonic_ns()
        except SystemError as error:
            fatal = error.__cause__
        try:
            callback(*given)
        except BaseException:
            # Python 3.11 makes an exception whole only where it is caught. In place of one that is
            # not, the client raises a SystemError that says nothing of it.
            raise
        if fatal is not None:
            raise fatal

    return serve


def is_lost_exception(error: SystemError) -> bool:
    """Has a client lost what a callback raised?

    With Python 3.11 it loses an exception without a value. What `serve` catches has one, so it is
    an interrupt that came as the client began to call it: as after Ctrl-C in a flush that waits.
    """
    return "returned NULL without setting an exception" in str(error)


class Recorder:
    """Writes the events of one client of a run."""

    def __init__(self, witness: Witness, run: str, actor: str) -> None:
        self.witness = witness
        self.run = run
        self.actor = actor
        self._attempts: Counter[bytes] = Counter()
        names = {"run": run, "source": "client", "actor": actor}
        self._start = orjson.dumps(names)[:-1]
        # The names of topics as JSON: few, and written with every record.
        self._topics: dict[str, bytes] = {}

    def record(self, kind: str, **columns: Any) -> None:
        """Append one event of this client."""
        event = Event(run=self.run, source="client", actor=self.actor, kind=kind, **columns)
        self.witness.record(event)

    def about(self, kind: str, message: Any) -> None:
        """Append one event about a record that a consumer was given."""
        self.record(
            kind, topic=message.topic(), partition=message.partition(), offset=message.offset(),
            key=value_text(message.key()), value=value_text(message.value()),
        )  # fmt: skip

    def sent(
        self, topic: str, order: bytes, partition: int | None, transaction: str | None = None
    ) -> None:
        """Record that an order was handed to produce(); written by hand, for it is in the way.

        `order` is its value as JSON, and its key where it has one; see `order_json`.
        """
        self._attempts[order] += 1
        self.witness.record_line(
            b'%b,"kind":"sent","at_ns":%d,"topic":%b,"partition":%b,%b,"attempt":%d%b}\n'
            % (
                self._start,
                monotonic_ns(),
                self._topics.get(topic) or self._named(topic),
                b"null" if partition is None else b"%d" % partition,
                order,
                self._attempts[order],
                b',"detail":{"transaction":"%b"}' % transaction.encode() if transaction else b"",
            )
        )

    def refused(self, topic: str, key: str | None, value: str | None, refusal: Exception) -> None:
        """Record that produce() itself raised: the client took nothing."""
        name = kafka_name(refusal) or type(refusal).__name__
        self.record("failed", topic=topic, key=key, value=value, error=name)

    def reported(self, error: KafkaError | None, message: Any, order: bytes) -> None:
        """Record a delivery report; `order` is as in sent()."""
        topic = message.topic()
        self.witness.record_line(
            b'%b,"kind":"%b","at_ns":%d,"topic":%b,"partition":%b,"offset":%b,%b'
            b',"error":%b}\n'
            % (
                self._start,
                b"acked" if error is None else outcome(error).encode(),
                monotonic_ns(),
                self._topics.get(topic) or self._named(topic),
                _number(message.partition()),
                _number(message.offset()),
                order,
                b"null" if error is None else orjson.dumps(error.name()),
            )
        )

    def _named(self, topic: str) -> bytes:
        self._topics[topic] = orjson.dumps(topic)
        return self._topics[topic]

    def created(self, role: str, configuration: dict[str, Any]) -> None:
        """Record a client and the configuration it was given, secrets left out."""
        shown = {
            name: str(value)
            for name, value in configuration.items()
            if not callable(value) and not any(secret in name for secret in SECRETS)
        }
        self.record("created", detail={"role": role, **shown})


class Notes:
    """The `logger` of a client: its lines become events instead of going to stderr."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @served
    def log(self, level: int, form: str, *parts: str) -> None:
        """Append a line as a `note`."""
        detail = {"level": logging.getLevelName(level), "text": form % parts}
        self._recorder.record("note", detail=detail)


def recorded_errors(
    recorder: Recorder, theirs: Callable[[KafkaError], None] | None
) -> Callable[[KafkaError], None]:
    """An error_cb that records the client's error and then calls the learner's own."""

    def error_cb(error: KafkaError) -> None:
        recorder.record("error", error=error.name(), detail={"text": error.str()})
        if theirs is not None:
            theirs(error)

    return served(error_cb)


def _number(number: int | None) -> bytes:
    """A JSON number; librdkafka says `unknown` as None or as a negative offset."""
    return b"null" if number is None or number < 0 else b"%d" % number
