"""Of what a consumer is given next: smallest histories and near misses, as in tests.audit.cases."""

from __future__ import annotations

from dataclasses import replace

from lab_utils.ledger.events import Event
from tests.histories import (
    MARKER,
    created,
    delivered,
    end,
    log,
    placed,
    record,
    sent_in,
    told,
    visible,
)

Cases = dict[str, tuple[list[Event], ...]]
CONSUMER = created("consumer-1", role="consumer")
UNCOMMITTED = created("consumer-1", role="consumer", isolation__level="read_uncommitted")
# A log with an aborted record between two that are visible.
PASSED_BY = [*log("0", "1", "2"), MARKER, visible("0", 0), visible("2", 2)]
TOMBSTONE = [record("0", 0), record(None, 1, key="a"), record("2", 2)]
ASSIGNED, MOVED, REVOKED = (placed(kind) for kind in ("assigned", "sought", "revoked"))
# Nobody says that it was assigned again: what it is given was fetched before, or it was.
TAKEN = [[ASSIGNED, REVOKED], [REVOKED], [placed("lost")], [ASSIGNED, CONSUMER, placed("lost")]]
# And here it has the partition.
HAS_IT = {
    "assigned again": [REVOKED, ASSIGNED],
    "moved since it was taken": [REVOKED, MOVED],
    "started since it was taken": [REVOKED, CONSUMER],
    "another partition was taken": [ASSIGNED, placed("revoked", partition=1)],
    "it was taken from another one": [ASSIGNED, placed("revoked", "consumer-2")],
}
BACK = [delivered("1", 1), delivered("0", 0)]
LOG, OVER = log("0", "1", "2"), [delivered("0", 0), delivered("2", 2)]
TAKEN_BACK: Cases = {
    f"backwards, {name}": ([*rows, *BACK], *([*it, *BACK] for it in TAKEN))
    for name, rows in HAS_IT.items()
}
TAKEN_OVER: Cases = {
    f"over a record, {name}": ([*LOG, *rows, *OVER], *([*LOG, *it, *OVER] for it in TAKEN))
    for name, rows in HAS_IT.items()
}
POLLS: dict[str, Cases] = {
    "nonmonotonic-poll": {
        "backwards, without a seek": (
            [delivered("1", 1), delivered("0", 0)],
            [delivered("1", 1), placed("sought", offset=None), delivered("0", 0)],
            # backwards
            [delivered("1", 1), placed("sought", offset=0), delivered("0", 0)],
        ),
        "backwards after a rebalance": (
            [placed("assigned"), delivered("1", 1), delivered("1", 1)],
            [delivered("1", 1), placed("assigned"), delivered("1", 1)],
        ),
        **TAKEN_BACK,
        "backwards, and started before": (
            [CONSUMER, delivered("1", 1), delivered("1", 1)],
            [CONSUMER, delivered("1", 1), CONSUMER, delivered("1", 1)],
        ),
        "backwards, and another started": (
            [CONSUMER, delivered("1", 1), replace(CONSUMER, actor="consumer-2"), delivered("1", 1)],
            [delivered("1", 1), CONSUMER, delivered("1", 1)],
        ),
        "two consumers have no order": (
            [delivered("1", 1), placed("assigned", "consumer-2"), delivered("0", 0)],
            [delivered("1", 1), delivered("0", 0, "consumer-2")],
        ),
    },
    "poll-skip": {
        "a tombstone was passed over": (
            [*TOMBSTONE, delivered("0", 0), delivered("2", 2)],
            [*TOMBSTONE, delivered("0", 0), delivered(None, 1, key="a"), delivered("2", 2)],
        ),
        "over a record that the log has lost since it was read": (
            [*log("0", "1", "2"), delivered("0", 0), delivered("2", 2), end(offset=3, start=1)],
            [*log("0", "1", "2"), delivered("0", 0), delivered("2", 2), end(offset=3, start=2)],
        ),
        **TAKEN_OVER,
        "over a record, and not since it started": (
            [*log("0", "1", "2"), CONSUMER, delivered("0", 0), delivered("2", 2)],
            [*log("0", "1", "2"), delivered("0", 0), CONSUMER, delivered("2", 2)],
        ),
        "over a record": (
            [*log("0", "1", "2"), delivered("0", 0), delivered("2", 2)],
            [record("0", 0), record("2", 2), delivered("0", 0), delivered("2", 2)],
            # over what was aborted, and nobody recorded a marker
            [*log("0", "1", "2"), visible("0", 0), visible("2", 2), delivered("0", 0),
             delivered("2", 2)],
            # nor what is visible
            [sent_in(1, "1"), told("aborted", 1), *log("0", "1", "2"), delivered("0", 0),
             delivered("2", 2)],
        ),
        "over a record, and the log begins behind where it was": (
            [record("2", 2), record("3", 3), end(start=2), delivered("0", 0), delivered("3", 3)],
            [record("2", 2), record("3", 3), end(start=2), delivered("0", 0), delivered("2", 2)],
        ),
        "over what was aborted": (
            [*log("0", "1", "2"), MARKER, *map(visible, "012", range(3)), delivered("0", 0),
             delivered("2", 2)],
            [*PASSED_BY, delivered("0", 0), delivered("2", 2)],
        ),
        "over what was aborted, by a read_uncommitted consumer": (
            [UNCOMMITTED, *PASSED_BY, delivered("0", 0), delivered("2", 2)],
            [UNCOMMITTED, *PASSED_BY, *(delivered(str(at), at) for at in range(3))],
            # beside one, and by one that was read_committed before
            [UNCOMMITTED, *PASSED_BY, delivered("0", 0, "consumer-2"),
             delivered("2", 2, "consumer-2"), delivered("1", 1)],
            [CONSUMER, UNCOMMITTED, *PASSED_BY, delivered("0", 0), delivered("2", 2)],
            # which the log has lost since
            [UNCOMMITTED, record("2", 2), record("3", 3), visible("3", 3), end(start=3),
             delivered("1", 1), delivered("3", 3)],
        ),
    },
}  # fmt: skip
