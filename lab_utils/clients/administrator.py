"""What an administrator does to a run's topic while a workload uses it."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from lab_utils.waiting import wait_until

DONE_S = 10


def add_partition(bootstrap: str, topic: str) -> None:
    """Give the topic one more partition; return when the broker lists it."""
    admin = _client(bootstrap)

    def count() -> int:
        return len(admin.list_topics(topic, timeout=DONE_S).topics[topic].partitions)

    wanted = count() + 1
    for created in admin.create_partitions([NewPartitions(topic, wanted)]).values():
        created.result(DONE_S)
    wait_until(lambda: count() == wanted, f"partition {wanted - 1}", timeout_s=DONE_S)


def in_sync(address: str, topic: str) -> list[int]:
    """The in-sync replicas of a topic's first partition, as the broker at this address says.

    What the controller decided a moment ago it may not have heard yet. A new client is used for
    each question: one that knows all brokers may ask another.
    """
    found = _client(address).list_topics(topic, timeout=DONE_S).topics[topic]
    return sorted(found.partitions[0].isrs)


def _client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "client.id": "admin", "log_level": 0})
