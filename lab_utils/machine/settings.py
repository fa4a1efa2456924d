"""server.properties: what a broker of the lab is told, and where it differs from the default.

The differences are short timers and small internal topics; nothing that a lab makes a claim about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# Each beside Kafka's default; the notebooks show the default too (kafka.apache.org/43).
TIMERS: Final = {
    # A follower that lags leaves the ISR after 1 to 1.5 s, a dead broker is fenced after 2 s:
    # the first has to come before the second, also for a broker that is paused.
    "broker.session.timeout.ms": "2000",  # 9000
    "broker.heartbeat.interval.ms": "200",  # 2000
    "replica.lag.time.max.ms": "1000",  # 30000
    "replica.fetch.wait.max.ms": "200",  # 500; until then a follower asks for no new topic
    "replica.fetch.backoff.ms": "100",  # 1000
    "group.initial.rebalance.delay.ms": "0",  # 3000
    "group.min.session.timeout.ms": "1000",  # 6000
    "group.consumer.min.session.timeout.ms": "1000",  # 45000
    "group.consumer.session.timeout.ms": "1000",  # 45000
    "group.consumer.min.heartbeat.interval.ms": "100",  # 5000
    "group.consumer.heartbeat.interval.ms": "200",  # 5000
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",  # 10000
}
# A lone broker is its own controller. Had it a session as in TIMERS, it would fence itself for some
# 20 ms when it goes on after a longer pause; and a client that asks in between is told that there
# is no broker, and has none from then on (librdkafka 2.16, with metadata.recovery.strategy=none).
# One that is started again has to have it: if it was killed it may not register until its earlier
# session is over.
ALONE: Final = {
    "broker.session.timeout.ms": "2147483647",  # 9000
    "broker.heartbeat.interval.ms": "2000",  # 2000; nobody waits for one
}
SMALL: Final = {
    "offsets.topic.num.partitions": "1",  # 50
    # No record each half second in a log of metadata that nobody changes.
    "metadata.max.idle.interval.ms": "0",  # 500
    # How often a broker notes up to where its logs are flushed; a power cut waits for it. Each
    # note is flushed itself: ten in a second, and five heartbeats, took half of what a lone
    # broker takes at rest.
    "log.flush.offset.checkpoint.interval.ms": "500",  # 60000
    "log.initial.task.delay.ms": "100",  # 30000, before it does so for the first time
    "num.network.threads": "2",  # 3
    "num.io.threads": "4",  # 8
    "log.cleaner.dedupe.buffer.size": "4194304",  # 128 MiB
    "log.cleaner.backoff.ms": "500",  # 15000, until it looks again what it may compact
    # Records are old where a topic says so; a workload may give them times of long ago.
    "log.retention.check.interval.ms": "500",  # 300000
    "log.retention.ms": "-1",  # 7 days
    "auto.create.topics.enable": "false",  # true; a topic is made by the lab, on purpose
}
LISTENERS: Final = ("DIRECT", "LAB", "REPLICATION", "CONTROLLER")


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one broker: its own four, and the proxy's, which clients are told."""

    direct: int
    lab: int
    replication: int
    controller: int
    proxy: int
    replication_proxy: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """What one Kafka process is: its id, its roles, and who votes in the quorum."""

    node_id: int
    ports: Ports
    roles: str = "broker,controller"
    voters: str | None = None
    replicas: int = 1

    def properties(self, data: str, *, is_new: bool) -> dict[str, str]:
        """All of server.properties.

        `data` is below the folder in which Kafka runs: a path may have commas, or letters that
        Kafka cannot read from a file, and a name has neither. `is_new`: nobody has started it yet.
        """
        is_alone = self.voters is None and "broker" in self.roles and is_new
        return {
            "process.roles": self.roles,
            "node.id": str(self.node_id),
            "log.dirs": data,
            "controller.quorum.voters": self.voters
            or f"{self.node_id}@127.0.0.1:{self.ports.controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{it}:PLAINTEXT" for it in LISTENERS),
            **self._listeners(),
            **_internal_topics(self.replicas),
            **TIMERS,
            **(ALONE if is_alone else {}),
            **SMALL,
        }

    @property
    def listening(self) -> dict[str, int]:
        """The port of each listener that the process opens, by the listener's name."""
        ports = self.ports
        brokers = {"DIRECT": ports.direct, "LAB": ports.lab, "REPLICATION": ports.replication}
        controllers = {"CONTROLLER": ports.controller}
        return (brokers if "broker" in self.roles else {}) | (
            controllers if "controller" in self.roles else {}
        )

    def _listeners(self) -> dict[str, str]:
        listeners = {"listeners": _addresses(self.listening)}
        if "broker" not in self.roles:
            return listeners
        told = {
            "DIRECT": self.ports.direct,
            "LAB": self.ports.proxy,
            "REPLICATION": self.ports.replication_proxy or self.ports.replication,
        }
        return listeners | {
            "advertised.listeners": _addresses(told),
            "inter.broker.listener.name": "REPLICATION",
        }


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _internal_topics(replicas: int) -> dict[str, str]:
    """Kafka's own topics on as many brokers as there are."""
    in_sync = str(min(replicas, 2))
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
    }


def text(properties: Mapping[str, str]) -> str:
    """Properties as the lines of a file."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())
