"""The event: one line of the ledger, and the schema that Python and Spark share.

A ledger is one folder of JSONL files for each run. Every witness writes a file of its own: the
learner's client, the proxy (wire and fault events), the stage (broker events), and the reader
that reads the log back when the run is over. This module knows no other room.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

# What each witness can say. `request` and `response` carry a fate: what the proxy did with them.
# In the log, `visible` is a record that a read_committed reader was given, and `transaction` one
# entry of the transaction coordinator's own log; `seen` is what a reader was given meanwhile, and
# `committed` an offset that the broker holds for a group. An `effect` is what the work left.
# `healing` marks the end of the run; then the lab repairs the cluster.
KINDS: Final = {
    "workload": ("order", "topic", "started", "finished", "raised", "crashed"),
    "client": (
        "created", "sent", "acked", "failed", "unknown", "delivered", "processed", "committed",
        "stored", "sought", "assigned", "revoked", "lost", "error", "note",
        "txn_initialised", "txn_began", "txn_offsets_sent", "txn_committed", "txn_aborted",
        "txn_failed", "db_committed",
    ),
    "wire": ("connected", "closed", "request", "response", "opaque"),
    "fault": ("armed", "fired", "unfired"),
    "broker": (
        "starting", "started", "stopped", "killed", "paused", "resumed", "died", "power_cut",
        "link_cut", "link_held", "link_slow", "link_open",
        "partition", "fenced", "unfenced", "log_end", "watermark", "healing",
    ),
    "log": ("record", "batch", "marker", "end", "visible", "transaction", "committed", "seen"),
    "sink": ("effect",),
}  # fmt: skip

# Without these an event of such a kind is about no order and no place: it would be judged by
# nobody, or wrongly. A client may know no offset of what was acked, and a group have no position.
_ORDERS: Final = ("sent", "acked", "failed", "unknown")
_POSITIONS: Final = ("stored", "committed")
_GIVEN: Final = ("assigned", "revoked", "lost", "sought")
_READ: Final = ("delivered", "processed")
NEEDED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "topic": {
        "client": (*_ORDERS, *_READ, *_POSITIONS, *_GIVEN),
        "log": ("record", "visible", "end", "committed"),
        "workload": ("topic",),
    },
    "partition": {
        "client": ("acked", *_READ, *_POSITIONS, *_GIVEN),
        "log": ("record", "visible", "end", "committed"),
    },
    "offset": {"client": _READ, "log": ("record", "visible", "transaction")},
}
# Kafka counts in 32 bits but for offsets and producer ids; what is computed with has to stay in 64.
LIMITS: Final = {
    "offset": 2**62, "at_ns": 2**62,
    **dict.fromkeys(("partition", "records", "sequence", "attempt", "producer_epoch"), 2**31),
}  # fmt: skip
# The offset of a partition, as a transaction has sent it.
POSITION: Final = "^(.*)-([0-9]+):(-?[0-9]+)$"
# What a text in the detail must be, as SQL, and what it is if it is not. What is misspelt would be
# taken for missing, and the verdict would be false.
_NUMBER: Final = ("try_cast({} AS BIGINT) IS NOT NULL", "no whole number")
_TRUTH: Final = ("{} IN ('true', 'false')", "neither true nor false")
_ROLE: Final = ("{} IN ('producer', 'consumer', 'program')", "neither producer nor consumer")
_TO: Final = ("{} IN ('beginning', 'bookmark', 'end')", "none of beginning, bookmark, end")
_OFFSETS: Final = (
    f"forall(from_json({{}}, 'ARRAY<STRING>'), it -> it RLIKE '{POSITION}')",
    "no list of topic-partition:offset",
)
_CALLED: Final = {"called_at_ns": _NUMBER}
# By the kinds of events that have them.
IN_DETAIL: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    **dict.fromkeys((it for it in KINDS["client"] if it.startswith("txn")), _CALLED),
    "txn_offsets_sent": {**_CALLED, "offsets": _OFFSETS},
    "end": {"start": _NUMBER, "last_stable": _NUMBER, "drained": _TRUTH,
            "committed_drained": _TRUTH},
    "created": {"role": _ROLE},
    "sought": {"to": _TO},
}  # fmt: skip

# The version of the format that docs/ledger.md describes; a ledger that names none has version 1.
SCHEMA: Final = 1

FATES: Final = (
    "forwarded", "dropped", "undelivered", "corrupted", "replaced", "held", "replayed",
)  # fmt: skip
NOT_DELIVERED: Final = ("dropped", "undelivered")  # of an answer: the client never had it


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that one witness saw; COLUMNS says what each of its fields is."""

    run: str
    source: str
    actor: str
    kind: str
    at_ns: int = field(default_factory=time.monotonic_ns)
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: str | None = None
    value: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    records: int | None = None
    api: str | None = None
    correlation_id: int | None = None
    error: str | None = None
    attempt: int | None = None
    fate: str | None = None
    detail: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.kind in KINDS.get(self.source, ()), (self.source, self.kind)
        assert self.fate is None or self.fate in FATES, self.fate


# What producers and consumers ask a broker for, run.add_partition, and what only looks. Anything
# else changes topics, groups or the cluster itself.
CLIENTS_NEED: Final = frozenset(
    """
    ApiVersions Metadata Produce Fetch ListOffsets OffsetForLeaderEpoch FindCoordinator JoinGroup
    SyncGroup Heartbeat LeaveGroup OffsetCommit OffsetFetch ConsumerGroupHeartbeat InitProducerId
    AddPartitionsToTxn AddOffsetsToTxn TxnOffsetCommit EndTxn CreatePartitions
    ConsumerGroupDescribe DescribeCluster DescribeConfigs DescribeGroups DescribeProducers
    DescribeTopicPartitions DescribeTransactions GetTelemetrySubscriptions ListGroups
    ListTransactions PushTelemetry
    """.split()  # noqa: SIM905 - a table reads better than a list of strings
)
# How much of a run is looked at in an examination, which reads it into the memory of the grader.
EXAMINED_RECORDS: Final = 100_000
EXAMINED_BYTES: Final = 20_000_000
EXAMINED_GROUPS: Final = 20
EXAMINED_PARTITIONS: Final = 50  # of a topic
EXAMINED_NUMBERS: Final = 200  # requests, or parts of one, of a connection with one correlation id

# What each field is: the ledger's card, the hover of a table, and docs/ledger.md say it so.
COLUMNS: Final = {
    "run": "the run that the event belongs to; events with the same run are judged as one, so what "
           "happens in two clusters is two runs",
    "source": "who saw it: client, log, wire, broker, workload, fault or sink",
    "actor": "which one: a client's name, reader for the log, broker-1, a fault",
    "kind": "what happened",
    "at_ns": "when, in nanoseconds of a clock that never goes back, the same for all witnesses of "
             "a run where there is one",
    "topic": "the topic",
    "partition": "the partition",
    "offset": "the place in the partition; left out where a client knows none, or below 0 as the "
              "client reports it",
    "key": "the record's key as text, part of the identity of an order: in each of its events, or "
           "in none",
    "value": "the record's value as text, part of the identity of an order; null is a value like "
             "others",
    "producer_id": "what the broker knows a producer by; -1 without idempotence",
    "producer_epoch": "how often that producer id was handed out; an old epoch is fenced",
    "sequence": "the number of the batch's first record among those of its producer and partition",
    "records": "how many records a batch or a request holds",
    "api": "the kind of a request or response on the wire, as Produce",
    "correlation_id": "what a response has in common with its request",
    "error": "Kafka's name of an error, as NOT_ENOUGH_REPLICAS",
    "attempt": "how often this client was handed this value, from 1",
    "fate": "what the proxy did: forwarded, dropped, corrupted, replaced, held, replayed, or "
    "undelivered, as the client had closed the connection",
    "detail": "everything else, as text: connection, timestamps, configuration",
}  # fmt: skip

SPARK_TYPES: Final = {"str": "STRING", "int": "BIGINT", "dict[str, str]": "MAP<STRING, STRING>"}


def spark_schema() -> str:
    """The schema of a ledger as Spark DDL, derived from the fields of Event."""
    columns = ((column.name, str(column.type).removesuffix(" | None")) for column in fields(Event))
    return ", ".join(f"{name} {SPARK_TYPES[python_type]}" for name, python_type in columns)


def value_text(value: bytes | str | None) -> str | None:
    r"""A record's value as text, with bytes that are no text shown as escapes.

    >>> value_text(b"order 3"), value_text(b"\xff"), value_text(None)
    ('order 3', '\\xff', None)
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return None if value is None else str(value)  # a learner may hand anything over
