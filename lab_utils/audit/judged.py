"""Findings beside the contract: what happened, and whether this configuration allows it.

It brings the few rows that are findings out of Spark, and never the events.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_utils.audit.contracts import POWER_CUT, PROVES_NOTHING, SENT_AGAIN, Clause, clause
from lab_utils.audit.failover import REPLICATED, SEVERAL
from lab_utils.audit.isolation import READER
from lab_utils.audit.selections import ORDER, RULES, client, found_by, grouped
from lab_utils.audit.session import read_events
from lab_utils.ledger.events import Event
from lab_utils.ledger.store import write_ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Configurations = Mapping[tuple[str, str], Mapping[str, str]]


def judged_findings(events: DataFrame) -> list[dict[str, Any]]:
    """One row for each finding: FINDING_COLUMNS, judgement, allowed_by and reason."""
    # One run is small: in one partition nothing is shuffled, and the query takes half the time.
    events = events.coalesce(1)
    sends = grouped(client(events, "sent"), ORDER, "count(*) AS sends")
    found = found_by(RULES.values(), events, _kinds(events)).join(sends, ORDER, "left")
    rows = found.orderBy("run", "finding", "topic", "partition", "value", "evidence").collect()
    configurations = _configurations(events) if rows else {}
    return [judged(row.asDict(), configurations) for row in rows]


def rehearse() -> None:
    """Judge a ledger of three events, so that the first real one does not wait for classes."""
    columns: dict[str, Any] = {"run": "00-a", "topic": "orders", "partition": 0, "value": "0"}
    ledger = [
        Event(source="client", actor="producer-1", kind="sent", **columns),
        Event(source="client", actor="producer-1", kind="acked", offset=0, **columns),
        Event(source="log", actor="reader", kind="record", offset=0, **columns),
    ]
    with tempfile.TemporaryDirectory(prefix="lab-rehearsal-") as folder:
        write_ledger(Path(folder), ledger)
        judged_findings(read_events(Path(folder)))


def _kinds(events: DataFrame) -> set[str]:
    """What kinds of events there are, so that no query is asked that has nothing to answer."""
    rows = events.where(f"kind <> '{REPLICATED}' OR {SEVERAL}").select("kind").distinct().collect()
    return {row["kind"] for row in rows}


def judged(found: Mapping[str, Any], configurations: Configurations) -> dict[str, Any]:
    """One finding with its judgement; `sends` says how often its value was sent."""
    row = {name: value for name, value in found.items() if name != "sends"}
    if row["finding"] == "inconclusive":
        said: dict[str, Any] = {"judgement": PROVES_NOTHING, "allowed_by": None}
        return row | said | {"reason": row["evidence"]}
    decided = _clause(found, configurations)
    return row | {
        "judgement": decided.judgement,
        "allowed_by": decided.allowed_by,
        "reason": decided.reason,
    }


def _clause(found: Mapping[str, Any], configurations: Configurations) -> Clause:
    decided = clause(found["finding"], _those_of(found, configurations))
    sent_again = found["finding"] == "duplicate" and (found.get("sends") or 0) > 1
    return SENT_AGAIN if sent_again and decided.judgement == "breach" else decided


def _those_of(
    found: Mapping[str, Any], configurations: Configurations
) -> Sequence[Mapping[str, str]]:
    """The configurations of the clients that a finding names, or of all in that role."""
    if found["actor"] == READER:
        return [{}]  # the lab's own reader has the defaults
    role = RULES[found["finding"]].role
    run = {actor: given for (run, actor), given in configurations.items() if run == found["run"]}
    in_role = {actor: given for actor, given in run.items() if given.get("role") == role}
    named = [in_role[actor] for actor in str(found["actor"] or "").split(", ") if actor in in_role]
    return named or list(in_role.values())


def _configurations(events: DataFrame) -> Configurations:
    """What each client was configured with, on top of what its run's topics were."""
    wanted = (
        "(source, kind) IN (('client', 'created'), ('workload', 'topic'), ('broker', 'power_cut'))"
    )
    rows = events.where(wanted).select("run", "actor", "kind", "detail").collect()
    topics = {row["run"]: row["detail"] or {} for row in rows if row["kind"] == "topic"}
    dark = {row["run"]: {POWER_CUT: "true"} for row in rows if row["kind"] == "power_cut"}
    return {
        (row["run"], row["actor"]): topics.get(row["run"], {})
        | dark.get(row["run"], {})
        | (row["detail"] or {})
        for row in rows
        if row["kind"] == "created"
    }
