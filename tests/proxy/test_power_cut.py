"""A power cut leaves of each log what its broker had flushed, batch by batch."""

from __future__ import annotations

from pathlib import Path

from lab_utils.codec.batches import read_segment
from lab_utils.proxy.faults.power_cut import CHECKPOINT, cut_power
from tests.proxy.wire import batch


def test_what_was_not_flushed_is_gone(tmp_path: Path) -> None:
    """The batch at the recovery point was not; Kafka's own topics and what is flushed stay."""
    for name in ("orders-0", "orders-1", "__consumer_offsets-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(
            batch([b"0", b"1"]) + batch([b"2"], base_offset=2) + batch([b"3"], base_offset=3)
        )
    (tmp_path / CHECKPOINT).write_text("0\n2\norders 0 2\norders 1 4\n")
    cut_power(tmp_path)
    kept = {
        path.parent.name: [it.base_offset for it in read_segment(path)]
        for path in tmp_path.glob("*/*.log")
    }

    assert {"orders-0": [0], "orders-1": [0, 2, 3], "__consumer_offsets-0": [0, 2, 3]} == kept
