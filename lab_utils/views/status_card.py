"""The status card: is the stage of this lab well, and if not, what mends it.

A function of the stage server's state: `bootstrap` (the proxy's address), `brokers` (each with
`id` and `state`) and `faults` (what is armed). What is absent is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from lab_utils.views import palette
from lab_utils.views.table import Table
from lab_utils.views.wording import counted

REPAIR: Final = {
    "paused": "It answers again when it is resumed, in the panel.",
    "starting": "Look again in a moment.",
}
REPAIR_OTHERS: Final = 'Start it in the panel, or run "./lab down" and then the first cell again.'


def status_card(lab: str, state: Mapping[str, Any]) -> str:
    """The state of a stage as HTML; what is unwell is named with what mends it."""
    brokers: Sequence[Mapping[str, Any]] = state.get("brokers", ())
    faults: Sequence[object] = state.get("faults", ())
    troubles = [trouble for broker in brokers if (trouble := _trouble(broker))]
    if state.get("controller") == "died":
        troubles.append("The controller has died. Run the first cell again for a new stage.")
    colour = palette.VERMILLION if troubles else palette.BLUE
    said = " ".join(troubles) or "The stage is ready."
    rows = [(f"broker {broker.get('id', '')}", broker.get("state")) for broker in brokers]
    if "bootstrap" in state:
        rows.append(("proxy", f"your clients connect to {state['bootstrap']}"))
    rows.append(("faults", f"{counted(len(faults), 'fault')} armed" if faults else "none armed"))
    table = Table(("", ""), rows)._repr_html_()
    return (
        f'<div role="status" style="border-left: 0.4em solid {colour}; padding: 0.2em 0.8em">'
        f"<strong>Lab {escape(lab)}</strong> {escape(said)}{table}</div>"
    )


def _trouble(broker: Mapping[str, Any]) -> str:
    """What is wrong with a broker and what mends it; empty if it runs."""
    state = str(broker.get("state"))
    if state == "running":
        return ""
    said = "has died" if state == "died" else f"is {state}"
    return f"Broker {broker.get('id', '')} {said}. {REPAIR.get(state, REPAIR_OTHERS)}"
