"""Positions that a group committed, and is behind: at the end, or where a consumer began again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.facts import committed_positions, sql
from lab_utils.audit.survey import PLACINGS, UNKNOWN_GROUP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

GROUP: Final = ["run", "topic", "partition", "consumer_group"]
COLUMNS: Final = (*GROUP, "actor", "kind", "at_ns", "offset")
STARTS_SCHEMA: Final = (
    "run STRING, topic STRING, partition BIGINT, consumer_group STRING, actor STRING, kind STRING,"
    " at_ns BIGINT, offset BIGINT"
)
# The last commit before an event: when, minus its offset, so that of one time the lowest counts,
# and whose. What has the same time may have been later.
BEFORE: Final = (
    f"OVER (PARTITION BY {', '.join(GROUP)} ORDER BY at_ns"
    " RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
)
LAST: Final = "max(if(kind = 'committed', struct(at_ns, -offset AS less, actor), NULL))"
PLACED: Final = (
    "collect_list(struct(at_ns, kind, last, moved_at_ns))"
    " FILTER (WHERE kind NOT IN ('committed', 'held')) AS placed"
)


def behind(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a position that a group was found at, though it had committed a later one.

    Columns: GROUP, and
    position, committer, committed_at_ns  the last that was committed before, by whom, when
    found_at, found_at_ns                 where the group was, and since when
    kind         held: the broker said so at the end; else a consumer was given this offset first,
                 since it was assigned the partition, or created
    consumer     who began there; NULL if the broker said it
    moved_at_ns  when a program of the group last moved before that, but to the bookmark
    end, furthest, actors  where the log ends, how far the group was given it, who is in the group
    """
    said = _said(events, survey).selectExpr(
        "*", f"{LAST} {BEFORE} AS last",
        f"max(if(kind = 'moved', at_ns, NULL)) {BEFORE} AS moved_at_ns",
    )  # fmt: skip
    held = said.where("kind = 'held' AND offset < -last.less").selectExpr(
        *GROUP, "CAST(NULL AS STRING) AS consumer", "kind", "at_ns AS found_at_ns", "last",
        "moved_at_ns", "offset AS found_at",
    )  # fmt: skip
    placed = sql(said, [*GROUP, "actor"], PLACED).where("exists(placed, x -> x.last IS NOT NULL)")
    given = events.where("source = 'client' AND kind = 'delivered'").join(
        placed, ["run", "topic", "partition", "actor"]
    )
    since = given.selectExpr(
        *GROUP, "actor AS consumer", "offset", "at_ns AS given_at_ns",
        "inline(array(array_max(filter(placed, x -> x.at_ns <= at_ns))))",
    )  # fmt: skip
    began = sql(
        since.where(
            "kind IN ('assigned', 'created') AND at_ns < given_at_ns AND offset < -last.less"
        ),
        [*GROUP, "consumer", "kind", "at_ns", "last", "moved_at_ns"],
        "min(offset) AS found_at",
    )
    topics = survey.topics_frame(events).select("run", "topic", "ends", "consumers")
    its = "get(filter(consumers, x -> x.name = consumer_group), 0)"
    return (
        held.unionByName(began.withColumnRenamed("at_ns", "found_at_ns"))
        .join(topics, ["run", "topic"], "left")
        .selectExpr(
            *GROUP, "-last.less AS position", "last.actor AS committer",
            "last.at_ns AS committed_at_ns", "found_at", "found_at_ns", "kind", "consumer",
            "moved_at_ns", "ends[partition] AS end", f"{its}.furthest[partition] AS furthest",
            f"{its}.actors AS actors",
        )
    )  # fmt: skip


def _said(events: DataFrame, survey: Survey) -> DataFrame:
    """What is known of the positions of groups that have a name; COLUMNS.

    kind is committed, held, created, moved for what chose another place than the bookmark, or one
    of PLACINGS.
    """
    members = survey.members_frame(events).select("run", "actor", "consumer_group")
    kinds = ", ".join(f"'{it}'" for it in PLACINGS)
    moved = "kind = 'sought' AND NOT coalesce(detail['to'] = 'bookmark', false)"
    clients = (
        events.where(
            "source = 'client' AND (kind = 'committed' AND offset IS NOT NULL"
            f" OR kind IN ({kinds}))"
        )
        .join(members.where(f"NOT startswith(consumer_group, '{UNKNOWN_GROUP}')"), ["run", "actor"])
        .selectExpr(*(f"if({moved}, 'moved', kind) AS kind" if it == "kind" else it
                      for it in COLUMNS))
    )  # fmt: skip
    held = events.where(
        "source = 'log' AND kind = 'committed' AND detail['when'] = 'end' AND offset IS NOT NULL"
    ).selectExpr(*("actor AS consumer_group" if it == "consumer_group" else
                   "'held' AS kind" if it == "kind" else it for it in COLUMNS))  # fmt: skip
    rows = clients.unionByName(held)
    if "txn_offsets_sent" in survey.kinds:
        by_transactions = committed_positions(events).where("for_group IS NOT NULL")
        rows = rows.unionByName(by_transactions.selectExpr(
            "run", "topic", "partition", "for_group AS consumer_group", "actor",
            "'committed' AS kind", "ended_at_ns AS at_ns", "position AS offset",
        ))  # fmt: skip
    starts = [
        (run, topic, number, group, actor, "created", at_ns, None)
        for (run, topic), it in survey.topics.items()
        for group, given in sorted(it.given.items())
        for number in sorted(given)
        for actor in sorted(it.actors[group])
        for at_ns in survey.starts["consumer"].get((run, actor), ())
    ]
    return rows.unionByName(survey.table(events, starts, STARTS_SCHEMA))
