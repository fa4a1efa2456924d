"""What an administrator does to a run's topic while a workload uses it."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from lab_utils.waiting import wait_until

DONE_S = 10


def add_partition(bootstrap: str, topic: str) -> None:
    """Give the topic one more partition; return when the broker lists it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "admin", "log_level": 0})

    def count() -> int:
        return len(admin.list_topics(topic, timeout=DONE_S).topics[topic].partitions)

    wanted = count() + 1
    for created in admin.create_partitions([NewPartitions(topic, wanted)]).values():
        created.result(DONE_S)
    wait_until(lambda: count() == wanted, f"partition {wanted - 1}", timeout_s=DONE_S)
