"""Producing: what was sent, what its program was told of it, and what the log holds."""

from __future__ import annotations

from lab_utils.audit.facts import listing, orders
from lab_utils.audit.finding import Found, finding, joined, names, passed_over
from lab_utils.ledger.own_errors import DECLINED, OWN_ERRORS

AT_OFFSETS = "array_join(transform({0}, x -> x.offset), ', ')"
ERRORS = (
    "array_join(array_sort(array_distinct(transform(filter(said, x -> x.kind IN"
    " ('failed', 'unknown')), x -> coalesce(x.error, 'an error without a name')))), ', ')"
)
OFFSETS_OF = "transform({0}, x -> x.offset)"
# Who reported the order, of these who did by another error than the client's own.
REPORTED_BY = names("said", "failed", "unknown")
BUT_NOT_AS = joined(
    "transform(filter(said, x -> x.kind IN ('failed', 'unknown')"
    " AND NOT coalesce(x.error IN ({0}), false)), x -> x.actor)"
)
OFTEN = "if({0} = 1, 'once', {0} || ' times')"
HELD = f"if(copies > 0, 'the log holds it ' || {OFTEN.format('copies')}, 'it is not in the log')"
ACKED_AT = (
    f"if(size(acked_at) > 0, 'at offset ' || {AT_OFFSETS.format('acked_at')}, 'without an offset')"
)
# Was each of them sent when nothing was going on any more that takes a log away?
SENT_SINCE = "if(sends >= acks AND sent_at_ns > restored_at_ns, 'sent since', NULL)"
LOST_BECAUSE = (
    "array_compact(array(if(superseded >= lost, 'superseded', NULL),"
    " if(superseded >= lost AND outlived > 0, 'outlived', NULL),"
    f" if(deleted >= lost, 'deleted', NULL), if(was_read, 'read', NULL), {SENT_SINCE}))"
)
UNRECORDED = "nobody recorded its sends"


@finding(
    "lost-write", orders, "acked, end", promise="With acks=all an acked order is in the log.",
)  # fmt: skip
def lost_write() -> Found:
    """An order was acked, and it is not in the log.

    Rule: in a partition that was read to its end, an order has more acks than copies. Equal orders
    are counted: each ack promises one copy. An ack that came after the log was read counts only if
    its offset is below the end that was read. The finding names the producers with an ack for a
    place that holds no copy (an ack without an offset is one), or else all whose order was acked.
    Smallest: `sent(1) acked(1, offset 0) log()`.
    Near miss: the same with a log that was not drained; `unknown(1)` in place of the ack; `log()
    acked(1, offset 0)`.
    Allowed by: `acks=0` or `acks=1`, unless it was given to somebody, for only what is replicated
    is given; a power cut of as many brokers as `min.insync.replicas` says, or of as many as there
    are replicas if these are fewer, where only brokers count that then had a replica, if a
    `partition` event tells, and were not back in its `isr` at the next one; a power cut of all that
    are in its `isr` and `elr`, undecided without `elr`; no power cut if `flush.messages=1`;
    `unclean.leader.election.enable=true`; `cleanup.policy=compact`, if the order has no key, is not
    the last one of its key, is a tombstone, or was aborted, or if a tombstone of its key was sent
    that may be stored where nobody knows (undecided for a tombstone, if the log still has an older
    record of its key: compaction takes that first); a log that now begins after the order, if
    somebody asked for DeleteRecords or its settings may expire what it holds; a `request` on the
    wire to delete the topic (DeleteTopics) that the broker did not refuse. No power cut or deletion
    takes an order that was sent when all of them were over. Otherwise it is a breach.
    Source: Kafka design, replication. Jepsen's rule needs a consumer that read past the offset;
    here the drained log decides. An idempotent producer can lose its first batch and report a
    success without an offset: a breach (KAFKA-15591, measured; Kafka 4.5 fixes it for a partition
    that never held a record).
    """
    times = "if(acks > 1, acks || ' times ', '')"
    return Found(
        where="lost > 0",
        said=f"' was acked ' || {times} || {ACKED_AT} || '; ' || {HELD}"
        " || ', which was read to its end'",
        about={
            "value": "value",
            "partition": "lost_in",
            "offsets": OFFSETS_OF.format("acked_at"),
            "actor": f"coalesce({names('said_of_lost', 'acked')}, {names('said', 'acked')})",
            "circumstances": LOST_BECAUSE,
        },
    )


@finding(
    "duplicate", orders, "record visible",
    promise="With idempotence, or without retries, a batch is stored once.",
)  # fmt: skip
def duplicate() -> Found:
    """An order is in the log at two or more places.

    Rule: one order at two different pairs of partition and offset, each of a `record` or a
    `visible`. The evidence also says how many of the copies a read_committed reader is given, if
    that is known and not all of them.
    Smallest: `sent(1) acked(1, offset 1) log(1, 1)`.
    Near miss: the same record read twice at one offset; or delivered twice from one offset, which
    is a duplicate-delivery.
    Allowed by: the program, if it called `produce()` at least as often as there are copies, as it
    does when it aborts and sends again; `enable.idempotence=false` with retries. With idempotence,
    or with `retries=0`, more copies than sends are a breach; if nobody recorded a send, the finding
    is undecided instead. With `retries=0` librdkafka 2.16 can cause this breach when it loses its
    last broker and bootstraps again (claim A6).
    Source: librdkafka INTRODUCTION, idempotent producer; KIP-98.
    """
    place = "'offset ' || x.offset || ' of partition ' || x.partition"
    where = f"array_join(transform(places, x -> {place}), ' and ')"
    committed = (
        "is_transactional AND visible < copies"
        " AND forall(places, x -> map_contains_key(settled, x.partition))"
    )
    for_whom = (
        f"if({committed}, '; a read_committed reader is given it ' || {OFTEN.format('visible')},"
        " '')"
    )
    return Found(
        where="copies > 1",
        said=f"' is in the log ' || copies || ' times: at ' || {where}"
        f" || if(copies > size(places), ' and more', '') || {for_whom}",
        about={
            "value": "value",
            "partition": "if(array_min(places).partition = array_max(places).partition,"
            " get(places, 0).partition, NULL)",
            "offsets": f"array_sort({OFFSETS_OF.format('places')})",
            "actor": names("said", "sent"),
            "circumstances": "array_compact(array(if(sends >= copies, 'sent again', NULL),"
            f" if(sends = 0, '{UNRECORDED}', NULL),"
            f" if(sends >= copies AND {committed} AND visible < 2, 'aborted', NULL)))",
        },
    )


@finding(
    "phantom", orders, "failed unknown, record visible",
    promise="What the client declined by itself is not stored.",
)  # fmt: skip
def phantom() -> Found:
    """An order is in the log although every report about it was an error.

    Rule: an order has a `failed` or `unknown` report and no ack, and it has more copies than sends
    that are still without a report. Of several producers it names those of whom something was on
    its way.
    Smallest: `sent(1) unknown(1) log(1)`.
    Near miss: `sent(1) unknown(1) sent(1) acked(1) log(1)`; `sent(1) failed(1) sent(1) log(1)`,
    where the second send has no report yet.
    Allowed by: `message.timeout.ms`, whatever its value. After an error report the client waits no
    longer, but it cannot recall what it has sent: an earlier try may have been stored although its
    answer was lost, even if the broker refused the last try. If the client itself declined the
    order each time, as with _QUEUE_FULL, it sent nothing, and a copy is a breach.
    Source: librdkafka INTRODUCTION, timed out in flight; confluent-kafka-python issue 529.
    """
    at = AT_OFFSETS.format("places")
    return Found(
        where="acks = 0 AND reports > 0 AND copies > greatest(sends - reports, 0)",
        said=f"' was reported as ' || {ERRORS} || '; it is in the log at offset ' || {at}",
        about={
            "value": "value",
            "partition": "get(places, 0).partition",
            "offsets": f"array_sort(array_distinct({OFFSETS_OF.format('places')}))",
            "actor": f"coalesce({BUT_NOT_AS.format(listing(DECLINED))}, {REPORTED_BY})",
            "circumstances": "if(declined = reports, array(), array('was on its way'))",
        },
    )


@finding(
    "unavailable", orders, "failed unknown, end", promise="The service takes every order.",
)  # fmt: skip
def unavailable() -> Found:
    """The service did not take an order, and said so.

    Rule: an order has a `failed` or `unknown` report and no ack; its topic has no `record` of it,
    also none that was gone when a reader read the log again, and each partition that was read, or
    acked in, was read to its end after the report; no consumer was given it. A report does not
    count if its error is of the client itself, as _QUEUE_FULL and _PURGE_QUEUE are, of the order
    itself, as MSG_SIZE_TOO_LARGE and INVALID_RECORD, or of a producer that may not write
    (TOPIC_AUTHORIZATION_FAILED) or that another one has fenced (_FENCED).
    In a compacted topic it must be certain that it was not stored and compacted since: it has a key
    and a value, no order of its key was acked or found, and no tombstone of it sent.
    Smallest: `sent(1) failed(1, NOT_ENOUGH_REPLICAS) log()`.
    Near miss: `failed(1, _QUEUE_FULL)`, which the client declined by itself; `failed(1,
    MSG_SIZE_TOO_LARGE)`, which no service would have taken; `delivered(1)`; `sent(1) log()
    failed(1)`.
    It is **required** by `acks`: the service refuses an order rather than ack it and lose it. The
    service kept its promise: it lost nothing that it had acked.
    Source: Kafka design, replication.
    """
    return Found(
        where="acks = 0 AND refusals > 0 AND copies = 0 AND deliveries = 0 AND gone = 0"
        " AND all_drained AND late = 0 AND NOT coalesce(may_be_compacted, false)",
        said=f"' was reported as ' || {ERRORS}"
        " || '; it is not in the log, which was read to its end'",
        about={
            "value": "value",
            "offsets": "array()",
            "actor": BUT_NOT_AS.format(listing(OWN_ERRORS)),
        },
    )


@finding(
    "nonmonotonic-send", orders, "sent, record visible",
    promise="With idempotence, or without retries, the order of sending is kept.",
)  # fmt: skip
def nonmonotonic_send() -> Found:
    """An order was sent after another one and stored before it.

    Rule: take the orders that one producer sent once and that have a certain place in one
    partition, in the sequence in which they were sent. One of them has a lower offset than the one
    before it. An order's certain place is that of its ack, if the log holds the order there; if
    not, that of its only copy, whatever was reported.
    Smallest: `sent(1) sent(2) acked(2, offset 0) acked(1, offset 1) log(2, 1)`.
    Near miss: the same by two producers, of two names or with two `producer_id` in their `sent`, or
    on two partitions. An order that was sent twice is left out, because its reports cannot be told
    apart. Each step back is one finding, named by the order that was sent later: of orders sent as
    0 1 2 3 the log `1 2 3 0` has one, between 0 and 1.
    Allowed by: without idempotence and with retries, `max.in.flight` above 1, as by default in
    librdkafka (1,000,000), or, but for Java's client (`library=java`), `retry.backoff.ms` with
    `max.in.flight=1` (measured with librdkafka: `0 2 1 3`); without idempotence in all other cases,
    `enable.idempotence=false`, if the order that was sent first was not acked. Undecided if the
    ledger has several `created` of the producer. Otherwise it is a breach.
    Source: Jepsen; librdkafka INTRODUCTION, reordering; kafka-clients, RecordAccumulator: a batch
    that is to be sent again is the first of its partition, and the others wait behind it.
    """
    return Found(
        where="place IS NOT NULL AND earlier.offset > place.offset",
        said="' was sent after ' || coalesce(earlier.value, earlier.key, 'one without a value')"
        " || ' and stored before it: at offset ' || place.offset || ', and that at '"
        " || earlier.offset",
        about={
            "value": "value",
            "partition": "place.partition",
            "offsets": "array(earlier.offset, place.offset)",
            "actor": "sender",
            "circumstances": "if(earlier.acks = 0, array('not acked'), array())",
        },
    )


# Of each group that reads the topic: what it was given of an order, and whether it went past it.
GIVEN = (
    "size(array_distinct(transform(filter(given, x -> x.consumer_group = it.name AND"
    " x.kind = 'delivered'), x -> struct(x.partition, x.offset))))"
)
WHERE_IT_IS = "array_union(acked_at, places)"
PASSED = f"exists({WHERE_IT_IS}, x -> x.offset < coalesce(it.furthest[x.partition], -1))"
BEGUN = f"exists({WHERE_IT_IS}, x -> it.furthest[x.partition] IS NOT NULL)"
CHOSE = f"exists({WHERE_IT_IS}, x -> it.sought[x.partition] IS NOT NULL)"
SOUGHT, AHEAD = (
    f"exists({WHERE_IT_IS}, x -> {passed_over('x.offset', f'it.{how}[x.partition]')})"
    for how in ("sought", "ahead")
)
RESUMED = f"exists({WHERE_IT_IS}, x -> x.offset >= it.resumed[x.partition])"
READS_IT = (
    "(it.partitions IS NULL"
    f" OR exists({WHERE_IT_IS}, x -> array_contains(it.partitions, x.partition)))"
)
# What of the acks a reader can be given: what is visible, or nothing that may be aborted.
EXPECTED = (
    "if(all_drained AND tells_visible,"
    " if(aborted > 0 AND aborted = sends, 0, least(acks, kept_visible)),"
    " least(acks - if(in_transactions = 0, 0, sends - committed),"
    " if(all_drained, kept, acks)))"
)
SHORT = f"{GIVEN} < {EXPECTED} AND {READS_IT}"
# How it came that it was not.
NOT_GIVEN = (
    f"CASE WHEN {BEGUN} AND NOT {PASSED} THEN 'late'"
    f" WHEN {SOUGHT} OR {CHOSE} AND NOT {PASSED} THEN 'sought'"
    f" WHEN {AHEAD} THEN 'ahead' WHEN NOT {PASSED} THEN 'not begun'"
    f" WHEN {RESUMED} THEN 'resumed' ELSE 'passed' END"
)
# Is it short of one that no power cut took away, and did it begin after all of them?
STOOD = f"it.began_at_ns > last_cut_ns AND {GIVEN} + acks - stood < {EXPECTED}"


@finding(
    "unseen", orders, "acked, assigned delivered sought", role="consumer",
    promise="A group that begins at the earliest offset is given every acked order.",
)  # fmt: skip
def unseen() -> Found:
    """An order was acked, and a group of consumers that reads its topic was not given it.

    Rule: fewer records of the order were `delivered` to the group than were acked and can be read:
    what is `visible`, unless it was aborted each time, if the log was read to its end and says
    this; otherwise what the log does not lack and whose transaction is known to be committed. A
    group without `assigned` reads only the partitions that its consumers chose (`sought`, as by
    `assign()`) or were given something of; every other group reads the whole topic.
    Smallest: `acked(1) delivered(2)`.
    Near miss: `acked(1) log(1)` in a run without a consumer; an order that was aborted.
    Allowed by: the first that applies. (1) Time, if it was given some of the partition, none after
    the order. (2) The program, if it moved a consumer (`sought`) past the order, to the end, or to
    what the log did not have, and it was next given the first after the order; or anywhere but to
    the beginning, if the group was given nothing; or if it continued at a position after the order
    that it had `committed`, or that a transaction had for it: its last one before it was given the
    order's offset or a later one, not before the position. (3) `auto.offset.reset=latest` or
    `by_duration`, unless it resumed. (4) Time, if it was given nothing of the partition. (5)
    `enable.auto.commit=true`, as for skipped-processing. (6) A `request`, not refused, to delete
    the topic or change positions of groups (after the first send DeleteGroups or OffsetDelete;
    OffsetCommit or TxnOffsetCommit with `outside` in its `detail` or of a client without events).
    (7) As for lost-write, a power cut, unless it was acked before all, found after them, and the
    group began later; or an unclean election. Otherwise a breach; undecided if it may be gone (an
    unread log) or aborted, or a client of no known group `committed` there. It resumed if it first
    `committed` a position from the log's start to the order, and was given more, no week apart.
    Source: Jepsen; KIP-211; KIP-1327.
    """
    return Found(
        where=f"{EXPECTED} > 0 AND exists(consumers, it -> {SHORT})",
        each=f"filter(consumers, it -> {SHORT})",
        said="' was acked; it was not delivered to ' || array_join(it.actors, ', ')"
        f" || if({PASSED}, ', who went past it', ' so far')",
        about={
            "value": "value",
            "partition": "get(acked_at, 0).partition",
            "offsets": f"array_sort({OFFSETS_OF.format('acked_at')})",
            "actor": "array_join(it.actors, ', ')",
            "circumstances": f"array_compact(array({NOT_GIVEN}, if({STOOD}, 'stood', NULL)))",
        },
    )
