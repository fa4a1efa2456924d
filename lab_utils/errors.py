"""The errors a learner or a teacher may meet, one for each decision the reader has to make.

    LabError                 something the reader can act on; the message says what, why and next
    ├── BadArgument          a call was refused before anything was done: fix it
    ├── SetupError           this machine lacks something: run the command in the message
    ├── StageError           a broker, the proxy or the stage server is unwell: look at the log tail
    ├── WaitTimeout          a condition did not come true in its time
    └── LedgerError          evidence could not be written or read: the run proves nothing
        └── LeftUnreadable   so it is with what the workload itself has left: change the workload

A LabWarning is told when all goes on: what was found, and what is done about it.

Programmer errors stay assertions. This module knows nothing of the other rooms.
"""

from __future__ import annotations

import sysconfig
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from traceback import FrameSummary, extract_tb
from typing import Final

# A ledger may have a hundred thousand names; all of Kafka's errors take 3,000 characters.
LONGEST: Final = 4000
MANY: Final = 30  # where one of them is close, all others are only in its way
DAY_S: Final = 86_400


class LabError(Exception):
    """Something the reader can act on; its message says what happened, why, and what next."""

    def _render_traceback_(self) -> list[str]:
        """Show IPython the sentence alone: our frames would hide it from a learner."""
        return [f"{type(self).__name__}: {self}"]


class BadArgument(LabError):
    """A call was refused before anything was done."""


class SetupError(LabError):
    """This machine lacks something that the lab needs."""


class StageError(LabError):
    """A broker, the proxy or the stage server did not do what was asked."""


class WaitTimeout(LabError):
    """A condition did not come true within its bound."""


class LedgerError(LabError):
    """Evidence could not be written or read."""


class LabWarning(UserWarning):
    r"""Something that the reader should know; it is shown without the line of ours that found it.

    >>> warnings.formatwarning("It is stopped.", LabWarning, "client.py", 225)
    'It is stopped.\n'
    """


_WITH_ITS_LINE: Final = warnings.formatwarning


def _sentence(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    line: str | None = None,
) -> str:  # fmt: skip
    if issubclass(category, LabWarning):
        return f"{message}\n"
    return _WITH_ITS_LINE(message, category, filename, lineno, line)


warnings.formatwarning = _sentence


# By which the trouble of a run is known as the workload's own.
LEFT: Final = "the workload has left what nobody can read"


class LeftUnreadable(LedgerError):
    """What a workload has left is in a form, or of a size, in which nobody reads it."""

    def __str__(self) -> str:
        return f"{LEFT}: {super().__str__()}"


def one_of(what: str, given: str, allowed: Iterable[str]) -> str:
    """Return `given` if it is allowed, else raise BadArgument that names the nearest right one.

    >>> one_of("api", "produce", ["Fetch", "Produce"])
    Traceback (most recent call last):
    ...
    lab_utils.errors.BadArgument: api must be one of Fetch, Produce; got 'produce'. \
Did you mean 'Produce'?
    """
    names = sorted(allowed)
    if given in names:
        return given
    by_lower_case = {name.lower(): name for name in names}
    close = get_close_matches(str(given).lower(), by_lower_case, n=1, cutoff=0.5)
    question = f" Did you mean '{by_lower_case[close[0]]}'?" if close else ""
    named = ", ".join(names)
    named = named if len(named) <= LONGEST else f"{named[:LONGEST]} …"
    if len(names) > MANY:
        question = question or (f" They are {named}." if isinstance(given, str) else "")
        named = f"{len(names):,} names"
    raise BadArgument(f"{what} must be one of {named}; got {given!r}.{question}")


def within(what: str, given: object, minimum: int, maximum: int) -> int:
    """Return `given` if it is a whole number between these, else raise BadArgument."""
    is_whole = isinstance(given, int) and not isinstance(given, bool)
    if not (is_whole and minimum <= given <= maximum):  # type: ignore[operator]
        # Python refuses to write out an integer of more than 4,300 digits.
        is_long = isinstance(given, int) and given.bit_length() > 64
        got = f"a number of {given.bit_length()} bits" if is_long else repr(given)  # type: ignore[attr-defined]
        raise BadArgument(
            f"{what} must be a whole number from {minimum} to {maximum:,}; got {got}."
        )
    return given  # type: ignore[return-value]


def seconds(what: str, given: object) -> float:
    """Return `given` if it is a time of up to a day, else raise BadArgument."""
    if not (isinstance(given, int | float) and 0 < given <= DAY_S):
        raise BadArgument(
            f"{what} must be a number of seconds, up to {DAY_S:,}; got {given!r:.100}."
        )
    return given


def truth(what: str, given: object) -> bool:
    """Return `given` if it is True or False, else raise BadArgument: "no" would count as yes."""
    if not isinstance(given, bool):
        raise BadArgument(f"{what} must be True or False; got {given!r}.")
    return given


def text(what: str, given: object) -> str:
    """Return `given` if it is a text that UTF-8 can hold, else raise BadArgument.

    Half of a surrogate pair is in no line of a ledger, and librdkafka's Python client ends the
    process when a setting has one.
    """
    if not isinstance(given, str):
        raise BadArgument(f"{what} must be a text; got {given!r}.")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise BadArgument(
            f"{what} must be a text that UTF-8 can hold; got {given!r:.200}, whose character "
            f"{error.start} is half of a surrogate pair. Leave it out."
        ) from None
    return given


def told(error: BaseException) -> str:
    """What an exception says, as a text that UTF-8 can hold; nothing if it cannot say it."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:  # its class is a learner's, and so is what makes its text
        return ""


def own_lines(error: BaseException) -> list[FrameSummary]:
    """The lines that an exception passed which are the learner's: no package's, not Python's."""
    paths = sysconfig.get_paths()
    others = (str(Path(__file__).parent), paths["stdlib"], paths["purelib"], "<frozen ")
    return [it for it in extract_tb(error.__traceback__) if not it.filename.startswith(others)]
