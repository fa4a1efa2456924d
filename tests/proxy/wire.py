"""Frames of Kafka's protocol written out by hand, one field a line, for the tests.

Nothing here uses the code under test or kio.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c

CLIENT_ID = "03-b.producer-1"


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = b""
    while zigzag >= 0x80:
        out += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    return out + bytes([zigzag])


def request(
    api_key: int, version: int, correlation_id: int, body: bytes, client_id: str = CLIENT_ID
) -> bytes:
    """A request with header version 1."""
    return frame(
        struct.pack(">h", api_key)
        + struct.pack(">h", version)
        + struct.pack(">i", correlation_id)
        + string(client_id)
        + body
    )


def heartbeat(correlation_id: int, client_id: str = CLIENT_ID) -> bytes:
    """Heartbeat, version 0."""
    body = (
        string("group")
        + struct.pack(">i", 1)  # generation
        + string("member")
    )  # fmt: skip
    return request(12, 0, correlation_id, body, client_id)


def heartbeat_answer(correlation_id: int, error: int = 0) -> bytes:
    return frame(struct.pack(">i", correlation_id) + struct.pack(">h", error))


def record(offset_delta: int, value: bytes | None, timestamp_delta_ms: int = 0) -> bytes:
    body = (
        b"\x00"  # attributes
        + varint(timestamp_delta_ms)
        + varint(offset_delta)
        + varint(-1)  # no key
        + (varint(-1) if value is None else varint(len(value)) + value)
        + varint(0)  # no headers
    )
    return varint(len(body)) + body


def batch(
    values: Sequence[bytes | None],
    *,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
    records: bytes | None = None,
) -> bytes:
    """A record batch, format 2."""
    if records is None:
        records = b"".join(record(delta, value) for delta, value in enumerate(values))
    covered_by_crc = (
        struct.pack(">h", attributes)
        + struct.pack(">i", len(values) - 1)  # last offset delta
        + struct.pack(">q", 1000)  # first timestamp
        + struct.pack(">q", 1000)  # largest timestamp
        + struct.pack(">q", producer_id)
        + struct.pack(">h", producer_epoch)
        + struct.pack(">i", sequence)
        + struct.pack(">i", len(values))
        + records
    )
    rest = (
        struct.pack(">i", 0)  # leader epoch
        + b"\x02"  # format
        + struct.pack(">I", crc32c(covered_by_crc))
        + covered_by_crc
    )
    return struct.pack(">q", base_offset) + struct.pack(">i", len(rest)) + rest


def produce(
    correlation_id: int,
    records: bytes | None = None,
    *,
    topic: str = "orders",
    partition: int = 0,
    acks: int = -1,
    client_id: str = CLIENT_ID,
) -> bytes:
    """Produce, version 3, with one partition."""
    records = batch([b"0"]) if records is None else records
    body = (
        struct.pack(">h", -1)  # no transactional id
        + struct.pack(">h", acks)
        + struct.pack(">i", 3000)  # time-out
        + struct.pack(">i", 1)  # one topic
        + string(topic)
        + struct.pack(">i", 1)  # one partition
        + struct.pack(">i", partition)
        + struct.pack(">i", len(records))
        + records
    )
    return request(0, 3, correlation_id, body, client_id)


def produce_answer(correlation_id: int, *, error: int = 0, offset: int = 7) -> bytes:
    return frame(
        struct.pack(">i", correlation_id)
        + struct.pack(">i", 1)  # one topic
        + string("orders")
        + struct.pack(">i", 1)  # one partition
        + struct.pack(">i", 0)
        + struct.pack(">h", error)
        + struct.pack(">q", offset)
        + struct.pack(">q", -1)  # append time
        + struct.pack(">i", 0)  # throttle time
    )
