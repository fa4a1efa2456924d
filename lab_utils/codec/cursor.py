"""Kafka's numbers, texts and arrays: a place in some bytes that each read moves on.

This is where kio is loaded: the other modules of the codec take its names from here. Wherever
hypothesis is installed, kio imports it to register its types. That took a stage 0.8 s of processor
time at each start and left a folder `.hypothesis` where it ran, so kio is shown none here.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import UUID

_hypothesis = sys.modules.get("hypothesis")
sys.modules["hypothesis"] = None  # type: ignore[assignment]  # an import of it now fails
try:
    from kio.index import load_request_schema, load_response_schema
    from kio.schema.errors import ErrorCode
    from kio.schema.index import api_key_map
    from kio.serial import entity_reader, entity_writer, readers
    from kio.serial.errors import SerialError
finally:
    del sys.modules["hypothesis"]
    if _hypothesis is not None:
        sys.modules["hypothesis"] = _hypothesis

__all__ = [
    "Cursor", "ErrorCode", "entity_reader", "framed", "load_request_schema",
    "load_response_schema",
]  # fmt: skip

# kio's `init_producer_id` is Kafka's InitProducerId.
API_NAMES: Final = {
    key: "".join(word.capitalize() for word in name.split("_")) for key, name in api_key_map.items()
}
API_KEYS: Final = {name: key for key, name in API_NAMES.items()}
# Every error code but NONE.
ERRORS: Final = frozenset(code.name.upper() for code in ErrorCode) - {"NONE"}

# What announces more items than this is not read. Each may take a byte or two of a frame, and sixty
# times as much of memory when it is read.
ITEMS_MAX: Final = 20_000

Item = TypeVar("Item")


def framed(*entities: Any) -> bytes:
    """A frame of a header and a message, length and all."""
    buffer = io.BytesIO()
    for entity in entities:
        entity_writer(type(entity))(buffer, entity)
    payload = buffer.getvalue()
    return len(payload).to_bytes(4, "big") + payload


class Cursor:
    """A place in some bytes. Each read raises ValueError where the bytes end too early.

    flexible   lengths are varints and fields may be tagged, as in the newer versions of a message
    items_max  how many items of arrays, and tagged fields, there may be altogether
    """

    def __init__(
        self, data: bytes, at: int = 0, *, flexible: bool = True, items_max: int = ITEMS_MAX
    ) -> None:
        self.at = at
        self._data = data
        self._flexible = flexible
        self._items_left = items_max

    def int8(self) -> int:
        """A signed number of 8 bits."""
        return int(self._read(readers.read_int8))

    def int16(self) -> int:
        """A signed number of 16 bits."""
        return int(self._read(readers.read_int16))

    def int32(self) -> int:
        """A signed number of 32 bits."""
        return int(self._read(readers.read_int32))

    def int64(self) -> int:
        """A signed number of 64 bits."""
        return int(self._read(readers.read_int64))

    def unsigned(self) -> int:
        """A varint of a length or a tag."""
        return int(self._read(readers.read_unsigned_varint))

    def varint(self) -> int:
        """A signed varint, as in a record."""
        return int(self._read(readers.read_signed_varint))

    def varlong(self) -> int:
        """A signed varint of up to 64 bits."""
        return int(self._read(readers.read_signed_varlong))

    def uuid(self) -> UUID | None:
        """A topic's id; all zeros is None."""
        found: UUID | None = self._read(readers.read_uuid)
        return found

    def text(self) -> str | None:
        """A text; None for null."""
        compact, legacy = readers.read_compact_string_nullable, readers.read_nullable_legacy_string
        found: str | None = self._read(compact if self._flexible else legacy)
        return found

    def size(self) -> int:
        """The length of what follows; -1 for null."""
        return self.unsigned() - 1 if self._flexible else self.int32()

    def count(self) -> int:
        """How many items an array has; each takes a byte at least, or it is no array."""
        return self._counted(self.size())

    def array(self, item: Callable[[], Item]) -> tuple[Item, ...]:
        """As many as the array holds; null is empty."""
        return tuple(item() for _ in range(self.count()))

    def skip(self, size: int) -> int:
        """Go past so many bytes; return where they begin."""
        start = self.at
        self.at += max(size, 0)
        if self.at > len(self._data):
            raise ValueError(f"at byte {start}: {size} bytes run over the end, {len(self._data)}")
        return start

    def take(self, size: int) -> bytes | None:
        """So many bytes; a size below zero is null."""
        start = self.skip(size)
        return self._data[start : self.at] if size >= 0 else None

    def tags(self) -> dict[int, bytes]:
        """The tagged fields by their tag; a message that is not flexible has none."""
        count = self._counted(self.unsigned()) if self._flexible else 0
        return {self.unsigned(): self.take(self.unsigned()) or b"" for _ in range(count)}

    def _counted(self, count: int) -> int:
        self._items_left -= max(count, 0)
        if count > len(self._data) - self.at or self._items_left < 0:
            raise ValueError(f"at byte {self.at}: {count} items in {len(self._data)} bytes")
        return count

    def _read(self, reader: Callable[[bytes, int], tuple[Any, int]]) -> Any:
        try:
            value, size = reader(self._data, self.at)
        except SerialError as error:
            raise ValueError(f"at byte {self.at}: {error}") from None
        self.at += size
        return value
