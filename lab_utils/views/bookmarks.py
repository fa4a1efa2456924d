"""What a consumer was handed, did and committed, step by step: the history of one partition.

    events ──▶ steps (delivered, processed, committed, killed, …) ──▶ offset_diagram.py draws them

Pure shaping. A commit counts from when its request was forwarded to the broker, whoever sent it:
the timer of a client that is killed takes its own report along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.views.table import Table
from lab_utils.views.wording import counted, listed

STEPS_MAX: Final = 120
OF_RECORDS: Final = ("delivered", "processed", "stored", "sought")
OF_PARTITIONS: Final = ("assigned", "revoked", "lost")
COLUMNS: Final = ("step", "who", "what", "offset", "order")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what happened, by whom, and at which offset, if at one."""

    kind: str
    actor: str
    offset: int | None
    value: str | None


@dataclass(frozen=True)
class Bookmarks:
    """The steps of one partition, oldest first, and the values of its records by offset."""

    partition: int
    steps: tuple[Step, ...]
    values: dict[int, str]

    @cached_property
    def work(self) -> Counter[int]:
        """How often the work was done for each offset."""
        done = [step.offset for step in self.steps if step.kind == "processed"]
        return Counter(offset for offset in done if offset is not None)

    @cached_property
    def committed(self) -> int | None:
        """The last offset that was committed."""
        return next((s.offset for s in reversed(self.steps) if s.kind == "committed"), None)

    @property
    def repeated(self) -> list[int]:
        """The offsets that were processed more than once."""
        return sorted(offset for offset, times in self.work.items() if times > 1)

    @property
    def skipped(self) -> list[int]:
        """The offsets before the bookmark that were never processed, if anything was."""
        if not self.work:
            return []
        return [
            at for at in sorted(self.values) if not self.work[at] and at < (self.committed or 0)
        ]

    def title(self) -> str:
        """What the picture shows, as a sentence."""
        said = []
        if self.skipped:
            said.append(f"{self._named(self.skipped)} skipped: the bookmark was ahead of the work")
        if self.repeated:
            why = (
                "the bookmark was behind the work" if self._is_killed() else "they were read again"
            )
            said.append(f"{self._named(self.repeated)} processed more than once: {why}")
        return ". ".join(said) or "Every order before the bookmark was processed once"

    def summary(self) -> str:
        """The picture in words."""
        counts = Counter(step.kind for step in self.steps)
        names = ("delivered", "processed", "committed", "killed")
        told = [f"{counted(counts[name], 'time')} {name}" for name in names if counts[name]]
        last = "nothing" if self.committed is None else f"offset {self.committed}"
        return f"Partition {self.partition}: {listed(told)}. Last committed: {last}."

    def table(self) -> Table:
        """The steps as rows."""
        rows = [
            (number, step.actor, step.kind, step.offset, step.value)
            for number, step in enumerate(self.steps, start=1)
        ]
        return Table(COLUMNS, rows, f"The steps of partition {self.partition}.")

    def _is_killed(self) -> bool:
        return any(step.kind == "killed" for step in self.steps)

    def _named(self, offsets: Sequence[int]) -> str:
        names = [self.values.get(offset, f"at {offset}") for offset in offsets[:4]]
        more = ["others"] if len(offsets) > 4 else []
        verb = "was" if len(offsets) == 1 else "were"
        return f"Order{'s' if len(offsets) > 1 else ''} {listed(names + more)} {verb}"


def bookmarks(rows: Sequence[Event], partition: int = 0) -> Bookmarks:
    """The history of one partition of the topic that was consumed."""
    topic = next((row.topic for row in rows if row.kind == "delivered"), None)
    here = ((topic, partition), (None, None))
    about = (row for row in rows if (row.topic, row.partition) in here)
    steps = filter(None, map(_step, sorted(about, key=lambda row: row.at_ns)))
    values = {
        row.offset: row.value or ""
        for row in rows
        if (row.source, row.kind) == ("log", "record")
        and (row.topic, row.partition) == (topic, partition)
        and row.offset is not None
    }
    return Bookmarks(partition, tuple(islice(steps, STEPS_MAX)), values)


def _step(row: Event) -> Step | None:
    if row.source == "client" and row.kind in OF_RECORDS + OF_PARTITIONS:
        return Step(row.kind, row.actor, row.offset, row.value)
    if _is_commit(row):
        return Step("committed", row.actor, row.offset, None)
    if (row.source, row.kind) == ("workload", "crashed"):
        return Step("killed", row.actor, None, None)
    if (row.source, row.kind) == ("workload", "started") and (row.attempt or 1) > 1:
        return Step("started again", row.actor, None, None)
    return None


def _is_commit(row: Event) -> bool:
    """Is it a commit on its way to the broker? Of one partition, which is all that a row names."""
    is_request = (row.source, row.kind) == ("wire", "request") and row.fate == "forwarded"
    return is_request and row.api in ("OffsetCommit", "TxnOffsetCommit") and row.offset is not None
