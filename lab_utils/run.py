"""A finished run: what a learner holds in hand and asks questions of.

Everything here is derived from the ledger folder alone; no broker is needed any more. The one
exception is topic_log(), which reads the topic itself.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_utils.errors import BadArgument, StageError, one_of, within
from lab_utils.ledger.counts import Counts, count
from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History
from lab_utils.ledger.predictions import Compared, Prediction, values, visible
from lab_utils.ledger.store import read_ledger
from lab_utils.views.progress import DRAWING, doing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(eq=False, repr=False)
class Run:
    """One finished run of a workload, and the evidence it left."""

    run: str
    folder: Path
    topic: str
    _direct: str
    trouble: tuple[str, ...] = ()
    raised: BaseException | None = None

    @cached_property
    def rows(self) -> list[Event]:
        """All events of the ledger, oldest first."""
        return read_ledger(self.folder)

    @property
    def counts(self) -> Counts:
        """How many orders met which outcome."""
        return count(self.rows)

    @property
    def log(self) -> list[str]:
        """The values in the log, in the order of their offsets, partition by partition."""
        return values(self.rows, "record")

    @property
    def visible(self) -> list[str]:
        """Those of the log that a read_committed reader is given, in the same order.

        Without a transaction it is given everything.
        """
        return visible(self.rows)

    @property
    def effects(self) -> dict[str, int]:
        """How many effects each order has in the database of this run."""
        return dict(History(self.rows).effects)

    def events(self) -> DataFrame:
        """The ledger as a Spark DataFrame, one row an event; columns as in Event."""
        from lab_utils.audit.session import read_events

        with doing("Waiting for Spark"):
            return _telling(read_events(self.folder))

    def topic_log(self, **options: str) -> DataFrame:
        """The topic itself through Spark's Kafka source; a stage keeps fifty runs' topics.

        `options` are the source's, as in **{"kafka.isolation.level": "read_committed"}.
        Columns: partition INT, offset BIGINT, key STRING, value STRING, timestamp TIMESTAMP.
        Raises StageError where no broker answers: Spark itself would try for minutes.
        """
        from lab_utils.audit.session import read_topic

        if not any(map(_answers, self._direct.split(","))):
            raise StageError(
                f"no broker answers at {self._direct}, where the topic of run {self.run} was: a "
                "stage takes its topics with it. Run the notebook's first cell, then make the run "
                "again. Its ledger stays: run.events()."
            )
        with doing("Waiting for Spark"):
            return _telling(read_topic(self._direct, self.topic, options))

    def findings(self) -> Any:
        """What the audit found, each finding beside what this configuration may do."""
        from lab_utils.audit.judged import judged_run
        from lab_utils.views.tables import findings_table

        with doing("Spark looks for findings"):
            return findings_table(judged_run(self.folder))

    @doing(DRAWING)
    def timeline(self, apis: Sequence[str] | None = ("Produce",)) -> Any:
        """The requests that crossed the wire, drawn: client, proxy, broker; None is every API."""
        from lab_utils.views.timeline import timeline

        named = (apis,) if isinstance(apis, str) else apis
        if not isinstance(named, Sequence | None):
            raise BadArgument(
                'apis is a list of requests, as in apis=["Produce"], or None for all of them; got '
                f"{apis!r:.200}."
            )
        for api in named or ():
            self.requests(api)  # refuses what is no request
        return timeline(self.rows, apis=named)

    @doing(DRAWING)
    def orders_by_offset(self) -> Any:
        """Which order is at which offset, drawn: a row for each produce(), a column an offset."""
        from lab_utils.views.orders import orders_by_offset

        return orders_by_offset(self.rows)

    @doing(DRAWING)
    def bookmarks(self, partition: int = 0) -> Any:
        """Where the work was and where the bookmark stood, step by step, drawn."""
        from lab_utils.views.bookmarks import offset_diagram

        return offset_diagram(self.rows, self._partition(partition))

    @doing(DRAWING)
    def ownership(self) -> Any:
        """Which consumer had which partition, and since when, drawn: a lane a partition."""
        from lab_utils.views.ownership import ownership

        return ownership(self.rows)

    @doing(DRAWING)
    def in_and_out(self, topic: str) -> Any:
        """Each order that was there to be consumed beside its copies in another topic, drawn."""
        from lab_utils.views.in_out import in_and_out

        made = {row.topic or "" for row in History(self.rows).of("workload", "topic")}
        further = {name.removeprefix(f"{self.run}-") for name in made - {self.topic}}
        if not further:
            raise BadArgument(
                f"run {self.run} has no topic {topic!r} beside that of its orders. Give "
                f'lab.run one, as in topics=["invoices"], and write to run.topics["invoices"].'
            )
        return in_and_out(self.rows, one_of("topic", topic, further))

    def sinks(self) -> Any:
        """How often each sink of the run, topic, table or files, has each order, as a table."""
        from lab_utils.views.in_out import sinks

        return sinks(self.rows)

    def streamed(self, query: Callable[[DataFrame], DataFrame], size: int = 2) -> Any:
        """Let Spark read run.topic as a stream, `size` records in a batch; a table of the batches.

        `query` is given a streaming DataFrame, value STRING and timestamp TIMESTAMP, and returns
        another one. The records are those of the ledger, in the order of their offsets.
        """
        from lab_utils.audit.queries import streamed
        from lab_utils.views.tables import batches_table

        with doing("Spark reads a batch after the other"):
            return batches_table(streamed(query, self.rows, size))

    def diary(self) -> Any:
        """What the transaction coordinator wrote into its own log, as a table."""
        from lab_utils.views.tables import coordinator_log

        return coordinator_log(self.rows)

    @doing(DRAWING)
    def transactions(self) -> Any:
        """The transactions drawn: programs, coordinator, partitions, and who may read what."""
        from lab_utils.views.transaction_timeline import transaction_timeline

        return transaction_timeline(self.rows)

    @doing(DRAWING)
    def replicas(self, partition: int = 0) -> Any:
        """Who led, who was in sync and how far each log reached, drawn: a lane a broker."""
        from lab_utils.views.replicas import replicas

        return replicas(self.rows, self._partition(partition))

    def requests(self, api: str = "Produce") -> list[Event]:
        """The requests and responses of one API as the proxy decoded them, oldest first.

        Raises BadArgument for what is no request of Kafka's.
        """
        found = [row for row in self.rows if row.source == "wire" and row.api == api]
        if not found:
            from lab_utils.codec.cursor import API_KEYS  # loads the protocol library

            one_of("api", api, API_KEYS)
        return found

    def __repr__(self) -> str:
        sent = f"{self._unrecorded()}{self._elsewhere()}{self._unsent()}"
        ended = f"{sent}{self._refused()}{self._raised()}"
        return f"<Run {self.run}: {self.counts}{self._faults()}{ended}{self._trouble()}>"

    def _partition(self, asked: int) -> int:
        """A partition of the run's topic; raises BadArgument for one that it does not have."""
        ends = (row for row in History(self.rows).of("log", "end") if row.topic == self.topic)
        return within("partition", asked, 0, max((row.partition or 0 for row in ends), default=0))

    def _faults(self) -> str:
        armed, fired = (History(self.rows).of("fault", kind) for kind in ("armed", "fired"))
        if not armed:
            return ""
        if not fired:
            return "; the fault never fired" if len(armed) == 1 else "; no fault fired"
        subject = "the fault" if len(armed) == 1 else f"{len(armed)} faults armed, they"
        return f"; {subject} fired {_times(len(fired))}"

    def _unrecorded(self) -> str:
        """What to do where there are records, and no client of the run that wrote or read one."""
        has_client = any(row.source == "client" for row in self.rows)
        if has_client or not self.log or self._raised():
            return ""
        return "; no client was recorded: make it with run.producer() or run.consumer()"

    def _elsewhere(self) -> str:
        """The topics to which orders were sent, and which are none of the run's."""
        own = {row.topic for row in History(self.rows).of("log", "end")}
        sent = dict.fromkeys(row.topic or "" for row in History(self.rows).of("client", "sent"))
        others = [topic for topic in sent if own and topic not in own]
        return f"; sent to {' and '.join(others)}, which is not run.topic" if others else ""

    def _unsent(self) -> str:
        """What the client still held when the workload had returned: a flush() is missing."""
        over = [row.at_ns for row in History(self.rows).of("workload", "finished")]
        held = [row for row in self.rows if over and row.error == "_PURGE_QUEUE"]
        many = sum(row.at_ns > over[-1] for row in held)
        return (
            f"; the workload returned before {many} left the client: call flush()" if many else ""
        )

    def _refused(self) -> str:
        """Why orders have failed, where that is neither a missing flush() nor what was raised."""
        told = {"_PURGE_QUEUE"}
        for row in History(self.rows).of("workload", "raised"):
            told |= {row.error or "", row.detail.get("name", "")}
        reports = dict.fromkeys(row.error for row in History(self.rows).of("client", "failed"))
        names = [name for name in reports if name and name not in told]
        return f"; failed with {' and '.join(names)}" if names else ""

    def _raised(self) -> str:
        raised = History(self.rows).of("workload", "raised")
        if not raised:
            return ""
        error, detail = raised[-1].error, raised[-1].detail
        at = f" at {detail['at']}" if "at" in detail else ""
        if name := detail.get("name"):
            about = f": {detail['message']}" if name.startswith("_") else ""
            return f"; the workload raised {error} ({name}){about}{at}"
        return f"; the workload raised {error}({detail.get('message', '')!r}){at}"

    def _trouble(self) -> str:
        return f"; INCONCLUSIVE: {'; '.join(self.trouble)}" if self.trouble else ""


class Predicted:
    """A prediction that is stored, and waits for the run that decides it."""

    def __init__(
        self, prediction: Prediction, compared: Callable[[list[Compared]], object] = list
    ) -> None:
        self._prediction = prediction
        self._compared = compared

    def compare(self, run: Run) -> Any:
        """What you expected beside what was observed, as a table; it is not scored."""
        from lab_utils.views.tables import prediction_table

        if not isinstance(run, Run):
            raise BadArgument(
                f"compare() needs a run, as lab.run returns it; got {run!r:.200}. Write it as in "
                "guess.compare(broken)."
            )
        compared = self._prediction.compare(run.rows)
        self._compared(compared)
        return prediction_table(compared)

    def __repr__(self) -> str:
        expected = ", ".join(f"{name}: {it}" for name, it in self._prediction.expected.items())
        return f"<Predicted {expected}; because: {self._prediction.because}>"


def _telling(frame: DataFrame) -> DataFrame:
    """A DataFrame that says when it makes Spark work, as all of its class do then."""
    from lab_utils.views.tables import tell_when_spark_works

    tell_when_spark_works(type(frame))
    return frame


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def _times(count_of: int) -> str:
    return {1: "once", 2: "twice"}.get(count_of, f"{count_of} times")


def source(function: Callable[..., Any]) -> Any:
    """The text of a function of the lab, shown as code: everything here can be read."""
    from lab_utils.views.tables import source_code

    return source_code(function)
