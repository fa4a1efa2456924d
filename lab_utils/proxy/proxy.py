"""The proxy: the lab's only liar, and the witness of all that crosses the wire.

    client ──▶ proxy port ──▶ relay ──▶ broker's own port      one relay for each connection
                                │
                     fault board · record(event)

It runs in the asyncio loop of the stage server and never blocks it. It rewrites no address:
clients come because the broker advertises the proxy's port. While the broker is down, a client
that connects is turned away at once, as it would be without a proxy.
"""

from __future__ import annotations

from itertools import count
from typing import Final
from uuid import UUID

from lab_utils.proxy.armed import FaultBoard, Record
from lab_utils.proxy.connections import Listener
from lab_utils.proxy.relay import Relay
from lab_utils.proxy.witness import WireWitness

# At one more the client is cut that has been idle the longest, as a broker does (max.connections);
# a client of a run only when there is no other.
CONNECTIONS: Final = 200


class Proxy(Listener):
    """The proxy of one broker; without an upstream it turns every client away.

    topic_names   the names of topic ids, learned from Metadata; proxies of a stage share it
    """

    def __init__(
        self,
        board: FaultBoard,
        record: Record,
        broker_id: int,
        topic_names: dict[UUID, str],
    ) -> None:
        super().__init__()
        self._board = board
        self._record = record
        self._broker_id = broker_id
        self._topic_names = topic_names
        self._relays: set[Relay] = set()
        self._numbers = count(1)

    async def start(self) -> int:
        """Listen on loopback; return the port."""
        return await self.listen(lambda: self._relay().client)

    def cut_all(self) -> None:
        """Cut every connection that there is; new ones are welcome."""
        for relay in list(self._relays):
            relay.abort("stage")

    def serves(self, run: str) -> bool:
        """Has a client of this run still a connection, or the broker work of one?"""
        return any(relay.run == run for relay in self._relays)

    def _relay(self) -> Relay:
        name = f"b{self._broker_id}-{next(self._numbers)}"
        return Relay(
            WireWitness(name, self._broker_id, self._record),
            self._board,
            self._topic_names,
            on_made=self._begin,
            on_end=self._relays.discard,
        )

    def _begin(self, relay: Relay) -> None:
        if len(self._relays) >= CONNECTIONS:
            idle = min(self._relays, key=lambda it: (it.run != "", it.moved_at))
            self._relays.discard(idle)
            idle.abort("stage")
        self._relays.add(relay)
        self.connect(relay.broker, lambda: relay.abort("broker"))
