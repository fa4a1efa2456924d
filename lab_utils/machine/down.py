"""What ./lab down ends: every process of this user's lab that works for the state folder.

    stage servers, Spark servers   end first, and take what is theirs with them
    what no server has             is killed
    their folders                  are removed, unless somebody has a lock there

JupyterLab is not among them, nor a kernel that it serves (jupyter.kernels_left).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lab_utils import processes
from lab_utils.errors import StageError, WaitTimeout
from lab_utils.folders import state_folder
from lab_utils.single_server import is_served, remove
from lab_utils.waiting import wait_until

LOCKED_S: Final = 2.0


def down(say: Callable[[str], object] = lambda _: None) -> None:
    """End every process of this state folder; say what was ended, by what it worked for.

    The servers end first and take what is theirs with them; what no server has is killed. Raises
    StageError for a folder that stays: it cannot be removed, or somebody has its lock.
    """
    folder = state_folder()
    running = processes.of_folder(folder)
    ended: dict[str, list[str]] = {}
    for found in sorted(running, key=lambda it: it.process.pid):
        kind, *names = found.path.relative_to(folder).parts[:2]
        place = f"stage {names[0]}" if kind == "stages" and names else kind
        ended.setdefault(place, []).append(f"{found.program} {found.process.pid}")
    servers = [found.process for found in running if found.program in processes.SERVERS]
    processes.end(servers, (signal.SIGTERM, processes.SERVER_END_S))
    processes.end_all(lambda: [found.process for found in processes.of_folder(folder)])
    for place, names in ended.items():
        say(f"Ended of {place}: {', '.join(names)}.")
    served = (folder / "spark", *folder.glob("stages/*"), *folder.glob("audits/*"))
    if left := list(filter(None, map(_left, served))):
        raise StageError("\n".join(left))


def _left(folder: Path) -> str | None:
    """Remove a folder whose processes have been ended; why it stays, if it does."""
    try:
        # Who has just taken the lock starts a server in a moment.
        wait_until(
            lambda: not is_served(folder) or processes.of_folder(folder),
            f"the lock of {folder}",
            timeout_s=LOCKED_S,
        )
        if folder.exists():
            remove(folder)
    except WaitTimeout:
        return (
            f"{folder} is in use by a process that cannot be seen from here, as one in a container "
            "is, or one that knows the folder by another name. End it there."
        )
    except OSError as error:
        return f"{folder} cannot be removed: {error.strerror}. Remove it yourself."
    return None
