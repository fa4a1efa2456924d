"""Consuming: what was given to whom, where the bookmark stood, and how often the work was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab_utils.audit.facts import EXPIRY, TRANSACTION, places, sql, transactions
from lab_utils.audit.finding import Found, finding, joined, passed_over
from lab_utils.audit.findings.commits import behind
from lab_utils.audit.survey import BEHIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

# The order at a place: what the log holds, or what was given there.
HERE = "coalesce(held, get(transform(given, x -> struct(x.key, x.value)), 0))"


# One order, and the group that was handed it; after a truncation another is at its place.
HANDED = "struct(x.consumer_group, x.key, x.value)"
# How many records of it have been there: one, or after a truncation as often as it was acked.
RECORDS = (
    "greatest(1, size(filter(acked, x ->"
    " struct(x.key, x.value) <=> struct(get({0}, 0).key, get({0}, 0).value))))"
)


@finding(
    "duplicate-delivery", places, "delivered", role="consumer",
    promise="A record is delivered once.",
)  # fmt: skip
def duplicate_delivery() -> Found:
    """One group was given the same record again.

    Rule: one order was `delivered` twice from one topic, partition and offset to consumers with one
    `group.id`.
    Smallest: `delivered(1, offset 0) delivered(1, offset 0)`.
    Near miss: `delivered(1, offset 0) delivered(1, offset 1)`; two groups that each read it once;
    another order at the same offset, as after a truncation; an equal one, as many times as it was
    acked there.
    Allowed by: the program, if it chose where to read (`sought`); otherwise by
    `enable.auto.commit`, whatever its value. A consumer that starts again is given everything after
    the bookmark again, and possibly the whole log if the broker has deleted the bookmark. No
    setting promises a single delivery.
    Source: Kafka design, message delivery semantics; KIP-211.
    """
    return Found(
        where="size(given) > 1",
        each=f"filter(transform(array_distinct(transform(given, x -> {HANDED})), it ->"
        f" filter(given, x -> {HANDED} <=> it)), them -> size(them) > {RECORDS.format('them')})",
        said="' was delivered ' || size(it) || ' times: offset ' || offset || ', to ' || "
        + joined("transform(it, x -> x.actor)"),
        about={
            "value": "get(it, 0).value",
            "key": "get(it, 0).key",
            "partition": "partition",
            "offsets": "array(offset)",
            "actor": joined("transform(it, x -> x.actor)"),
            "circumstances": "if(exists(consumers, x -> x.name = get(it, 0).consumer_group"
            " AND array_contains(x.reread, partition)), array('sought'), array())",
        },
    )


# Was the work done for what is held here, and not for what a truncation took away, and was it given
# to a consumer of this group, or can nobody say to whom?
DONE_BY = (
    "(exists(worked, x -> (x.value IS NULL OR x.value <=> held.value) AND NOT (it.is_known AND"
    " exists(consumers, y -> y.name <> it.name AND array_contains(y.actors, x.actor))))"
    " AND (NOT it.is_known OR size(given) = 0 OR exists(given, x -> x.consumer_group = it.name)))"
)
# Was it handed to a consumer of this group, or to one of which nobody knows the group? After a
# truncation another order may have been.
GIVEN = (
    "exists(given, x -> (x.value IS NULL OR x.value <=> held.value)"
    " AND (NOT it.is_known OR x.consumer_group = it.name))"
)
# A copy whose order was worked on at another place is no order of its own, unless each was acked.
ELSEWHERE = (
    "get(worked_elsewhere, CAST(array_position(transform(consumers, x -> x.name), it.name) AS INT))"
)
NOT_WORKED = f"(NOT {DONE_BY} AND {ELSEWHERE} < greatest(1, acked_places))"
# Where nobody says that work was done: how far the group was given the partition.
THEIRS = "get(filter(consumers, x -> x.name = it.name), 0)"
FURTHEST = f"{THEIRS}.furthest[partition]"
RESUMED = f"offset >= {THEIRS}.resumed[partition]"
# Had its group begun before this, or was it acked in this run?
WAS_TO_COME = f"({RESUMED} OR offset > {THEIRS}.first[partition] OR size(acked) > 0)"
# Did its program choose to go on after this? If not, was it given another order there, or what
# comes after it?
SOUGHT, AHEAD = (passed_over("offset", f"{THEIRS}.{it}[partition]") for it in ("sought", "ahead"))
SENT_PAST = f"({WAS_TO_COME} AND offset <= {FURTHEST} AND NOT {SOUGHT} AND NOT {AHEAD})"
SKIPPED_BECAUSE = (
    f"CASE WHEN {GIVEN} THEN array('given') WHEN NOT it.is_known THEN array()"
    f" ELSE concat(array('not given'), if({RESUMED}, array('resumed'), array()),"
    f" if({SENT_PAST}, array('sent past'), array()), if({SOUGHT}, array('sought'), array()),"
    f" if({AHEAD} AND offset < {FURTHEST}, array('ahead'), array())) END"
)
SKIPPED = (
    "it.at[partition] > offset AND offset >= coalesce(it.since[partition], 0)"
    f" AND if(it.works, {NOT_WORKED}, offset > {FURTHEST})"
)


@finding(
    "skipped-processing", places, "committed, processed delivered", role="consumer",
    promise="The work is done for every order before the bookmark.",
)  # fmt: skip
def skipped_processing() -> Found:
    """A group's bookmark is after an order for which the work was never done.

    Rule: at the end of the run the broker holds a bookmark of the group (the last `committed` of
    the log) that is after a readable `record`, and nobody in the group has `processed` it: at its
    offset, and with its value if one is named. Where the group's bookmark was not read, the last
    position that a member `committed` is taken for it, for what is not before the first record that
    the group was given. If an order has several copies, only as many must be processed by it as
    were acked, and at least one. If neither a member of the group nor anybody who is in no group
    has `processed` anything of the topic, as in a transactional pipeline, the bookmark is after
    such a record that is itself after all that the group was given of the partition.
    Smallest: `log(1, 2) processed(1) committed(2)`; `log(1, 2) delivered(1) committed(2)`.
    Near miss: `log(1, 2) processed(1) committed(1)`; a position that was ahead at a crash, after
    which the bookmark was read and is not; `log(1, 1) processed(1) committed(2)`, where the program
    recognised the duplicate; `log(1, 2) committed(2)`, where nobody says what the group was given.
    Allowed by: for an order that was not delivered to the group, the program that moved past it,
    `auto.offset.reset=latest` or `by_duration`, unless it resumed, and a change of positions, all
    as for unseen; for one that was, or that a member may have had in hand when it died, if the
    group had several or one was created again, `enable.auto.commit=true` with
    `enable.auto.offset.store=true`; the program, which committed before the work was done, or past
    what it was given; but not if another order was given there, or a later one, and this one was
    acked, or the group had begun before it: the rest is as for unseen.
    Source: Kafka design, message delivery semantics; librdkafka INTRODUCTION, at-least-once
    processing; KIP-1327.
    """
    return Found(
        where=f"is_readable AND exists(bookmarks, it -> {SKIPPED})",
        each=f"filter(bookmarks, it -> {SKIPPED})",
        said="' was never ' || if(it.works, 'processed', 'delivered')"
        " || ': it is at offset ' || offset || ', the bookmark at ' || it.at[partition]",
        about={
            "value": f"{HERE}.value",
            "key": f"{HERE}.key",
            "partition": "partition",
            "offsets": "array(offset)",
            "actor": joined(
                "flatten(transform(filter(consumers, x -> x.name = it.name), x -> x.actors))"
            ),
            "circumstances": SKIPPED_BECAUSE,
        },
    )


# When it is that a group is behind: how somebody knows, and what may have happened since.
CIRCUMSTANCES = {
    "began": "kind <> 'held'",
    "unplaced": "kind = 'created'",
    "moved": "moved_at_ns > committed_at_ns",
    "expired": f"found_at_ns - committed_at_ns >= {EXPIRY}",
    "past the end":
        "kind <> 'held' AND position > greatest(coalesce(end, 0), coalesce(furthest, -1) + 1)",
}  # fmt: skip


@finding(
    "lost-commit", behind, BEHIND, role="consumer",
    promise="A position that the broker acknowledged is the group's, until it commits another.",
)  # fmt: skip
def lost_commit() -> Found:
    """A group is behind the position that it committed last.

    Rule: the last position that a member `committed`, or that a committed transaction sent for the
    group, is after the bookmark that the broker holds at the end of the run (`committed` of the
    log); or after an offset that a consumer of the group is `delivered` since it was `assigned` the
    partition, or `created` again. Commits count that were acknowledged before that.
    Smallest: `committed(2) log committed(1)`; `committed(2) assigned delivered(2, offset 1)`.
    Near miss: `committed(2) committed(1) log committed(1)`; the consumer was assigned the partition
    before the commit, or moved by its program (`sought`).
    Allowed by: a change of positions, as for unseen; the deletion of the topic; a week since the
    commit, after which the broker may have deleted it; for a consumer that began too early,
    `unclean.leader.election.enable=true`, as for nonmonotonic-poll, and `auto.offset.reset`, if the
    position may be after the end of the log. Undecided with `enable.auto.commit=true`, or if the
    program moved since the commit: then a lower position may have been committed that nobody
    recorded; if nobody recorded when the consumer was assigned; if a client whose group is unknown
    committed; and in a run with a power cut, as nobody records how the topic of positions,
    `__consumer_offsets`, is replicated.
    Source: Kafka design, consumer position and offset tracking; KIP-211.
    """
    return Found(
        where="position IS NOT NULL",
        said="'group ' || consumer_group || ' is behind its position in partition ' || partition"
        " || ': ' || committer || ' had committed ' || position || ', and ' || if(kind = 'held',"
        " 'the broker holds ' || found_at, consumer || ' was given ' || found_at)",
        about={
            "partition": "partition",
            "offsets": "array(found_at, position)",
            "actor": joined("actors"),
            "circumstances": "filter(array("
            + ", ".join(f"if({is_so}, '{name}', NULL)" for name, is_so in CIRCUMSTANCES.items())
            + "), x -> x IS NOT NULL)",
        },
    )


@finding(
    "nonmonotonic-poll", places, "delivered", role="consumer",
    promise="Between rebalances and seeks a consumer goes forward in a partition.",
)  # fmt: skip
def nonmonotonic_poll() -> Found:
    """A consumer went back: the next order it was given is at the same offset or a lower one.

    Rule: two `delivered` of one consumer and partition, one after the other, and the later one's
    offset is not higher; no `assigned`, `revoked`, `lost` or `sought` of that consumer and
    partition in between, nor at the time of the first, and no `created` of that consumer. After
    `revoked` or `lost` nothing counts until it is `assigned`, `sought` or `created` again.
    Smallest: `delivered(2, offset 1) delivered(1, offset 0)`.
    Near miss: the same with a seek, an assignment or a new start in between, or by two consumers;
    `revoked delivered(2, offset 1) delivered(1, offset 0)`.
    Allowed by: a power cut or the deletion of the topic, as for lost-write, or
    `unclean.leader.election.enable=true`: if the log of the partition was truncated, the consumer
    is reset. Undecided if nobody recorded when the consumer was assigned or moved, or if consumers
    of several groups have its name.
    Source: Jepsen; KIP-101.
    """
    return Found(
        where="exists(given, it -> offset <= it.earlier)",
        each="filter(given, it -> offset <= it.earlier)",
        said="' was given to ' || it.actor || ' at offset ' || offset || ', after offset '"
        " || it.earlier",
        about={
            "value": "it.value",
            "key": "it.key",
            "partition": "partition",
            "offsets": "array(it.earlier, offset)",
            "actor": "it.actor",
        },
    )


@finding(
    "poll-skip", places, "delivered", role="consumer",
    promise="Between rebalances and seeks a consumer is given every record that it may see.",
)  # fmt: skip
def poll_skip() -> Found:
    """A consumer passed over an order: it was given what is before it and what is after it.

    Rule: two `delivered` of one consumer and partition, one after the other, and a readable
    `record` between their offsets, or for a read_uncommitted consumer any; no `assigned`,
    `revoked`, `lost` or `sought` of that consumer and partition in between, nor at the time of the
    first, and no `created` of that consumer; it has the partition, as for nonmonotonic-poll. Each
    jump is one finding, and names the last order that was passed over.
    Smallest: `log(1, 2, 3) delivered(1) delivered(3)`.
    Near miss: the same where 2 is not in the log, or was aborted and the consumer is
    read_committed: offsets may have gaps.
    Allowed by: a power cut or the deletion of the topic, as for lost-write, or
    `unclean.leader.election.enable=true`: the log of the partition may have been truncated;
    `auto.offset.reset=latest`, if the log now begins after what the consumer was to be given next.
    Undecided if nobody recorded when the consumer was assigned or moved, or if consumers of several
    groups have its name. Also undecided for a read_committed consumer if a producer has a
    `transactional.id`, or none is known, and neither the log nor a `sent` tells of transactions.
    Source: Jepsen; Kafka consumer configuration, auto.offset.reset.
    """
    before = "if(it.reads_all, before_all, before)"
    jumped = f"offset > it.earlier AND {before}.offset > it.earlier"
    return Found(
        where=f"before_all IS NOT NULL AND exists(given, it -> {jumped})",
        each=f"filter(given, it -> {jumped})",
        said=f"' at offset ' || {before}.offset || ' was passed over: ' || it.actor"
        " || ' was given ' || it.earlier || ', then ' || offset",
        about={
            "value": f"{before}.held.value",
            "key": f"{before}.held.key",
            "partition": "partition",
            "offsets": f"array({before}.offset)",
            "actor": "it.actor",
            "circumstances": "if(starts[partition] > it.earlier + 1, array('deleted'), array())",
        },
    )


# The work that was done for one order at a place, if that was more often than there are groups.
REPEATED = (
    "filter(transform(array_distinct(transform(worked, x -> struct(x.key, x.value))), order ->"
    " filter(worked, x -> struct(x.key, x.value) <=> order)), them -> size(them) >"
    " greatest(1, size(array_distinct(transform(given, x -> x.consumer_group))))"
    f" * {RECORDS.format('them')})"
)
# Why the work was done again: without a new delivery, or because the program itself went back.
AGAIN = (
    "CASE WHEN size(given) > 0 AND size(it) > size(given) THEN array('given once')"
    " WHEN exists(consumers, x -> array_contains(x.reread, partition)"
    " AND size(filter(given, y -> y.consumer_group = x.name)) > 1) THEN array('sought')"
    " ELSE array() END"
)


@finding(
    "duplicate-effect", places, "processed", role="consumer",
    promise="The work for an order is done once.",
)  # fmt: skip
def duplicate_effect() -> Found:
    """The work for an order was done more than once, or its effect is there more than once.

    Rule: one order was `processed` at one topic, partition and offset more than once, and more
    often than there are groups that were given something there, for each time that it was acked
    there. Or, as a finding of its own, an order has more effects in one sink than were wanted: as
    many as the workload asked for the order, or as it was sent to one topic and not aborted,
    whichever is fewest; one if nobody recorded either.
    Smallest: `processed(1, offset 0) processed(1, offset 0)`.
    Near miss: `delivered(1) delivered(1) processed(1)`; `processed(1, offset 0) processed(1, offset
    1)`, which are two records; two groups that each did the work once.
    Allowed by: the program, if it did the work more often than it was given the record, or chose
    where to read (`sought`) and was given it again; otherwise by `enable.auto.commit`, whatever its
    value. A consumer that starts again repeats the work for everything after the bookmark, and
    possibly for the whole log if the broker has deleted the bookmark.
    Source: Kafka design, message delivery semantics; KIP-211.
    """
    return Found(
        where="size(worked) > 1",
        each=REPEATED,
        said="' was processed ' || size(it) || ' times'",
        about={
            "value": "get(it, 0).value",
            "key": "get(it, 0).key",
            "partition": "partition",
            "offsets": "array(offset)",
            "actor": joined("transform(it, x -> x.actor)"),
            "circumstances": AGAIN,
        },
    )


def effects(events: DataFrame, survey: Survey) -> DataFrame:
    """One row an order and sink: run, actor, topic, key, value, times, wanted.

    times   how many effects it has
    wanted  how many it should have: as often as it was given to the run or sent, to the topic to
            which it was sent least often, and in no transaction that was aborted; with its key, if
            the sink has keys and it was sent with this one
    """
    if survey.has_transactions:
        aborted = transactions(events).where("outcome = 'txn_aborted'").select(*TRANSACTION)
        numbered = events.selectExpr("*", "detail['transaction'] AS transaction")
        events = numbered.join(aborted, TRANSACTION, "left_anti")
    effect = "source = 'sink' AND kind = 'effect'"
    asked = "(source = 'client' AND kind = 'sent') OR (source = 'workload' AND kind = 'order')"
    rows = events.where(f"({effect}) OR {asked}").selectExpr(
        "run", "source", "topic", "key", "value", "records",
        "if(source = 'sink', actor, NULL) AS actor",
    )  # fmt: skip
    counted = sql(
        rows, ["run", "source", "actor", "topic", "key", "value"],
        "sum(coalesce(records, 1)) AS times",
    )  # fmt: skip
    of_value = "sum(times) OVER (PARTITION BY run, source, actor, topic, value) AS of_value"
    asked_for = "min(if(source <> 'sink', {}, NULL)) OVER (PARTITION BY run, value{})"
    by_key = f"if(key IS NULL, NULL, {asked_for.format('times', ', key')})"
    wanted = f"least({asked_for.format('of_value', '')}, {by_key}) AS wanted"
    return counted.selectExpr("*", of_value).selectExpr("*", wanted).where("source = 'sink'")


@finding("duplicate-effect", effects, "effect")
def duplicate_effect_in_a_sink() -> Found:
    """An order has more effects in one sink than it has been given to the run, or sent."""
    return Found(
        where="times > coalesce(wanted, 1)",
        said="' has ' || times || ' effects in ' || actor",
        about={"value": "value", "actor": "actor"},
    )
