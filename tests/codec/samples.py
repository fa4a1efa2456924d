"""Any request of Kafka's protocol, filled by kio's own description of it, and written by kio."""

from __future__ import annotations

import datetime
import typing
import uuid
from dataclasses import fields, is_dataclass
from typing import Any

from kio.index import load_request_schema, load_response_schema

from lab_utils.codec.cursor import API_KEYS, ErrorCode, framed
from tests.proxy.wire import CLIENT_ID

TOPIC_ID = uuid.UUID(int=1)


def sample_request(api: str, version: int, correlation_id: int = 1, **given: Any) -> bytes:
    """A request frame with one of everything; `given` are fields at its top."""
    schema = load_request_schema(API_KEYS[api], version)
    header = schema.__header_schema__(
        request_api_key=API_KEYS[api],
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=CLIENT_ID,
    )
    return framed(header, _sample(schema, given))


def sample_answer(api: str, version: int, **given: Any) -> bytes:
    """The response to it, with one of everything."""
    schema = load_response_schema(API_KEYS[api], version)
    return framed(schema.__header_schema__(correlation_id=1), _sample(schema, given))


def versions(api: str) -> list[int]:
    """All versions of an API that kio knows."""
    from kio.schema.index import api_key_map, schema_name_map

    return sorted(schema_name_map[api_key_map[API_KEYS[api]]])


def _sample(schema: Any, given: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(schema)
    values = {column.name: _value(column.name, hints[column.name]) for column in fields(schema)}
    return schema(**values | given)


def _value(name: str, hint: Any) -> Any:
    kinds = [hint, *typing.get_args(hint)]
    array = next((kind for kind in kinds if typing.get_origin(kind) is tuple), None)
    if array is not None:
        return (_value(name, typing.get_args(array)[0]),)
    if (part := next((kind for kind in kinds if is_dataclass(kind)), None)) is not None:
        return _sample(part, {})
    if uuid.UUID in kinds:
        return TOPIC_ID
    names = {getattr(kind, "__name__", "") for kind in kinds}
    if names & {"i32Timedelta", "i64Timedelta"}:
        return datetime.timedelta(seconds=1)
    if bool in kinds:
        return True
    if ErrorCode in kinds:
        return ErrorCode.corrupt_message
    if "TZAware" in names:
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    if names & {"bytes", "Records"}:
        return b"some bytes"
    if names & {"str", "TopicName", "GroupId", "TransactionalId"}:
        return f"a {name}"
    return 3
