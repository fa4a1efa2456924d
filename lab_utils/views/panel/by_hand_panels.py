"""A panel for clients by hand: two producers with transactions, step by step.

It is given functions and knows nothing of Kafka. It works through the kernel, so a click waits
while a cell is running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

import ipywidgets

SAID_LIMIT: Final = 8
# Each verb with what is on its button, and what it does.
PRODUCER: Final = {
    "init": ("init_transactions", "init_transactions()"),
    "begin": ("begin_transaction", "begin_transaction()"),
    "produce": ("produce and flush", "produce() and flush()"),
    "commit": ("commit_transaction", "commit_transaction()"),
    "abort": ("abort_transaction", "abort_transaction()"),
}
LEFT: Final = "text-align: left; padding: 2px 10px 2px 0; white-space: nowrap"


class ByHandPanel(ipywidgets.VBox):  # type: ignore[misc]
    """Rows of buttons, and below them where things stand; `value` is what was said, latest last.

    rows         for each name of a row its buttons by verb; `act` is called with both
    standing     what stands above the words, as HTML
    begin_again  ends this run and begins another
    """

    def __init__(
        self,
        rows: Mapping[str, Mapping[str, tuple[str, str]]],
        act: Callable[[str, str], str],
        standing: Callable[[], str],
        begin_again: Callable[[], str],
    ) -> None:
        self._act, self._standing = act, standing
        self.value: tuple[str, ...] = ()
        self._shown = ipywidgets.HTML()
        self.buttons = {
            (name, verb): _button(words, f"{about} {name}".strip(), self.press, name, verb)
            for name, verbs in rows.items()
            for verb, (words, about) in verbs.items()
        }
        again = "End this run and begin another"
        self.again = _button("new run", again, lambda: self._tell(begin_again()))
        boxes = [self._row(name, verbs) for name, verbs in rows.items()]
        super().__init__([*boxes, self.again, self._shown])
        self._show()

    def __repr__(self) -> str:
        return f"<ByHandPanel: {len(self.value)} steps so far; shown by JupyterLab>"

    def press(self, name: str, verb: str) -> None:
        """Do what the button does."""
        self._tell(self._act(name, verb))

    def _row(self, name: str, verbs: Mapping[str, object]) -> ipywidgets.HBox:
        label = [ipywidgets.Label(f"producer {name}")] if name else []
        buttons = [self.buttons[name, verb] for verb in verbs]
        return ipywidgets.HBox([*label, *buttons], layout=ipywidgets.Layout(flex_flow="row wrap"))

    def _tell(self, said: str) -> None:
        self.value = (*self.value, said)[-SAID_LIMIT:]
        self._show()

    def _show(self) -> None:
        # A screen reader is told the latest line; the rest is there to be read.
        *earlier, last = self.value or ("",)
        lines = "".join(f"{escape(line)}<br>" for line in earlier)
        said = f"<div>{lines}<strong role='status'>{escape(last)}</strong></div>"
        self._shown.value = self._standing() + said


def _button(words: str, about: str, do: Callable[..., None], *given: str) -> ipywidgets.Button:
    layout = ipywidgets.Layout(width="auto")
    button = ipywidgets.Button(description=words, tooltip=about, layout=layout)
    button.on_click(lambda _: do(*given))
    return button


def transaction_panel(
    act: Callable[[str, str], str],
    given: Callable[[], Mapping[str, Sequence[str]]],
    begin_again: Callable[[], str],
) -> ByHandPanel:
    """Two producers, A and B, and what each isolation level is given."""

    def standing() -> str:
        rows = (
            f"<tr><th scope='row' style='{LEFT}'>{escape(level)}</th>"
            f"<td style='{LEFT}'>{escape(' '.join(values)) or 'nothing'}</td></tr>"
            for level, values in given().items()
        )
        return f"<table>{''.join(rows)}</table>"

    return ByHandPanel({"A": PRODUCER, "B": PRODUCER}, act, standing, begin_again)
