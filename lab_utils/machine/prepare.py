"""Everything that is made or fetched once for a machine, so that a lab then starts in a second."""

from __future__ import annotations

import tempfile
from pathlib import Path

from filelock import FileLock

from lab_utils.folders import cache_folder
from lab_utils.machine.broker import Broker, new_ports
from lab_utils.machine.jars import spark_kafka_jars
from lab_utils.machine.quick_start import Kafka, Progress, quick_kafka
from lab_utils.machine.settings import Node


def prepare(progress: Progress = lambda _: None) -> Kafka:
    """Find or fetch Java, Kafka and Spark's connector; make the template and the archive.

    Raises SetupError or StageError when something cannot be had; what is there then is whole.
    """
    kafka = quick_kafka(progress)
    spark_kafka_jars(progress)
    if not kafka.archive.exists():
        with FileLock(cache_folder() / "archive.lock"):
            if not kafka.archive.exists():
                progress("starting Kafka once, to keep its classes for quicker starts")
                _make_archive(kafka)
    return kafka


def _make_archive(kafka: Kafka) -> None:
    """Let a broker that is stopped properly write its archive aside, then rename it into place."""
    with tempfile.TemporaryDirectory(prefix="archiving-", dir=cache_folder()) as folder:
        archive = Path(folder) / "kafka.jsa"
        broker = Broker(kafka, Path(folder) / "broker", Node(1, new_ports(proxy=1)))
        broker.start(f"-XX:ArchiveClassesAtExit={archive}")
        broker.stop()
        if archive.exists():  # A JVM that cannot make one runs without it, only slower.
            archive.replace(kafka.archive)
