"""Where the lab keeps things on this machine: what may be fetched again, and what is evidence.

`LAB_CACHE` and `LAB_STATE` in the environment choose other places; tests and graders use them so
that they can run side by side. A folder has one name here, however it was reached: a process is
known by the folder that its command line names.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import platformdirs

from lab_utils.errors import SetupError

APPLICATION = "delivery-lab"
# Of the labs: the notebooks without exercises. No two notebooks share a name.
FURTHER = "further"
FULL_BYTES = 1_000_000
PATTERN = frozenset("[]{}*?\\")  # what is no plain character in a path of Hadoop's


def cache_folder() -> Path:
    """The folder of jars, the JDK and broker templates: large, shared, and safe to delete."""
    folder = _private_folder("LAB_CACHE", platformdirs.user_cache_path(APPLICATION))
    if os.pathsep in str(folder):
        raise SetupError(
            f"The folder {folder} has a {os.pathsep!r} in its name, which ends a path where Java "
            "is told its jars, so no broker could start. Set LAB_CACHE to a folder without one."
        )
    return folder


def state_folder() -> Path:
    """The folder of stages and ledgers: one for each person, or for each test and grading."""
    folder = _private_folder("LAB_STATE", platformdirs.user_state_path(APPLICATION))
    if ":" in str(folder) and (signs := set(str(folder)) & PATTERN):
        raise SetupError(
            f"The folder {folder} has a ':' and a {min(signs)!r} in its name. Spark can read a "
            "path with either, and none with both. Set LAB_STATE to a folder without them."
        )
    return folder


def runs_folder(lab: str) -> Path:
    """The folder that holds one ledger folder for each run of `lab`."""
    return state_folder() / "runs" / lab


def stage_folder(stage: str) -> Path:
    """The folder of the stage server named `stage`: its address, token, brokers and their logs."""
    return state_folder() / "stages" / stage


def is_full(folder: Path) -> bool:
    """Has the disk of this folder no room, not even for a log that would say so?"""
    return shutil.disk_usage(folder).free < FULL_BYTES


def _private_folder(variable: str, default: Path) -> Path:
    wanted = Path(os.environ.get(variable) or default)
    try:
        folder = wanted.expanduser().resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: this user has no home
        raise SetupError(
            f"The folder {wanted} cannot be made: {error}. Set {variable} to a folder of yours."
        ) from error
    return folder
