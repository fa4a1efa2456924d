"""The lab: a stage to break things on, and the runs, predictions and checks made on it.

It is the one module that knows all rooms. A learner makes one Lab in the first cell of a notebook
and closes it in the last; a kernel that is restarted in between finds the same stage again.

Heavy modules are imported inside functions only: `from lab_utils import Lab` is quick, and what the
runs, the pictures and the queries need is loaded while the broker starts.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from importlib import import_module
from pathlib import Path
from string import ascii_lowercase
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from lab_utils import course, folders
from lab_utils.classroom.seat import take_seat
from lab_utils.errors import (
    BadArgument,
    LabError,
    LedgerError,
    one_of,
    own_lines,
    seconds,
    text,
    truth,
    within,
)
from lab_utils.ledger.predictions import Answer, predict
from lab_utils.machine.jars import CURRENT, SECTIONS, kafka_jars, locked, missing
from lab_utils.proxy.faults import Fault
from lab_utils.run import Predicted, Run
from lab_utils.views.progress import doing

if TYPE_CHECKING:
    from lab_utils.clients.by_hand import Begun, ByHand
    from lab_utils.clients.live_run import Workload
    from lab_utils.experiment import Experiment
    from lab_utils.stage.client import Brokers, Stage
    from lab_utils.sweep import SweptWorkload
    from lab_utils.views.explorer import Explorer
    from lab_utils.views.explorer.choices import Offer
    from lab_utils.views.explorer.run_data import RunData

# What the first run and the first picture need.
LOADED: Final = (
    "lab_utils.experiment", "lab_utils.clients.workload", "lab_utils.views.timeline",
    "lab_utils.views.explorer",
)  # fmt: skip
# What a broker with a heap of 256 MB holds easily.
PARTITIONS_MAX: Final = 1000
BROKERS_MAX: Final = 9  # each takes 0.2 GB
REPEATS_MAX: Final = 1000
ASKED_S: Final = 2
WITHOUT_BROKER: Final = (
    "No broker runs. A call such as commit_transaction() waits for one without end, and no "
    "interrupt reaches it: start the broker in the panel, or restart the kernel."
)
RUNS_ON: Final = "If a loop of your function never ends, interrupt the cell: ■ in the toolbar."
P = ParamSpec("P")
T = TypeVar("T")


def in_turn(verb: Callable[Concatenate[Lab, P], T]) -> Callable[Concatenate[Lab, P], T]:
    """Let a lab do one such thing at a time: each run begins with a repair of its brokers.

    A notebook may let the click in a widget act in a thread of its own while a cell is running.
    """

    @wraps(verb)
    def alone(lab: Lab, /, *given: P.args, **named: P.kwargs) -> T:
        with lab.turn:
            return verb(lab, *given, **named)

    return alone


class Lab:
    """One lab of the course, and the stage it plays on.

    Starts the stage, or joins the one that is there; the stage outlives this kernel. `kafka` is
    "4.3", or "3.9", which is fetched if it is not there. `bootstrap`, the address of a cluster of
    your own, is refused, and the error says what to do with one.
    """

    def __init__(
        self, name: str, *, brokers: int = 1, kafka: str = CURRENT, bootstrap: str | None = None
    ) -> None:

        _require_name(name)
        if bootstrap is not None:
            raise BadArgument(
                f"a lab runs on brokers of its own; got bootstrap={bootstrap!r}. It kills brokers, "
                "cuts links and damages requests, and sees them only where its proxy stands "
                "between clients and brokers: on your cluster it could see nothing and do harm. "
                f'Write Lab("{name}") to see a program of yours under faults. To judge what it did '
                "on your cluster, record a ledger (docs/ledger.md), then: ./lab audit ledger/ "
                "--out audit/"
            )
        self.name = name
        self.turn = RLock()
        self.kafka = one_of("kafka", kafka, SECTIONS)
        within("brokers", brokers, 1, BROKERS_MAX)
        if missing(locked(SECTIONS[kafka])):
            with doing(f"Fetching Kafka {kafka}, once"):
                kafka_jars(version=kafka)
        many = f"{brokers} brokers and a controller"
        with doing(f"Starting {'a broker' if brokers == 1 else many}"):
            self.stage: Stage = _in_threads(lambda: self._joined(brokers), _load)[0]
        from lab_utils.clients.reader import HonestReader
        from lab_utils.views.tables import show_tables_of_spark

        show_tables_of_spark()
        self._reader = HonestReader(self.stage.direct)
        self._verdicts: dict[str, Any] = {}
        self._by_hand: ByHand | None = None
        self._explorer: Explorer | None = None
        self._checked: list[Run] | None = None  # the runs of the check that is being made
        self._seat = take_seat()

    @in_turn
    def run(
        self,
        workload: Workload,
        *,
        orders: int | Sequence[str] = 10,
        faults: Sequence[Fault] = (),
        partitions: int = 1,
        topics: Sequence[str] | Mapping[str, Mapping[str, object]] = (),
        filled: bool = False,
        members: int = 1,
        until_stable: bool = False,
        patient: bool = False,
        supervised: bool = False,
        replicas: int | None = None,
        topic_config: Mapping[str, object] | None = None,
        timeout_s: float = 120,
    ) -> Run:
        """Perform the workload once, under these faults and no others; return what happened.

        A workload that is to be crashed (`crash_client`) runs in a process of its own and is
        started again after each crash. `timeout_s` bounds such a process; in the kernel, interrupt
        the cell; a client's call hears that when it returns. What the workload raises is an
        outcome: it is in the run, and its traceback is shown unless confluent_kafka raised it. What
        the lab refuses, and an interrupt, are raised here, after the run has been closed.

        `topics` names further, empty topics (run.topics["invoices"] in the workload); a mapping
        also says what each has of its own, as {"one": {"replicas": 1}}. With `filled`, the orders
        are in run.topic from the start, to be consumed. With `until_stable`, the log is read only
        when every transaction has ended, if need be by its time-out. `patient` clients wait longer
        for brokers that are away. `supervised` restarts, once, what a client's error has ended.

        `replicas` is the replication factor, by default the number of brokers; broker 1 leads at
        first. `topic_config` is the topic's, as {"min.insync.replicas": 2}. A run ends healed.
        Several `members` are as many processes at once. `filled` then writes the orders when each
        has its partitions. A process that is killed is not restarted.
        """
        from lab_utils.clients.workload import MEMBERS_MAX
        from lab_utils.experiment import fault_values, order_values, topic_names

        timeout_s = seconds("timeout_s", timeout_s)
        experiment = self._experiment(
            workload,
            order_values(orders),
            fault_values(faults),
            partitions=within("partitions", partitions, 1, PARTITIONS_MAX),
            topics=topic_names(topics),
            topic_settings=self._topic_settings(topics) if isinstance(topics, Mapping) else {},
            filled=truth("filled", filled),
            members=within("members", members, 1, MEMBERS_MAX),
            until_stable=truth("until_stable", until_stable),
            patient=truth("patient", patient),
            supervised=truth("supervised", supervised),
            replicas=self._replicas(replicas),
            topic_config=_texts(topic_config or {}),
        )
        with doing(f"Run {experiment.run}", self._held_up):
            error = _performed(experiment, workload, timeout_s)
        if error is not None and self._checked is None:
            _show(error)
        run = Run(
            experiment.run,
            experiment.folder,
            experiment.topic,
            self.stage.direct,
            trouble=tuple(experiment.trouble),
            raised=error,
        )
        if self._checked is not None:
            self._checked.append(run)
        return run

    def predict(self, *, because: str | None = None, **expected: Answer) -> Predicted:
        """Say what the next run will show, and why; stored now, compared afterwards.

        Questions: sent, acked, failed, unknown, stored, duplicated, lost, log (the values in the
        order of their offsets) and visible (those that a read_committed reader is given); of a run
        that consumes also delivered, processed, repeated, skipped, and committed (where its group
        reads on).
        """
        prediction = predict(expected, because)
        prediction.store(folders.runs_folder(self.name))
        if self._seat is None:
            return Predicted(prediction)
        return Predicted(prediction, self._seat.predicted(self.name, prediction))

    @in_turn
    def check(self, /, item: str, answer: Any = None, **given: Any) -> Any:
        """Decide one exercise on evidence: PASS, FAIL with a hint, or INCONCLUSIVE.

        The verdict has the `runs` that were made for it; `timeline()` draws the one it is about.
        """
        from lab_utils.checking import check, which_run

        runs = [run] if (run := given.get("run")) else []
        self._checked = runs
        try:
            with doing(f"Checking {item}", lambda: which_run(item, runs) + self._held_up()):
                verdict = check(self, item, answer, runs, **given)
        finally:
            self._checked = None
        if verdict.raised is not None:
            _show(verdict.raised)
        self._verdicts[item] = verdict
        course.keep(self.name, item, verdict.status, verdict.points)
        if self._seat is not None:
            self._seat.tell(item=item, status=verdict.status)
        if os.environ.get("NBGRADER_EXECUTION"):  # it reads points, and takes an error for none
            if not verdict.points:
                raise AssertionError(verdict.reason)
            return float(verdict.points)
        return verdict

    def ledger_card(self) -> Any:
        """What each column of run.events() is, and which kinds of event each witness writes."""
        from lab_utils.views.tables import ledger_card

        return ledger_card()

    def score(self) -> Any:
        """One line for each exercise of this lab: its best verdict so far and its points."""
        from lab_utils.checking import score

        return score(self.name, course.best(self.name))

    def explorer(self, lab: str = "") -> Any:
        """This lab's explorer: change a choice, and a real run is made and drawn in place.

        `lab` names another lab whose choices are offered here.
        """
        from lab_utils.views.explorer import Explorer
        from lab_utils.views.explorer.choices import offer_of
        from lab_utils.views.explorer.run_data import offered

        offer = offer_of(lab or self.name)

        def perform(choice: Mapping[str, str]) -> RunData:
            run = perform_choice(self, offer, choice)
            return offered(offer, choice, run.rows, run.trouble)

        if self._explorer is None or self._explorer.comm is None:
            self._explorer = Explorer(offer, perform, [perform({})])
        return self._explorer

    def sweep(
        self,
        workload: SweptWorkload,
        *,
        faults: Sequence[Fault | Sequence[Fault]] = (),
        settings: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]] = (),
        orders: int = 4,
        **given: Any,
    ) -> Any:
        """One real run for each setting and each fault, and a table of what became of the orders.

        `workload(run, settings)` makes its client with these settings. A fault may be a list of
        faults that happen in one run. What else lab.run takes is taken here, too. A click on a
        cell shows that run.
        """
        from lab_utils.sweep import sweep
        from lab_utils.views.explorer.sweep_table import SweepTable

        def perform(bound: Workload, broken: Sequence[Fault]) -> Run:
            return self.run(bound, orders=orders, faults=broken, **given)

        return SweepTable(list(sweep(perform, workload, faults, settings, orders=orders)))

    def panel(self, faults: Sequence[Fault] = ()) -> Any:
        """Buttons for faults and brokers, live, also while a cell is running.

        The faults are this lab's, and those that are given.
        """
        from lab_utils.experiment import fault_values
        from lab_utils.views.panel import PANEL_FAULTS, PANEL_FAULTS_OF, panel

        of_lab = PANEL_FAULTS_OF.get(self.name, PANEL_FAULTS)
        return panel(self.stage, (*of_lab, *fault_values(faults)), self._start_again)

    @property
    def brokers(self) -> Brokers:
        """The brokers, and what can be done to them by a call."""
        from lab_utils.stage.client import Brokers

        return Brokers(self.stage)

    def transaction_panel(self) -> Any:
        """Transactions by hand: buttons for two producers with one transactional.id."""
        from lab_utils.clients.by_hand import ByHand
        from lab_utils.views.panel.transaction_panel import TransactionPanel

        if self._by_hand is None:
            self._by_hand = ByHand(self._reader, self._begin_by_hand)
        return TransactionPanel(self._by_hand.act, self._by_hand.rows, self._by_hand.begin_again)

    def cost_of_transactions(self, repeats: int = 5) -> Any:
        """Records a second by how many share a transaction, measured now, drawn."""
        from lab_utils.clients.cost import costs
        from lab_utils.views.measurements import cost_picture

        self.stage.heal()
        run, _ = _new_run(self.name)
        self._reader.create_topic(f"{run}-cost", 1)
        with doing("Measuring"):
            measured = costs(
                self.stage.direct, f"{run}-cost", within("repeats", repeats, 1, REPEATS_MAX)
            )
            return cost_picture(list(measured))

    def close(self) -> None:
        """End the stage of this lab, brokers and all; the ledgers of its runs stay."""
        from confluent_kafka import KafkaException

        from lab_utils.views.panel import tell_closed

        with suppress(LabError, KafkaException):
            if self._by_hand is not None:
                self._by_hand.close()
        if self._explorer is not None:
            from lab_utils.views.explorer import CLOSED

            self._explorer.tell(CLOSED)
        tell_closed(self.stage)
        self._reader.close()
        with doing("Ending the stage"):
            self.stage.shutdown()

    def _held_up(self) -> str:
        """What to do where no broker runs, for which a client may wait; else where a loop runs.

        Or where the stage itself is silent.
        """
        try:
            brokers = self.stage.state(ASKED_S)["brokers"]
        except LabError as error:
            return str(error)
        return RUNS_ON if any(it["state"] == "running" for it in brokers) else WITHOUT_BROKER

    def _start_again(self) -> Stage:
        """Start a stage where this lab was closed, and be the lab of it."""
        from lab_utils.clients.reader import HonestReader

        self.stage = self._joined(self.stage.brokers)
        self._reader, self._by_hand = HonestReader(self.stage.direct), None
        if self._explorer is not None:
            self._explorer.tell("")
        return self.stage

    def _joined(self, brokers: int) -> Stage:
        from lab_utils.stage import client

        return client.join(self.name, brokers, self.kafka)

    def __repr__(self) -> str:
        return f"<Lab {self.name}: {self.stage!r}>"

    def _repr_html_(self) -> str:
        from lab_utils.views.tables import status_card

        return status_card(self.name, self.stage.state())

    def _experiment(
        self, workload: Workload, orders: tuple[str, ...], faults: tuple[Fault, ...], **given: Any
    ) -> Experiment:
        from lab_utils.clients import sinks
        from lab_utils.clients.workload import require_workload
        from lab_utils.experiment import Experiment, require_members

        require_workload(workload)
        require_members(faults, given["members"])
        run, folder = _new_run(self.name)
        # A check uses SQLite, as the grader does, which has no other database.
        is_elsewhere = sinks.is_chosen() and self._checked is None
        schema = sinks.new_schema(run) if is_elsewhere else ""
        about = [it for it in faults if getattr(it, "is_about_a_booking", False)]
        if schema and about:
            raise BadArgument(
                f"{about[0]!r} asks which order a commit has booked, and that is read from SQLite's"
                " own log. Say which commit, as in nth=2; or unset LAB_DATABASE for this run."
            )
        return Experiment(
            self.stage, self._reader, run, folder, orders, faults, schema=schema, **given
        )

    def _begin_by_hand(self) -> Begun:
        from lab_utils.experiment import Experiment

        run, folder = _new_run(self.name)
        experiment = Experiment(self.stage, self._reader, run, folder, orders=())
        return experiment.begin(), experiment.finish

    def _topic_settings(
        self, topics: Mapping[str, Mapping[str, object]]
    ) -> dict[str, dict[str, str]]:
        settings = {topic: _texts(given) for topic, given in topics.items()}
        for given in topics.values():
            self._replicas(given.get("replicas"))  # type: ignore[arg-type]
        return settings

    def _replicas(self, wanted: int | None) -> int:
        if wanted is None:
            return self.stage.brokers
        if within("replicas", wanted, 1, BROKERS_MAX) > self.stage.brokers:
            raise BadArgument(
                f"replicas must be at most {self.stage.brokers}, the number of brokers here; got "
                f'{wanted}. More brokers: Lab("{self.name}", brokers={wanted}).'
            )
        return wanted


def _in_threads(*works: Callable[[], Any]) -> list[Any]:
    """Do these at once, and return what each returns.

    Only threads import meanwhile: an interrupt within an import, while a thread imports, can leave
    Python's import lock locked for ever. After an interrupt they go on, and nobody waits for them.
    """
    pool = ThreadPoolExecutor(len(works), thread_name_prefix="load")
    try:
        begun = [pool.submit(work) for work in works]
        return [each.result() for each in begun]
    finally:
        pool.shutdown(wait=False)


def _load() -> None:
    """Begin to start Spark, and import what the first run, picture and query need."""
    from lab_utils.audit import session
    from lab_utils.audit.judged import rehearse
    from lab_utils.machine.jars import fetch, locked

    os.environ.setdefault("LAB_SPARK_JARS", ",".join(map(str, fetch(locked("spark")))))
    session.warm_up(rehearse)
    session.wait_for_imports()
    for name in LOADED:
        import_module(name)


def _show(error: BaseException) -> None:
    """Write what the learner's function raised where errors are read, with its own lines.

    A process of its own has written its traceback, which is the message. What the client raised is
    told by the run.
    """
    from confluent_kafka import KafkaException

    if isinstance(error, LabError):
        sys.stderr.write(f"{str(error).rstrip()}\n")
    elif not isinstance(error, KafkaException):
        lines = [*traceback.format_list(own_lines(error)), *traceback.format_exception_only(error)]
        sys.stderr.writelines(lines)


def _performed(
    experiment: Experiment, workload: Workload, timeout_s: float
) -> BaseException | None:
    """Begin the experiment, perform the workload and finish it; what the workload raised.

    Raises what the lab refused it.
    """
    from lab_utils.clients.workload import WorkloadError, carry_out

    ticket = experiment.begin()
    try:
        with experiment.attended():
            error = carry_out(
                workload,
                ticket,
                timeout_s=timeout_s,
                crashed=experiment.crashed,
                troubled=experiment.trouble.append,
            )
    finally:
        experiment.finish()
    if isinstance(error, LabError) and not isinstance(error, WorkloadError):
        raise error
    return error


def perform_choice(lab: Lab, offer: Offer, choice: Mapping[str, str]) -> Run:
    """Execute the program of a choice, which is the one that is shown."""
    # As in a notebook: a process that is to be killed is given the workload by value.
    names: dict[str, Any] = {"__name__": "__main__", "lab": lab}
    exec(compile(offer.code(choice), "<explorer>", "exec"), names)  # noqa: S102 - the lab's own
    run: Run = names["run"]
    return run


def _texts(settings: Mapping[str, object]) -> dict[str, str]:
    """A topic's settings, each value as the text that Kafka takes."""
    if not isinstance(settings, Mapping):
        raise BadArgument(
            f"a topic's settings are given by name, as in {{'min.insync.replicas': 2}}; got "
            f"{settings!r}."
        )
    return {text("a setting's name", name): text(name, str(it)) for name, it in settings.items()}


def _require_name(name: str) -> None:
    if not (isinstance(name, str) and re.fullmatch("(?=.*[A-Za-z0-9])[A-Za-z0-9_]{1,40}", name)):
        raise BadArgument(
            f'a lab is named by up to 40 letters and digits, as in Lab("03"); got {name!r:.100}.'
        )


def _new_run(lab: str) -> tuple[str, Path]:
    """The next free run id (03-a, 03-b, … 03-aa) and its new folder."""
    parent = folders.runs_folder(lab)
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = sum(1 for path in parent.iterdir() if path.is_dir())
        while True:
            run = f"{lab}-{_letters(number)}"
            try:
                (parent / run).mkdir(mode=0o700)
            except FileExistsError:
                # Another kernel took this one between our look and our mkdir.
                number += 1
            else:
                return run, parent / run
    except OSError as error:
        raise LedgerError(
            f"no run can be kept in {parent}: {error.strerror}. Make room there, or set LAB_STATE "
            "to a folder that you may write to."
        ) from None


def _letters(number: int) -> str:
    """A name for a number, as spreadsheets name columns.

    >>> [_letters(number) for number in (0, 25, 26, 27, 702)]
    ['a', 'z', 'aa', 'ab', 'aaa']
    """
    letters = ""
    number += 1
    while number:
        number, last = divmod(number - 1, len(ascii_lowercase))
        letters = ascii_lowercase[last] + letters
    return letters
