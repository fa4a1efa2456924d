"""A request arrives once more, as a copy that the network made, and its sender knows nothing of it.

The broker keeps the last five batches of each producer and partition (NUM_BATCHES_TO_RETAIN in
Kafka's ProducerStateEntry): `later` chooses which of them the copy is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab_utils.errors import within
from lab_utils.proxy.faults.wire_fault import Replay, WireFault

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request

LATER_LIMIT: Final = 1_000
TIMES_LIMIT: Final = 100


@dataclass(frozen=True, repr=False)
class replay_request(WireFault):  # noqa: N801 - called as a function
    """The proxy sends the request again by itself; the client never gets the broker's answer.

    times   how many copies are sent
    later   the copies follow the request of its connection that is so many matches later. With 4,
            the copied batch is the fifth-last that the broker has had there; with 5, the sixth-last
    """

    sentence = "Replay {which} {api} request after {later} more"

    times: int = 1
    later: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        within("times", self.times, 1, TIMES_LIMIT)
        within("later", self.later, 0, LATER_LIMIT)

    def on_request(self, request: Request) -> Replay:  # noqa: D102, ARG002
        return Replay(self.later, self.times)
