"""Sends each line of its input with kafka-python, and waits for what it is told."""

import os
import sys

from kafka import KafkaProducer
from kafka.errors import KafkaError

producer = KafkaProducer(
    bootstrap_servers=os.environ["BOOTSTRAP"],
    client_id=os.environ["CLIENT_ID"],
    request_timeout_ms=1500,
    delivery_timeout_ms=8000,
)
for line in sys.stdin:
    order = line.strip()
    try:
        place = producer.send(os.environ["TOPIC"], order.encode(), partition=0).get(timeout=20)
        print("acked", order, place.offset)
    except KafkaError as error:
        print("failed", order, type(error).__name__)
producer.close(timeout=5)
