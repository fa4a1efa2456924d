"""Up to where partitions may be read: their high watermarks and last stable offsets.

One ListOffsets request to the leader's DIRECT listener for each isolation level, by kio. The stage
asks twenty times a second, so the connection is kept. A broker that does not answer in time is
simply not heard.

AdminClient.list_offsets asks the same of a calm cluster. It does not here, where brokers are paused
and killed: of a paused leader it returns the offset -1001 and no error, and it sends the leader
epoch that it remembers, so that a leader that has just been restarted refuses it
(FENCED_LEADER_EPOCH).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from lab_utils.codec.cursor import entity_reader, framed  # the first to load kio

# isort: split
from kio.schema.list_offsets.v6.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

LATEST: Final = -1
TIMEOUT_S: Final = 0.3
ISOLATION_LEVELS: Final = (0, 1)

Log = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Offsets:
    """The first offset that a read_uncommitted, and a read_committed reader may not read yet."""

    high_watermark: int
    last_stable: int


class OffsetsOfLeader:
    """Asks one broker for the offsets of partitions that it leads."""

    def __init__(self) -> None:
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def ask(self, port: int, logs: Iterable[Log]) -> dict[Log, Offsets]:
        """The offsets by topic and partition; what the broker does not answer is left out.

        `port` is where it listens now: one that was started again may have another.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    return await self._ask(port, sorted(logs))
            except BaseException as error:
                self.close()  # what it may still answer is nobody's
                if isinstance(error, OSError | asyncio.IncompleteReadError):
                    return {}
                raise

    def close(self) -> None:
        """End the connection; the next question makes another."""
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    async def _ask(self, port: int, logs: list[Log]) -> dict[Log, Offsets]:
        reader, writer = await self._connected(port)
        writer.write(b"".join(_frame(logs, isolation) for isolation in ISOLATION_LEVELS))
        found = []
        for _ in ISOLATION_LEVELS:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            found.append(dict(_offsets(await reader.readexactly(size))))
        high, stable = found
        return {log: Offsets(high[log], stable[log]) for log in high.keys() & stable.keys()}

    async def _connected(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._connection is not None:
            reader = self._connection[0]
            if reader.at_eof() or reader.exception() is not None:  # the broker has died since
                self.close()
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", port)
        return self._connection


def _frame(logs: list[Log], isolation: int) -> bytes:
    header = ListOffsetsRequest.__header_schema__(
        request_api_key=ListOffsetsRequest.__api_key__,
        request_api_version=ListOffsetsRequest.__version__,
        correlation_id=i32(isolation),
        client_id=None,
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(isolation),
        topics=tuple(
            ListOffsetsTopic(name=TopicName(topic), partitions=tuple(_asked(it) for _, it in each))
            for topic, each in groupby(logs, key=itemgetter(0))
        ),
    )
    return framed(header, request)


def _asked(partition: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(
        partition_index=i32(partition), current_leader_epoch=i32(-1), timestamp=i64(LATEST)
    )


def _offsets(frame: bytes) -> Iterator[tuple[Log, int]]:
    """The offset of each partition that has no error."""
    read: Any = entity_reader(ListOffsetsResponse)
    response, _ = read(frame, 5)  # correlation id and tags
    for topic in response.topics:
        for each in topic.partitions:
            if int(each.error_code.value) == 0:
                yield (str(topic.name), int(each.partition_index)), int(each.offset)
