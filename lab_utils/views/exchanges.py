"""Requests and their answers, put together from the wire events of a run.

A Produce request has one event for each partition, and so has its answer; here they are one
exchange. It shapes and neither draws nor judges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from lab_utils.ledger.events import Event


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer; either may be missing, as when the run began in between.

    is_repeat   did all that it carries cross the wire before, in an earlier request?
    """

    requests: tuple[Event, ...]
    responses: tuple[Event, ...]
    is_repeat: bool = False

    @property
    def request(self) -> Event | None:
        """The request, as the event of its first partition."""
        return self.requests[0] if self.requests else None

    @property
    def response(self) -> Event | None:
        """The answer, as the event of its first partition that has an error, or of its first."""
        with_error = [row for row in self.responses if row.error]
        return next(iter(with_error or self.responses), None)

    @property
    def first(self) -> Event:
        """The request, or the answer if there is no request."""
        return (self.requests or self.responses)[0]

    @property
    def values(self) -> tuple[str, ...]:
        """The values that the request carries, as far as the proxy unpacked them."""
        return tuple(value for row in self.requests for value in carried(row))

    @property
    def error(self) -> str | None:
        """The error of the answer."""
        return self.response.error if self.response else None

    @property
    def is_lost(self) -> bool:
        """Did the request or its answer end at the proxy, with nothing in its place?"""
        response = self.response
        if response is None:
            return self.request is not None and self.request.fate == "dropped"
        return response.fate == "dropped"

    @property
    def reached_broker(self) -> bool:
        """Did the proxy pass the request on unharmed, and the broker not refuse it?"""
        request, response = self.request, self.response
        if request is None or request.fate in ("dropped", "corrupted"):
            return False
        # What the proxy answers says nothing about what the broker did.
        return response is None or response.fate == "replaced" or response.error is None


def exchanges(rows: Iterable[Event], apis: Sequence[str] | None = ("Produce",)) -> list[Exchange]:
    """The exchanges of these APIs (None is every one), in the order of their first event."""
    frames = [row for row in rows if row.source == "wire" and row.kind in ("request", "response")]
    wanted = [row for row in frames if apis is None or row.api in apis]
    ordered = sorted(wanted, key=_place)
    groups = [tuple(group) for _, group in groupby(ordered, key=_place)]
    found = [
        Exchange(
            tuple(row for row in group if row.kind == "request"),
            tuple(row for row in group if row.kind == "response"),
        )
        for group in groups
    ]
    return _with_repeats(sorted(found, key=lambda exchange: exchange.first.at_ns))


def carried(row: Event) -> list[str]:
    """The values that one Produce request carries to one partition."""
    if row.value is not None:
        return [row.value]
    return [value or "" for value in json.loads(row.detail.get("values", "[]"))]


def _place(row: Event) -> tuple[str, str, int]:
    """What a request has in common with its answer and with no other request."""
    place = row.detail
    return place.get("broker", ""), place.get("connection", ""), row.correlation_id or 0


def _with_repeats(found: list[Exchange]) -> list[Exchange]:
    seen: set[tuple[object, ...]] = set()
    marked = []
    for exchange in found:
        keys = {key for row in exchange.requests for key in _contents(row)}
        is_repeat = bool(keys) and keys <= seen
        marked.append(Exchange(exchange.requests, exchange.responses, is_repeat))
        seen |= keys
    return marked


def _contents(row: Event) -> list[tuple[object, ...]]:
    """What a Produce request carries, by value; by the broker's key where no value is known."""
    if row.api != "Produce":
        return []
    values = carried(row)
    if not values and row.producer_id is not None and row.producer_id >= 0:
        return [(row.partition, row.producer_id, row.producer_epoch, row.sequence)]
    return [(row.topic, row.partition, value) for value in values]
