"""Carrying a workload out: here in this process, or in children that crash and are restarted.

A learner's Lab and the learner's kernel under a grader do this in the same way: a ticket in, the
exception or nothing out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lab_utils.clients.child import run_in_child
from lab_utils.clients.live_run import LiveRun, Ticket, Workload, perform
from lab_utils.errors import LabError

RESTARTS_MAX: Final = 10


class WorkloadError(LabError):
    """A workload that ran in a process of its own raised; the message is what it printed."""


def carry_out(
    workload: Workload, ticket: Ticket, *, timeout_s: float = 120
) -> BaseException | None:
    """Perform the workload for this ticket; return what it raised, if anything.

    With crash points it runs in a process of its own, at most `timeout_s` seconds each time, and
    is started again after each crash.
    """
    if ticket.crashes:
        return _in_children(workload, ticket, timeout_s)
    live = LiveRun(ticket)
    try:
        return perform(workload, live)
    finally:
        live.close()


def _in_children(workload: Workload, ticket: Ticket, timeout_s: float) -> BaseException | None:
    for attempt in range(1, RESTARTS_MAX + 1):
        # The first crash is for the first process, the second for its successor, and so on.
        crashes = ticket.crashes[attempt - 1 : attempt]
        started = replace(ticket, attempt=attempt, crashes=crashes)
        end = run_in_child(workload, started, timeout_s=timeout_s)
        if not end.crashed:
            return WorkloadError(end.output) if end.raised else None
    return WorkloadError(f"the workload was killed {RESTARTS_MAX} times and not started again.")
