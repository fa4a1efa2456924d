"""Do the coordinators of a stage answer? The first request to a fresh one meets its start.

    FindCoordinator                        each broker names a coordinator, of whatever name
    DescribeGroups, DescribeTransactions   the one that it names has read its partition
    InitProducerId                         each broker has producer ids; asked once, as it gives one

A client that came before would be refused, and would wait and ask again: that would be on the wire
of a run, beside what a fault has done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from lab_utils.codec.find_coordinator import NAMES, Answered, ask, gives_producer_id
from lab_utils.machine.broker import Broker

NOBODY: Final = -1


class Coordinators:
    """Asks the brokers of one stage, and keeps which of their processes has producer ids."""

    def __init__(self) -> None:
        self._have_ids: set[int] = set()

    async def answer(self, brokers: Mapping[int, Broker]) -> bool:
        """Does whoever asks any of these brokers now find coordinators that answer?

        A group or a transaction of any name has one, and it refuses neither for its own start.
        """
        running = {number: it for number, it in brokers.items() if it.state == "running"}
        ports = [it.node.ports.direct for it in running.values()]
        said = dict(zip(running, await asyncio.gather(*map(ask, ports)), strict=True))
        return all(_agree(each, said) for each in said.values()) and await self._give_ids(
            running.values()
        )

    async def _give_ids(self, brokers: Iterable[Broker]) -> bool:
        processes = {pid: it.node.ports.direct for it in brokers if (pid := it.pid) is not None}
        self._have_ids &= processes.keys()
        for pid in processes.keys() - self._have_ids:
            if await gives_producer_id(processes[pid]):
                self._have_ids.add(pid)
        return self._have_ids == processes.keys()


def _agree(one: Answered, said: Mapping[int, Answered]) -> bool:
    """Does each coordinator that this broker names answer?"""
    named = ((name, said.get(one.found.get(name, NOBODY))) for name in NAMES)
    return all(coordinator and name in coordinator.names for name, coordinator in named)
