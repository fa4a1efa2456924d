"""Ledgers of any size, made by Spark, each with anomalies sown in whose number is known.

    producing      sent, acked, stored           lost, duplicated, refused, phantom, out of sequence
    consuming      two groups with rebalances    skipped, repeated, redelivered, passed over
    transactional  one order a transaction       aborted and read, torn, interleaved, read too early
    replicated     leaders that change           offsets given twice, acks below the floor

A record has a number k in its partition, and k modulo CYCLE says what happens to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Final

from lab_utils.audit.ledgers import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = 4
CYCLE: Final = 1000
# A time after that of any event.
OVER: Final = 10**15

Sown = dict[str, int]
Ledger = Callable[["SparkSession", int], tuple["DataFrame", Sown]]


def producing(spark: SparkSession, events: int) -> tuple[DataFrame, Sown]:
    """About three events an order: sent, acked, stored."""
    cycles = max(1, events // (3 * PARTITIONS * CYCLE))
    orders = _records(spark, cycles)
    # Two neighbours change places: the second is stored before the first.
    at = "k + CASE k % 1000 WHEN 304 THEN 1 WHEN 305 THEN -1 ELSE 0 END"
    reported = "CASE k % 1000 WHEN 101 THEN 'failed' WHEN 202 THEN 'unknown' ELSE 'acked' END"
    error = "CASE k % 1000 WHEN 101 THEN 'NOT_ENOUGH_REPLICAS' WHEN 202 THEN '_MSG_TIMED_OUT' END"
    acked = "k % 1000 NOT IN (101, 202)"
    parts = [
        _client(spark, "producer-1", "producer", {"acks": "all", "enable.idempotence": "true"}),
        _events(orders, "client", "sent", actor="'producer-1'", at_ns="10 * id"),
        _events(orders, "client", reported, actor="'producer-1'", at_ns="10 * id + 1",
                partition=f"if({acked}, partition, NULL)", offset=f"if({acked}, {at}, NULL)",
                error=error),
        _events(orders.where("k % 1000 NOT IN (7, 101)"), "log", "record", offset=at),
        _events(orders.where("k % 1000 = 503"), "log", "record", offset=f"{cycles * CYCLE} + k"),
        _ends(spark, 2 * cycles * CYCLE),
    ]  # fmt: skip
    each = cycles * PARTITIONS
    sown = {"lost-write": each, "inconsistent-offsets": each, "duplicate": each,
            "unavailable": each, "phantom": each, "nonmonotonic-send": each}  # fmt: skip
    return _together(parts), sown


def consuming(spark: SparkSession, events: int) -> tuple[DataFrame, Sown]:
    """About five events a record: stored, and by each of two groups delivered; one works on it.

    A partition goes to the next of three members each CYCLE records. What it was given last, the
    next member is given again.
    """
    cycles = max(1, events // (4 * PARTITIONS * CYCLE))
    records = _records(spark, cycles)
    parts = [_events(records, "log", "record"), _ends(spark, cycles * CYCLE)]
    for group in "ab":
        member = f"concat('{group}-', (k div {CYCLE}) % 3)"
        parts += [
            _client(spark, f"{group}-{number}", "consumer",
                    {"group.id": group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": "false"})
            for number in range(3)
        ]  # fmt: skip
        parts += [
            _events(records.where(f"k % {CYCLE} = 0"), "client", "assigned", actor=member,
                    at_ns="10 * id", value="NULL", offset="NULL"),
            _events(records.where("k % 1000 <> 33"), "client", "delivered", actor=member,
                    at_ns="10 * id + 2"),
            _events(records.where("k % 1000 = 44"), "client", "delivered", actor=member,
                    at_ns="10 * id + 3"),
        ]  # fmt: skip
    # What the one member was given last is given to the next one first.
    again = records.where(f"k % {CYCLE} = {CYCLE - 1} AND k < {(cycles - 1) * CYCLE}")
    parts.append(
        _events(again, "client", "delivered", actor=f"concat('a-', (k div {CYCLE} + 1) % 3)",
                at_ns=f"10 * (id + {PARTITIONS}) + 1")
    )  # fmt: skip
    done = records.where("k % 1000 NOT IN (11, 33)")
    parts += [
        _events(done, "client", "processed", actor="'workload'", at_ns="10 * id + 5"),
        _events(records.where("k % 1000 = 22"), "client", "processed", actor="'workload'",
                at_ns="10 * id + 6"),
        _events(records.where("k % 1000 = 22"), "client", "processed", actor="'workload'",
                at_ns="10 * id + 7"),
        _events(_numbers(spark, PARTITIONS), "log", "committed", actor="'a'", value="NULL",
                partition="id", offset=f"{cycles * CYCLE}", at_ns="0", detail="map('when', 'end')"),
    ]  # fmt: skip
    each = cycles * PARTITIONS
    sown = {
        "duplicate-delivery": 2 * each + (cycles - 1) * PARTITIONS,
        "nonmonotonic-poll": 2 * each,
        "poll-skip": 2 * each,
        "skipped-processing": 2 * each,
        "duplicate-effect": each,
    }
    return _together(parts), sown


def transactional(spark: SparkSession, events: int) -> tuple[DataFrame, Sown]:
    """About six events a transaction of one order, by eight producers; few have two orders.

    A pair of neighbours is of two producers. Of 500 and 501 the first writes before and behind the
    second; 700 has two orders, of which one cannot be read.
    """
    cycles = max(1, events // (6 * PARTITIONS * CYCLE))
    records = _records(spark, cycles)
    producer = "concat('producer-', 2 * partition + k % 2)"
    transaction = "CAST(k AS STRING)"
    numbered = f"map('transaction', {transaction})"
    told = f"map('transaction', {transaction}, 'called_at_ns', CAST(10 * id + 4 AS STRING))"
    ending = "if(k % 1000 IN (100, 101), 'txn_aborted', 'txn_committed')"
    visible = records.where("k % 1000 NOT IN (101, 700)")
    second = records.where("k % 1000 IN (500, 700)")
    value = "concat(k, '-', partition, ' again')"
    parts = [
        _client(spark, f"producer-{number}", "producer",
                {"transactional.id": f"t-{number}", "acks": "all"})
        for number in range(2 * PARTITIONS)
    ]  # fmt: skip
    parts += [
        _client(spark, "consumer-1", "consumer", {"isolation.level": "read_committed"}),
        _events(records, "client", "txn_began", actor=producer, at_ns="10 * id", value="NULL",
                partition="NULL", topic="NULL", offset="NULL", detail=numbered),
        _events(records, "client", "sent", actor=producer, at_ns="10 * id + 1", offset="NULL",
                detail=numbered),
        _events(second, "client", "sent", actor=producer, at_ns="10 * id + 2", value=value,
                offset="NULL", detail=numbered),
        _events(records, "client", ending, actor=producer, at_ns="10 * id + 5", value="NULL",
                partition="NULL", topic="NULL", offset="NULL", detail=told),
        _events(records, "log", "record", offset="4 * k"),
        _events(visible, "log", "visible", offset="4 * k"),
        # 500 writes again behind 501, and 700 a second time, which can be read.
        _events(second, "log", "record", value=value, offset="4 * k + 6"),
        _events(second, "log", "visible", value=value, offset="4 * k + 6"),
        _events(records, "log", "marker", value="NULL", offset="4 * k + 7"),
        _events(records.where("k % 1000 = 900"), "client", "delivered", actor="'consumer-1'",
                at_ns="10 * id + 3", offset="4 * k"),
        _ends(spark, 4 * cycles * CYCLE + 8, stable=True),
    ]  # fmt: skip
    each = cycles * PARTITIONS
    sown = {"aborted-read": each, "torn-transaction": each, "G0": each, "precommitted-read": each}
    # The consumer was given one record a cycle, and passed over the others.
    sown |= {"poll-skip": each - PARTITIONS} if cycles > 1 else {}
    return _together(parts), sown


def replicated(spark: SparkSession, events: int) -> tuple[DataFrame, Sown]:
    """About three events an order on three replicas whose leader changes each CYCLE records.

    The new leader lacks one record, and gives its offset to another order. In the end the replicas
    of partition 0 are out of sync, and its last CYCLE acks cannot be read.
    """
    cycles = max(1, events // (3 * PARTITIONS * CYCLE))
    orders = _records(spark, cycles)
    end, last = 10 * cycles * CYCLE * PARTITIONS, cycles * CYCLE
    leader = f"1 + (k div {CYCLE}) % 3"
    isr = f"if(partition = 0 AND k >= {last - CYCLE}, CAST({leader} AS STRING), '1 2 3')"
    parts = [
        _client(spark, "producer-1", "producer", {"acks": "1"}),
        _events(_numbers(spark, 1), "workload", "topic", actor="'lab'", at_ns="0", value="NULL",
                partition="NULL", offset="NULL",
                detail="map('replicas', '3', 'min.insync.replicas', '2')"),
        _events(orders, "client", "sent", actor="'producer-1'", at_ns="10 * id"),
        _events(orders, "client", "acked", actor="'producer-1'", at_ns="10 * id + 1"),
        _events(orders.where("k % 1000 <> 600"), "log", "record"),
        _events(orders.where("k % 1000 = 600"), "log", "record", value="concat('other ', id)"),
        _events(orders.where(f"k % {CYCLE} = 0"), "broker", "partition", actor="'controller'",
                at_ns="10 * id", value="NULL", offset="NULL",
                detail=f"map('leader', string({leader}), 'isr', {isr}, 'replicas', '1 2 3')"),
        _events(orders.where(f"k % {CYCLE} = 0"), "broker", "watermark",
                actor=f"concat('broker-', {leader})", at_ns="10 * id", value="NULL"),
        _events(_numbers(spark, 1), "workload", "finished", actor="'workload'", at_ns=str(end),
                topic="NULL", partition="NULL", value="NULL", offset="NULL"),
        _ends(spark, last),
    ]  # fmt: skip
    each = cycles * PARTITIONS
    sown = {"lost-write": each, "inconsistent-offsets": each, "invisible-ack": CYCLE}
    return _together(parts), sown


LEDGERS: Final[dict[str, Ledger]] = {
    it.__name__: it for it in (producing, consuming, transactional, replicated)
}


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("id", "id AS partition", "0L AS k")


def _records(spark: SparkSession, cycles: int) -> DataFrame:
    """The numbers of all records: id, its partition, and its number k in there."""
    return spark.range(cycles * CYCLE * PARTITIONS).selectExpr(
        "id", f"id % {PARTITIONS} AS partition", f"id div {PARTITIONS} AS k"
    )


def _events(rows: DataFrame, source: str, kind: str, **columns: str) -> DataFrame:
    """Events of these rows; `columns` are SQL, and what is not said is as it mostly is."""
    given = {
        "run": "'00-a'", "source": f"'{source}'", "actor": "'reader'", "topic": "'orders'",
        "kind": kind if "(" in kind or " " in kind else f"'{kind}'", "partition": "partition",
        "offset": "k", "value": "concat(k, '-', partition)", "at_ns": "10 * id + 9",
        "detail": "map()",
    } | columns  # fmt: skip
    return rows.selectExpr(
        *(f"CAST({given.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    )


def _client(spark: SparkSession, name: str, role: str, settings: dict[str, str]) -> DataFrame:
    pairs = ", ".join(f"'{key}', '{value}'" for key, value in ({"role": role} | settings).items())
    return _events(_numbers(spark, 1), "client", "created", actor=f"'{name}'", topic="NULL",
                   partition="NULL", offset="NULL", value="NULL", at_ns="0",
                   detail=f"map({pairs})")  # fmt: skip


def _ends(spark: SparkSession, offset: int, *, stable: bool = False) -> DataFrame:
    committed = f", 'committed_drained', 'true', 'last_stable', '{offset}'"
    detail = "'drained', 'true'" + (committed if stable else "")
    # The log is read when all is over.
    return _events(_numbers(spark, PARTITIONS), "log", "end", partition="id", value="NULL",
                   offset=str(offset), at_ns=f"{OVER}L", detail=f"map({detail})")  # fmt: skip


def _together(parts: list[DataFrame]) -> DataFrame:
    return reduce(lambda some, more: some.unionByName(more), parts)
