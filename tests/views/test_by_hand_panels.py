"""The panels for clients by hand, without a browser: buttons that call, and where things stand."""

from __future__ import annotations

from lab_utils.views.panel.by_hand_panels import (
    PRODUCER,
    SAID_LIMIT,
    ByHandPanel,
    transaction_panel,
)

GIVEN = {"read_uncommitted": ["1", "<b>"], "read_committed": []}


def of_producers(calls: list[tuple[str, ...]], said: str = "ok") -> ByHandPanel:
    def act(name: str, verb: str) -> str:
        calls.append((name, verb))
        return f"{name} {verb}: {said}"

    return transaction_panel(act, lambda: GIVEN, lambda: "a new run")


BUTTONS = [(name, verb) for name in "AB" for verb in PRODUCER]


def test_each_button_takes_its_step() -> None:
    """Each button does its own thing, and has a name and a sentence for it."""
    calls: list[tuple[str, ...]] = []
    shown = of_producers(calls)
    for button in shown.buttons.values():
        button.click()

    assert BUTTONS == calls == list(shown.buttons)
    assert all(button.description and button.tooltip for button in shown.buttons.values())


def test_what_was_said_is_kept() -> None:
    """The latest steps are there, oldest first; the last is told to a screen reader."""
    shown = of_producers([])
    for _ in range(SAID_LIMIT + 1):
        shown.press(*BUTTONS[0])
    shown.again.click()

    assert SAID_LIMIT == len(shown.value)
    assert "<strong role='status'>a new run</strong>" in shown._shown.value


def test_hostile_words_are_escaped() -> None:
    """A text from the topic or the client is shown and never interpreted."""
    shown = of_producers([], said="<script>1")
    shown.press(*BUTTONS[0])

    assert "<script>" not in shown._shown.value
    assert "&lt;script&gt;1" in shown._shown.value
    assert "<b>" not in shown._shown.value


def test_both_levels_are_shown() -> None:
    """What each isolation level is given stands above what was said; nothing is said as nothing."""
    text = of_producers([])._shown.value

    assert text.index("read_uncommitted") < text.index("1 &lt;b&gt;") < text.index("nothing")
