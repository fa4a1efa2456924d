"""What a transaction costs: records a second, by how many records share one.

Plain producers on one partition, not recorded and past the proxy, so that the broker is measured
and not the lab. A measurement is one producer from its first record to the last answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Producer

VALUE: Final = b"x" * 100
KEY: Final = {"enable.idempotence": True}
# How many records a measurement sends: so many that it takes some tenths of a second.
PLAIN_RECORDS: Final = 100_000
TRANSACTIONS: Final = {1000: 20, 100: 60, 10: 100, 1: 120}


Cost = dict[str, Any]


def costs(bootstrap: str, topic: str, repeats: int) -> Iterator[Cost]:
    """Measure each mode so many times, in turn, after one round that is not counted.

    Keys of a measurement: mode, records, records_a_second, and ms_a_transaction, None without one.
    """
    for repeat in range(repeats + 1):
        round_ = [
            _plain(bootstrap, topic, "not idempotent", {}),
            _plain(bootstrap, topic, "idempotent", KEY),
            *(_transactions(bootstrap, topic, size) for size in TRANSACTIONS),
        ]
        if repeat:
            yield from round_


def _plain(bootstrap: str, topic: str, mode: str, settings: dict[str, Any]) -> Cost:
    producer = _producer(bootstrap, settings)
    _write(producer, topic, 1)  # the connection and the producer id are not measured
    producer.flush()
    start = time.perf_counter()
    _write(producer, topic, PLAIN_RECORDS)
    producer.flush()
    return _cost(mode, PLAIN_RECORDS, time.perf_counter() - start)


def _transactions(bootstrap: str, topic: str, size: int) -> Cost:
    producer = _producer(bootstrap, {"transactional.id": f"{topic}-{size}"})
    producer.init_transactions()
    start = time.perf_counter()
    for _ in range(TRANSACTIONS[size]):
        producer.begin_transaction()
        _write(producer, topic, size)
        producer.commit_transaction()
    seconds, many = time.perf_counter() - start, TRANSACTIONS[size]
    return _cost(f"{size} in a transaction", size * many, seconds, seconds / many * 1000)


def _cost(mode: str, records: int, seconds: float, ms_each: float | None = None) -> Cost:
    return {"mode": mode, "records": records, "records_a_second": records / seconds,
            "ms_a_transaction": ms_each}  # fmt: skip


def _write(producer: Producer, topic: str, records: int) -> None:
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, VALUE, partition=0)
                break
            except BufferError:
                producer.poll(0.01)  # the queue is full: let some of it leave


def _producer(bootstrap: str, settings: dict[str, Any]) -> Producer:
    names = {"bootstrap.servers": bootstrap, "client.id": "cost", "log_level": 0}
    return Producer({**names, "acks": "all", "linger.ms": 0, **settings})
