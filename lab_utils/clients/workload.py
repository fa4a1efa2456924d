"""Carrying a workload out: here in this process, or in children that crash and are restarted.

A learner's Lab and the learner's kernel under a grader do this in the same way: a ticket in, the
exception or nothing out.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from lab_utils.clients.child import run_in_child
from lab_utils.clients.live_run import LiveRun, Ticket, Workload, perform
from lab_utils.errors import LabError

RESTARTS_MAX: Final = 10
MEMBERS_MAX: Final = 4
NOT_WHOLE: Final = "the ledger could not be written: a workload's process lost events"


class WorkloadError(LabError):
    """A workload that ran in a process of its own raised; the message is what it printed."""


def carry_out(
    workload: Workload,
    ticket: Ticket,
    *,
    timeout_s: float = 120,
    crashed: Callable[[], object] = lambda: None,
    troubled: Callable[[str], object] = lambda _: None,
) -> BaseException | None:
    """Perform the workload for this ticket; return what it raised, if anything.

    With crash points it runs in a process of its own, at most `timeout_s` seconds each time, and
    is started again after each crash; `crashed` is called in between. Several members run in
    processes of their own at the same time, and none of them is started again: another takes over.
    `troubled` is told when a process could not write all that it saw.
    """
    if ticket.members > 1:
        return _together(workload, ticket, timeout_s, troubled)
    if ticket.crashes:
        return _in_children(workload, ticket, timeout_s, crashed, troubled)
    live = LiveRun(ticket)
    try:
        return perform(workload, live)
    finally:
        trouble = live.close()
        if trouble:
            troubled(trouble)


def _in_children(
    workload: Workload,
    ticket: Ticket,
    timeout_s: float,
    crashed: Callable[[], object],
    troubled: Callable[[str], object],
) -> BaseException | None:
    stalls = [fault for fault in ticket.crashes if fault.get("fault") == "stall_client"]
    crashes = [fault for fault in ticket.crashes if fault not in stalls]
    for attempt in range(1, RESTARTS_MAX + 1):
        # The first crash is for the first process, the second for its successor, and so on.
        chosen = crashes[attempt - 1 : attempt] + (stalls if attempt == 1 else [])
        started = replace(ticket, attempt=attempt, crashes=tuple(chosen))
        end = run_in_child(workload, started, timeout_s=timeout_s)
        if end.troubled:
            troubled(NOT_WHOLE)
        if not end.crashed:
            return WorkloadError(end.output) if end.raised else None
        crashed()
    return WorkloadError(f"the workload was killed {RESTARTS_MAX} times and not started again.")


def _together(
    workload: Workload, ticket: Ticket, timeout_s: float, troubled: Callable[[str], object]
) -> BaseException | None:
    numbers = range(1, ticket.members + 1)
    tickets = [replace(ticket, member=number, crashes=_of(ticket, number)) for number in numbers]
    with ThreadPoolExecutor(MEMBERS_MAX) as pool:
        ends = list(
            pool.map(lambda each: run_in_child(workload, each, timeout_s=timeout_s), tickets)
        )
    if any(end.troubled for end in ends):
        troubled(NOT_WHOLE)
    return next((WorkloadError(end.output) for end in ends if end.raised), None)


def _of(ticket: Ticket, member: int) -> tuple[dict[str, Any], ...]:
    return tuple(fault for fault in ticket.crashes if fault.get("member", 1) == member)
