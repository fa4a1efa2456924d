"""The findings about consuming: what was done with each record, and what a poll passed over.

    record in the log ── bookmark behind it, and never processed ──▶ skipped-processing
    processed again, or its effect applied again ──────────────────▶ duplicate-effect
    one consumer, between two rebalances or seeks: backwards ──────▶ nonmonotonic-poll
                                                   over a record ──▶ poll-skip

The bookmark is what the broker held for the group at the end of the run. A topic has one group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.selections import (
    COPY,
    PARTITION,
    TOPIC,
    as_finding,
    client,
    finding,
    grouped,
    listed,
    stored,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POLLED: Final = ["run", "actor", *PARTITION[1:]]


@finding(
    "skipped-processing", "committed, processed", role="consumer",
    promise="The work is done for every order before the bookmark.",
)  # fmt: skip
def skipped_processing(events: DataFrame) -> DataFrame:
    """Orders before the bookmark for which the work was never done."""
    bookmarks = grouped(
        events.where("source = 'log' AND kind = 'committed' AND detail['when'] = 'end'"),
        PARTITION,
        "max(offset) AS bookmark",
    )
    done = client(events, "processed")
    never = (
        readable(events)
        .join(bookmarks, PARTITION)
        .where("offset < bookmark")
        .join(done, TOPIC, "left_semi")
        .join(done, [*COPY, "offset"], "left_anti")
    )
    said = "'was never processed: it is at offset ' || offset || ', the bookmark at ' || bookmark"
    return as_finding(never.selectExpr("*", "array(offset) AS offsets"), "skipped-processing", said)


@finding(
    "duplicate-effect", "processed effect", role="consumer",
    promise="The work for an order is done once.",
)  # fmt: skip
def duplicate_effects(events: DataFrame) -> DataFrame:
    """Orders for which the work was done more than once, or whose effect was applied again."""
    again = grouped(
        client(events, "processed"), [*COPY, "offset"], "count(*) AS times", listed("actor")
    ).where("times > 1")
    effects = events.where("source = 'sink' AND kind = 'effect'")
    applied = grouped(effects, ["run", "actor", "value"], "sum(records) AS times").where(
        "times > 1"
    )
    said = "'was processed ' || times || ' times'"
    done_again = as_finding(
        again.selectExpr("*", "array(offset) AS offsets"), "duplicate-effect", said
    )
    seen = "'has ' || times || ' effects in ' || actor"
    return done_again.unionByName(as_finding(applied, "duplicate-effect", seen))


@finding(
    "nonmonotonic-poll", "delivered", role="consumer",
    promise="Between rebalances and seeks a consumer goes forward in a partition.",
)  # fmt: skip
def nonmonotonic_polls(events: DataFrame) -> DataFrame:
    """Orders that a consumer was given behind or at the offset it was given before."""
    back = _polls(events).where("offset <= earlier")
    said = "'was given to ' || actor || ' at offset ' || offset || ', after offset ' || earlier"
    pairs = back.selectExpr("*", "array(earlier, offset) AS offsets")
    return as_finding(pairs, "nonmonotonic-poll", said)


@finding(
    "poll-skip", "delivered", role="consumer",
    promise="Between rebalances and seeks a consumer is given every record that it may see.",
)  # fmt: skip
def poll_skips(events: DataFrame) -> DataFrame:
    """Orders that can be read and that a consumer was not given, though it was given the next."""
    jumps = _polls(events).where("offset > earlier + 1")
    jumps = jumps.selectExpr(*POLLED, "earlier", "offset AS later")
    over = readable(events).join(jumps, PARTITION).where("offset > earlier AND offset < later")
    said = "'at offset ' || offset || ' was passed over: ' || actor || ' was given '"
    return as_finding(
        over.selectExpr("*", "array(offset) AS offsets"),
        "poll-skip",
        f"{said} || earlier || ', then ' || later",
    )


def readable(events: DataFrame) -> DataFrame:
    """The records that any reader may see: where transactions wrote, only what is visible."""
    markers = events.where("source = 'log' AND kind = 'marker'").select(TOPIC).distinct()
    visible = events.where("source = 'log' AND kind = 'visible' AND value IS NOT NULL")
    plain = stored(events).join(markers, TOPIC, "left_anti")
    return plain.unionByName(visible.select(*COPY, "offset").distinct()).distinct()


def _polls(events: DataFrame) -> DataFrame:
    """What each consumer was given, beside what it was given before, since it was placed anew."""
    rows = events.where("source = 'client' AND kind IN ('delivered', 'assigned', 'sought')")
    by = ", ".join(POLLED)
    placed = f"count_if(kind <> 'delivered') OVER (PARTITION BY {by} ORDER BY at_ns) AS placed"
    given = rows.selectExpr("*", placed).where("kind = 'delivered'")
    earlier = f"lag(offset) OVER (PARTITION BY {by}, placed ORDER BY at_ns) AS earlier"
    return given.selectExpr(*POLLED, "value", "offset", earlier)
