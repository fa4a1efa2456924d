"""How far the log was read back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class End:
    """How far one partition was read back, by a reader of one isolation level.

    drained      did it come to the end, or if it is read_committed as far as it may go?
    start        the first offset that the log still has
    last_stable  where a read_committed reader stops, if that is known
    """

    drained: bool
    at_ns: int
    start: int
    offset: int | None
    last_stable: int | None

    @property
    def read_committed(self) -> bool:
        """Did a read_committed reader come as far as it may go?"""
        return self.last_stable is not None and self.drained

    @property
    def settled(self) -> bool:
        """Does a read_committed reader come to the end of the log?"""
        is_stable = self.offset is None or (self.last_stable or 0) >= self.offset
        return self.read_committed and is_stable
