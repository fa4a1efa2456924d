"""What the event log gives to which run."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from lab_utils.ledger.events import Event
from lab_utils.ledger.store import read_ledger
from lab_utils.stage.event_log import EventLog


@pytest.mark.parametrize(
    ("run", "api", "topic", "kept"),
    [
        ("03-a", "Metadata", None, 1),
        ("", "DeleteRecords", "03-b-orders", 1),
        ("another", "DeleteTopics", None, 1),
        ("", None, None, 1),
        ("", "Metadata", "03-a-orders", 0),
        ("", "Fetch", "03-a-orders", 0),
        ("", "Produce", "03-b-orders", 0),
        ("", "Produce", "03-a-orders", 1),
        ("another", "Produce", "03-a-orders", 1),
        ("", "Produce", "__consumer_offsets", 1),
        ("", "Produce", "8c5d2f0e-6f5b-4f0a-9c53-0a4a3f1b2c3d", 1),
        ("", "OffsetCommit", "03-a-orders", 1),
        ("", "TxnOffsetCommit", "03-a-orders", 1),
        ("", "OffsetCommit", "03-b-orders", 0),
        ("", "CreatePartitions", "__consumer_offsets", 1),
        ("", "CreatePartitions", None, 1),
        ("", "CreatePartitions", "03-b-orders", 0),
    ],
)
def test_who_changes_the_cluster_is_seen_in_each_run(
    tmp_path: Path, run: str, api: str | None, topic: str | None, kept: int
) -> None:
    """Under whatever name it is asked for; what a client needs belongs to its own run alone.

    Who writes to a topic of the run takes part in it.
    """
    log = EventLog()
    log.open("03-a", tmp_path)
    for kind in ("request", "response"):
        log.record(Event(run=run, source="wire", actor="rdkafka", kind=kind, api=api, topic=topic))
    log.close("03-a")
    rows = read_ledger(tmp_path)

    assert ["03-a"] * kept * 2 == [event.run for event in rows]
    assert [run != "03-a"] * kept * 2 == ["outside" in event.detail for event in rows]


def test_a_run_that_is_closed_holds_no_file(tmp_path: Path) -> None:
    """A stage lives through hundreds of runs, and may have so many files open and no more."""

    def held() -> list[str]:
        return [it.path for it in psutil.Process().open_files() if str(tmp_path) in it.path]

    log = EventLog()
    log.open("03-a", tmp_path)
    before = held()
    log.close("03-a")

    assert (1, []) == (len(before), held())
