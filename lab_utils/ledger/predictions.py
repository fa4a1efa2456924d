"""Predictions: what a learner expected, stored before the run that decides it.

A prediction is graded for being made, never for being right, so it is compared and not scored.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import EllipsisType
from typing import Final

import orjson

from lab_utils.errors import BadArgument, LedgerError, one_of, text
from lab_utils.ledger.counts import count
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import append

QUESTIONS: Final = (
    "sent", "acked", "failed", "unknown", "stored", "duplicated", "lost", "log",
    "delivered", "processed", "repeated", "skipped", "committed", "visible",
)  # fmt: skip

# Of these the answer is the values in order; of all others it is a number.
LISTS: Final = ("log", "visible")

NO_ANSWER: Final = "no answer"
NOTHING: Final = "nothing"  # was committed

# `...` or "..." stands in a notebook where the learner has not answered yet.
Answer = int | str | Sequence[str] | EllipsisType | None


@dataclass(frozen=True, slots=True)
class Compared:
    """One question of a prediction: what was expected, and what was observed."""

    question: str
    yours: str
    observed: str

    @property
    def differs(self) -> bool:
        """Was something expected, and is the observation another one?"""
        return self.was_answered and self.yours != self.observed

    @property
    def was_answered(self) -> bool:
        """Did the learner say what to expect?"""
        return self.yours != NO_ANSWER


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a learner expects of the next run: counts by name, the log in order, and a reason."""

    expected: dict[str, str]
    because: str

    def compare(self, rows: Sequence[Event]) -> list[Compared]:
        """The expectation beside the observation, question by question."""
        seen = observed(rows)
        return [
            Compared(question, yours, seen[question]) for question, yours in self.expected.items()
        ]

    def store(self, folder: Path) -> None:
        """Append this prediction to the lab's predictions, before anything is run.

        Raises LedgerError where it cannot be kept.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(folder / "predictions.jsonl", flags, 0o600)
            try:
                append(file, orjson.dumps(asdict(self), option=orjson.OPT_APPEND_NEWLINE))
            finally:
                os.close(file)
        except OSError as error:
            raise LedgerError(
                f"the prediction cannot be kept in {folder}: {error.strerror}. Make room there, or "
                "set LAB_STATE to a folder that you may write to."
            ) from None


def predict(expected: dict[str, Answer], because: str | None) -> Prediction:
    """A prediction from the learner's words.

    Raises BadArgument without a reason, for a question nobody asked, for orders where their number
    is asked, and for what is no sequence of orders: it would differ, also where it is right.
    """
    if because is None:
        raise BadArgument(
            "a prediction says what you expect and why; this one has no because. Write it as in "
            'lab.predict(acked=3, because="no answer is lost").'
        )
    said = {one_of("what you predict", name, QUESTIONS): _text(it) for name, it in expected.items()}
    for name, it in said.items():
        given = expected[name]
        if name not in LISTS and not it.isdecimal() and it not in (NO_ANSWER, NOTHING):
            raise BadArgument(
                f"{name} is a whole number, 0 or more, as in {name}=3; got {given!r:.200}."
            )
        if name in LISTS and not isinstance(given, int | str | Sequence | EllipsisType | None):
            raise BadArgument(
                f'{name} is the orders in sequence, as in {name}="0 1 2"; got {given!r:.200}.'
            )
    return Prediction(said, text("because", because))


def observed(rows: Sequence[Event]) -> dict[str, str]:
    """What the ledger says to each question; the log is the values in order of their offsets."""
    counts = count(rows)
    logs: dict[str, Answer] = {"log": values(rows, "record"), "visible": visible(rows)}
    seen: dict[str, Answer] = {
        name: getattr(counts, name) for name in QUESTIONS if name not in LISTS
    } | logs
    seen["committed"] = seen["committed"] or NOTHING
    return {name: _text(answer) for name, answer in seen.items()}


def values(rows: Sequence[Event], kind: str) -> list[str]:
    """What a reader was given, partition by partition, in the order of the offsets.

    The run's first topic, that of the orders, comes before its further topics.
    """
    read = [row for row in rows if (row.source, row.kind) == ("log", kind)]
    read.sort(key=lambda row: (row.partition or 0, row.offset or 0))
    read.sort(key=lambda row: (not (row.topic or "").endswith("-orders"), row.topic))
    return [row.value or "" for row in read]


def visible(rows: Sequence[Event]) -> list[str]:
    """What a read_committed reader is given: without a transaction, all of the log."""
    has_transactions = any((row.source, row.kind) == ("log", "transaction") for row in rows)
    return values(rows, "visible" if has_transactions else "record")


def _text(answer: Answer) -> str:
    """One spelling for an answer, so that `[0, 1]`, `"0, 1"` and `"0 1"` compare equal."""
    if answer is None or answer is ...:
        return NO_ANSWER
    if isinstance(answer, str):
        words = answer.replace(",", " ").split()
        return NO_ANSWER if "..." in words else " ".join(words)
    if isinstance(answer, Sequence):
        return " ".join(str(it) for it in answer)
    return str(answer)
