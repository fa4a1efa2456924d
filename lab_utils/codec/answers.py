"""What a fault makes of a frame: a byte flipped, a copy, an error in an answer, one of our own.

Each function takes a frame as it was read and returns the bytes to send instead, length and all.
An answer of our own has the shape that the client's version asks for, and names the topics and
partitions of the request; what it must say beyond the error is -1, empty, or the default.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

from lab_utils.codec.cursor import ErrorCode, framed, load_response_schema
from lab_utils.codec.frames import (
    REQUEST_START,
    Produced,
    Request,
    Response,
    partitions,
    parts,
)

IDENTITY = ("name", "topic", "topic_id")
_hints = cache(typing.get_type_hints)


def corrupted(request: Request, produced: Produced) -> bytes:
    """The frame with the last byte of one partition's records flipped.

    The byte is covered by the batch's CRC and by nothing else, so the broker reads the request,
    finds the batch damaged, and says so.
    """
    assert produced.batches, "there is no byte to flip where there is no batch"
    changed = bytearray(request.frame)
    changed[produced.end - 1] ^= 0xFF
    return bytes(changed)


def copied(frame: bytes, correlation_id: int) -> bytes:
    """The same request under another number, so that its answer is not taken for the first one."""
    size, key, version, _, client_id_size = REQUEST_START.unpack_from(frame)
    start = REQUEST_START.pack(size, key, version, correlation_id, client_id_size)
    return start + frame[REQUEST_START.size :]


def refusal(request: Request, error: str) -> bytes:
    """A response to the request that carries this error and nothing else."""
    code = ErrorCode[error.lower()]
    schema = load_response_schema(request.api_key, request.version)
    return _frame(request, _blank(schema, code, request.body))


def with_error(response: Response, error: str) -> bytes:
    """The broker's response with each of its error codes replaced; offsets become -1."""
    return _frame(response.request, _with_error(response.body, ErrorCode[error.lower()]))


def _frame(request: Request, entity: Any) -> bytes:
    header = type(entity).__header_schema__
    return framed(header(correlation_id=request.correlation_id), entity)


def _with_error(entity: Any, code: ErrorCode) -> Any:
    changes: dict[str, Any] = {}
    for column in fields(entity):
        value = getattr(entity, column.name)
        if isinstance(value, ErrorCode):
            changes[column.name] = code
        elif column.name == "base_offset":
            changes[column.name] = -1
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            changes[column.name] = tuple(_with_error(part, code) for part in value)
    return replace(entity, **changes)


def _blank(schema: Any, code: ErrorCode, source: Any, **known: Any) -> Any:
    """A response, or a part of one, about the same things as `source`, a part of the request."""
    hints = _hints(schema)
    given: dict[str, Any] = {}
    for column in fields(schema):
        hint = hints[column.name]
        if column.name in known:
            given[column.name] = known[column.name]
        elif hint is ErrorCode:
            given[column.name] = code
        elif (part := _part_type(hint)) is not None:
            given[column.name] = tuple(_parts(part, code, source))
        elif column.name in IDENTITY:
            given[column.name] = getattr(source, column.name)
        else:
            given[column.name] = _nothing(column, hint)
    return schema(**given)


def _parts(schema: Any, code: ErrorCode, source: Any) -> Iterator[Any]:
    """The parts of an answer that stand for the request's topics, partitions or keys."""
    columns = {column.name for column in fields(schema)}
    if "Coordinator" in schema.__name__:
        for key in source.coordinator_keys:
            yield _blank(schema, code, source, key=key)
    elif columns & set(IDENTITY):
        for part in parts(source):
            if "Topic" in type(part).__name__:
                yield _blank(schema, code, part)
    elif columns & {"index", "partition_index"}:
        column = "index" if "index" in columns else "partition_index"
        for partition in partitions(source):
            yield _blank(schema, code, source, **{column: partition})


def _nothing(column: Field[Any], hint: Any) -> Any:
    """The value that says nothing, for a field that the protocol gives no default."""
    if column.default is not MISSING:
        return column.default
    if type(None) in typing.get_args(hint):
        return None
    empty = {"str": "", "bytes": b"", "bool": False, "i32Timedelta": timedelta(0)}
    return empty.get(getattr(hint, "__name__", ""), -1)


def _part_type(hint: Any) -> Any:
    """The dataclass that a field holds a tuple of, or None."""
    of = next((of for of in typing.get_args(hint) if is_dataclass(of)), None)
    return of if typing.get_origin(hint) is tuple else None
