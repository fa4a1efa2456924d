"""The names that Kafka gives its requests and its errors, as kio generates them from Kafka's own.

Faults are checked against them where they are made.
"""

from __future__ import annotations

from typing import Final

from lab_utils.codec.cursor import ErrorCode, api_key_map

# kio's `init_producer_id` is Kafka's InitProducerId.
API_NAMES: Final = {
    key: "".join(word.capitalize() for word in name.split("_")) for key, name in api_key_map.items()
}
API_KEYS: Final = {name: key for key, name in API_NAMES.items()}
# Every error code but NONE.
ERRORS: Final = frozenset(code.name.upper() for code in ErrorCode) - {"NONE"}
