"""The examination: the grader breaks a stage of its own while the learner's function runs on it.

    grader ── opens the run, arms the unseen faults ──▶ examination stage ◀── Produce ── kernel
       ╰──── ticket: bootstrap, topic, run id, orders ─────────────────────────────────────▶ ╯
       ◀── wire, faults, log: read back by the grader, judged in the grader

The stage's token and folder never reach the kernel. Imports all that an experiment needs.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from lab_utils.clients.live_run import Ticket
from lab_utils.clients.reader import HonestReader
from lab_utils.clients.workload import carry_out
from lab_utils.errors import LabError
from lab_utils.experiment import Experiment
from lab_utils.grading.cases import Evidence, Exercise, Trial
from lab_utils.grading.inside import read_answer
from lab_utils.grading.judge import decide, failed, no_answer, witnessed
from lab_utils.grading.kernel import KernelSession
from lab_utils.grading.results import Verdict
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger
from lab_utils.stage import client

INSIDE: Final = "__import__('lab_utils.grading.inside', fromlist=['inside'])"

SPARK_START_S: Final = 120
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

    def __init__(self, session: KernelSession, folder: Path, nonce: str, name: str) -> None:
        self._session = session
        self._folder = folder
        self._nonce = nonce
        self._name = name
        self._stage: client.Stage | None = None
        self._reader: HonestReader | None = None
        self._runs = 0

    def examine(self, exercise: Exercise, position: int) -> Verdict:
        """Decide one item in the state after the cell at `position`; raises Infrastructure."""
        answer: Any = None
        if exercise.kind in ("value", "faults", "settings"):
            said = self._ask(position, f"{INSIDE}.answer_text({exercise.answer})")
            try:
                answer = read_answer(said, exercise.kind)
            except ValueError as error:
                return failed(exercise, str(error))
            if answer is None:
                return no_answer(exercise)
        return decide(
            exercise,
            exercise.trials(self._nonce),
            answer,
            lambda trial: self._evidence(exercise, trial, position),
        )

    def close(self) -> None:
        """End the examination stage."""
        with suppress(LabError, KafkaException, RuntimeError, OSError):
            if self._reader is not None:
                self._reader.close()
        with suppress(LabError, OSError):
            if self._stage is not None:
                self._stage.shutdown()
        self._stage = self._reader = None

    def _evidence(self, exercise: Exercise, trial: Trial, position: int) -> Evidence | None:
        """The evidence of one trial; None if the learner's function is still blank."""
        if exercise.kind == "workload":
            return self._learners(exercise, trial, position)
        evidence = self._references(trial, plain_names=exercise.kind == "value")
        return evidence if exercise.kind != "query" else self._queried(exercise, evidence, position)

    def _learners(self, exercise: Exercise, trial: Trial, position: int) -> Evidence | None:
        """The learner's workload under the trial's faults; only witnesses are heard."""
        said: Said = {}

        def perform(_: Experiment, ticket: Ticket) -> None:
            call = f"run_ticket({exercise.answer}, {asdict(ticket)!r})"
            said.update(self._ask(position, f"{INSIDE}.{call}"))

        evidence = self._run(trial, perform, plain_names=False, in_kernel=True)
        if "blank" in said:
            return None
        return replace(evidence, rows=witnessed(evidence.rows), raised=said.get("raised"))

    def _references(self, trial: Trial, *, plain_names: bool) -> Evidence:
        """The trial's own workload, performed by the grader; its clients are witnesses, too."""
        assert trial.workload is not None, trial.name
        workload = trial.workload

        def perform(experiment: Experiment, ticket: Ticket) -> None:
            carry_out(workload, ticket, crashed=experiment.crashed)

        evidence = self._run(trial, perform, plain_names=plain_names)
        if evidence.trouble:
            raise Infrastructure(f"a reference run left no whole evidence: {evidence.trouble[0]}")
        return evidence

    def _queried(self, exercise: Exercise, evidence: Evidence, position: int) -> Evidence | None:
        """The learner's query on a copy of the trial's ledger."""
        folder = self._client_folder()
        kept = [row for row in evidence.rows if row.source not in evidence.trial.without]
        write_ledger(folder, kept)
        if reason := self._no_spark(position, folder):
            return replace(evidence, raised=reason)
        said = self._ask(position, f"{INSIDE}.run_query({exercise.answer}, {str(folder)!r})")
        if "blank" in said:
            return None
        if "raised" in said:
            return replace(evidence, raised=str(said["raised"]))
        rows = said.get("rows")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            return replace(evidence, raised="the kernel gave no rows that could be read.")
        return replace(evidence, returned=tuple(rows))

    def _no_spark(self, position: int, folder: Path) -> str | None:
        """Start Spark; why it did not if the submission's cells are the reason.

        Its start is the lab's own doing and takes none of the learner's time. If it does not start
        in a kernel without the cells either, nobody's cells are the reason: raises Infrastructure.
        """
        reason = _spark_refused(self._session, position, folder)
        if reason is None:
            return None
        place = self._session.folder / f"control-{secrets.token_hex(4)}"
        control = KernelSession(self._session.submission, place, self._session.budget)
        try:
            if refused := _spark_refused(control, -1, folder):
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
        self,
        trial: Trial,
        perform: Callable[[Experiment, Ticket], object],
        *,
        plain_names: bool,
        in_kernel: bool = False,
    ) -> Evidence:
        """Begin an experiment, have it performed, finish it; retried once if the stage fails."""
        experiment, ticket = self._begun(trial, plain_names=plain_names, in_kernel=in_kernel)
        with experiment.attended():
            perform(experiment, ticket)
        trouble: tuple[str, ...] = ()
        rows: list[Event] = []
        try:
            rows = experiment.finish()
            trouble = tuple(experiment.trouble)
        except (LabError, KafkaException, OSError) as error:
            trouble = (_one_line(error),)
            self.close()  # the next run gets a new stage
        return Evidence(trial=trial, orders=experiment.orders, rows=tuple(rows), trouble=trouble)

    def _begun(
        self, trial: Trial, *, plain_names: bool, in_kernel: bool
    ) -> tuple[Experiment, Ticket]:
        for last_time in (False, True):
            try:
                experiment = self._experiment(trial, plain_names=plain_names)
                folder = self._client_folder() if in_kernel else None
                return experiment, experiment.begin(folder)
            except (LabError, KafkaException, OSError) as error:
                self.close()
                if last_time:
                    raise Infrastructure(_one_line(error)) from error
        raise AssertionError("unreachable")

    def _experiment(self, trial: Trial, *, plain_names: bool) -> Experiment:
        if self._stage is not None and self._stage.brokers != trial.brokers:
            self.close()
        if self._stage is None or self._reader is None:
            self._stage = client.join(self._name, trial.brokers)
            self._reader = HonestReader(self._stage.direct)
        self._runs += 1
        # The names tell nothing of the nonce, from which the schedules can be computed.
        mark = hashlib.blake2s(f"{self._nonce} {self._name} {self._runs}".encode()).hexdigest()
        numbers = [str(number) for number in range(trial.orders)]
        return Experiment(
            self._stage,
            self._reader,
            run=f"x-{mark[:8]}",
            folder=self._folder / mark[:8],
            orders=tuple(numbers if plain_names else (f"{mark[8:12]}-{each}" for each in numbers)),
            faults=tuple(trial.faults),
            **trial.conditions,
        )

    def _client_folder(self) -> Path:
        """A new folder in the submission's own place."""
        self._runs += 1
        return self._session.folder / "runs" / str(self._runs)


def _spark_refused(session: KernelSession, position: int, folder: Path) -> str | None:
    """Start Spark after the cell at `position`; why it did not, in a line."""
    call = f"{INSIDE}.start_spark({str(folder)!r})"
    status, said = session.evaluate(position, call, SPARK_START_S)
    return None if "done" in said or status == "spent" else str(said.get("raised", status))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
