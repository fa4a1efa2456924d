"""Forwards connections between a sandbox and what is outside, byte by byte, and counts them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

CHUNK: Final = 65_536
# Each takes two open files of the grader's, and a lab's clients have some dozens.
CONNECTIONS_MAX: Final = 100

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Connect = Callable[[], Coroutine[Any, Any, tuple[Reader, Writer]]]


class Forwarder(threading.Thread):
    """Forwards each connection that comes to a listening socket to where `ways` leads.

    connections_max  how many there may be at once; a further one is closed
    bytes_max  what may come back altogether; more is not forwarded, and then `too_much` is called
    """

    def __init__(
        self,
        ways: Mapping[socket.socket, Connect],
        *,
        connections_max: int = CONNECTIONS_MAX,
        bytes_max: int | None = None,
        too_much: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(daemon=True)
        self._ways = dict(ways)
        self._connections_max, self._connections = connections_max, 0
        self._bytes_max = bytes_max
        self._too_much = too_much
        self._back = 0
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()

    def run(self) -> None:
        """Forward until it is stopped, or too much has come back."""
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    def stop(self) -> None:
        """Close every connection and every socket; return when they are closed."""
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopped.set)
        self.join()

    async def _serve(self) -> None:
        servers = [
            await asyncio.start_server(partial(self._carry, connect), sock=listener)
            for listener, connect in self._ways.items()
        ]
        await self._stopped.wait()
        for server in servers:
            server.close()
        # Also those of a connection that came at the very last.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            # Each begins: of one that is cancelled before, Python 3.11 prints a traceback.
            await asyncio.wait(others, timeout=0)
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        if self._bytes_max is not None and self._back > self._bytes_max:
            self._too_much()

    async def _carry(self, connect: Connect, reader: Reader, writer: Writer) -> None:
        if self._connections >= self._connections_max:
            writer.close()
            return
        self._connections += 1
        try:
            await self._carry_one(connect, reader, writer)
        finally:
            self._connections -= 1

    async def _carry_one(self, connect: Connect, reader: Reader, writer: Writer) -> None:
        try:
            theirs, ours = await connect()
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        # When one side ends, so does the other: a broker that was killed is gone at once.
        ways = [asyncio.ensure_future(_pump(reader, ours)),
                asyncio.ensure_future(_pump(theirs, writer, self._count))]  # fmt: skip
        with suppress(asyncio.CancelledError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        ours.close()
        writer.close()

    def _count(self, data: bytes) -> bool:
        """May this be carried back?"""
        self._back += len(data)
        if self._bytes_max is None or self._back <= self._bytes_max:
            return True
        self._stopped.set()
        return False


async def _pump(
    reader: Reader, writer: Writer, may_go_on: Callable[[bytes], bool] = lambda _: True
) -> None:
    with suppress(OSError):
        while (data := await reader.read(CHUNK)) and may_go_on(data):
            writer.write(data)
            await writer.drain()
