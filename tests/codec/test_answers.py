"""What faults make of a frame can be read back by kio, and says what it should."""

from __future__ import annotations

import pytest

from lab_utils.codec.answers import corrupted, refusal
from lab_utils.codec.batches import DamagedBatch, read_batch
from lab_utils.codec.frames import RESPONSE_START, Response, read_request, topic_partitions
from lab_utils.proxy.faults.refuse import REFUSABLE
from tests.codec.samples import TOPIC_ID, sample_request, versions
from tests.proxy import wire

EACH_VERSION = [(api, version) for api in REFUSABLE for version in versions(api)]


@pytest.mark.parametrize(("api", "version"), EACH_VERSION)
def test_refusal_in_each_version(api: str, version: int) -> None:
    """Whatever a client speaks, it is told the error, about what it asked for."""
    request = read_request(sample_request(api, version, 7), {TOPIC_ID: "a name"})
    answer = Response(refusal(request, "COORDINATOR_NOT_AVAILABLE"), request)
    about = set(topic_partitions(answer.body, {TOPIC_ID: "a name"}))

    assert 7 == RESPONSE_START.unpack_from(answer.frame)[1]
    assert "COORDINATOR_NOT_AVAILABLE" == answer.error
    if (api, version) < ("AddPartitionsToTxn", 4) or api != "AddPartitionsToTxn":
        assert set(request.topic_partitions) == about


def test_corrupted_partition_is_the_chosen_one() -> None:
    """Of two partitions with the same records, only the chosen one is damaged."""
    same = wire.batch([b"0"])
    two = wire.produce(1, same)[4:]
    at = two.index(b"\x00\x00\x00\x01\x00\x00\x00\x00" + len(same).to_bytes(4, "big"))
    tail = len(same).to_bytes(4, "big") + same
    two = two[:at] + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x00" + tail + b"\x00\x00\x00\x01" + tail
    request = read_request(wire.frame(two))
    frame = corrupted(request, request.produced[1])
    first, second = read_request(frame).produced

    assert read_batch(frame[first.batches[0].start :]).count == 1
    with pytest.raises(DamagedBatch):
        read_batch(frame[second.batches[0].start :])
