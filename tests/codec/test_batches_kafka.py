"""What we read in a segment file is what Kafka's own tool reads in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lab_utils.codec.batches import Batch, read_segment
from lab_utils.folders import stage_folder
from lab_utils.waiting import wait_until
from tests.performed import kafka_tool

pytestmark = pytest.mark.kafka


def dump(segment: Path) -> str:
    """The segment as Kafka's DumpLogSegments prints it."""
    return kafka_tool("DumpLogSegments", "--print-data-log", "--files", str(segment))


def said(line: str) -> tuple[str, ...]:
    columns = ("baseOffset", "count", "baseSequence", "producerId", "producerEpoch",
               "isTransactional", "isControl", "CreateTime")  # fmt: skip
    found = dict(re.findall(r"(\w+): (\S+)", line))
    return tuple(found[column] for column in columns)


def ours(batch: Batch) -> tuple[str, ...]:
    return tuple(
        str(value).lower()
        for value in (
            batch.base_offset, batch.count, batch.sequence, batch.producer_id,
            batch.producer_epoch, batch.is_transactional, batch.is_control, batch.timestamp_ms,
        )
    )  # fmt: skip


@pytest.fixture
def segment(stage: Any, reader: Any) -> Path:
    """A segment with plain, packed, idempotent, committed and aborted batches."""
    topic = "all-kinds-of-batches"
    reader.create_topic(topic, 1)
    base = {"bootstrap.servers": stage.direct, "log_level": 0}
    for config, values in (
        ({}, ("a", "", "c" * 300)),
        ({"compression.type": "gzip", "linger.ms": 50}, ("packed",) * 3),
        ({"enable.idempotence": True}, ("d", "e")),
    ):
        producer = Producer({**base, **config})
        for value in values:
            producer.produce(topic, value, key="k", partition=0)
        producer.flush()
    producer = Producer({**base, "transactional.id": topic})
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, "t", partition=0)
        producer.flush()
        end()
    (path,) = stage_folder(stage.name).rglob(f"{topic}-0/*.log")
    # A commit is answered before its marker is in the log.
    wait_until(lambda: sum(b.is_control for b in read_segment(path)) == 2, "markers", timeout_s=60)
    return path


def test_batches_are_those_of_kafkas_tool(segment: Path) -> None:
    """Offsets, counts, producer ids, sequences, timestamps, markers and values are the same."""
    text, batches = dump(segment), list(read_segment(segment))
    values = [
        (record.value or b"").decode()
        for batch in batches
        if not (batch.is_control or batch.compression)
        for record in batch.records
    ]

    assert [said(line) for line in text.splitlines() if line.startswith("baseOffset")] == [
        ours(batch) for batch in batches
    ]
    assert ["COMMIT", "ABORT"] == [batch.marker for batch in batches if batch.is_control]
    assert ["COMMIT", "ABORT"] == re.findall(r"endTxnMarker: (\w+)", text)
    assert values == [value for value in re.findall(r"payload: (.*)", text) if value != "packed"]
    assert any(batch.compression for batch in batches)
