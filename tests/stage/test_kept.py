"""What a stage keeps of its runs: nothing grows with the number of runs whose topics are gone."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Producer

from lab_utils.clients.reader import HonestReader
from lab_utils.codec.list_offsets import Offsets
from lab_utils.codec.log_files import LogEnd
from lab_utils.machine.prepare import prepare
from lab_utils.stage.cluster import Cluster
from lab_utils.stage.settling import until
from tests.called import result_of

pytestmark = pytest.mark.kafka

PARTITIONS = 20
KEPT = (LogEnd, Offsets, UUID)


def kept() -> Counter[str]:
    """How many objects there are of the kinds that a stage keeps for a topic or a partition."""
    gc.collect()
    return Counter(type(it).__name__ for it in gc.get_objects() if type(it) in KEPT)


@contextmanager
def reading(cluster: Cluster) -> Iterator[HonestReader]:
    """The lab's own connection, past the proxy."""
    reader = HonestReader(cluster.direct)
    yield reader
    reader.close()


def send(cluster: Cluster, run: str, topic: str) -> None:
    """A record to each partition, through the proxy, which reads the topic's id meanwhile."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": run})
    for partition in range(PARTITIONS):
        producer.produce(topic, b"0", partition=partition)
    assert 0 == producer.flush(60)


async def perform(cluster: Cluster, reader: HonestReader, folder: Path, run: str) -> str:
    """A run whose partitions are written to and looked at, to their ends; its topic."""
    topic = f"{run}-orders"
    await asyncio.to_thread(reader.create_topic, topic, PARTITIONS)
    cluster.open_run(run, folder)
    await asyncio.to_thread(send, cluster, run, topic)
    assert await cluster.close_run(run, [topic]) is None
    return topic


async def story(folder: Path) -> list[Counter[str]]:
    """What is kept after each of three runs, when its topic has been deleted."""
    cluster, found = Cluster(prepare(), folder), []
    try:
        await cluster.open()
        with reading(cluster) as reader:
            for run in ("kept-a", "kept-b", "kept-c"):
                topic = await perform(cluster, reader, folder, run)
                assert PARTITIONS == len(cluster.partitions(topic))
                await asyncio.to_thread(reader.delete_topics, [topic])
                assert await until(lambda topic=topic: not cluster.partitions(topic), 60)
                # What the last look has asked for may be under way.
                assert await until(lambda: not kept()["Offsets"], 60)
                found.append(kept())
    finally:
        await cluster.close()
    return found


def test_nothing_is_kept_of_topics_that_are_gone(state: Path) -> None:
    """Neither where their logs end, nor how far they may be read; nor, with the next run, ids."""
    state.mkdir()
    _, second, third = result_of(story(state))

    assert second == third
    assert 0 == third["LogEnd"]
