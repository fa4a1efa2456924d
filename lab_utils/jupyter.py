"""JupyterLab for the labs: loopback, with a token, and without a word to the internet.

It ends with its parent, and everything that a learner's kernels started ends with it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from lab_utils import processes
from lab_utils.course import FOLDER, PAGE
from lab_utils.errors import SetupError
from lab_utils.folders import cache_folder, state_folder
from lab_utils.processes import LOOPBACK
from lab_utils.waiting import wait_until

SETTINGS: Final = f"--LabApp.app_settings_dir={Path(__file__).parent / 'jupyter_settings'}"
END_S: Final = 10
SERVING_S: Final = 300  # beside other work
# Where it is reached from here if it listens on every interface.
HERE: Final = {"": LOOPBACK, "*": LOOPBACK, "0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104
# Its token is in no command line, which every user of the machine may read; what a person's own
# settings of Jupyter say of a token comes after this.
START: Final = """
import os, sys
from jupyterlab.labapp import main
sys.exit(main([*sys.argv[1:], f"--IdentityProvider.token={os.environ['JUPYTER_TOKEN']}"]))
"""
KERNEL: Final = "ipykernel_launcher"
# Who starts a container chooses the token, to hand out its address.
TOKEN_VARIABLE: Final = "LAB_TOKEN"  # noqa: S105  (the name of one)


def command(folder: Path, port: int, *, browser: bool, ip: str = LOOPBACK) -> list[str]:
    """The command that starts JupyterLab on `folder`; nothing in it needs a network."""
    return [
        sys.executable,
        "-c",
        START,
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.ip={ip}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.open_browser={browser}",
        f"--LabApp.default_url=/lab/tree/{PAGE}",
        "--ServerApp.allow_root=True",
        # Else JupyterLab asks each learner whether it may fetch news from the internet.
        SETTINGS,
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--ContentsManager.allow_hidden=False",
    ]


def environment(folder: Path, token: str) -> dict[str, str]:
    """JupyterLab's environment, and its kernels', whose stages end with this process."""
    own = {
        "PYTHONPATH": processes.python_path(),
        processes.OWNER: str(os.getpid()),
        "LAB_STATE": str(state_folder()),
        "LAB_CACHE": str(cache_folder()),
        FOLDER: str(folder.absolute()),
        "JUPYTER_TOKEN": token,
    }
    # A kernel is in another folder than this process.
    java = [name for name in ("LAB_JAVA", "JAVA_HOME") if os.environ.get(name)]
    return {**os.environ, **own, **{name: str(Path(os.environ[name]).absolute()) for name in java}}


def running() -> list[int]:
    """The process ids of each JupyterLab of this checkout that uses this state folder."""
    users = processes.with_variable("LAB_STATE", str(state_folder()))
    return [process.pid for process in users if SETTINGS in processes.words(process)]


def kernels_left() -> list[processes.AnyProcess]:
    """The kernels that are still there after their `./lab up`, which was killed.

    Each looks every second whether its JupyterLab is there. One that is stopped, or that computes
    outside of Python, does not.
    """
    users = processes.with_variable("LAB_STATE", str(state_folder()))
    kernels = (it for it in users if KERNEL in processes.words(it))
    return [it for it in kernels if processes.is_forsaken(it, START)]


def serve(folder: Path, *, ip: str, port: int, browser: bool, say: Callable[[str], object]) -> int:
    """Serve the notebooks of `folder` until Ctrl-C, SIGTERM or a hang-up; return the exit code."""
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    # Two starts at once would find the same port free.
    turn = os.open(state_folder(), os.O_RDONLY)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Another ./lab up is starting; waiting for it.")
        fcntl.flock(turn, fcntl.LOCK_EX)
    host = HERE.get(ip, ip)
    port = processes.free_port(port, host)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    log = state_folder() / "jupyter.log"
    log.unlink(missing_ok=True)
    jupyter = command(folder.absolute(), port, browser=browser, ip=ip)
    server = processes.spawn(
        jupyter,
        log=log,
        environment=environment(folder, token),
        preexec_fn=processes.end_with_parent,
    )
    processes.at_the_end(signal.default_int_handler)
    try:
        _wait_until_serving(server, address, token, log)
        say(f"The labs are at {address}/lab/tree/{PAGE}?token={token}\nCtrl-C ends them.")
        os.close(turn)
        return processes.wait(server)
    except KeyboardInterrupt:
        # A terminal that is closed sends two hang-ups, and who waits presses Ctrl-C again.
        processes.at_the_end(signal.SIG_IGN)
        say("Ending JupyterLab and its stages.")
        return 0
    finally:
        processes.end([server], (signal.SIGTERM, END_S))  # It ends its kernels first.
        # Each server ends by itself when its owner has. A container does not wait for that: when
        # its first process ends, everything in it is killed, and its files stay.
        owned = processes.of_owner(os.getpid())
        processes.end(owned, (signal.SIGTERM, processes.SERVER_END_S))


def _wait_until_serving(
    server: subprocess.Popen[bytes], address: str, token: str, log: Path
) -> None:
    def serving() -> bool:
        if server.poll() is not None:
            raise SetupError(
                f"JupyterLab ended with exit code {server.returncode} before it answered. Look at "
                f"{log}, then run ./lab doctor.\n{processes.tail(log)}"
            )
        try:
            status = httpx.get(
                f"{address}/api/status",
                headers={"Authorization": f"token {token}"},
                trust_env=False,  # A proxy for the internet has no business on this machine.
                verify=False,  # noqa: S501 - Nor has TLS, whose certificates take 60 ms to load.
            )
        except httpx.HTTPError:
            return False
        return status.status_code == httpx.codes.OK

    wait_until(serving, f"JupyterLab at {address}", timeout_s=SERVING_S, every_s=0.1)
