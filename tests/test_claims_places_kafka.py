"""Claims C and F of where records are, and whether they still are: ranges, keys, retention."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from lab_utils.clients.live_run import LiveRun
from lab_utils.ledger.events import Event
from lab_utils.waiting import wait_until
from tests.notebooks import further
from tests.oracle import oracle
from tests.performed import Perform, values

pytestmark = [pytest.mark.kafka, pytest.mark.long]

PLACES = "05_ranges_keys_and_threads"
FOUR = {"orders": 4, "filled": True, "partitions": 2}
# As the notebook has them.
COMPACTS = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
DELETES = {
    "expired": {"cleanup.policy": "delete", "retention.ms": "1"},
    "deleted": {"cleanup.policy": "delete"},
}


def stored_in(rows: list[Event]) -> dict[str | None, int | None]:
    """The partition of each order in the log."""
    return {row.value: row.partition for row in rows if (row.source, row.kind) == ("log", "record")}


def test_bookmark_out_of_range(perform: Perform) -> None:
    """Behind it all is read with earliest, only what comes with latest; or there is an error."""
    rows = perform(further(PLACES)["out_of_range"], orders=5, filled=True)
    answers = {row.actor for row in rows if row.error == "OFFSET_OUT_OF_RANGE"}
    told = [(row.actor, row.value or row.error) for row in rows
            if row.source == "client" and row.kind in ("delivered", "error")]  # fmt: skip

    assert {"consumer-1", "consumer-2", "consumer-3"} == answers
    assert sorted(told) == [
        ("consumer-1", "3"),
        ("consumer-1", "4"),
        ("consumer-1", "5"),
        ("consumer-2", "5"),
        ("consumer-3", "_AUTO_OFFSET_RESET"),
    ]


def test_one_key_and_two_partitions(perform: Perform) -> None:
    """CRC32 and murmur2 choose another one; with the same hash the two clients agree."""
    rows = perform(further(PLACES)["three_clients"], orders=0, partitions=3)

    assert {"0": 0, "1": 2, "2": 2} == stored_in(rows)


def test_keys_move(perform: Perform) -> None:
    """A topic that grows has one key in two partitions."""
    assert {"0": 0, "1": 1} == stored_in(perform(further(PLACES)["keys_move"], orders=2))


@pytest.mark.parametrize(
    ("workload", "done"), [("at_once", "0 1 1 2 3 3"), ("when_done", "0 1 2 3")]
)
def test_threads_and_a_rebalance(perform: Perform, workload: str, done: str) -> None:
    """What threads still have is done by the new owner, too, unless on_revoke waits for them."""
    rows = perform(further(PLACES)[workload], **FOUR)

    assert done == " ".join(sorted(values(rows, "processed", "client").split()))


def test_committed_and_deleted(perform: Perform) -> None:
    """Compaction, retention and an administrator take nine of twelve acked records.

    The oracle names the losses, with which tests/audit has Spark agree. The reader of the compacted
    topic also finds nothing at the offsets of two acks.
    """
    rows = perform(
        further("02_what_takes_a_committed_record")["committed_three_times"],
        orders=4,
        topics=tuple(DELETES),
        topic_settings=DELETES,
        topic_config=COMPACTS,
    )
    found = oracle(rows, "producing") + oracle(rows, "replication")

    assert ("2 3", "", "3") == tuple(
        values(rows, "record", topic=topic) for topic in ("orders", *DELETES)
    )
    assert {"lost-write": 9, "inconsistent-offsets": 2} == Counter(
        name for name, *_ in found.elements()
    )


def compacted_later(run: LiveRun) -> None:
    """Two orders without a key, in a topic that is compacted from then on; and one with a key."""
    producer = run.producer({"acks": "all"})
    for order in run.orders[:2]:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
    policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, run.topic, incremental_configs=[policy])
    admin = AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 0})
    admin.incremental_alter_configs([topic])[topic].result(10)
    producer.produce(run.topic, run.orders[2], key="shop-1", partition=0)
    producer.flush()
    wait_until(lambda: run.orders_in_the_log() == ["2"], "the compaction", timeout_s=20)


def test_compaction_takes_what_has_no_key(perform: Perform) -> None:
    """In a topic that is compacted only now, records without a key are not kept."""
    before = COMPACTS | {"cleanup.policy": "delete"}
    rows = perform(compacted_later, orders=3, topic_config=before)
    end = next(row for row in rows if (row.source, row.kind) == ("log", "end"))
    changed = {"source": "workload", "kind": "topic", "detail": COMPACTS}
    found = oracle([*rows, replace(end, **changed)], "producing")

    assert (["0", "1"], ["2"]) == (
        sorted(value for name, _, _, value, *_ in found.elements() if name == "lost-write"),
        values(rows, "record").split(),
    )
    assert {("superseded",)} == {tuple(it[-1]) for it in found}
