"""The consumer panel: one consumer by hand, step by step, and where its bookmark stands.

It is given three functions and knows nothing of Kafka. It works through the kernel, so a click
waits while a cell is running. What a cell means is in its words and signs, and in no colour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final

import ipywidgets

SAID_LIMIT: Final = 8
# Each verb with what is on its button, and what it does.
BUTTONS: Final = {
    "start": ("start", "Start the consumer's process; again after a crash"),
    "poll": ("poll one", "poll(): hand me the next record"),
    "process": ("process it", "Do the work for the record in hand"),
    "commit": ("commit now", "commit() behind the record in hand, and wait for the answer"),
    "crash": ("crash here", "SIGKILL: the process ends at once"),
}
POINTER: Final = "\N{BLACK UP-POINTING TRIANGLE}"
# What should not have happened is bold.
BREACHES: Final = ("twice", "times", "skipped")
LEFT: Final = "text-align: left; padding: 2px 10px 2px 0; white-space: nowrap"
CELL: Final = "text-align: center; padding: 2px 4px; min-width: 62px; border-left: 1px solid"

Standing = Mapping[str, Any]


class ConsumerPanel(ipywidgets.VBox):  # type: ignore[misc]
    """Buttons for one consumer; `value` is what has been said, latest last."""

    def __init__(
        self,
        act: Callable[[str], str],
        standing: Callable[[], Standing],
        begin_again: Callable[[], str],
    ) -> None:
        self._act = act
        self._standing = standing
        self.value: tuple[str, ...] = ()
        self._shown = ipywidgets.HTML()
        self.buttons = {verb: self._button(verb) for verb in BUTTONS}
        self.again = ipywidgets.Button(
            description="new run",
            tooltip="End this run and begin another",
            layout=_as_wide_as_its_words(),
        )
        self.again.on_click(lambda _: self._tell(begin_again()))
        row = ipywidgets.HBox(
            [*self.buttons.values(), self.again], layout=ipywidgets.Layout(flex_flow="row wrap")
        )
        super().__init__([row, self._shown])
        self._show()

    def __repr__(self) -> str:
        return f"<ConsumerPanel: {len(self.value)} steps so far; shown by JupyterLab>"

    def press(self, verb: str) -> None:
        """Do what the button does."""
        self._tell(self._act(verb))

    def _button(self, verb: str) -> ipywidgets.Button:
        words, about = BUTTONS[verb]
        button = ipywidgets.Button(description=words, tooltip=about, layout=_as_wide_as_its_words())
        button.on_click(lambda _: self.press(verb))
        return button

    def _tell(self, said: str) -> None:
        self.value = (*self.value, said)[-SAID_LIMIT:]
        self._show()

    def _show(self) -> None:
        # A screen reader is told the latest line; the rest is there to be read.
        *earlier, last = self.value or ("",)
        lines = "".join(f"{escape(line)}<br>" for line in earlier)
        said = f"<div>{lines}<strong role='status'>{escape(last)}</strong></div>"
        self._shown.value = consumer_table(self._standing()) + said


def _as_wide_as_its_words() -> ipywidgets.Layout:
    return ipywidgets.Layout(width="auto")


def consumer_panel(
    act: Callable[[str], str],
    standing: Callable[[], Standing],
    begin_again: Callable[[], str],
) -> ConsumerPanel:
    """The panel around these functions."""
    return ConsumerPanel(act, standing, begin_again)


def consumer_table(standing: Standing) -> str:
    """Each order of the log with what became of it; below, the two offsets that read on there."""
    orders: Sequence[str] = standing["orders"]
    places = range(len(orders) + 1)
    marks = {"position": "position (client)", "committed": "committed (broker)"}
    body = [
        ("offset", [str(place) for place in places]),
        ("order", [*orders, "end"]),
        ("delivered", [*map(_times, standing["delivered"]), ""]),
        ("in hand", [_pointer(standing["in_hand"], place) for place in places]),
        ("processed", [*map(_work, places, standing["processed"], [standing] * len(orders)), ""]),
        *((words, [_pointer(standing[name], place) for place in places])
          for name, words in marks.items()),
    ]  # fmt: skip
    rows = "".join(_row(name, cells) for name, cells in body)
    numbers = [f"{name} {_number(standing[name])}" for name in marks]
    caption = ", ".join([standing["process"], *numbers, f"log end {len(orders)}"])
    return (
        "<table style='border-collapse: collapse; margin: 8px 0'>"
        f"<caption style='{LEFT}'>{escape(caption)}</caption>{rows}</table>"
    )


def _row(name: str, cells: Sequence[str]) -> str:
    head = f"<th scope='row' style='{LEFT}'>{escape(name)}</th>"
    return f"<tr>{head}{''.join(map(_cell, cells))}</tr>"


def _cell(text: str) -> str:
    weight = "bold" if any(word in text for word in BREACHES) else "normal"
    return f"<td style='{CELL}; font-weight: {weight}'>{escape(text)}</td>"


def _times(count: int) -> str:
    return {0: "", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _work(place: int, count: int, standing: Standing) -> str:
    """How often the work was done; that it never will be, where the bookmark has passed it."""
    if count or place == standing["in_hand"]:
        return _times(count)
    return "skipped" if place < (standing["committed"] or 0) else ""


def _number(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def _pointer(offset: int | None, place: int) -> str:
    return POINTER if offset == place else ""
