"""What was done to brokers and topics, and what of a log that may have taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

# An offset, or a time, that is after any other.
ANY: Final = 2**62

# What was done, in which run, to which topic or broker.
Act = tuple[str, str, str | None]
Acts = Mapping[Act, Sequence[int]]


def restored(since: Acts, over: Acts) -> dict[tuple[str, str | None], int]:
    """When all that may take a log away was over: in a run (None), or of one of its topics.

    That is ANY if a broker that lost its power has not started since, or a topic that was deleted
    was not created again. What is sent later none of them can take away.
    """
    found: dict[tuple[str, str | None], int] = {}
    for (what, run, of), times in since.items():
        if what not in ("power_cut", "deletes"):
            continue
        ends = (
            min((it for it in over.get((what, run, of), ()) if it > at), default=ANY)
            for at in times
        )
        where = run, of if what == "deletes" else None
        found[where] = max([found.get(where, -ANY), *ends])
    return found
