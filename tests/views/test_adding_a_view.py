"""docs/adding-a-view.md, followed word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from lab_utils.run import Run
from tests.views import histories

PAGE: Final = (Path(__file__).parents[2] / "docs" / "adding-a-view.md").read_text(encoding="utf-8")


def test_the_page_makes_a_view() -> None:
    """Its first block shows nothing; its second draws a run, with all four parts of a picture."""
    nothing, drawn = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    room: dict[str, Any] = {}
    exec(nothing, room)
    empty = room["attempts"](histories.calm())
    exec(drawn, room)
    picture = room["attempts"]([*histories.calm(), histories.sent(9, "1", attempt=2)])

    assert ("Nothing is shown", 0) == (empty.title, len(empty.figure.data))
    assert "1 order of 3 sent more than once" == picture.title
    assert [("0", 1), ("1", 2), ("2", 1)] == list(picture.table.rows)
    assert [("sent once", (1, 1)), ("sent more than once", (2,))] == [
        (trace.name, trace.y) for trace in picture.figure.data
    ]


def test_the_page_names_what_is_there() -> None:
    """The method of Run and the histories that it sends a reader to exist."""
    named = re.findall(r"`(\w+)\(\)`", PAGE)

    assert {"calm", "lost_answer", "hole"} <= set(named)
    assert all(hasattr(histories, name) for name in named)
    assert hasattr(Run, "timeline")
