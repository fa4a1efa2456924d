"""One client's connection and its connection to the broker, with the faults in between.

    client ── request ──▶ match ──▶ outbox ───────────────▶ broker
    client ◀── exchanges, in the order of the requests ◀──── broker

Requests wait in the outbox and answers in their exchange. Both leave in order, so what is held
holds what is behind it on this connection, and nothing elsewhere. `_step` does what is due; it runs
after each frame and when the one timer rings.

Two rules make a fault's outcome the same each time, however fast the broker is. An answer that is
a fault's work is given when the client has been quiet. A connection is cut when the client has
been quiet and the broker has answered all that it was sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import Final
from uuid import UUID

from lab_utils.codec.frames import (
    Request,
    Response,
    Unreadable,
    read_request,
    topic_ids,
)
from lab_utils.proxy.armed import Armed, FaultBoard, Kept
from lab_utils.proxy.exchange import Exchange, Exchanges
from lab_utils.proxy.faults.wire_fault import Action, Answer, Cut, Keep
from lab_utils.proxy.outbox import Outbox
from lab_utils.proxy.sides import WAITING_BYTES_LIMIT, Side
from lab_utils.proxy.witness import WireWitness

# A client is quiet when it has sent nothing for this long. One that never is, gets the limit.
# Less is not faster: cut after 20 or 30 ms, librdkafka is back 30 ms later than when cut after 40.
QUIET_S: Final = 0.04
QUIET_LIMIT_S: Final = 0.5
# How long a connection that is to end waits for the broker's answers: a paused one gives none.
ANSWERS_LIMIT_S: Final = 2.0


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
        )
        self.broker = Side(
            on_made=self._made_broker,
            on_frame=self._take_response,
            on_room=self._listen,
            on_lost=self._lost_broker,
        )
        self._outbox = Outbox()
        self._when_answered: dict[Exchange, Callable[[], object]] = {}
        self._exchanges = Exchanges()
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = self._moved_at = self._loop.time()
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
        now = self._heard_at = self._loop.time()
        request = self._read(frame)
        if request is None:
            self._pass_unread_request(frame)
            self._step()
        elif self._is_deaf:
            self._witness.request(request, "dropped", time.monotonic_ns())
        else:
            exchange = Exchange(request, self._board.match(request))
            exchange.brings = self._board.brought_by(request)
            self._act(exchange, *exchange.decide_request(now))
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
            self._moved_at = now
            self.broker.write(frame)
            if exchange is not None:
                self._note_sent(exchange)
                exchange.forget_frame()
        return self._outbox.next_at()

    def _note_sent(self, exchange: Exchange) -> None:
        fate = "held" if exchange.request_was_held else exchange.request_fate
        detail = _released(exchange.request_was_held)
        self._witness.request(exchange.request, fate, exchange.arrived_ns, **detail)
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
            if first.awaits_quiet and self.client.is_open:
                due = max(due, self._quiet_at(first.answered_at))
            if due > now:
                return due
            self._exchanges.take()
            self._moved_at = now
            self._give(first)
        return inf

    def _give(self, exchange: Exchange) -> None:
        exchange.is_given = True
        answer, fate, armed = exchange.answer, exchange.answer_fate, exchange.fires
        assert answer is not None
        if fate == "dropped":
            self._is_mute = True
            self._begin_to_end("fault")
        if self._is_mute:
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
            unanswered = max(self._ended_at, self._moved_at) + ANSWERS_LIMIT_S
            return unanswered if first.answer is None else inf
        is_cut = self.client.is_lost or self.broker.is_lost
        return now if is_cut else self._quiet_at(self._ended_at)

    def _quiet_at(self, since: float) -> float:
        return min(max(self._heard_at, since) + QUIET_S, since + QUIET_LIMIT_S)

    def _listen(self) -> None:
        """Read from a side as long as there is room for what it sends."""
        crowded = self._outbox.waiting_bytes > WAITING_BYTES_LIMIT
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
        self._witness.closed(self._ended_by)
        if not self.broker.is_made or self.broker.is_lost:
            self._on_end(self)


def _released(was_held: bool) -> dict[str, str]:
    return {"released_at_ns": str(time.monotonic_ns())} if was_held else {}
