"""The requests of a connection that are yet to be answered, and what becomes of each.

An exchange is one request from its arrival to its answer: which faults it met, when it leaves,
what the client is given. It decides and keeps; the relay sends.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf

from lab_utils.codec.frames import RESPONSE_START, Request, Response
from lab_utils.proxy.armed import Armed
from lab_utils.proxy.faults import WireFault
from lab_utils.proxy.faults.wire_fault import Action, Answer, Cut, Forward, Keep

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Exchange:
    """A request, and its answer when there is one. Times are the event loop's, in seconds.

    frame           what is sent to the broker, from send_at on
    answer          what the client is given, from answer_at on
    answer_fate     what was done to the answer; `fires` is the fault that did it
    awaits_quiet    the answer is a fault's work, so it waits until the client is quiet
    brings          the faults whose kept requests reach the broker before the answer is given
    request_was_held, answer_was_held   did a fault hold it, or one before it?
    """

    request: Request
    faults: list[Armed]
    arrived_ns: int = field(default_factory=time.monotonic_ns)
    frame: bytes = b""
    send_at: float = 0.0
    request_was_held: bool = False
    request_fate: str = "forwarded"
    answer: Response | None = None
    answered_at: float = inf
    answered_ns: int = 0
    answer_at: float = inf
    answer_fate: str = "forwarded"
    awaits_quiet: bool = False
    is_given: bool = False
    answer_was_held: bool = False
    fires: Armed | None = None
    brings: list[Armed] = field(default_factory=list)

    def decide_request(self, now: float) -> tuple[Armed | None, Action | None]:
        """Let the faults decide what is sent to the broker, or answered in its place."""
        armed, action = self._ask(lambda fault: fault.on_request(self.request))
        self.frame = self.request.frame
        match action:
            case Forward(frame, after_ms):
                self.send_at = now + after_ms / 1000 if after_ms else 0.0
                if frame is not None:
                    self.frame, self.request_fate, self.awaits_quiet = frame, "corrupted", True
            case Answer(frame):
                self.request_fate, self.awaits_quiet = "dropped", True
                self._answered(frame, "replaced", now)
            case Keep():
                self.send_at = inf
            case Cut():
                self.request_fate = "dropped"
        return armed, action

    def decide_response(self, frame: bytes, now: float) -> tuple[Armed | None, Action | None]:
        """Let the faults decide what the client is given of the broker's answer."""
        response = self._answered(frame, "forwarded", now)
        armed, action = self._ask(lambda fault: fault.on_response(response))
        match action:
            case Forward(changed, after_ms):
                self.answer_at = now + after_ms / 1000
                if changed is not None:
                    self.awaits_quiet = True
                    self._answered(changed, "replaced", now)
            case Cut():
                self.answer_fate = "dropped"
        return armed, action

    def request_change(self) -> dict[str, str]:
        """The first byte that a fault changed in the request, if it did."""
        before, after = self.request.frame, self.frame
        if before == after:
            return {}
        pairs = enumerate(zip(before, after, strict=False))
        at = next((at for at, pair in pairs if pair[0] != pair[1]), len(before))
        return {"changed": f"byte {at}: {before[at : at + 1].hex()} to {after[at : at + 1].hex()}"}

    def forget_frame(self) -> None:
        """Give up the bytes of a request that has been sent, so that the next one has room."""
        self.frame = b""
        self.request.forget_frame()

    def _answered(self, frame: bytes, fate: str, now: float) -> Response:
        self.answer = Response(frame, self.request)
        self.answer_fate = fate
        self.answered_at = self.answer_at = now
        self.answered_ns = time.monotonic_ns()
        return self.answer

    def _ask(
        self, decide: Callable[[WireFault], Action | None]
    ) -> tuple[Armed | None, Action | None]:
        """The first fault that wants to act, and its action.

        A fault that fails leaves the frame alone and has not fired, so the run proves nothing.
        """
        for armed in self.faults:
            if not isinstance(armed.fault, WireFault):
                continue  # it waits for the answer, and leaves the frames alone
            try:
                action = decide(armed.fault)
            except Exception:
                log.exception("%r could not act on %s", armed.fault, self.request.api)
                continue
            if action is not None:
                return armed, action
        return None, None


class Exchanges:
    """The exchanges of one connection, in the order of their requests."""

    def __init__(self) -> None:
        self._open: deque[Exchange] = deque()

    @property
    def first(self) -> Exchange | None:
        """The one whose answer the client waits for."""
        return self._open[0] if self._open else None

    def put(self, exchange: Exchange) -> None:
        """Add the exchange of a new request."""
        self._open.append(exchange)

    def take(self) -> None:
        """The first one is over."""
        self._open.popleft()

    def asked(self, frame: bytes) -> Exchange | None:
        """The exchange that this is the answer of: the first open one, as brokers keep order."""
        if len(frame) < RESPONSE_START.size:
            return None
        correlation_id = RESPONSE_START.unpack_from(frame)[1]
        unanswered = (exchange for exchange in self._open if exchange.answer is None)
        return next(
            (one for one in unanswered if one.request.correlation_id == correlation_id), None
        )

    def keep_answered(self) -> None:
        """The broker is gone: what it has not answered, and what is behind that, is over."""
        self._open = deque(takewhile(lambda exchange: exchange.answer is not None, self._open))
