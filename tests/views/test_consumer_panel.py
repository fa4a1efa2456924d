"""The consumer panel without a browser: buttons that call, and where it stands."""

from __future__ import annotations

import re
from typing import Any

from lab_utils.views.consumer_panel import (
    BUTTONS,
    POINTER,
    SAID_LIMIT,
    ConsumerPanel,
    consumer_panel,
    consumer_table,
)

BEFORE: dict[str, Any] = {
    "process": "not started", "orders": ("0", "1", "2"), "delivered": [0, 0, 0],
    "processed": [0, 0, 0], "in_hand": None, "position": None, "committed": None,
}  # fmt: skip


def panel(calls: list[str], said: str = "ok") -> ConsumerPanel:
    def act(verb: str) -> str:
        calls.append(verb)
        return f"{verb}: {said}"

    return consumer_panel(act, lambda: BEFORE, lambda: "a new run")


def cells(standing: dict[str, Any], name: str) -> list[str]:
    """The cells of the row of this name."""
    row = next(it for it in consumer_table(standing).split("<tr>") if f">{name}</th>" in it)
    return re.findall(r"<td[^>]*>([^<]*)</td>", row)


def test_each_button_takes_its_step() -> None:
    """Each button does its own thing, and has a name and a sentence for it."""
    calls: list[str] = []
    shown = panel(calls)
    for button in shown.buttons.values():
        button.click()

    assert list(BUTTONS) == calls
    assert all(button.description and button.tooltip for button in shown.buttons.values())


def test_what_was_said_is_kept() -> None:
    """The latest steps are there, oldest first; the last is told to a screen reader."""
    shown = panel([])
    for _ in range(SAID_LIMIT + 1):
        shown.press("poll")
    shown.again.click()

    assert SAID_LIMIT == len(shown.value)
    assert "<strong role='status'>a new run</strong>" in shown._shown.value


def test_nothing_yet() -> None:
    """Before the first start there is a log, and no place in it."""
    assert ["0", "1", "2", "end"] == cells(BEFORE, "order")
    assert [""] * 4 == cells(BEFORE, "position (client)")
    assert "not started, position none, committed none, log end 3" in consumer_table(BEFORE)


def test_repeated_and_skipped() -> None:
    """An order that was done again says twice; one that the bookmark has passed says skipped."""
    later = BEFORE | {"delivered": [2, 1, 0], "processed": [2, 0, 0], "committed": 2, "position": 3}

    assert ["twice", "skipped", "", ""] == cells(later, "processed")
    assert ["", "", POINTER, ""] == cells(later, "committed (broker)")
    assert ["", "", "", POINTER] == cells(later, "position (client)")


def test_in_hand_is_not_skipped() -> None:
    """While an order is in hand its work may still be done."""
    assert "" == cells(BEFORE | {"committed": 1, "in_hand": 0}, "processed")[0]
    assert "skipped" == cells(BEFORE | {"committed": 1}, "processed")[0]


def test_hostile_words_are_escaped() -> None:
    """A text from the topic or the client is shown and never interpreted."""
    shown = panel([], said="<script>1")
    shown.press("poll")

    assert "<script>" not in shown._shown.value
    assert "<b>" not in consumer_table(BEFORE | {"orders": ("<b>", "1", "2")})
