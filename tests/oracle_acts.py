"""What the oracle knows of what was done to brokers and topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lab_utils.ledger.events import Event
from tests.oracle_facts import Run, Transaction, of, order, same


def ends_power_cut(row: Event, cut: Event) -> bool:
    return (row.source, row.kind, row.actor) == ("broker", "started", cut.actor)


def ends_deletion(row: Event, asked: Event) -> bool:
    is_answer = (row.source, row.kind, row.api) == ("wire", "response", "CreateTopics")
    return is_answer and row.topic == asked.topic and not row.error and row.fate != "replaced"


def was_sent_since(run: Run, them: tuple[Any, ...]) -> bool:
    """Was an order sent each time when all power cuts and deletions of its topic were over?"""
    sends = [row.at_ns for row in same(run.said("sent"), them)]
    if len(sends) < len(same(run.said("acked"), them)):
        return False
    acts = [(row, ends_power_cut) for row in run.rows if row.kind == "power_cut"] + [
        (row, ends_deletion)
        for row in run.kind("wire", "request")
        if row.api == "DeleteTopics" and row.topic in (None, them[0]) and row.fate != "dropped"
    ]
    return bool(acts) and all(
        any(act.at_ns < row.at_ns < min(sends) and ends(row, act) for row in run.rows)
        for act, ends in acts
    )


def told_positions(run: Run, groups: Iterable[str], topic: str, partition: int) -> list[int]:
    """The positions that members of these groups last committed by themselves."""
    found = []
    for name in groups:
        told = [
            (row.at_ns, row.offset)
            for row in run.said("committed")
            if row.offset is not None
            and run.group(row.actor) == name
            and (row.topic, row.partition) == (topic, partition)
        ]
        found += [offset for _, offset in sorted(told)[-1:]]
    return found


def fenced_commits(run: Run) -> set[Transaction]:
    """Transactions that hold something, committed by a producer that another had fenced."""
    topics = run.kind("workload", "topic")
    unclean = "unclean.leader.election.enable"
    if any(row.kind == "power_cut" for row in run.rows):
        return set()
    if any(row.detail.get(unclean, "false") != "false" for row in topics):
        return set()
    lives = run.said("created")
    ids = {
        row.actor: row.detail["transactional.id"]
        for row in lives
        if "transactional.id" in row.detail and sum(it.actor == row.actor for it in lives) == 1
    }
    starts = run.said("txn_initialised")
    found = set()
    for sent in run.said("sent"):
        transaction, sends = of(sent), same(run.said("sent"), order(sent))
        mine = [row for row in sends if row.actor == sent.actor]
        acks = [row for row in same(run.said("acked"), order(sent)) if row.actor == sent.actor]
        own = [row.at_ns for row in starts if row.actor == sent.actor]
        if not transaction or len(mine) > 1 or not acks or not own or sent.actor not in ids:
            continue
        if run.told(sent) != ["txn_committed"]:
            continue
        asked = min(run.asked(sent), default=0)
        for actor in {row.actor for row in starts} & ids.keys() - {sent.actor}:
            its = [row for row in starts if row.actor == actor]
            began = min(int(row.detail.get("called_at_ns", 0)) for row in its)
            is_later = max(own) < began and max(row.at_ns for row in its) < asked
            if ids[actor] == ids[sent.actor] and is_later:
                found.add(transaction)
    return found
