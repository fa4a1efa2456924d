"""An event is one thing that one witness saw, in Python and in Spark alike."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from lab_utils.ledger.events import COLUMNS, Event, spark_schema


def test_schema_has_a_column_for_each_field() -> None:
    """The Spark schema is the dataclass, so a new field is a new column."""
    columns = [column.split()[0] for column in spark_schema().split(", ") if column[0] != "S"]

    assert [field.name for field in fields(Event)] == columns


def test_each_column_is_explained() -> None:
    """In the order of the schema, in one line that docs/ledger.md has, too."""
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")

    assert [field.name for field in fields(Event)] == list(COLUMNS)
    assert [] == [name for name, about in COLUMNS.items() if f"| `{name}` |" not in page]
    assert [] == [about for about in COLUMNS.values() if f"| {about} |\n" not in page]


def test_schema_types() -> None:
    """Numbers are BIGINT, the detail is a map of text, and everything else is text."""
    schema = spark_schema()

    assert schema.startswith("run STRING, source STRING, actor STRING, kind STRING, at_ns BIGINT")
    assert schema.endswith("fate STRING, detail MAP<STRING, STRING>")


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
