"""A consumer that takes one step at a time, in a process of its own: the child's half.

    parent ── {"number": 1, "do": "poll"} ──▶ standard input
    parent ◀── {"number": 1, "said": …, "offset": …, "position": …} ── standard output

It is a run's consumer like any other, recorded and behind the proxy. Between two steps it waits
for the next, and the client's own threads keep its place in the group. Standard input that closes
means that the parent is gone or has had enough: it ends in good order.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
from confluent_kafka import KafkaException, TopicPartition

from lab_utils.clients.live_run import LiveRun, Ticket
from lab_utils.clients.polling import WAIT_S, is_at_the_end
from lab_utils.ledger.events import value_text

PATIENCE_S: Final = 8
EMPTY: Final = "nothing is in hand. Poll first."
SETTINGS: Final = {
    "enable.auto.commit": False,
    # The place of a static member is kept for its successor, which need not wait for a time-out.
    "group.instance.id": "by-hand",
    # Also for whoever thinks about a step for a while; the default is five minutes.
    "max.poll.interval.ms": 3_600_000,
}


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


def main(folder: Path) -> int:
    """Take the steps that standard input names, until it closes."""
    run = LiveRun(Ticket.from_json((folder / "ticket.json").read_bytes()))
    run.note("started", attempt=run.attempt)
    steps = Steps(run)
    for line in sys.stdin:
        asked = orjson.loads(line)
        answer = {"number": asked["number"], **steps.take(asked["do"])}
        sys.stdout.write(orjson.dumps(answer).decode() + "\n")
        sys.stdout.flush()
    run.note("finished", attempt=run.attempt)
    return 1 if run.close() else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
