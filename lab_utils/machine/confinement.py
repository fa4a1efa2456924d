"""What keeps one submission from another on this machine, and from its grader: tried, not believed.

bubblewrap gives a process a file tree, a network and process ids of its own, without being root,
where the system allows user namespaces. Landlock takes from it all files but those it needs, and
signals; the network stays shared. grading/sandbox.py uses both.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from contextlib import suppress
from typing import Final

from lab_utils.machine import landlock

BUBBLEWRAP: Final = "bubblewrap"
LANDLOCK: Final = "landlock"
NONE: Final = "none"
FIX: Final = (
    "Debian and Ubuntu: apt-get install bubblewrap · in a container, where it may not be allowed: "
    "Linux 6.12 or newer, which has Landlock · macOS: grade in the image"
)
# As root inside, which is nobody outside: bwrap would else nest a second user namespace, from which
# the network could not be entered.
APART: Final = ("--unshare-user", "--uid", "0", "--gid", "0",
                "--unshare-ipc", "--unshare-pid", "--unshare-net",
                "--unshare-uts", "--die-with-parent", "--new-session")  # fmt: skip
START_S: Final = 20


@functools.cache
def isolation() -> str:
    """What keeps submissions apart on this machine: bubblewrap, else landlock, else none."""
    if sys.platform == "linux" and shutil.which("nsenter") and (bwrap := shutil.which("bwrap")):
        tried = [bwrap, *APART, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
        with suppress(OSError, subprocess.TimeoutExpired):
            found = subprocess.run(tried, capture_output=True, timeout=START_S, check=False)
            if found.returncode == 0:
                return BUBBLEWRAP
    return LANDLOCK if landlock.abi() >= landlock.OLDEST_ABI else NONE
