"""One server for one folder: started once, joined by many, ended by what it is.

    free ── a client takes the lock; the server that it starts inherits it ──▶ starting
    starting ──▶ serving ──▶ ending ──▶ free            failed, killed: free at once

    FOLDER/lock          held (flock) by the server's process as long as it lives
    FOLDER/server.json   its state, its process id and where it answers; for this user alone

The lock is the truth: the system releases it however the server ends, and a starter that is killed
takes nothing with it. A server that serves and does not answer is ended by its process id before
another is started, and so is whatever an earlier server of the folder has left running.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

import psutil

from lab_utils import processes
from lab_utils.errors import LabError, LabWarning, StageError, WaitTimeout
from lab_utils.folders import is_full, state_folder
from lab_utils.waiting import wait_until

State = Literal["starting", "serving", "ending", "failed"]
Client = TypeVar("Client")

# A server that is slower than this on a busy machine is lost with what it served.
ANSWER_S: Final = 30.0
# And one that has not said who it is: it says so as soon as Python has its modules.
SAYS_S: Final = 120.0
STARTS: Final = 3
KEPT: Final = ("lock", "server.log")
ENDS: Final = ("ending", "failed")


def take_lock(folder: Path) -> int | None:
    """The lock of this folder as a file descriptor, or None if a server has it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:  # It was there, and was removed before Python looked what it is.
        if os.path.lexists(folder):
            raise
        return None
    with suppress(FileNotFoundError):  # The folder was removed between two of these lines.
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_lock_of(folder, lock):
                return lock
        except BlockingIOError:
            pass
        os.close(lock)
    return None


def is_served(folder: Path) -> bool:
    """Does a server have the lock of this folder? Nothing is created, and nothing is asked."""
    with suppress(FileNotFoundError), (folder / "lock").open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read(folder: Path) -> dict[str, Any]:
    """What the server of this folder says of itself; empty if it has said nothing."""
    with suppress(OSError, ValueError, RecursionError):
        said = json.loads((folder / "server.json").read_text(encoding="utf-8"))
        return said if isinstance(said, dict) else {}
    return {}


def _code() -> list[Path]:
    return sorted(Path(__file__).parent.rglob("*.py"))


def _changed_ns() -> int:
    return max(path.stat().st_mtime_ns for path in _code())


# When the lab's code had been changed last, as this process loaded it.
LOADED_NS: Final = _changed_ns()


def is_outdated() -> bool:
    """Has the lab's code been changed since this process loaded it, as by an update?"""
    return _changed_ns() != LOADED_NS


def edition() -> str:
    """The lab's code on this disk, in short: a server of another one may speak another language."""
    return sha256(b"".join(path.read_bytes() for path in _code())).hexdigest()


def _is_lock_of(folder: Path, lock: int) -> bool:
    """Is this open file the folder's lock, and not that of a folder that was removed?"""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), (folder / "lock").stat())
    return False


class Life:
    """The server's half: it holds the lock, and writes down what it is doing.

    Use it as a context: an error within is written down for the client that waits, beside the
    logs; a server that ends without one removes its folder.
    """

    def __init__(self, folder: Path, lock: int, owner: int | None) -> None:
        os.set_inheritable(lock, False)
        self.folder = folder
        self._lock = lock
        self.has_owner = owner is not None  # then idleness does not end it
        with suppress(psutil.NoSuchProcess):
            self._owner = psutil.Process(owner) if owner is not None else None
        self.say("starting")

    def say(self, state: State, **columns: Any) -> None:
        """Write the state down, whole or not at all; only this user may read it.

        A server that ends goes on to its end where there is no room for that.
        """
        if not self.has_folder:
            return
        with suppress(*([OSError] if state in ENDS else [])):
            aside = self.folder / "server.new"
            aside.unlink(missing_ok=True)
            new = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(new, "w") as file:
                json.dump({"state": state, "pid": os.getpid(), **columns}, file)
            aside.replace(self.folder / "server.json")

    def is_forsaken(self) -> bool:
        """Has the owner ended, or was the folder removed?"""
        owner = getattr(self, "_owner", None)
        is_owned = not self.has_owner or (owner is not None and processes.is_running(owner))
        return not (is_owned and self.has_folder)

    @property
    def has_folder(self) -> bool:
        """Is the folder still this server's?"""
        return _is_lock_of(self.folder, self._lock)

    def __enter__(self) -> Life:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            name = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
            self.say("failed", error=f"{name}{error}")
        elif self.has_folder:
            discard(self.folder)


@dataclass(eq=False)
class Joining(Generic[Client]):
    """A client's half: joins the server of a folder, or starts it.

    module, arguments  the program of the server; it is given the folder and the lock, too
    answer             the client for what the server said of itself, or None if it is silent
    what               the server in an error message
    logs               the files of the folder whose last lines an error message shows
    owner              the process with which the server ends; LAB_OWNER's if not given
    """

    folder: Path
    module: str
    arguments: list[str]
    answer: Callable[[dict[str, Any]], Client | None]
    what: str
    logs: Sequence[str] = ("server.log",)
    owner: int | None = None

    def __post_init__(self) -> None:
        self.owner = self.owner or processes.owner()
        self._server: subprocess.Popen[Any] | None = None
        self._starts = 0
        self._silent: tuple[object, float] = (self, 0.0)  # nobody yet

    def join(self, timeout_s: float) -> Client:
        """The client of a server that answers.

        Raises StageError, with the server's own sentence or the end of its log, if there is none.
        """
        try:
            client = wait_until(self.look, f"{self.what} to answer", timeout_s=timeout_s)
        except WaitTimeout as error:
            said = self._said()  # The server that is ended removes its logs.
            end(self.folder)
            raise StageError(f"{self.what} did not start: {error} {said}") from None
        assert client is not None
        return client

    def look(self) -> Client | None:
        """Take one step towards a server that answers; the client if there is one."""
        try:
            if (lock := take_lock(self.folder)) is not None:
                try:
                    with suppress(FileNotFoundError):  # Somebody has just removed the folder.
                        self._start(lock)
                finally:
                    os.close(lock)  # The server has it, too, and keeps it.
                return None
        except OSError as error:
            raise StageError(
                f"{self.what} cannot start in {self.folder}: {error.strerror}. Make room, or set "
                "LAB_STATE to a folder that you may write to."
            ) from error
        said = read(self.folder)
        client = None
        if said.get("state") == "serving":
            with suppress(KeyError, TypeError, ValueError):  # What it said of itself is damaged.
                client = self.answer(said)
        if client is None and said.get("state") != "starting":
            self._end_if_silent(said.get("pid"))
        return client

    def _start(self, lock: int) -> None:
        """The folder is free: start a server in it, unless one failed that we have started."""
        if self._server is not None:
            code = self._server.wait()
            if (said := read(self.folder)).get("pid") == self._server.pid and "error" in said:
                raise StageError("\n".join([said["error"], *_what_is_full()]))
            # By a signal or at somebody's request it may have ended just as we came; try again.
            if code > 0 or self._starts == STARTS:
                raise StageError(
                    f"{self.what} did not start: its server {processes.ended_with(code)}"
                    f"{', and so did each one before it' if self._starts > 1 else ''}. "
                    f"{self._said()}"
                )
        if self.owner and not processes.is_running(self.owner):
            raise StageError(
                f"{self.what} did not start: the process that it was to end with has ended "
                f"({self.owner}, as {processes.OWNER} says). Start ./lab up again."
            )
        clear(self.folder)
        self._server = processes.spawn_module(
            self.module,
            *(str(self.folder), *self.arguments, "--lock", str(lock)),
            *((processes.OWNER_OPTION, str(self.owner)) if self.owner else ()),
            log=self.folder / "server.log",
            pass_fds=(lock,),
        )
        self._starts += 1

    def _end_if_silent(self, pid: int | None) -> None:
        who, since = self._silent
        if who != pid:
            self._silent = (pid, time.monotonic())
        elif time.monotonic() - since > (limit := ANSWER_S if pid else SAYS_S):
            of = f"process {pid}" if pid else "which has not said its process"
            warnings.warn(
                f"{self.what} ({of}) has not answered for {limit:g} s: it is stopped or stuck. "
                "It is ended now, and another one is started.",
                LabWarning,
                stacklevel=2,
            )
            # It has the lock, whatever process is named in a file that may be damaged.
            is_server = pid in [found.process.pid for found in processes.of_folder(self.folder)]
            end(self.folder, pid if is_server else None)
            self._silent = (self, 0.0)

    def _said(self) -> str:
        tails = {name: processes.tail(self.folder / name) for name in self.logs}
        said = [f"The last lines of {name}:\n{log}" for name, log in tails.items() if log]
        # Where it is full, nothing could be printed either.
        return "\n".join(said + _what_is_full()) or "It had printed nothing."


def _what_is_full() -> list[str]:
    """A sentence if the disk of the state folder has no room; else nothing."""
    folder, to_do = state_folder(), "Make room, or set LAB_STATE to a folder elsewhere."
    return [f"The disk is full in {folder}. {to_do}"] if is_full(folder) else []


def end(folder: Path, pid: int | None = None, *, wait_s: float = 0) -> None:
    """End the server of a folder: wait so long, ask it (SIGTERM), then kill it (SIGKILL).

    With `pid` no other process is ended; it is left alone, too, if it is no server of the folder.
    """
    servers = [
        found.process
        for found in processes.of_folder(folder)
        if found.program in processes.SERVERS and pid in (None, found.process.pid)
    ]
    processes.end(servers, (None, wait_s), (signal.SIGTERM, processes.SERVER_END_S))


def remove(folder: Path) -> None:
    """Remove the folder and end what works for it, unless a server has taken it meanwhile."""
    if (lock := take_lock(folder)) is not None:
        clear(folder)
        discard(folder)
        os.close(lock)


def discard(folder: Path) -> None:
    """Remove a folder whose lock this process holds: at once, for everyone who looks.

    Removed file by file it is free as soon as the lock is gone, and what a new server has written
    by then would be removed with the rest.
    """
    with suppress(FileNotFoundError):
        folder.rename(folder.with_name(f".{folder.name}-{secrets.token_hex(4)}"))
    # With what somebody who was killed has left of an earlier one.
    for aside in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(aside, ignore_errors=True)


def clear(folder: Path) -> None:
    """End every process that works for this folder, and remove all but the lock and the log."""
    processes.end_all(lambda: [found.process for found in processes.of_folder(folder)])
    for path in folder.glob("*"):
        if path.name in KEPT:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
