"""The scene of a timeline: which exchanges are in it, where they are, and what is written there.

Pure shaping, in columns and lanes; timeline.py draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.views.elastic_time import MS, ElasticTime, ms_text
from lab_utils.views.exchanges import Exchange, exchanges
from lab_utils.views.palette import AGAIN
from lab_utils.views.timeline_notes import Mark, answer_of, is_odd, marks, name_of
from lab_utils.views.timeline_paths import (
    PROXY,
    SLOPE,
    Lanes,
    broker_of,
    lanes,
    released_ns,
    time_of,
)
from lab_utils.views.wording import counted

EXCHANGES_LIMIT: Final = 60
BEFORE_ODD: Final = 15
REPORTS_LIMIT: Final = 3

# What a notebook of 900 pixels leaves for the lanes, and what a letter takes.
WIDTH_PX: Final = 770
LETTER_PX: Final = 7.2
LINE_PX: Final = 13


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a place; `is_loud` when it names what went wrong or came again."""

    column: float
    height: float
    text: str
    is_loud: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """What is in the picture. `of` is how many exchanges the run has."""

    found: list[Exchange]
    of: int
    first: int
    time: ElasticTime
    where: Lanes
    marks: list[Mark]
    reports: list[Event]
    with_api: bool

    @property
    def column_px(self) -> float:
        """How wide a column is."""
        return WIDTH_PX / (self.time.width + 2)

    def exchange_of(self, row: Event) -> Exchange:
        """The exchange that a frame is part of."""
        return next(it for it in self.found if row in it.requests or row in it.responses)

    def requests(self) -> list[Label]:
        """What each request is called, where it leaves the client."""
        named = [
            Label(
                self.time.column(row.at_ns) - SLOPE,
                self.where.clients[row.actor],
                name_of(exchange, with_api=self.with_api),
                is_odd(exchange),
            )
            for exchange in self.found
            if (row := exchange.request)
        ]
        return thinned(named, self.column_px, turned=are_turned(named, self.column_px))

    def offsets(self) -> list[Label]:
        """The offset that each answer names, where it leaves the broker."""
        named = [
            Label(
                self.time.column(row.at_ns) - SLOPE,
                self.where.brokers[broker_of(row)],
                answer_of(exchange),
                is_odd(exchange),
            )
            for exchange in self.found
            if (row := exchange.response)
        ]
        return thinned([label for label in named if label.text], self.column_px, turned=False)

    def errors(self) -> list[Label]:
        """What went wrong as the client was told, and then the program, in order of time."""
        given_up = [
            Label(self.time.column(row.at_ns), PROXY, f"order {row.value} {row.kind}: {row.error}")
            for row in self.reports
        ]
        return sorted([*self._told(), *given_up], key=lambda label: label.column)

    def _told(self) -> list[Label]:
        """The errors in answers, where they arrive; neighbours with the same one are one."""
        told = [exchange for exchange in self.found if exchange.error and exchange.response]
        told.sort(key=lambda exchange: released_ns(exchange.responses[0]))
        labels = []
        for error, group in groupby(told, key=lambda exchange: exchange.error or ""):
            same = list(group)
            times = f" ({len(same)} times)" if len(same) > 1 else ""
            row = same[len(same) // 2].responses[0]
            place = self.time.column(released_ns(row)) + SLOPE
            labels.append(Label(place, self.where.clients[row.actor], error + times, True))
        return labels

    def summary(self) -> str:
        """The picture in sentences, for whoever cannot see it."""
        if not self.found:
            return "There is nothing to draw."
        names = sorted({exchange.first.api or "unread" for exchange in self.found})
        kind = f"{names[0]} request" if len(names) == 1 else "request"
        ends = [released_ns(row) for exchange in self.found for row in _frames(exchange)]
        lasted = ms_text((max(ends) - self.time.instants[0]) / MS)
        told = [f"{counted(self.of, kind)} crossed the wire in {lasted} ms."]
        if self.of > len(self.found):
            last = self.first + len(self.found)
            told = [f"Of {counted(self.of, kind)}, {self.first + 1} to {last} are shown."]
        told += [f"{what}." for what in self._what_happened()]
        told.append(
            "Each arrow passes the proxy at the measured moment; its slope is drawn, not measured."
        )
        return " ".join(told)

    def _what_happened(self) -> Iterable[str]:
        frames = [row for exchange in self.found for row in _frames(exchange)]
        for kind in ("request", "response"):
            for fate, verb in (("dropped", "dropped"), ("corrupted", "corrupted")):
                if number := sum((row.kind, row.fate) == (kind, fate) for row in frames):
                    yield f"The proxy {verb} {counted(number, kind)}"
        if number := sum(row.fate == "replaced" for row in frames):
            yield f"The proxy wrote {counted(number, 'answer')} itself"
        if number := sum(not exchange.responses for exchange in self.found):
            yield f"{counted(number, 'request')} got no answer in this time"
        if again := [name_of(exchange) for exchange in self.found if exchange.is_repeat]:
            yield f"{counted(len(again), 'request')} came again ({AGAIN})"


def scene(rows: Sequence[Event], apis: Sequence[str] | None) -> Scene:
    """Set the scene; a long run is shown around the first exchange that went wrong."""
    everything = exchanges(rows, apis)
    first = window_start(everything)
    found = everything[first : first + EXCHANGES_LIMIT]
    reports = [row for row in rows if row.source == "client" and row.kind in ("failed", "unknown")]
    events = marks(rows, found)
    others = [row.at_ns for row in reports[:REPORTS_LIMIT]] + [mark.at_ns for mark in events]
    time = time_of(found, others)
    known = [mark for mark in events if mark.at_ns in time.instants]
    alone = apis is not None and tuple(apis) == ("Produce",)
    seen = [row for row in reports[:REPORTS_LIMIT] if row.at_ns in time.instants]
    where = lanes(found)
    return Scene(found, len(everything), first, time, where, known, seen, not alone)


def window_start(found: Sequence[Exchange]) -> int:
    """The number of the first exchange to show."""
    odd = next((number for number, exchange in enumerate(found) if is_odd(exchange)), 0)
    return max(0, min(odd - BEFORE_ODD, len(found) - EXCHANGES_LIMIT))


def thinned(labels: Sequence[Label], column_px: float, *, turned: bool) -> list[Label]:
    """Without those that would cover the one before; a loud one is never left out for a quiet."""
    kept: list[Label] = []
    for label in sorted(labels, key=lambda it: it.column):
        neighbour = next((it for it in reversed(kept) if it.height == label.height), None)
        room = LINE_PX * 0.85 if turned else _half_px(label) + _half_px(neighbour)
        is_near = neighbour and (label.column - neighbour.column) * column_px < room
        if is_near and neighbour and label.is_loud and not neighbour.is_loud:
            kept.remove(neighbour)
        elif is_near:
            continue
        kept.append(label)
    return kept


def stacked(labels: Sequence[Label], column_px: float) -> list[int]:
    """For each label the row in which it has room, from 0, if it may extend to either side."""
    ends: list[float] = []
    rows = []
    for label in labels:
        half = 2 * _half_px(label) + LINE_PX
        start, end = label.column * column_px - half, label.column * column_px + half
        row = next((number for number, taken in enumerate(ends) if taken <= start), len(ends))
        ends[row : row + 1] = [end]
        rows.append(row)
    return rows


def are_turned(labels: Sequence[Label], column_px: float) -> bool:
    """Must the labels be turned, because one of them would not fit beside the next?"""
    by_height = sorted(labels, key=lambda it: (it.height, it.column))
    pairs = [(a, b) for a, b in pairwise(by_height) if a.height == b.height]
    return any((b.column - a.column) * column_px < _half_px(a) + _half_px(b) for a, b in pairs)


def _frames(exchange: Exchange) -> list[Event]:
    return [row for row in (exchange.request, exchange.response) if row]


def _half_px(label: Label | None) -> float:
    """Half of what a label takes in width."""
    return len(label.text) / 2 * LETTER_PX + 2 if label else 0
