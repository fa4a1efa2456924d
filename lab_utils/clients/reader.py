"""The lab's own readers: one when a run is over, and one while it lasts, both past the proxy.

They speak to the brokers' DIRECT listener, which no learner's client is ever told. The honest
reader creates a run's topic and reads it back; the findings rest on it, so it says whether it
drained the topic. The concurrent reader is a read_committed consumer that reads while the workload
still writes: Kafka's own system tests decide exactly-once by two such readers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Event as Flag
from threading import Thread
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from lab_utils.errors import BadArgument, StageError, WaitTimeout
from lab_utils.ledger.events import Event, value_text
from lab_utils.waiting import wait_until

# How each client of the lab comes back to a broker, with librdkafka's default beside it.
RECONNECTING: Final[dict[str, Any]] = {
    # Without these, a broker that has just come back is not asked for up to ten seconds.
    "reconnect.backoff.ms": 20,  # 100
    "reconnect.backoff.max.ms": 200,  # 10000
    # rebootstrap. On a stage of one, each connection that ends is the last: librdkafka then drops
    # the broker and starts anew (KIP-899). What is in flight by then counts as never stored
    # (ERR__DESTROY_BROKER in rd_kafka_err_action, librdkafka 2.16) and is sent again, even with
    # retries=0: on a busy machine 2 of 300 runs had an order twice, and 0 of 900 with none. A call
    # of a transaction may then never return (librdkafka's issue 5511).
    "metadata.recovery.strategy": "none",
}
CONCURRENT: Final = "concurrent-reader"
CONCURRENT_S: Final = 5
ASKED_S: Final = 1
START_S: Final = 5
PLACED_S: Final = 15
# The topics of the coordinators as a broker creates them, but for the brokers of their replicas.
COORDINATORS: Final = {
    topic: NewTopic(
        topic,
        partitions,
        replica_assignment=[[3, 2, 1]] * partitions,
        config={"cleanup.policy": "compact", "segment.bytes": "104857600", **own},
    )
    for topic, partitions, own in (
        ("__consumer_offsets", 1, {}),
        ("__transaction_state", 50, {"min.insync.replicas": "2"}),
    )
}


class HonestReader:
    """One connection of the lab's own to the brokers, kept open between runs."""

    def __init__(self, bootstrap: str, client_id: str = "honest-reader") -> None:
        self._connection = connection(bootstrap, client_id)
        self._admin = AdminClient(self._connection)
        # Connected when first used: a consumer asks for its coordinator, though it joins no group,
        # and the brokers place it then; see place_coordinators().
        self._consumers: dict[str, Consumer] = {}
        self._producer: Producer | None = None

    def follow(self, bootstrap: str) -> None:
        """Ask at this address from now on: a broker that has come back may be at another port."""
        if bootstrap != self._connection["bootstrap.servers"]:
            self.close()
            self._connection |= {"bootstrap.servers": bootstrap}
            self._admin = AdminClient(self._connection)

    def create_topic(
        self,
        topic: str,
        partitions: int,
        timeout_s: float = 15,
        *,
        replicas: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a new and empty topic; raises StageError when the broker does not.

        Raises BadArgument for a setting that the broker does not know, or of another value.

        The replicas of each partition are brokers 1, 2, …, so that broker 1 leads. What is left of
        a run of that name, whose folder somebody has deleted, is deleted first.
        """
        placed = [list(range(1, replicas + 1))] * partitions
        new = NewTopic(topic, partitions, replica_assignment=placed, config=dict(config or {}))
        try:
            try:
                self._admin.create_topics([new], operation_timeout=10)[topic].result(timeout_s)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                self._admin.delete_topics([topic], operation_timeout=10)[topic].result(timeout_s)
                self._admin.create_topics([new], operation_timeout=10)[topic].result(timeout_s)
        except (KafkaException, TimeoutError) as error:
            reason = error.args[0].str() if error.args else f"no answer within {timeout_s:g} s"
            if error.args and error.args[0].code() == KafkaError.INVALID_CONFIG:
                raise BadArgument(
                    f"the broker refused the settings {dict(config or {})} of topic {topic!r}: "
                    f"{reason.rstrip('.')}. Without it the run cannot start. Correct topic_config, "
                    "or what topics says of this one, then run the cell again."
                ) from None
            raise StageError(
                f"topic {topic!r} could not be created: {reason.rstrip('.')}. Without it the run "
                "cannot start. Look at `lab`, then run the cell again."
            ) from None

    def place_coordinators(self) -> None:
        """See that broker 3 of three leads the topics of the coordinators, created if need be.

        A broker would create them when they are first asked for, with leaders by chance, and a
        leader that was away for a moment, as on a busy machine, stays without its partitions.
        librdkafka 2.16 may never return from send_offsets_to_transaction when the group's
        coordinator dies meanwhile, so a run that takes broker 1 or 2 away must find it elsewhere.

        One broker's word is taken for it; the others hear of it in their own time. Raises
        StageError when they cannot be brought there.
        """
        wait_until(
            self._coordinators_are_placed,
            "broker 3 to lead the topics of the coordinators",
            timeout_s=PLACED_S,
        )

    def _coordinators_are_placed(self) -> bool:
        """Are they there, each led by the first of its brokers? If not, that is asked for."""
        try:
            topics = self._admin.list_topics(timeout=ASKED_S).topics
            if missing := [new for topic, new in COORDINATORS.items() if topic not in topics]:
                for created in self._admin.create_topics(missing).values():
                    created.result(PLACED_S)
                return False
            displaced = [
                TopicPartition(topic, number)
                for topic in COORDINATORS
                for number, place in topics[topic].partitions.items()
                if place.leader != place.replicas[0]
            ]
            if displaced:
                self._admin.elect_leaders(ElectionType.PREFERRED, displaced).result(ASKED_S)
            return not displaced
        except (KafkaException, TimeoutError):  # The controller is busy: it is asked again.
            return False

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Have these topics deleted; the brokers do it in their own time."""
        if topics:
            self._admin.delete_topics(list(topics))

    def read(self, run: str, topic: str, partitions: int, timeout_s: float = 10) -> list[Event]:
        """Read a topic from offset 0 to its end: `record` events, then one `end` a partition.

        An `end` says with detail.drained whether the reader got there within `timeout_s`.
        """
        return _read(self._consumer(), run, topic, partitions, timeout_s)

    def read_committed(
        self, run: str, topic: str, partitions: int, timeout_s: float = 10
    ) -> tuple[list[Event], dict[int, int]]:
        """What a read_committed reader is given: `visible` events, and the last stable offsets.

        A partition whose reader did not get to its last stable offset has none here.
        """
        rows = _read(self._consumer("read_committed"), run, topic, partitions, timeout_s)
        visible = [replace(row, kind="visible") for row in rows if row.kind == "record"]
        ends = [row for row in rows if row.kind == "end" and row.offset is not None]
        return visible, {row.partition or 0: row.offset or 0 for row in ends}

    def is_stable(self, topic: str, partitions: int) -> bool:
        """May a read_committed reader go as far as any other, in every partition?"""
        try:
            # Asked with the epoch of a former leader it is refused, and does not learn the new one.
            self._admin.list_topics(topic, timeout=ASKED_S)
            ends = [
                self._ends(topic, partitions, level)
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            ]
        except (KafkaException, TimeoutError):  # Without a leader nobody knows how far.
            return False
        return ends[0] == ends[1] and min(ends[0].values()) >= 0  # a broker may know no end

    def fill(self, topic: str, values: Sequence[str], partitions: int) -> None:
        """Write these values, in turn to each partition; raises StageError if one is refused."""
        refused: list[str] = []

        def report(error: KafkaError | None, _: object) -> None:
            if error is not None:
                refused.append(error.str())

        # It is kept: a new one waits half a second for its producer id.
        safe = {"acks": "all", "enable.idempotence": True}
        producer, self._producer = self._producer or Producer(self._connection | safe), None
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions, on_delivery=report)
        unsent = producer.flush(15)
        if unsent or refused:
            raise StageError(
                f"topic {topic!r} could not be filled: {unsent} of {len(values)} orders were not "
                f"answered, {len(refused)} refused {refused[:1]}. Look at `lab`, then run again."
            )
        self._producer = producer

    def partitions(self, topic: str, timeout_s: float = 10) -> int:
        """How many partitions a topic has; 0 if the broker that is asked knows of none in time.

        A broker hears of a new topic from the controller, in its own time.
        """

        def known() -> int:
            return len(self._admin.list_topics(topic, timeout=timeout_s).topics[topic].partitions)

        with suppress(WaitTimeout):
            return wait_until(known, f"topic {topic!r}", timeout_s=timeout_s)
        return 0

    def close(self) -> None:
        """Close the connection."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers = {}
        self._producer = None

    def _consumer(self, isolation_level: str = "read_uncommitted") -> Consumer:
        if isolation_level not in self._consumers:
            self._consumers[isolation_level] = _new_consumer(self._connection, isolation_level)
        return self._consumers[isolation_level]

    def _ends(self, topic: str, partitions: int, level: IsolationLevel) -> dict[int, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for number in range(partitions)}
        told = self._admin.list_offsets(asked, isolation_level=level, request_timeout=ASKED_S)
        return {place.partition: end.result(timeout=10).offset for place, end in told.items()}


class ConcurrentReader:
    """Reads topics from their start in a thread of its own; what it is given becomes `seen`."""

    def __init__(self, bootstrap: str, run: str, topics: Sequence[str], partitions: int) -> None:
        self._run = run
        self._places = [TopicPartition(t, n, 0) for t in topics for n in range(partitions)]
        self._ended: dict[tuple[str | None, int | None], int] = {}
        self._until = 0.0
        self._consumer = _new_consumer(connection(bootstrap, CONCURRENT), "read_committed")
        self._is_over = Flag()
        self._thread = Thread(target=self._read, daemon=True)
        self.seen: list[Event] = []
        self.is_done = False

    def start(self) -> None:
        """Begin to read."""
        self._consumer.assign(self._places)
        self._thread.start()

    def finish(self) -> list[Event]:
        """Read on to the end of what is committed by now; what was given, in order.

        Where `is_done` is False the end was not reached in time: what is missing then was not
        looked for.
        """
        self._until = time.monotonic() + CONCURRENT_S
        self._is_over.set()
        self._thread.join(2 * CONCURRENT_S)
        return list(self.seen)

    def _read(self) -> None:
        while not (self._is_over.is_set() and self._may_stop()):
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            error = message.error()
            if error is None:
                seen = _event(self._run, message)
                self.seen.append(replace(seen, actor=CONCURRENT, kind="seen", detail={}))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended[message.topic(), message.partition()] = message.offset() or 0
        self._consumer.close()

    def _may_stop(self) -> bool:
        """Has all been read that is in the log, or is there no time left for it?"""
        try:
            self.is_done = all(
                self._ended.get((place.topic, place.partition), -1)
                >= self._consumer.get_watermark_offsets(place, ASKED_S)[1]
                for place in self._places
            )
        except KafkaException:  # The leader is away: it is asked again while there is time.
            self.is_done = False
        return self.is_done or time.monotonic() > self._until


def connection(bootstrap: str, client_id: str) -> dict[str, Any]:
    """The settings with which a client of the lab's own connects.

    Nothing of theirs can be stored twice. So they may begin anew, and have to: with none, who was
    once told of no broker, as by one that comes back while it is fenced, has none from then on.
    """
    named = {"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0}
    return named | RECONNECTING | {"metadata.recovery.strategy": "rebootstrap"}


def _new_consumer(connected: Mapping[str, Any], isolation_level: str) -> Consumer:
    return Consumer(
        {
            **connected,
            "group.id": "lab-reader",  # it is never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # where the log begins behind 0
            "isolation.level": isolation_level,
            "fetch.wait.max.ms": 10,
        }
    )


def _read(
    consumer: Consumer, run: str, topic: str, partitions: int, timeout_s: float
) -> list[Event]:
    """Read a topic from offset 0 to where this consumer may go, with an `end` a partition."""
    waiting = set(range(partitions))
    events: list[Event] = []
    # A consumer that is assigned a topic it has never heard of waits a second for metadata.
    with suppress(KafkaException):  # A broker that is gone shows as a partition not drained.
        consumer.list_topics(topic, timeout=timeout_s)
    consumer.assign([TopicPartition(topic, number, 0) for number in waiting])
    for message in _messages(consumer, topic, time.monotonic() + timeout_s):
        events.append(_event(run, message))
        if events[-1].kind == "end":
            waiting.discard(message.partition())
            events[-1] = _with_start(consumer, events)
        if not waiting:
            break
    consumer.unassign()
    return events + [not_drained(run, topic, number) for number in sorted(waiting)]


def _with_start(consumer: Consumer, events: Sequence[Event]) -> Event:
    """The last of these, an `end`, with the first offset of the log where that is not 0."""
    end = events[-1]
    if not end.offset or any((row.partition, row.offset) == (end.partition, 0) for row in events):
        return end
    place = TopicPartition(end.topic or "", end.partition or 0)
    try:
        start, _ = consumer.get_watermark_offsets(place, START_S)
    except KafkaException:  # What the log began with is not known, so it was not read.
        return not_drained(end.run, end.topic or "", end.partition or 0)
    return replace(end, detail={**end.detail, "start": str(start)}) if start > 0 else end


def _messages(consumer: Consumer, topic: str, deadline: float) -> Iterator[Any]:
    while (left_s := deadline - time.monotonic()) > 0:
        # consume() waits until it has all that it was asked for, so ask for one, then for more.
        messages = consumer.consume(1, timeout=min(left_s, 0.1))
        for message in messages + consumer.consume(10_000, timeout=0):
            error = message.error()
            # Not `in (None, …)`: comparing a KafkaError with None leaves an exception pending.
            if message.topic() == topic and (
                error is None or error.code() == KafkaError._PARTITION_EOF
            ):
                yield message


def _event(run: str, message: Any) -> Event:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if message.error() is not None:
        end = not_drained(run, topic, partition)
        return replace(end, offset=offset, detail={"drained": "true"})
    return Event(
        run=run, source="log", actor="reader", kind="record",
        topic=topic, partition=partition, offset=offset,
        key=value_text(message.key()), value=value_text(message.value()),
        detail={"timestamp_ms": str(message.timestamp()[1])},
    )  # fmt: skip


def not_drained(run: str, topic: str, partition: int) -> Event:
    """The `end` of a partition that was not read, or not to its end."""
    return Event(
        run=run, source="log", actor="reader", kind="end",
        topic=topic, partition=partition, detail={"drained": "false"},
    )  # fmt: skip
