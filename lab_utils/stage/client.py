"""The kernel's half of the stage server: join a stage, and tell it what to do.

A stage is named by its lab. Who joins first starts it; it outlives the kernel. Two kernels that
join at the same time get the same one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from filelock import FileLock

from lab_utils import errors
from lab_utils.errors import LabError, StageError
from lab_utils.folders import stage_folder, state_folder
from lab_utils.proxy.faults import Fault, to_json
from lab_utils.waiting import wait_until

READY_TIMEOUT_S: Final = 300
ANSWER_TIMEOUT_S: Final = 120
END_TIMEOUT_S: Final = 30
OWNER: Final = "LAB_OWNER"


@dataclass(frozen=True, slots=True)
class ClosedRun:
    """What the stage says when a run is closed: how often each fault fired, and its trouble."""

    fired: dict[str, int] = field(default_factory=dict)
    trouble: str | None = None
    is_whole: bool = True


class Stage:
    """A running stage server, as a kernel sees it."""

    def __init__(self, name: str, address: dict[str, Any]) -> None:
        self.name = name
        self.url: str = address["url"]
        self.token: str = address["token"]
        self.pid: int = address["pid"]
        self.bootstrap: str = address["bootstrap"]
        self.direct: str = address["direct"]
        self.brokers: int = address["brokers"]
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=ANSWER_TIMEOUT_S,
            trust_env=False,  # A proxy for the internet has no business on loopback.
        )

    def __repr__(self) -> str:
        return f"<Stage {self.name} at {self.bootstrap}>"

    def state(self) -> dict[str, Any]:
        """Brokers, armed faults, open runs."""
        return self._ask("GET", "/state")

    def has_lost_its_controller(self) -> bool:
        """Has the controller ended? Nothing is decided any more, and no verb brings it back."""
        return bool(self.state().get("controller") == "died")

    def require_controller(self) -> None:
        """Raise StageError if the controller is gone."""
        if self.has_lost_its_controller():
            raise StageError(
                f"the controller of the stage {self.name!r} has died: no topic can be made and no "
                "leader chosen. Run the notebook's first cell again: it starts a new stage."
            )

    def open_run(self, run: str, folder: Path) -> None:
        """Let the stage write what this run's clients do on the wire into `folder`."""
        self._ask("POST", "/runs", {"run": run, "folder": str(folder)})

    def close_run(self, run: str, topics: Iterable[str] = ()) -> ClosedRun:
        """Disarm the run's faults and close its part of the ledger.

        Where topics are named, everything is healed first, and the end waits until they are whole.
        """
        said = self._ask("DELETE", f"/runs/{run}", parameters={"topic": list(topics)})
        fired = {fault["id"]: fault["fired"] for fault in said["faults"]}
        return ClosedRun(fired, said["trouble"], said["whole"])

    def arm(self, run: str, fault: Fault) -> str:
        """Arm a fault for the clients of a run ("" is every client); return its id."""
        said: str = self._ask("POST", "/faults", {"run": run, "fault": to_json(fault)})["id"]
        return said

    def faults(self) -> list[dict[str, Any]]:
        """The faults that are armed."""
        return list(self._ask("GET", "/faults")["faults"])

    def clear(self, fault_id: str | None = None) -> None:
        """Disarm one fault, or all."""
        self._ask("DELETE", f"/faults/{fault_id}" if fault_id else "/faults")

    def reset(self) -> dict[str, Any]:
        """Heal everything: no fault is armed, every broker runs."""
        return self._ask("POST", "/reset")

    def broker(self, verb: str, broker_id: int = 1) -> dict[str, Any]:
        """Start, stop, kill, pause or resume a broker; returns when it is so."""
        return self._ask("POST", f"/brokers/{broker_id}/{verb}")

    def link(self, a: int, b: int, verb: str) -> dict[str, Any]:
        """Cut, hold or heal the link between two brokers."""
        return self._ask("POST", f"/links/{a}/{b}/{verb}")

    def settle(self, topics: Iterable[str], *, whole: bool) -> bool:
        """Wait until the controller has decided about these topics; has it, within its time?

        With `whole`, until each partition is led and all of its replicas are in sync.
        """
        body = {"topics": list(topics), "whole": whole}
        return bool(self._ask("POST", "/settle", body)["settled"])

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """What the controller has decided: leader, isr, elr, replicas and epochs."""
        return list(self._ask("GET", "/partitions", parameters={"topic": topic})["partitions"])

    def heal(self) -> dict[str, Any]:
        """Every link is whole and every broker runs; faults stay armed."""
        return self._ask("POST", "/heal")

    def events(self, after: int) -> list[dict[str, Any]]:
        """What is kept of the events after this number, each with its `number`."""
        return list(self._ask("GET", "/events", parameters={"after": str(after)})["events"])

    def batches(self, topic: str) -> list[dict[str, Any]]:
        """The record batches of a topic, as the segment files have them."""
        return list(self._ask("GET", "/log", parameters={"topic": topic})["batches"])

    def shutdown(self) -> None:
        """End the stage and its brokers; returns when they are gone."""
        with suppress(StageError):  # It is gone, or does not answer: what is left is ended below.
            self._ask("POST", "/shutdown")
        self._http.close()
        _end(self.pid)
        _forget(stage_folder(self.name))

    def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        parameters: Mapping[str, str | list[str]] | None = None,
    ) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, json=body, params=parameters)
        except httpx.HTTPError as error:
            raise StageError(
                f"the stage {self.name!r} does not answer ({type(error).__name__}). It may have "
                "been ended by ./lab down. Run the notebook's first cell again."
            ) from error
        said: dict[str, Any] = answer.json()
        if answer.is_error:
            kind = getattr(errors, said.get("kind", ""), StageError)
            raise kind(said["error"])
        return said


def join(name: str, brokers: int = 1) -> Stage:
    """Join the stage of this name, and start it if there is none that can go on.

    Raises StageError, with what the server said, if it does not come up.
    """
    folder = stage_folder(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(folder / "join.lock"):
        stage = _living(name)
        if stage is not None and (stage.brokers != brokers or stage.has_lost_its_controller()):
            stage.shutdown()
            stage = None
        if stage is None:
            _forget(folder)
            stage = _start(name, brokers)
    return stage


def stages() -> list[Stage]:
    """The stages that are running."""
    names = sorted(path.parent.name for path in (state_folder() / "stages").glob("*/stage.json"))
    return [stage for name in names if (stage := _living(name)) is not None]


def down() -> list[str]:
    """End every stage; return their names. What a dead one has left is removed, too."""
    ended = []
    for stage in stages():
        stage.shutdown()
        ended.append(stage.name)
    for folder in (state_folder() / "stages").glob("*"):
        shutil.rmtree(folder, ignore_errors=True)
    return ended


def _living(name: str) -> Stage | None:
    """The stage of this name if it answers; None if there is none, or only its remains."""
    try:
        address = json.loads((stage_folder(name) / "stage.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    stage = Stage(name, address)
    try:
        stage.state()
    except LabError:
        return None
    return stage


def _start(name: str, brokers: int) -> Stage:
    folder = stage_folder(name)
    command = [sys.executable, "-m", "lab_utils.stage.server", "--name", name]
    command += ["--brokers", str(brokers)]
    if os.environ.get(OWNER):
        command += ["--owner", os.environ[OWNER]]
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_environment(),
        )
    try:
        stage = wait_until(
            lambda: _ready(name, server),
            f"the stage {name!r} to start",
            timeout_s=READY_TIMEOUT_S,
            last_seen=lambda _: _tail(folder / "server.log"),
        )
    except BaseException:
        _end(server.pid)
        raise
    assert stage is not None
    return stage


def _environment() -> dict[str, str]:
    """The server finds lab_utils where this process found it."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def _ready(name: str, server: subprocess.Popen[bytes]) -> Stage | None:
    if server.poll() is None:
        return _living(name)
    folder = stage_folder(name)
    failure = folder / "failure.json"
    if failure.exists():
        said = json.loads(failure.read_text(encoding="utf-8"))["error"]
        failure.unlink()
        raise StageError(said)
    raise StageError(
        f"the stage server {name!r} ended with exit code {server.returncode}. The last lines of "
        f"its log:\n{_tail(folder / 'server.log')}"
    )


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])


def _end(pid: int) -> None:
    """Wait for a server to end; it takes its brokers along, or its guardian kills them."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    asks: tuple[Callable[[], None] | None, ...] = (None, process.terminate, process.kill)
    for ask in asks:
        try:
            if ask is not None:
                ask()
            process.wait(END_TIMEOUT_S)
        except psutil.TimeoutExpired:
            continue
        except psutil.NoSuchProcess:
            pass
        return


def _forget(folder: Path) -> None:
    """Remove what a stage has left, but the lock that others may wait for."""
    for path in folder.glob("*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name not in ("join.lock", "server.log"):
            path.unlink(missing_ok=True)
