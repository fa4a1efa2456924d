"""What is on its way over one connection: a request with its answer, and the copies of a request.

Requests wait in the outbox and answers in their exchange, both in order. What the faults decide is
written down here; the relay does it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf
from typing import Final

from lab_utils.codec.answers import copied
from lab_utils.codec.frames import RESPONSE_START, Request, Response, read_request
from lab_utils.proxy.armed import Armed
from lab_utils.proxy.faults.wire_fault import (
    SENT_LIMIT_S,
    Action,
    Answer,
    AnswerFault,
    Cut,
    Forward,
    Keep,
    WireFault,
)

log = logging.getLogger(__name__)

REQUEST_BYTES: Final = 4_000


@dataclass(eq=False, slots=True)
class Exchange:
    """A request, and its answer when there is one. Times are the event loop's, in seconds.

    frame           what is sent to the broker, from send_at on
    answer          what the client is given, from answer_at on
    answer_fate     what was done to the answer; `fires` is the fault that did it
    brings          the faults whose kept requests reach the broker before the answer is given
    request_was_held, answer_was_held   did a fault hold it, or one before it?
    copy_of         the client's request that this is the proxy's copy of, if it is one
    """

    request: Request
    faults: list[Armed]
    arrived_ns: int = field(default_factory=time.monotonic_ns)
    frame: bytes = b""
    send_at: float = 0.0
    request_was_held: bool = False
    request_fate: str = "forwarded"
    answer: Response | None = None
    answered_ns: int = 0
    answer_at: float = inf
    answer_fate: str = "forwarded"
    is_given: bool = False
    answer_was_held: bool = False
    fires: Armed | None = None
    brings: list[Armed] = field(default_factory=list)
    copy_of: Request | None = None

    @property
    def answer_due(self) -> float:
        """When the answer may be given, as it looks now: a fault may wait for more requests."""
        wait = any(
            isinstance(armed.fault, AnswerFault) and armed.matched < armed.fault.sent
            for armed in self.faults
        )
        return max(self.answer_at, self.arrived_ns / 1e9 + SENT_LIMIT_S * wait)

    def decide_request(self, now: float) -> tuple[Armed | None, Action | None]:
        """Let the faults decide what is sent to the broker, or answered in its place."""
        armed, action = self._ask(lambda fault: fault.on_request(self.request))
        self.frame = self.request.frame
        match action:
            case Forward(frame, after_ms):
                self.send_at = now + after_ms / 1000 if after_ms else 0.0
                if frame is not None:
                    self.frame, self.request_fate = frame, "corrupted"
            case Answer(frame):
                self.request_fate = "dropped"
                self.answered_ns = int(now * 1e9)
                self._answered(frame, "replaced", now)
            case Keep():
                self.send_at = inf
            case Cut():
                self.request_fate = "dropped"
        return armed, action

    def decide_response(self, frame: bytes, now: float) -> tuple[Armed | None, Action | None]:
        """Let the faults decide what the client is given of the broker's answer."""
        # The moment that a delay counts from, so that none is told shorter than it was.
        self.answered_ns = int(now * 1e9)
        response = self._answered(frame, "forwarded", now)
        armed, action = self._ask(lambda fault: fault.on_response(response))
        match action:
            case Forward(changed, after_ms):
                self.answer_at = now + after_ms / 1000
                if changed is not None:
                    self._answered(changed, "replaced", self.answer_at)
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

    def _answered(self, frame: bytes, fate: str, answer_at: float) -> Response:
        self.answer = Response(frame, self.request)
        self.answer_fate = fate
        self.answer_at = answer_at
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


@dataclass(eq=False)
class Copies:
    """Copies of a request that the proxy is to send, when `later` more matches have been sent."""

    armed: Armed
    request: Request
    later: int
    times: int

    def __post_init__(self) -> None:
        self.frame = self.request.frame

    def follow(self, request: Request) -> bool:
        """Are the copies to follow this request? The next ones are counted down."""
        if request is not self.request and self.armed.fault.matches(request):
            self.later -= 1
        return self.later <= 0

    def exchange(self, correlation_id: int, *, is_first: bool) -> Exchange:
        """A copy; the fault has fired when the first has been sent."""
        frame = copied(self.frame, correlation_id)
        copy = read_request(frame, self.request.topic_names)
        fires = self.armed if is_first else None
        return Exchange(
            copy, [], frame=frame, request_fate="replayed", fires=fires, copy_of=self.request
        )


class Exchanges(deque[Exchange]):
    """The exchanges of one connection, in the order of their requests."""

    @property
    def answer_bytes(self) -> int:
        """The bytes of answers that are yet to be given."""
        return sum(len(each.answer.frame) for each in self if each.answer is not None)

    @property
    def request_bytes(self) -> int:
        """The bytes that requests take at most when their frames have been sent."""
        return REQUEST_BYTES * len(self)

    def asked(self, frame: bytes) -> Exchange | None:
        """The exchange that this is the answer of: the first open one, as brokers keep order."""
        if len(frame) < RESPONSE_START.size:
            return None
        correlation_id = RESPONSE_START.unpack_from(frame)[1]
        asked = (it for it in self.unanswered() if it.request.correlation_id == correlation_id)
        return next(asked, None)

    def unanswered(self) -> list[Exchange]:
        """Those that the broker has not answered yet."""
        return [exchange for exchange in self if exchange.answer is None]

    def keep_answered(self) -> None:
        """The broker is gone: what it has not answered, and what is behind that, is over."""
        answered = list(takewhile(lambda exchange: exchange.answer is not None, self))
        self.clear()
        self.extend(answered)


class Outbox:
    """The frames that are on their way to the broker, in order, the first one holding the rest.

    Each has its exchange, or none if nobody can read it. `waiting_bytes` lets the relay stop
    reading before too many wait.
    """

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self._frames: deque[tuple[bytes, Exchange | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._frames)

    def put(self, frame: bytes, exchange: Exchange | None = None) -> None:
        """Add a frame at the end; it is held if it is to wait, or one before it is held."""
        if exchange is not None:
            last = self._frames[-1][1] if self._frames else None
            exchange.request_was_held = exchange.send_at > 0 or (
                last is not None and last.request_was_held
            )
        self._frames.append((frame, exchange))
        self.waiting_bytes += len(frame)

    def leaving(self, now: float) -> Iterator[tuple[bytes, Exchange | None]]:
        """Take out what may be sent now."""
        while self._frames and self.next_at() <= now:
            frame, exchange = self._frames.popleft()
            self.waiting_bytes -= len(frame)
            yield frame, exchange

    def next_at(self) -> float:
        """When the first frame may be sent; never, if there is none."""
        if not self._frames:
            return inf
        exchange = self._frames[0][1]
        return exchange.send_at if exchange else 0.0

    def clear(self) -> None:
        """Give up what is left: there is nobody to send it to."""
        self._frames.clear()
        self.waiting_bytes = 0
