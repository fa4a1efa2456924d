"""An answer is on its way for longer than usual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab_utils.errors import within
from lab_utils.proxy.faults.fault import MS_LIMIT
from lab_utils.proxy.faults.wire_fault import Forward, WireFault

if TYPE_CHECKING:
    from lab_utils.codec.frames import Response


@dataclass(frozen=True, repr=False)
class delay_response(WireFault):  # noqa: N801 - called as a function
    """The answer, and all behind it on the connection, reaches the client `by_ms` later."""

    sentence = "Hold {which} answer to {an} {api} request for {seconds} s"

    by_ms: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        within("by_ms", self.by_ms, 1, MS_LIMIT)

    def on_response(self, response: Response) -> Forward:  # noqa: D102, ARG002
        return Forward(after_ms=self.by_ms)
