r"""The steps of a run, one by one: who did what at which moment, and where that is drawn.

    client      proxy      broker 1
      │0──────────●──────────▶│          a frame passes the proxy: one step, with its sentence
      │           ✕◀─────────3│          the answer is dropped there
      ● order 2 acked         │          what the program was told

Every sentence states one event of the ledger. A frame's moment is the one at the proxy; its slope
is drawn, not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import Exchange, History, exchanges, released_ns
from lab_utils.views import palette
from lab_utils.views.palette import AGAIN, Style
from lab_utils.views.picture import MS, ms_text
from lab_utils.views.replica_history import Decision, Replication, brokers
from lab_utils.views.timeline import WIRE, answer_of, batch_text, broker_of
from lab_utils.views.words import counted, listed, shown

STEPS_LIMIT: Final = 150
HELD_MS: Final = 1  # what the proxy held for less is told as one step
PROXY: Final = "proxy"
GONE: Final = "The client has closed the connection by then: it never gets the answer."
PROCESS: Final = "process"
CLIENTS: Final = ("created", "sent", "acked", "delivered")
NAMED: Final = ("producer-", "consumer-")
COMMITS: Final = {
    "OffsetCommit": "the commit of offset {}",
    "TxnOffsetCommit": "offset {} as part of the transaction",
}
ENDS: Final = {"True": "commit", "False": "abort"}

STYLES: Final = {
    **WIRE,
    "told": Style("what the program is told", palette.GREEN, symbol="circle"),
    "unsure": Style("an error that it is told", palette.ORANGE, symbol="triangle"),
    "given": Style("record that poll() returns", palette.GREY, symbol="ring"),
    "work": Style("the work is done", palette.BLUE, symbol="square"),
    "broken": Style("killed, stopped, paused or cut", palette.VERMILLION, symbol="x", width=2.6),
    "whole": Style("started or resumed", palette.GREEN, symbol="triangle"),
    "decision": Style("decision of the controller", palette.PURPLE, symbol="diamond"),
    "read": Style("the log is read back", palette.GREY, symbol="square"),
}
# What becomes of a broker or a link: how it is drawn, and what is said of it.
HAPPENED: Final = {
    "killed": ("broken", "is killed (SIGKILL)"), "stopped": ("broken", "is stopped (SIGTERM)"),
    "paused": ("broken", "is paused (SIGSTOP)"), "died": ("broken", "has died"),
    "power_cut": ("broken", "loses its power (a simulation), and what it had not flushed"),
    "started": ("whole", "is started again"), "resumed": ("whole", "is resumed (SIGCONT)"),
    "link_cut": ("broken", "cut"), "link_held": ("broken", "held"),
    "link_slow": ("broken", "slowed down"),
}  # fmt: skip
# What a call that has returned is called, and what it says.
TXN: Final = {
    "txn_initialised": (
        "init", "init_transactions() returns: the transactional.id is taken over",
    ),
    "txn_began": ("begin", "begin_transaction() returns: a local step"),
    "txn_offsets_sent": ("offsets sent", "send_offsets_to_transaction() returns"),
    "txn_committed": ("committed", "commit_transaction() returns: committed"),
    "txn_aborted": ("aborted", "abort_transaction() returns: aborted"),
}  # fmt: skip
KNOWS: Final = {
    "failed": "The record is not in the log.",
    "unknown": "The client cannot know whether it is stored.",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One event: its moment, its style in STYLES, the lanes that it crosses, and its sentence.

    path    the lanes from the first to the last; a single one is a mark
    label   what stands beside it
    since   where something was held: from when on, at the first lane
    """

    at_ns: int
    style: str
    path: tuple[str, ...]
    text: str
    label: str = ""
    since_ns: int | None = None


class Steps:
    """The steps of one run; `apis` are the requests that are shown, first Produce."""

    def __init__(self, rows: Sequence[Event], apis: Sequence[str] = ("Produce",)) -> None:
        self.history = History(rows)
        self.apis = tuple(apis)
        self._replication = Replication(rows)
        self._stored: dict[tuple[str | None, str], int | None] = {}
        begun = self.history.of("workload", "started") + self.history.of("fault", "armed")
        healing = self._replication.healing_ns
        ended = self.history.of("workload", "finished", "raised")
        self._from_ns = min((row.at_ns for row in begun), default=0)
        self._until_ns = min(healing or 1 << 63, ended[-1].at_ns if ended else 1 << 63)
        self._is_one_process = bool(
            self.history.of("workload", "crashed")
            or self.history.of("client", "delivered", "db_committed")
        )
        seen = self.history.of("client", *CLIENTS) + self.history.of("wire", "request")
        self._clients = sorted({row.actor for row in seen if row.actor.startswith(NAMED)})

    def lanes(self) -> list[str]:
        """The lanes from left to right: clients, proxy, brokers."""
        used = list(dict.fromkeys(lane for step in self.all for lane in step.path))
        of_brokers = [lane for lane in used if lane.startswith("broker ")]
        # A program of any other library has the name that it was given.
        others = (lane for lane in used if lane not in (PROXY, *of_brokers))
        clients = list(dict.fromkeys([*map(self._lane, self._clients), *others]))
        numbers = {int(lane.rpartition(" ")[2]) for lane in of_brokers}
        numbers |= set(self._replication.replicas)
        named = [*(clients or ["client"]), *([PROXY] if PROXY in used else [])]
        return [*named, *(f"broker {number}" for number in sorted(numbers))]

    @cached_property
    def all(self) -> list[Step]:
        """All steps, oldest first, the last one that of the log read back."""
        found = [*self._frames(), *self._client(), *self._process(), *self._brokers()]
        found = [it for it in found if self._from_ns <= it.at_ns]
        found.sort(key=lambda it: it.at_ns)
        return [*found[:STEPS_LIMIT], *self._read_back()]

    def _lane(self, actor: str) -> str:
        """A client's lane; what runs in one process, or is started again, shares a lane."""
        if self._is_one_process:
            return PROCESS
        role = actor.rpartition("-")[0]
        alone = sum(it.rpartition("-")[0] == role for it in self._clients) <= 1
        return role if alone and role else actor

    def _frames(self) -> Iterator[Step]:
        for exchange in exchanges(self.history.rows, self.apis):
            yield from self._request(exchange)
            yield from self._response(exchange)

    def _request(self, it: Exchange) -> Iterator[Step]:
        row = it.request
        if row is None or not what(it):
            return
        client, broker = self._lane(row.actor), f"broker {broker_of(row)}"
        told = f"{_the(client)} sends {what(it)}{' again' if it.is_repeat else ''}"
        label = f"{AGAIN if it.is_repeat else ''}{_name(it)}"
        if it.is_replay:
            text = f"The proxy sends a copy of {what(it)}. The client knows nothing of it."
            yield Step(row.at_ns, "replayed", (PROXY, broker), text, label)
            return
        if row.fate == "dropped":
            is_answered = it.response is not None and it.response.fate == "replaced"
            text = f"{told}. The proxy {'stops' if is_answered else self._drops(row)} the request: "
            text += f"{broker} never sees it."
            yield Step(row.at_ns, "replaced" if is_answered else "lost", (client, PROXY), text,
                       label)  # fmt: skip
        elif row.fate == "corrupted":
            text = f"{told}. The proxy changes one byte on the way."
            yield Step(row.at_ns, "corrupted", (client, PROXY, broker), text, label)
        elif _wait_ms(row) >= HELD_MS:
            text = f"{told}. The proxy holds the request."
            yield Step(row.at_ns, "held", (client, PROXY), text, label)
            late = f"The proxy lets {what(it)} go after {ms_text(_wait_ms(row))} ms."
            yield Step(released_ns(row), "request", (PROXY, broker), late, label, row.at_ns)
        else:
            yield Step(row.at_ns, "request", (client, PROXY, broker), f"{told}.", label)

    def _response(self, it: Exchange) -> Iterator[Step]:
        row = it.response
        if row is None or not what(it):
            return
        client, broker = self._lane(row.actor), f"broker {broker_of(row)}"
        if row.fate == "replaced":
            yield from self._replaced(it, row, client, broker)
            return
        places = answer_of(it)
        told, label = self._answer(it, broker), row.error or (f"@{places}" if places else "ok")
        style = "error" if row.error else "answer"
        is_held = _wait_ms(row) >= HELD_MS
        if row.fate == "dropped":
            why = "it answers a copy" if it.is_replay else "the client never gets it"
            text = f"{told} The proxy {self._drops(row)} the answer: {why}."
            yield Step(row.at_ns, "lost", (broker, PROXY), text, label)
        elif is_held:
            text = f"{told} The proxy holds the answer."
            yield Step(row.at_ns, "held", (broker, PROXY), text, label)
            late = f"The proxy lets the answer to {what(it)} go after {ms_text(_wait_ms(row))} ms."
            way: tuple[str, ...] = (PROXY, client)
            if row.fate == "undelivered":
                late, style, way = f"{late} {GONE}", "undelivered", (PROXY,)
            yield Step(released_ns(row), style, way, late, label, row.at_ns)
        elif row.fate == "undelivered":
            yield Step(row.at_ns, "undelivered", (broker, PROXY), f"{told} {GONE}", label)
        else:
            yield Step(row.at_ns, style, (broker, PROXY, client), told, label)

    @cached_property
    def _struck(self) -> list[tuple[str | None, int | None]]:
        """Connection and number of each frame that a fault dropped; it then cut the connection."""
        return [
            (fired.detail.get("connection"), fired.correlation_id)
            for fired in self.history.of("fault", "fired")
            if fired.actor in ("drop_request", "drop_response")
        ]

    def _drops(self, row: Event) -> str:
        """What the proxy does to a lost frame."""
        is_struck = (row.detail.get("connection"), row.correlation_id) in self._struck
        is_cut = not is_struck and row.detail.get("connection") in {cut for cut, _ in self._struck}
        return "has cut the connection and drops" if is_cut else "drops"

    def _replaced(self, it: Exchange, row: Event, client: str, broker: str) -> Iterator[Step]:
        request, label = it.request, row.error or ""
        was_asked = request is not None and request.fate != "dropped"
        wait = f" after {ms_text(_wait_ms(row))} ms" if _wait_ms(row) >= HELD_MS else ""
        text = f"The proxy answers {label} in the place of {broker}{wait}."
        if was_asked:
            known = f"{broker.capitalize()} answers. The proxy replaces the answer."
            yield Step(row.at_ns, "answer", (broker, PROXY), known)
        since = None if request is None else row.at_ns if was_asked else request.at_ns
        yield Step(released_ns(row), "replaced", (PROXY, client), text, label, since)

    def _answer(self, it: Exchange, broker: str) -> str:
        """What the broker says, and what follows from it."""
        row, name = it.response, broker.capitalize()
        assert row is not None
        if row.error:
            return f"{name} answers {row.error}."
        if it.first.api != "Produce":
            return f"{name} has carried it out and answers."
        places = answer_of(it)
        if not places:
            return f"{name} answers."
        known = {value: self._stored.get((row.topic, value)) for value in it.values}
        self._stored |= {(row.topic, value): row.offset for value in it.values}
        if it.is_repeat and all(place == row.offset for place in known.values()):
            return (
                f"{name} recognises {what(it)}: it is stored already, at offset {places}. "
                "It answers so."
            )
        return f"{name} has stored {what(it)} at offset {places} and answers."

    def _client(self) -> Iterator[Step]:
        for row in (it for it in self.history.rows if it.source == "client"):
            lane = self._lane(row.actor)
            if said := self._said(row, lane):
                style, label, text = said
                yield Step(row.at_ns, style, (lane,), text, label)

    def _said(self, row: Event, lane: str) -> tuple[str, str, str] | None:
        """What a client says, if it is a step: its style, its label and its sentence."""
        name, order = shown(row.value, 8), f"order {shown(row.value, 16)}"
        who = f"{lane}: " if lane[-1].isdecimal() else ""
        match row.kind:
            case "acked":
                place = "without an offset" if row.offset is None else f"at offset {row.offset}"
                return "told", f"{name} acked", f"{_the(lane)} reports {order} as acked, {place}."
            case "failed" | "unknown":
                text = f"{_the(lane)} reports {order} as not acked: {row.error}. {KNOWS[row.kind]}"
                return "unsure", f"{name} {row.kind}", text
            case "delivered":
                return "given", f"poll {name}", f"poll() returns {order}, at offset {row.offset}."
            case "processed":
                return "work", f"work {name}", f"The work for {order} is done."
            case "db_committed":
                text = "The database has committed what the process wrote into it: it stays there."
                return "work", "database", text
            case "txn_failed":
                text = f"{who}{row.detail.get('call', 'the call')}() raises {row.error}."
                return "unsure", (row.error or "").lstrip("_"), text
            case kind if kind in TXN:
                label, text = TXN[kind]
                return "told", label, f"{who}{text}."
        return None

    def _process(self) -> Iterator[Step]:
        for row in self.history.of("workload", "crashed", "started"):
            if row.kind == "crashed":
                point = row.detail.get("point", "").replace("_", " ")
                text = f"The process is killed (SIGKILL), {point or 'by hand'}."
                yield Step(row.at_ns, "broken", (PROCESS,), text, "killed")
            elif (row.attempt or 1) > 1:
                text = "The process is started again. What it had in memory is gone."
                yield Step(row.at_ns, "whole", (PROCESS,), text, "started again")

    def _brokers(self) -> Iterator[Step]:
        for row in self.history.of("broker", *HAPPENED):
            if not self._from_ns <= row.at_ns < self._until_ns:
                continue
            style, said = HAPPENED[row.kind]
            if row.kind.startswith("link_"):
                ends = row.detail.get("brokers", "").split()
                text = f"The link between brokers {listed(ends)} is {said}."
                lanes = tuple(f"broker {end}" for end in ends)
                yield Step(row.at_ns, style, lanes, text, said)
            else:
                name = row.actor.replace("-", " ")
                text = f"{name.capitalize()} {said}."
                yield Step(row.at_ns, style, (name,), text, row.kind.replace("_", " "))
        yield from self._decisions()

    def _decisions(self) -> Iterator[Step]:
        before: Decision | None = None
        for it in self._replication.decisions:
            is_new = before is not None and (it.leader, it.isr) != (before.leader, before.isr)
            if is_new and it.is_seen and self._from_ns <= it.at_ns < self._until_ns:
                leads = "nobody leads" if it.leader is None else f"broker {it.leader} leads"
                text = f"The controller decides: {leads}, {brokers(it.isr)} in the ISR."
                held = it.leader or min(it.isr, default=0) or min(self._replication.replicas)
                isr = " ".join(map(str, sorted(it.isr))) or "empty"
                yield Step(it.at_ns, "decision", (f"broker {held}",), text, f"ISR {isr}")
            before = it

    def _read_back(self) -> Iterator[Step]:
        ends = self.history.of("log", "end")
        if ends:
            many = counted(len(self.history.log), "record")
            whole = "" if self.history.is_drained else " Not all of it could be read."
            text = f"The run is over. The log is read back: {many}.{whole}"
            yield Step(1 << 62, "read", (), text)


def what(it: Exchange) -> str:
    """What a request is about, in words; empty if it is about nothing."""
    row = it.first
    if row.api == "Produce":
        names = batch_text(it.values, sum(part.records or 0 for part in it.requests))
        one = len(it.values) == 1
        into = row.topic or ""
        short = into.removeprefix(f"{row.run}-")
        where = "" if short in ("orders", into) else f" to {short}"
        return f"order{'' if one else 's'} {names}{where}" if it.values else f"{names}{where}"
    if row.api in COMMITS:
        return COMMITS[row.api].format(row.offset) if row.offset is not None else ""
    if row.api == "EndTxn":
        return f"the {ENDS.get(row.detail.get('committed', ''), 'end')} of the transaction (EndTxn)"
    return f"a request {row.api}"


def _name(it: Exchange) -> str:
    """The same, short enough to stand beside an arrow."""
    row = it.first
    if row.api == "Produce":
        return batch_text(it.values, sum(part.records or 0 for part in it.requests))
    if row.api in COMMITS:
        return f"{'commit' if row.api == 'OffsetCommit' else 'offset'} {row.offset}"
    return ENDS.get(row.detail.get("committed", ""), row.api or "?")


def _the(lane: str) -> str:
    """A lane as the subject of a sentence.

    >>> _the("producer"), _the("producer-2")
    ('The producer', 'producer-2')
    """
    return lane if lane[-1].isdecimal() else f"The {lane}"


def _wait_ms(row: Event) -> float:
    return (released_ns(row) - row.at_ns) / MS
