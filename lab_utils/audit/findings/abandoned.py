"""Aborted transactions whose output was never committed, and the input that they had read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.facts import (
    ORDER,
    TRANSACTION,
    committed_positions,
    positions,
    sql,
    transactions,
    with_groups,
)
from lab_utils.audit.survey import UNKNOWN_GROUP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

SKIPPED_TO: Final = "array_min(array(committed_to, reached + 1, again))"
LATER: Final = {"at": "committed_to", "told": "told"}


def abandoned(events: DataFrame, survey: Survey) -> DataFrame:
    """One row an aborted transaction whose output was never committed, and a partition it read.

    Columns: TRANSACTION, topic, partition, and
    outputs     what was sent in it, and in no transaction that was committed
    start       the first offset of its input: where the last commit before it was
    skipped_to  where what was committed later, or delivered again, or not delivered yet begins
    is_skipped  is something between the two, for each group that was given it?
    is_told     does anybody say that he committed a position after start?
    """
    ends = transactions(events).where("outcome IS NOT NULL")
    sends = events.where("source = 'client' AND kind = 'sent'").selectExpr(
        *ORDER, "actor", "detail['transaction'] AS transaction"
    )
    only_aborted = sql(
        sends.join(ends.select(*TRANSACTION, "outcome"), TRANSACTION, "left"),
        ORDER,
        "min(struct(actor, transaction)) AS first",
        "bool_and(outcome <=> 'txn_aborted') AS aborted",
    ).where("aborted")
    lost = sql(
        only_aborted.selectExpr("run", "first.actor", "first.transaction", "key", "value"),
        TRANSACTION,
        "slice(array_sort(collect_set(coalesce(value, key))), 1, 10) AS outputs",
    )
    sent = positions(events)
    read = sent.select("run", "actor", "topic", "partition", "for_group").distinct()
    own = committed_positions(events).selectExpr(
        "run", "topic", "partition", "for_group", "ended_at_ns AS at_ns", "position",
    )  # fmt: skip
    aborted = lost.join(ends, TRANSACTION).join(read, ["run", "actor"])
    given = with_groups(events.where("source = 'client' AND kind = 'delivered'"), survey).select(
        "run", "topic", "partition", "consumer_group", "at_ns", "offset"
    )
    told = aborted.withColumnRenamed("ended_at_ns", "at_ns")
    ends = survey.of_groups(told.unionByName(own, True), events)
    # What is after is looked for backwards: a frame that ends at the last row is quadratic.
    before, after = (
        f"OVER (PARTITION BY run, topic, partition, consumer_group ORDER BY {by}"
        " RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        for by in ("at_ns", "at_ns DESC")
    )
    # A bookmark of which nobody knows the readers may be of readers whose group nobody knows.
    theirs = (
        "filter(bookmarks, x -> x.name = consumer_group OR NOT x.is_known"
        f" AND startswith(consumer_group, '{UNKNOWN_GROUP}'))"
    )
    each = (
        ends.unionByName(given, True)
        .selectExpr(
            "*",
            f"coalesce(max(position) {before}, min(offset) {before}) AS start",
            f"max(offset) {before} AS reached",
            f"min(offset) {after} AS again",
            f"max(position) {after} AS later",
        )
        .where("outputs IS NOT NULL AND reached IS NOT NULL")
    )
    furthest = f"array_max(array(later, array_max(transform({theirs}, x -> x.{{0}}[partition]))))"
    known = each.join(survey.topics_frame(events), ["run", "topic"], "left").selectExpr(
        "*", *(f"{furthest.format(it)} AS {name}" for it, name in LATER.items())
    )
    return sql(
        known, [*TRANSACTION, "topic", "partition"],
        "any_value(outputs) AS outputs",
        "min_by(start, consumer_group) AS start",
        f"min_by({SKIPPED_TO}, consumer_group) AS skipped_to",
        f"bool_and(coalesce({SKIPPED_TO} > start AND committed_to > start, false)) AS is_skipped",
        "bool_or(coalesce(told > start, false)) AS is_told",
    )  # fmt: skip
