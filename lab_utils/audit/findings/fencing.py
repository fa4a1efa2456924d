"""Transactions that were committed although a later producer had taken their transactional.id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.facts import ORDER, TRANSACTION, sql, transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

IDS_SCHEMA: Final = "run STRING, actor STRING, id STRING"


def fenced(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a transaction that was committed by a producer that another one had fenced.

    Columns: TRANSACTION, id, and successor, who had been initialised with that before the commit
    was asked for. An empty transaction is none: the client ends it without asking anybody.
    """
    producers = survey.table(events, survey.of_one_id(), IDS_SCHEMA)
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
