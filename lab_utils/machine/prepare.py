"""Everything that is made or fetched once for a machine, so that a lab then starts in a second."""

from __future__ import annotations

import signal
from pathlib import Path

from lab_utils.machine.broker import Broker, new_ports
from lab_utils.machine.guardian import Guardian
from lab_utils.machine.jars import CURRENT, Progress, fetch, locked, remove_damaged
from lab_utils.machine.quick_start import ARCHIVED_S, Kafka, make_archive, quick_kafka
from lab_utils.machine.settings import Node
from lab_utils.waiting import wait_until


def prepare(progress: Progress = lambda _: None, version: str = CURRENT) -> Kafka:
    """Find or fetch Java, this Kafka and Spark's connector; make the template and the archive.

    Raises SetupError or StageError when something cannot be had; what is there then is whole.
    """
    remove_damaged(locked())
    kafka = quick_kafka(progress, version)
    fetch(locked("spark"), progress)
    make_archive("Kafka", kafka.archive, lambda aside: make_by_ending(kafka, aside), progress)
    return kafka


def make_by_ending(kafka: Kafka, archive: Path) -> None:
    """Let a broker that is stopped properly write its archive; it ends with this process."""
    guardian = Guardian(archive.parent)
    node = Node(1, new_ports(proxy=1))
    broker = Broker(kafka, archive.with_name("broker"), node, guardian=guardian)
    try:
        broker.start(f"-XX:ArchiveClassesAtExit={archive}")
        broker.send(signal.SIGTERM)
        # Its own stop() would kill it while it writes, and leave a part of an archive.
        wait_until(lambda: broker.pid is None, "Java to write it", timeout_s=ARCHIVED_S)
    finally:
        broker.kill()
        guardian.close()
