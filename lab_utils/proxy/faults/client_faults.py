"""Faults of the workload's process: it is killed or stalled at a named point.

The process counts the points from its start and acts on itself (clients/crash.py); the proxy has
no part in it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from lab_utils.errors import BadArgument, one_of, text, truth, within
from lab_utils.proxy.faults.fault import ID_LIMIT, MS_LIMIT, NTH_LIMIT, Fault, to_json

# A commit is a consumer's or a transaction's.
CRASH_POINTS: Final = {
    "after_send": "produce() took a record",
    "after_ack": "a delivery report said that a record is stored",
    "after_poll": "a record was delivered",
    "before_process": "run.processed() was called",
    "after_process": "its work is done",
    "before_commit": "a commit is about to be sent; a stream: a batch is in its sink",
    "while_committing": "it was sent, and its answer is held: add a delay_response",
    "after_commit": "it was answered",
    "after_send_offsets": "the offsets are in the transaction",
    "after_db_write": "a row was written",
    "before_db_commit": "the database's commit is about to be sent",
    "after_db_commit": "it was answered",
}


@dataclass(frozen=True, repr=False)
class ClientFault(Fault):
    """A fault of the workload's process when it reaches a point (CRASH_POINTS) the nth time.

    value   only points that are about this order: it was sent, acked or polled, is processed, is in
            the transaction or before the bookmark that is committed, or has its first row by this
            statement or commit
    member  which process of the run, from 1, if it has several
    """

    at: str
    nth: int = 1
    _: KW_ONLY
    value: str | None = None
    member: int = 1

    def __post_init__(self) -> None:
        """Raises BadArgument for a point that no process reaches."""
        one_of("at", self.at, CRASH_POINTS)
        within("nth", self.nth, 1, NTH_LIMIT)
        within("member", self.member, 1, ID_LIMIT)
        if self.value is not None:
            text("value", self.value)

    @property
    def points(self) -> tuple[str, ...]:
        """Where it acts: at any of them."""
        return tuple(filter(None, (self.at, getattr(self, "or_at", ""))))

    @property
    def is_about_a_booking(self) -> bool:
        """Is it about the commit that books one order, which SQLite's own log tells?"""
        return self.value is not None and any(it.endswith("db_commit") for it in self.points)

    def as_text(self) -> dict[str, str]:
        """Its kind and its values, as the ledger has them."""
        return {name: str(value) for name, value in to_json(self).items()}


@dataclass(frozen=True, repr=False)
class crash_client(ClientFault):  # noqa: N801 - called as a function
    """The workload's process is killed when it reaches a point for the nth time.

    or_at          another point of CRASH_POINTS: it is killed at the one that it comes to first
    until_expired  it stays away until its group's bookmarks are gone. A broker removes those of a
                   group without members after offsets.retention.minutes, a week if nobody sets it
                   (KIP-186, KIP-211); here the group is deleted as soon as its member has gone.
    """

    _: KW_ONLY
    or_at: str = ""
    until_expired: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.or_at:
            one_of("or_at", self.or_at, CRASH_POINTS)
        truth("until_expired", self.until_expired)


crash_client.__doc__ = "\n".join((
    f"{crash_client.__doc__}\n    Points:",
    *(f"    {point:<20}{what}" for point, what in CRASH_POINTS.items()),
))  # fmt: skip


@dataclass(frozen=True, repr=False)
class stall_client(ClientFault):  # noqa: N801
    """The workload's process does nothing for a while; the threads of its clients live on.

    once  at the nth time only, and in the first process; else at each time from the nth on, also in
          each process that takes the place of one that was killed
    """

    for_ms: int = 1000
    _: KW_ONLY
    once: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        truth("once", self.once)
        within("for_ms", self.for_ms, 1, MS_LIMIT)
        if self.at == "while_committing":
            raise BadArgument(
                f"a process that is {self.at!r} does nothing already: it waits for the answer. "
                "Hold that back with delay_response, or stall the process at 'before_commit'."
            )
