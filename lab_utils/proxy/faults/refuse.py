"""A request is answered with an error of Kafka, in the broker's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab_utils.errors import BadArgument, one_of
from lab_utils.proxy.faults.wire_fault import Action, Answer, AnswerFault, Cut, Forward

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request, Response

# What the proxy can answer in the broker's place: the answer is an error and nothing else.
REFUSABLE: Final = (
    "AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "FindCoordinator", "Heartbeat",
    "InitProducerId", "JoinGroup", "OffsetCommit", "Produce", "SyncGroup", "TxnOffsetCommit",
)  # fmt: skip
# An idempotent client takes the second for success: were it said of what no broker has, the proxy
# itself would lose what was acked.
STORED: Final = ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "DUPLICATE_SEQUENCE_NUMBER")


@dataclass(frozen=True, repr=False)
class refuse(AnswerFault):  # noqa: N801 - called as a function
    """The broker never sees the request; the client is answered with the named Kafka error.

    NOT_ENOUGH_REPLICAS_AFTER_APPEND and DUPLICATE_SEQUENCE_NUMBER say that the records are stored,
    so there the broker does see the request, and only its answer is replaced.
    """

    sentence = "Refuse {which} {api} request with {error}"

    error: str = "NOT_ENOUGH_REPLICAS"

    def __post_init__(self) -> None:
        from lab_utils.codec.cursor import ERRORS

        super().__post_init__()
        one_of("error", self.error, ERRORS)
        if self.api not in REFUSABLE:
            raise BadArgument(
                f"refuse cannot answer {self.api}: only a broker knows what to say there. It can "
                f"answer {', '.join(REFUSABLE)}. Use drop_request to lose the request instead."
            )
        if self._is_stored and self.api != "Produce":
            raise BadArgument(
                f"{self.error} says that records were stored, which {self.api} never does. "
                'Use it with "Produce", or choose another error.'
            )

    def on_request(self, request: Request) -> Action | None:  # noqa: D102
        from lab_utils.codec.answers import refusal

        if self._is_stored:
            return None
        # With acks=0 nobody waits for an answer; a broker cuts the connection, and so do we.
        if not request.has_response:
            return Cut()
        return Answer(refusal(request, self.error))

    def on_response(self, response: Response) -> Action | None:  # noqa: D102
        from lab_utils.codec.answers import with_error

        if not self._is_stored:
            return None
        return Forward(with_error(response, self.error))

    @property
    def _is_stored(self) -> bool:
        return self.error in STORED
