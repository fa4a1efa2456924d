"""A consumer by hand: poll, process, commit, and kill its process between any two of them.

It is a run like any other, whose workload is the person at the buttons. The consumer lives in a
process of its own (stepped.py), so a crash is a real one; the next start reads on where the broker
says that the group has read. What that is, the broker is asked, and not the client.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from lab_utils import processes
from lab_utils.clients.groups import Groups
from lab_utils.clients.live_run import Ticket
from lab_utils.errors import one_of
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import Witness

ORDERS: Final = ("a", "b", "c", "d", "e", "f")
VERBS: Final = ("start", "poll", "process", "commit", "crash")
ANSWERED_S: Final = 15
ENDED_S: Final = 10
DEAD: Final = "there is no process. Start it first."


class ConsumerByHand:
    """The run behind the consumer panel; a new one when it is asked for."""

    def __init__(
        self, direct: str, begin: Callable[[], Ticket], finish: Callable[[], object]
    ) -> None:
        self._groups = Groups(direct)
        self._begin = begin
        self._finish = finish
        self._ticket: Ticket | None = None
        self._process: SteppedProcess | None = None
        self._forget()

    def act(self, verb: str) -> str:
        """Do one thing; return what came of it, as a sentence."""
        verb = one_of("verb", verb, VERBS)
        if verb == "start":
            said = self._start()
        elif self._process is None:
            said = DEAD
        else:
            said = self._crash(self._process) if verb == "crash" else self._step(verb)
        return f"{verb}: {said}"

    def standing(self) -> dict[str, Any]:
        """Where everything stands now; offsets that there are not yet are None."""
        return {
            "process": self._words(),
            "orders": ORDERS,
            "delivered": [self._delivered[offset] for offset in range(len(ORDERS))],
            "processed": [self._processed[offset] for offset in range(len(ORDERS))],
            "in_hand": self._in_hand,
            "position": self._position,
            "committed": self._committed(),
        }

    def begin_again(self) -> str:
        """End this run, if there is one; the next start begins a new one."""
        self.close()
        return f"new run: {len(ORDERS)} orders, none of them read"

    def close(self) -> None:
        """End the process and the run."""
        process, self._process = self._process, None
        ticket, self._ticket = self._ticket, None
        self._forget()
        if process is not None:
            process.end()
        if ticket is not None:
            self._finish()

    def _forget(self) -> None:
        self._attempt = 0
        self._position: int | None = None
        self._in_hand: int | None = None
        self._delivered: Counter[int] = Counter()
        self._processed: Counter[int] = Counter()

    def _words(self) -> str:
        if self._process is not None:
            return f"process {self._process.pid} runs, start number {self._attempt}"
        return "killed" if self._attempt else "not started"

    def _start(self) -> str:
        if self._process is not None:
            return f"process {self._process.pid} runs already"
        self._ticket = self._ticket or self._begin()
        self._attempt += 1
        self._process = SteppedProcess(replace(self._ticket, attempt=self._attempt))
        return f"process {self._process.pid}; its first poll says where it reads on"

    def _step(self, verb: str) -> str:
        assert self._process is not None
        answer = self._process.ask(verb)
        if answer is None and self._process.is_dead:
            self._process.end()
            self._process = self._position = self._in_hand = None
            return "the process has ended by itself"
        if answer is None:
            return f"no answer within {ANSWERED_S} s. Wait, or crash it."
        self._position, offset = answer.get("position"), answer.get("offset")
        if offset is not None and verb == "poll":
            self._delivered[offset] += 1
            self._in_hand = offset
        elif offset is not None and verb == "process":
            self._processed[offset] += 1
        return str(answer["said"])

    def _crash(self, process: SteppedProcess) -> str:
        assert self._ticket is not None
        witness = Witness(Path(self._ticket.folder), f"hand-{self._attempt}")
        witness.record(
            Event(run=self._ticket.run, source="workload", actor="process", kind="crashed",
                  attempt=self._attempt, detail={"point": "by hand"})
        )  # fmt: skip
        witness.close()
        process.kill()
        self._process = self._position = self._in_hand = None
        return f"process {process.pid} is gone (SIGKILL), and with it all that it had in memory"

    def _committed(self) -> int | None:
        if self._ticket is None or not self._attempt:
            return None
        return next((it.offset for it in self._groups.committed(self._ticket.run)), None)


class SteppedProcess:
    """The parent's half of one process that takes steps."""

    def __init__(self, ticket: Ticket) -> None:
        folder = Path(ticket.folder) / f"process-{ticket.member}-{ticket.attempt}"
        folder.mkdir(mode=0o700, parents=True)
        (folder / "ticket.json").write_bytes(ticket.to_json())
        self._child = processes.spawn_module(
            "lab_utils.clients.stepped",
            str(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._number = 0
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def is_dead(self) -> bool:
        """Has it ended?"""
        return self._child.poll() is not None

    def ask(self, verb: str) -> dict[str, Any] | None:
        """Let it take a step; None if it does not answer in its time, or is dead."""
        assert self._child.stdin is not None
        self._number += 1
        try:
            self._child.stdin.write(orjson.dumps({"number": self._number, "do": verb}).decode())
            self._child.stdin.write("\n")
            self._child.stdin.flush()
            # What an earlier step said too late is passed over.
            while (answer := self._next()) is not None and answer["number"] != self._number:
                continue
        except BrokenPipeError:
            return None
        return answer

    def kill(self) -> None:
        """SIGKILL: it can say nothing more to anybody."""
        processes.kill_group(self._child)
        self._reader.join(ENDED_S)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def end(self) -> None:
        """Let it end in good order; kill it if it does not."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(ENDED_S)
        self.kill()

    def _next(self) -> dict[str, Any] | None:
        try:
            line = self._answers.get(timeout=ANSWERED_S)
        except queue.Empty:
            return None
        answer: dict[str, Any] | None = orjson.loads(line) if line else None
        return answer

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._answers.put(line)
        self._answers.put("")  # it has ended
