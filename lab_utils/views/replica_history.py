"""What became of the replicas of one partition: who led, who was in sync, how far each log reached.

`Replication` shapes the rows of a run; `title`, `summary` and `table` say it in words, worst
first. It judges nothing: the audit decides what is a breach. Where the ledger begins with no
decision of the controller, the replicas are those that were seen, all of them in sync, as a run
begins. Times are the ledger's nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import REPORTS, History, Order
from lab_utils.views.picture import MS, ms_text
from lab_utils.views.tables import Table
from lab_utils.views.words import counted, listed, orders_named, shown

LEADER, IN_SYNC, ELIGIBLE, OUT = "leader", "in the ISR", "out, eligible", "out of the ISR"
# What a broker's process is after each event; none of these words is that it runs.
PROCESS: Final = {
    "killed": "killed", "stopped": "stopped", "paused": "paused", "died": "died",
    "power_cut": "power cut", "starting": "starting", "started": "", "resumed": "",
}  # fmt: skip
# A broker that is so writes its log: one that starts cuts it to match.
WRITES: Final = ("fenced", "starting")
LINKS: Final = {"link_cut": "cut", "link_held": "held", "link_slow": "slow", "link_open": ""}


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
        self.history = History(rows)
        self.partition = partition
        told = self.history.of("broker", "partition", "log_end", "watermark")
        self.topic = next((row.topic for row in told), None)

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
        here = (self.topic, self.partition)
        found = []
        for exchange in self.history.exchanges:
            asked = [row for row in exchange.requests if (row.topic, row.partition) == here]
            answers = [row for row in exchange.responses if (row.topic, row.partition) == here]
            for request, row in zip(asked, answers, strict=False):
                is_told = row.fate != "replaced" and not row.error and row.offset is not None
                if is_told and request.detail.get("acks") in acks:
                    end = (row.offset or 0) + (request.records or 1)
                    found += [Step(row.at_ns, it, end) for it in _ids(row.detail.get("broker"))]
        return found

    @cached_property
    def reports(self) -> list[Event]:
        """What the clients were told of their orders in this partition."""
        return [row for row in self.history.of("client", *REPORTS) if self._is_here(row)]

    @cached_property
    def lost(self) -> list[Event]:
        """The acks of orders that are not in the log."""
        return [row for row in self.history.lost if self._is_here(row)]

    @property
    def duplicated(self) -> list[Order]:
        """The orders that are in the log of this partition more than once."""
        return [it for it in self.history.duplicated if sum(map(self._is_here, it.copies)) > 1]

    def _is_here(self, row: Event) -> bool:
        return row.partition in (self.partition, None) and row.topic in (self.topic, None)

    @cached_property
    def faults(self) -> list[Event]:
        """What happened to brokers and links, and what the controller thought of it."""
        return self.history.of("broker", *PROCESS, *LINKS, "fenced", "unfenced", "healing")

    @property
    def finished_ns(self) -> int | None:
        """When the workload was done."""
        ends = self.history.of("workload", "finished")
        return ends[-1].at_ns if ends else None

    @property
    def healing_ns(self) -> int | None:
        """When the lab began to repair the cluster, if anything was broken."""
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
        return self.history.rows[-1].at_ns if self.history.rows else 0

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
        return _spans(moments, self.end_ns)

    @cached_property
    def links(self) -> dict[tuple[int, ...], list[Span]]:
        """The links that were cut or held, and when."""
        moments: dict[tuple[int, ...], list[tuple[int, str]]] = {}
        for row in self.faults:
            if row.kind in LINKS:
                pair = _ids(row.detail.get("brokers"))
                moments.setdefault(pair, []).append((row.at_ns, LINKS[row.kind]))
        return {pair: _spans(moments[pair], self.end_ns) for pair in sorted(moments)}

    def decided(self, at_ns: int) -> Decision | None:
        """What held at this moment."""
        return next((it for it in reversed(self.decisions) if it.at_ns <= at_ns), None)

    def leader(self, at_ns: int) -> int | None:
        """Who led at this moment."""
        decision = self.decided(at_ns)
        return decision.leader if decision else None

    def holders(self, report: Event) -> set[int]:
        """The brokers whose log reached beyond this acked record before somebody else led."""
        led_by, new = self.leader(report.at_ns), self.next_leader(report.at_ns)
        until = new.at_ns if new else self.end_ns
        offset = report.offset if report.offset is not None else -1
        reached = {it.broker for it in self.ends if it.at_ns < until and it.offset > offset >= 0}
        return reached | ({led_by} if led_by is not None else set())

    def next_leader(self, at_ns: int) -> Decision | None:
        """The first decision after this moment by which somebody else leads."""
        led_by = self.leader(at_ns)
        later = (it for it in self.decisions if it.at_ns > at_ns)
        return next((it for it in later if it.leader not in (led_by, None)), None)

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
        leader = self.leader(report.at_ns)
        ends = [it.start_ns for it in self.states(leader or 0) if it.end_ns > report.at_ns]
        ends += [it.at_ns for it in self.decisions
                 if it.at_ns > report.at_ns and it.leader != leader]  # fmt: skip
        until = min([*passed, *ends, self.finished_ns or self.end_ns])
        return max(until - report.at_ns, 0), until in passed

    def _of(self, kind: str) -> list[Event]:
        rows = self.history.of("broker", kind)
        return [row for row in rows if (row.topic, row.partition) == (self.topic, self.partition)]


def _ids(text: str | None) -> tuple[int, ...]:
    return tuple(int(each) for each in (text or "").split() if each.isdecimal())


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
    return [
        Step(row.at_ns, broker, row.offset)
        for row in rows
        if row.offset is not None
        for broker in _ids(row.actor.removeprefix("broker-"))
    ]


def _spans(moments: Sequence[tuple[int, str]], end_ns: int) -> list[Span]:
    """From each change of the word to the next; without a word there is nothing to say."""
    changes = [next(same) for _, same in groupby(moments, key=lambda moment: moment[1])]
    pairs = pairwise([*changes, (end_ns, "")])
    return [Span(at, end, word) for (at, word), (end, _) in pairs if word]


UNREADABLE_MS: Final = 1000
LOOKED: Final = (
    "Log ends and watermark are looked at every 50 ms; an answer with an offset says that the "
    "leader has it, and to acks=all that the watermark has passed it."
)


def title(seen: Replication) -> str:
    """What happened to the replicas, worst first, in one sentence without a full stop."""
    if not seen.replicas:
        return "No broker wrote down anything about this partition"
    findings = (_lost, _refused, _unreadable, _leaderless, _taken_over, _broken, _shrunk, _calm)
    return next(filter(None, (finding(seen) for finding in findings))) + _twice(seen)


def summary(seen: Replication) -> str:
    """The replicas, each decision of the controller, and where the logs ended."""
    if not seen.replicas:
        return "0 replicas."
    said = [f"Partition {seen.partition} is on {brokers(seen.replicas)}."]
    said += [
        f"{f'At {ms(it.at_ns, seen)} ms' if it.is_seen else 'At first'}: {_said(it)}."
        for it in seen.decisions
    ]
    ends = {step.broker: step.offset for step in seen.ends}
    reach = [f"{offset} (broker {broker})" for broker, offset in sorted(ends.items())]
    acks = [row for row in seen.reports if row.kind == "acked"]
    told = "The logs reach to" if len(reach) > 1 else "The log reaches to"
    said += [f"{told} {listed(reach)}."] if reach else []
    said += [f"{counted(len(acks), 'order')} acked."]
    return " ".join([*said, LOOKED])


def table(seen: Replication) -> Table:
    """Every change, oldest first; what stands out are the acks of orders that are lost."""
    lost = {id(row) for row in seen.lost}
    changes = [(it.at_ns, "controller", _said(it), False) for it in seen.decisions]
    changes += [
        (step.at_ns, f"broker {step.broker}", f"{what} {step.offset}", False)
        for what, steps in (("log end", seen.ends), ("high watermark", seen.watermarks))
        for step in steps
    ]
    changes += [(row.at_ns, *_fault(row), False) for row in seen.faults]
    changes += [(it.at_ns, it.actor, report(it, lost), id(it) in lost) for it in seen.reports]
    changes.sort(key=lambda change: change[0])
    marked = frozenset(number for number, change in enumerate(changes) if change[3])
    rows = [(ms(at_ns, seen), who, what) for at_ns, who, what, _ in changes]
    return Table(("ms", "who", "what"), rows, "What became of the replicas, in time", marked)


def brokers(ids: Iterable[int]) -> str:
    """Brokers as a reader says them.

    >>> brokers([1]), brokers([3, 1]), brokers([])
    ('broker 1', 'brokers 1 and 3', 'no broker')
    """
    names = [str(broker) for broker in sorted(ids)]
    return f"broker{'s' if len(names) > 1 else ''} {listed(names)}" if names else "no broker"


def report(row: Event, lost: Iterable[int] = ()) -> str:
    """What a client was told of one order."""
    order = f"order {shown(row.value, 40)}"
    if row.kind == "acked":
        place = "without an offset" if row.offset is None else f"at offset {row.offset}"
        return f"{order} acked {place}{', and not in the log' if id(row) in lost else ''}"
    return f"{order} not acked: {shown(row.error or row.kind, 60)}"


def ms(at_ns: int, seen: Replication) -> str:
    """Milliseconds since the first thing that is shown."""
    return ms_text(max(at_ns - seen.instants[0], 0) / MS)


def _lost(seen: Replication) -> str:
    if not seen.lost:
        return ""
    first, *others = seen.lost
    holders = seen.holders(first)
    it = "them" if others else "it"
    alone = " alone" if len(holders) == 1 and len(seen.replicas) > 1 else ""
    by = f"acked by {brokers(holders)}{alone}" if holders else "acked"
    if len(holders) > 1:  # who has it, which with acks=1 is more than the ack says
        by = f"acked when {brokers(holders)} had {it}"
    if all(row.offset is None for row in seen.lost):  # with acks=0 no broker has said anything
        by = "acked without an offset"
    elif any(seen.holders(row) != holders for row in others):
        by = "acked"
    whys = {_why_lost(seen, row, it) for row in seen.lost}
    why = whys.pop() if len(whys) == 1 else "are not in the log"
    return f"{_orders_were(seen.lost)} {by}, and {why}"


def _why_lost(seen: Replication, first: Event, it: str) -> str:
    """What came after the ack and took the record away."""
    new = seen.next_leader(first.at_ns)
    if new is not None:
        return f"broker {new.leader} became leader without {it}"
    leader = seen.leader(first.at_ns)
    ends = [span.word for span in seen.states(leader or 0) if span.end_ns > first.at_ns]
    if ends and ends[0] != "fenced":
        return f"broker {leader} {_became(ends[0])}"
    return f"{'is' if it == 'it' else 'are'} not in the log"


def _refused(seen: Replication) -> str:
    refused = [row for row in seen.reports if row.kind != "acked"]
    if not refused:
        return ""
    decision = seen.decided(refused[0].at_ns)
    held = {(it.leader, it.isr) for row in refused if (it := seen.decided(row.at_ns))}
    said = f"{_orders_were(refused)} not acked"
    if decision is None or len(held) > 1:
        return said
    if decision.leader is None:
        return f"{said}: the partition had no leader"
    if len(decision.isr) == len(seen.replicas):
        return said
    were = " alone was" if len(decision.isr) == 1 else " were"
    return f"{said} while {brokers(decision.isr)}{were} in the ISR"


def _unreadable(seen: Replication) -> str:
    """An acked record that the high watermark did not pass for a second or more."""
    acked = [it for it in seen.reports if it.kind == "acked" and it.offset is not None]
    waits = [(row, *seen.unreadable_ns(row)) for row in acked if seen.watermarks]
    long = [wait for wait in waits if wait[1] >= UNREADABLE_MS * MS]
    if not long:
        return ""
    rows = [row for row, *_ in long]
    _, waited_ns, has_passed = long[0]
    time, it = f"{ms_text(waited_ns / MS)} ms", "it" if len(rows) == 1 else "them"
    until = f"for {time}" if has_passed else f"in the {time} that followed"
    return f"{_orders_were(rows)} acked, and no reader could see {it} {until}"


def _leaderless(seen: Replication) -> str:
    without = next((it for it in seen.decisions if it.leader is None and it.is_seen), None)
    if without is None:
        return ""
    later = next((it for it in seen.decisions if it.at_ns > without.at_ns and it.leader), None)
    if later is None:
        return f"Nobody leads the partition from {ms(without.at_ns, seen)} ms on"
    gap = ms_text((later.at_ns - without.at_ns) / MS)
    return f"The partition had no leader for {gap} ms, then broker {later.leader} led"


def _taken_over(seen: Replication) -> str:
    leaders = [it.leader for it in seen.decisions if it.leader is not None]
    led = [leader for leader, _ in groupby(leaders)]
    if len(led) < 2:
        return ""
    return f"Broker {led[1]} took over from broker {led[0]}{_all_kept(seen)}"


def _broken(seen: Replication) -> str:
    """A broker that leads, and that somebody stopped."""
    for broker in seen.replicas:
        word = next((it.word for it in seen.states(broker) if it.word != "fenced"), "")
        if word and any(it.word == LEADER for it in seen.roles(broker)):
            return f"The leader, broker {broker}, {_became(word)}{_all_kept(seen)}"
    return ""


def _shrunk(seen: Replication) -> str:
    least = min(seen.decisions, key=lambda it: len(it.isr), default=None)
    if least is None or len(least.isr) == len(seen.replicas):
        return ""
    back = any(it.at_ns > least.at_ns and len(it.isr) > len(least.isr) for it in seen.decisions)
    again = " and grew again" if back else ""
    return f"The ISR shrank to {brokers(least.isr)}{again}"


def _calm(seen: Replication) -> str:
    leader = seen.decisions[0].leader if seen.decisions else None
    led = "" if leader is None else f", and broker {leader} led"
    if len(seen.replicas) == 1:
        return f"The only replica is on {brokers(seen.replicas)}"
    all_of_them = "Both" if len(seen.replicas) == 2 else f"All {len(seen.replicas)}"
    return f"{all_of_them} replicas were in sync{led}"


def _all_kept(seen: Replication) -> str:
    """What is said where an order was acked, and each that was acked is in the log."""
    acked = any(row.kind == "acked" for row in seen.reports)
    is_kept = acked and seen.history.is_drained and not seen.lost
    return ", and every acked order is in the log" if is_kept else ""


def _twice(seen: Replication) -> str:
    """What is said besides, where orders are in the log more than once."""
    return f". {_orders_were(seen.duplicated)} stored more than once" if seen.duplicated else ""


def _said(decision: Decision) -> str:
    leads = "nobody leads" if decision.leader is None else f"broker {decision.leader} leads"
    more = f", {brokers(decision.elr)} eligible" if decision.elr else ""
    return f"{leads}, {brokers(decision.isr)} in the ISR{more}"


def _fault(row: Event) -> tuple[str, str]:
    if row.kind.startswith("link_"):
        pair = shown("-".join(row.detail.get("brokers", "").split()), 20)
        return f"link {pair}", row.kind.removeprefix("link_")
    if row.kind == "healing":
        return "the lab", "begins to repair the cluster"
    what = "power cut (a simulation)" if row.kind == "power_cut" else row.kind
    return row.actor.replace("-", " "), what


def _became(word: str) -> str:
    """A state as what happened."""
    return {"died": "died", "power cut": "lost what it had not flushed"}.get(word, f"was {word}")


def _orders_were(rows: Sequence[Event | Order]) -> str:
    return f"{orders_named([it.value for it in rows])} {'were' if len(rows) > 1 else 'was'}"
