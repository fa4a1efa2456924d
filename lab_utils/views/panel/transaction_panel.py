"""A panel for clients by hand: two producers with transactions, and the run that they make.

Each click is a call, and the run is drawn again with what it did. The panel is given functions and
knows nothing of Kafka. It works through the kernel, so a click waits while a cell is running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

import ipywidgets
import traitlets

from lab_utils.ledger.events import Event
from lab_utils.views.explorer import Drawn, Widget
from lab_utils.views.explorer.run_data import run_data

# What is on each button; what it calls is the same, less "and flush".
VERBS: Final = {
    "init": "init_transactions",
    "begin": "begin_transaction",
    "produce": "produce and flush",
    "commit": "commit_transaction",
    "abort": "abort_transaction",
}
PRODUCERS: Final = {"A": "producer-1", "B": "producer-2"}
APIS: Final = ("InitProducerId", "Produce", "EndTxn")


class RunSoFar(Drawn):
    """A run as data, drawn as the explorer draws one, and drawn again when it has grown."""

    run: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)


class TransactionPanel(Widget, ipywidgets.VBox):  # type: ignore[misc]
    """A row of buttons for each producer, what the last call was told, and the run so far.

    act          called with producer and verb; returns what was told, as a sentence
    rows         the events of the run so far
    begin_again  ends this run and begins another
    """

    was = "a panel of transactions"

    def __init__(
        self,
        act: Callable[[str, str], str],
        rows: Callable[[], Sequence[Event]],
        begin_again: Callable[[], str],
    ) -> None:
        self._act, self._rows = act, rows
        self.value = ""
        self.drawn = RunSoFar()
        self._told = ipywidgets.HTML()
        self.buttons = {
            (name, verb): _button(words, f"{words} {name}", self.press, name, verb)
            for name in PRODUCERS
            for verb, words in VERBS.items()
        }
        again = "End this run and begin another"
        self.again = _button("new run", again, lambda: self._tell(begin_again()))
        rows_of_buttons = [self._row(name) for name in PRODUCERS]
        super().__init__([*rows_of_buttons, self.again, self._told, self.drawn])

    def __repr__(self) -> str:
        return f"<TransactionPanel: {self.value or 'nothing yet'}; shown by JupyterLab>"

    def press(self, name: str, verb: str) -> None:
        """Do what the button does."""
        self._tell(self._act(name, verb))

    def _row(self, name: str) -> ipywidgets.HBox:
        label = ipywidgets.Label(f"{name} ({PRODUCERS[name]})")
        buttons = [self.buttons[name, verb] for verb in VERBS]
        return ipywidgets.HBox([label, *buttons], layout=ipywidgets.Layout(flex_flow="row wrap"))

    def _tell(self, said: str) -> None:
        self.value = said
        self._told.value = f"<strong role='status'>{escape(said)}</strong>"
        rows = self._rows()
        self.drawn.run = run_data(rows, about="transactions", apis=APIS) if rows else {}


def _button(words: str, about: str, do: Callable[..., None], *given: str) -> ipywidgets.Button:
    layout = ipywidgets.Layout(width="auto")
    button = ipywidgets.Button(description=words, tooltip=about, layout=layout)
    button.on_click(lambda _: do(*given))
    return button
