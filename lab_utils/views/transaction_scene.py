"""The scene of a transaction timeline: who did what when, and which records who may read.

    producer ── its transactions, from begin to the end that it was told
    coordinator ── the entries of its diary
    partition ── records and markers, and how long readers of read_committed had to wait

Pure shaping; transaction_timeline.py draws it. The coordinator and the markers tell the time in
whole milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from lab_utils.ledger.events import Event
from lab_utils.views.elastic_time import MS, ElasticTime, elastic_time

ENDS = ("txn_committed", "txn_aborted")
EVENTS_LIMIT = 120

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Span:
    """A transaction as its program saw it; `end` is None if it was never told one."""

    actor: str
    number: str
    begin: Event
    end: Event | None
    failures: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something in a partition: a record and who may read it, or a marker.

    kind   all, some (read_uncommitted only), COMMIT or ABORT
    """

    place: Place
    offset: int
    at_ns: int
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Wait:
    """From one moment to another readers of read_committed stood at this offset."""

    place: Place
    offset: int
    from_ns: int
    to_ns: int | None


@dataclass(frozen=True, slots=True)
class Scene:
    """What is in the picture."""

    run: str
    time: ElasticTime
    producers: list[str]
    places: list[Place]
    spans: list[Span]
    asks: list[Event]
    entries: list[Event]
    marks: list[Mark]
    waits: list[Wait]
    stops: dict[Place, tuple[int, int]]
    torn: list[tuple[Span, list[str], list[str]]]

    def name_of(self, place: Place) -> str:
        """A partition's name without the run's."""
        topic, partition = place
        return f"{topic.removeprefix(self.run + '-')} {partition}"


def scene(rows: Sequence[Event]) -> Scene:
    """Set the scene of one run."""
    entries = _kind(rows, "log", "transaction")
    marks = _marks(rows)
    spans = _spans(rows)
    asks = _asks(rows)
    asks, entries, marks = asks[:EVENTS_LIMIT], entries[:EVENTS_LIMIT], marks[:EVENTS_LIMIT]
    waits = _waits(rows, marks)
    instants = chain(
        (row.at_ns for row in (*asks, *entries)),
        (arrived_ns(row) for row in asks),
        (mark.at_ns for mark in marks),
        (row.at_ns for span in spans for row in (span.begin, span.end, *span.failures) if row),
    )
    return Scene(
        run=rows[0].run if rows else "",
        time=elastic_time(instants),
        producers=sorted({span.actor for span in spans} | {row.actor for row in asks}),
        places=sorted({mark.place for mark in marks}, key=_orders_first),
        spans=spans,
        asks=asks,
        entries=entries,
        marks=marks,
        waits=waits,
        stops=_stops(rows),
        torn=list(_torn(rows, spans, marks)),
    )


def arrived_ns(row: Event) -> int:
    """When the proxy sent a request on, or gave an answer; a held one came earlier."""
    return int(row.detail.get("released_at_ns", row.at_ns))


def _torn(
    rows: Sequence[Event], spans: list[Span], marks: list[Mark]
) -> Iterator[tuple[Span, list[str], list[str]]]:
    """Transactions of which some orders can be read and some cannot, and which ones."""
    sent_in: dict[tuple[str, str], list[tuple[str | None, str | None]]] = defaultdict(list)
    for row in _kind(rows, "client", "sent"):
        sent_in[row.actor, row.detail.get("transaction", "")].append((row.topic, row.value))
    for span in spans:
        theirs = sent_in[span.actor, span.number]
        seen, unseen = (
            sorted({m.text for m in marks if m.kind == kind and (m.place[0], m.text) in theirs})
            for kind in ("all", "some")
        )
        if seen and unseen and not set(seen) & set(unseen):
            yield span, seen, unseen


def _kind(rows: Sequence[Event], source: str, *kinds: str) -> list[Event]:
    return [row for row in rows if row.source == source and row.kind in kinds]


def _asks(rows: Sequence[Event]) -> list[Event]:
    """Requests that begin or end something; a name that was not given yet is not drawn."""
    refused = {
        (row.correlation_id, row.detail.get("connection"))
        for row in _kind(rows, "wire", "response")
        if row.api == "InitProducerId" and row.error
    }
    return [
        row
        for row in _kind(rows, "wire", "request")
        if row.api in ("InitProducerId", "EndTxn")
        and (row.correlation_id, row.detail.get("connection")) not in refused
    ]


def _spans(rows: Sequence[Event]) -> list[Span]:
    by_number: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for row in rows:
        if row.source == "client" and "transaction" in row.detail and row.kind.startswith("txn_"):
            by_number[row.actor, row.detail["transaction"]].append(row)
    return [
        Span(
            *key,
            begin=some[0],
            end=next((row for row in some if row.kind in ENDS), None),
            failures=tuple(row for row in some if row.kind == "txn_failed"),
        )
        for key, some in by_number.items()
        if some[0].kind == "txn_began"
    ]


def _marks(rows: Sequence[Event]) -> list[Mark]:
    """Records when they were acked or answered, markers when they were written."""
    said = [row for row in rows if row.offset is not None and row.topic is not None]
    heard = _kind(said, "client", "acked") + _kind(said, "wire", "response")
    # The proxy heard of it before the client did, so the proxy's time is kept.
    at_ns = {_where(row): row.at_ns for row in heard}
    wall = _wall_ns(rows)
    visible = {_where(row) for row in _kind(said, "log", "visible")}
    marks = []
    for row in _kind(said, "log", "record", "marker"):
        is_marker = row.kind == "marker"
        written_ns = int(row.detail["timestamp_ms"]) * MS - wall
        kind = "all" if _where(row) in visible else "some"
        marks.append(
            Mark(
                (row.topic or "", row.partition or 0),
                row.offset or 0,
                written_ns + MS // 2 if is_marker else at_ns.get(_where(row), written_ns),
                row.detail["type"] if is_marker else row.value or "",
                row.detail["type"] if is_marker else kind,
            )
        )
    return sorted(marks, key=lambda mark: (mark.place, mark.offset))


def _wall_ns(rows: Sequence[Event]) -> int:
    """How far the wall clock is ahead of the ledger's, by an entry that has both."""
    entry = next(iter(_kind(rows, "log", "transaction")), None)
    return int(entry.detail["timestamp_ms"]) * MS - entry.at_ns if entry else 0


def _where(row: Event) -> tuple[str | None, int | None, int | None]:
    return row.topic, row.partition, row.offset


def _waits(rows: Sequence[Event], marks: list[Mark]) -> list[Wait]:
    """The last stable offset stands at the first record of the oldest open transaction."""
    times = {(*mark.place, mark.offset): mark.at_ns for mark in marks}
    waits: list[Wait] = []
    open_ones: dict[Place, dict[int, int]] = defaultdict(dict)
    batches = [row for row in _kind(rows, "log", "batch") if "transactional" in row.detail]
    both = batches + _kind(rows, "log", "marker")
    for row in sorted(both, key=lambda row: (row.topic or "", row.partition or 0, row.offset or 0)):
        place, producer = (row.topic or "", row.partition or 0), row.producer_id or 0
        if row.kind == "batch":
            open_ones[place].setdefault(producer, row.offset or 0)
        elif (first := open_ones[place].pop(producer, None)) is not None:
            waits.append(_wait(times, place, first, row.offset))
    for place, theirs in open_ones.items():
        waits += [_wait(times, place, first, None) for first in theirs.values()]
    return [wait for wait in waits if wait.from_ns]


def _wait(
    times: dict[tuple[str, int, int], int], place: Place, first: int, marker: int | None
) -> Wait:
    end = None if marker is None else times.get((*place, marker))
    return Wait(place, first, times.get((*place, first), 0), end)


def _stops(rows: Sequence[Event]) -> dict[Place, tuple[int, int]]:
    """Where a read_committed reader stops, and where the log ends, when the run is over."""
    stops = {
        (row.topic or "", row.partition or 0): (int(row.detail["last_stable"]), row.offset or 0)
        for row in _kind(rows, "log", "end")
        if "last_stable" in row.detail
    }
    return dict(sorted(stops.items(), key=lambda stop: _orders_first(stop[0])))


def _orders_first(place: Place) -> tuple[bool, str, int]:
    topic, partition = place
    return not topic.endswith("-orders"), topic, partition
