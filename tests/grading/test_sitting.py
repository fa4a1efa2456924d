"""A session keeps a submission going across the deaths of its kernel, within its time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lab_utils.grading.kernel import Budget, KernelSession
from lab_utils.grading.submission import Cell, Submission

pytestmark = pytest.mark.labs

SAID = "__import__('json').dumps({'x': x})"
Opened = Callable[..., KernelSession]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens sessions of cells, and closes them."""
    sessions: list[KernelSession] = []
    with TemporaryDirectory(prefix="lab-test-") as place:

        def open_session(*sources: str, cell_s: float = 30, total_s: float = 100) -> KernelSession:
            cells = tuple(Cell(source) for source in sources)
            folder = Path(place) / f"s{len(sessions)}"
            submission = Submission(folder, "90", (), cells, ())
            sessions.append(KernelSession(submission, folder, Budget(cell_s, total_s)))
            return sessions[-1]

        yield open_session
        for session in sessions:
            session.close()


def run(session: KernelSession) -> list[str]:
    """How each cell of the session ended."""
    return [session.run_cell(position).status for position in range(len(session.submission.cells))]


def test_a_killer_costs_itself_alone(opened: Opened) -> None:
    """After a death the cells so far run again, less the killer; what follows finds their state."""
    session = opened("x = 1", "x += 1; import os; os._exit(3)", "x += 10", "1 / 0")

    assert ["ok", "dead", "ok", "error"] == run(session)
    assert ("ok", {"x": 11}) == session.evaluate(3, SAID)


def test_two_killers(opened: Opened) -> None:
    """Several killers are each left out of what runs again."""
    killer = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    session = opened("x = 1", killer, "x += 1", killer, "x += 1")

    assert ["ok", "dead", "ok", "dead", "ok"] == run(session)
    assert ("ok", {"x": 3}) == session.evaluate(4, SAID)


def test_an_examination_that_kills(opened: Opened) -> None:
    """A function that ends the kernel when it is called leaves the cells as they were."""
    session = opened("x = 1", "x = 2")

    run(session)

    assert "dead" == session.evaluate(0, "__import__('os')._exit(0)")[0]
    assert ("ok", {"x": 2}) == session.evaluate(1, SAID)


def test_time_that_is_spent(opened: Opened) -> None:
    """When the submission's time is over nothing more is run, and nothing waits."""
    session = opened("x = 1", "while True: pass", "x = 3", total_s=3)

    assert ["ok", "late", "spent"] == run(session)


def test_each_cell_has_its_time(opened: Opened) -> None:
    """A loop takes its own time and no one else's; the state stays."""
    session = opened("x = 1", "while True: pass", "x += 1", cell_s=2)
    started = time.monotonic()

    assert ["ok", "late", "ok"] == run(session)
    assert 10 > time.monotonic() - started


def test_the_kernel_knows_nothing_of_the_grader(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grader's environment stays the grader's; the kernel has folders of its own."""
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    session = opened("import os; x = [dict(os.environ), os.getcwd()]")

    run(session)
    environment, working = session.evaluate(0, SAID)[1]["x"]

    assert "s3cret" not in environment.values()
    assert str(os.getpid()) == environment["LAB_OWNER"]
    own = [environment[name] for name in ("HOME", "LAB_STATE", "TMPDIR", "PYTHONPATH")]
    assert all(Path(folder).is_relative_to(session.folder) for folder in [*own, working])


def test_a_submission_that_rewrites_the_package(opened: Opened) -> None:
    """What a submission imports is a copy: it can rewrite none but its own."""
    session = opened("import lab_utils; x = lab_utils.__file__")

    run(session)

    assert Path(session.evaluate(0, SAID)[1]["x"]).is_relative_to(session.folder)
    assert not Path(sys.modules["lab_utils"].__file__ or "").is_relative_to(session.folder)
