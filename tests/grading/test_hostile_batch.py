"""Sixty hostile submissions, a right one between each two, and a grader that is killed three times.

Each right one has all its points and no hostile one has any, twice in a row.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import pytest

from lab_utils import processes
from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import notebook_text
from lab_utils.machine.confinement import BUBBLEWRAP, isolation
from lab_utils.waiting import wait_until
from tests.grading.exploits import ANSWERS
from tests.grading.handed_in import LABS
from tests.notebooks import source_notebook

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(isolation() != BUBBLEWRAP, reason="no bubblewrap on this machine"),
]

N: Final = 60
KILLS: Final = 3
GRADE: Final = [sys.executable, "-m", "lab_utils.cli", "grade"]
JOBS: Final = 3  # most of the hostile ones wait for an answer that does not come
# One query among them, which the Spark of all is asked beside what the others do to it.
RIGHT: Final = {each.item: each.points for each in exercises("03")
                if each.item in ("03.1", "03.2", "03.3", "03.5")}  # fmt: skip
# What holds, ends or fills whatever it can reach.
VIOLENT: Final = {
    "forks": "import os\nwhile True:\n    os.fork()",
    "holds": "held = []\nwhile True:\n    held.append(bytearray(50_000_000))",
    "fills": "file = open('big', 'wb')\nwhile True:\n    file.write(bytes(10_000_000))",
    "kills": "import os\nos.kill(-1, 9)",
    "ends": "import os\nos._exit(0)",
    "prints": "while True:\n    print('x' * 1_000_000)",
    "never ends": "while True:\n    pass",
    "deletes": "import shutil\nshutil.rmtree('/', ignore_errors=True)",
    "nests": "answer_1 = []\nfor _ in range(100_000):\n    answer_1 = [answer_1]",
}


def notebook(answers: dict[str, str] | None) -> str:
    """Lab 03 with these answers alone, or with the solutions of those that are right."""
    lab = source_notebook("03")
    names = {f"answer-{item.replace('.', '-')}": item for item in RIGHT}
    lab.cells = [cell for cell in lab.cells if cell.get("id") in names]
    for cell in lab.cells if answers is not None else ():
        cell.source = answers.get(names[cell.id], "")
    return notebook_text(lab)


def as_of_lab_03(item: str, text: str) -> tuple[str, str]:
    """An answer to an item of the tests' lab as one to that of lab 03, under the name it asks."""
    (own,) = (it.answer for it in exercises("90", LABS) if it.item == item)
    item = item.replace("90", "03")
    (name,) = (it.answer for it in exercises("03") if it.item == item)
    assert own in text, item
    return item, text.replace(own, name)


def batch(folder: Path) -> None:
    """Write the submissions; in the order of their names a right one follows each hostile one."""
    exploits = [dict(map(as_of_lab_03, each, each.values())) for each in ANSWERS.values()]
    violent = [{"03.1": f"answer_1 = {{}}\n{text}"} for text in VIOLENT.values()]
    for number, answers in enumerate(islice(cycle([*exploits, *violent]), N)):
        (folder / f"{number:02}a_03.ipynb").write_text(notebook(answers))
        (folder / f"{number:02}b_03.ipynb").write_text(notebook(None))


def kept(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (out / "submissions").glob("*.json")]


def graded(folder: Path, out: Path, temporary: Path) -> None:
    """Grade, and kill the grader when so many are kept; go on until it ends by itself."""
    command = [*GRADE, str(folder), "--out", str(out), "--cell-seconds", "30",
               "--jobs", str(JOBS)]  # fmt: skip
    for count in [*sorted(random.Random(out.name).sample(range(2 * N - 10), KILLS)), None]:
        grader = processes.spawn(
            command,
            environment={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if count is None:
            assert 0 == grader.wait(3600), grader.stderr and grader.stderr.read()[-2000:]
        else:
            wait_until(
                lambda count=count: len(kept(out)) >= count,
                f"{count} that are kept", timeout_s=3600, every_s=1,
            )  # fmt: skip
            grader.send_signal(signal.SIGKILL)
            grader.wait(30)


@pytest.mark.parametrize("time", ["first", "second"])
def test_each_right_one_has_all_its_points(time: str, tmp_path: Path) -> None:
    """Whatever the others are and do, and however often the grader dies."""
    folder, out = tmp_path / "submissions", tmp_path / time
    folder.mkdir()
    batch(folder)
    with tempfile.TemporaryDirectory(prefix="lab-test-") as temporary:
        graded(folder, out, Path(temporary))
    points = {each["path"][-13:]: sum(it["points"] for it in each["items"]) for each in kept(out)}

    assert 2 * N == len(points)
    assert {sum(RIGHT.values())} == {it for path, it in points.items() if "b_03" in path}
    assert {0} == {it for path, it in points.items() if "a_03" in path}
