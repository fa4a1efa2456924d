"""A power cut, simulated: the log of a broker is cut back to what had been flushed to disk.

SIGKILL takes nothing that a broker has written: the system's page cache keeps it. What a power cut
takes is what was not yet flushed (fsync). A broker notes up to where each log is flushed in
`recovery-point-offset-checkpoint`; everything behind that is removed here, while it is dead.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab_utils.errors import WaitTimeout
from lab_utils.proxy.faults.broker_fault import BrokerFault, Process
from lab_utils.waiting import wait_until

CHECKPOINT: Final = "recovery-point-offset-checkpoint"
CHECKPOINT_S: Final = 2
INDEXES: Final = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot")


@dataclass(frozen=True, repr=False)
class power_cut(BrokerFault):  # noqa: N801 - called as a function
    """A simulation: SIGKILL, and the log is cut back to what had been flushed to disk."""

    sentence = "Cut the power of broker {broker} (a simulation)"
    verb, event, is_deaf = "power_cut", "power_cut", True

    @classmethod
    def perform(cls, process: Process) -> None:  # noqa: D102
        wait_for_checkpoint(process.data_folder)
        process.kill()
        cut_power(process.data_folder)


def recovery_points(data: Path) -> dict[str, int]:
    """Up to which offset each partition's folder has been flushed."""
    # Two lines, a version and a count, then `topic partition offset` on each.
    lines = (data / CHECKPOINT).read_text(encoding="utf-8").splitlines()[2:]
    rows = (line.rsplit(" ", 2) for line in lines)
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}


def wait_for_checkpoint(data: Path) -> None:
    """Wait until the broker has noted anew up to where its logs are flushed."""
    since_ns = time.time_ns()
    # A broker that notes nothing more is dead, and what it noted last is what it had flushed.
    with suppress(WaitTimeout):
        wait_until(
            lambda: (data / CHECKPOINT).stat().st_mtime_ns > since_ns,
            "the broker's checkpoint of its flushed logs",
            timeout_s=CHECKPOINT_S,
        )


def cut_power(data: Path) -> None:
    """Remove what was not flushed.

    Kafka's own topics are spared: the lab is about the learner's records.
    """
    flushed = recovery_points(data)
    for folder in data.iterdir():
        if folder.is_dir() and not folder.name.startswith("__"):
            _cut(folder, flushed.get(folder.name, 0))
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)


def _cut(folder: Path, recovery_point: int) -> None:
    """Truncate the segments of a partition; indexes are built anew from what is left."""
    from lab_utils.codec.batches import read_segment

    is_cut = False
    for segment in folder.glob("*.log"):
        batches = list(read_segment(segment))
        kept = [batch for batch in batches if batch.base_offset < recovery_point]
        if len(kept) < len(batches):
            is_cut = True
            with segment.open("r+b") as file:
                file.truncate(sum(batch.size for batch in kept))
    if is_cut:
        for pattern in INDEXES:
            for path in folder.glob(pattern):
                path.unlink()
