"""Where the lab keeps things on this machine: what may be fetched again, and what is evidence.

`LAB_CACHE` and `LAB_STATE` in the environment choose other places; tests and graders use them so
that they can run side by side. A folder has one name here, however it was reached: a process is
known by the folder that its command line names.

In a folder that somebody names for results these take the place of earlier ones, and nothing else.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import platformdirs

from lab_utils.errors import BadArgument, SetupError

APPLICATION = "delivery-lab"
# Of the labs: the notebooks without exercises. No two notebooks share a name.
FURTHER = "further"
FULL_BYTES = 1_000_000
# How the names begin of what Spark writes into a table.
OF_SPARK = (".", "_", "part-")
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


def refuse_what_is_not_ours(out: Path, made: Sequence[str]) -> None:
    """Raises BadArgument if something has a name of what is to be made, and is somebody's own.

    made  the names of tables, which Spark writes as folders, and at last that of their page
    """
    page = out / made[-1]
    for each in (out / name for name in made):
        if each == page:
            is_ours = not each.is_dir()
        else:
            inside = each.rglob("*") if each.is_dir() else ()
            is_ours = page.exists() and each.is_dir() and not each.is_symlink()
            is_ours &= all(it.name.startswith(OF_SPARK) for it in inside)
        if not is_ours and os.path.lexists(each):
            raise BadArgument(
                f"--out {out} has a {each.name} that this command has not made, and it would be "
                "replaced. Name another folder, or move it away."
            )


def put(place: Path, out: Path, made: Sequence[str]) -> None:
    """Put what was made at `place` into `out`; what was there before goes to `place`."""
    try:
        out.mkdir(exist_ok=True)
        for each in made:
            with suppress(FileNotFoundError):
                (out / each).replace(place / f"earlier-{each}")
            with suppress(FileNotFoundError):  # an audit of Parquet compacts nothing
                (place / each).replace(out / each)
    except OSError as error:
        raise BadArgument(
            f"the results cannot be put into --out {out}: {error}. Does another one write there? "
            "Run it again, or name another folder."
        ) from None
