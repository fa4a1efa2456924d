"""The plain tables of names are Kafka's, as kio generates them from Kafka's own definitions."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map

from lab_utils.codec.apis import API_KEYS, API_NAMES, ERRORS


def test_api_names_are_kafkas() -> None:
    """Each API that kio knows is in the table, under Kafka's name and key."""
    kios = {key: name.replace("_", "") for key, name in api_key_map.items()}

    assert kios == {key: name.lower() for name, key in API_KEYS.items()}
    assert API_KEYS == {name: key for key, name in API_NAMES.items()}


def test_error_names_are_kafkas() -> None:
    """Each error that kio knows is in the table, but for NONE."""
    assert {code.name.upper() for code in ErrorCode} - {"NONE"} == ERRORS
