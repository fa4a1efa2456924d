"""Sends each line of its input with confluent-kafka, and waits for what it is told."""

import os
import sys
from typing import Any

from confluent_kafka import KafkaException, Producer

producer = Producer(
    {
        "bootstrap.servers": os.environ["BOOTSTRAP"],
        "client.id": os.environ["CLIENT_ID"],
        "socket.timeout.ms": 1500,
        "message.timeout.ms": 8000,
        "linger.ms": 0,
        "log_level": 0,
    }
)


def tell(error: Any, message: Any) -> None:
    """Print the report on one order."""
    order = message.value().decode()
    print(f"failed {order} {error.name()}" if error else f"acked {order} {message.offset()}")


for line in sys.stdin:
    try:
        producer.produce(os.environ["TOPIC"], line.strip(), partition=0, on_delivery=tell)
    except KafkaException as error:
        print("failed", line.strip(), error.args[0].name())
    producer.flush()
