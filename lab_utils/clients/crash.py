"""The points where a workload's process can be killed or stalled, counted from its start.

    process ── "I am at after_ack" ──▶ its parent: go on, wait so long, or nothing: it is killed
                                          ╰──▶ ledger: fault fired, process crashed

The process tells its parent of each point and waits for the word; the parent counts, and kills.
Where it matters which orders a point is about, the parent asks for them. Which commit of the
database has booked an order it sees for itself; to kill before that one, it takes the commit back.
So nothing in the process knows where it will end, and that it ended is its parent's testimony.
Names of points are in lab_utils/proxy/faults/client_faults.py. Only a child process has such
points; a kernel must survive its own experiment.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event as Flag
from threading import Lock, Thread, Timer
from typing import TYPE_CHECKING, Any, Final

from lab_utils.clients import sinks
from lab_utils.errors import LabError
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults.client_faults import CRASH_POINTS, ClientFault, stall_client

if TYPE_CHECKING:
    from lab_utils.clients.workload import Children

# How long a commit has been under way when a process is killed in it: long enough to be sent.
# Its answer must be held for longer: delay_response("OffsetCommit", by_ms=3000).
SENT_AFTER_S: Final = 0.5
# A point names the orders of one commit at most; more than this is no message of ours.
MESSAGE_BYTES_MAX: Final = 1_000_000
# And more than this altogether; each message counts for 100 bytes more, for it has to be read.
HEARD_BYTES_MAX: Final = 20_000_000
# The parent's answer if a point counts only where it is about a certain order.
WHICH: Final = -1
# The parent sees which orders these are about, when the second is reached.
DB_COMMITS: Final = ("before_db_commit", "after_db_commit")
# And its looks at the database use no more of a processor than this, each and all together. Of a
# table with a thousand commits one takes a tenth of a second.
LOOK_S_MAX: Final = 3
LOOKS_S_MAX: Final = 30
TOO_SLOW: Final = (
    "The table bookings takes too long to be read ({:.1f} s of a processor), so nobody can see "
    "which commit books {}. Is it a view? Book each order in a row of a table."
)
TAKEN_OUT: Final = (
    "Order {} was in the table bookings and was taken out again, so nobody can see which commit "
    "books it. Leave each booking in its table; what is not booked yet belongs into another one."
)
# What comes of a message that no lab's process sends, or of an end of the channel.
MALFORMED: Final = (OSError, ValueError, TypeError, RecursionError)


class CrashPoints:
    """The points that a workload reaches; without a channel to a parent, none of them matters."""

    def __init__(self, channel: socket.socket | None = None) -> None:
        self._lines = channel.makefile("rwb") if channel else None
        self._lock = Lock()

    def __bool__(self) -> bool:
        return self._lines is not None

    def reached(self, point: str, values: Callable[[], Iterable[str | None]] = tuple) -> None:
        """Tell the parent; it lets this process go on, stalls it, or ends it here.

        `values` says which orders the point is about; it is called only if that matters.
        """
        assert point in CRASH_POINTS, point
        stall_ms = self._asked(point=point)
        if stall_ms == WHICH:
            known = sorted(value for value in values() if value is not None)
            stall_ms = self._asked(point=point, values=known)
        while stall_ms:  # a further stall may be due at the same point
            Flag().wait(stall_ms / 1000)
            stall_ms = self._asked(stalled=point)

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Tell the parent that the commit of this block is under way; it may end it there."""
        self._asked(point="while_committing", under_way=True)
        try:
            yield
        finally:
            self._asked(left="while_committing")

    def _asked(self, **said: Any) -> int:
        """What the parent answers: how long to stall, or WHICH. Without one there is no process."""
        if self._lines is None:
            return 0
        with self._lock:
            self._lines.write(json.dumps(said).encode() + b"\n")
            self._lines.flush()
            answer = self._lines.readline()
        if not answer:
            os._exit(1)
        return int(answer)


class CrashWatch(Thread):
    """The parent's side: counts the points of one process, and has it killed at the chosen ones.

    kill     ends the process and all that it started; `has_killed` says that it was called
    refusal  why nobody can say where the process is to be killed, if what it has made is the reason
    channel  the process's end, to be inherited by it
    """

    def __init__(
        self,
        run: str,
        chosen: Iterable[ClientFault],
        record: Callable[[Event], object],
        parent: Children,
        kill: Callable[[], object],
    ) -> None:
        super().__init__(daemon=True)
        self.has_killed = False
        self.refusal = ""
        self._run = run
        self._record = record
        self._parent = parent
        self._kill = kill
        # Stalls come first: who is stalled and killed at one point dies at the end of it.
        self._chosen = sorted(chosen, key=lambda fault: not isinstance(fault, stall_client))
        self._reached: Counter[int] = Counter()
        self._after_stall: dict[str, list[ClientFault]] = {}
        self._timers: list[Timer] = []
        self._before_booking: dict[str, tuple[bytes, bytes]] = {}
        self._looked_s = 0.0
        self._ours, self.channel = socket.socketpair()

    def run(self) -> None:
        """Answer until the process has ended, or says what it has no business to say, or too much.

        A process that gets no answer ends itself.
        """
        heard = 0
        with self._ours, self._ours.makefile("rb") as lines, suppress(*MALFORMED):
            while heard < HEARD_BYTES_MAX and (line := lines.readline(MESSAGE_BYTES_MAX)):
                heard += len(line) + 100
                answer = self._answer(json.loads(line))
                if answer is None:
                    return
                self._ours.sendall(b"%d\n" % answer)

    def close(self) -> None:
        """The process has ended."""
        for timer in self._timers:
            timer.cancel()
        self.channel.close()
        self.join()

    def _answer(self, said: Any) -> int | None:
        """How many milliseconds the process is to stall, or WHICH; None if it has been killed."""
        if not isinstance(said, dict):
            raise ValueError(said)
        if "left" in said:
            for timer in self._timers:
                timer.cancel()
            return 0
        if "stalled" in said:
            return self._act(str(said["stalled"]), self._after_stall.pop(said["stalled"], []))
        point, values = str(said.get("point")), said.get("values")
        if values is None and self._is_about_one(point):
            return WHICH
        if point == DB_COMMITS[1] and self._parent.keeps_bookings:
            self._look()
        due = self._due(point, values if isinstance(values, list) else ())
        if not said.get("under_way"):
            return self._act(point, due)
        if due:
            timer = Timer(SENT_AFTER_S, self._act, (point, due))
            timer.daemon = True
            self._timers.append(timer)
            timer.start()
        return 0

    def _is_about_one(self, point: str) -> bool:
        return point not in DB_COMMITS and any(
            point in fault.points for fault in self._chosen if fault.value is not None
        )

    def _due(self, point: str, values: Collection[object]) -> list[ClientFault]:
        due = []
        for number, fault in enumerate(self._chosen):
            if self._is_met(fault, point, values):
                self._reached[number] += 1
                beyond = self._reached[number] - fault.nth
                if beyond == 0 or (beyond > 0 and not getattr(fault, "once", True)):
                    due.append(fault)
        return due

    def _is_met(self, fault: ClientFault, point: str, values: Collection[object]) -> bool:
        order = fault.value
        if order is None:
            return point in fault.points
        if point not in DB_COMMITS:
            return point in fault.points and order in values
        if point == DB_COMMITS[0] or not fault.is_about_a_booking:
            return False
        if self._may_look():
            with self._looking(f"order {order}"), suppress(LabError, OSError):
                database, log = self._parent.sink()
                if (length := sinks.log_before(order, database, log)) is not None:
                    self._before_booking[order] = database, log[:length]
            return order in self._before_booking
        return False

    def _may_look(self) -> bool:
        return not self.refusal and self._looked_s < LOOKS_S_MAX

    @contextmanager
    def _looking(self, what: str) -> Iterator[None]:
        began_s = time.thread_time()  # what others do meanwhile does not count
        yield
        took_s = time.thread_time() - began_s
        self._looked_s += took_s
        if took_s > LOOK_S_MAX:
            self.refusal = TOO_SLOW.format(took_s, what)

    def _look(self) -> None:
        """Is all still there that was booked before, also by a process that was killed?

        A kill at a booking that does not stay says nothing of the one that does.
        """
        if self._may_look():
            with self._looking("which order"), suppress(LabError, OSError):
                now = sinks.booked(*self._parent.sink())
                if gone := self._parent.booked - now:
                    self.refusal = TAKEN_OUT.format(min(map(str, gone)))
                self._parent.booked = now

    def _act(self, point: str, due: list[ClientFault]) -> int | None:
        for number, fault in enumerate(due, start=1):
            self._write("fault", type(fault).__name__, "fired", fault.as_text())
            if isinstance(fault, stall_client):
                self._after_stall[point] = due[number:]
                return fault.for_ms
            is_past = point == DB_COMMITS[1] and DB_COMMITS[0] in fault.points
            order = fault.value if is_past else None
            at = point if order is None else DB_COMMITS[0]
            self._parent.before_kill(fault, at)
            about = {} if fault.value is None else {"value": fault.value}
            self._write("workload", "process", "crashed", {"point": at} | about)
            self.has_killed = True
            self._kill()
            if order is not None:
                before = self._before_booking[order]
                self._parent.put_sink_back(*before)
                self._parent.booked = sinks.booked(*before)
            return None
        return 0

    def _write(self, source: str, actor: str, kind: str, detail: dict[str, str]) -> None:
        self._record(Event(run=self._run, source=source, actor=actor, kind=kind, detail=detail))
