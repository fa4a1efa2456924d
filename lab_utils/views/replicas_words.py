"""What became of the replicas in words: the finding as a title, a summary, and every change.

It says what the rows show, worst first; the audit decides what is a breach.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from lab_utils.ledger.counts import was_drained
from lab_utils.ledger.events import Event
from lab_utils.views.elastic_time import MS, ms_text
from lab_utils.views.replication import LEADER, Decision, Replication, Step
from lab_utils.views.table import Table
from lab_utils.views.wording import counted, listed, shown

NAMED_LIMIT: Final = 4
UNREADABLE_MS: Final = 1000
LOOKED: Final = (
    "Log ends and watermark are looked at every 50 ms; an answer with an offset says that the "
    "leader has it, and to acks=all that the watermark has passed it."
)


def title(seen: Replication) -> str:
    """What happened to the replicas, worst first, in one sentence without a full stop."""
    if not seen.replicas:
        return "No broker wrote down anything about this partition"
    findings = (_lost, _refused, _unreadable, _leaderless, _taken_over, _broken, _shrunk)
    return next(filter(None, (finding(seen) for finding in findings)), "") or _calm(seen)


def summary(seen: Replication) -> str:
    """The replicas, each decision of the controller, and where the logs ended."""
    if not seen.replicas:
        return "0 replicas."
    said = [f"Partition {seen.partition} is on {brokers(seen.replicas)}."]
    said += [_decided(it, seen) for it in seen.decisions]
    ends = {step.broker: step.offset for step in seen.ends}
    reach = [f"{offset} (broker {broker})" for broker, offset in sorted(ends.items())]
    acks = [row for row in seen.reports if row.kind == "acked"]
    said += [f"The logs reach to {listed(reach)}."] if reach else []
    said += [f"{counted(len(acks), 'order')} acked."]
    return " ".join([*said, LOOKED])


def table(seen: Replication) -> Table:
    """Every change, oldest first; what stands out are the acks of orders that are lost."""
    lost = {id(row) for row in seen.lost}
    changes = [(it.at_ns, "controller", _said(it), False) for it in seen.decisions]
    changes += [_reached(step, "log end") for step in seen.ends]
    changes += [_reached(step, "high watermark") for step in seen.watermarks]
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
    first = seen.lost[0]
    holders = seen.holders(first)
    same = [row for row in seen.lost if seen.holders(row) == holders]
    it = "it" if len(same) == 1 else "them"
    alone = " alone" if len(holders) == 1 and len(seen.replicas) > 1 else ""
    by = f"acked by {brokers(holders)}{alone}" if holders else "acked"
    return f"{_orders(same)} {_was(same)} {by}, and {_why_lost(seen, first, it)}"


def _why_lost(seen: Replication, first: Event, it: str) -> str:
    """What came after the ack and took the record away."""
    new = seen.next_leader(first.at_ns)
    if new is not None:
        return f"broker {new.leader} became leader without {it}"
    leader = (seen.decided(first.at_ns) or Decision(0, None, frozenset())).leader
    ends = [span.word for span in seen.states(leader or 0) if span.end_ns > first.at_ns]
    if ends and ends[0] != "fenced":
        return f"broker {leader} {_became(ends[0])}"
    return f"{'is' if it == 'it' else 'are'} not in the log"


def _refused(seen: Replication) -> str:
    refused = [row for row in seen.reports if row.kind != "acked"]
    if not refused:
        return ""
    decision = seen.decided(refused[0].at_ns)
    same = [row for row in refused if seen.decided(row.at_ns) == decision]
    said = f"{_orders(same)} {_was(same)} not acked"
    if decision is None:
        return said
    if decision.leader is None:
        return f"{said}: the partition had no leader"
    if len(decision.isr) == len(seen.replicas):
        return said
    alone = " alone" if len(decision.isr) == 1 else ""
    return f"{said} while {brokers(decision.isr)}{alone} {_are(decision.isr)} in the ISR"


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
    return f"{_orders(rows)} {_was(rows)} acked, and no reader could see {it} {until}"


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
    kept = ", and every acked order is in the log" if _is_kept(seen) else ""
    return f"Broker {led[1]} took over from broker {led[0]}{kept}"


def _broken(seen: Replication) -> str:
    """A broker that leads, and that somebody stopped."""
    for broker in seen.replicas:
        word = next((it.word for it in seen.states(broker) if it.word != "fenced"), "")
        if word and any(it.word == LEADER for it in seen.roles(broker)):
            kept = ", and every acked order is in the log" if _is_kept(seen) else ""
            return f"The leader, broker {broker}, {_became(word)}{kept}"
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
    return f"All {len(seen.replicas)} replicas were in sync{led}"


def _is_kept(seen: Replication) -> bool:
    """Was an order acked, and is each that was acked in the log?"""
    acked = any(row.kind == "acked" for row in seen.reports)
    return acked and was_drained(seen.rows) and not seen.lost


def _decided(decision: Decision, seen: Replication) -> str:
    when = f"At {ms(decision.at_ns, seen)} ms: " if decision.is_seen else "At first: "
    return f"{when}{_said(decision)}."


def _said(decision: Decision) -> str:
    leads = "nobody leads" if decision.leader is None else f"broker {decision.leader} leads"
    more = f", {brokers(decision.elr)} eligible" if decision.elr else ""
    return f"{leads}, {brokers(decision.isr)} in the ISR{more}"


def _reached(step: Step, what: str) -> tuple[int, str, str, bool]:
    return step.at_ns, f"broker {step.broker}", f"{what} {step.offset}", False


def _fault(row: Event) -> tuple[str, str]:
    if row.kind.startswith("link_"):
        pair = shown("-".join(row.detail.get("brokers", "").split()), 20)
        return f"link {pair}", row.kind.removeprefix("link_")
    if row.kind == "healing":
        return "the lab", "begins to mend what is broken"
    return row.actor.replace("-", " "), _process(row.kind)


def _process(kind: str) -> str:
    return "power cut (a simulation)" if kind == "power_cut" else kind


def _became(word: str) -> str:
    """A state as what happened."""
    return {"died": "died", "power cut": "lost what it had not flushed"}.get(word, f"was {word}")


def _orders(rows: Sequence[Event]) -> str:
    if len(rows) > NAMED_LIMIT:
        return counted(len(rows), "order")
    return f"Order{'s' if len(rows) > 1 else ''} {listed([shown(it.value, 16) for it in rows])}"


def _was(rows: Sequence[Event]) -> str:
    return "were" if len(rows) > 1 else "was"


def _are(ids: frozenset[int]) -> str:
    return "was" if len(ids) == 1 else "were"
