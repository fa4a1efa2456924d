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
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from math import inf
from typing import Final
from uuid import UUID

from lab_utils.codec.frames import Request, Response, Unreadable, read_request, topic_ids
from lab_utils.proxy.armed import Armed, FaultBoard, Kept
from lab_utils.proxy.connections import WAITING_BYTES_LIMIT, Side
from lab_utils.proxy.exchange import Copies, Exchange, Exchanges, Outbox
from lab_utils.proxy.faults.broker_fault import ANSWERED, RECEIVED
from lab_utils.proxy.faults.wire_fault import Action, Answer, Cut, Keep, Replay
from lab_utils.proxy.witness import WireWitness

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
        self._outbox = Outbox()
        self._exchanges = Exchanges()
        self._copies: list[Copies] = []
        side = partial(
            Side,
            on_room=self._listen,
            on_worked_off=self._step,
            on_crowded=lambda: self.abort("stage"),
        )
        self.client = side(
            on_made=lambda: on_made(self),
            on_frame=self._take_request,
            on_lost=self._lost_client,
            beside=self._held_of_client,
        )
        self.broker = side(
            on_made=self._made_broker,
            on_frame=self._take_response,
            on_lost=self._lost_broker,
            beside=lambda: self._exchanges.answer_bytes,
        )
        self._when_answered: dict[Exchange, Callable[[], object]] = {}
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

    def _held_of_client(self) -> int:
        copies = sum(len(it.frame) for it in self._copies)
        return self._outbox.waiting_bytes + copies + self._exchanges.request_bytes

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
            request.forget_parts()
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
            self._exchanges.append(exchange)
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
                    self._exchanges.append(exchange)

    def _keep(self, exchange: Exchange, armed: Armed, before: str) -> None:
        """Let the request wait in the outbox until it is called for."""

        def release(then: Callable[[], object]) -> None:
            armed.kept = None
            if self._is_over:  # its broker has ended, and it with it
                then()
            self._when_answered[exchange] = then
            exchange.send_at = 0.0
            self._step()

        armed.kept = Kept(exchange.request.run, before, release, lambda: self.abort("stage"))

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
        self._board.moment(RECEIVED, exchange.faults, exchange.request)

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
        while self._exchanges:
            first = self._exchanges[0]
            # Nobody waits for what a client was to be given that has gone, or was cut off.
            due = 0.0 if self._is_mute and first.answer is not None else first.answer_due
            if first.send_at == inf:  # what came before the kept request has been answered
                self._is_mute = True
                self.client.close()
            if due > now:
                return due
            self._exchanges.popleft()
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
        elif exchange.copy_of is not None:
            fate = "dropped"
        elif self._is_mute:
            fate = "undelivered" if self._ended_by == "client" else "dropped"
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
        self._board.moment(ANSWERED, exchange.faults, exchange.request)

    # Faults, and frames that nobody can read.

    def _fired(self, armed: Armed, request: Request, **detail: str) -> None:
        self._board.fired(armed, request, connection=self._witness.connection, **detail)

    def _pass_unread_request(self, frame: bytes) -> None:
        if self._is_deaf:
            return
        self._witness.unread("request", frame, in_pieces=self.client.is_raw)
        if self._board.is_examining:  # it may bring what no request may that can be read
            self.abort("stage")
        else:
            self._outbox.put(frame)

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
        due = min(self._send(now), self._answer(now), self._finish(now))
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
        if self._exchanges:
            unanswered = max(self._ended_at, self.moved_at) + ANSWERS_LIMIT_S
            return unanswered if self._exchanges[0].answer is None else inf
        return inf if self.client.is_behind else now

    def _listen(self) -> None:
        """Read from a side as long as there is room for what it sends."""
        crowded = self._outbox.waiting_bytes > WAITING_BYTES_LIMIT
        crowded |= len(self._exchanges) >= OPEN_LIMIT
        self.client.listen(not (self.broker.is_full or crowded))
        self.broker.listen(not self.client.is_full)

    def _made_broker(self) -> None:
        if self._is_over:
            self.broker.abort()  # the client did not wait for it
        self._step()

    def _lost_client(self) -> None:
        self._is_mute = True
        for exchange in self._exchanges.unanswered():
            # A consumer that ends leaves a Fetch unanswered; a producer only what it gave up.
            if exchange.request.api == "Produce":
                self._board.moment(ANSWERED, exchange.faults, exchange.request)
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
        self._exchanges.clear()
        self._witness.closed(self._ended_by)
        if not self.broker.is_connected:
            self._on_end(self)


def _released(was_held: bool) -> dict[str, str]:
    return {"released_at_ns": str(time.monotonic_ns())} if was_held else {}
