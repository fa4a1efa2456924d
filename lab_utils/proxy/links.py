"""The links between brokers: what one broker says to another crosses here, and can be stopped.

    broker 2 ── Fetch, "broker-2-fetcher-0" ──▶ link port of broker 1 ──▶ broker 1

A broker fetches from the leader at the address that the leader advertises for replication, which
is this port. Who is calling is in the first request's client id. A link that is cut loses what is
in flight on it and turns new connections away; one that is held keeps frames until it is healed;
one that is slow passes each frame on a little later.
Nothing is recorded: replication is loud, and what it comes to is in the metadata log.
"""

from __future__ import annotations

import asyncio
import re
import struct
from functools import partial
from typing import Final

from lab_utils.proxy.connections import WAITING_BYTES_LIMIT, Listener, Side
from lab_utils.proxy.faults.broker_fault import LinkState

CLIENT_ID_STARTS: Final = 14
# At one more the oldest is cut, one before all others that has not said that it is a broker.
CONNECTIONS: Final = 100
CALLER: Final = re.compile(rb"broker-(\d+)-")


class Link:
    """A pair of connections: a broker that calls, and the one that is called."""

    def __init__(self, link_proxy: LinkProxy) -> None:
        self._proxy = link_proxy
        self.caller: int | None = None
        self._waiting: list[tuple[Side, bytes]] = []
        self._ended = False
        side = partial(Side, on_room=self._listen, on_lost=self.end, on_crowded=self.end)
        self.near = side(
            on_made=lambda: link_proxy.remember(self),
            on_frame=lambda frame: self._take(self.far, frame),
            beside=lambda: self._waiting_bytes,
        )
        self.far: Side = side(
            on_made=self._arrived, on_frame=lambda frame: self._take(self.near, frame)
        )

    def flow(self) -> None:
        """Pass on what waits, if the link is open and both ends are there."""
        if self._ended or not self.far.is_open:
            return
        if self._state == "open":
            waiting, self._waiting = self._waiting, []
            for side, frame in waiting:
                side.write(frame)
            self._listen()

    def end(self) -> None:
        """Cut both connections; what is in flight is lost."""
        if not self._ended:
            self._ended = True
            self.near.abort()
            self.far.abort()
            self._proxy.forget(self)

    def _take(self, side: Side, frame: bytes) -> None:
        if self.caller is None and side is self.far:
            self.caller = _caller(frame)  # stays None for what no link of ours is about
        if self._state == "cut":
            self.end()
            return
        self._waiting.append((side, frame))
        self._in_time()
        self.flow()
        self._listen()

    def _arrived(self) -> None:
        if self._ended:
            self.far.abort()  # the caller did not wait for it
        for _ in self._waiting:
            self._in_time()
        self.flow()

    def _in_time(self) -> None:
        """A frame of a slow link goes on later; each by as much, so that none overtakes."""
        state, by_s = self._proxy.state(self.caller)
        if state == "slow":
            asyncio.get_running_loop().call_later(by_s, self._pass_on)

    def _pass_on(self) -> None:
        """Pass on the frame that has waited longest, if the link is still slow."""
        is_slow = not self._ended and self._state == "slow"
        if is_slow and self._waiting and self.far.is_open:
            side, frame = self._waiting.pop(0)
            side.write(frame)
            self._listen()

    @property
    def _state(self) -> LinkState:
        return self._proxy.state(self.caller)[0]

    @property
    def _waiting_bytes(self) -> int:
        return sum(len(frame) for _, frame in self._waiting)

    def _listen(self) -> None:
        """Read from a side as long as there is room for what it sends."""
        crowded = self._waiting_bytes > WAITING_BYTES_LIMIT
        self.near.listen(not (self.far.is_full or crowded))
        self.far.listen(not (self.near.is_full or crowded))


class LinkProxy(Listener):
    """The replication port of one broker, as the other brokers know it."""

    def __init__(self) -> None:
        super().__init__()
        self._states: dict[int, tuple[LinkState, float]] = {}
        self._links: dict[Link, None] = {}

    async def start(self) -> int:
        """Listen on loopback; return the port."""
        return await self.listen(lambda: Link(self).near)

    def cut_all(self) -> None:
        """Cut every connection that there is; new ones are welcome."""
        for link in list(self._links):
            link.end()

    def state(self, caller: int | None) -> tuple[LinkState, float]:
        """What becomes of frames from and to this caller, and after how many seconds."""
        return self._states.get(caller, ("open", 0.0)) if caller is not None else ("open", 0.0)

    def set(self, caller: int, state: LinkState, by_ms: int = 0) -> None:
        """Cut, hold, slow or open the link from this caller."""
        self._states[caller] = state, by_ms / 1000
        for link in list(self._links):
            if link.caller == caller:
                link.end() if state == "cut" else link.flow()

    def stopped(self) -> dict[int, LinkState]:
        """The callers whose link is not open."""
        return {it: state for it, (state, _) in self._states.items() if state != "open"}

    def remember(self, link: Link) -> None:
        """Somebody has connected, a broker as a rule: connect to ours."""
        if len(self._links) >= CONNECTIONS:
            min(self._links, key=lambda it: it.caller is not None).end()
        self._links[link] = None
        self.connect(link.far, link.end)

    def forget(self, link: Link) -> None:
        """Both connections are over."""
        self._links.pop(link, None)


def _caller(frame: bytes) -> int | None:
    """The broker that sent this request; None if its client id names none."""
    if len(frame) < CLIENT_ID_STARTS:
        return None
    (length,) = struct.unpack_from(">h", frame, CLIENT_ID_STARTS - 2)
    found = CALLER.match(frame[CLIENT_ID_STARTS : CLIENT_ID_STARTS + max(length, 0)])
    return int(found[1]) if found else None
