"""The explorer: a few choices, and a real run for each, drawn in place.

    explorer.js ── {"number": 4, "choice": {…}} ──▶ Explorer ── perform(choice) ──▶ a real run
    explorer.js ◀── {"number": 4, "run": {…}} ─────╯

The browser's half draws runs that are data (run_data.py) and asks a source for another one; here
the source is the kernel. This module is given a function that performs a choice and knows nothing
of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from lab_utils.errors import LabError
from lab_utils.views.explorer.choices import Offer
from lab_utils.views.explorer.run_data import RunData, styles

HERE: Final = Path(__file__).parent
DIAGRAM: Final = (HERE / "diagram.js").read_text(encoding="utf-8")
MODULE: Final = DIAGRAM + (HERE / "explorer.js").read_text(encoding="utf-8")
CSS: Final = (HERE / "explorer.css").read_text(encoding="utf-8")
RUNS_KEPT: Final = 12
CLOSED: Final = (
    "This lab is closed: Kafka has ended. Run the notebook's first cell, then this cell, to "
    "make another run. The runs below stay."
)
BROKEN: Final = (
    "The run could not be made ({}). If the lab was closed, run the notebook's first cell, then "
    "this cell."
)

INTERRUPTED: Final = 'The run was interrupted. Press "Run again", or change a choice.'

# JupyterLab shows a widget that it has no model of as "Error displaying widget: model not found".
# A page of another program has no such areas, and shows neither.
GONE: Final = (
    '<p class="lab-gone" style="display: none">This was {}, which is shown while its kernel runs. '
    "Run the notebook's first cell, then this cell.</p><style>"
    ".jp-OutputArea-child .lab-gone {{ display: block !important }}"
    ".jp-OutputArea-child:has(.lab-gone):has(+ .jp-OutputArea-child .lab-explorer), .jp-OutputArea"
    "-child:has(.lab-gone) + .jp-OutputArea-child:not(:has(.lab-explorer)) {{ display: none }}"
    "</style>"
)

Perform = Callable[[Mapping[str, str]], RunData]


class Widget:
    """What says, where a notebook is opened again without its kernel, what a widget was."""

    was: str

    def _repr_mimebundle_(self, **given: Any) -> Any:
        from IPython import display

        show: Any = display.display  # it has no types
        show({"text/html": GONE.format(self.was), "text/plain": ""}, raw=True)
        return super()._repr_mimebundle_(**given)  # type: ignore[misc]


class Drawn(Widget, anywidget.AnyWidget):
    """A widget that the explorer's module draws; the browser is given all styles with it."""

    _esm = MODULE
    _css = CSS
    styles: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)

    def __init__(self, **given: Any) -> None:
        super().__init__(styles=styles(), **given)


class Explorer(Drawn):
    """The widget: what is offered, the runs so far, and how another one is made."""

    was = "an explorer"
    offer: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    runs: traitlets.List[RunData] = traitlets.List().tag(sync=True)
    closed = traitlets.Unicode().tag(sync=True)

    def __init__(self, offer: Offer, perform: Perform, runs: list[RunData]) -> None:
        super().__init__(offer=offer.to_json(), runs=runs)
        self._perform = perform
        self.on_msg(self._answer)

    def __repr__(self) -> str:
        return f"<Explorer: {len(self.runs)} runs; shown by JupyterLab>"

    def tell(self, news: str) -> None:
        """Say something where the explorer is shown, and where it is shown again."""
        self.closed = news
        self.send({"news": news})

    def _answer(self, _: Explorer, asked: object, __: object) -> None:
        """Make the run that the browser asks for; what carries no number waits for no answer."""
        if not (isinstance(asked, Mapping) and isinstance(asked.get("number"), int)):
            return
        number = asked["number"]
        self.send({"number": number, "begun": True})
        self.send({"number": number, **self._made(asked.get("choice"))})

    def _made(self, choice: object) -> dict[str, Any]:
        if self.closed:
            return {"error": self.closed}
        try:
            run = self._perform(choice if isinstance(choice, Mapping) else {})
        except LabError as error:
            return {"error": str(error)}
        except KeyboardInterrupt:  # Kernel, Interrupt: the browser waits for an answer all the same
            return {"error": INTERRUPTED}
        except Exception as error:
            return {"error": BROKEN.format(type(error).__name__)}
        # In place: the page has it from the answer, and one that is opened anew asks for all.
        self.runs.append(run)
        del self.runs[:-RUNS_KEPT]
        return {"run": run}
