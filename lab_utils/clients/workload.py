"""Carrying a workload out: here in this process, or in children that crash and are restarted.

    parent ── ticket.json, workload.pickle ──▶ python -m lab_utils.clients.workload FOLDER FD
       │───── standard input, never written ───────│   closed means: the parent is gone, so go
       ╰───── FD: each point that it reaches ──────╯   the parent counts, and kills (crash.py)

A learner's Lab and the learner's kernel under a grader do this in the same way: a ticket in, the
exception or nothing out. In a child, the workload is pickled by value (cloudpickle), as a
notebook's functions are.
"""

from __future__ import annotations

import dis
import inspect
import os
import pickle
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import cloudpickle
from confluent_kafka import KafkaException, cimpl

from lab_utils import processes
from lab_utils.clients import sinks
from lab_utils.clients.crash import CrashWatch
from lab_utils.clients.live_run import LiveRun, Ticket, Workload, perform
from lab_utils.clients.recorder import refused_setting
from lab_utils.errors import BadArgument, LabError, WaitTimeout
from lab_utils.ledger.history import carried
from lab_utils.ledger.store import Witness, read_ledger
from lab_utils.proxy.faults.client_faults import ClientFault, stall_client
from lab_utils.waiting import wait_until

RESTARTS_MAX: Final = 10
MEMBERS_MAX: Final = 4
# How long a process that is killed after a send may take until its request is seen.
SENT_S: Final = 3
NOT_WHOLE: Final = "the ledger could not be written: a workload's process lost events"
RAISED = 1
GAVE_UP = 3  # a client raised about its work, and nothing caught it
TROUBLED = 4  # it finished, and its part of the ledger is not whole

# The client's C classes name their module by its short name. Under that name it can be found, so
# a workload that uses TopicPartition takes the class along by name, and not a broken copy of it.
sys.modules.setdefault("cimpl", cimpl)
# cloudpickle takes along what a function names, but not what the body of a class in it names, as in
# `failed: list = field(default_factory=list)`. These instructions look for a global, too.
_BY_NAME: Final = {"LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"} & dis.opmap.keys()
cloudpickle.cloudpickle.GLOBAL_OPS += tuple(dis.opmap[each] for each in _BY_NAME)


class WorkloadError(LabError):
    """A workload that ran in a process of its own raised; the message is what it printed."""


@dataclass(eq=False)
class Children:
    """How the processes of a workload are started and killed, and where their deaths are written.

    place   the folder that holds what each process is given: its ticket, and the workload
    ledger  the folder in which the parent keeps what it saw of them
    timeout_s  what each may take
    crashed    is called when one was killed, before it is started again
    troubled   is told when not all could be written
    keeps_bookings  is one killed at a booking, so that each has to stay? `booked` are those so far
    """

    place: Path
    ledger: Path
    timeout_s: float
    crashed: Callable[[], object] = lambda: None
    troubled: Callable[[str], object] = lambda _: None
    keeps_bookings: bool = field(default=False, init=False)
    booked: set[str | None] = field(default_factory=set, init=False)

    def start(self, folder: Path, channel: int) -> subprocess.Popen[str]:
        """Start one, which finds what it is given in this folder, and its parent at `channel`."""
        return processes.spawn_module(
            __name__, str(folder), str(channel), pass_fds=(channel,), **STREAMS
        )

    def before_kill(self, fault: ClientFault, at: str) -> None:
        """A process waits at this point of a fault; an order that it has sent is on the wire."""
        if at == "after_send" and (order := fault.value) is not None:
            with suppress(WaitTimeout):
                wait_until(
                    lambda: self._is_sent(order), f"a request with {order}", timeout_s=SENT_S
                )

    def _is_sent(self, order: str) -> bool:
        requests = (row for row in read_ledger(self.ledger) if row.kind == "request")
        return any(order in carried(row) for row in requests)

    def kill(self, child: subprocess.Popen[str]) -> None:
        """End a process, and all that it started; return when they have ended."""
        processes.kill_group(child)

    def sink(self) -> tuple[bytes, bytes]:
        """The database of the run and the log of that, as a process that waits has left them.

        Raises LabError or OSError if they cannot be read.
        """
        return (self.place / sinks.FILE).read_bytes(), (self.place / sinks.LOG).read_bytes()

    def put_sink_back(self, database: bytes, log: bytes) -> None:
        """Leave these to the next process, once this one has been killed."""
        (self.place / sinks.FILE).write_bytes(database)
        (self.place / sinks.LOG).write_bytes(log)


STREAMS: Final[dict[str, Any]] = {
    "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "errors": "replace",
}  # fmt: skip


def require_workload(workload: object) -> None:
    """Raise BadArgument for what cannot be called, or of which a call performs nothing."""
    if not callable(workload):
        raise BadArgument(
            f"lab.run needs a function that takes the run; got {workload!r}. Pass the "
            "function itself, without calling it."
        )
    if inspect.isgeneratorfunction(workload) or inspect.isasyncgenfunction(workload):
        what, instead = "has a yield", "Leave the yield out"
    elif inspect.iscoroutinefunction(workload):
        what, instead = "is async", "Write `def` without async, and call nothing with await"
    else:
        return
    raise BadArgument(
        f"the workload {getattr(workload, '__name__', workload)!s} {what}: to call it performs "
        f"nothing of it. {instead}."
    )


def carry_out(
    workload: Workload,
    ticket: Ticket,
    *,
    timeout_s: float = 120,
    crashed: Callable[[], object] = lambda: None,
    troubled: Callable[[str], object] = lambda _: None,
) -> BaseException | None:
    """Perform the workload for this ticket; return what it raised, if anything.

    Where it is to be killed or has several members it runs in processes of its own
    (carry_out_in_children), else in this one. `troubled` is told when not all could be written.
    """
    if ticket.members > 1 or ticket.crashes or ticket.supervised:
        folder = Path(ticket.folder)
        children = Children(folder, folder, timeout_s, crashed, troubled)
        return carry_out_in_children(pickled(workload), ticket, children)
    live = LiveRun(ticket)
    try:
        return perform(workload, live)
    finally:
        trouble = live.close()
        if trouble:
            troubled(trouble)


def carry_out_in_children(
    function: bytes, ticket: Ticket, children: Children
) -> BaseException | None:
    """Perform a pickled workload in processes of its own.

    One that is killed is started again. So is one that a client's error has ended, once, if the
    ticket says so. Of several members at the same time none is started again: another takes over.
    """
    if ticket.members > 1:
        return _together(function, ticket, children)
    stalls = [fault for fault in ticket.crashes if isinstance(fault, stall_client)]
    crashes = [fault for fault in ticket.crashes if fault not in stalls]
    children.keeps_bookings = any(fault.is_about_a_booking for fault in crashes)
    for attempt in range(1, RESTARTS_MAX + 1):
        # The first crash is for the first process, the second for its successor, and so on.
        slow = [fault for fault in stalls if attempt == 1 or not fault.once]
        chosen = (*crashes[attempt - 1 : attempt], *slow)
        restarts = bool(ticket.crashes) or ticket.supervised
        started = replace(ticket, attempt=attempt, crashes=chosen, restarts=restarts)
        end = run_in_child(function, started, children)
        if end.troubled:
            children.troubled(NOT_WHOLE)
        if end.gave_up and attempt == 1:
            continue
        if not end.crashed:
            return end.error
        children.crashed()
    return WorkloadError(f"the workload was killed {RESTARTS_MAX} times and not started again.")


def _together(function: bytes, ticket: Ticket, children: Children) -> BaseException | None:
    alive: list[subprocess.Popen[str]] = []
    is_over = threading.Event()

    def began(child: subprocess.Popen[str]) -> None:
        alive.append(child)
        if is_over.is_set():
            child.kill()

    def end_of(member: int) -> ChildEnd:
        crashes = tuple(fault for fault in ticket.crashes if fault.member == member)
        own = replace(ticket, member=member, crashes=crashes)
        return run_in_child(function, own, children, began)

    with ThreadPoolExecutor(MEMBERS_MAX) as pool:
        try:
            ends = list(pool.map(end_of, range(1, ticket.members + 1)))
        except BaseException:  # an interrupt: the pool waits for each, which may wait for ever
            is_over.set()
            for child in alive:
                child.kill()
            raise
    if any(end.troubled for end in ends):
        children.troubled(NOT_WHOLE)
    return next((end.error for end in ends if end.error), None)


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child process ended: killed at a crash point, with an error, or finished.

    gave_up  it finished with what a client raised about its work
    error    it raised, or left; what it printed
    """

    crashed: bool
    gave_up: bool
    troubled: bool
    error: WorkloadError | None


def run_in_child(
    function: bytes,
    ticket: Ticket,
    children: Children,
    began: Callable[[subprocess.Popen[str]], object] = lambda _: None,
) -> ChildEnd:
    """Run the workload in a process of its own, of which `began` is told, and wait for its end."""
    name = f"process-{ticket.member}-{ticket.attempt}"
    folder = children.place / name
    folder.mkdir(mode=0o700, parents=True)
    (folder / "ticket.json").write_bytes(ticket.to_json())
    (folder / "workload.pickle").write_bytes(function)
    witness = Witness(children.ledger, name)
    watch = CrashWatch(
        ticket.run, ticket.crashes, witness.record, children, lambda: children.kill(child)
    )
    child = children.start(folder, watch.channel.fileno())
    began(child)
    watch.start()
    # Not communicate(): it would close the pipe whose closing tells the child that we are gone.
    end = processes.OutputEnd(child)
    try:
        code = child.wait(children.timeout_s)
    except subprocess.TimeoutExpired:
        raise WaitTimeout(
            f"waited {children.timeout_s:g} s for the workload's process (pid {child.pid}) to end; "
            "it was still running and has been killed. Does the workload wait for ever?"
        ) from None
    finally:
        children.kill(child)
        output = end.text()
        assert child.stdin is not None
        child.stdin.close()
        watch.close()
        witness.close()
    troubled = code == TROUBLED or bool(witness.trouble)
    gave_up = ticket.supervised and code == GAVE_UP
    raised = code not in (0, TROUBLED) and not gave_up and not watch.has_killed
    says_why = (code == RAISED and output.strip()) or output.endswith(processes.TOO_MUCH)
    if raised and not says_why:
        output += f"The workload's process {processes.ended_with(code)}, and not by the lab."
    reason = output if raised else watch.refusal
    error = WorkloadError(reason) if reason else None
    return ChildEnd(watch.has_killed, gave_up, troubled, error)


def pickled(workload: Workload) -> bytes:
    """Pickle a function by value also when its module is a file: the child must not import it."""
    function = workload
    while isinstance(function, partial):
        function = function.func
    module = sys.modules.get(getattr(function, "__module__", ""))
    by_value = module is not None and module.__name__ != "__main__"
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(workload)  # type: ignore[no-any-return]
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        what = ", ".join(_held(function)) or "something"
        raise BadArgument(
            f"this workload cannot run in a process of its own, which a crash needs: {error}. It "
            f"uses {what}, which belongs to this kernel. Make it inside the workload, or leave it "
            "out."
        ) from None
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


def _held(function: Any) -> Iterator[str]:
    """The names in a function whose values cannot leave this process."""
    try:
        used = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # it is no function, or a name in it has no value
        return
    for name, value in {**used.nonlocals, **used.globals}.items():
        try:
            cloudpickle.dumps(value)
        except Exception:  # whatever its class raises
            yield f"`{name}`"


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(RAISED)


def is_outcome(error: BaseException) -> bool:
    """Is it what a client raised about its work? That is an outcome, which is in the ledger."""
    return isinstance(error, KafkaException) and not refused_setting(error)


def main(folder: Path, channel: int) -> int:
    """Run the pickled workload of `folder`; the exit code says how it went."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.set_inheritable(channel, False)
    ticket = Ticket.from_json((folder / "ticket.json").read_bytes())
    sys.path.append(str(Path.cwd()))  # a learner's own modules come after those that are installed
    workload = cloudpickle.loads((folder / "workload.pickle").read_bytes())
    run = LiveRun(ticket, socket.socket(fileno=channel))
    error = perform(workload, run)
    trouble = run.close()
    if error is None or is_outcome(error):
        return TROUBLED if trouble else GAVE_UP if error and ticket.supervised else 0
    if setting := refused_setting(error):
        print(f"KafkaException: {setting}")  # noqa: T201
    elif isinstance(error, LabError):  # the sentence says what to do; our frames would hide it
        print(f"{type(error).__name__}: {error}")  # noqa: T201
    else:
        traceback.print_exception(error)
    return RAISED


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
