"""Findings about replicas: what one leader acknowledged, and what the next one had.

They are asked of every run; a run on one broker has nothing to answer. The rules and sources are
in docs/findings.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab_utils.audit.selections import (
    COPY,
    PARTITION,
    as_finding,
    client,
    finding,
    grouped,
    listed,
    stored,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Is in every run on several brokers: what the controller decided about several replicas.
REPLICATED: Final = "partition"
# Kafka's default is 1; Spark's least() would leave out what is not there.
FLOOR: Final = "coalesce(int(detail['min.insync.replicas']), 1)"
SEVERAL: Final = "detail['replicas'] LIKE '% %'"


@finding(
    "inconsistent-offsets", f"{REPLICATED}, acked, record",
    promise="With acks=all an offset belongs to the order it was acked for.",
)  # fmt: skip
def inconsistent_offsets(events: DataFrame) -> DataFrame:
    """Orders that were acked at an offset where the log now holds another order."""
    place = [*PARTITION, "offset"]
    there = grouped(stored(events), place, "min(value) AS now")
    acked = grouped(client(events, "acked"), [*COPY, "offset"], listed("actor"))
    other = acked.join(there, place).where("value <> now")
    said = "'was acked at offset ' || offset || ', where the log now holds order ' || now"
    return as_finding(
        other.selectExpr("*", "array(offset) AS offsets"), "inconsistent-offsets", said
    )


@finding(
    "invisible-ack", f"{REPLICATED}, acked, watermark",
    promise="With acks=all an acked order can be read.",
)  # fmt: skip
def invisible_acks(events: DataFrame) -> DataFrame:
    """Orders that were acked below the floor: when the workload ended, no reader could see them."""
    ended = grouped(events.where("kind IN ('finished', 'raised')"), ["run"], "max(at_ns) AS ended")
    seen = events.where("source = 'broker'").join(ended, "run").where("at_ns <= ended")
    floors = grouped(
        events.where("source = 'workload' AND kind = 'topic'"),
        ["run", "topic"],
        f"max(least({FLOOR}, int(detail['replicas']))) AS floor",
    )
    below = grouped(
        seen, PARTITION,
        "max_by(size(split(detail['isr'], ' ')), at_ns) FILTER (WHERE kind = 'partition') AS isr",
        "max_by(offset, at_ns) FILTER (WHERE kind = 'watermark') AS readable",
    ).join(floors, ["run", "topic"]).where("isr < floor")  # fmt: skip
    acked = grouped(client(events, "acked"), [*COPY, "offset"], listed("actor"))
    hidden = acked.join(below, PARTITION).where("offset >= readable")
    said = (
        "'was acked at offset ' || offset || '; readers could read to offset ' || readable"
        " || ', for ' || isr || ' was in sync and the floor is ' || floor"
    )
    return as_finding(hidden.selectExpr("*", "array(offset) AS offsets"), "invisible-ack", said)
