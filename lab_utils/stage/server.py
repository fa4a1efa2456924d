"""The stage server: a process of its own that owns the brokers, so that a kernel may die.

It listens on loopback; what it answers is in routes.py.
It ends when its owner's process ends, when it is told to, or after an idle hour.
"""

from __future__ import annotations

import asyncio
import ctypes
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from tornado.netutil import bind_sockets

from lab_utils.machine.jars import CURRENT, SECTIONS
from lab_utils.machine.prepare import prepare
from lab_utils.machine.quick_start import Kafka
from lab_utils.processes import open_many_files
from lab_utils.single_server import Life, edition
from lab_utils.stage.cluster import Cluster
from lab_utils.stage.routes import http_server

IDLE_S: Final = 3600
LOOK_S: Final = 0.5
# mallopt's M_MMAP_THRESHOLD: larger blocks are mapped, each for itself.
MMAP_THRESHOLD: Final = -3
LARGE_BLOCK: Final = 128 * 1024


class End:
    """When the server ends: when it is told to, its owner is gone, or nobody has spoken to it."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._over = asyncio.Event()
        self.spoken_to_at = time.monotonic()

    def end(self) -> None:
        """It is over."""
        self._over.set()

    @property
    def is_over(self) -> bool:
        """Was the end asked for?"""
        return self._over.is_set()

    async def wait(self, look: Callable[[], object]) -> None:
        """Return when it is over; call `look` twice a second until then."""
        while not (self._life.is_forsaken() or self._is_idle()):
            look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_S)
                return

    def _is_idle(self) -> bool:
        return not self._life.has_owner and time.monotonic() - self.spoken_to_at > IDLE_S


async def serve(life: Life, kafka: Kafka, brokers: int) -> None:
    """Serve one stage until its end."""
    cluster = Cluster(kafka, life.folder)
    end = End(life)
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, end.end)
    over = asyncio.ensure_future(end.wait(cluster.keep))
    opened = asyncio.ensure_future(cluster.open(brokers))
    try:
        await asyncio.wait({opened, over}, return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            opened.result()
            await _answer(life, cluster, end, over)
    finally:
        end.end()  # however it came: until the brokers are gone, who asks is told that it ends
        life.say("ending")
        opened.cancel()
        await cluster.close()
        await asyncio.gather(opened, over, return_exceptions=True)


async def _answer(life: Life, cluster: Cluster, end: End, over: asyncio.Future[None]) -> None:
    token = secrets.token_urlsafe(32)
    sockets = bind_sockets(0, "127.0.0.1")
    http_server(cluster, end, life.folder.name, token).add_sockets(sockets)
    life.say(
        "serving",
        url=f"http://127.0.0.1:{sockets[0].getsockname()[1]}",
        token=token,
        bootstrap=cluster.bootstrap,
        direct=cluster.direct,
        brokers=len(cluster.state()["brokers"]),
        edition=edition(),
    )
    await over


def give_memory_back() -> None:
    """Let freed blocks of memory go back to the system; glibc would keep those up to 32 MB."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE_BLOCK)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--brokers", type=click.IntRange(1), default=1, help="How many brokers.")
@click.option("--kafka", type=click.Choice(list(SECTIONS)), default=CURRENT, help="Which Kafka.")
@click.option("--lock", type=int, required=True, help="The folder's lock, an open file.")
@click.option("--owner", type=int, default=None, help="End with this process.")
def main(folder: Path, brokers: int, kafka: str, lock: int, owner: int | None) -> None:
    """Run the server of the stage in this folder."""
    give_memory_back()
    open_many_files()
    with Life(folder, lock, owner) as life:
        asyncio.run(serve(life, prepare(version=kafka), brokers))


if __name__ == "__main__":
    main()
