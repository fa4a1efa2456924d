"""The transaction panel: buttons for two producers, and what each isolation level is given.

It is given three functions and knows nothing of Kafka. It works through the kernel, so a click
waits while a cell is running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

import ipywidgets

SAID_LIMIT: Final = 8
WORDS: Final = {
    "init": "init_transactions", "begin": "begin_transaction", "produce": "produce and flush",
    "commit": "commit_transaction", "abort": "abort_transaction",
}  # fmt: skip

Act = Callable[[str, str], str]
Given = Callable[[], Mapping[str, Sequence[str]]]


class TransactionPanel(ipywidgets.VBox):  # type: ignore[misc]
    """Buttons for two producers; `value` is what has been said, latest last."""

    def __init__(self, act: Act, given: Given, begin_again: Callable[[], str]) -> None:
        self._act = act
        self._given = given
        self.value: tuple[str, ...] = ()
        self._said = ipywidgets.HTML()
        again = ipywidgets.Button(description="new run", tooltip="End this run and begin another")
        again.on_click(lambda _: self._tell(begin_again()))
        self.buttons = {(name, verb): self._button(name, verb) for name in "AB" for verb in WORDS}
        rows = [
            ipywidgets.HBox(
                [ipywidgets.Label(f"producer {name}"), *(self.buttons[name, it] for it in WORDS)]
            )
            for name in "AB"
        ]
        super().__init__([*rows, again, self._said])
        self._show()

    def __repr__(self) -> str:
        return f"<TransactionPanel: {len(self.value)} calls so far; shown by JupyterLab>"

    def press(self, name: str, verb: str) -> None:
        """Do what the button does."""
        self._tell(self._act(name, verb))

    def _button(self, name: str, verb: str) -> ipywidgets.Button:
        button = ipywidgets.Button(
            description=WORDS[verb], tooltip=f"{WORDS[verb]}() of {name}",
            layout=ipywidgets.Layout(width="auto"),
        )  # fmt: skip
        button.on_click(lambda _: self.press(name, verb))
        return button

    def _tell(self, said: str) -> None:
        self.value = (*self.value, said)[-SAID_LIMIT:]
        self._show()

    def _show(self) -> None:
        given = "".join(
            f"<tr><th scope='row' style='text-align: left'>{escape(level)}</th>"
            f"<td style='text-align: left'>{escape(' '.join(values)) or 'nothing'}</td></tr>"
            for level, values in self._given().items()
        )
        lines = "<br>".join(escape(line) for line in self.value)
        self._said.value = f"<table>{given}</table><p>{lines}</p>"


def transaction_panel(act: Act, given: Given, begin_again: Callable[[], str]) -> TransactionPanel:
    """The panel around these functions."""
    return TransactionPanel(act, given, begin_again)
