"""What can become of a request or of its answer on their way. Each is a fault of the proxy.

TCP does not lose one frame and keep the rest: a frame is lost, and the connection with it. The
broker keeps the last five batches of each producer and partition (NUM_BATCHES_TO_RETAIN in
Kafka's ProducerStateEntry): `later` of a replay chooses which of them the copy is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab_utils.errors import BadArgument, within
from lab_utils.proxy.faults.fault import MS_LIMIT, one_of_apis
from lab_utils.proxy.faults.wire_fault import AnswerFault, Cut, Forward, Keep, Replay, WireFault

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request, Response

LATER_LIMIT: Final = 1_000
TIMES_LIMIT: Final = 100


@dataclass(frozen=True, repr=False)
class drop_response(AnswerFault):  # noqa: N801 - called as a function
    """The broker does what was asked; its answer is lost with the connection."""

    sentence = "Drop {which} answer to {an} {api} request"

    def on_response(self, response: Response) -> Cut:  # noqa: D102, ARG002
        return Cut()


@dataclass(frozen=True, repr=False)
class drop_request(WireFault):  # noqa: N801
    """The request is lost with the connection, before the broker sees it."""

    sentence = "Drop {which} {api} request"

    def on_request(self, request: Request) -> Cut:  # noqa: D102, ARG002
        return Cut()


@dataclass(frozen=True, repr=False)
class corrupt_request(AnswerFault):  # noqa: N801
    """One byte of the records is flipped; the broker itself answers CORRUPT_MESSAGE."""

    sentence = "Flip one byte of {which} {api} request"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.api != "Produce":
            raise BadArgument(
                f"corrupt_request works on Produce; got {self.api!r}. Only record batches carry a "
                'checksum that shows the broker the damage. Use corrupt_request("Produce").'
            )

    def on_request(self, request: Request) -> Forward | None:  # noqa: D102
        from lab_utils.codec.answers import corrupted

        meant = (it for it in request.produced if it.batches and self.names(it.topic, it.partition))
        chosen = next(meant, None)
        return None if chosen is None else Forward(corrupted(request, chosen))


@dataclass(frozen=True, repr=False)
class delay_response(WireFault):  # noqa: N801
    """The answer, and all behind it on the connection, reaches the client `by_ms` later."""

    sentence = "Hold {which} answer to {an} {api} request for {seconds} s"

    by_ms: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        within("by_ms", self.by_ms, 1, MS_LIMIT)

    def on_response(self, response: Response) -> Forward:  # noqa: D102, ARG002
        return Forward(after_ms=self.by_ms)


@dataclass(frozen=True, repr=False)
class late_request(WireFault):  # noqa: N801
    """The connection is cut while the request is on its way; it arrives too late, but it does.

    after   the broker has answered a later request of this API when it arrives, and the client
            has not been given that answer yet
    """

    sentence = "Let {which} {api} request arrive after a later {after} request"

    after: str = "Produce"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of_apis("after", self.after)

    def on_request(self, request: Request) -> Keep:  # noqa: D102, ARG002
        return Keep(self.after)


@dataclass(frozen=True, repr=False)
class replay_request(WireFault):  # noqa: N801
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
