"""The control panel: buttons for a lab's faults and brokers, and what crosses the wire, live.

The browser's half is panel.js, which draws with the explorer's diagram.js. It speaks to the stage
server through jupyter-server-proxy, so a click acts while a cell is running. Where the page has no
such path, this half passes its requests on to the stage. A lab that was closed is started again by
the kernel.

The widget carries the address and the token of the stage: both are worthless once it has ended.
This module is given a stage and knows nothing else of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import traitlets

from lab_utils.errors import BadArgument, LabError
from lab_utils.ledger.history import LEFT
from lab_utils.proxy.faults import Fault, to_json
from lab_utils.proxy.faults.frame_faults import (
    corrupt_request,
    delay_response,
    drop_request,
    drop_response,
)
from lab_utils.proxy.faults.refuse import refuse
from lab_utils.views.explorer import CSS, DIAGRAM, Drawn

if TYPE_CHECKING:
    from lab_utils.stage.client import Stage

HERE: Final = Path(__file__).parent
# The requests that a panel makes; a stage takes others, too.
REQUESTS: Final = re.compile(
    r"GET /(state|events\?after=\d+)"
    r"|POST /(faults|reset|brokers/\d+/\w+|links/\d+/\d+/\w+)|DELETE /faults/\w+"
)
Start = Callable[[], "Stage"]
REPAIR: Final = "Run the notebook's first cell again, then this cell."


def panel(stage: Stage, faults: Sequence[Fault] = (), start: Start | None = None) -> Panel:
    """The panel of a stage; asked for again, the same widget, so a repeated cell leaks none."""
    shown = _panels.get(stage)
    if shown is None or shown.comm is None or shown.arms != tuple(faults):
        shown = _panels[stage] = Panel(stage, faults, start)
    return shown


def tell_closed(stage: Stage) -> None:
    """Tell the panel of a stage, if it has one, that the stage ends: it then asks it nothing."""
    if shown := _panels.get(stage):
        shown.closed = True


class Panel(Drawn):
    """The widget: what the browser needs to begin with, and the kernel's half of the panel."""

    _esm = DIAGRAM + (HERE / "panel.js").read_text(encoding="utf-8")
    _css = CSS + (HERE / "panel.css").read_text(encoding="utf-8")
    was = "a panel"

    stage: Stage
    arms: tuple[Fault, ...]
    lab = traitlets.Unicode().tag(sync=True)
    port = traitlets.Int().tag(sync=True)
    token = traitlets.Unicode().tag(sync=True)
    closed = traitlets.Bool(default_value=False).tag(sync=True)
    faults: traitlets.List[Any] = traitlets.List().tag(sync=True)
    left: traitlets.List[Any] = traitlets.List(list(LEFT)).tag(sync=True)

    def __init__(
        self, stage: Stage, faults: Sequence[Fault] = (), start: Start | None = None
    ) -> None:
        # All in the message that makes the widget: the browser draws what it holds, and no more.
        super().__init__(
            lab=stage.name,
            port=urlsplit(stage.url).port,
            token=stage.token,
            faults=[_button(fault) for fault in faults],
        )
        self.stage = stage
        self._start = start
        self.arms = tuple(faults)
        self.on_msg(self._answer)

    def __repr__(self) -> str:
        return f"<Panel of lab {self.lab}: {len(self.arms)} faults; shown by JupyterLab>"

    def _answer(self, _: Panel, asked: object, __: object) -> None:
        """Answer one message of the browser; what carries no number waits for no answer."""
        if not (isinstance(asked, Mapping) and isinstance(asked.get("number"), int)):
            return
        answer: dict[str, Any] = {}
        try:
            if asked.get("verb") == "again":
                self.send({"number": asked["number"], "begun": True})
                self._start_again()
            else:
                answer = {"said": self._passed_on(asked)}
        except LabError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        except KeyboardInterrupt:  # The browser waits for an answer all the same.
            answer = {"error": "the kernel was interrupted. Press it again.", "kind": "Interrupted"}
        except RuntimeError:  # The connection of a stage that this kernel has ended is closed.
            answer = {"error": f"This stage has ended. {REPAIR}", "kind": "StageError"}
        self.send({"number": asked["number"], **answer})

    def _passed_on(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What the stage says to a request of the browser; raises BadArgument, StageError."""
        method, path = str(asked.get("method")), str(asked.get("path"))
        if not REQUESTS.fullmatch(f"{method} {path}"):
            raise BadArgument(f"a panel does not ask a stage for {method} {path!r:.200}.")
        return self.stage.ask(method, path, asked.get("body"))

    def _start_again(self) -> None:
        """Start the lab again, and be the panel of its new stage."""
        if self._start is None:
            raise BadArgument(f"this panel cannot start a lab. {REPAIR}")
        self.stage = self._start()
        _panels[self.stage] = self
        with self.hold_sync():
            self.closed = False
            self.port = urlsplit(self.stage.url).port or 0
            self.token = self.stage.token


_panels: WeakKeyDictionary[Stage, Panel] = WeakKeyDictionary()


def _button(fault: Fault) -> dict[str, Any]:
    about = (type(fault).__doc__ or "").partition("\n")[0]
    return {"words": fault.words, "code": fault.code, "about": about, "fault": to_json(fault)}


# What the panel of each lab offers: one request goes wrong, the next one.
PANEL_FAULTS: Sequence[Fault] = (
    drop_response("Produce"),
    drop_request("Produce"),
    corrupt_request("Produce"),
    refuse("Produce", error="NOT_ENOUGH_REPLICAS"),
    delay_response("Produce", by_ms=3000),
)
# Where a lab is about other requests than Produce.
PANEL_FAULTS_OF: Mapping[str, Sequence[Fault]] = {
    "05": (
        drop_response("OffsetCommit"),
        drop_request("OffsetCommit"),
        refuse("OffsetCommit", error="UNKNOWN_MEMBER_ID"),
        delay_response("OffsetCommit", by_ms=3000),
    ),
    "06": (
        drop_response("TxnOffsetCommit"),
        drop_response("EndTxn"),
        refuse("TxnOffsetCommit", error="ILLEGAL_GENERATION"),
        delay_response("TxnOffsetCommit", by_ms=1000),
        delay_response("EndTxn", by_ms=1000),
    ),
}
