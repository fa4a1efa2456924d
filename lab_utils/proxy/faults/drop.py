"""A frame is lost, and the connection with it: TCP does not lose one frame and keep the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab_utils.proxy.faults.wire_fault import AnswerFault, Cut, WireFault

if TYPE_CHECKING:
    from lab_utils.codec.frames import Request, Response


class drop_response(AnswerFault):  # noqa: N801 - called as a function
    """The broker does what was asked; its answer is lost with the connection."""

    sentence = "Drop {which} answer to {an} {api} request"

    def on_response(self, response: Response) -> Cut:  # noqa: D102, ARG002
        return Cut()


class drop_request(WireFault):  # noqa: N801
    """The request is lost with the connection, before the broker sees it."""

    sentence = "Drop {which} {api} request"

    def on_request(self, request: Request) -> Cut:  # noqa: D102, ARG002
        return Cut()
