"""The shared Spark server, as a file says where it is: whom the file is believed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lab_utils.audit import server


def test_a_process_with_the_number_of_the_server(tmp_path: Path) -> None:
    """What a killed container has left does not name whoever has its numbers in the next one."""
    left = {"url": "sc://localhost:1", "token": "t", "pid": os.getpid(), "keeper": os.getpid()}
    (tmp_path / "server.json").write_text(json.dumps(left))

    assert server.is_running(left["pid"])
    assert server.running(tmp_path) is None
