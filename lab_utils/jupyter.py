"""JupyterLab for the labs: loopback, with a token, and without a word to the internet.

It ends with its parent, and everything that a learner's kernels started ends with it.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from lab_utils.errors import SetupError
from lab_utils.folders import state_folder
from lab_utils.stage.client import OWNER
from lab_utils.stage.owned import end_owned
from lab_utils.waiting import wait_until

LOOPBACK: Final = "127.0.0.1"
# Who starts a container chooses the token, to hand out its address.
TOKEN_VARIABLE: Final = "LAB_TOKEN"  # noqa: S105  (the name of one)


def command(folder: Path, port: int, token: str, *, browser: bool, ip: str = LOOPBACK) -> list[str]:
    """The command that starts JupyterLab on `folder`; nothing in it needs a network."""
    return [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.ip={ip}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.open_browser={browser}",
        f"--IdentityProvider.token={token}",
        "--ServerApp.allow_root=True",
        # Else JupyterLab asks each learner whether it may fetch news from the internet.
        f"--LabApp.app_settings_dir={Path(__file__).parent / 'jupyter_settings'}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--ContentsManager.allow_hidden=False",
    ]


def environment(root: Path) -> dict[str, str]:
    """The kernels' environment: they find lab_utils, and their stages end with this process."""
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, OWNER: str(os.getpid())}


def free_port(wanted: int) -> int:
    """The wanted port if nobody listens there, else one that is free."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SetupError("no port is free on 127.0.0.1. End some programs, then run ./lab up again.")


def serve(
    root: Path, folder: Path, *, ip: str, port: int, browser: bool, say: Callable[[str], object]
) -> int:
    """Serve the notebooks of `folder` until Ctrl-C or SIGTERM; return the exit code."""
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    address = f"http://127.0.0.1:{(port := free_port(port))}"
    log = state_folder() / "jupyter.log"
    with log.open("wb") as lines:
        server = subprocess.Popen(
            command(folder.absolute(), port, token, browser=browser, ip=ip),
            env=environment(root),
            stdout=lines,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    try:
        _wait_until_serving(server, address, token, log)
        say(f"The labs are at {address}/lab?token={token}\nCtrl-C ends them.")
        return server.wait()
    except KeyboardInterrupt:
        say("Ending JupyterLab and its stages.")
        return 0
    finally:
        _end(server)
        end_owned(os.getpid())


def _wait_until_serving(
    server: subprocess.Popen[bytes], address: str, token: str, log: Path
) -> None:
    def serving() -> bool:
        if server.poll() is not None:
            tail = "\n".join(log.read_text(encoding="utf-8").splitlines()[-5:])
            raise SetupError(
                f"JupyterLab ended with exit code {server.returncode} before it answered. Look at "
                f"{log}, then run ./lab doctor.\n{tail}"
            )
        try:
            status = httpx.get(f"{address}/api/status", headers={"Authorization": f"token {token}"})
        except httpx.HTTPError:
            return False
        return status.status_code == httpx.codes.OK

    wait_until(serving, f"JupyterLab at {address}", timeout_s=60, every_s=0.1)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ask JupyterLab to end its kernels and itself; after ten seconds, do not ask."""
    for ending in (signal.SIGTERM, signal.SIGKILL):
        if server.poll() is None:
            os.killpg(server.pid, ending)
        try:
            server.wait(timeout=10)
            return
        except subprocess.TimeoutExpired:
            continue
