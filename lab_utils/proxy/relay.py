"""One client's connection and its connection to the broker, with the faults in between.

    client ── request ──▶ match ──▶ outbox ───────────────▶ broker
    client ◀── exchanges, in the order of the requests ◀──── broker

Requests wait in the outbox and answers in their exchange. Both leave in order, so what is held
holds what is behind it on this connection, and nothing elsewhere. `_step` does what is due; it runs
after each frame and when the one timer rings.

A connection is cut when the broker has answered all that it was sent: what the client had sent by
then is stored, as on a network where the broker's answers are lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, takewhile
from math import inf
from typing import Final
from uuid import UUID

from lab_utils.codec.answers import copied
from lab_utils.codec.frames import (
    RESPONSE_START,
    Request,
    Response,
    Unreadable,
    read_request,
    topic_ids,
)
from lab_utils.proxy.armed import Armed, FaultBoard, Kept
from lab_utils.proxy.faults.wire_fault import (
    Action,
    Answer,
    Cut,
    Forward,
    Keep,
    Replay,
    WireFault,
)
from lab_utils.proxy.sides import WAITING_BYTES_LIMIT, Side
from lab_utils.proxy.witness import WireWitness

log = logging.getLogger(__name__)

# How long a connection that is to end waits for the broker's answers (docs/protocol.md, "When a
# connection is cut"): a paused broker gives none.
ANSWERS_LIMIT_S: Final = 2.0
# How many requests of a connection may be unanswered before the next one is read. A broker works on
# one at a time, so that none of them comes later for it.
OPEN_LIMIT: Final = 256


class Relay:
    """A pair of connections. It begins when the client's is made and ends with both."""

    def __init__(
        self,
        witness: WireWitness,
        board: FaultBoard,
        topic_names: dict[UUID, str],
        *,
        on_made: Callable[[Relay], object],
        on_end: Callable[[Relay], object],
    ) -> None:
        self._witness = witness
        self._board = board
        self._topic_names = topic_names
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self.client = Side(
            on_made=lambda: on_made(self),
            on_frame=self._take_request,
            on_room=self._listen,
            on_lost=self._lost_client,
            on_worked_off=self._step,
            on_crowded=lambda: self.abort("stage"),
            beside=lambda: self._outbox.waiting_bytes + sum(len(it.frame) for it in self._copies),
        )
        self.broker = Side(
            on_made=self._made_broker,
            on_frame=self._take_response,
            on_room=self._listen,
            on_lost=self._lost_broker,
            on_worked_off=self._step,
            on_crowded=lambda: self.abort("stage"),
            beside=lambda: self._exchanges.answer_bytes,
        )
        self._outbox = Outbox()
        self._when_answered: dict[Exchange, Callable[[], object]] = {}
        self._exchanges = Exchanges()
        self._copies: list[Copies] = []
        self._copy_ids = count(-1, -1)  # a client's own correlation ids are not below zero
        self._timer: asyncio.TimerHandle | None = None
        self.moved_at = self._loop.time()
        self._is_deaf = False  # what the client sends goes nowhere
        self._is_mute = False  # what the broker answers goes nowhere
        self._ended_by = ""
        self._ended_at = inf
        self._is_over = False

    @property
    def run(self) -> str:
        """The run whose client this is; empty until a request has told."""
        return self._witness.run

    def abort(self, by: str) -> None:
        """End now, with what is on its way undelivered."""
        self._begin_to_end(by)
        self._close()
        self.client.abort()
        self.broker.abort()

    # From the client to the broker.

    def _take_request(self, frame: bytes) -> None:
        request = self._read(frame)
        if request is None:
            self._pass_unread_request(frame)
            self._step()
        elif self._is_deaf:
            self._witness.request(request, "dropped", time.monotonic_ns())
        else:
            exchange = Exchange(request, self._board.match(request))
            exchange.brings = self._board.brought_by(request)
            self._act(exchange, *exchange.decide_request(self._loop.time()))
            self._step()
            exchange.answer_was_held = exchange.answer is not None and not exchange.is_given

    def _read(self, frame: bytes) -> Request | None:
        if self.client.is_raw:
            return None
        try:
            request = read_request(frame, self._topic_names)
        except Unreadable:
            return None
        self._witness.meet(request)
        return request

    def _act(self, exchange: Exchange, armed: Armed | None, action: Action | None) -> None:
        """Queue the exchange as the action wants it, and note that the fault has fired."""
        if isinstance(action, Answer | Keep):
            exchange.fires = armed  # when the answer is given, or the request is sent
        elif isinstance(action, Replay) and armed is not None:
            self._copies.append(Copies(armed, exchange.request, action.later, action.times))
        elif armed is not None:
            self._fired(armed, exchange.request, **exchange.request_change())
        if isinstance(action, Answer | Cut):
            self._witness.request(exchange.request, exchange.request_fate, exchange.arrived_ns)
        else:
            self._outbox.put(exchange.frame, exchange)
        if isinstance(action, Cut | Keep):
            self._is_deaf = True
            self._begin_to_end("fault")
        if isinstance(action, Cut):
            return
        if isinstance(action, Keep):
            assert armed is not None
            self._keep(exchange, armed, action.before)
        if exchange.request.has_response:
            self._exchanges.put(exchange)
        if not isinstance(action, Answer | Keep):
            self._replay(exchange.request)

    def _replay(self, request: Request) -> None:
        """Queue the copies that are to follow this request."""
        armed = self._board.armed()
        self._copies = [it for it in self._copies if it.armed in armed]
        for due in [it for it in self._copies if it.follow(request)]:
            self._copies.remove(due)
            for number in range(due.times):
                exchange = due.exchange(next(self._copy_ids), is_first=not number)
                self._outbox.put(exchange.frame, exchange)
                if exchange.request.has_response:
                    self._exchanges.put(exchange)

    def _keep(self, exchange: Exchange, armed: Armed, before: str) -> None:
        """Let the request wait in the outbox until it is called for."""

        def release(then: Callable[[], object]) -> None:
            armed.kept = None
            self._when_answered[exchange] = then
            exchange.send_at = 0.0
            self._step()

        armed.kept = Kept(exchange.request.run, before, release, lambda: self.abort("stage"))

    def _cut_off(self) -> None:
        self._is_mute = True
        self.client.close()

    def _bring(self, exchange: Exchange) -> None:
        """Let the kept requests arrive first; then the client is given this answer."""
        for armed in exchange.brings:
            if armed.kept is not None:
                exchange.answer_at = inf
                armed.kept.release(lambda: self._resume(exchange))

    def _resume(self, exchange: Exchange) -> None:
        exchange.answer_at = self._loop.time()
        self._step()

    def _send(self, now: float) -> float:
        """Send what is due to the broker; when the next is due."""
        if not self.broker.is_open:
            return inf
        for frame, exchange in self._outbox.leaving(now):
            self.moved_at = now
            self.broker.write(frame)
            if exchange is not None:
                self._note_sent(exchange)
                exchange.forget_frame()
        return self._outbox.next_at()

    def _note_sent(self, exchange: Exchange) -> None:
        was_held = exchange.request_was_held and exchange.copy_of is None
        fate = "held" if was_held else exchange.request_fate
        detail = _released(exchange.request_was_held)
        self._witness.request(exchange.request, fate, exchange.arrived_ns, **detail)
        if exchange.copy_of is not None and exchange.fires is not None:
            number = str(exchange.request.correlation_id)
            self._fired(exchange.fires, exchange.copy_of, copy=number)
            exchange.fires = None
        self._board.received(exchange.faults, exchange.request)

    # From the broker to the client.

    def _take_response(self, frame: bytes) -> None:
        if self._is_over:
            return
        now = self._loop.time()
        exchange = None if self.broker.is_raw else self._exchanges.asked(frame)
        if exchange is None:
            self._pass_unread_response(frame)
            return
        armed, _ = exchange.decide_response(frame, now)
        self._topic_names.update(topic_ids(Response(frame, exchange.request)))
        if exchange.answer_fate != "forwarded":
            exchange.fires = armed  # when the answer is given, or is not
        elif armed is not None:
            self._fired(armed, exchange.request)
        self._bring(exchange)
        self._step()
        exchange.answer_was_held = not exchange.is_given

    def _answer(self, now: float) -> float:
        """Give the client the answers that are due; when the next is due."""
        while (first := self._exchanges.first) is not None:
            due = first.answer_at
            if first.send_at == inf:
                self._cut_off()  # what came before the kept request has been answered
            if due > now:
                return due
            self._exchanges.take()
            self.moved_at = now
            self._give(first)
        return inf

    def _give(self, exchange: Exchange) -> None:
        exchange.is_given = True
        answer, fate, armed = exchange.answer, exchange.answer_fate, exchange.fires
        assert answer is not None
        if fate == "dropped":
            self._is_mute = True
            self._begin_to_end("fault")
        if self._is_mute or exchange.copy_of is not None:
            fate = "dropped"
        else:
            self.client.write(answer.frame)
        if armed is not None:
            sent = {"answer": answer.error or "none"} if fate == "replaced" else {}
            self._fired(armed, exchange.request, **sent)
        if exchange.answer_was_held and fate == "forwarded":
            fate = "held"
        self._when_answered.pop(exchange, lambda: None)()
        detail = _released(exchange.answer_was_held)
        self._witness.response(answer, fate, exchange.answered_ns, **detail)
        self._board.answered(exchange.faults, exchange.request)

    # Faults, and frames that nobody can read.

    def _fired(self, armed: Armed, request: Request, **detail: str) -> None:
        self._board.fired(armed, request, connection=self._witness.connection, **detail)

    def _pass_unread_request(self, frame: bytes) -> None:
        if not self._is_deaf:
            self._outbox.put(frame)
            self._witness.unread("request", frame, in_pieces=self.client.is_raw)

    def _pass_unread_response(self, frame: bytes) -> None:
        if not self._is_mute:
            self.client.write(frame)
            self._witness.unread("response", frame, in_pieces=self.broker.is_raw)

    # What is due, and the end.

    def _step(self) -> None:
        """Do all that is due, and set the timer for what will be."""
        if self._is_over:
            return
        now = self._loop.time()
        due = min(self._send(now), self._answer(now))
        due = min(due, self._finish(now))
        self._listen()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due < inf and not self._is_over:
            self._timer = self._loop.call_at(due, self._step)

    def _finish(self, now: float) -> float:
        """Close both connections if it is time to; when to look again."""
        due = self._end_due(now)
        if due <= now:
            self._close()
        return due

    def _end_due(self, now: float) -> float:
        if not self._ended_by or self._outbox:
            return inf
        if (first := self._exchanges.first) is not None:
            unanswered = max(self._ended_at, self.moved_at) + ANSWERS_LIMIT_S
            return unanswered if first.answer is None else inf
        return inf if self.client.is_behind else now

    def _listen(self) -> None:
        """Read from a side as long as there is room for what it sends."""
        crowded = self._outbox.waiting_bytes > WAITING_BYTES_LIMIT
        crowded |= self._exchanges.count >= OPEN_LIMIT
        self.client.listen(not (self.broker.is_full or crowded))
        self.broker.listen(not self.client.is_full)

    def _made_broker(self) -> None:
        if self._is_over:
            self.broker.abort()  # the client did not wait for it
        self._step()

    def _lost_client(self) -> None:
        self._is_mute = True
        self._begin_to_end("client")
        self._step()

    def _lost_broker(self) -> None:
        """Nothing more can be sent, and only the answers that are here can be given."""
        if self._is_over:
            self._on_end(self)
            return
        self._outbox.clear()
        self._exchanges.keep_answered()
        self._begin_to_end("broker")
        self._step()

    def _begin_to_end(self, by: str) -> None:
        if not self._ended_by:
            self._ended_by = by
            self._ended_at = self._loop.time()

    def _close(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self.client.close()
        # A broker closes its side when it has worked off all that it was sent: that is the end.
        self.broker.finish()
        self._loop.call_later(ANSWERS_LIMIT_S, self.broker.abort)
        for resume in self._when_answered.values():
            resume()
        self._outbox.clear()
        self._exchanges = Exchanges()
        self._witness.closed(self._ended_by)
        if not self.broker.is_made or self.broker.is_lost:
            self._on_end(self)


def _released(was_held: bool) -> dict[str, str]:
    return {"released_at_ns": str(time.monotonic_ns())} if was_held else {}


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

    def decide_request(self, now: float) -> tuple[Armed | None, Action | None]:
        """Let the faults decide what is sent to the broker, or answered in its place."""
        armed, action = self._ask(lambda fault: fault.on_request(self.request))
        self.frame = self.request.frame
        match action:
            case Forward(frame, after_ms):
                self.send_at = now + after_ms / 1000 if after_ms else 0.0
                if frame is not None:
                    self.frame, self.request_fate = frame, "corrupted"
            case Answer(frame, after_ms):
                self.request_fate = "dropped"
                self._answered(frame, "replaced", now + after_ms / 1000)
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


class Exchanges:
    """The exchanges of one connection, in the order of their requests."""

    def __init__(self) -> None:
        self._open: deque[Exchange] = deque()

    @property
    def first(self) -> Exchange | None:
        """The one whose answer the client waits for."""
        return self._open[0] if self._open else None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._open)

    @property
    def answer_bytes(self) -> int:
        """The bytes of answers that are yet to be given."""
        return sum(len(each.answer.frame) for each in self._open if each.answer is not None)

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
