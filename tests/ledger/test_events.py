"""An event is one thing that one witness saw, in Python and in Spark alike."""

from __future__ import annotations

from dataclasses import fields

import pytest

from lab_utils.ledger.events import Event, spark_schema


def test_schema_has_a_column_for_each_field() -> None:
    """The Spark schema is the dataclass, so a new field is a new column."""
    columns = [column.split()[0] for column in spark_schema().split(", ") if column[0] != "S"]

    assert [field.name for field in fields(Event)] == columns


def test_schema_types() -> None:
    """Numbers are BIGINT, the detail is a map of text, and everything else is text."""
    schema = spark_schema()

    assert schema.startswith("run STRING, source STRING, actor STRING, kind STRING, at_ns BIGINT")
    assert schema.endswith("fate STRING, detail MAP<STRING, STRING>")


@pytest.mark.parametrize(
    ("source", "kind"), [("client", "request"), ("wire", "acked"), ("learner", "sent")]
)
def test_witness_says_only_what_it_can_see(source: str, kind: str) -> None:
    """A client cannot report a request, and the proxy cannot report an ack."""
    with pytest.raises(AssertionError):
        Event(run="r", source=source, actor="a", kind=kind)


def test_unknown_fate() -> None:
    """The proxy knows five fates and no other."""
    with pytest.raises(AssertionError):
        Event(run="r", source="wire", actor="a", kind="request", fate="lost")
