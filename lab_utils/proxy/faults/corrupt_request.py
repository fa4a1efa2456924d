"""A batch of records is damaged on its way, and its checksum shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab_utils.errors import BadArgument
from lab_utils.proxy.faults.wire_fault import AnswerFault, Forward

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request


class corrupt_request(AnswerFault):  # noqa: N801 - called as a function
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
