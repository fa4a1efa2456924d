"""Transactions by hand, without a browser: buttons that call, and the run that is drawn."""

from __future__ import annotations

from lab_utils.ledger.events import Event
from lab_utils.views.panel.transaction_panel import PRODUCERS, VERBS, TransactionPanel
from tests.views import transaction_histories

BUTTONS = [(name, verb) for name in PRODUCERS for verb in VERBS]


def panel(
    calls: list[tuple[str, ...]], rows: list[Event] | None = None, said: str = "ok"
) -> TransactionPanel:
    def act(name: str, verb: str) -> str:
        calls.append((name, verb))
        return f"{name} {verb}: {said}"

    return TransactionPanel(act, lambda: rows or [], lambda: "a new run")


def test_each_button_takes_its_step() -> None:
    """Each button does its own thing, and has a name and a sentence for it."""
    calls: list[tuple[str, ...]] = []
    shown = panel(calls)
    for button in shown.buttons.values():
        button.click()

    assert BUTTONS == calls == list(shown.buttons)
    assert all(button.description and button.tooltip for button in shown.buttons.values())


def test_run_is_drawn_after_each_click() -> None:
    """The picture holds what each reader is given; a new run begins with nothing."""
    rows = transaction_histories.commit_and_abort()
    shown = panel([], rows)
    before = shown.drawn.run
    shown.press(*BUTTONS[0])
    names = [row["name"] for row in shown.drawn.run["log"]]
    rows.clear()
    shown.again.click()

    assert {} == before == shown.drawn.run
    assert any(name.startswith("read_committed") for name in names)


def test_last_answer_is_told() -> None:
    """What the last call was told is there for a screen reader, and is never interpreted."""
    shown = panel([], said="<script>1")
    shown.press(*BUTTONS[0])

    assert "<script>" not in shown._told.value
    assert "<strong role='status'>A init: &lt;script&gt;1" in shown._told.value
