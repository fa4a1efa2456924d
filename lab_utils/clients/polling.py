"""The loop around poll(): records until the topic has been read to its end.

Anybody could write it; the labs are about what stands inside it. It commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from confluent_kafka import TopicPartition

from lab_utils.clients.consumer import RecordingConsumer

# A record that has not come by then is not waited for: a group may need its session timeout first.
IDLE_S_MAX: Final = 15.0
WAIT_S: Final = 0.1
# How long a batch that is not full waits for its next record.
FILLED_UP_S: Final = 0.3


def batches(
    consumer: RecordingConsumer,
    size: int,
    partitions: int = 1,
    is_done: Callable[[], bool] = lambda: True,
) -> Iterator[list[Any]]:
    """Lists of up to `size` records, until every assigned partition is read to its end.

    There must be as many as `partitions`, and an end is one only if `is_done` says so too.
    """
    idle_until = time.monotonic() + IDLE_S_MAX
    while time.monotonic() < idle_until:
        read = [consumer.poll(WAIT_S)] if size == 1 else consumer.consume(size, FILLED_UP_S)
        if records := [message for message in read if message is not None and not message.error()]:
            yield records
            idle_until = time.monotonic() + IDLE_S_MAX
        elif is_at_the_end(consumer, partitions) and is_done():
            return


def is_at_the_end(consumer: RecordingConsumer, partitions: int) -> bool:
    """Has the consumer read each of its partitions to the end, and has it so many?"""
    assigned = consumer.assignment()
    ended = [consumer.ended.get((place.topic, place.partition)) for place in assigned]
    if len(assigned) < partitions or None in ended:
        return False
    ends = [consumer.get_watermark_offsets(place, timeout=5)[1] for place in assigned]
    return all(read is not None and read >= end for read, end in zip(ended, ends, strict=True))


def is_committed_to_the_end(consumer: RecordingConsumer, topic: str) -> bool:
    """Has the group committed all that is in the topic, and is there anything in it?"""
    partitions = consumer.list_topics(topic, timeout=5).topics[topic].partitions
    places = consumer.committed([TopicPartition(topic, number) for number in partitions], timeout=5)
    ends = [consumer.get_watermark_offsets(place, timeout=5)[1] for place in places]
    return any(ends) and all(p.offset >= end for p, end in zip(places, ends, strict=True))
