"""The Spark session of the audit, and the two things it reads: a ledger, and a topic.

All notebooks of one state folder share one local JVM (audit/spark_server.py) through Spark Connect.
SPARK_REMOTE (sc://…) or SPARK_MASTER (spark://…) in the environment send the same queries
elsewhere. This module knows the ledger, and neither brokers nor findings.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab_utils.audit import spark_server
from lab_utils.audit.spark_server import SparkServer
from lab_utils.errors import LedgerError
from lab_utils.ledger.events import spark_schema
from lab_utils.ledger.store import torn_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCAL_MASTER: Final = "local[2]"


class _Shared:
    """The one session of this process, and the thread that may be starting it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: SparkSession | None = None
        self.server: SparkServer | None = None
        self.warming: threading.Thread | None = None


_shared = _Shared()


def spark() -> SparkSession:
    """The Spark session of this process, started if need be.

    Raises StageError with the end of Spark's log if it does not start.
    """
    with _shared.lock:
        if _shared.session is None or _is_gone():
            _shared.session = _new_session()
        return _shared.session


def shared_address() -> str:
    """Where the shared local server answers, as SPARK_REMOTE takes it; started if need be."""
    spark()
    assert _shared.server is not None, "SPARK_REMOTE or SPARK_MASTER names another one"
    return _shared.server.address


def warm_up(rehearse: Callable[[], object] = lambda: None) -> None:
    """Begin to start Spark in the background; an error in it is raised by spark(), not here.

    If Spark was not running yet, `rehearse` follows: what it asks for the first time loads classes
    and plans, for seconds, while a learner reads.
    """
    if _shared.session is None and _shared.warming is None:
        _prepare_environment()
        _shared.warming = threading.Thread(
            target=_try_to_start, args=(rehearse,), name="spark", daemon=True
        )
        _shared.warming.start()


def wait_for_imports() -> None:
    """Return when pandas and pyspark are whole: Plotly takes even half of what others import."""
    import pandas
    import pyspark.sql.connect.session

    assert pandas
    assert pyspark.sql.connect.session


def stop_shared() -> None:
    """End the shared Spark server of this state folder, whoever started it, and its files."""
    if _shared.warming is not None:
        _shared.warming.join()
        _shared.warming = None
    with _shared.lock:
        _forget_session()
        spark_server.stop()


def read_events(folder: Path) -> DataFrame:
    """The ledger in `folder` as a DataFrame, one row an event; columns as in Event.

    A line that a killed witness left half written is left out, and reported as a warning.
    """
    if not any(Path(folder).glob("*.jsonl")):
        raise LedgerError(f"there is no ledger in {folder}: no file there ends in .jsonl.")
    torn = torn_lines(Path(folder))
    if torn:
        text = f"left out what is no whole event, torn when its witness ended: {', '.join(torn)}"
        warnings.warn(text, stacklevel=2)
    # DROPMALFORMED: what it drops has been named above, and a row of nulls would be counted.
    reader = spark().read.schema(spark_schema()).option("mode", "DROPMALFORMED")
    return reader.json(str(folder), pathGlobFilter="*.jsonl")


def read_topic(bootstrap: str, topic: str) -> DataFrame:
    """All records that are in a topic now, through Spark's Kafka source.

    Columns: partition INT, offset BIGINT, key STRING, value STRING, timestamp TIMESTAMP.
    """
    records = (
        spark()
        .read.format("kafka")
        .options(
            **{
                "kafka.bootstrap.servers": bootstrap,
                "subscribe": topic,
                "startingOffsets": "earliest",
                "endingOffsets": "latest",
                # Offsets may have gaps: transaction markers occupy them. A gap is no loss.
                "failOnDataLoss": "false",
            }
        )
    )
    return records.load().selectExpr(
        "partition", "offset", "CAST(key AS STRING)", "CAST(value AS STRING)", "timestamp"
    )


def _new_session() -> SparkSession:
    _prepare_environment()
    _forget_session()
    session = _joined_session()
    # What is wrong with a learner's query is said in a sentence, not in a hundred lines of Scala.
    session.conf.set("spark.sql.connect.serverStacktrace.enabled", "false")
    return session


def _joined_session() -> SparkSession:
    remote, master = _where()
    if remote is not None:
        return _pyspark().builder.remote(remote).create()
    if not master.startswith("local"):
        return _pyspark().builder.master(master).getOrCreate()
    _shared.server = spark_server.join(master, meanwhile=_pyspark)
    session = _pyspark().builder.remote(_shared.server.address).create()
    # The default goes on for ten minutes when the server is gone, while a notebook hangs.
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=4)])
    return session


def _where() -> tuple[str | None, str]:
    """The Spark Connect server that the environment names, if any, and the master to start."""
    remote = os.environ.get("SPARK_REMOTE")
    master = os.environ.get("SPARK_MASTER", LOCAL_MASTER)
    return (None, remote) if remote and remote.startswith("local") else (remote, master)


def _pyspark() -> type[SparkSession]:
    """Import pyspark with its Connect client, which takes a second or two."""
    import pyspark.sql.connect.session
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    assert pyspark.sql.connect.session
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # it writes each error that is raised anyway
    return SparkSession


def _prepare_environment() -> None:
    """What pyspark and gRPC read when they are imported: no noise, no proxy, and Connect."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("no_grpc_proxy", "localhost,127.0.0.1")
    remote, master = _where()
    if remote is not None or master.startswith("local"):
        # Then `F.col` and its like work before the session stands.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"


def _is_gone() -> bool:
    """Has the shared server ended since this process joined it, or was the state moved?"""
    return _shared.server is not None and spark_server.running() != _shared.server


def _forget_session() -> None:
    """Leave the session without a word to its server, which may be gone."""
    session, _shared.session, _shared.server = _shared.session, None, None
    if session is not None and "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        session.release_session_on_close = False  # type: ignore[attr-defined]
        session.stop()


def _try_to_start(rehearse: Callable[[], object]) -> None:
    is_joined = _where()[0] is not None or spark_server.running() is not None
    # spark() tries again, and raises it where it can be read.
    with suppress(Exception):
        spark()
        if not is_joined:
            rehearse()
