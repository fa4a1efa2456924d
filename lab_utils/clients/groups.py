"""What the broker itself says of consumer groups: their committed offsets and their members.

It asks past the proxy, as the honest reader does, and only about the groups that it is given: of
which groups a run has made use, its requests say. Of those that are left it asks the brokers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from lab_utils.clients.reader import connection
from lab_utils.errors import StageError
from lab_utils.ledger.events import Event
from lab_utils.waiting import wait_until

ANSWERED_S: Final = 10
# librdkafka 2.16 has left a question open for good, past its own time-out: seen once, when a member
# had been killed. It does not do so twice: another client is asked.
LOST_S: Final = 2 * ANSWERED_S
TIMES_ASKED: Final = 2
SETTLED_S: Final = 30
BLANKS: Final = " \t\n\v\f\r"  # of C
MEMBERLESS: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
# What a coordinator answers that has just come, or has to come first. It has the groups of before,
# so nobody may say yet that there are none. librdkafka's AdminClient does not wait for it.
COMING: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


class Groups:
    """The consumer groups of a broker, asked through a connection of the lab's own."""

    def __init__(self, bootstrap: str) -> None:
        self._connection = connection(bootstrap, "groups")
        self._opened: AdminClient | None = None

    @property
    def _admin(self) -> AdminClient:
        """Connected when first used: most runs have no group."""
        self._opened = self._opened or AdminClient(self._connection)
        return self._opened

    def committed(self, run: str, groups: Iterable[str], **detail: str) -> Iterator[Event]:
        """Each offset that one of the groups has committed in the run, as the broker holds it.

        Of a name that is none to the client library nothing is asked (_is_none).
        """
        for group in itertools.filterfalse(_is_none, sorted(groups)):
            places = self._once_it_has_come(partial(self._committed, run, group), group)
            for place in places:
                yield Event(
                    run=run, source="log", actor=group, kind="committed",
                    topic=place.topic, partition=place.partition, offset=place.offset,
                    detail=detail,
                )  # fmt: skip

    def names(self) -> list[str]:
        """All groups of all brokers, also of who has told nobody; raises StageError."""
        found = self._answer(lambda it: it.list_consumer_groups(request_timeout=ANSWERED_S))
        if found.errors:
            raise StageError(f"a broker did not tell of its groups: {found.errors[0]}.")
        return [each.group_id for each in found.valid]

    def forget(self, groups: Iterable[str], timeout_s: float = SETTLED_S) -> None:
        """Delete these groups with all their offsets, each as soon as it has no member."""
        for group in groups:
            self._forget(group, timeout_s)

    def _forget(self, group: str, timeout_s: float) -> None:
        wait_until(
            lambda: self._described(group).state in MEMBERLESS,
            f"group {group} to be without members",
            timeout_s=timeout_s,
            every_s=0.1,
        )
        if self._described(group).state != ConsumerGroupState.DEAD:  # which is that there is none
            self._answer(
                lambda it: it.delete_consumer_groups([group], request_timeout=ANSWERED_S)[group]
            )

    def wait_until_settled(self, groups: Callable[[], Iterable[str]], members: int) -> None:
        """Wait until one of the groups has so many members, each with a partition."""
        wait_until(
            lambda: any(self._is_settled(group, members) for group in groups()),
            f"a group with {members} members that all have partitions",
            timeout_s=SETTLED_S,
            every_s=0.1,
        )

    def _committed(self, run: str, group: str) -> list[TopicPartition]:
        """The offsets that a group has committed in the run's topics; raises KafkaException.

        A consumer asks, which never joins: the AdminClient's question ends this process if the
        coordinator has moved (https://github.com/confluentinc/librdkafka/issues/5040).
        """
        # With read_committed it would wait for a transaction that is to commit offsets.
        own = {"group.id": group, "isolation.level": "read_uncommitted"}
        consumer = Consumer({**self._connection, **own})
        try:
            topics = consumer.list_topics(timeout=ANSWERED_S).topics
            of_the_run = [it for name, it in topics.items() if name.startswith(f"{run}-")]
            asked = [TopicPartition(it.topic, n) for it in of_the_run for n in it.partitions]
            found = consumer.committed(asked, timeout=ANSWERED_S)
            return [it for it in found if it.offset >= 0]
        finally:
            consumer.close()

    def _is_settled(self, group: str, members: int) -> bool:
        found = self._described(group)
        shares = [len(it.assignment.topic_partitions) for it in found.members if it.assignment]
        return found.state == ConsumerGroupState.STABLE and len(shares) == members and all(shares)

    def _described(self, group: str) -> Any:
        """What the coordinator knows of a group; of an unknown one, that it is dead."""
        return self._answer(
            lambda it: it.describe_consumer_groups([group], request_timeout=ANSWERED_S)[group]
        )

    def _answer(self, ask: Callable[[AdminClient], Future[Any]]) -> Any:
        """What is answered once the coordinator has come; raises StageError if it does not."""
        return self._once_it_has_come(lambda: self._resolved(ask), "its consumer groups")

    def _once_it_has_come(self, ask: Callable[[], Any], of: str) -> Any:
        def asked() -> tuple[Any, ...]:
            """The answer alone in a tuple; an empty one while the coordinator is coming."""
            try:
                return (ask(),)
            except KafkaException as error:
                refusal = error.args[0]
                if refusal.code() in COMING:
                    return ()
                raise StageError(
                    f"the broker did not tell of {of}: {refusal.name()}, {refusal.str()}. What was "
                    "committed is not known without it. Look at `lab`, then run the cell again."
                ) from None

        (answer,) = wait_until(
            asked,
            "the group coordinator to load its groups",
            timeout_s=SETTLED_S,
            every_s=0.1,
        )
        return answer

    def _resolved(self, ask: Callable[[AdminClient], Future[Any]]) -> Any:
        """What comes of a question; raises KafkaException, or StageError if nothing comes."""
        for _ in range(TIMES_ASKED):
            try:
                return ask(self._admin).result(LOST_S)
            except TimeoutError:
                self._opened = None
        raise StageError(
            f"the broker was asked {TIMES_ASKED} times for its consumer groups, and did not answer "
            f"within {LOST_S} s. Look at `lab`, then run the cell again."
        )


def _is_none(group: str) -> bool:
    """Is nothing left of this name in librdkafka, which reads up to a NUL, and without blanks?

    A request made by hand may have such a name, and the broker takes some. confluent-kafka 2.16
    ends the process of who makes a consumer for it, by an assertion in C.
    """
    return not group.partition("\0")[0].strip(BLANKS)
