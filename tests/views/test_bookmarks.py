"""Bookmarks: what was done, and where the bookmark stood at each step."""

from __future__ import annotations

import pytest

from lab_utils.ledger.events import Event
from lab_utils.views.bookmarks import NO_WORK, STEPS_MAX, bookmarks, offset_diagram
from tests.views.consuming_histories import (
    AGAIN,
    KILLED,
    committed,
    delivered,
    event,
    history,
    processed,
    read_on_at,
)


@pytest.mark.parametrize(
    ("events", "repeated", "skipped", "last"),
    [
        ([delivered(0), processed(0), committed(1), delivered(1), processed(1), KILLED, AGAIN,
          delivered(1), processed(1), committed(2)], [1], [], 2),
        ([delivered(0), committed(1), KILLED, AGAIN, delivered(1), processed(1)], [], [0], 1),
        ([delivered(0), KILLED, AGAIN, delivered(0), processed(0), committed(1)], [], [], 1),
        ([delivered(0), committed(1)], [], [], 1),
        ([delivered(0), processed(0), committed(1, fate="dropped")], [], [], None),
        # It is about the run, and not about the part of it that a picture has room for.
        ([*[delivered(0)] * STEPS_MAX, processed(0), processed(0)], [0], [], None),
    ],
    ids=["committed late", "committed early", "delivered again", "no work", "commit was lost",
         "after the last step that is drawn"],
)  # fmt: skip
def test_bookmark_and_work(
    events: list[Event], repeated: list[int], skipped: list[int], last: int | None
) -> None:
    """What was done and not committed is done again; what was committed and not done is skipped."""
    found = bookmarks(history(*events, *([] if last is None else [read_on_at(last)])))

    assert (repeated, skipped, last) == (found.repeated, found.skipped, found.committed)


@pytest.mark.parametrize(
    ("events", "title"),
    [
        ([delivered(0), processed(0), committed(1)],
         "Every order before the bookmark was processed once"),
        ([delivered(0), processed(0)],
         "The bookmark stands nowhere"),
        ([delivered(0), committed(1)],
         f"The bookmark stands at offset 1. {NO_WORK}"),
        ([delivered(0), KILLED, AGAIN, delivered(0)],
         f"Order 0 was delivered again. The bookmark stands nowhere. {NO_WORK}"),
    ],
)  # fmt: skip
def test_title_says_no_more_than_was_recorded(events: list[Event], title: str) -> None:
    """Where no work was recorded, none is said to have been done."""
    assert title == bookmarks(history(*events)).title()


def test_another_partition() -> None:
    """A diagram is of one partition; a crash is in all of them."""
    kinds = [step.kind for step in bookmarks(history(delivered(0, partition=1), KILLED)).steps]

    assert ["killed"] == kinds
    assert (
        bookmarks(history()).summary() == "Partition 0: no delivery. The bookmark stands nowhere."
    )


def test_long_history_is_cut() -> None:
    """So many steps are drawn, and no more."""
    rows = history(*(delivered(0) for _ in range(STEPS_MAX + 5)))

    found = bookmarks(rows)

    assert STEPS_MAX == len(found.table().rows)
    assert found.summary().endswith(f"The first {STEPS_MAX} of {STEPS_MAX + 5} steps are drawn.")


def test_two_groups_do_the_work_once_each() -> None:
    """That is no work done again: the headline of the run says so, and the picture does."""
    names = ("consumer-1", "consumer-2")
    created = [event("client", "created", actor=it, detail={"group.id": it}) for it in names]
    rows = history(*created, *(e for it in names for e in (delivered(0, actor=it), processed(0))))

    assert [] == bookmarks(rows).repeated
    assert "processed again" not in {it.name for it in offset_diagram(rows).figure.data}


def test_drawn() -> None:
    """Each kind of step is an entry of the legend, and the bookmark is a line between the rows."""
    stored = event("client", "stored", offset=1)
    rows = history(delivered(0), processed(0), stored, committed(1), KILLED, AGAIN, processed(0))
    picture = offset_diagram(rows)
    lines = {trace.name: list(trace.y) for trace in picture.figure.data}

    assert lines == {
        "delivered": [0],
        "processed": [0],
        "processed again": [0],
        "stored for the next commit": [0.5],
        "committed: read on above this line": [0.5, 0.5],
    }
    assert [note.text for note in picture.figure.layout.annotations] == ["killed", "started again"]
    assert [5, 6] == [mark.x0 for mark in picture.figure.layout.shapes]


def test_expired() -> None:
    """Between the kill that outlasts a bookmark and the next commit, no bookmark stands."""
    away = event("fault", "fired", topic=None, partition=None, detail={"until_expired": "True"})
    gone = [delivered(0), committed(1), away, KILLED, AGAIN, delivered(0)]
    picture = offset_diagram(history(*gone, committed(1)))
    later = picture.figure.data[-1]

    assert bookmarks(history(*gone)).committed is None
    assert [2, 4, None, 7, 7.5] == list(later.x)
    assert [0.5, 0.5, None, 0.5, 0.5] == list(later.y)
    assert picture.bundle()
