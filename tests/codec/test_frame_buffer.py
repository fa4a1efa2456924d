"""A stream cut anywhere gives the same frames."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab_utils.codec.frame_buffer import (
    FRAME_LIMIT,
    LEAST,
    RECEIVE,
    SPARE_BYTES,
    SPARES,
    FrameBuffer,
)
from tests.proxy.wire import frame


def received(buffer: FrameBuffer, pieces: list[bytes]) -> list[bytes]:
    frames = []
    for piece in pieces:
        while piece:
            room = buffer.free()
            count = min(len(room), len(piece))
            room[:count] = piece[:count]
            buffer.received(count)
            frames.extend(iter(buffer.take, None))
            buffer.settle()
            piece = piece[count:]
    return frames


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_frames_do_not_depend_on_the_pieces(payloads: list[bytes], sizes: list[int]) -> None:
    """Whatever the network does to the stream, the frames are those that were sent."""
    stream = b"".join(frame(payload) for payload in payloads)
    pieces, at = [], 0
    while at < len(stream):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream[at : at + size])
        at += size

    assert [frame(payload) for payload in payloads] == received(FrameBuffer(), pieces)


def test_frames_larger_than_the_buffer() -> None:
    """Large and small frames follow each other without loss; the memory is given back."""
    frames = [frame(bytes(RECEIVE * 12)), frame(b"a"), frame(bytes(RECEIVE)), frame(b"b")]

    buffer = FrameBuffer()

    assert (frames, 0) == (received(buffer, [b"".join(frames)]), buffer.held_bytes)


def test_longer_than_the_limit_passes_in_pieces() -> None:
    """Nothing waits to be whole when it is longer than a frame may be; the limit is still one."""
    largest, buffer = FrameBuffer(limit=14), FrameBuffer(limit=13)
    pieces = [b"\x00\x00\x00\x0aten", b" bytes."]

    assert ([b"".join(pieces)], pieces) == (received(largest, pieces), received(buffer, pieces))
    assert (False, True) == (largest.is_raw, buffer.is_raw)


def test_negative_length_passes_in_pieces() -> None:
    """A length below zero is no Kafka; neither is the text of an HTTP request."""
    for start in (b"\xff\xff\xff\xfc", b"\x80\x00\x00\x00", b"GET "):
        assert [start, b"rest"] == received(FrameBuffer(), [start, b"rest"])
    assert int.from_bytes(b"GET ", "big") > FRAME_LIMIT


def test_announced_length_takes_no_memory() -> None:
    """A hundred connections that announce the most hold next to nothing until it comes.

    Some may get what larger frames have given back.
    """
    buffers = [FrameBuffer() for _ in range(100)]
    for buffer in buffers:
        received(buffer, [(FRAME_LIMIT - 4).to_bytes(4, "big") + bytes(1000)])

    assert sum(buffer.held_bytes for buffer in buffers) <= 100 * LEAST + SPARES * SPARE_BYTES


def test_waiting_part_is_not_overwritten() -> None:
    """All receive into one memory: what one has got is not what another gets."""
    one, other = FrameBuffer(), FrameBuffer()
    received(one, [frame(b"one")[:5]])
    received(other, [frame(b"other")[:5]])

    assert ([frame(b"one")], [frame(b"other")]) == (
        received(one, [frame(b"one")[5:]]), received(other, [frame(b"other")[5:]]),
    )  # fmt: skip
