"""What an owner leaves when it ends: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A server of the lab by its command line; it takes its time to clean up.
SERVER = """
import signal, sys, threading
from pathlib import Path
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
print("started", flush=True)
over.wait(60)
threading.Event().wait(0.2)
Path(sys.argv[1]).write_text("cleaned up")
"""
UP = """
import os, subprocess, sys
from lab_utils.stage.owned import end_owned
program, module, mark = sys.argv[1:]
command = [sys.executable, "-c", program]
servers = [
    subprocess.Popen([*command, f"{mark}-{owner}", module], stdout=subprocess.PIPE,
                     env=os.environ | {"LAB_OWNER": owner})
    for owner in (str(os.getpid()), "1")
]
[server.stdout.readline() for server in servers]
end_owned(os.getpid())
print([server.poll() for server in servers])
servers[1].kill()
os.rename(f"{mark}-{os.getpid()}", mark)
"""


def test_what_is_owned_ends_first(tmp_path: Path) -> None:
    """A stage of this ./lab up has cleaned up before it ends; one of another goes on."""
    mark = tmp_path / "mark"
    command = [sys.executable, "-c", UP, SERVER, "lab_utils.stage.server", mark]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert ("[0, None]\n", "cleaned up") == (done.stdout, mark.read_text())
