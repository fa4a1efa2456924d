"""Facts: one row an order, or a place in a log, of everything that the events say of it.

    events ──▶ orders   (run, topic, key, value)         sent, reported, stored, delivered
           ╰─▶ places   (run, topic, partition, offset)  acked for, held, given, worked on

An order is its key and value; equal ones are counted. Null values, tombstones and empty texts are
values like others. Places are listed up to LISTED; who said what of an order, and who was given
it, is listed whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.ledger.acts import HEARD, NOT_HEARD, SENDS, SINCE, beside
from lab_utils.ledger.copies import (
    BEFORE_THE_END,
    KEPT,
    READ_AND_GONE,
    SHOWN,
    STOOD,
    UNHELD,
)
from lab_utils.ledger.events import POSITION
from lab_utils.ledger.own_errors import DECLINED, OWN_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey

LISTED: Final = 10
EXPIRY: Final = 7 * 24 * 3600 * 10**9  # offsets.retention.minutes as it is by default
ORDER: Final = ["run", "topic", "key", "value"]
PLACE: Final = ["run", "topic", "partition", "offset"]
REPORTS: Final = ("sent", "failed", "unknown")
# What a reader found in a log, and did not find when it read it again: such a record has this kind.
GONE: Final = "gone"
OF_ORDERS: Final = (
    "(source = 'client' AND kind IN ('sent', 'acked', 'failed', 'unknown', 'delivered'))"
    f" OR (source = 'log' AND kind IN ('record', 'visible', '{GONE}'))"
)
OF_PLACES: Final = (
    "(source = 'client' AND kind IN ('acked', 'processed') AND offset IS NOT NULL)"
    f" OR (source = 'log' AND kind IN ('record', 'visible', '{GONE}'))"
)
POLLS: Final = (
    "source = 'client' AND kind IN ('delivered', 'assigned', 'sought', 'revoked', 'lost')"
)
POSITIONS: Final = ("delivered", "committed", "sought")  # they tell where a group is
# What was worked on, but by the members of other groups than that of this number in its topic.
OWN_WORK: Final = (
    "filter(worked, x -> NOT exists(consumers, y -> y.name <> get(consumers, {0}).name"
    " AND array_contains(y.actors, x.actor)) <=> true)"
)
# A program's own move to an offset or to the end; not to the bookmark or the beginning.
CHOSEN: Final = "(kind = 'sought' AND (offset IS NOT NULL OR detail['to'] <=> 'end'))"
# The widest of the stretches that a group's positions passed over in one partition.
PASSED_MAX: Final = 100
TRANSACTION: Final = ["run", "actor", "transaction"]
# How often the producer of an event had been started when that happened, or when its call began.
START: Final = (
    "size(filter(starts, x -> x <= least(at_ns, try_cast(detail['called_at_ns'] AS BIGINT))))"
)
RENAMED: Final = (
    f"if(detail['transaction'] IS NOT NULL AND {START} > 1, transform_values(detail, (name, text)"
    f" -> if(name = 'transaction', text || ' (start ' || {START} || ')', text)), detail)"
)
SEVERAL: Final = "several"


def listing(texts: tuple[str, ...]) -> str:
    """Texts as an SQL list."""
    return ", ".join(f"'{text}'" for text in texts)


def sql(rows: DataFrame, keys: list[str], *columns: str) -> DataFrame:
    """One row for each group; the columns are SQL aggregates."""
    from pyspark.sql import functions

    return rows.groupBy(keys).agg(*map(functions.expr, columns))


def orders(events: DataFrame, survey: Survey) -> DataFrame:
    """One row an order.

    Columns: ORDER and those of a topic's survey, and
    sends, acks, reports, declined, refusals, deliveries, gone   how many events
    copies, visible          at how many places it is stored, and visible to read_committed
    kept, kept_visible       the same, of those that the log has not lost at its beginning
    stood                    at how many places of its acks no power cut took it away
    late                     is more than 0 if an error was reported when the log had been read
    lost                     how many acks are not covered by a copy, where the log was drained
                             after them, or beyond their offset
    deleted                  how many of these may have been before the first offset of the log
    superseded               how many of these compaction may have taken away
    outlived                 how many of these were tombstones, and the log has what is older
    was_read                 is it certain of one of these that somebody had been given it?
    places, acked_at         ARRAY<STRUCT<partition, offset>>: of the copies, and of the acks
    place                    where it is, if that is certain: it was sent once
    said                     ARRAY<STRUCT<kind, actor, error>>: who said what of it
    said_of_lost             the same, of places without a copy where acks are not covered
    given                    ARRAY<STRUCT<partition, offset, actor, at_ns, consumer_group, kind,
                             is_hidden>>: not in an earlier run; is_hidden as in HIDDEN
    in_transactions, aborted, committed, asked   how many sends were in one, in one so ended, asked
    asked_at_ns              when the first commit of them was asked for
    began_at_ns              when the first transaction began that it was sent in; 0 if one may have
    sent_at_ns, sender, transaction   of its first send
    earlier                  STRUCT<key, value, offset, acks>: what its sender, by its producer_id
                             if that is known, sent before it to the partition
    """
    copies = _copies(events, survey).join(survey.topics_frame(events), ["run", "topic"], "left")
    copies = _with_fates(copies, events, survey)
    by_partition = _by_partition(copies, survey)
    at = "transform({0}, x -> struct(partition, x AS offset))"
    found = sql(
        by_partition,
        ORDER,
        *(f"sum({name}) AS {name}" for name in (*COUNTED, *STORED)),
        "sum(if(is_drained AND uncovered > 0, uncovered, 0)) AS lost",
        "sum(if(is_drained AND uncovered > 0, least(uncovered, below_the_start), 0)) AS deleted",
        "sum(if(is_drained AND uncovered > 0, least(uncovered, superseded), 0)) AS superseded",
        "sum(if(is_drained AND uncovered > 0, outlived, 0)) AS outlived",
        "bool_or(is_drained AND uncovered > greatest(0, unheld - read_and_gone)) AS was_read",
        "min(if(is_drained AND uncovered > 0, partition, NULL)) AS lost_in",
        *(
            f"slice(array_sort(flatten(collect_list({at.format(it)}))), 1, {LISTED}) AS {name}"
            for it, name in (("stored_at", "places"), ("acked_at", "acked_at"))
        ),
        "min(if(confirmed IS NULL, NULL, struct(partition, confirmed AS offset))) AS confirmed",
        "array_sort(array_distinct(flatten(collect_list(said)))) AS said",
        "flatten(collect_list(if(is_drained AND uncovered > 0, of_no_copy, array())))"
        " AS said_of_lost",
        "array_sort(flatten(collect_list(given))) AS given",
        *(f"min({name}) AS {name}" for name in FIRST),
        *(f"any_value({name}) AS {name}" for name in OF_TOPIC),
    )
    return _in_sequence(found, survey)


def _by_partition(copies: DataFrame, survey: Survey) -> DataFrame:
    """One row an order and partition: what adds up of its copies, and what is uncovered."""
    return sql(
        copies.selectExpr(
            "*", _superseded(survey, "is_stored OR acks > 0"), _outlived(survey, "is_stored")
        ),
        [*ORDER, "partition"],
        *(f"sum({name}) AS {name}" for name in COUNTED),
        "count_if(is_stored) AS copies",
        "count_if(is_visible) AS visible",
        f"count_if(is_stored AND {KEPT}) AS kept",
        f"count_if(is_visible AND {KEPT}) AS kept_visible",
        f"count_if({STOOD}) AS stood",
        "count_if(reported_at_ns >= array_min(map_values(read_at_ns))) AS late",
        f"sum({BEFORE_THE_END}) - count_if(is_stored) AS uncovered",
        "any_value(array_contains(drained, partition)) AS is_drained",
        f"sum(if(coalesce(offset, 0) < starts[partition], {UNHELD}, 0)) AS below_the_start",
        f"sum(if(superseded, {UNHELD}, 0)) AS superseded",
        f"sum(if(superseded AND outlived, {UNHELD}, 0)) AS outlived",
        f"sum({UNHELD}) AS unheld",
        f"count_if({READ_AND_GONE}) AS read_and_gone",
        f"min_by(offset, offset, {LISTED}) FILTER (WHERE is_stored) AS stored_at",
        f"min_by(offset, offset, {LISTED}) FILTER (WHERE acks > 0) AS acked_at",
        "min(if(acks > 0 AND is_stored, offset, NULL)) AS confirmed",
        "flatten(collect_list(said)) AS said",
        "flatten(collect_list(if(is_stored, array(), said))) AS of_no_copy",
        f"flatten(collect_list(if({KEPT} OR acks > 0 OR is_stored, {SHOWN}, array()))) AS given",
        *(f"min({name}) AS {name}" for name in FIRST),
        *(f"any_value({name}) AS {name}" for name in OF_TOPIC),
    )


def _superseded(survey: Survey, is_record: str, *, or_aborted: bool = True) -> str:
    """May compaction have taken away what was at this place?

    It keeps the last record of each key, and in the end not even that if it is a tombstone: one of
    which nobody knows the place may have been here, and be gone as well. What was aborted it takes
    away, and that supersedes nothing. It also takes away what has no key: such records are stored
    only while the topic is not compacted yet.
    """
    if not survey.has_compacted:
        return "false AS superseded"
    window = "OVER (PARTITION BY run, topic, partition, key)"
    newest = f"max(if(({is_record}) AND NOT is_aborted, offset, NULL)) {window}"
    aborted = "may_be_aborted" if or_aborted else "false"
    return (
        f"is_compacted AND coalesce(key IS NULL OR value IS NULL OR {aborted}"
        f" OR has_tombstone OR offset < {newest}, false) AS superseded"
    )


def _outlived(survey: Survey, is_record: str) -> str:
    """Was this a tombstone, and is an older record of its key still there?

    Compaction takes the older one away first. So it did not take this one, or it came between what
    a reader found and what it read next.
    """
    if not survey.has_compacted:
        return "false AS outlived"
    window = "OVER (PARTITION BY run, topic, partition, key)"
    oldest = f"min(if(({is_record}) AND {KEPT}, offset, NULL)) {window}"
    is_tombstone = "key IS NOT NULL AND value IS NULL AND NOT may_be_aborted"
    return f"coalesce({is_tombstone} AND offset > {oldest}, false) AS outlived"


def with_superseded(
    rows: DataFrame, events: DataFrame, survey: Survey, *, or_aborted: bool
) -> DataFrame:
    """Events about an order, with superseded: has a later record taken its key at this place?

    Compaction may take such a record away between two readers of the log. With or_aborted, may it
    have taken it away for any reason, as that it was aborted? And with outlived, as above.
    """
    if not survey.has_compacted:
        return rows.selectExpr("*", "false AS superseded", "false AS outlived")
    policies = survey.topics_frame(events).select("run", "topic", "is_compacted", "starts")
    known = _with_fates(rows, events, survey).join(policies, ["run", "topic"], "left")
    is_record = "kind IN ('acked', 'record', 'visible')"
    gone = _superseded(survey, is_record, or_aborted=or_aborted)
    outlived = _outlived(survey, "kind IN ('record', 'visible')")
    return known.selectExpr("*", gone, outlived).drop(
        "is_aborted", "may_be_aborted", "has_tombstone", "is_compacted", "starts"
    )


def _with_fates(rows: DataFrame, events: DataFrame, survey: Survey) -> DataFrame:
    """Rows about an order with what became of it, if a topic is compacted.

    Columns: is_aborted, was each transaction it was sent in aborted; may_be_aborted, is none of
    them known to be committed; has_tombstone, was a tombstone of its key sent more often than
    anybody knows places of it, and not aborted each time?
    """
    if not survey.has_compacted:
        return rows
    rows = _with_tombstones(rows, events, survey)
    if not survey.has_transactions:
        return rows.selectExpr("*", "false AS is_aborted", "false AS may_be_aborted")
    from pyspark.sql import functions

    sent = _with_ends(events).where("source = 'client' AND kind = 'sent'")
    fates = sql(
        sent.selectExpr("*", *(f"{it} AS of_{it}" for it in ORDER)),
        [f"of_{it}" for it in ORDER],
        "bool_and(outcome <=> 'txn_aborted') AS aborted_each_time",
        "bool_and(transaction IS NOT NULL AND NOT outcome <=> 'txn_committed') AS not_committed",
    )
    same = "run = of_run AND topic = of_topic AND key <=> of_key AND value <=> of_value"
    told = rows.join(fates, functions.expr(same), "left").selectExpr(
        "*",
        "coalesce(aborted_each_time, false) AS is_aborted",
        "coalesce(not_committed, false) AS may_be_aborted",
    )
    return told.drop(*(f"of_{it}" for it in ORDER), "aborted_each_time", "not_committed")


def _with_tombstones(rows: DataFrame, events: DataFrame, survey: Survey) -> DataFrame:
    """Rows about an order with has_tombstone, as _with_fates() has it."""
    from pyspark.sql import functions

    was_sent = "kind = 'sent'"
    if survey.has_transactions:
        events = _with_ends(events)
        was_sent += " AND NOT outcome <=> 'txn_aborted'"
    declined = f"kind IN ('failed', 'unknown') AND error IN ({listing(DECLINED)})"
    has_place = "kind IN ('acked', 'record', 'visible') AND offset IS NOT NULL"
    known = f"size(collect_set(if({has_place}, struct(partition, offset), NULL)))"
    tombstones = (
        sql(
            events.where("source IN ('client', 'log') AND key IS NOT NULL AND value IS NULL"),
            ["run", "topic", "key"],
            f"count_if({was_sent}) > 0 AND count_if(kind = 'sent') - count_if({declined}) > {known}"
            " AS is_somewhere",
        )
        .where("is_somewhere")
        .selectExpr("run AS of_run", "topic AS of_topic", "key AS of_key")
    )
    same = functions.expr("run = of_run AND topic = of_topic AND key = of_key")
    told = rows.join(tombstones, same, "left").selectExpr(
        "*", "of_key IS NOT NULL AS has_tombstone"
    )
    return told.drop("of_run", "of_topic", "of_key")


# Columns of a copy and of a partition that add up, those whose first counts, and of its topic.
COUNTED: Final = (
    "sends", "acks", "reports", "declined", "refusals", "deliveries", "gone", "aborted",
    "committed", "in_transactions", "asked",
)  # fmt: skip
STORED: Final = ("copies", "visible", "kept", "kept_visible", "stood", "late")
FIRST: Final = ("sent_at_ns", "first_send", "asked_at_ns", "began_at_ns")
OF_TOPIC: Final = (
    "all_drained", "is_transactional", "is_compacted", "tells_visible", "settled", "read_committed",
    "read_at_ns", "stable_from", "restored_at_ns", "last_cut_ns", "consumers",
)  # fmt: skip
# May an order without an ack or a copy have been stored, and compacted since?
MAY_BE_COMPACTED: Final = (
    "is_compacted AND (key IS NULL OR value IS NULL OR sum(copies + acks + if(value IS NULL, sends,"
    " 0)) OVER (PARTITION BY run, topic, key) > 0)"
)


def _copies(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a place and order; what has no place, as a send, is one row a partition."""
    rows = _with_ends(events) if survey.has_transactions else events.selectExpr(
        "*", "CAST(NULL AS STRING) AS transaction", "CAST(NULL AS STRING) AS outcome",
        "CAST(NULL AS BIGINT) AS asked_at_ns", "CAST(NULL AS BIGINT) AS began_at_ns",
    )  # fmt: skip
    rows = with_groups(rows.where(OF_ORDERS), survey)
    placeless = f"kind IN ({listing(REPORTS)})"
    rows = rows.selectExpr(
        *ORDER, "kind", "actor", "at_ns", "error", "transaction", "outcome", "asked_at_ns",
        f"if({placeless}, NULL, partition) AS partition",
        f"if({placeless}, NULL, offset) AS offset",
        "consumer_group", "source", "producer_id", "began_at_ns",
    )  # fmt: skip
    given = "source = 'client' AND kind = 'delivered' OR kind = 'visible'"
    return sql(
        rows,
        [*ORDER, "partition", "offset"],
        "count_if(kind = 'sent') AS sends",
        "count_if(kind = 'acked') AS acks",
        "collect_list(if(kind = 'acked', at_ns, NULL)) AS acked_at_ns",
        "count_if(kind IN ('failed', 'unknown')) AS reports",
        f"count_if(kind IN ('failed', 'unknown') AND error IN ({listing(DECLINED)})) AS declined",
        "count_if(kind IN ('failed', 'unknown') AND NOT coalesce(error IN"
        f" ({listing(OWN_ERRORS)}), false)) AS refusals",
        "count_if(kind = 'delivered') AS deliveries",
        f"count_if(kind = '{GONE}') AS gone",
        "count_if(kind = 'sent' AND outcome <=> 'txn_aborted') AS aborted",
        "count_if(kind = 'sent' AND outcome <=> 'txn_committed') AS committed",
        "count_if(kind = 'sent' AND transaction IS NOT NULL) AS in_transactions",
        "count_if(kind = 'sent' AND asked_at_ns IS NOT NULL) AS asked",
        "bool_or(kind IN ('record', 'visible')) AS is_stored",
        "bool_or(kind = 'visible') AS is_visible",
        "max(if(kind IN ('record', 'visible'), at_ns, NULL)) AS found_at_ns",
        "collect_set(if(source = 'client', struct(kind, actor, error), NULL)) AS said",
        f"collect_set(if({given}, struct(partition, offset, actor, at_ns, consumer_group,"
        " kind), NULL)) AS given",
        "max(if(kind IN ('failed', 'unknown'), at_ns, NULL)) AS reported_at_ns",
        "min(if(kind = 'sent', at_ns, NULL)) AS sent_at_ns",
        "min(if(kind = 'sent', struct(actor, transaction, producer_id), NULL)) AS first_send",
        "min(if(kind = 'sent', asked_at_ns, NULL)) AS asked_at_ns",
        "min(if(kind = 'sent', coalesce(began_at_ns, 0L), NULL)) AS began_at_ns",
    )


def _with_ends(events: DataFrame) -> DataFrame:
    """Events with the transaction they were sent in, and what its program was told of its end."""
    numbered = events.selectExpr("*", "detail['transaction'] AS transaction")
    return numbered.join(transactions(events), TRANSACTION, "left")


def transactions(events: DataFrame) -> DataFrame:
    """One row a transaction: TRANSACTION, outcome, asked_at_ns, began_at_ns, ended_at_ns.

    outcome      txn_committed or txn_aborted, as the program was told; NULL if it was not; SEVERAL
                 if these are transactions of several producers, and not all of one end: it was told
                 both, or one was begun twice and did not end twice
    asked_at_ns  when a commit was asked for, whatever became of it; 0 of SEVERAL, and where nobody
                 says when the call began: it may have been at any time
    """
    ended = "kind IN ('txn_committed', 'txn_aborted')"
    told = f"FILTER (WHERE {ended})"
    several = (
        f"coalesce(min(kind) {told} <> max(kind) {told}, false)"
        f" OR count_if(kind = 'txn_began') > greatest(1, count_if({ended}))"
    )
    called = "CAST(detail['called_at_ns'] AS BIGINT)"
    # A call that failed without a name may have been this one.
    asked = (
        "kind = 'txn_committed' OR kind = 'txn_failed'"
        " AND coalesce(detail['call'], 'commit_transaction') = 'commit_transaction'"
    )
    return sql(
        events.where(
            "source = 'client' AND kind IN"
            " ('txn_began', 'txn_committed', 'txn_aborted', 'txn_failed')"
        ).selectExpr("*", "detail['transaction'] AS transaction"),
        TRANSACTION,
        f"if({several}, '{SEVERAL}', max(kind) {told}) AS outcome",
        f"if({several}, 0L, min(coalesce({called}, 0L)) FILTER (WHERE {asked})) AS asked_at_ns",
        "min(at_ns) FILTER (WHERE kind = 'txn_began') AS began_at_ns",
        f"max(at_ns) {told} AS ended_at_ns",
    )


def positions(events: DataFrame) -> DataFrame:
    """The offsets that transactions sent: TRANSACTION, topic, partition, position, for_group.

    for_group is NULL if nobody recorded whose they are (survey.of_groups). Of a partition of which
    nothing was read the position is below 0 (OFFSET_INVALID), and the client leaves it out.
    """
    sent = events.where("source = 'client' AND kind = 'txn_offsets_sent'").selectExpr(
        "run", "actor", "detail['transaction'] AS transaction", "detail['group'] AS for_group",
        "explode(from_json(detail['offsets'], 'ARRAY<STRING>')) AS place",
    )  # fmt: skip
    part = f"regexp_extract(place, '{POSITION}', {{0}})"
    named = sent.selectExpr(
        *TRANSACTION,
        "for_group",
        f"{part.format(1)} AS topic",
        f"try_cast({part.format(2)} AS BIGINT) AS partition",
        f"try_cast({part.format(3)} AS BIGINT) AS position",
    )  # fmt: skip
    return named.where("position >= 0")


def committed_positions(events: DataFrame) -> DataFrame:
    """These of transactions that were committed; also asked_at_ns and ended_at_ns."""
    committed = transactions(events).where("outcome = 'txn_committed'")
    return positions(events).join(committed, TRANSACTION)


def group_positions(events: DataFrame, survey: Survey) -> DataFrame:
    """The positions of groups: run, topic, partition, consumer_group, and

    committed, highest  when the first was, and which; and the highest of them
    is_behind  was the group ever given an offset that was below one it had committed before?
    woke       when the group last broke a silence of EXPIRY
    passed     the offsets that one passed over which was committed, and is after all that the group
               had been given, if the group continued at it or after it
    moves      of a consumer that its program had moved: what followed all that its group had been
               given, the offset that was chosen (NULL is the end), and the one that it was given
    """
    window = (
        "OVER (PARTITION BY run, {}, topic, partition ORDER BY at_ns, kind = 'delivered', offset{})"
    )
    until = " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    before, its = window.format("consumer_group", until), window.format("actor", until)
    said = events.where(
        f"source = 'client' AND kind IN ({listing(POSITIONS)})"
        " AND (offset IS NOT NULL OR kind = 'sought')"
    ).selectExpr("*", f"{CHOSEN} AS is_chosen")
    said = said.join(survey.members_frame(events), ["run", "actor"])
    if "txn_offsets_sent" in survey.kinds:
        by_transactions = committed_positions(events).selectExpr(
            "run", "topic", "partition", "for_group", "actor", "'committed' AS kind",
            "position AS offset", "ended_at_ns AS at_ns", "false AS is_chosen",
        )  # fmt: skip
        theirs = survey.of_groups(by_transactions, events).drop("for_group")
        said = said.select(*theirs.columns).unionByName(theirs)
    came = f"last(if(kind <> 'committed', struct(is_chosen, offset), NULL), true) {its}"
    if "sought" not in survey.kinds:  # a second window over all that was delivered
        came = "CAST(NULL AS STRUCT<is_chosen: BOOLEAN, offset: BIGINT>)"
    rows = said.selectExpr(
        "run", "topic", "partition", "consumer_group", "kind", "offset", "at_ns",
        f"coalesce(max(if(kind = 'delivered', offset, NULL)) {before}, -1) + 1 AS first",
        f"last(if(kind = 'committed', offset, NULL), true) {before} AS position",
        f"kind = 'delivered' AND offset < max(if(kind = 'committed', offset, NULL)) {before}"
        " AS is_behind",
        f"{came} AS came",
        f"at_ns - lag(at_ns) {window.format('consumer_group', '')} >= {EXPIRY} AS is_woken",
        "lead(if(kind = 'sought', NULL, kind)) IGNORE NULLS"
        f" {window.format('consumer_group', '')} IS NULL AS is_last",
    )  # fmt: skip
    passed = rows.selectExpr(
        "*",
        "CASE WHEN kind = 'delivered' AND position <= offset THEN position"
        " WHEN kind = 'committed' AND is_last THEN offset END AS next",
        "kind = 'delivered' AND came.is_chosen AND offset > first AS is_moved",
    )
    widest = f"max_by({{}}, {{}} - first, {PASSED_MAX}) FILTER (WHERE {{}})"
    return sql(
        passed, ["run", "topic", "partition", "consumer_group"],
        "min(struct(at_ns, offset)) FILTER (WHERE kind = 'committed') AS committed",
        "max(if(kind = 'committed', offset, NULL)) AS highest",
        "coalesce(bool_or(is_behind), false) AS is_behind",
        "max(if(is_woken, at_ns, NULL)) AS woke",
        widest.format("struct(first, next)", "next", "next > first") + " AS passed",
        widest.format("struct(first, came.offset, offset AS given)", "offset", "is_moved")
        + " AS moves",
    ).where("committed IS NOT NULL OR moves IS NOT NULL")  # fmt: skip


def with_groups(rows: DataFrame, survey: Survey) -> DataFrame:
    """Events with the columns of MEMBERS_SCHEMA of the consumer who said them; NULL if none did."""
    if "delivered" not in survey.kinds:
        unknown = ("'' AS consumer_group", "CAST(NULL AS ARRAY<BIGINT>) AS starts")
        return rows.selectExpr("*", *unknown, "false AS reads_all")
    return rows.join(survey.members_frame(rows), ["run", "actor"], "left")


def _in_sequence(found: DataFrame, survey: Survey) -> DataFrame:
    """Orders with the place that is certain, and with what was sent before to that partition.

    An order that was sent more than once has no certain place: its reports cannot be told apart.
    One without any place has may_be_compacted: may compaction have taken it away?
    """
    gone = MAY_BE_COMPACTED if survey.has_compacted else "false"
    placed = found.selectExpr(
        "*",
        f"{gone} AS may_be_compacted",
        "first_send.actor AS sender",
        "first_send.transaction AS transaction",
        "if(sends = 1, coalesce(confirmed, if(copies = 1, get(places, 0), NULL)), NULL) AS place",
    )
    window = (
        "OVER (PARTITION BY run, topic, sender, first_send.producer_id, place.partition,"
        " place IS NULL ORDER BY sent_at_ns, place.offset)"
    )
    before = "struct(key, value, place.offset, acks)"
    return placed.selectExpr("*", f"lag({before}) {window} AS earlier")


def places(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a place in a log.

    Columns: PLACE and those of a topic's survey, and
    held         STRUCT<key, value>: what the log holds there; NULL if it was not found there
    is_readable  may a read_committed reader be given it, as the log still has it?
    acked        ARRAY<STRUCT<key, value, actor>>: each time that it was acked for this place
    given        ARRAY<STRUCT<key, value, actor, consumer_group, earlier, reads_all>>: to whom,
                 after which offset since the consumer was placed, and is it read_uncommitted?
    worked       ARRAY<STRUCT<key, value, actor>>: each time the work was done
    was_held     ARRAY<STRUCT<key, value, actor>>: what a reader found here, and not later
    told         ARRAY<STRUCT<key, value>>: the different orders acked, given or found here
    holds_nothing  was the log read to its end, after this place or after it was given to somebody,
                 and nothing found at it?
    gone         ARRAY<STRUCT<key, value>>: which of these compaction may have taken away
    outlived     the same: which of these are tombstones, and the log has what is older
    heard        ARRAY<STRUCT<key, value, since>>: these; when it was sent, or given here earlier
    before, before_all  STRUCT<held, offset>: the readable place before this one, and of all of
                 what the log holds
    worked_elsewhere, acked_places  of the order that is held here: how often the work for it was
                 done at other places, by anybody and for each group, and at how many it was acked
    """
    polled = _polls(with_groups(events.where(POLLS), survey))
    rows = events.where(OF_PLACES).selectExpr(
        *PLACE, "key", "value", "kind", "actor", "'' AS consumer_group",
        "CAST(NULL AS BIGINT) AS earlier", "false AS reads_all",
        f"if(kind = '{GONE}', at_ns, NULL) AS at_ns",
    ).unionByName(polled)  # fmt: skip
    said = "struct(key, value, actor)"
    found = sql(
        with_superseded(_with_first_sends(rows, events, survey), events, survey, or_aborted=True),
        PLACE,
        "min(if(kind IN ('record', 'visible'), struct(key, value), NULL)) AS held",
        "collect_set(if(superseded, struct(key, value), NULL)) AS gone",
        "collect_set(if(superseded AND outlived, struct(key, value), NULL)) AS outlived",
        "bool_or(kind = 'visible') AS is_visible",
        f"collect_list(if(kind = 'acked', {said}, NULL)) AS acked",
        f"array_sort(collect_list(if(kind = 'processed', {said}, NULL))) AS worked",
        f"collect_set(if(kind = '{GONE}', {said}, NULL)) AS was_held",
        "array_sort(collect_list(if(kind = 'delivered',"
        " struct(key, value, actor, consumer_group, earlier, reads_all), NULL))) AS given",
        "min(at_ns) AS given_at_ns",
        HEARD if survey.is_restored else NOT_HEARD,
    ).join(survey.topics_frame(events), ["run", "topic"], "left")
    order = "x -> struct(x.key, x.value)"
    readable = found.selectExpr(
        "*",
        f"(is_visible OR (held IS NOT NULL AND NOT is_transactional)) AND {KEPT} AS is_readable",
        f"array_sort(array_distinct(concat(transform(acked, {order}), transform(given, {order}),"
        f" transform(was_held, {order})))) AS told",
        "held IS NULL AND array_contains(drained, partition)"
        " AND (coalesce(offset < ends[partition], false)"
        " OR coalesce(given_at_ns < read_at_ns[partition], false))"
        " AND offset >= coalesce(starts[partition], 0) AS holds_nothing",
    )
    window = (
        "OVER (PARTITION BY run, topic, partition ORDER BY offset"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    before = f"last(if({{}}, struct(held, offset), NULL), true) {window} AS {{}}"
    told = readable.selectExpr("*", before.format("is_readable", "before"), *_other_places(survey))
    is_there = before.format(f"held IS NOT NULL AND {KEPT}", "before_all")
    return told.selectExpr("*", is_there if survey.some_read_all else "before AS before_all")


def _other_places(survey: Survey) -> tuple[str, str]:
    """As SQL, of the order that is held at a place: worked_elsewhere and acked_places."""
    if "processed" not in survey.kinds:
        return "array(0L) AS worked_elsewhere", "0L AS acked_places"
    same = "OVER (PARTITION BY run, topic, held)"
    groups = range(max((len(it.actors) for it in survey.topics.values()), default=0))
    counted = [f"size({it})" for it in ("worked", *(OWN_WORK.format(it) for it in groups))]
    elsewhere = ", ".join(f"sum({it}) {same} - {it}" for it in counted)
    return (
        f"array({elsewhere}) AS worked_elsewhere",
        f"count_if(exists(acked, x -> struct(x.key, x.value) <=> held)) {same} AS acked_places",
    )


def _with_first_sends(rows: DataFrame, events: DataFrame, survey: Survey) -> DataFrame:
    """Rows with since, where it decides whether what takes a log away was over by then."""
    if not survey.is_restored:
        return rows.selectExpr("*", "CAST(NULL AS BIGINT) AS since")
    sends = events.where("source = 'client' AND kind = 'sent'")
    sends = sends.select(*ORDER, "kind", "actor", "at_ns")
    both = rows.unionByName(sends, allowMissingColumns=True).selectExpr("*", *SENDS)
    return both.where("kind <> 'sent'").selectExpr(*rows.columns, SINCE)


def _polls(rows: DataFrame) -> DataFrame:
    """What each consumer was given, beside the offset before it, since it was placed anew."""
    given = rows.selectExpr("*", beside("run, actor, topic, partition")).where("kind = 'delivered'")
    columns = ("key", "value", "kind", "actor", "consumer_group", "earlier", "reads_all", "at_ns")
    return given.select(*PLACE, *columns)
