"""What the event log gives to which run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_utils.ledger.events import Event
from lab_utils.ledger.store import read_ledger
from lab_utils.stage.event_log import EventLog


@pytest.mark.parametrize(
    ("run", "api", "kept"),
    [
        ("03-a", "Metadata", 1),
        ("", "DeleteRecords", 1),
        ("another", "DeleteTopics", 1),
        ("", None, 1),
        ("", "Metadata", 0),
        ("", "Produce", 0),
    ],
)
def test_who_changes_the_cluster_is_seen_in_each_run(
    tmp_path: Path, run: str, api: str | None, kept: int
) -> None:
    """Under whatever name it is asked for; what a client needs belongs to its own run alone."""
    log = EventLog()
    log.open("03-a", tmp_path)
    log.record(Event(run=run, source="wire", actor="rdkafka", kind="request", api=api))
    log.close("03-a")

    assert ["03-a"] * kept == [event.run for event in read_ledger(tmp_path)]
