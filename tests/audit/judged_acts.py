"""More histories with their judgement: of clients that differ in what they write down."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from tests.histories import acked, created, delivered, end, placed, record, sent

Judged = dict[str, tuple[list[Event], str, str, str | None]]

PRODUCER = created("producer-1", role="producer", acks="all", enable__idempotence="true")
EARLIEST = {"role": "consumer", "auto__offset__reset": "earliest", "enable__auto__commit": "false"}
KEYED = [
    PRODUCER, created("consumer-1", group__id="a", **EARLIEST),
    created("consumer-2", group__id="b", **EARLIEST), placed("assigned", "consumer-2"),
    sent("1", key="k"), acked("1", 0, key="k"), sent("2", key="k"),
    delivered("1", 0, key="k"), delivered("2", 1, key="k"),
    record("1", 0, key="k"), record("2", 1, key="k"), end(offset=2),
]  # fmt: skip
NO_KEY = [*KEYED, delivered("1", 0, "consumer-2"), delivered("2", 1, "consumer-2")]
UNLIKE: Judged = {
    "a consumer that writes down no key, beside one that does": (
        NO_KEY, "unseen", "undecided", None,
    ),
    "the same, and what it was given is what the log holds": (
        NO_KEY, "inconsistent-offsets", "undecided", None,
    ),
    "the same, and it does, and was not given one": (
        [*KEYED, delivered("2", 1, "consumer-2", key="k")], "unseen", "breach", None,
    ),
    "no consumer writes down a key, and an order is lost": (
        [PRODUCER, sent("1", key="k"), acked("1", 0, key="k"), sent("2", key="k"),
         acked("2", 1, key="k"), delivered("1", 0), record("1", 0, key="k"), end(offset=2)],
        "lost-write", "breach", None,
    ),
}  # fmt: skip
