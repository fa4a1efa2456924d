"""What all tiers share: a state folder of their own, and nothing of ours left behind."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# A shell that starts something in the background lets it ignore Ctrl-C, and so do its children:
# what the tests start has to hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything of the lab is imported: each worker has a state of its own, so that several
# test runs, labs and graders do not meet. The cache is the machine's: jars are large.
_STATE = tempfile.TemporaryDirectory(prefix="lab-test-", ignore_cleanup_errors=True)
os.environ["LAB_STATE"] = _STATE.name
os.environ["LAB_OWNER"] = str(os.getpid())
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder for one test alone."""
    monkeypatch.setenv("LAB_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session")
def stage() -> Iterator[object]:
    """A stage with a real broker, shared by the tests of one worker."""
    from lab_utils.stage import client

    stage = client.join("tests", 1)
    yield stage
    stage.shutdown()


def pytest_sessionfinish() -> None:
    """End what the tests started, then look for what is left."""
    if not (Path(_STATE.name) / "stages").exists() and "pyspark" not in _loaded():
        return
    from lab_utils.audit.session import stop_shared
    from lab_utils.stage.client import down

    down()
    stop_shared()


def _loaded() -> set[str]:
    import sys

    return {name.partition(".")[0] for name in sys.modules}
