"""One Kafka process: start, stop, kill, pause, resume; its ports, its log, its state.

It is synchronous and knows no proxy and no fault. A broker that does not come up raises
StageError with the last lines of its log; one that dies later says so in its state.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from lab_utils import processes
from lab_utils.errors import BadArgument, StageError, WaitTimeout
from lab_utils.folders import is_full
from lab_utils.machine.guardian import Guardian
from lab_utils.machine.java import environment, telling, why
from lab_utils.machine.quick_start import Kafka
from lab_utils.machine.settings import Node, Ports, text
from lab_utils.waiting import wait_until

State = Literal["stopped", "killed", "starting", "running", "paused", "died"]
ENDS: Final[dict[signal.Signals, State]] = {signal.SIGKILL: "killed", signal.SIGTERM: "stopped"}

START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 20
SETTLE_TIMEOUT_S: Final = 5
OTHERWISE: Final = "If it does so again, run ./lab down and then the notebook's first cell. "
API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000000 ffff".replace(" ", ""))


class Broker:
    """A broker, a controller, or both in one process.

    folder     holds server.properties, the data folder and the log of the process
    lab_port   the proxy's port, which clients are told
    """

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        node: Node,
        *,
        heap_mb: int = 256,
        guardian: Guardian | None = None,
    ) -> None:
        self._kafka = kafka
        self.folder = folder
        self.node = node
        self._heap_mb = heap_mb
        self._guardian = guardian
        self._process: subprocess.Popen[bytes] | None = None
        self._state: State = "stopped"
        # What it will be when its process has ended, if somebody has asked for that. Who looks
        # meanwhile, in another thread, takes its end for nothing else.
        self._asked: State | None = None

    @property
    def broker_id(self) -> int:
        """The node id."""
        return self.node.node_id

    @property
    def data_folder(self) -> Path:
        """The log directory: a folder for each partition."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the process has printed."""
        return self.folder / "broker.log"

    @property
    def direct_address(self) -> str:
        """Where the lab's own readers connect, past the proxy."""
        return f"127.0.0.1:{self.node.ports.direct}"

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        process = self._process
        return process.pid if process and process.poll() is None else None

    @property
    def state(self) -> State:
        """What the process is doing; `died` if it ended and nobody asked it to."""
        if self._state in ("running", "paused", "starting") and self.pid is None:
            self._end_of_process(self._asked or "died")
        return self._state

    @property
    def is_ending(self) -> bool:
        """Has its process ended, while the system still takes its memory and its ports back?"""
        return self.pid is not None and not processes.is_running(self.pid)

    def start(self, *options: str) -> None:
        """Start the process, and return when it answers requests.

        Raises StageError, with the log's last lines, if it does not; BadArgument if it runs.
        """
        if self.state in ("running", "paused"):
            raise BadArgument(
                f"broker {self.broker_id} is {self.state} already. "
                + ("Resume it." if self.state == "paused" else "There is nothing to start.")
            )
        self._write_files()
        log_starts_at = self.log.stat().st_size if self.log.exists() else 0
        properties = str(self.folder / "server.properties")
        command = self._kafka.tool(
            "kafka.Kafka", properties, heap_mb=self._heap_mb, options=options
        )
        process = self._process = processes.spawn(
            command,
            log=self.log,
            cwd=self.folder,
            environment=environment(),
            preexec_fn=self._guardian.from_birth() if self._guardian else None,
        )
        if self._guardian:
            self._guardian.watch(process.pid)
        self._state, self._asked = "starting", None
        self._wait_until_answering(process, log_starts_at)
        self._state = "running"

    def stop(self) -> None:
        """Stop it as an operator would (SIGTERM): it hands over, flushes and closes its log."""
        if self.state == "paused":
            self.resume()
        self._end(signal.SIGTERM, STOP_TIMEOUT_S)

    def kill(self) -> None:
        """Kill it (SIGKILL): nothing is handed over, nothing is flushed."""
        self._end(signal.SIGKILL, SETTLE_TIMEOUT_S)

    def pause(self) -> None:
        """Stop the world for it (SIGSTOP): connections stay, nothing is answered."""
        self._signal(signal.SIGSTOP, "running")
        self._state = "paused"

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self._signal(signal.SIGCONT, "paused")
        self._state = "running"

    def look(self) -> State:
        """Its state, also if somebody else has paused it: a shell, a debugger."""
        with suppress(psutil.Error):
            is_running = self.state == "running"
            if is_running and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED:
                self._state = "paused"
        return self.state

    def send(self, how: signal.Signals) -> None:
        """Send a signal, if there is a process, and do not wait for its end; the verbs do.

        SIGSTOP is taken by one thread, which stops the others: until it has a processor they serve
        on. So it is waited for; one that does not come is told by `pause`.
        """
        if (pid := self.pid) is not None:
            self._asked = ENDS.get(how)
            os.killpg(pid, how)
            if how == signal.SIGSTOP:
                with suppress(WaitTimeout, psutil.Error):
                    self._wait_until_taken(how)

    def _write_files(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not self.data_folder.exists()
            self._kafka.fill(self.data_folder, self.node.node_id)
            properties = self.node.properties(self.data_folder.name, is_new=is_new)
            (self.folder / "server.properties").write_text(text(properties), encoding="utf-8")
        except OSError as error:
            raise StageError(
                f"broker {self.broker_id} cannot write to {self.folder}: {error.strerror}. Its "
                "log lives there. Make room, or set LAB_STATE to a folder that you may write to."
            ) from error

    def _wait_until_answering(self, process: subprocess.Popen[Any], log_starts_at: int) -> None:
        # Kafka opens one listener after the other, and whoever comes in between is refused.
        ports = self.node.listening.values()
        try:
            wait_until(
                lambda: process.poll() is not None or all(map(answers, ports)),
                f"broker {self.broker_id} to answer",
                timeout_s=START_TIMEOUT_S,
                every_s=0.01,
            )
        except WaitTimeout as error:
            self.kill()
            raise self._failure(f"did not answer within {START_TIMEOUT_S} s", 0) from error
        except BaseException:
            self.kill()
            raise
        if (code := process.poll()) is not None:
            self._end_of_process("died")
            raise self._failure(f"ended with exit code {code} while it started", log_starts_at)

    def _failure(self, what: str, log_starts_at: int) -> StageError:
        with self.log.open("rb") as log:
            log.seek(log_starts_at)
            said = log.read().decode(errors="replace")
        if is_full(self.folder):  # then there is nothing in its log
            said += "No space left on device"
        return StageError(
            f"broker {self.broker_id} {what}. {why(said, OTHERWISE)}The last lines of its log:\n"
            + "\n".join(telling(said)[-8:])
        )

    def _end(self, how: signal.Signals, timeout_s: float) -> None:
        process, self._asked = self._process, ENDS[how]
        if process is not None:
            processes.end([process], (how, timeout_s))
        self._end_of_process(ENDS[how])

    def _end_of_process(self, state: State) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.poll()
            if self._guardian:
                self._guardian.forget(process.pid)
        self._state = state

    def _signal(self, how: signal.Signals, must_be: State) -> None:
        if self.state != must_be or self.pid is None:
            raise BadArgument(
                f"broker {self.broker_id} is {self.state}; only one that is {must_be} can be "
                f"{'paused' if must_be == 'running' else 'resumed'}."
            )
        os.killpg(self.pid, how)
        self._wait_until_taken(how)

    def _wait_until_taken(self, how: signal.Signals) -> None:
        """Return when it has been stopped by SIGSTOP, or goes on after SIGCONT."""
        process, stops = psutil.Process(self.pid), how == signal.SIGSTOP
        wait_until(
            lambda: (process.status() == psutil.STATUS_STOPPED) == stops,
            f"broker {self.broker_id} to take {how.name}",
            timeout_s=SETTLE_TIMEOUT_S,
            every_s=0.001,
            last_seen=lambda _: process.status(),
        )


def answers(port: int) -> bool:
    """Does a Kafka answer ApiVersions on this port of the loopback?"""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(2)
            connection.sendall(API_VERSIONS)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


def new_ports(proxy: int, replication_proxy: int | None = None) -> Ports:
    """Free ports for one broker behind these proxies."""
    direct, lab, replication, controller = processes.free_ports(4)
    return Ports(direct, lab, replication, controller, proxy, replication_proxy)


def with_new_ports(node: Node) -> Node:
    """The same node on other ports; its proxies stay."""
    ports = node.ports
    return replace(node, ports=new_ports(ports.proxy, ports.replication_proxy))
