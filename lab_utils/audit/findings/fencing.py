"""Transactions that were committed although a later producer had taken their transactional.id."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lab_utils.audit.contracts import UNCLEAN
from lab_utils.audit.facts import ORDER, TRANSACTION, sql, transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

IDS_SCHEMA: Final = "run STRING, actor STRING, id STRING"


def fenced(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a transaction that was committed by a producer that another one had fenced.

    Columns: TRANSACTION, id, and successor, who had been initialised with that before the commit
    was asked for. An empty transaction is none: the client ends it without asking anybody. Nothing
    is known of who was created again, and of a run in which the coordinator may have lost what it
    knew.
    """
    forgot = {run for what, run, _ in survey.since if what == "power_cut"}
    forgot |= {
        run
        for (run, _), it in survey.topics.items()
        if any(life.get(UNCLEAN, "false") != "false" for life in it.lives)
    }
    ids = [
        (run, actor, lives[0]["transactional.id"])
        for (run, actor), lives in survey.clients.items()
        if len(lives) == 1 and "transactional.id" in lives[0] and run not in forgot
    ]
    holders = Counter((run, name) for run, _, name in ids)
    shared = sorted(it for it in ids if holders[it[0], it[2]] > 1)
    producers = survey.table(events, shared, IDS_SCHEMA)
    # Of most runs nothing is left here, and nothing is looked for.
    said = events.where("source = 'client'").join(producers, ["run", "actor"])
    started = said.where("kind = 'txn_initialised'")
    later = started.selectExpr(
        "run", "id", "actor AS successor", "at_ns AS fenced_at_ns",
        "coalesce(try_cast(detail['called_at_ns'] AS BIGINT), 0L) AS taken_at_ns",
    )  # fmt: skip
    # What was sent once, in this transaction, and acked.
    held = sql(
        said.where("kind IN ('sent', 'acked')").selectExpr(
            *ORDER, "actor", "kind", "detail['transaction'] AS transaction"
        ),
        [*ORDER, "actor"],
        "max(transaction) AS transaction",
        "count_if(kind = 'sent') = 1 AND count_if(kind = 'acked') > 0 AS is_held",
    )
    committed = (
        transactions(events)
        .where("outcome = 'txn_committed'")
        .join(held.where("is_held").select(*TRANSACTION).distinct(), TRANSACTION)
    )
    # Who takes an id again fences who had taken it since.
    own = started.selectExpr("run", "actor", "id", "at_ns AS initialised_at_ns")
    last = sql(
        committed.join(own, ["run", "actor"]).where("initialised_at_ns <= asked_at_ns"),
        [*TRANSACTION, "id", "asked_at_ns"],
        "max(initialised_at_ns) AS initialised_at_ns",
    )
    taken = last.join(later, ["run", "id"]).where(
        "successor <> actor AND initialised_at_ns < taken_at_ns AND fenced_at_ns < asked_at_ns"
    )
    return sql(taken, [*TRANSACTION, "id"], "min(successor) AS successor")
