"""The grader's half of a kernel survives whatever the other half does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lab_utils.grading import kernel as kernel_room
from lab_utils.grading.kernel import MARKER, Kernel, parsed, running
from tests.used_checkout import tracked, used_checkout

pytestmark = [pytest.mark.labs, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

FORK_AWAY = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A kernel in a folder with a short name: a socket's path is limited to a hundred letters."""
    with TemporaryDirectory(prefix="lab-test-") as folder:
        environment = {"PATH": os.environ["PATH"], MARKER: Path(folder).name,
                       "HOME": folder}  # fmt: skip
        kernel = Kernel(Path(folder), environment, Path(folder))
        kernel.wait_until_ready()
        yield kernel
        kernel.kill()


def test_its_installation_is_a_list_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel gets what git knows of the package and the checks, whatever else lies there."""
    monkeypatch.setattr(kernel_room, "ROOT", used_checkout(tmp_path / "checkout"))
    copy = kernel_room._installation(tmp_path)
    copied = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    parts = ("lab_utils/", "labs/checks/", "labs/source/")

    assert {name for name in tracked() if name.startswith(parts)} == copied


def test_state_lasts_and_stderr_is_no_error(kernel: Kernel) -> None:
    """Cells share a state, a cell that writes to stderr is well, and values come back as text."""
    first = kernel.execute("import sys; x = 20; print('!', file=sys.stderr)", 20)
    second = kernel.execute("", 20, said="__import__('json').dumps({'x': x + 1})")

    assert ("ok", {"x": 21}) == (first.status, parsed(second.values["said"]))


def test_a_cell_that_raises(kernel: Kernel) -> None:
    """What a cell raised comes back as one line, and the kernel goes on."""
    raised = kernel.execute("raise ValueError('two\\nlines')", 20)

    assert ("error", "ValueError: two lines") == (raised.status, raised.error)
    assert "ok" == kernel.execute("1", 20).status


def test_a_value_that_cannot_be_shown(kernel: Kernel) -> None:
    """What its repr raised is the reason: the cell's own code raised nothing."""
    cell = "class Value:\n    def __repr__(self):\n        return 1 / 0\nValue()"
    raised = kernel.execute(cell, 20)

    assert ("error", "ZeroDivisionError: division by zero") == (raised.status, raised.error)


def test_an_expression_that_raises(kernel: Kernel) -> None:
    """A name that nobody defined is a reason, not an error of the grader's."""
    reply = kernel.execute("", 20, said="answer_1")

    assert {"raised": "NameError: name 'answer_1' is not defined"} == parsed(reply.values["said"])


def test_an_endless_loop_is_interrupted(kernel: Kernel) -> None:
    """A loop is interrupted when its time is up; the state stays."""
    kernel.execute("x = 1", 20)

    assert "late" == kernel.execute("while True: pass", 1).status
    assert "ok" == kernel.execute("x", 20).status


def test_a_loop_that_will_not_end_is_killed(kernel: Kernel) -> None:
    """What takes no interrupt is killed, and from then on the kernel is dead."""
    stubborn = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"

    assert ["late", "dead"] == [kernel.execute(code, 1).status for code in (stubborn, "1")]


def test_a_kernel_that_ends_itself(kernel: Kernel) -> None:
    """os._exit is noticed at once, long before the time is up."""
    assert "dead" == kernel.execute("import os; os._exit(0)", 60).status
    assert not kernel.is_alive


def test_endless_output_is_nobodys_problem(kernel: Kernel) -> None:
    """Output is never read, on either way out, so no amount of it matters."""
    loud = "import os\nfor _ in range(200):\n  print('x' * 1_000_000)\n  os.write(1, b'x' * 10**6)"

    assert "ok" == kernel.execute(loud, 60).status


def test_an_answer_too_large_is_no_answer(kernel: Kernel) -> None:
    """A message beyond the limit never reaches the grader's memory."""
    assert "ok" != kernel.execute("", 1, said="'x' * 50_000_000").status


def test_nothing_is_left_running(kernel: Kernel) -> None:
    """A process that left the kernel's group is found by its mark, and ended."""
    marker = kernel._marker
    kernel.execute(FORK_AWAY, 20)
    before = list(running(marker))

    kernel.kill()

    assert (2, []) == (len(before), list(running(marker)))


@pytest.mark.parametrize(
    "text", ["", "[1]", "'[1]'", "'{'", "{'a': 1}", "__import__('os')", "'" + "[" * 100_000 + "'"]
)
def test_what_is_no_json_object(text: str) -> None:
    """Nothing but the text of a JSON object in quotes is read, and nothing is evaluated."""
    assert {} == parsed(text)
