"""An event is one thing that one witness saw, in Python and in Spark alike."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from lab_utils.ledger.events import COLUMNS, Event, spark_schema


def test_each_column_is_explained() -> None:
    """In the order of the schema, in one line that docs/ledger.md has, too."""
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")

    assert [field.name for field in fields(Event)] == list(COLUMNS)
    assert [] == [name for name, about in COLUMNS.items() if f"| `{name}` |" not in page]
    assert [] == [about for about in COLUMNS.values() if f"| {about} |\n" not in page]


def test_schema() -> None:
    """A column for each field: numbers are BIGINT, the detail is a map, and all else is text."""
    numbers = ("at_ns", "partition", "offset", "producer_id", "producer_epoch", "sequence",
               "records", "correlation_id", "attempt")  # fmt: skip
    types = {**dict.fromkeys(numbers, "BIGINT"), "detail": "MAP<STRING, STRING>"}
    columns = [f"{field.name} {types.get(field.name, 'STRING')}" for field in fields(Event)]

    assert ", ".join(columns) == spark_schema()


@pytest.mark.parametrize(
    ("source", "kind", "fate"),
    [
        ("client", "request", None), ("wire", "acked", None), ("learner", "sent", None),
        ("wire", "request", "lost"),
    ],
)  # fmt: skip
def test_witness_says_only_what_it_can_see(source: str, kind: str, fate: str | None) -> None:
    """A client cannot report a request, nor the proxy an ack, or a fate that it does not know."""
    with pytest.raises(AssertionError):
        Event(run="r", source=source, actor="a", kind=kind, fate=fate)
