"""The findings about transactions: what a reader was given, and what the programs were told.

    sent in transaction n ─┬─ n was committed or aborted, as the program was told
                           ╰─ the record can be read, or cannot, at either isolation level

A transaction is named by its producer and its number. An order that was sent more than once is
left out where its copies could not be told apart. A call that failed decides nothing: its
transaction may have been committed or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.selections import (
    COPY,
    ORDER,
    PARTITION,
    TOPIC,
    as_finding,
    client,
    finding,
    grouped,
    ordered,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRANSACTION: Final = ["run", "actor", "transaction"]
PAIR: Final = ("one", "other")
# The lab's own reader, which asks for read_committed and reads when the run is over.
READER: Final = "reader"
# What says of a run that transactions wrote in it: the batches and ends of all others are in order.
TRANSACTIONAL: Final = "txn_initialised marker"


@finding(
    "aborted-read", "txn_aborted, delivered visible", role="consumer",
    promise="A read_committed reader is given nothing that was aborted.",
)  # fmt: skip
def aborted_reads(events: DataFrame) -> DataFrame:
    """Orders that a reader was given although every transaction they were sent in was aborted."""
    aborted = _sent_only_in(events, "txn_aborted")
    given = grouped(_read(events).join(aborted, ORDER), [*COPY, "offset", "actor"])
    said = "'was aborted, as its producer was told; ' || actor || ' was given it at offset '"
    return as_finding(_at(given), "aborted-read", f"{said} || offset")


@finding(
    "precommitted-read", "txn_committed, delivered", role="consumer",
    promise="A read_committed reader is given nothing before its commit.",
)  # fmt: skip
def precommitted_reads(events: DataFrame) -> DataFrame:
    """Orders that a consumer was given before their program asked for the commit."""
    committed = _sent_only_in(events, "txn_committed")
    early = grouped(
        client(events, "delivered").join(committed, ORDER).where("at_ns < asked_at_ns"),
        [*COPY, "offset", "actor"],
    )
    said = "'was given to ' || actor || ' at offset ' || offset || ' before its commit was asked'"
    return as_finding(_at(early), "precommitted-read", said)


@finding(
    "torn-transaction", "sent, visible",
    promise="A read_committed reader is given all of a transaction, or nothing.",
)  # fmt: skip
def torn_transactions(events: DataFrame) -> DataFrame:
    """Transactions of which a read_committed reader can see a part, when nothing is open."""
    members = _members(events).join(_unstable(events), TOPIC, "left_anti")
    torn = grouped(
        members, TRANSACTION,
        "array_sort(collect_set(if(is_visible, value, NULL))) AS seen",
        "array_sort(collect_set(if(is_visible, NULL, value))) AS unseen",
        "coalesce(substring(max(outcome), 5), 'nothing') AS told",
    ).where("size(seen) > 0 AND size(unseen) > 0")  # fmt: skip
    said = (
        "'transaction ' || transaction || ' of ' || actor || ' is torn: a read_committed reader "
        "is given ' || array_join(seen, ', ') || ' of it and not ' || array_join(unseen, ', ') || "
        "'; its program was told ' || told"
    )
    return as_finding(torn, "torn-transaction", said)


@finding(
    "write-cycle", "sent, visible",
    promise="The writes of two transactions do not interleave.",
)  # fmt: skip
def write_cycles(events: DataFrame) -> DataFrame:
    """Pairs of transactions of which each wrote something before the other did."""
    places = grouped(
        _members(events).where("is_visible"), [*PARTITION, "actor", "transaction"],
        "min(offset) AS first", "max(offset) AS last",
    )  # fmt: skip
    listed = grouped(
        places, PARTITION, ordered("struct(actor, transaction, first, last)", "all_of_them")
    )
    pairs = listed.selectExpr("run", "all_of_them", "explode(all_of_them) AS one").selectExpr(
        "run", "one", "explode(filter(all_of_them, it -> it > one)) AS other"
    )
    names = [
        f"{side}.{name} AS {side}_{name}" for side in PAIR for name in ("actor", "transaction")
    ]
    cycles = grouped(
        pairs.selectExpr(
            "run", *names, "one.first < other.last AS goes", "other.first < one.last AS comes"
        ),
        ["run", *(name.partition(" AS ")[2] for name in names)],
        "bool_or(goes) AS goes", "bool_or(comes) AS comes",
    ).where("goes AND comes")  # fmt: skip
    actors = "array_join(array_distinct(array(one_actor, other_actor)), ', ') AS actor"
    said = (
        "'transaction ' || one_transaction || ' of ' || one_actor || ' and ' || other_transaction "
        "|| ' of ' || other_actor || ' each wrote something before the other'"
    )
    return as_finding(cycles.selectExpr("*", actors), "write-cycle", said)


@finding(
    "zombie-effect", f"{TRANSACTIONAL}, batch marker",
    promise="The log takes nothing of an old epoch behind a newer one.",
)  # fmt: skip
def zombie_effects(events: DataFrame) -> DataFrame:
    """Batches and markers that a log took of an old epoch, behind a newer one of the same id."""
    ids = [*PARTITION, "producer_id"]
    written = events.where("source = 'log' AND kind IN ('batch', 'marker') AND producer_id >= 0")
    written = written.select(*ids, "producer_epoch", "offset", "kind").distinct()
    before = "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    window = f"OVER (PARTITION BY {', '.join(ids)} ORDER BY offset {before})"
    newest = written.selectExpr("*", f"max(producer_epoch) {window} AS newer")
    said = (
        "'the log took a ' || kind || ' of epoch ' || producer_epoch || ' of producer id ' || "
        "producer_id || ' at offset ' || offset || ', behind one of epoch ' || newer"
    )
    return as_finding(_at(newest.where("producer_epoch < newer")), "zombie-effect", said)


@finding(
    "hanging-transaction", "transaction, end",
    promise="A transaction that is over has a marker in each of its partitions.",
)  # fmt: skip
def hanging_transactions(events: DataFrame) -> DataFrame:
    """Partitions that wait for a transaction of which its coordinator has made an end (KIP-664)."""
    said = (
        "'the coordinator has noted ' || state || ' for producer id ' || producer_id || ', whose "
        "transaction has no marker in partition ' || partition || '; read_committed readers stop "
        "at offset ' || last_stable || ' of ' || offset"
    )
    hanging = _hanging(events).selectExpr("*", "array(last_stable, offset) AS offsets")
    return as_finding(hanging, "hanging-transaction", said)


@finding(
    "stuck-lso", f"{TRANSACTIONAL}, end",
    promise="Without a transaction nothing holds readers back.",
)  # fmt: skip
def stuck_lso(events: DataFrame) -> DataFrame:
    """Partitions where a read_committed reader stops, for a transaction that will still end."""
    stuck = _stuck(events).join(_hanging(events), PARTITION, "left_anti")
    said = (
        "'read_committed readers of partition ' || partition || ' stop at offset ' || last_stable"
        " || '; the log goes on to ' || offset"
    )
    return as_finding(
        stuck.selectExpr("*", "array(last_stable, offset) AS offsets"), "stuck-lso", said
    )


def _sends(events: DataFrame) -> DataFrame:
    """What was sent, in which transaction, and the end of that if the program was told one.

    Outside of a transaction its number is empty. `asked_at_ns` is when the end was asked for.
    """
    rows = events.where("source = 'client' AND kind IN ('sent', 'txn_committed', 'txn_aborted')")
    of_its_own = f"OVER (PARTITION BY {', '.join(TRANSACTION)})"
    numbered = rows.selectExpr("*", "coalesce(detail['transaction'], '') AS transaction")
    asked_at_ns = "CAST(detail['called_at_ns'] AS BIGINT)"
    return numbered.selectExpr(
        *ORDER, "actor", "transaction", "kind",
        f"max(if(kind = 'sent', NULL, kind)) {of_its_own} AS outcome",
        f"min({asked_at_ns}) {of_its_own} AS asked_at_ns",
    ).where("kind = 'sent' AND value IS NOT NULL")  # fmt: skip


def _sent_only_in(events: DataFrame, outcome: str) -> DataFrame:
    """Orders of which every send was in a transaction with this end, and the first such end."""
    return grouped(
        _sends(events), ORDER,
        f"bool_and(outcome <=> '{outcome}') AS all_of_them", "min(asked_at_ns) AS asked_at_ns",
    ).where("all_of_them")  # fmt: skip


def _read(events: DataFrame) -> DataFrame:
    """What consumers were given during the run, and the lab's own reader after it."""
    visible = events.where("source = 'log' AND kind = 'visible'")
    given = client(events, "delivered").unionByName(visible).where("value IS NOT NULL")
    return given.select(*COPY, "offset", "actor")


def _members(events: DataFrame) -> DataFrame:
    """The stored orders of each transaction that were sent once, and whether one may read them."""
    once = grouped(
        _sends(events), ORDER, "count(*) AS sends",
        *(f"min({name}) AS {name}" for name in ("actor", "transaction", "outcome")),
    ).where("sends = 1 AND transaction <> ''")  # fmt: skip
    read = events.where("source = 'log' AND kind IN ('record', 'visible') AND value IS NOT NULL")
    places = grouped(
        read, [*COPY, "offset"],
        "bool_or(kind = 'record') AS is_stored", "bool_or(kind = 'visible') AS is_visible",
    ).where("is_stored")  # fmt: skip
    return once.join(places, ORDER)


def _ends(events: DataFrame) -> DataFrame:
    """How far each reader of a transactional topic came, partition by partition."""
    ends = events.where("source = 'log' AND kind = 'end' AND detail['last_stable'] IS NOT NULL")
    return ends.selectExpr(
        *PARTITION, "offset", "CAST(detail['last_stable'] AS BIGINT) AS last_stable",
        "detail['drained'] = 'true' AS drained",
    )  # fmt: skip


def _stuck(events: DataFrame) -> DataFrame:
    """Where a read_committed reader stops before the end of the log."""
    return _ends(events).where("last_stable < offset").drop("drained").distinct()


def _hanging(events: DataFrame) -> DataFrame:
    """Where it stops at a transaction that is over to its coordinator, and what that has noted."""
    noted = grouped(
        events.where("source = 'log' AND kind = 'transaction'"), ["run", "producer_id"],
        "max_by(detail['state'], offset) AS state",
    ).where("state LIKE 'Complete%'")  # fmt: skip
    # The last stable offset is the first of the oldest open transaction: where a batch begins.
    batches = events.where("source = 'log' AND kind = 'batch'").selectExpr(
        *PARTITION, "offset AS last_stable", "producer_id"
    )
    waiting = _stuck(events).join(batches.distinct(), [*PARTITION, "last_stable"])
    return waiting.join(noted, ["run", "producer_id"])


def _unstable(events: DataFrame) -> DataFrame:
    """Topics of which a part cannot be read yet: an open transaction is in the way."""
    return grouped(_ends(events).where("last_stable < offset OR NOT drained"), TOPIC)


def _at(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", "array(offset) AS offsets")
