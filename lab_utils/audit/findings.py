"""The findings: what happened in a run, by the names of Jepsen's Kafka checker where it has one.

    events (columns of Event) ──▶ one function, one query ──▶ rows of FINDING_COLUMNS

A finding says what happened and never whether it was allowed: that is contracts.py. Unknown counts
neither as lost nor as failed. A loss is never inferred from a gap in offsets, for markers occupy
offsets: values are counted. docs/findings.md has the rule of each, with its smallest history.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from lab_utils.audit.selections import (
    COPY,
    ORDER,
    PARTITION,
    PRODUCED,
    TOPIC,
    as_finding,
    client,
    finding,
    grouped,
    listed,
    ordered,
    read_to_the_end,
    reported_as_errors,
    stored,
    undrained,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Errors by which the client itself declines an order: nobody was asked, so nobody was unavailable.
OWN_ERRORS: Final = (
    "BufferError", "MSG_SIZE_TOO_LARGE", "_FATAL", "_INVALID_ARG", "_PURGE_INFLIGHT",
    "_PURGE_QUEUE", "_QUEUE_FULL", "_STATE", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC",
)  # fmt: skip


@finding("lost-write", "acked, end", promise="With acks=all an acked order is in the log.")
def lost_writes(events: DataFrame) -> DataFrame:
    """Orders that were acked and are not in the log, which was read to its end."""
    lost = (
        client(events, "acked")
        .join(read_to_the_end(events), PARTITION, "left_semi")
        .join(stored(events), COPY, "left_anti")
    )
    lost = grouped(lost, COPY, ordered("offset", "offsets"), listed("actor"))
    where = "if(size(offsets) = 0, 'without an offset', 'at offset ' || array_join(offsets, ', '))"
    said = f"'was acked ' || {where} || '; it is not in the log, which was read to its end'"
    return as_finding(lost, "lost-write", said)


@finding(
    "unseen", "acked, assigned delivered", role="consumer",
    promise="An acked order is delivered.",
)  # fmt: skip
def unseen(events: DataFrame) -> DataFrame:
    """Orders that were acked and handed to no consumer, in a topic that consumers read."""
    waiting = (
        client(events, "acked")
        .join(client(events, "assigned", "delivered"), TOPIC, "left_semi")
        .join(client(events, "delivered"), COPY, "left_anti")
    )
    waiting = grouped(waiting, COPY, ordered("offset", "offsets"), listed("actor"))
    return as_finding(
        waiting, "unseen", "'was acked; it was delivered to no consumer of this run so far'"
    )


@finding(
    "duplicate", "record",
    promise="A batch is stored once: with idempotence it has a key, without retries one try.",
)  # fmt: skip
def duplicates(events: DataFrame) -> DataFrame:
    """Orders that are in the log at two or more places."""
    place = "'offset ' || place.offset || ' of partition ' || place.partition"
    twice = grouped(
        stored(events),
        ORDER,
        "if(min(partition) = max(partition), min(partition), NULL) AS partition",
        ordered("offset", "offsets", collect="collect_list"),
        ordered("struct(partition, offset)", "places"),
    ).where("size(places) > 1")
    senders = grouped(client(events, "sent"), ORDER, listed("actor"))
    where = f"array_join(transform(places, place -> {place}), ' and ')"
    said = f"'is in the log ' || size(places) || ' times: at ' || {where}"
    return as_finding(twice.join(senders, ORDER, "left"), "duplicate", said)


@finding("duplicate-delivery", "delivered", role="consumer", promise="A record is delivered once.")
def duplicate_deliveries(events: DataFrame) -> DataFrame:
    """Records that one group of consumers was handed more than once: one offset, again."""
    created = events.where("source = 'client' AND kind = 'created'")
    groups = grouped(created, ["run", "actor"], "max(detail['group.id']) AS consumer_group")
    again = grouped(
        client(events, "delivered").join(groups, ["run", "actor"], "left"),
        [*COPY, "offset", "consumer_group"],
        "count(*) AS times",
        listed("actor"),
    ).where("times > 1")
    said = "'was delivered ' || times || ' times: offset ' || offset || ', to ' || actor"
    return as_finding(again.selectExpr("*", "array(offset) AS offsets"), "duplicate-delivery", said)


@finding(
    "phantom", "failed unknown, record",
    promise="An order that was reported as an error is not stored.",
)  # fmt: skip
def phantoms(events: DataFrame) -> DataFrame:
    """Orders that are in the log although every report about them was an error."""
    present = grouped(
        stored(events), ORDER, "min(partition) AS partition", ordered("offset", "offsets")
    )
    both = reported_as_errors(events).join(present, ORDER)
    at = "array_join(offsets, ', ')"
    said = f"'was reported as ' || error || '; it is in the log at offset ' || {at}"
    return as_finding(both, "phantom", said)


@finding("unavailable", "failed unknown, end", promise="The service takes every order.")
def unavailable(events: DataFrame) -> DataFrame:
    """Orders that the service did not take, and said so: reported as errors, and not stored."""
    refused = (
        reported_as_errors(events, leaving_out=OWN_ERRORS)
        .join(read_to_the_end(events), TOPIC, "left_semi")
        .join(undrained(events), TOPIC, "left_anti")
        .join(stored(events), ORDER, "left_anti")
        .selectExpr("*", "NULL AS partition", "array() AS offsets")
    )
    said = "'was reported as ' || error || '; it is not in the log, which was read to its end'"
    return as_finding(refused, "unavailable", said)


@finding(
    "nonmonotonic-send", "sent, acked, record",
    promise="With idempotence, or without retries, the order of sending is kept.",
)  # fmt: skip
def nonmonotonic_sends(events: DataFrame) -> DataFrame:
    """Orders that one producer sent after another, and that are in the log before it."""
    # A value that one producer sent twice is left out: its two reports cannot be told apart.
    sent = grouped(
        client(events, "sent"), PRODUCED, "min(at_ns) AS sent_at_ns", "count(*) AS sends"
    )
    acked = grouped(
        client(events, "acked"), PRODUCED,
        "min(partition) AS partition", "min(offset) AS offset", "count(*) AS acks",
    )  # fmt: skip
    # What is no longer where its ack said was truncated: its offset belongs to another order.
    there = sent.join(acked, PRODUCED).join(stored(events), [*COPY, "offset"], "left_semi")
    places = there.where("sends = 1 AND acks = 1")
    before = "OVER (PARTITION BY run, actor, topic, partition ORDER BY sent_at_ns, offset)"
    pairs = places.selectExpr(
        "*", f"lag(value) {before} AS earlier", f"lag(offset) {before} AS earlier_offset"
    )
    backwards = pairs.where("offset < earlier_offset")
    said = "'was sent after ' || earlier || ' and stored before it: at offset ' || offset"
    return as_finding(
        backwards.selectExpr("*", "array(earlier_offset, offset) AS offsets"),
        "nonmonotonic-send",
        f"{said} || ', not after ' || earlier_offset",
    )


# It needs nothing: it also says that nothing was done.
@finding("inconclusive")
def inconclusive(events: DataFrame) -> DataFrame:
    """Why a run proves nothing: a fault that did not fire, a log not drained, nothing done."""
    faults = grouped(
        events.where("source = 'fault'"), ["run", "actor"],
        "count_if(kind = 'armed') AS armed", "count_if(kind = 'fired') AS fired",
        "count_if(kind = 'unfired') AS unfired",
    ).where("unfired > 0 OR (armed > 0 AND fired = 0)")  # fmt: skip
    done = "source = 'client' AND kind IN ('sent', 'delivered')"
    idle = grouped(
        events, ["run"], "count_if(kind = 'order') AS orders", f"count_if({done}) AS done"
    ).where("orders > 0 AND done = 0")
    unread = grouped(client(events, "sent"), TOPIC).join(
        events.where("source = 'log' AND kind = 'end'"), TOPIC, "left_anti"
    )
    reasons = [
        (faults, "actor || ' was armed ' || armed || ' times and fired ' || fired || ' times'"),
        (undrained(events), "'the log was not read to its end'"),
        (unread, "'the log was not read'"),
        (idle, "'the workload neither sent nor received anything'"),
    ]
    parts = [as_finding(rows, "inconclusive", said) for rows, said in reasons]
    return reduce(lambda some, more: some.unionByName(more), parts)
