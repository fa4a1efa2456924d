"""A sign of life: after one second a line says what is being done, and for how long already.

It is shown in a notebook, by a thread beside the work, and is gone when the work is done.
"""

from __future__ import annotations

import contextvars
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from threading import Event, Thread
from typing import Any, Final

from lab_utils.errors import own_lines

QUIET_S: Final = 1.0
EVERY_S: Final = 1.0
LONG_S: Final = 10
DRAWING: Final = "Drawing the picture"
_is_said: ContextVar[bool] = ContextVar("_is_said", default=False)  # by a block around this one


@contextmanager
def doing(what: str, held_up: Callable[[], str] = str) -> Iterator[None]:
    """Say what this block does if it takes more than a second; `what` as in "Checking 03.2".

    What `held_up` returns, if anything, is said after ten: why it takes so long, and what to do.
    A block within such a block says nothing: one line is enough. Also a decorator of functions. An
    interrupt is told by the lines of the learner's own that it met, and by what to do next.
    """
    if _is_said.get() or not _is_notebook():
        yield
        return
    over = Event()
    # The line belongs to the cell that is running: a thread would not know which.
    context = contextvars.copy_context()
    sign = Thread(
        target=context.run, args=(_show, what, held_up, over), name="progress", daemon=True
    )
    sign.start()
    token = _is_said.set(True)
    try:
        yield
    except KeyboardInterrupt as error:
        _tell_interrupted(what, error)
        raise
    finally:
        _is_said.reset(token)
        over.set()
        sign.join()


def _show(what: str, held_up: Callable[[], str], over: Event) -> None:
    begun = time.monotonic()
    if over.wait(QUIET_S):
        return
    from IPython import display

    show: Any = display.display  # it has no types
    line = show(_line(what, begun, held_up), raw=True, display_id=True)
    while not over.wait(EVERY_S):
        line.update(_line(what, begun, held_up), raw=True)
    line.update({"text/html": "", "text/plain": ""}, raw=True)


def _tell_interrupted(what: str, error: Any) -> None:
    """Let IPython show this, and none of the frames that waited."""
    said = f"Interrupted: {what}. Run the cell again to begin it anew."
    error._render_traceback_ = lambda: [
        *(line.rstrip() for line in traceback.format_list(own_lines(error))), said
    ]  # fmt: skip


def _line(what: str, begun: float, held_up: Callable[[], str]) -> dict[str, str]:
    seconds = round(time.monotonic() - begun)
    text = f"{what} … {seconds} s"
    if seconds >= LONG_S and (why := held_up()):
        text += f". {why}"
    return {"text/html": f'<span role="status">{escape(text)}</span>', "text/plain": text}


def _is_notebook() -> bool:
    """Is there a kernel that shows things? A plain Python program has imported none."""
    # Without the attribute another thread is just importing it, and this is no notebook either.
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")
