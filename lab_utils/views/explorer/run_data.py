"""A run as data: what the explorer's module draws, as plain JSON.

    {"run": "03-b", "choice": {…}, "chosen": "…", "code": "…",
     "finding": "Order 2 was stored twice: …",
     "outcomes": ["duplicated"], "counts": "5 sent, 5 acked, …", "lanes": […],
     "steps": [{"ms": 3.1, "style": "lost", "path": [2, 1], "label": "@2", "text": "…"}, …],
     "log": [{"name": "log", "cells": [{"at": 0, "states": [[1, "0", "once"]]}]}]}

It holds all that is shown and needs nothing else: the page that draws it may be anywhere, and the
run long over. A state of a cell counts from a step on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from lab_utils.ledger import counts as words_of
from lab_utils.ledger.counts import count, outcomes
from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History
from lab_utils.views import bookmarks, in_out, palette, replica_history, transaction_timeline, words
from lab_utils.views.explorer.choices import Offer
from lab_utils.views.explorer.log_rows import BEGIN_NS, CELLS, END_NS, MISSING, Row, log_rows
from lab_utils.views.explorer.steps import STYLES, Step, Steps
from lab_utils.views.palette import DARK, Style
from lab_utils.views.picture import MS, ms_text

RunData = dict[str, Any]

SAYS_NOTHING: Final = "This run proves nothing: {}"


# A cell of a sweep, by its worst word; the sign stands before the word.
GONE: Final = "\N{BALLOT X}"
TWICE: Final = "2x"
LATE: Final = "\N{RIGHTWARDS ARROW OVER LEFTWARDS ARROW}"
RIGHT: Final = "\N{CHECK MARK}"
OUTCOME_STYLES: Final = {
    words_of.LOST: Style("acked, and not in the log", palette.BLACK, symbol=GONE),
    words_of.SKIPPED: Style("never processed", palette.BLACK, symbol=GONE),
    words_of.DUPLICATED: Style("in the log more than once", palette.VERMILLION, symbol=TWICE),
    words_of.REPEATED: Style("processed more than once", palette.VERMILLION, symbol=TWICE),
    words_of.OUT_OF_SEQUENCE: Style("after a later order", palette.ORANGE, symbol=LATE),
    words_of.UNKNOWN: Style("the client cannot know", palette.PURPLE, symbol="?"),
    words_of.FAILED: Style("reported as failed", palette.PURPLE, symbol="!"),
    words_of.ONCE: Style("each order once, in sequence", palette.BLUE, symbol=RIGHT),
    words_of.PROCESSED: Style("each order processed once", palette.BLUE, symbol=RIGHT),
    words_of.NOTHING: Style("nothing in the log", palette.GREY, symbol="0"),
    words_of.UNPROVEN: Style("the run proves nothing", palette.GREY, symbol="-"),
}


def _effects(rows: Sequence[Event]) -> str:
    """What the database of the run holds, in one sentence without a full stop."""
    run = History(rows)
    found = {times: [it for it in run.given if run.effects[it] == times] for times in (0, 1)}
    more = [it for it in run.given if run.effects[it] > 1]
    said = words.said_of(found[0], "not in the database")
    said += words.said_of(more, "in the database more than once")
    return ". ".join(said) or f"Each of the {len(found[1])} orders is in the database once"


# Which picture's title is the finding of a run, by what the lab is about.
HEADLINES: Final[Mapping[str, Callable[[Sequence[Event]], str]]] = {
    "orders": words.headline,
    "replicas": lambda rows: replica_history.title(replica_history.Replication(rows)),
    "transactions": lambda rows: transaction_timeline.title(transaction_timeline.scene(rows)),
    "work": lambda rows: bookmarks.bookmarks(rows).title(),
    "invoices": lambda rows: in_out.in_out(rows, "invoices").title(),
    "effects": _effects,
}


# The rows that say it at a glance, by how their names begin.
GLANCE: Final[Mapping[str, tuple[str, ...]]] = {
    "orders": ("log", MISSING),
    "transactions": ("read_committed",),
    "work": ("work done", "committed"),
    "invoices": ("read_committed",),
    "effects": ("rows in the database",),
}


def run_data(
    rows: Sequence[Event],
    *,
    about: str = "orders",
    apis: Sequence[str] = ("Produce",),
    choice: Mapping[str, str] | None = None,
    chosen: str = "",
    code: str = "",
    trouble: Sequence[str] = (),
) -> RunData:
    """The run as data; `about` is what its finding is about, a key of HEADLINES.

    choice, chosen, code  what an explorer made the run from; `chosen` says it in words
    """
    told = Steps(rows, apis)
    steps, lanes = told.all, told.lanes()
    begun = steps[0].at_ns if steps else 0
    moments = [step.at_ns for step in steps]
    return {
        "run": rows[0].run if rows else "",
        "choice": dict(choice or {}),
        "chosen": chosen,
        "code": code,
        "finding": finding(rows, about, trouble),
        "outcomes": list(outcomes(rows, bool(trouble))),
        "counts": str(count(rows)),
        "lanes": lanes,
        "steps": [_step(step, lanes, begun, moments) for step in steps],
        "log": [_row(row, moments, about) for row in log_rows(rows)],
    }


def offered(
    offer: Offer, choice: Mapping[str, str], rows: Sequence[Event], trouble: Sequence[str] = ()
) -> RunData:
    """The run of a choice as data, with the program that made it."""
    return run_data(
        rows,
        about=offer.places(choice).get("about", offer.about),
        apis=offer.apis,
        choice=offer.chosen(choice),
        chosen=offer.words(choice),
        code=offer.code(choice),
        trouble=trouble,
    )


def finding(rows: Sequence[Event], about: str, trouble: Sequence[str] = ()) -> str:
    """What happened, in one sentence with its full stop."""
    if trouble:
        return f"{SAYS_NOTHING.format('; '.join(trouble)).rstrip('.')}."
    if History(rows).is_unproven:
        return f"{words.NOT_FIRED}."
    return f"{HEADLINES[about](rows)}."


def styles() -> dict[str, dict[str, Any]]:
    """How each kind of step is drawn, and each kind of cell, on a light and on a dark page."""
    return {
        "steps": {name: _style(style) for name, style in STYLES.items()},
        "cells": {name: _style(style) for name, style in CELLS.items()},
        "outcomes": {name: _style(style) for name, style in OUTCOME_STYLES.items()},
    }


def _style(style: Style) -> dict[str, Any]:
    dash = "" if style.dash == "solid" else style.dash.replace("px", "")
    return {**asdict(style), "dark": DARK.get(style.colour, style.colour), "dash": dash}


def _step(step: Step, lanes: list[str], begun: int, moments: Sequence[int]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "style": step.style,
        "path": [lanes.index(lane) for lane in step.path],
        "label": step.label,
        "text": step.text,
        "ms": ms_text((step.at_ns - begun) / MS) if step.at_ns < END_NS else "",
    }
    if step.since_ns is not None:
        data["since"] = bisect_left(moments, step.since_ns)
    return data


def _row(row: Row, moments: Sequence[int], about: str) -> dict[str, Any]:
    cells = [
        {"at": column, "states": [[_index(it.at_ns, moments), it.text, it.kind] for it in states]}
        for column, states in sorted(row.cells.items())
    ]
    at_a_glance = row.name.startswith(GLANCE.get(about, GLANCE["orders"]))
    return {"name": row.name, "cells": cells, "glance": at_a_glance}


def _index(at_ns: int, moments: Sequence[int]) -> int:
    """The number of the step from which on something is so; -1 is from the start."""
    if at_ns == BEGIN_NS:
        return -1
    return min(bisect_left(moments, at_ns), len(moments) - 1)
