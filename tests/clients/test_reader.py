"""The honest reader says what is in a topic, and whether it got to its end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lab_utils.clients.reader import COORDINATORS, ConcurrentReader, HonestReader
from lab_utils.errors import BadArgument, StageError
from lab_utils.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"read-{request.node.name}"


def write(stage: Any, topic: str, partitions: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": stage.direct, "log_level": 0})
    for number, partition in enumerate(partitions):
        producer.produce(topic, str(number), partition=partition)
    producer.flush()


def read(reader: HonestReader, topic: str, partitions: int, **given: Any) -> list[tuple[Any, ...]]:
    rows = reader.read("03-a", topic, partitions, **given)
    return sorted(
        (row.partition, row.kind, row.offset, row.value or row.detail["drained"]) for row in rows
    )


def test_read(reader: HonestReader, stage: Any, topic: str) -> None:
    """The records of each partition, and its end, the next offset; the same when read again.

    A partition whose end was not reached in time is said to be not drained.
    """
    other = f"{topic}-other"
    for name, partitions in ((topic, [0, 2, 2]), (other, [0])):
        reader.create_topic(name, 3)
        write(stage, name, partitions)
    empty = (1, "end", 0, "true")
    expected = [
        (0, "end", 1, "true"), (0, "record", 0, "0"), empty,
        (2, "end", 2, "true"), (2, "record", 0, "1"), (2, "record", 1, "2"),
    ]  # fmt: skip

    assert expected == read(reader, topic, 3)
    assert [*expected[:3], (2, "end", 0, "true")] == read(reader, other, 3)
    # The fourth partition does not exist, so its end never comes.
    assert [*expected, (3, "end", None, "false")] == read(reader, topic, 4, timeout_s=1)


def test_log_that_begins_later(reader: HonestReader, stage: Any, topic: str) -> None:
    """What was deleted is not there, what is left is read, and the end says where it begins."""
    reader.create_topic(topic, 1)
    write(stage, topic, [0, 0, 0])
    admin = AdminClient({"bootstrap.servers": stage.direct})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        deleted.result(10)
    record, end = reader.read("03-a", topic, 1)

    assert (2, "2") == (record.offset, record.value)
    assert (3, {"drained": "true", "start": "2"}) == (end.offset, end.detail)


def test_topics(reader: HonestReader, topic: str) -> None:
    """Asked before the broker knows of a topic, one waits; a topic of nobody has no partitions.

    One that cannot be created is an error that says why.
    """
    assert 0 == reader.partitions(topic, timeout_s=0.1)
    later = threading.Timer(0.5, reader.create_topic, (topic, 2))
    later.start()
    assert 2 == reader.partitions(topic)
    later.join()

    with pytest.raises(StageError, match=r"'a b' could not be created: .*a b"):
        reader.create_topic("a b", 2)


def test_setting_of_a_topic_that_no_broker_takes(reader: HonestReader, topic: str) -> None:
    """The person who wrote it corrects it: the stage is well."""
    for config, said in (
        ({"min.insync.replica": "2"}, "Unknown topic config name: min.insync.replica"),
        ({"max.message.bytes": "many"}, "Invalid value many for configuration max.message.bytes"),
    ):
        with pytest.raises(BadArgument, match=rf"'{topic}': {said}.*\. .*Correct topic_config"):
            reader.create_topic(topic, 1, config=config)


def test_broker_that_is_gone(topic: str) -> None:
    """Nothing is created, and it is said where to look; no log is drained, and none is stable."""
    reader = HonestReader("127.0.0.1:1")

    with pytest.raises(StageError, match=r"created: no answer within 1 s\. .* Look at `lab`"):
        reader.create_topic(topic, 1, timeout_s=1)
    assert [(0, "end", None, "false"), (1, "end", None, "false")] == read(
        reader, topic, 2, timeout_s=0.3
    )
    assert not reader.is_stable(topic, 1)
    reader.close()


def test_concurrent_reader_whose_broker_is_away(
    reader: HonestReader, stage: Any, topic: str
) -> None:
    """It asks again until its time is over, says that it saw no end, and keeps what it was given.

    Its thread died of the first question without an answer, and a run did not say so.
    """
    reader.create_topic(topic, 1)
    write(stage, topic, [0])
    concurrent = ConcurrentReader(stage.direct, "06-a", [topic], 1)
    concurrent.start()
    wait_until(lambda: concurrent.seen, "the record that is in the topic", timeout_s=60)
    stage.broker("pause", 1)
    try:
        rows = concurrent.finish()
    finally:
        stage.broker("resume", 1)

    assert not concurrent.is_done
    assert ["0"] == [row.value for row in rows]


def test_coordinators_are_found_on_broker_3(stage_of_three: Any) -> None:
    """Nobody who came first has placed them by chance, and they come back when it does.

    In one stage of three broker 1 was the group's coordinator, and 2 of about 25 runs that took its
    power never ended.
    """
    reader = HonestReader(stage_of_three.direct)
    admin = AdminClient({"bootstrap.servers": stage_of_three.direct})

    def led_by() -> set[int]:
        topics = admin.list_topics(timeout=10).topics
        return {place.leader for name in COORDINATORS for place in topics[name].partitions.values()}

    replicas = [
        place.replicas
        for name in COORDINATORS
        for place in admin.list_topics(timeout=10).topics[name].partitions.values()
    ]
    stage_of_three.broker("stop", 3)
    wait_until(lambda: 3 not in led_by(), "another leader than broker 3", timeout_s=60)
    stage_of_three.broker("start", 3)
    reader.place_coordinators()
    reader.close()

    assert 51 * [[3, 2, 1]] == replicas
    # One broker has said so; the others hear of it in their own time.
    wait_until(lambda: led_by() == {3}, "each coordinator on broker 3", timeout_s=60)
