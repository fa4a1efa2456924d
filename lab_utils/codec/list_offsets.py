"""Up to where a partition may be read: the high watermark and the last stable offset.

One ListOffsets request to the leader's DIRECT listener for each isolation level, by kio, on a
connection of its own. A broker that does not answer in time is simply not heard.

AdminClient.list_offsets asks the same of a calm cluster. It does not here, where brokers are paused
and killed: of a paused leader it returns the offset -1001 and no error, and it sends the leader
epoch that it remembers, so that a leader that has just been restarted refuses it
(FENCED_LEADER_EPOCH).
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from kio.schema.list_offsets.v6.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i32, i64

API_KEY: Final = 2
VERSION: Final = 6
LATEST: Final = -1
TIMEOUT_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Offsets:
    """The first offset that a read_uncommitted, and a read_committed reader may not read yet."""

    high_watermark: int
    last_stable: int


async def list_offsets(port: int, topic: str, partition: int) -> Offsets | None:
    """Ask the leader; None if it does not answer, or is not the leader."""
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(TIMEOUT_S):
            return await _ask(port, topic, partition)
    return None


async def _ask(port: int, topic: str, partition: int) -> Offsets | None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        found = []
        for isolation in (0, 1):
            writer.write(_frame(topic, partition, isolation))
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            found.append(_offset(await reader.readexactly(size)))
    finally:
        writer.close()
    high_watermark, last_stable = found
    if high_watermark is None or last_stable is None:
        return None
    return Offsets(high_watermark, last_stable)


def _frame(topic: str, partition: int, isolation: int) -> bytes:
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(isolation),
        topics=(
            ListOffsetsTopic(
                name=TopicName(topic),
                partitions=(
                    ListOffsetsPartition(
                        partition_index=i32(partition),
                        current_leader_epoch=i32(-1),
                        timestamp=i64(LATEST),
                    ),
                ),
            ),
        ),
    )
    body = BytesIO()
    entity_writer(ListOffsetsRequest)(body, request)
    # API key, version, correlation id, no client id, no tags
    start = struct.pack(">hhihb", API_KEY, VERSION, isolation, -1, 0)
    frame = start + body.getvalue()
    return struct.pack(">i", len(frame)) + frame


def _offset(frame: bytes) -> int | None:
    """The offset of the one partition; None for an error."""
    read: Any = entity_reader(ListOffsetsResponse)
    response, _ = read(frame, 5)  # correlation id and tags
    partition = response.topics[0].partitions[0]
    return int(partition.offset) if int(partition.error_code.value) == 0 else None
