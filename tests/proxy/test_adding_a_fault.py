"""The page on adding a fault is followed word for word: its files, its cell, a real stage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lab_utils
from lab_utils.errors import BadArgument
from lab_utils.lab import Lab
from lab_utils.proxy.faults import Fault, from_json
from lab_utils.proxy.faults.fault import load_folder
from lab_utils.run import Run

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-fault.md"
BLOCKS = re.findall(r"```python\n# ([^\n]*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
PLAIN = """
from lab_utils.proxy.faults import WireFault
class {name}(WireFault):
    nth: int = {nth}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that LAB_FAULTS names; its faults are forgotten after the test."""
    monkeypatch.setattr(Fault, "kinds", dict(Fault.kinds))
    monkeypatch.setenv("LAB_FAULTS", str(tmp_path / "my_faults"))
    (tmp_path / "my_faults").mkdir()
    return tmp_path / "my_faults"


@pytest.fixture
def cell(folder: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the page's cell has made, with the page's files in the folder."""
    monkeypatch.setattr("lab_utils.lab._load", lambda: None)  # Nothing here asks a query.
    names: dict[str, Any] = {"__name__": "__main__"}
    for title, code in BLOCKS:
        if title.startswith("my_faults/"):
            (folder.parent / title).write_text(code, encoding="utf-8")
    (code,) = (code for title, code in BLOCKS if title == "a cell")
    try:
        exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)
        yield names
    finally:
        if "lab" in names:
            names["lab"].close()


def kinds(run: Run, source: str) -> list[str]:
    return [row.kind for row in run.rows if row.source == source]


@pytest.mark.kafka
def test_page(cell: dict[str, Any]) -> None:
    """Each fault of the page is found by the stage, fires, and is told in its own words."""
    lab: Lab = cell["lab"]
    run: Run = cell["run"]
    ours = cell["panel"].faults[-1]

    assert ["armed", "fired"] == kinds(run, "fault")
    assert [2] == [
        int(row.detail["nth"]) for row in run.rows if (row.source, row.kind) == ("fault", "fired")
    ]
    notes = [note.text for note in cell["picture"].figure.layout.annotations]
    assert any('do_nothing("Produce", nth=2)' in note for note in notes)
    assert "Do nothing to the next Produce request" == ours["words"]

    slow = lab.run(
        cell["send_orders"], orders=2, faults=[lab_utils.slow_request("Produce", steps=2)]
    )
    held = [row for row in slow.rows if (row.kind, row.fate) == ("request", "held")]

    assert 200_000_000 <= int(held[0].detail["released_at_ns"]) - held[0].at_ns

    freeze = lab_utils.freeze_broker(1, api="Produce", nth=1)
    frozen = lab.run(cell["send_orders"], orders=2, faults=[freeze])

    assert ["armed", "fired"] == kinds(frozen, "fault")
    assert {"paused", "resumed"} <= set(kinds(frozen, "broker"))
    assert "Freeze broker 1 for 200 ms" == lab_utils.freeze_broker(1).words

    interrupted = lab.run(cell["send_orders"], orders=2, faults=[lab_utils.interrupt_link(1, 1)])

    assert ["armed", "fired"] == kinds(interrupted, "fault")
    assert {"link_held", "link_open"} <= set(kinds(interrupted, "broker"))


def write(folder: Path, text: str) -> None:
    (folder / "mine.py").write_text(text, encoding="utf-8")


def test_changed_file_is_loaded_again(folder: Path) -> None:
    """The stage server knows a fault as its file is now."""
    write(folder, PLAIN.format(name="mine", nth=1))
    first = from_json({"fault": "mine", "api": "Fetch"})
    write(folder, PLAIN.format(name="mine", nth=22))
    second = from_json({"fault": "mine", "api": "Fetch"})

    assert type(first) is not type(second)


REFUSED = {
    "no Python": ("class mine(", "mine.py cannot be loaded as faults: SyntaxError"),
    "fails": ("1 / 0", "mine.py cannot be loaded as faults: ZeroDivisionError"),
    "taken": (PLAIN.format(name="refuse", nth=1), "there is a fault of this name"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_folder_that_cannot_be_loaded(folder: Path, text: str, said: str) -> None:
    """What is wrong is said with the file's name, and the lab's own faults stay as they are.

    A folder that is not there is an error, not a lab without faults.
    """
    before = dict(Fault.kinds)
    write(folder, text)
    with pytest.raises(BadArgument) as refused:
        from_json({"fault": "refuse", "api": "Produce"})

    assert said in str(refused.value)
    assert before == Fault.kinds
    with pytest.raises(BadArgument, match="is not there"):
        load_folder(folder / "none")
