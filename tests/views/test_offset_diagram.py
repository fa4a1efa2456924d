"""The offset diagram: what was done, and where the bookmark stood at each step."""

from __future__ import annotations

from typing import Any

from lab_utils.ledger.events import Event
from lab_utils.views.bookmarks import STEPS_MAX, Bookmarks, bookmarks
from lab_utils.views.offset_diagram import offset_diagram

RUN = "05-a"
TOPIC = f"{RUN}-orders"


def event(source: str, kind: str, **columns: Any) -> Event:
    columns = {"actor": "consumer-1", "topic": TOPIC, "partition": 0} | columns
    return Event(run=RUN, source=source, kind=kind, **columns)


def delivered(offset: int, **columns: Any) -> Event:
    return event("client", "delivered", offset=offset, value=str(offset), **columns)


def processed(offset: int) -> Event:
    return event("client", "processed", offset=offset, value=str(offset))


def committed(offset: int, fate: str = "forwarded") -> Event:
    return event("wire", "request", api="OffsetCommit", offset=offset, fate=fate)


def log(count: int) -> list[Event]:
    return [event("log", "record", offset=n, value=str(n)) for n in range(count)]


KILLED = event("workload", "crashed", topic=None, partition=None)
AGAIN = event("workload", "started", attempt=2, topic=None, partition=None)


def history(*events: Event) -> Bookmarks:
    """The events in this order, and a log of three orders."""
    rows = [*log(3), *events]
    for at, row in enumerate(rows):
        object.__setattr__(row, "at_ns", at)
    return bookmarks(rows)


def test_bookmark_behind_the_work() -> None:
    """What was done and not committed is done again."""
    first = [delivered(0), processed(0), committed(1), delivered(1), processed(1)]
    found = history(*first, KILLED, AGAIN, delivered(1), processed(1), committed(2))

    assert ([1], [], 2) == (found.repeated, found.skipped, found.committed)
    assert found.title() == "Order 1 was processed more than once: the bookmark was behind the work"


def test_bookmark_ahead_of_the_work() -> None:
    """What was committed and not done is skipped."""
    found = history(delivered(0), committed(1), KILLED, AGAIN, delivered(1), processed(1))

    assert ([], [0]) == (found.repeated, found.skipped)
    assert found.title() == "Order 0 was skipped: the bookmark was ahead of the work"


def test_bookmark_beside_the_work() -> None:
    """Delivered again and processed once is neither; nor is what lies behind the bookmark."""
    found = history(delivered(0), KILLED, AGAIN, delivered(0), processed(0), committed(1))

    assert ([], []) == (found.repeated, found.skipped)


def test_commit_that_never_arrived() -> None:
    """A request that the proxy dropped moves no bookmark."""
    assert history(delivered(0), processed(0), committed(1, fate="dropped")).committed is None


def test_another_partition() -> None:
    """A diagram is of one partition; a crash is in all of them."""
    kinds = [step.kind for step in history(delivered(0, partition=1), KILLED).steps]

    assert ["killed"] == kinds


def test_long_history_is_cut() -> None:
    """So many steps are drawn, and no more."""
    assert STEPS_MAX == len(history(*(delivered(0) for _ in range(STEPS_MAX + 5))).steps)


def test_drawn() -> None:
    """Each kind of step is an entry of the legend, and the bookmark is a line between the rows."""
    rows = [*log(2), delivered(0), processed(0), committed(1), KILLED, AGAIN, processed(0)]
    picture = offset_diagram(rows)
    lines = {trace.name: list(trace.y) for trace in picture.figure.data}

    assert lines == {
        "delivered": [0],
        "processed": [0],
        "processed again": [0],
        "committed: read on above this line": [0.5, 0.5],
    }
    assert [note.text for note in picture.figure.layout.annotations] == ["killed", "started again"]


def test_nothing_was_consumed() -> None:
    """A run without a consumer has an empty diagram, and no error."""
    assert "Every order before the bookmark was processed once" == offset_diagram([]).title
