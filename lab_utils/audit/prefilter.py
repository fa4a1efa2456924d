"""The prefilter: of a large ledger, the events of the orders and places that may have a finding.

    events ──▶ one row of numbers an order, or a place ──▶ suspects ──▶ their events ──▶ facts

Most orders are sent, acked and stored once, and no finding is about them. Texts and lists cost ten
times what numbers do; so here an order, a place and a topic are hashes of 64 bits. What is left out
has no finding, and what is kept is looked at. Where a finding is about neighbours both are kept:
between two neighbours among what is kept, all that was left out is in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from lab_utils.audit.facts import (
    GONE,
    OF_ORDERS,
    OF_PLACES,
    POLLS,
    orders,
    places,
    sql,
    transactions,
)
from lab_utils.audit.finding import Facts, Prefilter
from lab_utils.audit.findings.producing import EXPECTED
from lab_utils.ledger.acts import beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lab_utils.audit.survey import Survey
    from lab_utils.ledger.topics import TopicFacts

# More suspects than this are not sent to every worker.
BROADCAST_MAX: Final = 1_000_000
# Each group of consumers of a run has a bit.
GROUPS_MAX: Final = 62

TOPIC: Final = "xxhash64(run, topic) AS of"
# Spark's hash skips what is null.
ORDER: Final = "xxhash64(run, topic, key IS NULL, key, value IS NULL, value) AS id"
# Partition and offset as one number, which sorts as they do; what does not fit is a suspect.
OFFSETS: Final = 2**44
PARTITIONS: Final = 2**18
TOPICS_SCHEMA: Final = (
    "run STRING, topic STRING, some_drained BOOLEAN, all_drained BOOLEAN, is_trimmed BOOLEAN,"
    " is_transactional BOOLEAN, tells_visible BOOLEAN, some_work BOOLEAN, all_work BOOLEAN,"
    " is_compacted BOOLEAN, some_read_all BOOLEAN, groups BIGINT"
)
PARTITIONS_SCHEMA: Final = (
    "run STRING, topic STRING, number BIGINT, is_drained BOOLEAN, end BIGINT, bookmark BIGINT,"
    " owners BIGINT, working BIGINT"
)
MEMBERS_SCHEMA: Final = "run STRING, actor STRING, bit BIGINT, starts ARRAY<BIGINT>"


@contextmanager
def prefiltering() -> Iterator[Prefilter]:
    """A prefilter, whose suspects stay in Spark's memory until the block ends."""
    kept = ExitStack()

    def keep(facts: Facts, events: DataFrame, survey: Survey) -> DataFrame:
        if facts not in PREFILTERS or max(map(len, _bits(survey).values()), default=0) > GROUPS_MAX:
            return events
        return _named(PREFILTERS[facts](events, survey, kept), kept)

    try:
        yield Prefilter(KNOWN, keep)
    finally:
        with suppress(Exception):  # Where Spark has ended, so has its memory.
            kept.close()


def _of_suspect_orders(events: DataFrame, survey: Survey, keep: ExitStack) -> DataFrame:
    kept = _kept(events.where(OF_ORDERS), ORDER, "id", _suspect_orders(events, survey), keep)
    if not survey.has_transactions:
        return kept
    return kept.unionByName(events.where("source = 'client' AND kind LIKE 'txn%'"))


def _of_suspect_places(events: DataFrame, survey: Survey, keep: ExitStack) -> DataFrame:
    rows = events.where(f"({OF_PLACES}) OR (source = 'client' AND kind = 'delivered')")
    place = _place("offset", of="xxhash64(run, topic)")
    kept = _kept(rows, place, "at", _suspect_places(events, survey), keep)
    kept = kept.unionByName(events.where(f"({POLLS}) AND kind <> 'delivered'"))
    if not survey.has_compacted:
        sends = "source = 'client' AND kind = 'sent'"
        return kept.unionByName(events.where(sends)) if survey.is_restored else kept
    # Compaction takes away what was aborted, and what a tombstone follows that nobody saw stored.
    fates = "source = 'client' AND (kind IN ('sent', 'failed', 'unknown') OR kind LIKE 'txn%')"
    return kept.unionByName(events.where(fates))


# A finding about orders or places that is not named here is looked for in all of them.
KNOWN: Final = frozenset({
    "lost-write", "duplicate", "phantom", "unavailable", "nonmonotonic-send", "unseen",
    "aborted-read", "precommitted-read",
    "duplicate-delivery", "skipped-processing", "nonmonotonic-poll", "poll-skip",
    "duplicate-effect", "inconsistent-offsets",
})  # fmt: skip
PREFILTERS: Final[dict[Facts, Callable[[DataFrame, Survey, ExitStack], DataFrame]]] = {
    orders: _of_suspect_orders,
    places: _of_suspect_places,
}


def _kept(
    events: DataFrame, hashed: str, key: str, suspects: DataFrame, keep: ExitStack
) -> DataFrame:
    """The events whose hash is one of the suspects', which are asked for twice."""
    from pyspark.sql import functions

    suspects = _named(suspects, keep).persist()
    if suspects.count() <= BROADCAST_MAX:
        suspects = functions.broadcast(suspects)
    return events.selectExpr("*", hashed).join(suspects, key, "left_semi").drop(key)


def _named(frame: DataFrame, keep: ExitStack) -> DataFrame:
    """The same as a view, until `keep` ends: however often it is asked for, it is analysed once.

    To analyse it takes longer than to count a small ledger's suspects. What of it is in memory goes
    with the view.
    """
    session, name = frame.sparkSession, f"prefiltered_{uuid4().hex}"
    frame.createTempView(name)
    keep.callback(session.catalog.dropTempView, name)
    return session.table(name)


# What took an order's place in a compacted topic may be in good order itself.
IN_COMPACTED: Final = "is_compacted"

# Orders.

STORED: Final = "kind IN ('record', 'visible')"
# What is known of an order when its events are counted, and none of its texts is looked at.
COUNTS: Final = (
    "any_value(of) AS of",
    "count_if(kind = 'sent') AS sends",
    "count_if(kind = 'acked') AS acks",
    "count_if(kind IN ('failed', 'unknown')) AS reports",
    f"count_if({STORED}) AS copies",
    "count_if(kind = 'visible') AS visible",
    "count_if(kind = 'delivered') AS deliveries",
    "bit_or(bit) AS given_to",
    "min(if(kind = 'delivered', at_ns, NULL)) AS given_at",
    "min(if(kind = 'delivered', place, NULL)) AS first_given",
    "max(if(kind = 'delivered', place, NULL)) AS last_given",
    "min(if(kind = 'sent', at_ns, NULL)) AS sent_at",
    "max(if(kind = 'sent', who, NULL)) AS sender",
    f"min(if({STORED}, place, NULL)) AS first_copy",
    f"max(if({STORED}, place, NULL)) AS last_copy",
    "min(if(kind = 'acked', place, NULL)) AS first_ack",
    "max(if(kind = 'acked', partition, NULL)) AS acked_in",
    f"bool_or(kind <> 'sent' AND (offset >= {OFFSETS}L OR partition >= {PARTITIONS})"
    f" OR {STORED} AND place IS NULL) AS is_odd",
)
OF_TRANSACTIONS: Final = (
    "count_if(outcome = 'txn_aborted') AS aborted",
    "count_if(outcome = 'txn_committed') AS committed",
    "count_if(transaction IS NOT NULL) AS in_transactions",
    "min(asked_at_ns) AS asked_at",
)
NO_TRANSACTIONS: Final = (
    "0L AS aborted", "0L AS committed", "0L AS in_transactions", "CAST(NULL AS BIGINT) AS asked_at",
)  # fmt: skip
COVERED: Final = f"acks = 1 AND first_copy = last_copy AND acked_in = first_copy div {OFFSETS}L"
# Why an order is looked at: the findings about it that are not ruled out by these numbers.
SUSPECT_ORDER: Final = (
    "is_odd",
    IN_COMPACTED,
    f"acks > 0 AND some_drained AND NOT coalesce({COVERED}, false)",
    "first_copy < last_copy",
    "acks = 0 AND reports > 0 AND (copies > 0 OR all_drained)",
    f"acks > 0 AND {EXPECTED} > 0 AND groups <> 0"
    f" AND ({EXPECTED} > 1 OR (given_to & groups) <> groups)",
    # Some of what was given may be of an earlier run.
    "acks > 0 AND is_trimmed AND NOT (first_given <=> first_ack AND last_given <=> first_ack)",
    "deliveries > 0 AND in_transactions = sends AND committed < sends",
    "aborted > 0 AND in_transactions = sends AND greatest(deliveries, visible) > sends - aborted",
    "deliveries > 0 AND sends > 0 AND in_transactions = sends AND aborted = 0"
    " AND (visible = 0 OR coalesce(given_at < asked_at, false))",
)
# Where an order that was sent once is, as in the facts; for a few the numbers do not tell.
CERTAIN: Final = (
    "CASE WHEN sends <> 1 OR is_odd THEN NULL WHEN first_copy = last_copy THEN first_copy"
    " WHEN first_ack IN (first_copy, last_copy) THEN first_ack END"
)
UNCERTAIN: Final = "sends = 1 AND (is_odd OR first_copy < last_copy AND first_ack IS NOT NULL)"


def _suspect_orders(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a suspect: id."""
    rows = _with_bits(events.where(OF_ORDERS), survey, events).selectExpr(
        TOPIC, ORDER, "run", "actor", "kind", "at_ns", "bit", "partition", "offset",
        "xxhash64(actor, producer_id IS NULL, producer_id) AS who",
        f"partition * {OFFSETS}L + offset AS place",
        "detail['transaction'] AS transaction" if survey.has_transactions else
        "CAST(NULL AS STRING) AS transaction",
    )  # fmt: skip
    if survey.has_transactions:
        rows = _with_ends(rows, events)
    counted = sql(rows, ["id"], *COUNTS, *(OF_TRANSACTIONS if survey.has_transactions else ()))
    if not survey.has_transactions:
        counted = counted.selectExpr("*", *NO_TRANSACTIONS)
    counted = counted.selectExpr("*", "copies AS kept", "visible AS kept_visible")  # at most
    found = counted.join(_topics(events, survey), "of", "left")
    suspect = " OR ".join(f"coalesce({why}, false)" for why in SUSPECT_ORDER)
    if "sent" not in survey.kinds or survey.kinds.isdisjoint(("record", "visible")):
        return found.where(suspect).select("id")
    placed = found.selectExpr("id", "of", "sender", "sent_at", f"{suspect} AS is_suspect",
                              f"{CERTAIN} AS place", f"{UNCERTAIN} AS is_uncertain")  # fmt: skip
    # One order without a certain place makes the neighbours of all that its producer sent unknown.
    unsure = placed.where("is_uncertain AND place IS NULL").selectExpr("of", "sender", "true AS x")
    window = (
        f"(PARTITION BY of, sender, coalesce(place div {OFFSETS}L, id) ORDER BY sent_at, place)"
    )
    return (
        placed.selectExpr("*", f"lag(place) OVER {window} AS earlier",
                          f"lead(place) OVER {window} AS later")
        .join(unsure.distinct(), ["of", "sender"], "left")
        .where("is_suspect OR x OR earlier > place OR later < place")
        .select("id")
    )  # fmt: skip


def _with_ends(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Sends with what their program was told of their transaction; the other events as they are."""
    ends = transactions(events).selectExpr(
        "xxhash64(run, actor, transaction) AS within", "outcome", "asked_at_ns"
    )
    sends = rows.where("kind = 'sent'").selectExpr(
        "*", "xxhash64(run, actor, transaction) AS within"
    )
    told = sends.join(ends, "within", "left").drop("within")
    others = rows.where("kind <> 'sent'").drop("transaction")
    return told.unionByName(others, allowMissingColumns=True)


# Places.


def _place(offset: str, of: str = "of", name: str = "at") -> str:
    """The hash of a place in a log, as SQL."""
    values = f"{of}, partition IS NULL, partition, {offset} IS NULL, {offset}"
    return f"xxhash64({values}) AS {name}"


OF_A_PLACE: Final = (
    "any_value(of) AS of",
    "any_value(partition) AS partition",
    "any_value(offset) AS offset",
    "min(id) AS first_id",
    "max(id) AS last_id",
    "bool_or(kind IN ('record', 'visible')) AS is_held",
    "bool_or(kind = 'visible') AS is_visible",
    f"bool_or(kind IN ('acked', 'delivered', '{GONE}')) AS is_told",
    f"bool_or(kind = '{GONE}') AS is_gone",
    "count_if(kind = 'delivered') AS deliveries",
    "bit_or(bit) AS given_to",
    "count_if(kind = 'processed') AS worked",
    "bool_or(offset <= earlier) AS is_back",
    "min(earlier) AS jumped_from",
)
READABLE: Final = "(is_visible OR (is_held AND NOT coalesce(is_transactional, false)))"
# What a read_uncommitted consumer may be given.
THERE: Final = f"({READABLE} OR (is_held AND some_read_all))"
JUMPED: Final = "coalesce(is_back, false) OR coalesce(before_all > jumped_from, false)"
SUSPECT_PLACE: Final = (
    IN_COMPACTED,
    "offset IS NULL OR partition IS NULL",
    "first_id <> last_id",
    "is_told AND NOT is_held AND is_drained AND (offset < end OR deliveries > 0 OR is_gone)",
    "deliveries > bit_count(given_to)",
    "worked > 1",
    f"{READABLE} AND bookmark > offset"
    " AND (some_work AND (worked = 0 OR worked < bit_count(given_to & working))"
    " OR (deliveries > 0 OR NOT all_work) AND (given_to & owners) <> owners)",
    JUMPED,
)


def _suspect_places(events: DataFrame, survey: Survey) -> DataFrame:
    """One row a suspect: at."""
    has_polls = "delivered" in survey.kinds
    columns = (TOPIC, ORDER, "kind", "partition", "offset")
    rows = events.where(OF_PLACES).selectExpr(
        *columns, "0L AS bit", "CAST(NULL AS BIGINT) AS earlier"
    )
    polls = _polls(events, survey, columns)
    if has_polls:
        rows = rows.unionByName(polls)
    found = (
        sql(rows.selectExpr("*", _place("offset")), ["at"], *OF_A_PLACE)
        .join(_topics(events, survey), "of", "left")
        .join(_partitions(events, survey).withColumnRenamed("number", "partition"),
              ["of", "partition"], "left")
    )  # fmt: skip
    window = (
        "OVER (PARTITION BY of, partition ORDER BY offset"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    before = f"CAST(last(if({{}}, offset, NULL), true) {window} AS BIGINT) AS {{}}"
    befores = (before.format(it if has_polls else "false", name)
               for it, name in ((READABLE, "before"), (THERE, "before_all")))  # fmt: skip
    suspect = " OR ".join(f"coalesce({why}, false)" for why in SUSPECT_PLACE)
    suspects = found.selectExpr("*", *befores).where(suspect)
    kept = suspects.select("at")
    if {"processed", "committed"} <= survey.kinds:
        # The work for an order may have been done at another place.
        passed_by = suspects.where("some_work AND bookmark > offset").select("first_id")
        copies = found.join(passed_by.distinct(), "first_id", "left_semi")
        kept = kept.unionByName(copies.select("at"))
    if not has_polls:
        return kept
    jumped = suspects.where(JUMPED)
    passed = jumped.selectExpr("*", "explode(array_distinct(array(before, before_all))) AS over")
    passed = passed.where("over IS NOT NULL").selectExpr(_place("over"))
    left = polls.where("earlier IS NOT NULL").selectExpr(
        _place("offset"), _place("earlier", name="left")
    ).join(jumped.select("at"), "at", "left_semi").selectExpr("left AS at")  # fmt: skip
    return kept.unionByName(passed).unionByName(left)


def _polls(events: DataFrame, survey: Survey, columns: tuple[str, ...]) -> DataFrame:
    """What each consumer was given, beside the offset before it, since it was placed anew."""
    rows = _with_bits(events.where(POLLS), survey, events).selectExpr(
        *columns, "bit", "xxhash64(actor) AS who", "at_ns", "starts"
    )
    given = rows.selectExpr("*", beside("of, who, partition")).where("kind = 'delivered'")
    return given.drop("who", "at_ns", "starts")


# What the survey knows, as small tables.


def _bits(survey: Survey) -> dict[str, dict[str, int]]:
    """The bit of each group of consumers, by run and name."""
    groups: dict[str, set[str]] = defaultdict(set)
    for (run, _), topic in survey.topics.items():
        groups[run] |= topic.actors.keys() | topic.bookmarks.keys()
    return {
        run: {name: 1 << at for at, name in enumerate(sorted(names))}
        for run, names in groups.items()
    }


def _with_bits(rows: DataFrame, survey: Survey, events: DataFrame) -> DataFrame:
    """Events with the bit of their consumer's group, and its starts; 0 and NULL for all others."""
    if "delivered" not in survey.kinds:
        return rows.selectExpr("*", "0L AS bit", "CAST(NULL AS ARRAY<BIGINT>) AS starts")
    bits = _bits(survey)
    members = {
        (run, actor)
        for run, source, actor, kind in survey.counts
        if actor is not None and (source, kind) == ("client", "delivered")
    }
    starts = survey.starts["consumer"]
    them = [(*it, bits[it[0]][survey.group(*it)], starts.get(it)) for it in sorted(members)]
    known = events.sparkSession.createDataFrame(them, MEMBERS_SCHEMA)
    joined = rows.join(known.withColumnRenamed("bit", "known"), ["run", "actor"], "left")
    is_given = "kind = 'delivered'"
    return joined.selectExpr("*", f"if({is_given}, coalesce(known, 0L), 0L) AS bit").drop("known")


def _topics(events: DataFrame, survey: Survey) -> DataFrame:
    bits = _bits(survey)
    rows = [
        (run, topic, any(end.drained for end in it.ends.values()), it.all_drained,
         any(end.start for end in it.ends.values()), it.is_transactional, it.tells_visible,
         "processed" in it.said_by, all(map(it.works, it.bookmarks)), it.is_compacted,
         any(survey.reads_all(run, actor) for its in it.actors.values() for actor in its),
         sum(bits[run][group] for group in it.actors))
        for (run, topic), it in survey.topics.items()
    ]  # fmt: skip
    frame = events.sparkSession.createDataFrame(rows, TOPICS_SCHEMA)
    return frame.selectExpr(TOPIC, "*").drop("run", "topic")


def _partitions(events: DataFrame, survey: Survey) -> DataFrame:
    bits = _bits(survey)
    rows = [
        (run, topic, number, *_of_partition(it, number, bits[run]))
        for (run, topic), it in survey.topics.items()
        for number in sorted(set(it.ends).union(*it.bookmarks.values()))
    ]
    frame = events.sparkSession.createDataFrame(rows, PARTITIONS_SCHEMA)
    return frame.selectExpr(TOPIC, "*").drop("run", "topic")


def _of_partition(
    it: TopicFacts, number: int, bits: dict[str, int]
) -> tuple[bool, int | None, int | None, int, int]:
    end = it.ends.get(number)
    held = {group: at[number] for group, at in it.bookmarks.items() if number in at}
    owners = sum(bits[group] for group in held if group in it.actors)
    is_drained, offset = (end.drained, end.offset) if end else (False, None)
    workers = it.said_by.get("processed", set())
    # The work of who is in no group counts for each.
    working = sum(bits[group] for group, actors in it.actors.items() if workers & actors)
    return is_drained, offset, max(held.values(), default=None), owners, working
