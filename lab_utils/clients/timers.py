"""The client settings a lab sets for you: what a learner would otherwise wait for.

They change how long things take and how many records share a request, never what is promised.
A learner's own configuration wins over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Setting:
    """One client setting of the lab beside librdkafka's default."""

    name: str
    lab: int | str
    default: int | str
    why: str


PRODUCER: Final = (
    Setting("batch.num.messages", 1, 10000, "one order is one request, so that you can see it"),
    Setting("linger.ms", 0, 5, "an order is sent at once"),
    Setting("socket.timeout.ms", 3000, 60000, "a request without an answer is given up sooner"),
    Setting("message.timeout.ms", 15000, 300000, "an order without an ack is given up sooner"),
    Setting("retry.backoff.ms", 50, 100, "a retry comes sooner"),
    Setting("reconnect.backoff.ms", 20, 100, "a lost connection is opened again sooner"),
    Setting("reconnect.backoff.max.ms", 200, 10000, "and also after several attempts"),
)

# message.timeout.ms may not be longer than the transaction's; left out, the client sees to it.
TRANSACTIONAL: Final = (
    *(setting for setting in PRODUCER if setting.name != "message.timeout.ms"),
    Setting("transaction.timeout.ms", 10000, 60000, "an abandoned transaction ends sooner"),
)

CONSUMER: Final = (
    Setting("auto.offset.reset", "earliest", "largest", "a new group starts at the beginning"),
    Setting("fetch.wait.max.ms", 50, 500, "an empty fetch returns sooner"),
    Setting("socket.timeout.ms", 3000, 60000, "a request without an answer is given up sooner"),
    Setting("auto.commit.interval.ms", 100, 5000, "what is committed by a timer is so sooner"),
    Setting("session.timeout.ms", 6000, 45000, "a dead member is noticed sooner"),
    Setting("heartbeat.interval.ms", 500, 3000, "a member hears of a rebalance sooner"),
    Setting("reconnect.backoff.ms", 20, 100, "a lost connection is opened again sooner"),
    Setting("reconnect.backoff.max.ms", 200, 10000, "and also after several attempts"),
)


# Of the classic group protocol only (KIP-848).
CLASSIC: Final = ("session.timeout.ms", "heartbeat.interval.ms")


def values(settings: Iterable[Setting]) -> dict[str, int | str]:
    """The settings as a client configuration."""
    return {setting.name: setting.lab for setting in settings}
