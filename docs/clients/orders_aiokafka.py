"""Sends each line of its input with aiokafka, and waits for what it is told."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError


async def main() -> None:
    """Send the orders, one after the other."""
    producer = AIOKafkaProducer(
        bootstrap_servers=os.environ["BOOTSTRAP"],
        client_id=os.environ["CLIENT_ID"],
        request_timeout_ms=1500,
    )
    await producer.start()
    for line in sys.stdin:
        order = line.strip()
        try:
            place = await producer.send_and_wait(os.environ["TOPIC"], order.encode(), partition=0)
            print("acked", order, place.offset)
        except KafkaError as error:
            print("failed", order, type(error).__name__)
    await producer.stop()


asyncio.run(main())
