"""The examination: the grader breaks a stage of its own while the learner's function runs on it.

    grader ── opens the run, arms the unseen faults ──▶ examination stage ◀── Produce ── kernel
       ╰──── ticket: bootstrap, topic, run id, orders ─────────────────────────────────────▶ ╯
       ◀── wire, faults, log: read back by the grader, judged in the grader

The stage's token and folder never reach the kernel. Imports all that an experiment needs.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Lock
from typing import Any, Final

from confluent_kafka import KafkaException

from lab_utils.clients import sinks
from lab_utils.clients.groups import Groups
from lab_utils.clients.live_run import Ticket
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import STREAMS, Children, carry_out_in_children, pickled
from lab_utils.errors import BadArgument, LabError, WaitTimeout
from lab_utils.experiment import Experiment, order_values
from lab_utils.folders import is_full, stage_folder, state_folder
from lab_utils.grading.cases import Evidence, Exercise, Trial
from lab_utils.grading.inside import raised, read_answer
from lab_utils.grading.judge import decide, no_answer, own_trouble, witnessed
from lab_utils.grading.kernel import INSIDE, SPARK_START_S, KernelSession, SharedSpark
from lab_utils.grading.results import FAIL, Verdict
from lab_utils.grading.rules import only_what_clients_need
from lab_utils.grading.sandbox import opened, take
from lab_utils.grading.weakness import not_done
from lab_utils.ledger.events import EXAMINED_GROUPS, Event
from lab_utils.ledger.store import read_ledger
from lab_utils.machine.confinement import BUBBLEWRAP
from lab_utils.proxy.faults.client_faults import ClientFault, crash_client
from lab_utils.stage.client import Stage
from lab_utils.stage.lending import Lending
from lab_utils.waiting import wait_until

REFERENCE_S: Final = 90
WITH_THE_ANSWER: Final = (
    f"with your answer the workload of this exercise had not ended after {REFERENCE_S} s."
)
# How long a process that is to be killed may take until its work is seen on the wire.
DONE_S: Final = 3
# A member that was killed is gone after its session, which is 6 s unless a submission says more.
MEMBERS_GONE_S: Final = 7
RUN: Final = "x-"  # how the names of the runs begin
# A group named after a run, as one is that a submission has not named: no other run's is named so.
OF_A_RUN: Final = re.compile(rf"{RUN}[0-9a-f]{{8}}-")
GROUPS_MAX: Final = 1000  # of all runs that a stage had; with more it is ended
WORKLOAD: Final = "lab_utils.clients.workload"
WORKLOAD_BYTES_MAX: Final = 20_000_000
WORKLOAD_NAME: Final = "your function, with what it uses of the notebook,"
# SQLite keeps what it has not yet written into the file itself beside it.
SINK_FILES: Final = (sinks.FILE, sinks.LOG)
WITHOUT_AN_ANSWER: Final = {
    "late": "your function had not returned when its time was up, and was interrupted.",
    "dead": "the kernel died while your function ran.",
    "spent": "the submission's time was spent before this could be examined.",
}

# What the learner's kernel said when it was asked for something.
Said = dict[str, Any]


class Infrastructure(LabError):
    """The grader's own machinery failed; no learner is to blame."""


class Examiner:
    """Examines the items of one submission on a stage that only the grader holds."""

    def __init__(
        self,
        session: KernelSession,
        folder: Path,
        nonce: str,
        name: str,
        stages: Lending,
        shared_spark: SharedSpark | None,
    ) -> None:
        self._session = session
        self._folder = folder
        self._nonce = nonce
        self._name = name
        self._stages = stages
        self._shared_spark = shared_spark
        self._stage: Stage | None = None
        self._reader: HonestReader | None = None
        # Where the network is shared, a submission may know its stage again.
        self._is_odd = session.isolation != BUBBLEWRAP
        self._topics: list[str] = []
        self._runs = 0
        self._performed_for: Counter[tuple[str, str]] = Counter()

    def examine(self, exercise: Exercise, position: int) -> Verdict:
        """Decide one item in the state after the cell at `position`; raises Infrastructure."""
        answer: Any = None
        if exercise.kind in ("value", "faults", "settings", "pipeline"):
            text = "pipeline_text" if exercise.kind == "pipeline" else "answer_text"
            said = self._ask(position, f"{INSIDE}.{text}({exercise.answer})")
            try:
                answer = read_answer(said, exercise.kind)
            except ValueError as error:
                return exercise.verdict(FAIL, str(error))
            if answer is None:
                return no_answer(exercise)
        return decide(
            exercise,
            self._trials(exercise),
            answer,
            lambda trial: self._evidence(exercise, trial, position),
        )

    def close(self, *, is_odd: bool = False) -> None:
        """Give the examination stage back, or end it if anything about it was odd.

        The next submission finds nothing of this one's: its topics are deleted, and its groups, in
        which a member could hold up all others that name theirs alike.
        """
        is_odd = is_odd or self._is_odd or not self._forgets_groups()
        with suppress(LabError, KafkaException, RuntimeError, OSError):
            if self._reader is not None:
                if not is_odd:
                    self._reader.delete_topics(self._topics)
                self._reader.close()
        with suppress(LabError, OSError):
            if self._stage is not None:
                self._stages.take_back(self._stage, is_odd=is_odd)
        self._stage = self._reader = None
        self._topics.clear()

    def _forgets_groups(self) -> bool:
        """Delete the groups that have names of the submission's own; False if one has members.

        A client of another name than the run's may have joined one: that is in no ledger.
        """
        if self._stage is None:
            return True
        with suppress(LabError, KafkaException):
            groups = Groups(self._stage.direct)
            left = groups.names()
            named = [it for it in left if not OF_A_RUN.match(it)]
            if len(left) <= GROUPS_MAX and len(named) <= EXAMINED_GROUPS:
                groups.forget(named, MEMBERS_GONE_S)
                return True
        return False

    def _evidence(self, exercise: Exercise, trial: Trial, position: int) -> Evidence | None:
        """The evidence of one trial; None if the learner's function is still blank."""
        if exercise.is_performed:
            return self._learners(exercise, trial, position)
        evidence = self._references(exercise, trial)
        return self._queried(exercise, evidence, position) if exercise.is_query else evidence

    def _learners(self, exercise: Exercise, trial: Trial, position: int) -> Evidence | None:
        """The learner's workload under the trial's faults; only witnesses are heard."""
        path = self._session.working / f"workload-{secrets.token_hex(4)}"
        is_client_fault = any(isinstance(it, ClientFault) for it in trial.faults)
        in_children = trial.members > 1 or is_client_fault or trial.supervised
        wanted = f", {str(path)!r}" if in_children else ""
        said = self._ask(position, f"{INSIDE}.pickle_workload({exercise.function}{wanted})")
        if "blank" in said:
            return None
        orders = order_values(trial.orders)
        if "raised" in said:
            return Evidence(trial=trial, orders=orders, rows=(), raised=str(said["raised"]))

        def in_kernel(experiment: Experiment, ticket: Ticket) -> str | None:
            call = f"run_ticket({exercise.function}, {ticket.to_json()!r})"
            with self._session.reaching(_ports(ticket), position, _filled(experiment)):
                told = self._ask(position, f"{INSIDE}.{call}")
            return str(told["raised"]) if "raised" in told else None

        unmet: list[str] = []

        def in_processes(experiment: Experiment, ticket: Ticket) -> str | None:
            unmet.clear()
            return self._in_processes(path, experiment, ticket, unmet)

        evidence = self._run(exercise, trial, in_processes if in_children else in_kernel)
        if only_what_clients_need(None, evidence):  # the cluster may be another one now
            self._is_odd = True
        return replace(evidence, rows=witnessed(evidence.rows), unmet=tuple(unmet))

    def _trials(self, exercise: Exercise, again: str = "") -> tuple[Trial, ...]:
        """The trials of an exercise; what was drawn for another one tells nothing of them."""
        return exercise.trials(f"{self._nonce} {exercise.item}{again}")

    def _unseen(self, exercise: Exercise, trial: Trial) -> Trial:
        """The trial as it is performed next: a further time with faults drawn anew.

        A run that proves nothing is made again, and a program may see to it that it proves nothing,
        and remember where the fault was.
        """
        times = self._performed_for[exercise.item, trial.name]
        self._performed_for[exercise.item, trial.name] += 1
        if not times:
            return trial
        others = self._trials(exercise, f" again {times}")
        return replace(trial, faults=next(it.faults for it in others if it.name == trial.name))

    def _in_processes(
        self, path: Path, experiment: Experiment, ticket: Ticket, unmet: list[str]
    ) -> str | None:
        """Perform the workload that the kernel has left at `path`; what it raised, as a line.

        Each of its processes has a sandbox of its own, from which alone the stage can be reached.
        """
        copy = experiment.folder / "workload"
        if not take(path.parent, path.name, copy, WORKLOAD_BYTES_MAX, WORKLOAD_NAME):
            return "your function could not be handed to a process of its own."
        children = Sandboxed(self._session, experiment, ticket)
        if children.timeout_s == 0:
            return WITHOUT_AN_ANSWER["spent"]
        try:
            error = carry_out_in_children(copy.read_bytes(), ticket, children)
        except WaitTimeout:
            return WITHOUT_AN_ANSWER["late"]
        finally:
            unmet += children.unmet
        return None if error is None else raised(error)

    def _references(self, exercise: Exercise, trial: Trial) -> Evidence:
        """The trial's own workload, performed by the grader; its clients are witnesses, too.

        It runs in processes of its own, each for a bounded time: a learner's settings and faults
        may be what it is performed with, and if it does not end, they have `raised`.
        """
        assert trial.workload is not None, trial.name
        function = pickled(trial.workload)

        def perform(experiment: Experiment, ticket: Ticket) -> str | None:
            folder, troubled = experiment.folder, experiment.trouble.append
            children = Children(folder, folder, REFERENCE_S, experiment.crashed, troubled)
            try:
                carry_out_in_children(function, ticket, children)
            except WaitTimeout:
                if not exercise.is_condition:
                    raise
                return WITH_THE_ANSWER
            return None

        evidence = self._run(exercise, trial, perform)
        if evidence.trouble and not own_trouble(exercise, evidence):
            raise Infrastructure(f"a reference run left no whole evidence: {evidence.trouble[0]}")
        return evidence

    def _queried(self, exercise: Exercise, evidence: Evidence, position: int) -> Evidence | None:
        """What the learner's query finds in the trial's ledger."""
        said = self._ask(position, f"{INSIDE}.pickle_workload({exercise.answer})")
        if "blank" not in said:
            said = self._asked_as_a_plan(
                exercise, evidence.ledger, position
            ) or self._asked_beside_the_cells(exercise, evidence.ledger, position)
        if "blank" in said:
            return None
        if "raised" in said:
            return replace(evidence, raised=str(said["raised"]))
        rows = said.get("rows")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            return replace(evidence, raised="the kernel gave no rows that could be read.")
        return replace(evidence, returned=tuple(rows))

    def _asked_as_a_plan(
        self, exercise: Exercise, ledger: Sequence[Event], position: int
    ) -> Said | None:
        """What the plan of its query finds on the Spark of all; None if it needs one of its own.

        A submission with one that it needed, or that came to no good, has none asked any more.
        """
        if exercise.kind != "query" or self._shared_spark is None:
            return None
        said = self._ask(position, f"{INSIDE}.plan_query({exercise.answer})")
        plan = said.get("plan")
        if "blank" in said or "raised" in said:
            return said
        with self._session.budget.paused():  # others wait there, too, and some let it start anew
            rows = self._shared_spark.rows(plan, ledger) if isinstance(plan, str) else None
        if rows is None:
            self._shared_spark = None
            return None
        return {"rows": rows}

    def _asked_beside_the_cells(
        self, exercise: Exercise, ledger: Sequence[Event], position: int
    ) -> Said:
        """What the query finds on a Spark of the submission's own, beside its cells."""
        folder = self._session.given_folder(ledger)
        if reason := self._no_spark(position, folder, ledger):
            return {"raised": reason}
        return self._ask(
            position, f"{INSIDE}.run_{exercise.kind}({exercise.answer}, {str(folder)!r})"
        )

    def _no_spark(self, position: int, folder: Path, kept: Sequence[Event]) -> str | None:
        """Start Spark; why it did not if the submission's cells are the reason.

        Its start is the lab's own doing and takes none of the learner's time. If it does not start
        in a kernel without the cells either, nobody's cells are the reason: raises Infrastructure.
        """
        reason = _spark_refused(self._session, position, folder)
        if reason is None:
            return None
        place = self._session.folder / f"control-{secrets.token_hex(4)}"
        session = self._session
        control = KernelSession(session.submission, place, session.budget, session.isolation)
        try:
            its_own = control.given_folder(kept)
            if refused := _spark_refused(control, -1, its_own):
                raise Infrastructure(f"Spark did not start: {refused}")
        finally:
            control.close()
        if self._session.budget.left_s() == 0:
            return WITHOUT_AN_ANSWER["spent"]
        return f"Spark did not start after your cells ({reason}). Without them it does."

    def _ask(self, position: int, expression: str) -> Said:
        """What the kernel answers; a kernel that cannot answer has `raised` the reason."""
        status, said = self._session.evaluate(position, expression)
        if status != "ok":
            return {"raised": WITHOUT_AN_ANSWER.get(status, "the kernel did not answer.")}
        return said or {"raised": "the kernel's answer could not be read."}

    def _run(
        self, exercise: Exercise, trial: Trial, perform: Callable[[Experiment, Ticket], str | None]
    ) -> Evidence:
        """Begin an experiment, have it performed, finish it.

        What the machine or the stage has spoiled is tried once more, on a new stage.
        """
        is_learners = exercise.is_performed
        for last_time in (False, True):
            trial = self._unseen(exercise, trial) if is_learners else trial
            experiment, ticket = self._begun(exercise, trial)
            evidence = self._performed(experiment, ticket, trial, perform)
            if is_learners and (own := own_trouble(exercise, evidence)):
                evidence = replace(evidence, raised=own, trouble=())
            if evidence.trouble:
                require_room()
            if evidence.trouble or not evidence.history.is_drained:
                self.close(is_odd=True)  # whoever reads next has another reader
            if not evidence.trouble or last_time:
                return evidence
        raise AssertionError("unreachable")

    def _performed(
        self,
        experiment: Experiment,
        ticket: Ticket,
        trial: Trial,
        perform: Callable[[Experiment, Ticket], str | None],
    ) -> Evidence:
        trouble: tuple[str, ...] = ()
        rows: list[Event] = []
        said: str | None = None
        try:
            with experiment.attended():
                said = perform(experiment, ticket)
        except (LabError, KafkaException, OSError) as error:
            trouble = (_one_line(error),)
        try:
            rows = experiment.finish(self._sink(ticket, experiment.folder))
            trouble = (*trouble, *experiment.trouble)
        except (LabError, KafkaException, OSError) as error:
            trouble = (_one_line(error),)
            require_room()  # while the stage still takes some
            self.close(is_odd=True)  # the next run gets a new stage
        return Evidence(
            trial=trial, orders=experiment.orders, rows=tuple(rows), raised=said, trouble=trouble
        )

    def _sink(self, ticket: Ticket, ours: Path) -> Path:
        """The folder to read the sink from: a copy, where it was a learner's to write."""
        if Path(ticket.folder) == ours:
            return ours
        copies = ours / "sink"
        copies.mkdir(mode=0o700)
        return _taken_sink(self._session, ticket, copies)

    def _begun(self, exercise: Exercise, trial: Trial) -> tuple[Experiment, Ticket]:
        for last_time in (False, True):
            try:
                experiment = self._experiment(trial, plain_names=exercise.kind == "value")
                # Where a workload of the submission's keeps its part of a run; nobody believes it.
                theirs = self._session.working / ".runs" / str(self._runs)
                return experiment, experiment.begin(theirs if exercise.is_performed else None)
            except (LabError, KafkaException, OSError) as error:
                self.close(is_odd=True)
                if isinstance(error, BadArgument):  # it would be refused again
                    raise
                if last_time:
                    raise Infrastructure(_one_line(error)) from error
        raise AssertionError("unreachable")

    def _experiment(self, trial: Trial, *, plain_names: bool) -> Experiment:
        if self._stage is not None and self._stage.brokers != trial.brokers:
            self.close()
        if self._stage is None or self._reader is None:
            self._stage = self._stages.lend(trial.brokers)
            self._reader = HonestReader(self._stage.direct)
        self._runs += 1
        # The names tell nothing of the nonce, from which the schedules can be computed.
        mark = hashlib.blake2s(f"{self._nonce} {self._name} {self._runs}".encode()).hexdigest()
        numbers = [str(number) for number in range(trial.orders)]
        experiment = Experiment(
            self._stage,
            self._reader,
            run=f"{RUN}{mark[:8]}",
            folder=self._folder / mark[:8],
            orders=tuple(numbers if plain_names else (f"{mark[8:12]}-{each}" for each in numbers)),
            faults=tuple(trial.faults),
            is_examined=True,
            **trial.conditions,
        )
        self._topics += [experiment.topic, *experiment.further_topics.values()]
        return experiment


def require_room() -> None:
    """Something went wrong: raises Infrastructure on a full disk, where that is no wonder."""
    if full := [*filter(is_full, (state_folder(), Path(gettempdir())))]:
        raise Infrastructure(f"the disk is full in {full[0]}. Make room, and grade again.")


class Sandboxed(Children):
    """Processes of a learner's workload: each in a sandbox, from which alone the stage is reached.

    unmet  what a process had not done when it was killed at a point that it said to have reached
    """

    def __init__(self, session: KernelSession, experiment: Experiment, ticket: Ticket) -> None:
        place, left_s = session.given_folder(), session.budget.left_s()
        super().__init__(place, experiment.folder, left_s, experiment.crashed)
        self._fills = _filled(experiment)
        self.unmet: list[str] = []
        self._session = session
        self._ticket = ticket
        self._ends: dict[int, ExitStack] = {}
        self._lock = Lock()
        self._started_ns = 0

    def start(self, folder: Path, channel: int) -> subprocess.Popen[str]:
        """Start one in a sandbox of its own."""
        sandbox, environment = self._session.sandbox()
        self._started_ns = time.monotonic_ns()
        with ExitStack() as ends:
            ends.callback(sandbox.end)
            child = sandbox.start(
                [sys.executable, "-u", "-m", WORKLOAD, str(folder), str(channel)],
                cwd=self._session.working,
                environment=environment,
                pass_fds=(channel,),
                **STREAMS,
            )
            ends.enter_context(sandbox.reaching(_ports(self._ticket), self._fills))
            self._ends[child.pid] = ends.pop_all()
        return child

    def before_kill(self, fault: ClientFault, at: str) -> None:
        """Wait until the wire shows what the process must have done by this point, or note it.

        The process waits for its parent's word; what it has handed over is sent meanwhile.
        """
        given = crash_client(at, fault.nth, value=fault.value)
        with suppress(WaitTimeout):
            wait_until(
                lambda: self._lacking(given) is None,
                f"what comes before {given.at}",
                timeout_s=DONE_S,
                every_s=0.05,
            )
            return
        self.unmet += filter(None, [self._lacking(given)])

    def kill(self, child: subprocess.Popen[str]) -> None:
        """End its sandbox, with all that it started."""
        with self._lock:
            if ends := self._ends.pop(child.pid, None):
                ends.close()

    def _lacking(self, fault: ClientFault) -> str | None:
        rows = [row for row in read_ledger(self.ledger) if row.at_ns > self._started_ns]
        return not_done(fault, rows, writes=bool(self._ticket.topics))

    def sink(self) -> tuple[bytes, bytes]:
        """The database and the log of that: copies, for they are a learner's to write."""
        with TemporaryDirectory(prefix="lab-sink-") as copies:
            taken = _taken_sink(self._session, self._ticket, Path(copies))
            return (taken / sinks.FILE).read_bytes(), (taken / sinks.LOG).read_bytes()

    def put_sink_back(self, database: bytes, log: bytes) -> None:
        """Leave these to the next process; no process of the submission's workload is left."""
        for name, content in ((sinks.FILE, database), (sinks.LOG, log)):
            place = _within(self._session, self._ticket, name)
            try:
                with opened(*place, os.O_WRONLY) as file:
                    os.ftruncate(file, 0)
                    os.pwrite(file, content, 0)
            except OSError as error:
                self.unmet.append(f"the file {name} could not be written: {error.strerror}")


def _taken_sink(session: KernelSession, ticket: Ticket, to: Path) -> Path:
    """A folder with a copy of the sink that a workload has left, and nothing else of it."""
    for name in SINK_FILES:
        take(*_within(session, ticket, name), to / name)
    return to


def _within(session: KernelSession, ticket: Ticket, name: str) -> tuple[Path, str]:
    """The folder of a submission, and the way from there to a file of this run."""
    return session.working, str(Path(ticket.folder).relative_to(session.working) / name)


def _filled(experiment: Experiment) -> tuple[Path, ...]:
    """Where what a workload sends is kept: the stage, and the ledger of the run."""
    return stage_folder(experiment.stage.name), experiment.folder


def _ports(ticket: Ticket) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in ticket.bootstrap.split(",")]


def _spark_refused(session: KernelSession, position: int, folder: Path) -> str | None:
    """Start Spark after the cell at `position`; why it did not, in a line."""
    call = f"{INSIDE}.start_spark({str(folder)!r})"
    status, said = session.evaluate(position, call, SPARK_START_S)
    return None if "done" in said or status == "spent" else str(said.get("raised", status))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
