"""A run's log read back: both isolation levels, markers, and the coordinator's own log."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lab_utils import readback
from lab_utils.clients.live_run import LiveRun
from lab_utils.codec.transaction_log import STATES, partition_of
from lab_utils.folders import stage_folder
from lab_utils.ledger.events import Event
from tests.performed import Perform, in_transaction, kafka_tool, sending, values

pytestmark = pytest.mark.kafka


def committed_and_aborted(run: LiveRun, name: str = "") -> None:
    producer = run.producer({"transactional.id": name or run.topic})
    producer.init_transactions()
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(run.topic, run.orders[number], partition=0)
        producer.flush()
        end()


def left_open(run: LiveRun) -> None:
    in_transaction(run, run.orders[0], **{"transaction.timeout.ms": 3000})
    plain = run.producer()
    plain.produce(run.topic, run.orders[1], partition=0)
    plain.flush()


def end(rows: list[Event]) -> tuple[int | None, str | None, str]:
    (row,) = [row for row in rows if (row.source, row.kind) == ("log", "end")]
    return row.offset, row.detail.get("last_stable"), row.detail["drained"]


def test_both_isolation_levels(perform: Perform) -> None:
    """Every record is there, the committed one is visible, and each marker has an offset."""
    rows = perform(committed_and_aborted)
    markers = [(row.offset, row.detail["type"]) for row in rows if row.kind == "marker"]

    assert ("0 1", "0") == (values(rows, "record"), values(rows, "visible"))
    assert [(1, "COMMIT"), (3, "ABORT")] == markers
    assert (4, "4", "true") == end(rows)


def test_a_name_that_another_run_had(perform: Perform) -> None:
    """What the coordinator wrote of it before this run is not of this run."""
    first, second = (
        [row.detail["state"] for row in perform(lambda run: committed_and_aborted(run, "billing"))
         if row.kind == "transaction"]
        for _ in range(2)
    )  # fmt: skip

    assert first == second
    assert 1 == first.count("CompleteCommit")


def test_a_line_that_is_being_written(tmp_path: Path) -> None:
    """Where a line is not whole yet, also behind its first brace, it is left for the next look."""
    whole = b'{"run":"r","source":"wire","detail":{"group_id":"billing"}}\n'
    later = whole.replace(b"billing", b"later")
    for end in range(len(later)):
        (tmp_path / "wire.jsonl").write_bytes(whole + later[:end])

        assert {"billing"} == readback.group_ids(tmp_path)


def test_what_the_coordinator_wrote(perform: Perform) -> None:
    """Intent, decision and completion of each transaction, in the predicted partition."""
    rows = [row for row in perform(committed_and_aborted) if row.kind == "transaction"]

    assert [
        "Empty", "Ongoing", "PrepareCommit", "CompleteCommit",
        "Ongoing", "PrepareAbort", "CompleteAbort",
    ] == [row.detail["state"] for row in rows]  # fmt: skip
    assert {partition_of(rows[0].detail["transactional_id"])} == {row.partition for row in rows}


def test_open_transaction(perform: Perform) -> None:
    """A transaction that was left open hides the plain order behind it."""
    rows = perform(left_open)

    assert ("0 1", "") == (values(rows, "record"), values(rows, "visible"))
    assert (2, "0", "true") == end(rows)


def test_until_stable(perform: Perform) -> None:
    """Who waits until its time is up is given the plain order, and sees the abort."""
    rows = perform(left_open, until_stable=True)

    assert "1" == values(rows, "visible")
    assert (3, "3", "true") == end(rows)


def test_not_stable_in_time(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited in vain says that the log was not drained."""
    monkeypatch.setattr(readback, "STABLE_TIMEOUT_S", 0.1)

    assert (2, "0", "false") == end(perform(left_open, until_stable=True))


def compressed(run: LiveRun, bootstrap: str | None = None) -> None:
    given = {"compression.type": "gzip"}
    around = {**given, "bootstrap.servers": bootstrap}
    producer = Producer(around) if bootstrap else run.producer(given)
    for order in run.orders:
        # What does not become shorter is sent as it is.
        producer.produce(run.topic, order * 500, partition=0)
        producer.flush(10)


def test_what_is_compressed(perform: Perform, stage: Any) -> None:
    """It is read as anything else; in an examination no broker takes it, and nobody reads it."""
    rows = perform(compressed, orders=2)
    examined = perform(compressed, orders=2, is_examined=True)
    answers = {row.error for row in examined if (row.kind, row.api) == ("response", "Produce")}

    assert (f"{'0' * 500} {'1' * 500}", "true") == (values(rows, "record"), end(rows)[-1])
    assert ("", "true") == (values(examined, "record"), end(examined)[-1])
    assert {"UNSUPPORTED_COMPRESSION_TYPE"} == answers

    past = perform(lambda run: compressed(run, stage.direct), is_examined=True)

    assert ("", "false") == (values(past, "record"), end(past)[-1])


@pytest.mark.parametrize("limit", ["EXAMINED_RECORDS", "EXAMINED_BYTES"])
def test_more_than_is_examined(
    perform: Perform, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Nothing is read of it; otherwise all is."""
    monkeypatch.setattr(readback, limit, 1)
    rows, examined = perform(sending()), perform(sending(), is_examined=True)

    assert ("0 1 2", "true") == (values(rows, "record"), end(rows)[-1])
    assert ("", "false") == (values(examined, "record"), end(examined)[-1])


def test_kafka_reads_the_same(perform: Perform, stage: Any) -> None:
    """Kafka's own tool finds in the coordinator's log what we find there."""
    rows = [row for row in perform(committed_and_aborted) if row.kind == "transaction"]
    folder = stage_folder(stage.name) / "broker-1" / "data"
    segment = folder / f"__transaction_state-{rows[0].partition}" / f"{0:020}.log"
    name = rows[0].detail["transactional_id"]

    assert [entry for entry in dumped(segment) if entry[0] == name] == [
        (
            row.detail["transactional_id"],
            row.detail["state"],
            row.producer_id,
            row.producer_epoch,
            sorted(json.loads(row.detail["partitions"])),
        )
        for row in rows
    ]


def dumped(segment: Path) -> list[tuple[Any, ...]]:
    """The entries of a segment as Kafka's DumpLogSegments prints them."""
    said = kafka_tool("DumpLogSegments", "--transaction-log-decoder", "--files", str(segment))
    found = re.findall(r"key: (\{.*?\}) payload: (\{.*\})$", said, flags=re.MULTILINE)
    return [_entry(json.loads(key)["data"], json.loads(value)["data"]) for key, value in found]


def _entry(key: dict[str, Any], value: dict[str, Any]) -> tuple[Any, ...]:
    places = sorted(
        f"{each['topic']}-{number}"
        for each in value["transactionPartitions"] or []
        for number in each["partitionIds"]
    )
    state = STATES[value["transactionStatus"]]
    return key["transactionalId"], state, value["producerId"], value["producerEpoch"], places
