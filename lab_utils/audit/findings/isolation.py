"""Isolation: what readers were given of transactions, and what their programs were told.

A transaction is named by its producer and its number, and by the start of a producer that was
started again (Survey.by_start). A call that failed decides nothing. Nor is anything known of one
that was both committed and aborted, or begun twice and not ended twice: several producers have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.facts import (
    LISTED,
    ORDER,
    SEVERAL,
    TRANSACTION,
    orders,
    sql,
    transactions,
    with_superseded,
)
from lab_utils.audit.finding import Found, finding
from lab_utils.audit.findings.abandoned import abandoned
from lab_utils.audit.findings.cycles import cycles
from lab_utils.audit.findings.fencing import fenced
from lab_utils.audit.survey import EPOCHS, IN_TRANSACTIONS, ONE_ID, STOPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

# A finding about what the log's own read_committed reader was given, when the run was over.
VISIBLE: Final = "visible"
# One about a copy that the log's own read_committed reader was not given.
PASSED_OVER: Final = "passed over"
READING: Final = {
    "value": "value",
    "partition": "it.partition",
    "offsets": "array(it.offset)",
    "actor": "it.actor",
}
READINGS: Final = (
    "array_distinct(transform({0}, x -> struct(x.partition, x.offset, x.actor, x.kind)))"
)
# Had all power cuts ended when its transactions began, or this one did? Then none took a marker.
BEGAN_SINCE: Final = "if(began_at_ns > restored_at_ns, 'sent since', NULL)"
# What of an order was given although it was aborted: all, if its program was told that each time;
# a copy that read_committed readers pass over, if they are given all that it was told is committed.
ABORTED: Final = (
    "CASE WHEN aborted = sends THEN given"
    " WHEN in_transactions < sends OR committed = sends OR visible < committed THEN array()"
    " WHEN aborted = 0 AND asked < sends AND visible = 0 THEN array()"  # a precommitted-read
    " ELSE filter(given, x -> x.is_hidden) END"
)


@finding(
    "aborted-read", orders, f"delivered visible, {IN_TRANSACTIONS}", role="consumer",
    promise="A read_committed reader is given nothing that was aborted.",
)  # fmt: skip
def aborted_read() -> Found:
    """A reader was given an order, or a copy of one, whose transaction was aborted.

    Rule: each `sent` of the order names a transaction with `txn_aborted`, and the order was
    `delivered` to a consumer, or is `visible` to the lab's own read_committed reader. Or each
    `sent` names a transaction, not all are known to be committed, and the order was `delivered`
    from a place where the log holds it and a read_committed reader that came to the end is not
    given it, though it is given a copy for each that was committed; without a copy that it is given
    one was aborted, or a commit was asked for each: else it is a precommitted-read alone. In a
    compacted topic that does not count where the copy may have been compacted between the two
    readers. Where that tells nothing, each `sent` names a transaction, one was aborted, and one
    reader was given the order at more places than it was sent in others: which of them is too many
    nobody says.
    Smallest: `sent(1, transaction 1) delivered(1) aborted(1)`.
    Near miss: the same with `committed(1)`; or aborted once and sent again in a transaction that
    was committed, if it was given once, as the second copy or as nobody knows which.
    Allowed by: `isolation.level=read_uncommitted` of the consumer that was given it; the lab's own
    reader never has that. And by a power cut or `unclean.leader.election.enable=true`, as for
    lost-write: where the log lost the marker of the abort, that of the next commit ends both. No
    power cut that was over when each of its transactions began (`txn_began`) did that.
    Source: Jepsen, G1a; KIP-966, apache/kafka#22937. A call that failed decides nothing: its
    transaction may have been committed or not.
    """
    return Found(
        where=f"sends > 0 AND size({ABORTED}) > 0",
        each=READINGS.format(ABORTED),
        said="if(aborted = sends, ' was aborted, as its producer was told; ',"
        " ' has an aborted copy, which no read_committed reader is given; ')"
        " || it.actor || ' was given it at offset ' || it.offset",
        about={
            **READING,
            "circumstances": f"array_compact(array(CASE WHEN it.kind = '{VISIBLE}' THEN '{VISIBLE}'"
            f" WHEN aborted < sends THEN '{PASSED_OVER}' END, {BEGAN_SINCE}))",
        },
    )


# The readers who were given an order at more places than those of its sends that were not aborted.
PLACES_OF: Final = (
    "array_sort(array_distinct(transform(filter(given, x -> x.actor = {0}.actor"
    " AND x.kind = {0}.kind), x -> struct(x.partition, x.offset))))"
)
GIVEN_MORE: Final = (
    "filter(array_distinct(transform(given, x -> struct(x.actor, x.kind))),"
    f" who -> size({PLACES_OF.format('who')}) > sends - aborted)"
)


@finding("aborted-read", orders, "txn_aborted, delivered visible", role="consumer")
def aborted_read_beside_another() -> Found:
    """It was aborted and sent again, and a reader was given more of it than may be committed."""
    them = PLACES_OF.format("it")
    return Found(
        where="aborted BETWEEN 1 AND sends - 1 AND in_transactions = sends"
        f" AND size({ABORTED}) = 0 AND size({GIVEN_MORE}) > 0",
        each=GIVEN_MORE,
        said="' was sent ' || sends || ' times, and aborted ' || aborted || ' of them, as its"
        f" producer was told; ' || it.actor || ' was given it at ' || size({them}) || ' places'",
        about={
            **READING,
            "partition": f"if(array_min({them}).partition = array_max({them}).partition,"
            f" array_min({them}).partition, NULL)",
            "offsets": f"array_sort(transform({them}, x -> x.offset))",
            "circumstances": f"array_compact(array(if(it.kind = '{VISIBLE}', '{VISIBLE}', NULL),"
            f" {BEGAN_SINCE}))",
        },
    )


EARLY: Final = (
    "filter(given, x -> x.kind = 'delivered' AND if(asked < sends,"
    " visible = 0 AND copies > 0 AND x.at_ns < read_committed[x.partition]"
    " AND x.offset >= coalesce(stable_from[x.partition], 0),"
    " x.at_ns BETWEEN sent_at_ns AND asked_at_ns - 1))"
)


@finding(
    "precommitted-read", orders, f"delivered, {IN_TRANSACTIONS}", role="consumer",
    promise="A read_committed reader is given nothing before its commit.",
)  # fmt: skip
def precommitted_read() -> Found:
    """A consumer was given an order before its producer asked for the commit, or without one.

    Rule: every `sent` of the order is in a transaction, and none of these was aborted. Either the
    order was `delivered` after it was sent and before `commit_transaction` was first called for it.
    Or of one of these transactions nobody says that a commit was asked for, the order was
    `delivered`, the log holds it, and a read_committed reader is not given it. The second case
    counts only in a partition that a read_committed reader read as far as it can: to the end of the
    log, or to an open transaction; and only what was delivered before that reader came there, for
    the transaction may have been committed since.
    Smallest: `sent(1, transaction 1) delivered(1) committed(1)`.
    Near miss: delivered after the call and before its answer; delivered before it was sent, because
    then the two clocks do not agree; sent again in a transaction that commits later, by a program
    whose predecessor may have died in the call; an order that retention has deleted since;
    delivered after a call that failed, of which nobody says that it was another one.
    Allowed by: `isolation.level=read_uncommitted`.
    Source: Jepsen.
    """
    return Found(
        where=f"sends > 0 AND in_transactions = sends AND aborted = 0 AND size({EARLY}) > 0",
        each=READINGS.format(EARLY),
        said="' was given to ' || it.actor || ' at offset ' || it.offset"
        " || CASE WHEN asked = 0 THEN ', and its commit was never asked' WHEN asked < sends"
        " THEN ', and no read_committed reader is given any of its copies'"
        " ELSE ' before its commit was asked' END",
        about=READING,
    )


def members(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a stored copy of an order that was sent once, in a transaction of one producer.

    Columns: run, actor, transaction, outcome, topic, partition, offset, value, sent_at_ns,
    is_visible, is_settled (did a read_committed reader come to the end of this partition, after the
    order?).
    """
    stored = "source = 'log' AND kind IN ('record', 'visible')"
    rows = events.where(f"(source = 'client' AND kind IN ('sent', 'acked')) OR ({stored})")
    place = "struct(partition, offset)"
    gone = f"collect_set({place}) FILTER (WHERE superseded AND kind = 'record') AS superseded"
    found = sql(
        with_superseded(rows, events, survey, or_aborted=False),
        ORDER,
        "count_if(kind = 'sent') AS sends",
        "min(if(kind = 'sent', struct(actor, detail['transaction'] AS transaction, at_ns), NULL))"
        " AS sent",
        *(
            f"min_by({place}, {place}, {LISTED}) FILTER (WHERE kind = '{kind}') AS {kind}"
            for kind in ("record", "visible")
        ),
        gone,
    ).where("sends = 1 AND sent.transaction IS NOT NULL AND record IS NOT NULL")
    # Nor is a reader given what was compacted since another had found it.
    seen = f"coalesce(array_contains(visible, {place}), false)"
    is_there = "coalesce(array_contains(visible, x), false) OR NOT array_contains(superseded, x)"
    kept = f"filter(array_distinct(record), x -> {is_there})"
    each = found.selectExpr("*", "sent.*", f"inline({kept})")
    each = each.join(transactions(events), TRANSACTION, "left")
    each = each.where(f"outcome IS DISTINCT FROM '{SEVERAL}'")
    each = each.join(survey.topics_frame(events), ["run", "topic"], "left")
    # What the log has lost at its beginning since it was found there, no reader is given any more.
    return each.where(
        "offset >= greatest(coalesce(starts[partition], 0), coalesce(stable_from[partition], 0))"
    ).selectExpr(
        *TRANSACTION, "outcome", "topic", "partition", "offset", "at_ns AS sent_at_ns",
        "began_at_ns", "restored_at_ns",
        "coalesce(value, 'of key ' || key, 'without a value') AS value",
        f"{seen} AS is_visible",
        # At the end that was read or after it an order was stored later.
        "coalesce(map_contains_key(settled, partition), false)"
        f" AND ({seen} OR coalesce(offset < settled[partition], true)) AS is_settled",
    )  # fmt: skip


def wholes(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a transaction: TRANSACTION, seen and unseen values, and what its program was told.

    Also began_at_ns, and restored_at_ns of its topics.
    """
    known = members(events, survey).where("is_settled")
    return sql(
        known,
        TRANSACTION,
        "any_value(outcome) AS outcome",
        "any_value(began_at_ns) AS began_at_ns",
        "if(count_if(restored_at_ns IS NULL) = 0, max(restored_at_ns), NULL) AS restored_at_ns",
        "array_sort(collect_set(if(is_visible, value, NULL))) AS seen",
        "array_sort(collect_set(if(is_visible, NULL, value))) AS unseen",
    )


@finding(
    "torn-transaction", wholes, f"record, {IN_TRANSACTIONS}",
    promise="A read_committed reader is given all of a transaction, or nothing if it was aborted.",
)  # fmt: skip
def torn_transaction() -> Found:
    """A read_committed reader is not given all of a transaction, and nothing is open any more.

    Rule: of the stored orders that were sent once, and in this transaction, some are `visible` and
    some are not; or none is, although its program was told that it is committed. Only partitions
    count in which a read_committed reader came to the end of the log, and only what is before that
    end and what they still have: in a compacted topic not what a later record of its key follows,
    or may follow, nor a tombstone, nor what has no key. The transaction is one finding, however
    many orders are missing.
    Smallest: `sent(1, transaction 1) sent(2, transaction 1) visible(1) record(2)`.
    Near miss: the same while the partition of the other order waits for an open transaction, or was
    not read to its end, or was compacted between its two readers; `sent(1, transaction 1)
    aborted(1) record(1)`; transactions of several producers under one name and number that did not
    all end in one way.
    Allowed by: a power cut, unless it was over when the transaction began (`txn_began`), or
    `unclean.leader.election.enable=true`, as for lost-write, in any topic of the run: where a log
    lost the marker of the commit, that of the next abort ends both.
    Source: Jepsen, Bufstream 0.1.0; KIP-966; measured: an EndTxn that is late by one transaction,
    with a client of transaction protocol 1.
    """
    return Found(
        where="size(unseen) > 0 AND (size(seen) > 0 OR outcome <=> 'txn_committed')",
        said="'transaction ' || transaction || ' of ' || actor || ' is torn: a read_committed"
        " reader is given ' || if(size(seen) > 0, array_join(slice(seen, 1, 10), ', '), 'nothing')"
        " || ' of it and not '"
        " || array_join(slice(unseen, 1, 10), ', ') || '; its program was told '"
        " || coalesce(substring(outcome, 5), 'nothing')",
        about={
            "topic": "NULL",
            "actor": "actor",
            "circumstances": f"array_compact(array({BEGAN_SINCE}))",
        },
    )


def write_cycles(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a set of transactions that are each before another; columns as in cycles()."""
    return cycles(members(events, survey).where("is_visible"), events, survey)


def _cycle(name: str, how: str) -> Found:
    return Found(
        where=f"anomaly = '{name}'",
        said=f"'transactions ' || path || ' {how}'",
        about={"topic": "NULL", "actor": "actors"},
    )


@finding(
    "G0", write_cycles, f"visible, {IN_TRANSACTIONS}",
    promise="The writes of two transactions do not interleave.",
)  # fmt: skip
def g0() -> Found:
    """In a circle of transactions, each wrote something before the next one did.

    Rule: each transaction of the circle has a visible record that is before one of the next
    transaction in some partition; after the last comes the first. Only orders that were sent once
    count. Circles that share a transaction are one finding, whatever their length.
    Smallest: `visible(1) visible(2) visible(3)`, where 1 and 3 are of one transaction and 2 is of
    another.
    Near miss: `visible(1) visible(3) visible(2)`.
    Allowed by: Kafka itself. Transactions are atomic for readers, but writers are not kept apart.
    Source: Jepsen, G0.
    """
    return _cycle("G0", "each wrote something before the other")


@finding(
    "G1c", write_cycles, f"visible, txn_offsets_sent, {IN_TRANSACTIONS}",
    promise="No transaction reads what depends on its own writes.",
)  # fmt: skip
def g1c() -> Found:
    """In a circle of transactions, each comes before the next, and one read what another wrote.

    Rule: as for G0, with one more kind of step. A transaction that committed the offset p has read
    the last visible record before p, and so comes after the transaction that wrote that record. At
    least one step of the circle is of this kind.
    Smallest: `visible(1) offsets(after 1, of the transaction that sent 2) visible(2)`, and the
    transaction that sent 1 has committed an offset after 2.
    Near miss: only one of the two has read.
    Allowed by: Kafka itself: transactions are atomic, and not serialised.
    Source: Jepsen, G1c.
    """
    return _cycle("G1c", "each wrote or read something before the other")


@finding(
    "G2", write_cycles, f"visible, txn_offsets_sent, {IN_TRANSACTIONS}",
    promise="Transactions are as if one came after the other.",
)  # fmt: skip
def g2() -> Found:
    """Transactions that fit no sequence: at least one did not read what another wrote.

    Rule: as for G1c, with one more kind of step. A transaction that committed the offset p has not
    read the first visible record at or after p, and so comes before the transaction that wrote that
    record. At least one step of the circle is of this kind.
    Smallest: two transactions that each commit an offset before what the other writes.
    Near miss: one of them commits an offset after it.
    Allowed by: Kafka itself: transactions are atomic, and not serialised.
    Source: Adya, Weak Consistency, G2.
    """
    return _cycle("G2", "cannot be put into any sequence")


def epochs(events: DataFrame, _: Survey) -> DataFrame:
    """One row a batch or marker of a producer, with the newest epoch before it: newer."""
    ids = ["run", "topic", "partition", "producer_id"]
    written = events.where("source = 'log' AND kind IN ('batch', 'marker') AND producer_id >= 0")
    written = written.select(*ids, "producer_epoch", "offset", "kind").distinct()
    before = "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    window = f"OVER (PARTITION BY {', '.join(ids)} ORDER BY offset {before})"
    return written.selectExpr("*", f"max(producer_epoch) {window} AS newer")


@finding(
    "zombie-effect", epochs, EPOCHS,
    promise="The log takes nothing of an old epoch after a newer one.",
)  # fmt: skip
def zombie_effect() -> Found:
    """A producer that was fenced went on: it wrote something, or committed a transaction.

    Rule: in one partition, a `batch` or `marker` has a lower epoch than one before it of the same
    producer id. Or a program was told that its transaction is committed, with an acked order in it
    that it sent once; and when it called `commit_transaction`, another producer with the same
    `transactional.id` had been initialised, which began when the first one had been.
    Smallest: `batch(epoch 0) marker(epoch 1) batch(epoch 0)`.
    Near miss: the same epochs of two producer ids, or in two partitions; a commit that was called
    before the other was initialised, or of two with an id each, or of nothing; a producer that was
    created twice; a run with a power cut or an unclean topic, where the coordinator may have lost
    what it knew.
    Allowed by: nothing.
    Source: KIP-98, KIP-447.
    """
    return Found(
        where="producer_epoch < newer",
        said="'the log took a ' || kind || ' of epoch ' || producer_epoch || ' of producer id '"
        " || producer_id || ' at offset ' || offset || ', after one of epoch ' || newer",
        about={"partition": "partition", "offsets": "array(offset)"},
    )


@finding("zombie-effect", fenced, f"txn_initialised, txn_committed, acked, {ONE_ID}")
def zombie_effect_on_a_transaction() -> Found:
    """A transaction was committed when another producer had taken its transactional.id."""
    return Found(
        where="true",
        said="'transaction ' || transaction || ' of ' || actor || ' was committed, as its program"
        " was told; before it asked for that, ' || successor || ' had been initialised with'"
        " || ' transactional.id ' || id",
        about={"topic": "NULL", "actor": "actor"},
    )


STOP_SCHEMA: Final = (
    "run STRING, topic STRING, partition BIGINT, last_stable BIGINT, offset BIGINT,"
    " read_at_ns BIGINT"
)


# What a coordinator notes of a producer id without an open transaction.
OVER: Final = "state IN ('CompleteAbort', 'CompleteCommit', 'Empty')"


def stops(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a partition where a read_committed reader stops before the end of the log.

    Columns: STOP_SCHEMA and over, ARRAY<STRUCT<producer_id, state>>: of the batches that begin
    there, those whose transaction was over to its coordinator when the end was read.
    """
    found = [(*key, *stop) for key, topic in survey.topics.items() for stop in topic.stops()]
    stopped = survey.table(events, found, STOP_SCHEMA)
    noted = sql(
        events.where("source = 'log' AND kind = 'transaction'"), ["run", "producer_id"],
        "max_by(struct(detail['state'] AS state, at_ns AS noted_at_ns), offset) AS last",
    ).selectExpr("run", "producer_id", "last.*").where(OVER)  # fmt: skip
    # The last stable offset is the first of the oldest open transaction: where a batch begins.
    batches = events.where("source = 'log' AND kind = 'batch'").selectExpr(
        "run", "topic", "partition", "offset AS last_stable", "producer_id"
    )
    keys = ["run", "topic", "partition", "last_stable"]
    over = sql(
        batches.join(noted, ["run", "producer_id"]).join(stopped, keys)
        .where("noted_at_ns < read_at_ns"),
        keys,
        "array_sort(collect_set(struct(producer_id, state))) AS over",
    )  # fmt: skip
    return stopped.join(over, keys, "left")


@finding(
    "hanging-transaction", stops, f"transaction, batch, {STOPS}",
    promise="A transaction that is over has a marker in each of its partitions.",
)  # fmt: skip
def hanging_transaction() -> Found:
    """A read_committed reader stops at a transaction that its coordinator has noted as ended.

    Nothing will write its marker.
    Rule: an `end` has a last stable offset below the end of the log; a `batch` begins at that
    offset, and the coordinator's last entry (`transaction`) for its producer id is
    *CompleteCommit*, *CompleteAbort*, or the *Empty* of a producer that has started again, noted
    before the `end` was read.
    Smallest: `batch(offset 0, id 7) transaction(id 7, CompleteCommit) end(last stable 0, offset
    2)`.
    Near miss: the same with *Ongoing* as the last entry: the coordinator aborts that transaction
    after `transaction.timeout.ms`; the same with the entry after the `end`, which was read while
    the marker was on its way.
    Allowed by: a power cut or `unclean.leader.election.enable=true`, as for lost-write: the log had
    the marker, and lost it.
    Source: KIP-664, which has the name; apache/kafka#22937; measured in lab 04: a commit while the
    partition has no leader (Kafka 4.3.1).
    """
    return Found(
        where="size(over) > 0",
        each="over",
        said="'the coordinator has noted ' || it.state || ' for producer id ' || it.producer_id"
        " || ', whose transaction has no marker in partition ' || partition"
        " || '; read_committed readers stop at offset ' || last_stable || ' of ' || offset",
        about={"partition": "partition", "offsets": "array(last_stable, offset)"},
    )


@finding(
    "stuck-lso", stops, STOPS,
    promise="Without a transaction nothing holds readers back.",
)  # fmt: skip
def stuck_lso() -> Found:
    """A read_committed reader stops before the end, at a transaction that will still end.

    Rule: an `end` has a last stable offset below the end of the log, and there is no
    hanging-transaction at that offset.
    Smallest: `end(last stable 0, offset 2)`.
    Near miss: `end(last stable 2, offset 2)`.
    Allowed by: `transaction.timeout.ms` of a transactional producer: an open transaction ends when
    it times out. Undecided if the ledger has no such producer: it is that of another.
    Source: KIP-890; KAFKA-20716.
    """
    return Found(
        where="size(coalesce(over, array())) = 0",
        said="'read_committed readers of partition ' || partition || ' stop at offset '"
        " || last_stable || '; the log goes on to ' || offset",
        about={"partition": "partition", "offsets": "array(last_stable, offset)"},
    )


@finding(
    "aborted-output", abandoned, "txn_aborted, txn_offsets_sent, delivered", role="consumer",
    promise="What was consumed is committed together with its output, or not at all.",
)  # fmt: skip
def aborted_output() -> Found:
    """Input is committed as consumed, and its output was aborted and never sent again.

    An abort takes the output back and leaves the consumer where it is: the program must rewind it.
    Rule: (1) An order was sent, and every transaction that it was sent in was aborted. (2) Its
    producer sends offsets of a partition, and when the transaction was aborted a group had been
    given input of that partition that no transaction had committed. This input begins at the last
    offset that a transaction committed, or at the first one delivered if none did. (3) After the
    abort the group was given nothing at or before that offset. (4) A later commit, or the group's
    bookmark at the end of the run, is after that offset. If several groups had been given something
    of the partition by then, (2) to (4) must be true of each whose offsets they may be.
    Smallest: `delivered(1, offset 0) sent(1, transaction 1) aborted(1) delivered(2, offset 1)
    sent(2, transaction 2) offsets(transaction 2, 2) committed(2)`.
    Near miss: `delivered(1, offset 0)` again after the abort; or order 1 sent again in 2. A
    transaction that committed its input and sent nothing is no finding: a program may have nothing
    to send, as a filter does, and no event says which output belongs to which input. Nor is input
    that a consumer `committed` by itself: no event says whose output, if any, belongs to it.
    Allowed by: the program, which did not rewind to the last committed offset after the abort. If
    nobody says that he committed a position after the input, `enable.auto.commit=true`; else
    undecided: the offsets that the aborted transaction sent must not count.
    Source: Kafka design, using transactions; KIP-447; claims E13, measured in lab 06.
    """
    return Found(
        where="is_skipped",
        said="'input of partition ' || partition || ' from offset ' || start || ' to '"
        " || (skipped_to - 1) || ' is committed as consumed, and its output was aborted:"
        " transaction ' || transaction || ' of ' || actor || ' with '"
        " || array_join(outputs, ', ') || ', which was not sent again'",
        about={
            "partition": "partition",
            "offsets": "array(start, skipped_to - 1)",
            "actor": "actor",
            "circumstances": "if(is_told, array(), array('bookmark alone'))",
        },
    )
