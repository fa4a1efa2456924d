"""What the broker itself says of consumer groups: their committed offsets and their members.

It asks past the proxy, as the honest reader does. The groups of a run are those whose id begins
with the run's; others are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from lab_utils.errors import StageError
from lab_utils.ledger.events import Event
from lab_utils.waiting import wait_until

ANSWERED_S: Final = 10
# librdkafka 2.16 has left a question open for good, past its own time-out: seen once, when a member
# had been killed. It does not do so twice: another client is asked.
LOST_S: Final = 2 * ANSWERED_S
TIMES_ASKED: Final = 2
SETTLED_S: Final = 30


class Groups:
    """The consumer groups of a broker, asked through a connection of the lab's own."""

    def __init__(self, bootstrap: str) -> None:
        self._connection: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "client.id": "groups",
            "log_level": 0,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
        self._opened: AdminClient | None = None

    @property
    def _admin(self) -> AdminClient:
        """Connected when first used: most runs have no group."""
        self._opened = self._opened or AdminClient(self._connection)
        return self._opened

    def of(self, run: str) -> list[str]:
        """The ids of a run's groups."""
        listed = self._answer(lambda it: it.list_consumer_groups(request_timeout=ANSWERED_S))
        return sorted(it.group_id for it in listed.valid if it.group_id.startswith(f"{run}-"))

    def committed(self, run: str, **detail: str) -> Iterator[Event]:
        """Each offset that a group of the run has committed, as the broker holds it now."""
        for group in self.of(run):
            for place in self._offsets(group):
                yield Event(
                    run=run, source="log", actor=group, kind="committed",
                    topic=place.topic, partition=place.partition, offset=place.offset,
                    detail=detail,
                )  # fmt: skip

    def wait_until_settled(self, run: str, members: int) -> None:
        """Wait until a group of the run has so many members, each with a partition."""
        wait_until(
            lambda: any(self._is_settled(group, members) for group in self.of(run)),
            f"a group of {run} with {members} members that all have partitions",
            timeout_s=SETTLED_S,
            every_s=0.1,
        )

    def _offsets(self, group: str) -> list[Any]:
        asked = [ConsumerGroupTopicPartitions(group)]
        try:
            found = self._answer(
                lambda it: it.list_consumer_group_offsets(asked, request_timeout=ANSWERED_S)[group]
            )
        except KafkaException:
            return []  # a group that is gone by now has committed nothing
        return [it for it in found.topic_partitions if it.offset >= 0]

    def _is_settled(self, group: str, members: int) -> bool:
        try:
            found = self._answer(
                lambda it: it.describe_consumer_groups([group], request_timeout=ANSWERED_S)[group]
            )
        except KafkaException:
            return False
        shares = [len(it.assignment.topic_partitions) for it in found.members if it.assignment]
        return found.state == ConsumerGroupState.STABLE and len(shares) == members and all(shares)

    def _answer(self, ask: Callable[[AdminClient], Future[Any]]) -> Any:
        """What the broker answers; raises KafkaException, or StageError if nothing comes."""
        for _ in range(TIMES_ASKED):
            try:
                return ask(self._admin).result(LOST_S)
            except TimeoutError:
                self._opened = None
        raise StageError(
            f"the broker was asked {TIMES_ASKED} times for its consumer groups, and did not answer "
            f"within {LOST_S} s. Look at `lab`, then run the cell again."
        )
