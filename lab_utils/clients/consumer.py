"""The recording consumer: the real confluent_kafka.Consumer that also keeps a diary.

Every method and setting of the parent works as documented there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, TopicPartition

from lab_utils.clients.crash import CrashPoints
from lab_utils.clients.recorder import Recorder, recorded_errors
from lab_utils.ledger.events import value_text

# A rebalance callback: `callback(consumer, partitions)`.
Rebalance: TypeAlias = Any


class RecordingConsumer(Consumer):
    """A confluent_kafka.Consumer whose deliveries, commits and rebalances are in the ledger."""

    def __init__(
        self, configuration: dict[str, Any], recorder: Recorder, crashes: CrashPoints
    ) -> None:
        self._recorder = recorder
        self._crashes = crashes
        callbacks = {
            "on_commit": _recorded_commits(recorder, configuration.get("on_commit")),
            "error_cb": recorded_errors(recorder, configuration.get("error_cb")),
        }
        super().__init__({"logger": recorder.logger(), **configuration, **callbacks})
        recorder.created("consumer", configuration)

    def poll(self, timeout: float = -1) -> Any:
        """The next message or event, as confluent_kafka.Consumer.poll returns it."""
        message = super().poll(timeout)
        self._delivered([message] if message is not None else [])
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """A list of messages, as confluent_kafka.Consumer.consume returns it."""
        messages: list[Any] = super().consume(num_messages, timeout)
        self._delivered(messages)
        return messages

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

    def commit(self, *arguments: Any, **named: Any) -> Any:
        """Commit offsets, as confluent_kafka.Consumer.commit does."""
        committed = super().commit(*arguments, **named)
        for partition in committed or ():
            _record_commit(self._recorder, partition.error, partition)
        if self._crashes:
            self._crashes.reached("after_commit")
        return committed

    def _delivered(self, messages: list[Any]) -> None:
        for message in messages:
            if message.error():
                self._recorder.record("error", error=message.error().name())
                continue
            self._recorder.record(
                "delivered",
                topic=message.topic(),
                partition=message.partition(),
                offset=message.offset(),
                value=value_text(message.value()),
            )
            if self._crashes:
                self._crashes.reached("after_poll")


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
        if theirs:
            theirs(error, places)

    return on_commit


def _recorded_rebalance(
    recorder: Recorder, kind: str, theirs: Callable[..., None] | None
) -> Callable[[Any, list[TopicPartition]], None]:
    def rebalanced(consumer: Any, places: list[TopicPartition]) -> None:
        for place in places:
            recorder.record(kind, topic=place.topic, partition=place.partition)
        if theirs:
            theirs(consumer, places)

    return rebalanced
