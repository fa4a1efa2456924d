"""What is asked of the broker about groups: it has an end, and an answer is whole."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab_utils.clients import groups
from lab_utils.clients.groups import Groups
from lab_utils.clients.reader import HonestReader
from lab_utils.errors import StageError, WaitTimeout
from lab_utils.machine.broker import Broker, new_ports
from lab_utils.machine.prepare import prepare
from lab_utils.machine.settings import Node
from lab_utils.proxy.faults import crash_client
from lab_utils.waiting import wait_until
from tests.clients.opened import billing
from tests.performed import Perform, values

COMMITS = 10_000
bills = billing(group_id="billing")


class Silent:
    """A client that takes questions and never answers, as librdkafka was seen to do."""

    def describe_consumer_groups(self, groups: list[str], **_: object) -> dict[str, Future[Any]]:
        """A future whose time is over: nobody has resolved it."""
        asked: Future[Any] = Future()
        asked.set_exception(TimeoutError())
        return dict.fromkeys(groups, asked)


@pytest.mark.kafka
def test_another_client_is_asked(stage: Any) -> None:
    """The broker is well: a new client has the answer."""
    asked = Groups(stage.direct)
    asked._opened = Silent()  # type: ignore[assignment]

    assert asked._described("nobody").state in groups.MEMBERLESS


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what was asked and what to do; a cell does not wait for ever."""
    monkeypatch.setattr(groups, "AdminClient", lambda _: Silent())
    with pytest.raises(StageError, match="asked 2 times for its consumer groups"):
        Groups("127.0.0.1:1").forget(["nobody"])


@pytest.mark.parametrize("name", ["", " ", "\t\r\n", "\0", " \0billing"])
def test_a_name_that_is_none_to_the_client(name: str) -> None:
    """Nothing is asked of it: whoever makes a consumer for such a group is ended."""
    assert [] == list(Groups("127.0.0.1:1").committed("r", [name]))


@pytest.mark.kafka
def test_a_group_with_a_name_of_its_own(perform: Perform) -> None:
    """Two runs, one after the other: each has its bookmark, and the one of before gives way.

    The place of a member that was killed waits for its successor, and for none of another run: two
    members of the next one share when its time is over.
    """
    for _ in range(2):
        rows = perform(bills, crash_client("after_poll", nth=2), orders=3, filled=True)
        at = [(row.actor, row.offset, row.detail["when"]) for row in rows
              if (row.source, row.kind) == ("log", "committed")]  # fmt: skip

        assert [("billing", 1, "crash"), ("billing", 3, "end")] == at
        assert "0 1 1 2" == values(rows, "delivered", "client")

    rows = perform(bills, orders=4, filled=True, partitions=2, members=2)
    assert ["0", "1", "2", "3"] == sorted(values(rows, "delivered", "client").split())


@pytest.mark.kafka
def test_forgotten(stage: Any, reader: HonestReader) -> None:
    """What has no member is deleted, what never was is none; who stays a member is waited for."""
    asked = Groups(stage.direct)
    reader.create_topic("forgotten-orders", 1)
    consumer = Consumer({"bootstrap.servers": stage.direct, "group.id": "held", "log_level": 0})
    consumer.subscribe(["forgotten-orders"])
    consumer.poll(5)
    wait_until(lambda: asked._is_settled("held", 1), "a member of the group", timeout_s=10)
    with pytest.raises(WaitTimeout, match="group held to be without members"):
        asked.forget(["held"], timeout_s=0.5)
    consumer.commit(offsets=[TopicPartition("forgotten-orders", 0, 0)], asynchronous=False)
    consumer.close()
    assert "held" in asked.names()
    asked.forget(["held", "nobody's"])

    assert "held" not in asked.names()
    assert [] == list(asked.committed("forgotten", ["held"]))


class SlowlyLoaded(Node):
    """What the groups of its broker committed is read again a bit at a time."""

    def properties(self, data: str, *, is_new: bool) -> dict[str, str]:  # noqa: D102
        return {**super().properties(data, is_new=is_new), "offsets.load.buffer.size": "1"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that a test may kill."""
    broker = Broker(prepare(), tmp_path / "broker", SlowlyLoaded(1, new_ports(proxy=1)))
    broker.start()
    yield broker
    broker.kill()


@pytest.mark.kafka
@pytest.mark.long
def test_a_broker_that_has_just_come(broker: Broker) -> None:
    """While its coordinator loads what it knew, nobody is told that there is nothing."""
    reader = HonestReader(broker.direct_address)
    reader.create_topic("r-orders", 2)
    reader.close()
    committed = {"bootstrap.servers": broker.direct_address, "group.id": "r-app", "log_level": 0}
    consumer = Consumer(committed)
    for offset in range(COMMITS + 1):
        # The first is waited for: one that has to look for its coordinator may come last.
        is_waited_for = offset in (0, COMMITS)
        place = TopicPartition("r-orders", 1, offset)
        consumer.commit(offsets=[place], asynchronous=not is_waited_for)
    consumer.close()
    broker.kill()
    broker.start()

    assert [("r-app", "r-orders", 1, COMMITS)] == [
        (it.actor, it.topic, it.partition, it.offset)
        for it in Groups(broker.direct_address).committed("r", ["r-app"])
    ]
