"""The proxy: the lab's only liar, and the witness of all that crosses the wire.

    client ──▶ proxy port ──▶ relay ──▶ broker's own port      one relay for each connection
                                │
                     fault board · record(event)

It runs in the asyncio loop of the stage server and never blocks it. It rewrites no address:
clients come because the broker advertises the proxy's port. While the broker is down, a client
that connects is turned away at once, as it would be without a proxy.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import Final
from uuid import UUID

from lab_utils.proxy.armed import FaultBoard, Record
from lab_utils.proxy.relay import Relay
from lab_utils.proxy.witness import WireWitness

Address = tuple[str, int]

# At one more the client is cut that has been idle the longest, as a broker does (max.connections);
# a client of a run only when there is no other.
CONNECTIONS: Final = 200


class Proxy:
    """The proxy of one broker.

    upstream      where the broker listens; None turns every client away
    topic_names   the names of topic ids, learned from Metadata; proxies of a stage share it
    """

    def __init__(
        self,
        board: FaultBoard,
        record: Record,
        broker_id: int,
        topic_names: dict[UUID, str],
    ) -> None:
        self.upstream: Address | None = None
        self._board = board
        self._record = record
        self._broker_id = broker_id
        self._topic_names = topic_names
        self._server: asyncio.Server | None = None
        self._relays: set[Relay] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._numbers = count(1)

    async def start(self) -> int:
        """Listen on loopback; return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: self._relay().client, "127.0.0.1", 0, backlog=1024
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        for connecting in list(self._connecting):
            connecting.cancel()
        self.cut_all()
        await asyncio.gather(*self._connecting, return_exceptions=True)

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
        connecting = asyncio.get_running_loop().create_task(self._connect(relay))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, relay: Relay) -> None:
        """Connect to the broker, or turn the client away."""
        if self.upstream is not None:
            with suppress(OSError):
                await asyncio.get_running_loop().create_connection(
                    lambda: relay.broker, *self.upstream
                )
                return
        relay.abort("broker")
