"""Ownership of partitions: who believed what, from when to when, and where two did at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab_utils.ledger.events import Event
from lab_utils.views.ownership import KILLED, OPEN, Ownership, ownership
from lab_utils.views.picture import MS
from tests.views import consuming_histories as of

BUSY = "Partition 0 was given to consumer-2 while consumer-1 still believed it had it"


def at(*moments: tuple[int, Event]) -> list[Event]:
    """These events, each at its millisecond."""
    return [replace(row, at_ns=ms * MS) for ms, row in moments]


def moved(revoked_ms: int) -> list[Event]:
    """Partition 0 goes from the first consumer to the second at 20 ms."""
    return at(
        (0, of.rebalanced("assigned")),
        (20, of.rebalanced("assigned", "consumer-2")),
        (revoked_ms, of.rebalanced("revoked")),
        (40, of.rebalanced("revoked", "consumer-2")),
    )


@pytest.mark.parametrize(
    ("revoked_ms", "shared", "title"),
    [(21, 1, BUSY), (20, 0, "Partition 0 changed hands"), (10, 0, "Partition 0 changed hands")],
)
def test_two_owners_at_once(revoked_ms: int, shared: int, title: str) -> None:
    """Two believed it at once if the first was told after the second, and not if just before."""
    rows = sorted(moved(revoked_ms), key=lambda row: row.at_ns)

    assert (shared, title) == (len(Ownership(rows).shared), ownership(rows).title)


def test_same_owner_again() -> None:
    """An eager rebalance takes a partition and gives it back: it has not changed hands."""
    rows = at(*((10 * n, of.rebalanced(kind)) for n, kind in enumerate(
        ("assigned", "revoked", "assigned", "revoked"))))  # fmt: skip

    assert "Every partition kept its owner" == ownership(rows).title
    assert [("revoked", 0, 10), ("revoked", 20, 30)] == [
        (it.end, it.from_ns // MS, it.to_ns // MS) for it in Ownership(rows).spans
    ]


def test_killed_owner_has_it_until_then() -> None:
    """What was killed had its partition to that moment; who speaks later was not killed."""
    rows = at((0, of.rebalanced("assigned")), (0, of.rebalanced("assigned", "consumer-2", 1)),
              (5, of.KILLED), (9, of.delivered(0)),
              (30, of.rebalanced("assigned", partition=1)))  # fmt: skip
    ends = {(it.owner, it.place[1]): it.end for it in Ownership(rows).spans}

    assert {("consumer-1", 0): OPEN, ("consumer-1", 1): OPEN, ("consumer-2", 1): KILLED} == ends
    title = "consumer-2 was killed; 25.0 ms later consumer-1 was given partition 1"
    assert title == ownership(rows).title


def test_marks_stand_on_the_row_of_their_consumer() -> None:
    """An order is processed by the one that it was delivered to, and again by the next."""
    seen = Ownership(of.taken_away())
    marks = [(it.owner, it.kind, it.text) for it in seen.marks]

    assert [("consumer-1", "once", "0"), ("consumer-2", "again", "0"),
            ("consumer-1", "refused", "UNKNOWN_MEMBER_ID")] == marks  # fmt: skip


def test_refused_send_is_no_refused_commit() -> None:
    """Only an error of a commit is a refused commit."""
    rows = at((0, of.rebalanced("assigned")), (1, of.event("client", "error", error="X")))

    assert [] == Ownership(rows).marks


def test_what_was_taken_by_assign_has_no_row() -> None:
    """Nobody gave it to its consumer: the work is not drawn, and the others' is."""
    rows = [of.delivered(0), of.processed(0), *of.history(of.rebalanced("assigned", partition=1))]

    assert ([], 1) == (Ownership(rows).marks, len(ownership(rows).table.rows))


def test_each_consumer_is_named() -> None:
    """Its name stands beside its row, and its bar in the legend."""
    figure = ownership(of.taken_away()).figure
    bars = [trace for trace in figure.data if trace.type == "bar"]
    notes = [note.text for note in figure.layout.annotations]

    assert ["consumer-1 has it", "consumer-2 has it"] == [bar.name for bar in bars]
    assert {None} == {bar.marker.opacity for bar in bars}  # which the legend would not show
    assert {"<b>partition 0</b>", "consumer-1", "consumer-2"} <= set(notes)
