"""Reading a topic with Spark's own Kafka source, from a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from lab_utils.audit import session
from lab_utils.clients.reader import HonestReader
from lab_utils.errors import BadArgument

pytestmark = pytest.mark.kafka


def test_read_topic(stage: Any) -> None:
    """Every record of the topic is a row, with its key and value as text."""
    reader = HonestReader(stage.direct)
    reader.create_topic("read-topic", partitions=1)
    reader.close()
    producer = Producer({"bootstrap.servers": stage.direct, "log_level": 0})
    for number in range(3):
        producer.produce("read-topic", key="k", value=str(number), partition=0)
    producer.flush(10)
    rows = session.read_topic(stage.direct, "read-topic").orderBy("offset").collect()

    assert [(0, n, "k", str(n)) for n in range(3)] == [tuple(row)[:4] for row in rows]
    with pytest.raises(BadArgument, match=r"got 'startingOffset'\. Did you mean 'startingOffsets'"):
        session.read_topic(stage.direct, "read-topic", {"startingOffset": "latest"})
    misspelt = session.read_topic(stage.direct, "read-topic", {"kafka.isolation.level": "comitted"})
    with pytest.raises(Exception, match="comitted") as refused:
        misspelt.count()
    said = refused.value._render_traceback_()[-1]
    assert said.endswith("isolation.level: String must be one of: read_committed, read_uncommitted")


def test_aborted_records_are_read(stage: Any) -> None:
    """Spark's consumer is Java's, and by default that one is given what was aborted, too.

    One option of its source keeps it out.
    """
    reader = HonestReader(stage.direct)
    reader.create_topic("read-aborted", partitions=1)
    producer = Producer(
        {"bootstrap.servers": stage.direct, "transactional.id": "read-aborted", "log_level": 0}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("read-aborted", value="0", partition=0)
    producer.flush()
    producer.abort_transaction()
    visible, _ = reader.read_committed("", "read-aborted", 1)
    reader.close()
    rows = session.read_topic(stage.direct, "read-aborted").collect()
    level = {"kafka.isolation.level": "read_committed"}
    committed = session.read_topic(stage.direct, "read-aborted", level)

    assert ([], ["0"]) == (visible, [row.value for row in rows])
    assert 0 == committed.count()
