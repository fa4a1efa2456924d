"""What can be done to the brokers of a stage by a call: the verbs of the panel, and waiting.

    lab.brokers.pause(2)
    lab.brokers.wait_for_isr(run.topic, {1, 3})

A workload may use it to break things step by step. What a grader breaks is data (faults).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from lab_utils.stage.client import Stage
from lab_utils.waiting import wait_until

TIMEOUT_S: Final = 20


class Brokers:
    """The brokers of one stage. Each verb returns when it is done."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def kill(self, broker: int) -> None:
        """SIGKILL: nothing is handed over, nothing is flushed."""
        self._stage.broker("kill", broker)

    def stop(self, broker: int) -> None:
        """SIGTERM: it hands its leaderships over, flushes and ends."""
        self._stage.broker("stop", broker)

    def pause(self, broker: int) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        self._stage.broker("pause", broker)

    def resume(self, broker: int) -> None:
        """SIGCONT: it goes on where it stood."""
        self._stage.broker("resume", broker)

    def start(self, broker: int) -> None:
        """Start it again, with the log that it has."""
        self._stage.broker("start", broker)

    def power_cut(self, broker: int) -> None:
        """A simulation: SIGKILL, and its log is cut back to what had been flushed to disk."""
        self._stage.broker("power_cut", broker)

    def cut_link(self, a: int, b: int) -> None:
        """Two brokers lose their connections, and get no new ones."""
        self._stage.link(a, b, "cut")

    def hold_link(self, a: int, b: int) -> None:
        """What two brokers say to each other is held."""
        self._stage.link(a, b, "hold")

    def heal_link(self, a: int, b: int) -> None:
        """The link is whole again; what was held goes on."""
        self._stage.link(a, b, "heal")

    def heal(self) -> None:
        """Every link is whole and every broker runs."""
        self._stage.heal()

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """The broker that leads a partition; None if nobody does."""
        leader: int = self._decided(topic, partition)["leader"]
        return leader if leader >= 0 else None

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The in-sync replicas of a partition, as the controller has decided."""
        return sorted(self._decided(topic, partition)["isr"])

    def wait_for_isr(self, topic: str, brokers: Iterable[int], partition: int = 0) -> None:
        """Wait until exactly these brokers are in sync."""
        wanted = sorted(brokers)
        wait_until(
            lambda: self.in_sync(topic, partition) == wanted,
            f"the ISR of {topic} to be {wanted}",
            timeout_s=TIMEOUT_S,
            last_seen=lambda _: str(self.in_sync(topic, partition)),
        )

    def wait_for_leader(self, topic: str, *, other_than: int, partition: int = 0) -> int | None:
        """Wait until another broker leads, or nobody does; return which."""

        def decided() -> bool:
            return self.leader(topic, partition) != other_than

        wait_until(decided, f"a leader of {topic} other than {other_than}", timeout_s=TIMEOUT_S)
        return self.leader(topic, partition)

    def __repr__(self) -> str:
        states = (f"{each['id']} {each['state']}" for each in self._stage.state()["brokers"])
        return f"<Brokers: {', '.join(states)}>"

    def _decided(self, topic: str, partition: int) -> dict[str, Any]:
        return next(
            each for each in self._stage.partitions(topic) if each["partition"] == partition
        )
