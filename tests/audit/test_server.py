"""The shared Spark server, as a file says where it is: whom the file is believed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lab_utils.audit import server

NOBODY = 2**22 + 1  # no process has a number as large


@pytest.mark.parametrize("pid", [os.getpid(), NOBODY], ids=["taken", "free"])
def test_a_server_that_is_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int
) -> None:
    """What a killed container has left names nobody, nor who has its number in the next one.

    No program is needed to see it: the image has no ps.
    """
    monkeypatch.setenv("PATH", "/nowhere")
    left = {"url": "sc://localhost:1", "token": "t", "pid": pid, "keeper": os.getpid()}
    (tmp_path / "server.json").write_text(json.dumps(left))

    assert server.running(tmp_path) is None
