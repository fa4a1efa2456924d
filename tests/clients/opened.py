"""A run that is open at the stage: its clients, and what the ledger holds of them so far."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab_utils.clients.live_run import LiveRun, Ticket, Workload
from lab_utils.experiment import Experiment
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import read_ledger
from lab_utils.proxy.faults import Fault


def billing(**settings: Any) -> Workload:
    """A workload that does the work for each order, and then commits it."""

    def bill(run: LiveRun) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        consumer = run.consumer({"enable.auto.commit": False} | named)
        consumer.subscribe([run.topic])
        for message in run.messages(consumer):
            run.processed(message)
            consumer.commit(message, asynchronous=False)

    return bill


class Opened:
    """One run on the shared stage, begun when its ticket is first asked for."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._ticket: Ticket | None = None
        self._live: LiveRun | None = None

    @property
    def ticket(self) -> Ticket:
        """What a workload's process is given."""
        if self._ticket is None:
            self._ticket = self.experiment.begin()
        return self._ticket

    @property
    def live(self) -> LiveRun:
        """The run as its workload sees it, in this process."""
        if self._live is None:
            self._live = LiveRun(self.ticket)
        return self._live

    def under(self, *faults: Fault, **given: Any) -> Opened:
        """The same run, not yet begun, under these faults and with what else is given."""
        self.experiment = replace(self.experiment, faults=faults, **given)
        return self

    def rows(self, *kinds: str, source: str = "client") -> list[Event]:
        """The events of these kinds, oldest first; none is all of the source."""
        return [
            row
            for row in read_ledger(self.experiment.folder)
            if row.source == source and (row.kind in kinds or not kinds)
        ]

    def said(self, *columns: str, kinds: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """Kind and these columns of the client's events."""
        return [
            (row.kind, *(getattr(row, column) for column in columns)) for row in self.rows(*kinds)
        ]

    def finish(self) -> list[Event]:
        """Close the clients and the run; all rows, the log among them."""
        if self._live is not None:
            self._live.close()
            self._live = None
        self._ticket, ticket = None, self._ticket
        return self.experiment.finish() if ticket else []
