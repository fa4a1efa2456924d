"""The control panel: buttons for a lab's faults and brokers, and what crosses the wire, live.

The browser's half is panel.js, which draws with the explorer's diagram.js. It speaks to the stage
server through jupyter-server-proxy, so a click acts while a cell is running. Where the page has no
such path, the browser asks this half, and the kernel asks the stage. A lab that was closed is
started again by the kernel.

The widget carries the address and the token of the stage: both are worthless once it has ended.
This module is given a stage and knows nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import anywidget
import traitlets

from lab_utils.errors import BadArgument, LabError, one_of
from lab_utils.proxy.faults import Fault, to_json
from lab_utils.views.explorer import CSS, DIAGRAM
from lab_utils.views.explorer.run_data import styles

if TYPE_CHECKING:
    from lab_utils.stage.client import Stage

HERE: Final = Path(__file__).parent
VERBS: Final = ("kill", "pause", "resume", "stop", "start")
LINK_VERBS: Final = ("cut", "hold", "heal")
EVENTS_LIMIT: Final = 100
Start = Callable[[], "Stage"]
REPAIR: Final = "Run the notebook's first cell again, then this cell."


def panel(stage: Stage, faults: Sequence[Fault] = (), start: Start | None = None) -> Panel:
    """The panel of a stage; asked for again, the same widget, so a repeated cell leaks none."""
    shown = _panels.get(stage)
    if shown is None or shown.comm is None or shown.arms != tuple(faults):
        shown = _panels[stage] = Panel(stage, faults, start)
    return shown


class Panel(anywidget.AnyWidget):
    """The widget: what the browser needs to begin with, and the kernel's half of the panel."""

    _esm = DIAGRAM + (HERE / "panel.js").read_text(encoding="utf-8")
    _css = CSS + (HERE / "panel.css").read_text(encoding="utf-8")

    stage: Stage
    arms: tuple[Fault, ...]
    lab = traitlets.Unicode().tag(sync=True)
    port = traitlets.Int().tag(sync=True)
    token = traitlets.Unicode().tag(sync=True)
    faults: traitlets.List[Any] = traitlets.List().tag(sync=True)
    styles: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)

    def __init__(
        self, stage: Stage, faults: Sequence[Fault] = (), start: Start | None = None
    ) -> None:
        # All in the message that makes the widget: the browser draws what it holds, and no more.
        super().__init__(
            lab=stage.name,
            port=urlsplit(stage.url).port,
            token=stage.token,
            faults=[_button(fault) for fault in faults],
            styles=styles(),
        )
        self.stage = stage
        self._start = start
        self.arms = tuple(faults)
        self.on_msg(self._answer)

    def __repr__(self) -> str:
        return f"<Panel of lab {self.lab}: {len(self.arms)} faults; shown by JupyterLab>"

    def perform(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Do what the browser asks for; return the stage's state and its latest events.

        `verb` is state, arm (`fault`: the number of a button), disarm (`id`), reset, a verb of a
        broker (`broker`: its id) or of a link (`link`: two ids). Raises BadArgument, StageError.
        """
        verb = one_of("verb", str(asked.get("verb")), (*_ASKED, *VERBS, *LINK_VERBS))
        if verb in VERBS:
            self.stage.broker(verb, _number(asked, "broker"))
        elif verb in LINK_VERBS:
            self.stage.link(*_pair(asked), verb)
        else:
            _ASKED[verb](self, asked)
        state = self.stage.state()
        after = max(_number(asked, "after"), state["seen"] - EVENTS_LIMIT)
        return {"state": state, "events": self.stage.events(after)}

    def _arm(self, asked: Mapping[str, Any]) -> None:
        number = _number(asked, "fault")
        if number >= len(self.arms):
            raise BadArgument(f"this panel has {len(self.arms)} faults; got number {number}.")
        self.stage.arm("", self.arms[number])

    def _disarm(self, asked: Mapping[str, Any]) -> None:
        fault_id = asked.get("id")
        if not (isinstance(fault_id, str) and fault_id.isalnum()):
            raise BadArgument(f'a fault is named by its id, as in "f1"; got {fault_id!r}.')
        self.stage.clear(fault_id)

    def _answer(self, _: Panel, asked: object, __: object) -> None:
        """Answer one message of the browser; what carries no number waits for no answer."""
        if not (isinstance(asked, Mapping) and isinstance(asked.get("number"), int)):
            return
        try:
            if asked.get("verb") == "again":
                self.send({"number": asked["number"], "begun": True})
                answer = self._started()
            else:
                answer = self.perform(asked)
        except LabError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        except RuntimeError:  # The connection of a stage that this kernel has ended is closed.
            answer = {"error": f"This stage has ended. {REPAIR}", "kind": "StageError"}
        self.send({"number": asked["number"], **answer})

    def _started(self) -> dict[str, Any]:
        """Start the lab again, and be the panel of its new stage."""
        if self._start is None:
            raise BadArgument(f"this panel cannot start a lab. {REPAIR}")
        self.stage = self._start()
        _panels[self.stage] = self
        with self.hold_sync():
            self.port = urlsplit(self.stage.url).port or 0
            self.token = self.stage.token
        return {"state": self.stage.state(), "events": []}


_ASKED: Final[Mapping[str, Callable[[Panel, Mapping[str, Any]], object]]] = {
    "state": lambda _, __: None,
    "arm": Panel._arm,
    "disarm": Panel._disarm,
    "reset": lambda panel, _: panel.stage.reset(),
}
_panels: WeakKeyDictionary[Stage, Panel] = WeakKeyDictionary()


def _number(asked: Mapping[str, Any], name: str) -> int:
    number = asked.get(name, 0)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise BadArgument(f"{name!r} must be a number from 0 on; got {number!r}.")
    return number


def _pair(asked: Mapping[str, Any]) -> tuple[int, int]:
    pair = asked.get("link")
    if not (isinstance(pair, list) and len(pair) == 2 and pair[0] != pair[1]):
        raise BadArgument(f"a link is between two brokers, as in [1, 2]; got {pair!r}.")
    a, b = (_number({"broker": each}, "broker") for each in pair)
    return a, b


def _button(fault: Fault) -> dict[str, Any]:
    about = (type(fault).__doc__ or "").partition("\n")[0]
    return {
        "words": fault.words,
        "code": fault.code,
        "about": about,
        "fault": to_json(fault),
    }
