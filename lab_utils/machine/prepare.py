"""Everything that is made or fetched once for a machine, so that a lab then starts in a second."""

from __future__ import annotations

from pathlib import Path

from lab_utils.machine.broker import Broker, new_ports
from lab_utils.machine.jars import CURRENT, Progress, spark_kafka_jars
from lab_utils.machine.quick_start import Kafka, make_once, quick_kafka
from lab_utils.machine.settings import Node


def prepare(progress: Progress = lambda _: None, version: str = CURRENT) -> Kafka:
    """Find or fetch Java, this Kafka and Spark's connector; make the template and the archive.

    Raises SetupError or StageError when something cannot be had; what is there then is whole.
    """
    kafka = quick_kafka(progress, version)
    spark_kafka_jars(progress)
    make_once(
        kafka.archive,
        lambda aside: _make_archive(kafka, aside),
        lambda: progress("starting Kafka once, to keep its classes for quicker starts"),
    )
    return kafka


def _make_archive(kafka: Kafka, archive: Path) -> None:
    """Let a broker that is stopped properly write its archive.

    A JVM that cannot make one runs without it, only slower.
    """
    broker = Broker(kafka, archive.with_name("broker"), Node(1, new_ports(proxy=1)))
    broker.start(f"-XX:ArchiveClassesAtExit={archive}")
    broker.stop()
