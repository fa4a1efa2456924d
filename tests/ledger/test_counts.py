"""The counts say how many orders met which outcome, and never more than the ledger knows."""

from __future__ import annotations

from dataclasses import replace

from lab_utils.ledger.counts import count
from lab_utils.ledger.events import Event
from tests import histories as tiny


def elsewhere(event: Event) -> Event:
    """The same in another topic."""
    return replace(event, topic="r-u")


def test_each_outcome_is_counted() -> None:
    """Two offsets are a duplicate; a report that does not know makes no loss, and no failure."""
    rows = [tiny.sent("1"), tiny.acked("1", 0), tiny.unknown("2"), *map(tiny.failed, "34"),
            *tiny.log("1", "1")]  # fmt: skip
    counts = count(tiny.in_run("r", rows))

    assert "1 sent, 1 acked, 2 in the log, 2 failed, 1 unknown, 1 duplicated" == str(counts)
    assert 0 == counts.lost


def test_two_topics_are_counted_apart() -> None:
    """One value in each of two topics is no duplicate, and each topic says what it holds."""
    rows = tiny.in_run("r", [*tiny.log("1"), *map(elsewhere, tiny.log("1"))])

    assert "0 sent, 0 acked, 1 in orders, 1 in u" == str(count(rows))


def test_work_is_counted_by_order() -> None:
    """What was done twice is repeated; what was never done is skipped if the bookmark is after it.

    That is what lab 05 calls skipped: what comes after the bookmark will be read yet.
    """
    work = [do(value, int(value)) for value in "001" for do in (tiny.delivered, tiny.processed)]

    assert "4 in the log, 3 delivered, 3 processed, 1 repeated, 1 skipped, committed 3" == str(
        count([*tiny.log(*"0123"), *work, tiny.bookmark(3)])
    )


def test_two_groups_that_each_did_the_work_repeat_nothing() -> None:
    """Each group has all orders; one of them that does an order twice repeats it."""
    groups = [tiny.created(name, group__id=name) for name in "gh"]
    given = [tiny.delivered("0", 0, actor=name) for name in "gh"]
    work = [tiny.processed("0", 0), tiny.processed("0", 0)]

    assert 0 == count([*groups, *given, *work]).repeated
    assert 1 == count([*groups, given[0], *work]).repeated
    assert 1 == count([*groups, *given, *work, *work]).repeated


def test_equal_orders_of_two_topics_are_two_orders() -> None:
    """One of each was done; a topic of which nobody did any promises no work."""
    done = tiny.processed("0", 0)
    there = [elsewhere(tiny.record("1", 1)), elsewhere(tiny.bookmark(2))]

    assert 0 == count([done, elsewhere(done)]).repeated
    assert 0 == count([done, *there]).skipped
    assert 1 == count([elsewhere(done), *there]).skipped


def test_aborted_order_is_not_skipped() -> None:
    """A bookmark is after what no read_committed reader is given, and nobody could do its work."""
    rows = [*tiny.log("0", "1"), tiny.processed("0", 0), tiny.bookmark(3)]

    assert 1 == count(rows).skipped
    assert 0 == count([*rows, tiny.visible("0", 0)]).skipped
