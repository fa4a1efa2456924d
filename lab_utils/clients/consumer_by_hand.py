"""A consumer by hand: poll, process, commit, and kill its process between any two of them.

    ConsumerByHand ── (1, "poll") ──▶ Steps, in a process of its own
    ConsumerByHand ◀── (1, {"said": …, "offset": …, "position": …}) ──╯

It is a run like any other, recorded and behind the proxy, whose workload is the person at the
buttons. A crash is a real one; the next start reads on where the broker, and not the client, says
that the group has read. A pipe that closes means that the parent is gone or has had enough.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition

from lab_utils import processes
from lab_utils.clients.consumer import WAIT_S, is_at_the_end
from lab_utils.clients.groups import Groups
from lab_utils.clients.live_run import LiveRun, Ticket
from lab_utils.errors import one_of
from lab_utils.ledger.events import Event, value_text
from lab_utils.ledger.store import Witness

ORDERS: Final = ("a", "b", "c", "d", "e", "f")
VERBS: Final = ("start", "poll", "process", "commit", "crash")
ANSWERED_S: Final = 15
ENDED_S: Final = 10
PATIENCE_S: Final = 8
DEAD: Final = "there is no process. Start it first."
EMPTY: Final = "nothing is in hand. Poll first."
SETTINGS: Final = {
    "enable.auto.commit": False,
    # The place of a static member is kept for its successor, which need not wait for a time-out.
    "group.instance.id": "by-hand",
    # Also for whoever thinks about a step for a while; the default is five minutes.
    "max.poll.interval.ms": 3_600_000,
}


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
        self._pipe, theirs = Pipe()
        with theirs:
            self._child = processes.spawn_module(
                __name__, str(folder), str(theirs.fileno()), pass_fds=(theirs.fileno(),)
            )
        self._number = 0

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
        self._number += 1
        try:
            self._pipe.send((self._number, verb))
            while self._pipe.poll(ANSWERED_S):
                number, answer = self._pipe.recv()
                # What an earlier step said too late is passed over.
                if number == self._number:
                    return dict(answer)
        except (OSError, EOFError):  # Its end of the pipe is closed: it is about to be gone.
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(ENDED_S)
        return None

    def kill(self) -> None:
        """SIGKILL: it can say nothing more to anybody."""
        processes.kill_group(self._child)
        self._pipe.close()

    def end(self) -> None:
        """Let it end in good order; kill it if it does not."""
        self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(ENDED_S)
        self.kill()


class Steps:
    """The steps of one consumer; each says in a sentence what came of it."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._consumer = run.consumer(dict(SETTINGS))
        self._consumer.subscribe([run.topic])
        self._message: Any = None
        self.verbs: dict[str, Callable[[], dict[str, Any]]] = {
            "poll": self._poll, "process": self._process, "commit": self._commit,
        }  # fmt: skip

    def take(self, verb: str) -> dict[str, Any]:
        """Take a step; what came of it, and where the consumer would read on."""
        try:
            came = self.verbs[verb]()
        except KafkaException as refusal:
            error = refusal.args[0]
            came = {"said": f"{error.name()}. {error.str()}"}
        return came | {"position": self._position()}

    def _poll(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            message = self._consumer.poll(WAIT_S)
            if message is not None and message.error():
                return {"said": f"{message.error().name()}. {message.error().str()}"}
            if message is not None:
                self._message = message
                value, offset = value_text(message.value()), message.offset()
                return {"said": f"was given order {value}, at offset {offset}", "offset": offset}
            if is_at_the_end(self._consumer, 1):
                return {"said": "was given nothing: it has read the topic to its end"}
        return {"said": f"was given nothing within {PATIENCE_S} s"}

    def _process(self) -> dict[str, Any]:
        if self._message is None:
            return {"said": EMPTY}
        self._run.processed(self._message)
        said = f"the work for order {value_text(self._message.value())} is done"
        return {"said": said, "offset": self._message.offset()}

    def _commit(self) -> dict[str, Any]:
        if self._message is None:
            return {"said": EMPTY}
        (place,) = self._consumer.commit(self._message, asynchronous=False)
        return {"said": f"answered: the bookmark is {place.offset}"}

    def _position(self) -> int | None:
        (place,) = self._consumer.position([TopicPartition(self._run.topic, 0)])
        return place.offset if place.offset >= 0 else None


def main(folder: Path, parent: Connection) -> int:
    """Take the steps that the parent asks for, until its end of the pipe closes."""
    run = LiveRun(Ticket.from_json((folder / "ticket.json").read_bytes()))
    run.note("started", attempt=run.attempt)
    steps = Steps(run)
    with suppress(OSError, EOFError):
        while True:
            number, verb = parent.recv()
            parent.send((number, steps.take(verb)))
    run.note("finished", attempt=run.attempt)
    return 1 if run.close() else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Connection(int(sys.argv[2]))))
