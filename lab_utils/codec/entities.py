"""Walks through kio's dataclasses without knowing each API: which topics, which errors.

kio generates one dataclass for each version of each message; the parts that the lab asks for are
named alike in all of them. It reads entities and builds none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

NO_PARTITION = -1


def topic_name(entity: Any, names: Mapping[UUID, str]) -> str | None:
    """The topic that a part of a message is about, or None if it is about none.

    A topic id whose name was never seen is given as text.
    """
    if "Topic" not in type(entity).__name__:
        return None
    for column in ("name", "topic"):
        if (name := getattr(entity, column, None)) is not None:
            return str(name)
    topic_id = getattr(entity, "topic_id", None)
    return names.get(topic_id, str(topic_id)) if topic_id is not None else None


def topic_partitions(entity: Any, names: Mapping[UUID, str]) -> Iterator[tuple[str, int]]:
    """Each partition that a message names; NO_PARTITION for a topic named without one."""
    if entity is None:
        return
    topic = topic_name(entity, names)
    if topic is None:
        for part in _parts(entity):
            yield from topic_partitions(part, names)
        return
    yield from ((topic, partition) for partition in partitions(entity) or [NO_PARTITION])


def partitions(topic: Any) -> list[int]:
    """The partitions that stand below a topic, as numbers or as parts with a number."""
    found: list[int] = []
    for column in fields(topic):
        below = getattr(topic, column.name)
        if isinstance(below, tuple) and "partition" in column.name:
            found.extend(item if isinstance(item, int) else partition_of(item) for item in below)
    return found


def partition_of(part: Any) -> int:
    """The number of the partition that a part of a message is about."""
    for column in ("partition_index", "index", "partition"):
        if (number := getattr(part, column, None)) is not None:
            return int(number)
    return NO_PARTITION


def first_error(entity: Any) -> ErrorCode | None:
    """The first error that a message carries, from the top down, or None."""
    if entity is None:
        return None
    for column in _columns(entity.__class__):
        value = getattr(entity, column)
        if isinstance(value, ErrorCode) and value is not ErrorCode.none:
            return value
    errors = (first_error(part) for part in _parts(entity))
    return next((error for error in errors if error is not None), None)


def _parts(entity: Any) -> Iterator[Any]:
    for column in _columns(entity.__class__):
        value = getattr(entity, column)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            yield from value


@cache
def _columns(entity_type: Any) -> tuple[str, ...]:
    return tuple(column.name for column in fields(entity_type))
