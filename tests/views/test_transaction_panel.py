"""The transaction panel without a browser: buttons that call, and words that are escaped."""

from __future__ import annotations

from lab_utils.views.transaction_panel import SAID_LIMIT, TransactionPanel, transaction_panel


def panel(calls: list[tuple[str, str]], said: str = "ok") -> TransactionPanel:
    def act(name: str, verb: str) -> str:
        calls.append((name, verb))
        return f"{name} {verb}: {said}"

    given = {"read_uncommitted": ["1", "2"], "read_committed": []}
    return transaction_panel(act, lambda: given, lambda: "a new run")


def test_each_button_calls_its_producer() -> None:
    """Two producers with five buttons each, and each button does its own thing."""
    calls: list[tuple[str, str]] = []
    shown = panel(calls)
    for button in shown.buttons.values():
        button.click()

    assert list(shown.buttons) == calls
    assert 10 == len(calls)


def test_what_was_said_is_kept() -> None:
    """The latest calls are there, oldest first, and not more than there is room for."""
    shown = panel([])
    for _ in range(SAID_LIMIT + 1):
        shown.press("A", "begin")
    shown.press("B", "commit")

    assert SAID_LIMIT == len(shown.value)
    assert "B commit: ok" == shown.value[-1]


def test_both_levels_are_shown() -> None:
    """What each isolation level is given stands above what was said; nothing is said as nothing."""
    text = panel([])._said.value

    assert text.index("read_uncommitted") < text.index("1 2") < text.index("nothing")


def test_hostile_words_are_escaped() -> None:
    """An error text is shown and never interpreted."""
    shown = panel([], said="<script>1")
    shown.press("A", "init")

    assert "<script>" not in shown._said.value
    assert "&lt;script&gt;1" in shown._said.value
