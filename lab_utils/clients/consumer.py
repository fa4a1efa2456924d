"""The recording consumer: the real confluent_kafka.Consumer whose calls are in the ledger.

Every method and setting of the parent works as documented there. Below it is the loop around
poll(): records until the topic has been read to its end. It commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any, Final, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.recorder import Notes, Recorder, recorded_errors, served
from lab_utils.errors import BadArgument, within
from lab_utils.ledger.events import value_text

# A record that has not come by then is not waited for: a group may need its session timeout first.
IDLE_S_MAX: Final = 15.0
WAIT_S: Final = 0.1
# How long a batch that is not full waits for its next record.
FILLED_UP_S: Final = 0.3
# How long a thread that polls keeps another one waiting that closes the consumer.
TURN_S: Final = 0.1
# And how long a callback may, in which that thread is.
CALLBACK_S: Final = 5.0

# Places that have a name and no number; without an offset it is where the group's bookmark is.
LOGICAL: Final = {OFFSET_BEGINNING: "beginning", OFFSET_END: "end", OFFSET_STORED: "bookmark",
                  OFFSET_INVALID: "bookmark"}  # fmt: skip

# A rebalance callback: `callback(consumer, partitions)`.
Rebalance: TypeAlias = Any


class GroupMetadata(bytes):
    """What a consumer says of its group to a transaction; the client's own form is not documented.

    group  the group.id, which the ledger has of the offsets that are sent with it
    """

    group: str


class RecordingConsumer(Consumer):
    """A confluent_kafka.Consumer whose deliveries, commits and rebalances are in the ledger."""

    def __init__(
        self, configuration: dict[str, Any], recorder: Recorder, crashes: CrashPoints
    ) -> None:
        self._recorder = recorder
        self._crashes = crashes
        self._group = str(configuration["group.id"])
        callbacks = {
            "on_commit": _recorded_commits(recorder, configuration.get("on_commit")),
            "error_cb": recorded_errors(recorder, configuration.get("error_cb")),
        }
        # The end of a partition is an event for us alone, unless the learner asked for it.
        self._hides_ends = "enable.partition.eof" not in configuration
        self.ended: dict[tuple[str, int], int] = {}
        # What was polled, by its place and offset: which orders a commit is about.
        self._polled: dict[tuple[str, int], dict[int, str | None]] = {}
        self._turn = RLock()
        self._is_closing = False
        self.has_a_topic = False  # was it ever told what to read?
        told = {"enable.partition.eof": True, "logger": Notes(recorder)}
        super().__init__({**told, **configuration, **callbacks})
        recorder.created("consumer", configuration)

    def poll(self, timeout: float = -1) -> Any:
        """The next message or event, as confluent_kafka.Consumer.poll returns it."""
        until = _until(timeout)
        while True:
            left_s = max(0.0, until - time.monotonic())
            with self._unless_closed():
                message = super().poll(min(left_s, TURN_S))
            if message is None and left_s <= TURN_S:
                return None
            if message is not None and self._delivered([message]):
                return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """A list of messages, as confluent_kafka.Consumer.consume returns it."""
        until = _until(timeout)
        handed_on: list[Any] = []
        while True:
            left_s = max(0.0, until - time.monotonic())
            with self._unless_closed():
                read = super().consume(num_messages - len(handed_on), min(left_s, TURN_S))
            visible = self._delivered(read)
            handed_on += visible
            is_over = left_s <= TURN_S and len(visible) == len(read)
            if is_over or len(handed_on) == num_messages:
                return handed_on

    def close(self) -> None:
        """Close it, as confluent_kafka.Consumer.close does, when no other thread polls.

        The client itself would wait for ever: the poll takes from it what it waits for.
        """
        self._is_closing = True
        if not self._turn.acquire(timeout=CALLBACK_S):
            raise RuntimeError("Another thread is in a callback of this consumer")
        try:
            super().close()
        finally:
            self._turn.release()

    @contextmanager
    def _unless_closed(self) -> Iterator[None]:
        with self._turn:
            if self._is_closing:
                raise RuntimeError("Consumer closed")
            yield

    def subscribe(
        self,
        topics: list[str],
        on_assign: Rebalance = None,
        on_revoke: Rebalance = None,
        on_lost: Rebalance = None,
    ) -> None:
        """Join the group for `topics`; rebalances are recorded, then handed to your callbacks."""
        callbacks = {
            "on_assign": _recorded_rebalance(self._recorder, "assigned", on_assign),
            "on_revoke": _recorded_rebalance(self._recorder, "revoked", on_revoke),
        }
        # Without an on_lost of the learner's the client calls on_revoke, and so must ours.
        if on_lost is not None:
            callbacks["on_lost"] = _recorded_rebalance(self._recorder, "lost", on_lost)
        super().subscribe(topics, **callbacks)
        self.has_a_topic = True

    def commit(self, *arguments: Any, **named: Any) -> Any:
        """Commit offsets, as confluent_kafka.Consumer.commit does."""
        passed = partial(self._passed, *arguments, **named)
        self._crashes.reached("before_commit", passed)
        try:
            with self._crashes.committing():
                committed = super().commit(*arguments, **named)
        except KafkaException as refusal:
            self._recorder.record("error", error=refusal.args[0].name(), detail={"of": "commit"})
            raise
        for partition in committed or ():
            _record_commit(self._recorder, partition.error, partition)
        self._crashes.reached("after_commit", passed)
        return committed

    def _meant(
        self, message: Any = None, offsets: list[TopicPartition] | None = None, **_: object
    ) -> list[TopicPartition]:
        """The places that a call with these arguments is about; without any, where this reads."""
        if offsets is not None:
            return offsets
        if message is None:
            return self.position(self.assignment())
        return [TopicPartition(message.topic(), message.partition(), message.offset() + 1)]

    def _passed(self, *arguments: Any, **named: Any) -> list[str | None]:
        """The orders that were polled and that a commit with these arguments is past."""
        return [
            value
            for place in self._meant(*arguments, **named)
            # A copy: another thread may poll meanwhile.
            for offset, value in [*self._polled.get((place.topic, place.partition), {}).items()]
            if offset < place.offset
        ]

    def store_offsets(self, *arguments: Any, **named: Any) -> None:
        """Store what the next automatic commit writes, as Consumer.store_offsets does."""
        super().store_offsets(*arguments, **named)
        self._placed("stored", self._meant(*arguments, **named))

    def seek(self, partition: TopicPartition) -> None:
        """Go to an offset, as confluent_kafka.Consumer.seek does."""
        super().seek(partition)
        self.ended.pop((partition.topic, partition.partition), None)
        self._placed("sought", [partition])

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, as Consumer.assign does, from where they say or from the group's.

        Each partition is placed anew, also by BEGINNING, END or no offset.
        """
        super().assign(partitions)
        self.has_a_topic = True
        self._placed("sought", partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, too, as Consumer.incremental_assign does."""
        super().incremental_assign(partitions)
        self.has_a_topic = True
        self._placed("sought", partitions)

    def consumer_group_metadata(self) -> Any:
        """What a transaction is told of the group, as Consumer.consumer_group_metadata does."""
        metadata = super().consumer_group_metadata()
        if metadata is None:
            return None
        named = GroupMetadata(metadata)
        named.group = self._group
        return named

    def _placed(self, kind: str, places: list[TopicPartition]) -> None:
        for place in places:
            offset, where = place.offset, LOGICAL.get(place.offset)
            self._recorder.record(
                kind, topic=place.topic, partition=place.partition,
                offset=offset if offset >= 0 else None, detail={"to": where} if where else {},
            )  # fmt: skip

    def _delivered(self, messages: list[Any]) -> list[Any]:
        """Record these messages; return them without the ends that nobody asked for."""
        handed_on = []
        for message in messages:
            place = (message.topic(), message.partition())
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                self.ended[place] = message.offset()
                if self._hides_ends:
                    continue
            handed_on.append(message)
            if message.error():
                self._recorder.record("error", error=message.error().name())
                continue
            self.ended.pop(place, None)
            if self._crashes:
                self._polled.setdefault(place, {})[message.offset()] = value_text(message.value())
            self._recorder.about("delivered", message)
            self._crashes.reached("after_poll", partial(list, [value_text(message.value())]))
        return handed_on


def _until(timeout: float) -> float:
    """The moment at which a timeout is over; a negative one never is."""
    return float("inf") if timeout < 0 else time.monotonic() + timeout


def _record_commit(recorder: Recorder, error: KafkaError | None, place: TopicPartition) -> None:
    recorder.record(
        "committed" if error is None else "error",
        topic=place.topic,
        partition=place.partition,
        offset=place.offset if place.offset >= 0 else None,
        error=error.name() if error else None,
    )


def _recorded_commits(
    recorder: Recorder, theirs: Callable[..., None] | None
) -> Callable[[KafkaError | None, list[TopicPartition]], None]:
    def on_commit(error: KafkaError | None, places: list[TopicPartition]) -> None:
        for place in places:
            _record_commit(recorder, error or place.error, place)
        if theirs is not None:
            theirs(error, places)

    return served(on_commit)


def _recorded_rebalance(
    recorder: Recorder, kind: str, theirs: Callable[..., None] | None
) -> Callable[[Any, list[TopicPartition]], None]:
    def rebalanced(consumer: Any, places: list[TopicPartition]) -> None:
        for place in places:
            recorder.record(kind, topic=place.topic, partition=place.partition)
            consumer.ended.pop((place.topic, place.partition), None)
        if theirs is not None:
            theirs(consumer, places)

    return served(rebalanced)


def batches(
    consumer: RecordingConsumer,
    size: int,
    partitions: int = 1,
    is_done: Callable[[], bool] = lambda: True,
    idle_s: float = IDLE_S_MAX,
) -> Iterator[list[Any]]:
    """Lists of up to `size` records, until every assigned partition is read to its end.

    There must be as many as `partitions`, and an end is one only if `is_done` says so too. When no
    record has come for `idle_s`, that is the end as well. Raises BadArgument for a consumer that
    reads no topic, and KafkaException where the broker knows none.
    """
    if not isinstance(consumer, RecordingConsumer):
        raise BadArgument(
            "records are polled with a consumer that run.consumer() made; got a "
            f"{type(consumer).__name__}."
        )
    within("size", size, 1, 1_000_000)  # the client takes no more
    if not consumer.has_a_topic:
        raise BadArgument(
            "this consumer was not told what to read, so no record would ever come. Call "
            "consumer.subscribe([run.topic]) first."
        )
    unknown = None
    idle_until = time.monotonic() + idle_s
    while time.monotonic() < idle_until:
        read = [consumer.poll(WAIT_S)] if size == 1 else consumer.consume(size, FILLED_UP_S)
        if records := [message for message in read if message is not None and not message.error()]:
            yield records
            idle_until = time.monotonic() + idle_s
        elif is_at_the_end(consumer, partitions) and is_done():
            return
        for error in (message.error() for message in read if message is not None):
            if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                unknown = error
    # Of a new topic a broker hears later, and then it is assigned.
    if unknown is not None and not consumer.assignment():
        raise KafkaException(unknown)


def is_at_the_end(consumer: RecordingConsumer, partitions: int) -> bool:
    """Has the consumer read each of its partitions to the end, and has it so many?"""
    assigned = consumer.assignment()
    ended = [consumer.ended.get((place.topic, place.partition)) for place in assigned]
    if len(assigned) < partitions or None in ended:
        return False
    ends = [consumer.get_watermark_offsets(place, timeout=5)[1] for place in assigned]
    return all(read is not None and read >= end for read, end in zip(ended, ends, strict=True))


def is_committed_to_the_end(consumer: RecordingConsumer, topic: str) -> bool:
    """Has the group committed all that is in the topic, and is there anything in it?"""
    partitions = consumer.list_topics(topic, timeout=5).topics[topic].partitions
    asked = [TopicPartition(topic, number) for number in partitions]
    try:
        places = consumer.committed(asked, timeout=5)
    except KafkaException as late:
        # The coordinator answers one after the other, and a member that joins waits for the others.
        if late.args[0].code() != KafkaError._TIMED_OUT:
            raise
        return False
    ends = [consumer.get_watermark_offsets(place, timeout=5)[1] for place in places]
    return any(ends) and all(p.offset >= end for p, end in zip(places, ends, strict=True))
