"""The panels for clients by hand, without a browser: buttons that call, and where things stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lab_utils.views.panel.by_hand_panels import (
    CONSUMER,
    POINTER,
    PRODUCER,
    SAID_LIMIT,
    ByHandPanel,
    consumer_panel,
    consumer_table,
    transaction_panel,
)

BEFORE: dict[str, Any] = {
    "process": "not started", "orders": ("0", "1", "2"), "delivered": [0, 0, 0],
    "processed": [0, 0, 0], "in_hand": None, "position": None, "committed": None,
}  # fmt: skip
GIVEN = {"read_uncommitted": ["1", "<b>"], "read_committed": []}


def of_consumer(calls: list[tuple[str, ...]], said: str = "ok") -> ByHandPanel:
    def act(verb: str) -> str:
        calls.append(("", verb))
        return f"{verb}: {said}"

    return consumer_panel(act, lambda: BEFORE, lambda: "a new run")


def of_producers(calls: list[tuple[str, ...]], said: str = "ok") -> ByHandPanel:
    def act(name: str, verb: str) -> str:
        calls.append((name, verb))
        return f"{name} {verb}: {said}"

    return transaction_panel(act, lambda: GIVEN, lambda: "a new run")


BOTH = pytest.mark.parametrize(
    ("panel", "buttons"),
    [(of_consumer, [("", verb) for verb in CONSUMER]),
     (of_producers, [(name, verb) for name in "AB" for verb in PRODUCER])],
)  # fmt: skip
Make = Callable[..., ByHandPanel]


def cells(standing: dict[str, Any], name: str) -> list[str]:
    """The cells of the row of this name."""
    row = next(it for it in consumer_table(standing).split("<tr>") if f">{name}</th>" in it)
    return re.findall(r"<td[^>]*>([^<]*)</td>", row)


@BOTH
def test_each_button_takes_its_step(panel: Make, buttons: list[tuple[str, str]]) -> None:
    """Each button does its own thing, and has a name and a sentence for it."""
    calls: list[tuple[str, ...]] = []
    shown = panel(calls)
    for button in shown.buttons.values():
        button.click()

    assert buttons == calls == list(shown.buttons)
    assert all(button.description and button.tooltip for button in shown.buttons.values())


@BOTH
def test_what_was_said_is_kept(panel: Make, buttons: list[tuple[str, str]]) -> None:
    """The latest steps are there, oldest first; the last is told to a screen reader."""
    shown = panel([])
    for _ in range(SAID_LIMIT + 1):
        shown.press(*buttons[0])
    shown.again.click()

    assert SAID_LIMIT == len(shown.value)
    assert "<strong role='status'>a new run</strong>" in shown._shown.value


@BOTH
def test_hostile_words_are_escaped(panel: Make, buttons: list[tuple[str, str]]) -> None:
    """A text from the topic or the client is shown and never interpreted."""
    shown = panel([], said="<script>1")
    shown.press(*buttons[0])

    assert "<script>" not in shown._shown.value
    assert "&lt;script&gt;1" in shown._shown.value
    assert "<b>" not in shown._shown.value
    assert "<b>" not in consumer_table(BEFORE | {"orders": ("<b>", "1", "2")})


def test_both_levels_are_shown() -> None:
    """What each isolation level is given stands above what was said; nothing is said as nothing."""
    text = of_producers([])._shown.value

    assert text.index("read_uncommitted") < text.index("1 &lt;b&gt;") < text.index("nothing")


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
