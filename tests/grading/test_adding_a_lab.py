"""docs/adding-a-lab.md, followed word for word: its files are built, and its checks performed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_utils.checking import decide, perform
from lab_utils.grading.cases import exercise
from lab_utils.grading.notebook import build_labs, write_checks
from lab_utils.lab import Lab
from tests.grading.recorded import held
from tests.notebooks import ROOT

PAGE = (ROOT / "docs" / "adding-a-lab.md").read_text(encoding="utf-8")
SOURCE, CHECKS, INCIDENT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SENDS = """
def send_once(run):
    producer = run.producer({settings})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
"""


@pytest.fixture
def labs(tmp_path: Path) -> Path:
    """The folder of labs, with the two files of the page."""
    for name, text in (("source/90_store_once.py", SOURCE), ("checks/lab90.py", CHECKS)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_built(labs: Path) -> None:
    """The notebook has a hole of one line where the solution was."""
    ((notebook, _),) = build_labs(labs)

    assert "90_store_once.ipynb" == notebook.name
    assert "# YOUR CODE (about 1 line)" in notebook.read_text(encoding="utf-8")


def test_an_incident_is_one_file(tmp_path: Path) -> None:
    """One file in the folder: its notebook is built, its checks are found, and they are apart.

    A seat, which has no sources, finds the same checks where the build has written them.
    """
    source = tmp_path / "source" / "79_nobody_has_it.py"
    source.parent.mkdir()
    source.write_text(INCIDENT, encoding="utf-8")

    (tmp_path / "checks").mkdir()
    made = [*(path for path, _ in build_labs(tmp_path)), *write_checks(tmp_path)]
    built = {path.name: path.read_text(encoding="utf-8") for path in made}
    found = exercise("79.1", tmp_path)
    wrong = held(source)["WRONG"]
    source.unlink()
    at_a_seat = exercise("79.1", tmp_path)

    assert (found.title, found.public) == (at_a_seat.title, at_a_seat.public)
    assert {"79_nobody_has_it.ipynb", "lab79.py"} == built.keys()
    assert {"found": [True, True], "EXERCISES": [False, True], "WRONG": [False, False],
            "all": [False, False]} == {
        name: [name in text for text in built.values()]
        for name in ("found", "EXERCISES", "WRONG", "all")
    }  # fmt: skip
    assert found.mistakes.keys() == {name for _, name, _ in wrong}
    assert '{"acks": 0}' in wrong[1][2]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("settings", "status", "likely"),
    [
        ({"enable.idempotence": True}, "PASS", None),
        ({}, "FAIL", "Likely: the retry carried no producer id"),
    ],
)
def test_checked(
    labs: Path, stage: Any, settings: dict[str, object], status: str, likely: str | None
) -> None:
    """The solution passes on a broker; the mistake that the page names gets its hint.

    A learner's trials and a grader's are performed.
    """
    names: dict[str, Any] = {}
    exec(SENDS.format(settings=settings), names)
    found, answer = exercise("90.1", labs), names["send_once"]
    found = replace(found, public=(*found.public, *found.trials("a nonce")))
    lab = Lab(stage.name)

    verdict = decide(found, answer, lambda trial: perform(lab, found, trial, answer))

    assert status == verdict.status
    assert likely is None or (verdict.hint or "").startswith(likely)
