"""A fault as a button says it: a short sentence, and the call that makes the fault.

A kind of fault that has no sentence here is named by its call, so nothing needs to be registered.
It reads a fault's fields and knows nothing of the stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lab_utils.proxy.faults import Fault

SENTENCES: Final = {
    "drop_response": "Drop {which} answer to {an} {api} request",
    "drop_request": "Drop {which} {api} request",
    "corrupt_request": "Flip one byte of {which} {api} request",
    "refuse": "Refuse {which} {api} request with {error}",
    "delay_request": "Hold {which} {api} request for {seconds} s",
    "late_request": "Let {which} {api} request arrive after a later {after} request",
    "delay_response": "Hold {which} answer to {an} {api} request for {seconds} s",
}
# What narrows a fault down is said in its call, and no sentence would stay short with it.
NARROWING: Final = ("client_id", "topic", "partition")


def fault_json(fault: Fault) -> dict[str, Any]:
    """A fault as the stage server takes it: its kind as `fault`, and its parameters."""
    return {"fault": type(fault).__name__} | _parameters(fault)


def fault_code(fault: Fault) -> str:
    """The call that makes a fault, quoted as the labs quote."""
    call = repr(fault)
    return call if '"' in call else call.replace("'", '"')


def fault_words(fault: Fault) -> str:
    """What a fault will do, in a few words."""
    given = _parameters(fault)
    sentence = SENTENCES.get(type(fault).__name__)
    if sentence is None or any(given.get(name) is not None for name in NARROWING):
        return fault_code(fault)
    seconds = f"{given.get('by_ms', 0) / 1000:g}"
    an = "an" if str(given.get("api", "")).startswith(("A", "E", "I", "O")) else "a"
    return sentence.format(which=_which(given), seconds=seconds, an=an, **given)


def _parameters(fault: Fault) -> dict[str, Any]:
    return {column.name: getattr(fault, column.name) for column in fields(fault)}  # type: ignore[arg-type]


def _which(given: Mapping[str, Any]) -> str:
    """The match at which a fault fires, as said of the requests from now on.

    >>> _which({"nth": 1}), _which({"nth": 3}), _which({"nth": 1, "once": False})
    ('the next', 'the 3rd next', 'each')
    """
    nth = given.get("nth", 1)
    if not given.get("once", True):
        return "each" if nth == 1 else f"each from the {_ordinal(nth)} next"
    return "the next" if nth == 1 else f"the {_ordinal(nth)} next"


def _ordinal(number: int) -> str:
    """A number that counts.

    >>> [_ordinal(number) for number in (2, 3, 4, 11, 21)]
    ['2nd', '3rd', '4th', '11th', '21st']
    """
    endings = {1: "st", 2: "nd", 3: "rd"}
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else endings.get(number % 10, 'th')}"
