"""Transactions as a client's diary has them: what the program asked for, and what it was told.

A producer counts its transactions from 1. Each call that ends becomes one event when it returns:
`txn_initialised`, `txn_began`, `txn_offsets_sent`, `txn_committed` or `txn_aborted` if it
succeeded, else `txn_failed` with what the error asks for. It calls no client and decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from lab_utils.clients.recorder import Recorder

# The events by the call that they tell of.
KINDS: Final = {
    "init_transactions": "txn_initialised",
    "begin_transaction": "txn_began",
    "send_offsets_to_transaction": "txn_offsets_sent",
    "commit_transaction": "txn_committed",
    "abort_transaction": "txn_aborted",
}
ENDS: Final = ("commit_transaction", "abort_transaction")


def asks_for(error: KafkaError) -> str:
    """What an error of a transaction asks the program to do: stop, abort or retry.

    stop    the producer is fatally ill, and every further call will say so; also what is
            neither retriable nor abortable (librdkafka INTRODUCTION, transactional producer)
    abort   abort this transaction, then begin it again
    retry   call the same method again
    """
    if error.fatal():
        return "stop"
    if error.txn_requires_abort():
        return "abort"
    return "retry" if error.retriable() else "stop"


class Transactions:
    """The transactions of one producer: which one is open, and how each call went."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begun = 0
        self._is_open = False

    @property
    def current(self) -> str | None:
        """The number of the open transaction, as text; None outside."""
        return str(self._begun) if self._is_open else None

    @contextmanager
    def recorded(self, call: str, **detail: str) -> Iterator[None]:
        """Record how a call went that this block makes; what it raises is raised on."""
        begins = call == "begin_transaction"
        detail |= {"called_at_ns": str(time.monotonic_ns())}
        if call != "init_transactions":
            detail["transaction"] = str(self._begun + begins)
        try:
            yield
        except KafkaException as refusal:
            self._recorder.record("txn_failed", **_failure(call, refusal.args[0], detail))
            raise
        self._begun += begins
        self._is_open = begins or (self._is_open and call not in ENDS)
        self._recorder.record(KINDS[call], detail=detail)


def _failure(call: str, error: KafkaError, detail: dict[str, str]) -> dict[str, Any]:
    said = {"call": call, "asks_for": asks_for(error), "text": error.str()}
    return {"error": error.name(), "detail": detail | said}
