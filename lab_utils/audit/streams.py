"""Spark as the consumer: a driver of this process's own, whose batches come to a point.

    the workload ── PySpark ──▶ JVM, local[1] ── Kafka's Java client ──▶ the proxy
       reached() ◀── "a batch is in its sink, and nothing says so yet" ──╯

When a batch is done, Spark writes an entry into the commit log of the query's checkpoint; the sink
of files first writes a list of its new files. Both logs write through a CheckpointFileManager. An
object of this module takes its place: it calls `reached`, and then lets Spark's own write.

Several queries go on batch by batch, together. So one death finds each of them at that point.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit import spark_server
from lab_utils.errors import LabError, own_lines
from lab_utils.machine.jars import fetch, locked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MASTER: Final = "local[1]"
MANAGER: Final = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"
# How long a query waits for the others before it goes on alone.
TOGETHER_S: Final = 60
ENDED: Final = "terminated with exception: "


class StreamFailed(LabError):
    """A streaming query that did not come to its end; the message is what ended it."""


class Streams:
    """The streaming queries of one process, and the Spark that runs them.

    folder     keeps their checkpoints, which a successor of this process finds again
    client_id  names this process in the ledger, and the folder of its Spark
    reached    is called when each query has a batch in its sink, and nothing says so yet
    """

    def __init__(
        self, folder: Path, bootstrap: str, client_id: str, reached: Callable[[], None]
    ) -> None:
        self._folder = folder
        # What of it the ledger names: its requests.
        self._kafka = {"kafka.bootstrap.servers": bootstrap, "kafka.client.id": client_id}
        # In a sandbox each process may have the id of the one before.
        self._spark = _driver(folder / client_id)
        self._queries: list[StreamingQuery] = []
        self._reached = reached
        self._are_all_started = Event()
        self._together = Barrier(1)
        self._spark.streams.addListener(_listener(self._started))

    def read(self, topic: str, options: Mapping[str, object]) -> DataFrame:
        """The topic as a streaming DataFrame: value STRING, timestamp TIMESTAMP."""
        settings = {
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "2",
            **self._kafka,
            **{name: str(value) for name, value in options.items()},
        }
        records = self._spark.readStream.format("kafka").options(**settings).load()
        return records.selectExpr("CAST(value AS STRING) AS value", "timestamp")

    def start(self, writer: DataStreamWriter, name: str) -> None:
        """Start a query that ends when it has read what is there; its checkpoint has this name."""
        place = str(self._folder / "checkpoints" / name)
        writer = writer.options(checkpointLocation=place, **self._kafka)
        self._queries.append(writer.trigger(availableNow=True).start())

    def wait(self) -> None:
        """Let the queries that have been started go on to their end; raises StreamFailed."""
        from pyspark.errors import StreamingQueryException

        if self._queries:
            self._together = Barrier(len(self._queries), self._reached)
        self._are_all_started.set()
        for query in self._queries:
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                at = "".join(f", at line {it.lineno} of {it.name}" for it in own_lines(error)[-1:])
                raise StreamFailed(f"a streaming query ended: {_reason(str(error))}{at}.") from None

    def _started(self, query_id: str) -> None:
        """Stand between a query and its logs, before its first batch."""
        query: Any = self._spark.streams.get(query_id)
        execution = query._jsq.streamingQuery()
        # A sink of files has a log of its own, and says there first that a batch is done.
        sink = execution.sink()
        files = _field(sink, "fileLog")
        log = files.get(sink) if files else execution.commitLog()
        manager = _field(log, "fileManager")
        assert manager is not None, query_id
        manager.set(log, _Standing(manager.get(log), self._come))

    def _come(self) -> None:
        self._are_all_started.wait()
        with suppress(BrokenBarrierError):  # the others have ended, or take too long
            self._together.wait(TOGETHER_S)


class _Standing:
    """Stands in for Spark's own CheckpointFileManager, and forwards every call to it."""

    class Java:
        """What py4j reads."""

        implements: Final = (MANAGER,)

    def __init__(self, own: Any, come: Callable[[], None]) -> None:
        self._own = own
        self._come = come

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def createAtomic(self, path: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Spark is about to write that a batch is done."""
        self._come()
        return self._own.createAtomic(path, overwrite)


def _field(owner: Any, name: str) -> Any:
    """Java's field of this name, whoever may read it, of the object's class or of one above."""
    kind = owner.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            # Scala puts the class's own name before that of a field which a closure uses.
            if field.getName().rpartition("$$")[2] == name:
                field.setAccessible(True)
                return field
        kind = kind.getSuperclass()
    return None


def _driver(folder: Path) -> SparkSession:
    """A Spark in a JVM of this process's own; what it prints goes into `folder`."""
    (folder / "tmp").mkdir(mode=0o700, parents=True)
    jars = os.environ.get("LAB_SPARK_JARS") or ",".join(map(str, fetch(locked("spark"))))
    settings = {
        **spark_server.local_settings(folder / "tmp", spark_server.reading_archive()),
        **spark_server.LOCAL,
        "spark.master": MASTER,
        "spark.jars": jars,
    }
    properties = spark_server.write_properties(folder, settings)
    # A notebook's Python speaks Spark Connect; this one has the JVM beside it.
    ours = spark_server.local_environment()
    for name in os.environ.keys() - ours:
        del os.environ[name]
    os.environ |= ours | {
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {shlex.quote(str(properties))} pyspark-shell",
    }
    from pyspark.sql import SparkSession

    with _printing_to(folder / "spark.log"):
        return SparkSession.builder.getOrCreate()


def _reason(said: str) -> str:
    r"""Why a query ended, in a line: what the program's own function raised, or Spark itself.

    >>> _reason("Query [id] terminated with exception: gone\n=== Streaming Query ===\nState: A")
    'gone'
    >>> _reason("Reason: Traceback:\n  File 'x', line 1\n    f()\nValueError: 1\nmore")
    'ValueError: 1'
    """
    lines = said.partition("=== Streaming")[0].strip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("    ")]
    line = lines[frames[-1] + 1] if frames and frames[-1] + 1 < len(lines) else lines[0]
    return line.rpartition(ENDED)[2].strip().rstrip(".")


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Let programs that are started meanwhile print there."""
    kept = os.dup(1), os.dup(2)
    with log.open("ab") as lines:
        for number in (1, 2):
            os.dup2(lines.fileno(), number)
    try:
        yield
    finally:
        for number, own in enumerate(kept, start=1):
            os.dup2(own, number)
            os.close(own)


def _listener(started: Callable[[str], None]) -> Any:
    """A listener that is told of each query before its first batch."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
            started(str(event.id))

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            pass

    return Listener()
