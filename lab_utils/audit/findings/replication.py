"""Replication: what one leader acknowledged or handed out, and what the log holds in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.facts import ORDER, places, sql
from lab_utils.audit.finding import Found, finding, joined
from lab_utils.audit.survey import REPLICATED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

# Kafka's default is 1; Spark's least() would leave out what is not there.
FLOOR: Final = "coalesce(try_cast(detail['min.insync.replicas'] AS BIGINT), 1)"

# Nobody can say that the high watermark was still where it was last seen.
STALE: Final = "seen before"
# While fewer than the floor are in sync it does not move; a new leader may lag behind the old one.
IS_STALE: Final = (
    "NOT coalesce(sent_at_ns > decided_at_ns, false)"
    " AND (marked_at_ns < decided_at_ns OR leaders > 1)"
)

# Of the orders that somebody was told are at a place, those that are not there.
OTHERS: Final = (
    "if(held IS NULL, if(holds_nothing, told, slice(told, 2, 1000)),"
    " filter(told, it -> NOT (it <=> held)))"
)
# Was all that is told of it here of after the end of what takes a log away?
SENT_SINCE: Final = (
    "if(forall(heard, x -> x.since > restored_at_ns OR NOT (struct(x.key, x.value) <=> it)),"
    " 'sent since', NULL)"
)
TEXT: Final = "coalesce({0}.value, 'of key ' || {0}.key, 'without a value')"
NOW: Final = (
    f"CASE WHEN held IS NOT NULL THEN 'the log now holds order ' || {TEXT.format('held')}"
    " WHEN holds_nothing THEN 'the log now holds nothing'"
    f" ELSE 'another was given order ' || {TEXT.format('get(told, 0)')} END"
)


@finding(
    "inconsistent-offsets", places, "acked delivered record visible",
    promise="An offset belongs to one order, for all who were told of it.",
)  # fmt: skip
def inconsistent_offsets() -> Found:
    """An order was acked, delivered or found at an offset that is not its own in the log.

    Rule: an order was `acked` or `delivered` at an offset of a partition, or a reader found it
    there and did not when it read the log again, and the log holds another order there. Or the log
    holds nothing there: it does not begin after the offset, and was read to an end above it, or
    after the order was delivered or found. Or what the log holds there is not known, and another
    order was also `acked`, `delivered` or found at that offset.
    Smallest: `acked(1, offset 0) record(2, offset 0)`.
    Near miss: the record at the offset is order 1; an order that was given to nobody, and acked at
    or after the end of the log, which is a lost-write alone.
    Allowed by: as for lost-write, a power cut or a deleted topic, unless it was first sent, and
    first given there, when all of them were over, and who was acked has `sent` it;
    `cleanup.policy=compact` if nothing is there, as for lost-write; `acks` below all, if nobody got
    it; `unclean.leader.election.enable=true`.
    Source: Jepsen; KIP-966; claims B2, C7.
    """
    of_it = "{0}({1}, x -> struct(x.key, x.value) <=> it)"
    them = (of_it.format("filter", told) for told in ("acked", "given", "was_held"))
    speakers = f"concat({', '.join(f'transform({it}, x -> x.actor)' for it in them)})"
    was_seen = " OR ".join(of_it.format("exists", told) for told in ("given", "was_held"))
    was = f"if({of_it.format('exists', 'acked')}, 'acked', 'given to ' || {{0}})"
    return Found(
        where=f"size(told) > 0 AND NOT (told <=> array(held)) AND size({OTHERS}) > 0",
        each=OTHERS,
        said=f"' was ' || {was.format(joined(speakers))} || ' at offset ' || offset"
        f" || ', where ' || {NOW}",
        about={
            "value": "it.value",
            "key": "it.key",
            "partition": "partition",
            "offsets": "array(offset)",
            "actor": joined(speakers),
            "circumstances": "array_compact(array(if(holds_nothing, 'holds nothing', NULL),"
            " if(holds_nothing AND exists(gone, x -> x <=> it), 'superseded', NULL),"
            " if(holds_nothing AND exists(outlived, x -> x <=> it), 'outlived', NULL),"
            f" if({was_seen}, NULL, 'acked alone'), {SENT_SINCE}))",
        },
    )


def acked_below_the_floor(events: DataFrame, _: Survey) -> DataFrame:
    """One row an ack that no reader could see when the workload ended.

    Columns: run, topic, partition, key, value, offset, actor, readable, isr, floor, and
    sent_at_ns    when the order was first sent
    decided_at_ns, marked_at_ns  when the controller last decided, and the watermark was last seen
    leaders       how many brokers have led
    """
    ended = sql(events.where("kind IN ('finished', 'raised')"), ["run"], "max(at_ns) AS ended")
    meanwhile = events.join(ended, "run").where("at_ns <= ended")
    floors = sql(
        events.where("source = 'workload' AND kind = 'topic'"),
        ["run", "topic"],
        f"max_by(least({FLOOR}, try_cast(detail['replicas'] AS BIGINT)), at_ns) AS floor",
    )
    below = sql(
        meanwhile.where("source = 'broker'"), ["run", "topic", "partition"],
        "max_by(size(filter(split(detail['isr'], '[^0-9]+'), x -> x <> '')), at_ns)"
        " FILTER (WHERE kind = 'partition') AS isr",
        "max(at_ns) FILTER (WHERE kind = 'partition') AS decided_at_ns",
        "max(at_ns) FILTER (WHERE kind = 'watermark') AS marked_at_ns",
        "count(DISTINCT if(kind = 'partition', detail['leader'], NULL)) AS leaders",
        "max_by(detail['leader'], at_ns) FILTER (WHERE kind = 'partition') AS leader",
        "max_by(struct(actor, offset), at_ns) FILTER (WHERE kind = 'watermark') AS mark",
    ).join(floors, ["run", "topic"])  # fmt: skip
    # Of a leader that has died nobody knows how far it let its readers read at last.
    its_number = "regexp_extract(mark.actor, '^[^0-9]*([0-9]+)$', 1)"  # of broker-1, or kafka1
    below = below.where(f"isr < floor AND {its_number} = nullif(leader, '')")
    below = below.selectExpr("*", "mark.offset AS readable")
    orders = sql(
        meanwhile.where("source = 'client' AND kind IN ('sent', 'acked')"),
        ORDER,
        "min(if(kind = 'sent', at_ns, NULL)) AS sent_at_ns",
        "collect_set(if(kind = 'acked', struct(partition, offset, actor), NULL)) AS acks",
    )
    acked = sql(
        orders.selectExpr(*ORDER, "sent_at_ns", "inline(acks)"),
        [*ORDER, "partition", "offset"],
        f"{joined('collect_set(actor)')} AS actor",
        "any_value(sent_at_ns) AS sent_at_ns",
    )
    return acked.join(below, ["run", "topic", "partition"]).where("offset >= readable")


@finding(
    "invisible-ack", acked_below_the_floor, f"{REPLICATED}, acked, watermark",
    promise="With acks=all an acked order can be read.",
)  # fmt: skip
def invisible_ack() -> Found:
    """An order was acked, and when the workload ended no reader could see it.

    Rule: when the workload ended, fewer replicas were in sync than the floor, which is
    `min.insync.replicas`, or the number of replicas if that is lower. Before that an order was
    acked at an offset that is not below the high watermark of the leader.
    Smallest: `topic(floor 2) partition(isr 1) watermark(0) acked(1, offset 0) finished`.
    Near miss: two replicas are in sync; the ack came after the workload had ended; the partition
    had no leader when the workload ended. In the last case nobody knows how far readers could read.
    Allowed by: `acks` below all. Undecided, unless the order was sent after the controller last
    decided, if the watermark was last seen before that: it may have passed the order since. So it
    is if several brokers have led: a follower learns the high watermark with its next fetch, and as
    the leader lets nobody read further until enough are in sync.
    Source: Kafka design, replication (since 3.7); KIP-207; claims C4.
    """
    return Found(
        where="floor > isr",
        said="' was acked at offset ' || offset || '; readers could read to offset ' || readable"
        " || ', for ' || isr || ' was in sync and the floor is ' || floor",
        about={
            "value": "value",
            "partition": "partition",
            "offsets": "array(offset)",
            "actor": "actor",
            "circumstances": f"if({IS_STALE}, array('{STALE}'), array())",
        },
    )
