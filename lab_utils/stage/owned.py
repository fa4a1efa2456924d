"""The servers of an owner: stages, and the keeper of the shared Spark.

Each sees for itself that its owner is gone, within a second, and cleans up. A container does not
wait for that: when its first process ends, everything in it is killed, and its files stay.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import psutil

from lab_utils.stage.client import OWNER

SERVERS: Final = ("lab_utils.stage.server", "lab_utils.audit.keeper")
END_TIMEOUT_S: Final = 15


def end_owned(owner: int) -> None:
    """End the servers of this owner; return when they have cleaned up, or after 15 seconds."""
    owned = [process for process in psutil.process_iter() if _is_owned(process, owner)]
    for process in owned:
        with suppress(psutil.Error):
            process.terminate()
    psutil.wait_procs(owned, timeout=END_TIMEOUT_S)


def _is_owned(process: psutil.Process, owner: int) -> bool:
    with suppress(psutil.Error):
        is_ours = process.environ().get(OWNER) == str(owner)
        return is_ours and any(server in process.cmdline() for server in SERVERS)
    return False
