"""The frame of all pictures: words, pictures of nothing, and time that is not to scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from lab_utils.views import (
    bookmarks,
    in_out,
    measurements,
    orders,
    ownership,
    replicas,
    survival,
    timeline,
)
from lab_utils.views import transaction_timeline as transactions
from lab_utils.views.palette import Style
from lab_utils.views.picture import MS, Picture, elastic_time
from lab_utils.views.replica_history import LOOKED
from tests.views import consuming_histories, replica_histories, transaction_histories
from tests.views.test_measurements import ACKS, COSTS
from tests.views.test_survival import SETTINGS
from tests.views.test_words import HEADLINES

INVOICES: Callable[[Any], Picture] = lambda rows: in_out.in_and_out(rows, "invoices")  # noqa: E731
# name: the view, what it draws, its title and its summary
WORDS: dict[str, tuple[Callable[[Any], Picture], Any, str, str]] = {
    "timeline": (
        timeline.timeline, *HEADLINES["a lost answer"],
        "6 Produce requests crossed the wire in 63.8 ms. The proxy dropped 1 response. 1 request "
        "came again (↻). Each arrow passes the proxy at the measured "
        "moment; its slope is drawn, not measured.",
    ),
    "orders": (
        orders.orders_by_offset, *HEADLINES["a loss has a cause"],
        "4 calls of produce(), 3 records in the log. Order 0 is not in the log; its report: acked, "
        "no offset.",
    ),
    "replicas": (
        replicas.replicas, replica_histories.acked_alone(),
        "Orders 0 and 1 were acked by broker 1 alone, and broker 2 became leader without them",
        "Partition 0 is on brokers 1, 2 and 3. At first: broker 1 leads, brokers 1, 2 and 3 in the "
        "ISR. At 3,359 ms: broker 2 leads, brokers 2 and 3 in the ISR. The logs reach to 2 (broker "
        f"1), 1 (broker 2) and 1 (broker 3). 3 orders acked. {LOOKED}",
    ),
    "transactions": (
        transactions.transaction_timeline, transaction_histories.commit_and_abort(),
        "1 record for every reader, 1 for read_uncommitted only",
        "producer-1 was told that transaction 1 was committed. producer-1 was told that "
        "transaction 2 was aborted. A read_committed reader reads each partition to its end.",
    ),
    "bookmarks": (
        bookmarks.offset_diagram, consuming_histories.repeated_and_skipped(),
        "Order 2 was skipped: the bookmark was ahead of the work. Order 1 was processed more than "
        "once: the bookmark had not reached the work",
        "Partition 0: 3 deliveries, 3 records processed, 2 commits and 1 kill. The bookmark "
        "stands at offset 3.",
    ),
    "ownership": (
        ownership.ownership, consuming_histories.taken_away(),
        "Partition 0 was given to consumer-2 while consumer-1 still believed it had it, and its "
        "commit was refused: UNKNOWN_MEMBER_ID. Order 0 was processed more than once",
        "Partition 0: consumer-1 from 0 to 7.0 ms (revoked) and consumer-2 from 3.0 to 8.0 ms "
        "(revoked).",
    ),
    "in and out": (
        INVOICES, consuming_histories.out("00", "00"),
        "Order 1 is in invoices, but not for the final reader. Order 0 is in invoices more than "
        "once",
        "2 orders in; out: 2 in the log, 2 to the concurrent reader and 2 to the final reader.",
    ),
    "acks": (
        measurements.spread, ACKS,
        "Messages per second, in the median: 4,000 with acks=0, 900 with acks=1 and 700 with "
        "acks=all; the runs of acks=1 and acks=all overlap",
        "acks=0: 3 measurements, 4,000 (3,000 to 5,000) messages per second, 0.03 (0.02 to 0.04) "
        "ms. acks=1: 3 measurements, 900 (750 to 950) messages per second, 1.2 (1.0 to 1.4) ms. "
        "acks=all: 3 measurements, 700 (600 to 800) messages per second, 4.0 (3.0 to 9.0) ms.",
    ),
    "cost": (
        measurements.cost_picture, COSTS,
        "idempotent: 600,000 records a second; 1 in a transaction: 350 (about 1,714 times slower)",
        "idempotent: 600,000 records a second, 500,000 to 700,000. 1 in a transaction: 350 records "
        "a second, 300 to 400.",
    ),
    "survival": (
        survival.survival, SETTINGS,
        "Only 3 replicas with min ISR 2 keep every acked order on two brokers, and can be written "
        "with one of them dead",
        "11 cells of one run: 5 writable, safe, 3 refused, safe, 2 writable, not safe and 1 "
        "refused, not safe. 1 replica, min ISR 1, 0 dead brokers: writable, not safe, 1 copy. 3 "
        "replicas, min ISR 1, 2 dead brokers: writable, not safe, 1 copy.",
    ),
}  # fmt: skip
OF_ROWS = [draw for name, (draw, *_) in WORDS.items() if name != "cost"]


@pytest.mark.parametrize("draw", OF_ROWS)
def test_nothing_to_draw(draw: Callable[[Any], Picture]) -> None:
    """No rows have a picture, too: it has a title, also as SVG, and nothing in its table."""
    picture = draw([])

    assert picture.title
    assert picture.title in picture.static()
    assert not picture.table.rows
    assert [] == [trace for trace in picture.figure.data if trace.x and trace.x != (None,)]


def of(styles: Iterable[Style]) -> list[object]:
    return [(it.symbol, it.dash, it.width) for it in styles]


# Of each legend, and of the bars that stand on one another: how each entry looks.
LINES = (transactions.BAR, transactions.OPEN, transactions.WAITS, transactions.LATE)
LOOKS = {
    "timeline": of(timeline.WIRE.values()),
    "orders": of(orders.OUTCOMES.values()),
    "replicas": of(replicas.ACKS.values()),
    "brokers": [
        replicas.BARS[word][1]
        for word in ("killed", "power cut", "stopped", "paused", "starting", "fenced")
    ],
    "links": [replicas.BARS[word][1] for word in ("cut", "held", "slow")],
    "transactions": of([*transactions.MARKS.values(), *LINES, transactions.ASKS]),
    "bookmarks": of([*bookmarks.STYLES.values(), bookmarks.BOOKMARK]),
    "ownership": of(ownership.MARKS.values()),
    "consumers": [hatch for _, hatch in ownership.OWNERS],
    "in and out": of(in_out.STYLES),
    "acks": of(measurements.STYLES.values()),
    "cost": of([measurements.MEASURED]),
    "survival": of(survival.OUTCOMES.values()),
}


@pytest.mark.parametrize("name", sorted({*WORDS, *LOOKS}))
def test_legend_needs_no_colour(name: str) -> None:
    """No two entries differ in their colour alone: mark, dash, width or hatch is their own."""
    assert len(LOOKS[name]) == len(set(LOOKS[name]))


def test_each_instant_has_a_column() -> None:
    """One more than the instant before it, however near; a gap of a second takes a few.

    A moment that has no column of its own is drawn at the one before it.
    """
    time = elastic_time([5, 6, 900_000])

    assert (0, 1, 2) == time.columns
    assert 2 < elastic_time([0, 1000 * MS]).width < 4
    assert [0, 0, 1] == [time.column(at_ns) for at_ns in (0, 5, 899_999)]


@pytest.mark.parametrize(
    ("moments", "named"),
    [((0, 1, 2, 60, 61), ["58.0 ms"]), (range(0, 500, 100), []), ((), [])],
    ids=["one long gap", "even gaps, however long", "nothing"],
)
def test_pauses_are_named(moments: range, named: list[str]) -> None:
    """A gap that is far longer than the others is named with its true length."""
    assert named == [gap for *_, gap in elastic_time([at * MS for at in moments]).pauses()]


def test_times_on_the_axis_keep_apart() -> None:
    """Below the axis stand true milliseconds, and none nearer to the next than asked."""
    axis = elastic_time([0, MS, 2 * MS, 60 * MS]).axis(-1, 5, 2)

    assert (["0", "2.0", "60.0"], [-1, 5]) == (axis["ticktext"], axis["range"])
