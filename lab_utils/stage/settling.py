"""Waiting until a cluster has come to rest, on conditions that it reports, with a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lab_utils.codec.log_files import LogEnd
from lab_utils.codec.metadata_log import NO_LEADER, Partition
from lab_utils.machine.broker import Broker
from lab_utils.stage.coordinators import Coordinators
from lab_utils.stage.observer import Observer

SETTLE_S: Final = 20
LOOK_S: Final = 0.02
UNSETTLED: Final = "the stage did not come to {} in its time"
WHOLE: Final = "all replicas in sync and coordinators that answer"


@dataclass(frozen=True)
class Settling:
    """What is known of some topics on these brokers."""

    observer: Observer
    brokers: Mapping[int, Broker]
    topics: frozenset[str]
    coordinators: Coordinators

    async def until_decided(self) -> bool:
        """Wait until each partition is led by a broker that runs, or by nobody.

        Where the only broker is down nobody decides, and nothing is waited for.
        """
        if len(self.brokers) == 1 and not self._alive():
            return True
        return await until(
            lambda: self._holds(lambda each: each.leader in {*self._alive(), NO_LEADER}), SETTLE_S
        )

    async def until_whole(self) -> bool:
        """Wait until all replicas are in sync, and readers may read each log to its end.

        And until a client that asks for a coordinator is answered by one.
        """
        if not await until(lambda: self._holds(self._is_in_sync), SETTLE_S):
            return False
        if not await until(self._are_readable, SETTLE_S):
            return False
        return await until(lambda: self.coordinators.answer(self.brokers), SETTLE_S)

    def _partitions(self) -> list[Partition]:
        return [each for each in self.observer.partitions() if each.topic in self.topics]

    def _holds(self, condition: Callable[[Partition], bool]) -> bool:
        found = self._partitions()
        return {each.topic for each in found} == self.topics and all(map(condition, found))

    def _alive(self) -> set[int]:
        running = {number for number, broker in self.brokers.items() if broker.state == "running"}
        # A lone broker is its own controller, and is not there to fence itself while it is down.
        return running - (self.observer.fenced if len(self.brokers) > 1 else set())

    def _is_in_sync(self, partition: Partition) -> bool:
        return partition.leader in self._alive() and set(partition.isr) == set(partition.replicas)

    async def _are_readable(self) -> bool:
        partitions = self._partitions()
        offsets = await self.observer.offsets(partitions)
        return len(offsets) == len(partitions) and all(
            self._ends(each) == {offsets[each.topic, each.partition].high_watermark}
            for each in partitions
        )

    def _ends(self, partition: Partition) -> set[int | None]:
        name = f"{partition.topic}-{partition.partition}"
        folders = (self.brokers[each].data_folder for each in partition.replicas)
        return {LogEnd(folder / name).look() for folder in folders}


async def until(look: Callable[[], bool | Awaitable[bool]], bound_s: float) -> bool:
    """Look again and again until it is so; was it, within the bound?"""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + bound_s, asyncio.Event()
    while True:
        seen = look()
        if (seen if isinstance(seen, bool) else await seen) is True:
            return True
        if loop.time() > deadline:
            return False
        # Nobody sets it: waiting for it is a pause.
        with suppress(TimeoutError):
            await asyncio.wait_for(pause.wait(), LOOK_S)
