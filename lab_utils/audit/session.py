"""The Spark session of the audit, and the two things it reads: a ledger, and a topic.

All notebooks of one state folder share one JVM (audit/spark_server.py) through Spark Connect.
SPARK_MASTER=spark://… lets that JVM send its work to a cluster, and SPARK_REMOTE=sc://… is a Spark
Connect server that somebody else runs. This module knows the ledger, and neither brokers nor
findings.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import format_list
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lab_utils import processes
from lab_utils.audit import ledgers, spark_server
from lab_utils.audit.kept_plans import ANEW, KeptPlans, Plans
from lab_utils.audit.spark_server import LOCAL_MASTER, SparkServer
from lab_utils.errors import LabWarning, LedgerError, StageError, one_of, own_lines
from lab_utils.folders import state_folder
from lab_utils.ledger.events import spark_schema
from lab_utils.ledger.store import torn_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY_CORE: Final = "local[*]"
# From so many bytes on a ledger is worth compiling for; see settings_for().
LARGE: Final = 16 * 2**20
PART: Final = 32 * 2**20
JOINS: Final = 3
SESSIONS: Final = "sessions"
# What pyspark itself asks for while a query is put together, for the places in errors.
TO_COMPOSE: Final = (
    "spark.python.sql.dataFrameDebugging.enabled", "spark.sql.stackTracesInDataFrameContext",
)  # fmt: skip
SAID: Final = 400  # characters of what Spark says; a plan may follow that fills pages
# Where an error of Spark goes on with its plan, or with lines of Java.
PLAN: Final = re.compile(r";\n|\n\n|\n\tat |\nJVM stacktrace")
# Of Spark's Kafka source, which takes any other name without a word; kafka.… are the consumer's.
OPTIONS: Final = (
    "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "failOnDataLoss",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix", "includeHeaders",
    "kafkaConsumer.pollTimeoutMs", "maxRecordsPerPartition", "minPartitions", "startingOffsets",
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "startingTimestamp",
)  # fmt: skip
# What to do next, by how the name of the error begins.
CARD: Final = "lab.ledger_card() lists the columns of a ledger."
ADVICE: Final = {
    "UNRESOLVED_COLUMN": CARD,
    "ATTRIBUTE_NOT_SUPPORTED": CARD,
    "AMBIGUOUS": "Two of the joined tables have it. Join them on its name, as in "
    'one.join(other, "value"), or rename it in one: other.withColumnRenamed("value", "again").',
}
# Where gRPC reads what it reaches without a proxy: in the second only if the first is not set.
DIRECT: Final = ("no_grpc_proxy", "no_proxy")
LOOPBACK: Final = "localhost,127.0.0.1"


@dataclass(frozen=True, slots=True)
class _Place:
    """Which Spark server this process joins, and which it starts if there is none."""

    master: str
    folder: Path
    large: bool = False
    owner: int | None = None


class _Shared:
    """The one session of this process, and the thread that may be starting it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: SparkSession | None = None
        self.server: SparkServer | None = None
        self.own: _Place | None = None
        self.settings: dict[str, str] = {}
        self.is_large = False
        self.plans: KeptPlans | None = None
        self.warming: threading.Thread | None = None

    @property
    def place(self) -> _Place:
        """Its own server, or that of the notebooks."""
        return self.own or _Place(_master(), spark_server.spark_folder())


_shared = _Shared()


def spark() -> SparkSession:
    """The Spark session of this process, started if need be.

    Raises StageError with the reason and the end of Spark's log if it does not start.
    """
    with _shared.lock:
        if _shared.session is None or _is_gone() or _is_forgotten(_shared.session):
            _shared.session = _new_session()
        session: Any = _shared.session
        # pyspark knows which is active by thread, and it may be another one that has started it.
        session._active_session.session = session
        return _shared.session


def settings_for(size: int) -> dict[str, str]:
    """The settings of a session that reads a ledger of so many bytes.

    A query over a lab's run is planned and compiled for longer than it runs, so a small ledger is
    interpreted, in one piece, without broadcasts. Over a large one compiled code and as many parts
    as keep every core busy, and fit its memory, are what counts. Adaptive execution joins parts
    that turn out small.
    """
    if size < LARGE:
        return spark_server.SMALL
    parts = str(max(2 * (os.cpu_count() or 1), size // PART))
    return {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": parts,
        "spark.sql.files.minPartitionNum": parts,
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.autoBroadcastJoinThreshold": "10MB",
        "spark.sql.constraintPropagation.enabled": "true",
    }


def suit(size: int) -> None:
    """Let the session's settings suit a ledger of so many bytes.

    A Spark Connect server that somebody else runs keeps the settings that they have chosen.
    """
    session, wanted = spark(), settings_for(size)
    _shared.is_large = size >= LARGE
    if _shared.server is not None and wanted != _shared.settings:
        for name, value in wanted.items():
            session.conf.set(name, value)
        _shared.settings = wanted


def is_large() -> bool:
    """Was the session last suited to a large ledger?"""
    return _shared.is_large


@contextmanager
def own_spark(size: int, command: str) -> Iterator[SparkSession]:
    """A Spark for this process alone, with the JVM and the settings that so large a ledger needs.

    It ends with the block and with the process. That of the notebooks stays as it is: its heap and
    its compiler suit a lab's run. Where SPARK_REMOTE names a server, it is that one. What Spark
    cannot do in the block raises StageError, with what to try of this ./lab `command`.
    """
    from pyspark.errors import PySparkException

    stop_session()
    is_large = size >= LARGE
    master = _master(EVERY_CORE if is_large else LOCAL_MASTER)
    folder = own_folder()
    _shared.own = _Place(master, folder, is_large, os.getpid())
    try:
        suit(size)
        yield spark()
    except KeyboardInterrupt:
        with suppress(Exception):  # What runs elsewhere would run on.
            spark().interruptAll()
        raise
    except PySparkException as error:
        said = " ".join(str(error).split())[:SAID]
        raise StageError(
            f"Spark could not finish: {said}\nIf its memory was too small: "
            f"LAB_SPARK_MEMORY=4g ./lab {command} ..."
        ) from error
    finally:
        stop_session()
        spark_server.stop(folder)
        _shared.own = None


def own_folder() -> Path:
    """The folder of the Spark that own_spark() starts for this process."""
    return state_folder() / "audits" / str(os.getpid())


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


def stop_session() -> None:
    """End the session of this process, and leave its server to the others."""
    if _shared.warming is not None:
        _shared.warming.join()
        _shared.warming = None
    with _shared.lock:
        _forget_session()


def read_events(folder: Path) -> DataFrame:
    """The ledger in `folder` as a DataFrame, one row an event; columns as in Event.

    A line that a killed witness left half written is left out, and reported as a warning.
    """
    _look_at(folder)
    return _events(folder)


@contextmanager
def kept_plans(folder: Path) -> Iterator[tuple[DataFrame, Plans]]:
    """The ledger in `folder` as read_events() returns it, and how to ask about it.

    What was asked about another small ledger is not analysed again.
    """
    _look_at(folder)
    if is_large() or _shared.plans is None:
        yield _events(folder), ANEW  # a server that somebody else runs has folders of its own
        return
    with _shared.plans.of(folder) as place:
        yield _events(place), _shared.plans


def _look_at(folder: Path) -> None:
    """Let the session suit the ledger in this folder, and warn of lines that are no events."""
    files = list(Path(folder).glob("*.jsonl"))
    if not files:
        raise LedgerError(f"there is no ledger in {folder}: no file there ends in .jsonl.")
    suit(sum(file.stat().st_size for file in files))
    torn = ledgers.torn_files(spark(), folder) if is_large() else torn_lines(Path(folder))
    if torn:
        text = f"left out what is no whole event, torn when its witness ended: {', '.join(torn)}"
        warnings.warn(text, LabWarning, stacklevel=3)


def _events(place: Path) -> DataFrame:
    if is_large():
        return ledgers.whole_events(ledgers.json_rows(spark(), [ledgers.root(place)]))
    return small_ledger(spark(), ledgers.root(place))


def small_ledger(session: SparkSession, root: str) -> DataFrame:
    """The ledger in a folder as this session reads it; what it is not asked for, it does not ask.

    DROPMALFORMED: what it drops has been named, and a row of nulls would be counted.
    """
    reader = session.read.schema(spark_schema()).option("mode", "DROPMALFORMED")
    return reader.json(root, pathGlobFilter="*.jsonl")


def read_topic(
    bootstrap: str, topic: str, options: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """All records that are in a topic now, through Spark's Kafka source with these options.

    Columns: partition INT, offset BIGINT, key STRING, value STRING, timestamp TIMESTAMP.
    Raises BadArgument for an option that the source does not have.
    """
    for name in options:
        if not name.startswith("kafka."):
            one_of("an option of Spark's Kafka source", name, OPTIONS)
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
                **options,
            }
        )
    )
    return records.load().selectExpr(
        "partition", "offset", "CAST(key AS STRING)", "CAST(value AS STRING)", "timestamp"
    )


def has_session() -> bool:
    """Has this process a session of Spark, the lab's or any other?"""
    connected = sys.modules.get("pyspark.sql.connect.session")
    return connected is not None and bool(
        connected.SparkSession.getActiveSession() or connected.SparkSession._get_default_session()
    )


@contextmanager
def unasked() -> Iterator[tuple[SparkSession, list[str]]]:
    """A session without a Spark, and what it was asked for, which is refused.

    To put a query together asks Spark for nothing but TO_COMPOSE, of which the default is said.
    While the block lasts the session is the active one of this thread.
    """
    _prepare_environment()
    _pyspark()
    from pyspark.sql.connect.session import SparkSession as Connected

    session: Any = Connected(connection="sc://localhost")
    asked: list[str] = []
    session.client._stub = _Nobody(asked)
    session.client.set_retry_policies([])
    before = getattr(Connected._active_session, "session", None)
    Connected._active_session.session = session
    try:
        yield session, asked
    finally:
        _leave(session, is_ours=True)
        Connected._active_session.session = before


class _Nobody:
    """In the place of a server: says the default of a setting, and refuses all else."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def Config(self, request: Any, **_: Any) -> Any:  # noqa: N802 - a name of gRPC's
        """The default of a setting that pyspark itself asks for; nothing else has one here."""
        from pyspark.sql.connect.proto import ConfigResponse

        pairs = request.operation.get_with_default.pairs
        if not pairs or any(pair.key not in TO_COMPOSE for pair in pairs):
            return self._refuse("Config")
        return ConfigResponse(session_id=request.session_id, pairs=pairs)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self._refuse(name)

    def _refuse(self, name: str) -> Any:
        self._asked.append(name)
        raise StageError(f"this query asks Spark for something ({name}), and there is none.")


def _new_session() -> SparkSession:
    """A session with the server that the environment names, or with the one that is joined.

    A server may end between its answer and the first request: then the next one is joined.
    """
    _prepare_environment()
    _forget_session()
    if (remote := _remote()) is not None:
        session = _pyspark().builder.remote(remote).create()
        _begin(session)
        return session
    place, folder = _shared.place, _shared.place.folder
    for _ in range(JOINS):
        server = spark_server.join(
            place.master, folder, large=place.large, owner=place.owner, meanwhile=_pyspark
        )
        session = _pyspark().builder.remote(server.address).create()
        try:
            _begin(session)
            _shared.plans = _kept(session, server, folder)
        except Exception as error:
            _leave(session, is_ours=True)
            if spark_server.running(folder) == server:
                log = processes.tail(folder / "spark.log")
                raise StageError(
                    f"Spark did not start a session: {error}\nThe last lines of its log:\n{log}"
                ) from error
        else:
            _shared.server = server
            _shared.settings = {} if place.large else spark_server.SMALL
            # After pyspark's own, and therefore called before it.
            atexit.unregister(_leave_what_is_gone)
            atexit.register(_leave_what_is_gone)
            return session
    raise StageError(f"Spark did not start: {JOINS} servers ended, each as soon as it was joined.")


def _kept(session: SparkSession, server: SparkServer, folder: Path) -> KeptPlans:
    """Where the session's plans are kept; those of processes that have ended are given up.

    A killed process cannot do that itself, and its plans would fill the memory that all share.
    """
    from pyspark.errors.exceptions.connect import SparkConnectException
    from pyspark.sql.connect.client import SparkConnectClient

    mine = spark_server.own_place(folder)
    with (mine / SESSIONS).open("a") as file:
        file.write(f"{session.session_id}\n")  # type: ignore[attr-defined]
    for place in spark_server.forsaken(folder):
        for number in _lines(place / SESSIONS):
            with suppress(SparkConnectException):  # It was given up before.
                client = SparkConnectClient(f"{server.address};session_id={number}")
                client.release_session()
                client.close()
    return KeptPlans(mine)


def _lines(file: Path) -> list[str]:
    # It ended before it had a session, or joined with an earlier version of the lab.
    with suppress(FileNotFoundError, NotADirectoryError):
        return file.read_text().split()
    return []


def _begin(session: SparkSession) -> None:
    """Ask the first request of a session."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    # The default goes on for ten minutes when the server is gone, while a notebook hangs.
    session.client.set_retry_policies([DefaultPolicy(max_retries=4)])
    # What is wrong with a learner's query is said in a sentence, not in a hundred lines of Scala.
    session.conf.set("spark.sql.connect.serverStacktrace.enabled", "false")


def _remote() -> str | None:
    """The Spark Connect server that the environment names, if any."""
    remote = os.environ.get("SPARK_REMOTE")
    return None if remote and remote.startswith("local") else remote


def _master(local: str = LOCAL_MASTER) -> str:
    """The master of the server that is started here."""
    remote = os.environ.get("SPARK_REMOTE", "")
    return remote if remote.startswith("local") else os.environ.get("SPARK_MASTER", local)


def _pyspark() -> type[SparkSession]:
    """Import pyspark with its Connect client, which takes a second or two."""
    import pyspark.sql.connect.session
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    PySparkException._render_traceback_ = _told  # type: ignore[attr-defined]
    assert pyspark.sql.connect.session
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # it writes each error that is raised anyway
    return SparkSession


def _told(error: Any) -> list[str]:
    """The learner's own lines, what Spark says of them without its plan, and what to do next."""
    condition = error.getCondition() or ""
    return [
        *(line.rstrip() for line in format_list(own_lines(error))),
        f"{type(error).__name__}: {re.split(PLAN, str(error))[0].strip()}",
        *(text for name, text in ADVICE.items() if condition.startswith(name)),
    ]


def _prepare_environment() -> None:
    """What pyspark and gRPC read when they are imported: no noise, no proxy, and Connect."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    direct = next(filter(None, map(os.environ.get, DIRECT)), "")
    if not direct.endswith(LOOPBACK):
        os.environ[DIRECT[0]] = ",".join(filter(None, [direct, LOOPBACK]))
    # Then `F.col` and its like work before the session stands.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # The error that follows says it, or the next server that is joined makes good for it.
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")


def _is_gone() -> bool:
    """Has the shared server ended since this process joined it, or was the state moved?"""
    return (
        _shared.server is not None and spark_server.running(_shared.place.folder) != _shared.server
    )


def _is_forgotten(session: SparkSession) -> bool:
    """Has a server that somebody else runs closed the session, as after an idle hour?"""
    from pyspark.errors import PySparkException

    try:
        if _shared.server is None:  # The lab's own keeps it.
            session.conf.get("spark.sql.session.timeZone")
    except PySparkException as error:
        return str(error.getCondition()).startswith("INVALID_HANDLE")
    return False


def _forget_session() -> None:
    session, _shared.session = _shared.session, None
    server, _shared.server = _shared.server, None
    plans, _shared.plans = _shared.plans, None
    if plans is not None:
        plans.close()
    if session is not None:
        _leave(session, is_ours=server is not None)


def _leave(session: SparkSession, *, is_ours: bool) -> None:
    """Leave a session; without a word to a server of the lab, which may be gone."""
    session.release_session_on_close = not is_ours  # type: ignore[attr-defined]
    session.stop()


def _leave_what_is_gone() -> None:
    """Do not say goodbye to a server that has ended: pyspark waits for its answer."""
    if _shared.session is not None and _is_gone():
        _forget_session()


def _try_to_start(rehearse: Callable[[], object]) -> None:
    is_joined = _remote() is not None or spark_server.running() is not None
    # spark() tries again, and raises it where it can be read.
    with suppress(Exception):
        spark()
        if not is_joined:
            rehearse()
