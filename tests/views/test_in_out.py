"""In and out: exactly once is what both read_committed readers say."""

from __future__ import annotations

import pytest

from lab_utils.ledger.events import Event
from lab_utils.views.in_out import in_and_out, in_out

RUN = "06-a"
MARKER = Event(run=RUN, source="log", actor="broker-1", kind="marker", topic=f"{RUN}-invoices")


def orders(values: str) -> list[Event]:
    return [Event(run=RUN, source="workload", actor="lab", kind="order", value=v) for v in values]


def had(kind: str, values: str, topic: str = "invoices") -> list[Event]:
    return [
        Event(run=RUN, source="log", actor="reader", kind=kind, topic=f"{RUN}-{topic}", value=value)
        for value in values
    ]


EXACT = [*orders("01"), MARKER, *had("record", "011"), *had("seen", "01"), *had("visible", "01")]


def test_out_equals_in() -> None:
    """Each order once to both readers; what was aborted is in the log, and counts for neither."""
    found = in_out(EXACT, "invoices")

    assert (True, "Out equals in: 2 orders, each once") == (found.is_equal, found.title())
    assert found.repeated("in the log") == ["1"]


@pytest.mark.parametrize(
    ("seen", "visible", "title"),
    [
        ("01", "0", "Order 1 is missing in invoices"),
        ("0", "01", "The two readers were given different things"),
        ("011", "011", "Order 1 is in invoices more than once"),
        ("00", "00", "Order 1 is missing in invoices; order 0 is in invoices more than once"),
    ],
)
def test_not_equal(seen: str, visible: str, title: str) -> None:
    """One reader that has an order not once is enough."""
    rows = [*orders("01"), MARKER, *had("record", "01"), *had("seen", seen)]
    found = in_out([*rows, *had("visible", visible)], "invoices")

    assert (False, title) == (found.is_equal, found.title())


def test_without_transactions() -> None:
    """Where no transaction wrote, the final reader has what is in the log."""
    rows = [*orders("01"), *had("record", "011"), *had("seen", "011")]

    assert ["1"] == in_out(rows, "invoices").repeated("final reader")


def test_other_topics_are_left_alone() -> None:
    """The orders themselves are in, and not out."""
    assert in_out([*EXACT, *had("record", "01", topic="orders")], "invoices").is_equal


def test_drawn() -> None:
    """A cell for each order and reader, in the style of how often."""
    figure = in_and_out(EXACT, "invoices").figure
    cells = {trace.name: list(zip(trace.x, trace.y, strict=True)) for trace in figure.data}

    assert cells["more than once"] == [(1, 1)]
    assert len(cells["once"]) == 7
