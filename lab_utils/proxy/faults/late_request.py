"""A request arrives after one that was sent later, as packets of an old connection may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab_utils.codec.apis import API_KEYS
from lab_utils.errors import one_of
from lab_utils.proxy.faults.wire_fault import Keep, WireFault

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request


@dataclass(frozen=True, repr=False)
class late_request(WireFault):  # noqa: N801 - called as a function
    """The connection is cut while the request is on its way; it arrives too late, but it does.

    after   the broker has answered a later request of this API when it arrives, and the client
            has not been given that answer yet
    """

    sentence = "Let {which} {api} request arrive after a later {after} request"

    after: str = "Produce"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("after", self.after, API_KEYS)

    def on_request(self, request: Request) -> Keep:  # noqa: D102, ARG002
        return Keep(self.after)
