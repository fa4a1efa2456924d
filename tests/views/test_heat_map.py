"""The heat map: what each setting survives, in words, marks and colours."""

from __future__ import annotations

from itertools import product
from typing import Any

from lab_utils.views.heat_map import OUTCOMES, survival


def row(replicas: int, min_isr: int, dead: int, **said: Any) -> dict[str, Any]:
    alive = replicas - dead
    known = {"writable": alive >= min_isr, "readable": alive > 0, "lost": 0} | said
    return {"replicas": replicas, "min_isr": min_isr, "dead": dead, **known}


def grid() -> list[dict[str, Any]]:
    """One replica and three, with up to two dead brokers."""
    three = [row(3, min_isr, dead) for min_isr, dead in product((1, 2, 3), (0, 1, 2))]
    return [row(1, 1, 0), row(1, 1, 1, lost=2), *three]


def words(rows: list[dict[str, Any]]) -> list[str]:
    return [
        text["text"] for text in survival(rows).figure.to_plotly_json()["layout"]["annotations"]
    ]


def test_title_says_what_can_be_written() -> None:
    """The title says up to how many dead brokers each min ISR may be written, and what was lost."""
    expected = (
        "With 3 replicas one can write at min ISR 1 with up to 2 dead, at min ISR 2 with up to "
        "1 dead and at min ISR 3 with none dead; acked orders were lost in 1 cell"
    )
    assert expected == survival(grid()).title


def test_cell_says_what_it_is_in_words() -> None:
    """Each cell has a mark and a word; a loss is said in the cell."""
    assert ["●<br>write, read", "○<br>neither<br><b>✕ 2 lost</b>"] == words(grid())[:2]
    assert "◐<br>read only" == words(grid())[7]


def test_no_two_outcomes_look_alike() -> None:
    """Mark, word and fill of each outcome are its own."""
    styles = [(it.symbol, it.name, it.colour) for it in OUTCOMES.values()]

    assert [4, 4, 4] == [len(set(column)) for column in zip(*styles, strict=True)]


def test_several_runs_of_a_cell_show_the_worst() -> None:
    """A cell that was once not writable, and once lost an order, says both."""
    rows = [row(3, 1, 1), row(3, 1, 1, writable=False), row(3, 1, 1, lost=1)]
    picture = survival(rows)

    assert [(3, 1, 1, "read only", 1, 3)] == list(picture.table.rows)
    assert {0} == picture.table.marked


def test_never_writable_is_said() -> None:
    """A setting that cannot be written with all brokers alive is not called writable."""
    assert "With 1 replica one can write at min ISR 2 never" == survival([row(1, 2, 0)]).title


def test_nothing_to_show() -> None:
    """No rows have a picture, too."""
    assert "No run to show" == survival([]).title
