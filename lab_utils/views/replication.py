"""What became of the replicas of one partition: who led, who was in sync, how far each log reached.

Shapes the rows of a run for pictures and judges nothing. Where the ledger begins with no decision
of the controller, the replicas are those that were seen, all of them in sync, as a run begins.
Times are the ledger's nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lab_utils.ledger.counts import was_drained
from lab_utils.ledger.events import Event

LEADER, IN_SYNC, ELIGIBLE, OUT = "leader", "in the ISR", "out, eligible", "out of the ISR"
# What a broker's process is after each event; none of these words is that it runs.
PROCESS: Final = {
    "killed": "killed", "stopped": "stopped", "paused": "paused", "died": "died",
    "power_cut": "power cut", "starting": "starting", "started": "", "resumed": "",
}  # fmt: skip
# A broker that is so writes its log: one that starts cuts it to match.
WRITES: Final = ("fenced", "starting")
LINKS: Final = {"link_cut": "cut", "link_held": "held", "link_slow": "slow", "link_open": ""}
REPORTS: Final = ("acked", "failed", "unknown")


@dataclass(frozen=True, slots=True)
class Span:
    """What was so from one moment to another."""

    start_ns: int
    end_ns: int
    word: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What the controller decided; `is_seen` is False for what a run begins with."""

    at_ns: int
    leader: int | None
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()
    is_seen: bool = True

    def role(self, broker: int) -> str:
        """What a replica is by this decision."""
        if broker == self.leader:
            return LEADER
        return IN_SYNC if broker in self.isr else ELIGIBLE if broker in self.elr else OUT


@dataclass(frozen=True, slots=True)
class Step:
    """A log end or a high watermark from this moment on."""

    at_ns: int
    broker: int
    offset: int


class Replication:
    """The rows of a run, as far as they are about one partition and its brokers."""

    def __init__(self, rows: Sequence[Event], partition: int = 0) -> None:
        self.rows = rows
        self.partition = partition
        kinds = ("partition", "log_end", "watermark")
        topics = [row.topic for row in rows if row.source == "broker" and row.kind in kinds]
        self.topic = next(iter(topics), None)

    @cached_property
    def replicas(self) -> list[int]:
        """The brokers that hold this partition, by their ids."""
        decided = self._of("partition")
        named = {broker for row in decided for broker in _ids(row.detail.get("replicas"))}
        return sorted(named | {step.broker for step in (*self.ends, *self.watermarks)})

    @cached_property
    def decisions(self) -> list[Decision]:
        """Who leads and who is in sync, from when on; the first is what the run begins with."""
        seen = [_decision(row) for row in self._of("partition")]
        first = min((step.at_ns for step in self.ends), default=None)
        if first is None or (seen and seen[0].at_ns <= first):
            return seen
        begun = min([first, *(row.at_ns for row in (*self.faults, *self.reports))])
        before = seen[0].at_ns if seen else self.end_ns
        told = [it.broker for it in self.watermarks if it.at_ns < before]
        leader = next(iter(told), None)
        return [Decision(begun, leader, frozenset(self.replicas), is_seen=False), *seen]

    @cached_property
    def ends(self) -> list[Step]:
        """How far the log of each replica reached, where that changed.

        A broker that does not run writes nothing: what is seen then was there when it ended. What
        it has answered with an offset was there, too.
        """
        seen = _steps(self._of("log_end"))
        looked = [Step(self._written_ns(step), step.broker, step.offset) for step in seen]
        return _changes([*looked, *self._answered(("-1", "1"))])

    @cached_property
    def watermarks(self) -> list[Step]:
        """Up to where readers may read, as the leader of the time said.

        It said so when it was asked, and each time that it answered a request with acks=all.
        """
        return _changes([*_steps(self._of("watermark")), *self._answered(("-1",))])

    def _answered(self, acks: Sequence[str]) -> list[Step]:
        """What answers say: the leader has written, and with acks=all the watermark has passed."""
        wire = [row for row in self.rows if row.source == "wire" and row.api == "Produce"]
        waits = {_exchange(row): row for row in wire if row.detail.get("acks") in acks}
        found = []
        for row in wire:
            asked = waits.get(_exchange(row))
            is_answer = row.kind == "response" and row.fate != "replaced" and not row.error
            if asked and is_answer and row.offset is not None and self._is_here(row):
                broker = int(row.detail["broker"])
                found.append(Step(row.at_ns, broker, row.offset + (asked.records or 1)))
        return found

    def _is_here(self, row: Event) -> bool:
        is_known = row.detail.get("broker", "").isdecimal()
        return is_known and (row.topic, row.partition) == (self.topic, self.partition)

    @cached_property
    def reports(self) -> list[Event]:
        """What the clients were told of their orders in this partition."""
        return [
            row for row in self.rows
            if row.source == "client" and row.kind in REPORTS
            and row.partition in (self.partition, None) and row.topic in (self.topic, None)
        ]  # fmt: skip

    @cached_property
    def faults(self) -> list[Event]:
        """What happened to brokers and links, and what the controller thought of it."""
        kinds = (*PROCESS, *LINKS, "fenced", "unfenced", "healing")
        return [row for row in self.rows if row.source == "broker" and row.kind in kinds]

    @property
    def finished_ns(self) -> int | None:
        """When the workload was done."""
        ends = [row.at_ns for row in self.rows if (row.source, row.kind) == _FINISHED]
        return max(ends, default=None)

    @property
    def healing_ns(self) -> int | None:
        """When the lab began to mend what was broken, if anything was."""
        return next((row.at_ns for row in self.faults if row.kind == "healing"), None)

    @cached_property
    def instants(self) -> list[int]:
        """When something happened that a picture shows."""
        things: list[Decision | Step | Event] = [*self.decisions, *self.ends, *self.watermarks]
        things += [*self.reports, *self.faults]
        moments = {thing.at_ns for thing in things}
        finished = self.finished_ns
        return sorted(moments | {finished} if finished and moments else moments)

    @property
    def end_ns(self) -> int:
        """The last moment of the ledger."""
        return max((row.at_ns for row in self.rows), default=0)

    def roles(self, broker: int) -> list[Span]:
        """What this replica was to the controller."""
        return _spans([(it.at_ns, it.role(broker)) for it in self.decisions], self.end_ns)

    def states(self, broker: int) -> list[Span]:
        """When the broker did not run, or was fenced while it ran."""
        process, is_fenced, moments = "", False, []
        for row in self.faults:
            if row.actor == f"broker-{broker}" and row.kind not in LINKS:
                process = PROCESS.get(row.kind, process)
                is_fenced = {"fenced": True, "unfenced": False}.get(row.kind, is_fenced)
                moments.append((row.at_ns, process or ("fenced" if is_fenced else "")))
        return [span for span in _spans(moments, self.end_ns) if span.word]

    @cached_property
    def links(self) -> dict[tuple[int, ...], list[Span]]:
        """The links that were cut or held, and when."""
        moments: dict[tuple[int, ...], list[tuple[int, str]]] = {}
        for row in self.faults:
            if row.kind in LINKS:
                pair = _ids(row.detail.get("brokers"))
                moments.setdefault(pair, []).append((row.at_ns, LINKS[row.kind]))
        spans = {pair: _spans(moments[pair], self.end_ns) for pair in sorted(moments)}
        return {pair: [it for it in found if it.word] for pair, found in spans.items()}

    def decided(self, at_ns: int) -> Decision | None:
        """What held at this moment."""
        return next((it for it in reversed(self.decisions) if it.at_ns <= at_ns), None)

    def holders(self, report: Event) -> set[int]:
        """The brokers whose log reached beyond this acked record before somebody else led."""
        now = self.decided(report.at_ns)
        led_by = now.leader if now else None
        changes = [it.at_ns for it in self.decisions if it.at_ns > report.at_ns]
        until = next((at for at in changes if self._leader(at) not in (led_by, None)), self.end_ns)
        offset = report.offset if report.offset is not None else -1
        reached = {it.broker for it in self.ends if it.at_ns < until and it.offset > offset >= 0}
        return reached | ({led_by} if led_by is not None else set())

    def next_leader(self, at_ns: int) -> Decision | None:
        """The first decision after this moment by which somebody else leads."""
        now = self.decided(at_ns)
        led_by = now.leader if now else None
        later = (it for it in self.decisions if it.at_ns > at_ns)
        return next((it for it in later if it.leader not in (led_by, None)), None)

    @cached_property
    def lost(self) -> list[Event]:
        """The acked reports whose order is not in the log, if that was read to its end."""
        stored = {row.value for row in self.rows if (row.source, row.kind) == ("log", "record")}
        acked = [row for row in self.reports if row.kind == "acked"]
        return [row for row in acked if row.value not in stored] if was_drained(self.rows) else []

    def _written_ns(self, step: Step) -> int:
        idle = (it for it in self.states(step.broker) if it.word not in WRITES)
        starts = (it.start_ns for it in idle if it.start_ns <= step.at_ns < it.end_ns)
        return next(starts, step.at_ns)

    def unreadable_ns(self, report: Event) -> tuple[int, bool]:
        """How long an acked record stayed above the watermark, and whether that passed it.

        It counts while one leader runs: of a dead one nobody knows the watermark.
        """
        offset = report.offset if report.offset is not None else -1
        passed = [it.at_ns for it in self.watermarks if it.offset > offset]
        leader = self._leader(report.at_ns)
        ends = [it.start_ns for it in self.states(leader or 0) if it.end_ns > report.at_ns]
        ends += [it.at_ns for it in self.decisions
                 if it.at_ns > report.at_ns and it.leader != leader]  # fmt: skip
        until = min([*passed, *ends, self.finished_ns or self.end_ns])
        return max(until - report.at_ns, 0), until in passed

    def _leader(self, at_ns: int) -> int | None:
        decision = self.decided(at_ns)
        return decision.leader if decision else None

    def _of(self, kind: str) -> list[Event]:
        place = (self.topic, self.partition)
        return [
            row for row in self.rows
            if row.source == "broker" and row.kind == kind and (row.topic, row.partition) == place
        ]  # fmt: skip


_FINISHED: Final = ("workload", "finished")


def broker_of(actor: str) -> int | None:
    """The broker's id, if that is what the actor is.

    >>> broker_of("broker-2"), broker_of("producer-1")
    (2, None)
    """
    name, _, number = actor.rpartition("-")
    return int(number) if name == "broker" and number.isdecimal() else None


def _ids(text: str | None) -> tuple[int, ...]:
    return tuple(int(each) for each in (text or "").split() if each.isdecimal())


def _exchange(row: Event) -> tuple[str | None, int | None, str | None, int | None]:
    return row.detail.get("connection"), row.correlation_id, row.topic, row.partition


def _changes(steps: Iterable[Step]) -> list[Step]:
    """The steps in time, without those that change nothing for their broker."""
    last: dict[int, int] = {}
    kept = []
    for step in sorted(steps, key=lambda step: step.at_ns):
        if last.get(step.broker) != step.offset:
            kept.append(step)
        last[step.broker] = step.offset
    return kept


def _decision(row: Event) -> Decision:
    leader = next(iter(_ids(row.detail.get("leader"))), None)
    isr, elr = (frozenset(_ids(row.detail.get(name))) for name in ("isr", "elr"))
    return Decision(row.at_ns, leader, isr, elr)


def _steps(rows: Iterable[Event]) -> list[Step]:
    placed = ((row, broker_of(row.actor)) for row in rows)
    return [
        Step(row.at_ns, broker, row.offset)
        for row, broker in placed
        if broker is not None and row.offset is not None
    ]


def _spans(moments: Sequence[tuple[int, str]], end_ns: int) -> list[Span]:
    """From each change of the word to the next."""
    changes: list[tuple[int, str]] = []
    for at_ns, word in moments:
        if not changes or changes[-1][1] != word:
            changes.append((at_ns, word))
    after = [*changes[1:], (end_ns, "")]
    return [Span(at, end, word) for (at, word), (end, _) in zip(changes, after, strict=False)]
