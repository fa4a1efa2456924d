"""The transaction timeline: programs, coordinator and partitions, and who may read what.

    producer ── its transactions, from begin to the end that it was told
    coordinator ── the entries of its log
    partition ── records and markers, and how long readers of read_committed had to wait

`scene` decides what is in the picture, `transaction_timeline` draws it. A function of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from math import inf
from typing import Final

from plotly.graph_objects import Scatter

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History, released_ns, topic_partition
from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import (
    MS,
    Drawn,
    ElasticTime,
    Picture,
    arrows,
    axis,
    beside,
    elastic_time,
    figure,
    in_legend,
    line,
    ms_text,
    note,
    points,
)
from lab_utils.views.replica_history import UNREADABLE_MS
from lab_utils.views.tables import Table
from lab_utils.views.words import counted, in_picture, listed

LANE_PX: Final = 74
LEGEND_PX: Final = 20
EVENTS_LIMIT: Final = 120
STEP: Final = MS // 10  # what follows from something is drawn so much later, at the least
TICK_COLUMNS: Final = 14  # so many times are written below the axis, at most
FENCED: Final = "_FENCED"
TOLD: Final = {"txn_committed": "committed", "txn_aborted": "aborted"}

# By what it is: a record and who may read it, a marker, or what a program was told.
MARKS: Final = {
    "all": Style("record that every reader is given", palette.BLUE, symbol="square"),
    "some": Style("record for read_uncommitted only", palette.ORANGE, symbol="circle-open"),
    "COMMIT": Style("COMMIT marker", palette.GREEN, symbol="diamond"),
    "ABORT": Style("ABORT marker", palette.VERMILLION, symbol="diamond-open"),
    "txn_committed": Style("told: committed", palette.GREEN, symbol="triangle-right"),
    "txn_aborted": Style("told: aborted", palette.VERMILLION, symbol="triangle-left-open"),
    "txn_failed": Style("told: an error", palette.PURPLE, symbol="x"),
}
BAR: Final = Style("transaction, as its program sees it", palette.SKY, width=7)
OPEN: Final = Style("transaction whose end was not told", palette.SKY, dash="dot", width=7)
WAITS: Final = Style("read_committed readers wait", palette.ORANGE, dash="dot", width=3)
LATE: Final = Style("EndTxn that was late", palette.VERMILLION, dash="6px,3px", width=2.4)
ASKS: Final = Style("request to the coordinator", palette.BLUE, width=1.4)

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Span:
    """A transaction as its program saw it; `end` is None if it was never told one."""

    actor: str
    number: str
    begin: Event
    end: Event | None
    failures: tuple[Event, ...]
    orders: frozenset[tuple[str | None, str | None]]  # which were sent in it, and to which topic

    @property
    def told(self) -> str:
        """What the program was told of its end."""
        errors = [row.error or "" for row in self.failures]
        return TOLD[self.end.kind] if self.end else listed(errors) if errors else "nothing"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something in a partition, of a kind in MARKS: a record and who may read it, or a marker."""

    place: Place
    offset: int
    at_ns: int
    text: str
    kind: str

    @property
    def is_marker(self) -> bool:
        """Is it the end of a transaction, and no record?"""
        return self.kind in ("COMMIT", "ABORT")


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
        return f"{topic.removeprefix(self.run + '-')}-{partition}"


def scene(rows: Sequence[Event]) -> Scene:
    """Set the scene of one run."""
    history = History(rows)
    entries, written_ns = _in_sequence(history)
    marks, spans = _marks(history, written_ns)[:EVENTS_LIMIT], _spans(history)
    asks, entries = _asks(history)[:EVENTS_LIMIT], entries[:EVENTS_LIMIT]
    told = [row for it in spans for row in (it.begin, it.end, *it.failures) if row]
    instants = [row.at_ns for row in (*asks, *entries, *told)]
    instants += [released_ns(row) for row in asks] + [mark.at_ns for mark in marks]
    stops = {
        topic_partition(row): (int(row.detail["last_stable"]), row.offset or 0)
        for row in history.of("log", "end")
        if "last_stable" in row.detail
    }
    return Scene(
        run=rows[0].run if rows else "",
        time=elastic_time(instants),
        producers=sorted({span.actor for span in spans} | {row.actor for row in asks}),
        places=sorted({mark.place for mark in marks}, key=orders_first),
        spans=spans,
        asks=asks,
        entries=entries,
        marks=marks,
        waits=_waits(history, marks),
        stops={place: stops[place] for place in sorted(stops, key=orders_first)},
        torn=list(_torn(spans, marks)),
    )


def orders_first(place: Place) -> tuple[bool, str, int]:
    """The places of a run in sequence: the topic of orders, then the others."""
    topic, partition = place
    return not topic.endswith("-orders"), topic, partition


def _torn(
    spans: list[Span], marks: list[Mark]
) -> Iterator[tuple[Span, list[str], list[str]]]:  # fmt: skip
    """Transactions of which some orders can be read and some cannot, and which ones."""
    for span in spans:
        theirs = [mark for mark in marks if (mark.place[0], mark.text) in span.orders]
        seen, unseen = (
            sorted({mark.text for mark in theirs if mark.kind == kind}) for kind in ("all", "some")
        )
        if seen and unseen and not set(seen) & set(unseen):
            yield span, seen, unseen


def _asks(history: History) -> list[Event]:
    """Requests that begin or end something; a name that was not given yet is not drawn."""
    refused = {
        (row.correlation_id, row.detail.get("connection"))
        for row in history.of("wire", "response")
        if row.api == "InitProducerId" and row.error
    }
    return [
        row
        for row in history.of("wire", "request")
        if row.api in ("InitProducerId", "EndTxn")
        and (row.correlation_id, row.detail.get("connection")) not in refused
    ]


def _spans(history: History) -> list[Span]:
    by_number: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for row in history.of("client", "txn_began", "txn_failed", "sent", *TOLD):
        if "transaction" in row.detail:
            by_number[row.actor, row.detail["transaction"]].append(row)
    return [
        Span(
            *key,
            begin=some[0],
            end=next((row for row in some if row.kind in TOLD), None),
            failures=tuple(row for row in some if row.kind == "txn_failed"),
            orders=frozenset((row.topic, row.value) for row in some if row.kind == "sent"),
        )
        for key, some in by_number.items()
        if some[0].kind == "txn_began"
    ]


Record = tuple[Place, int | None]


def _in_sequence(history: History) -> tuple[list[Event], dict[Record, int]]:
    """The coordinator's entries and the moments of the markers, each after what caused it.

    The brokers' clocks count whole milliseconds, and the coordinator dates its last entry when it
    begins to have the markers written. The sequence is certain: request, Prepare, markers,
    Complete.
    """
    entries: dict[int | None, list[Event]] = defaultdict(list)
    asked: dict[int | None, list[int]] = defaultdict(list)
    written: dict[int | None, dict[Record, int]] = defaultdict(dict)
    wall = _ahead(history)
    for row in history.of("log", "transaction"):
        entries[row.producer_id].append(row)
    for row in history.of("wire", "request"):
        if row.api == "EndTxn":
            asked[row.producer_id].append(released_ns(row))
    for row in history.of("log", "marker"):
        at_ns = int(row.detail["timestamp_ms"]) * MS - wall + MS // 2
        written[row.producer_id][topic_partition(row), row.offset] = at_ns
    found: list[Event] = []
    moments = {record: at for those in written.values() for record, at in those.items()}
    for name, those in entries.items():
        those.sort(key=lambda row: row.offset or 0)
        found += _of_one_id(those, asked[name], written[name], moments)
    return sorted(found, key=lambda row: row.at_ns), moments


def _of_one_id(
    entries: list[Event], asked: list[int], written: dict[Record, int], moments: dict[Record, int]
) -> Iterator[Event]:
    """The entries of one producer id, in sequence; its markers are moved, too."""
    at, prepared = 0, 0
    for entry, following in zip_longest(entries, entries[1:]):
        causes = [entry.at_ns]
        if entry.detail["state"].startswith("Prepare"):
            prepared = entry.at_ns
            causes += [it + STEP for it in asked if at < it <= entry.at_ns + MS]
        if entry.detail["state"].startswith("Complete"):
            until = following.at_ns + MS if following else inf
            for record in (it for it, at_ns in written.items() if prepared <= at_ns <= until):
                moments[record] = max(moments[record], at + STEP)
                causes.append(moments[record] + STEP)
        at = max(at + STEP, *causes)
        yield replace(entry, at_ns=at)


def _ahead(history: History) -> int:
    """How far the wall clock is ahead of the ledger's, by an entry that has both."""
    entry = next(iter(history.of("log", "transaction")), None)
    return int(entry.detail["timestamp_ms"]) * MS - entry.at_ns if entry else 0


def _marks(history: History, written_ns: dict[Record, int]) -> list[Mark]:
    """Records when they were acked or answered, markers when they were written."""
    # The proxy heard of it before the client did, so the proxy's time is kept.
    heard = history.of("client", "acked")
    heard += [row for row in history.of("wire", "response") if row.api == "Produce"]
    at_ns = {(topic_partition(row), row.offset): row.at_ns for row in heard}
    visible = {(topic_partition(row), row.offset) for row in history.of("log", "visible")}
    wall = _ahead(history)
    marks = []
    for row in history.of("log", "record", "marker"):
        place = (topic_partition(row), row.offset)
        if row.kind == "marker":
            at, text, kind = written_ns[place], row.detail["type"], row.detail["type"]
        else:
            kind = "all" if place in visible else "some"
            stamped_ns = int(row.detail["timestamp_ms"]) * MS - wall
            at, text = at_ns.get(place, stamped_ns), row.value or ""
        marks.append(Mark(topic_partition(row), row.offset or 0, at, text, kind))
    return sorted(marks, key=lambda mark: (mark.place, mark.offset))


def _waits(history: History, marks: list[Mark]) -> list[Wait]:
    """The last stable offset stands at the first record of the oldest open transaction."""
    times = {(mark.place, mark.offset): mark.at_ns for mark in marks}
    waits: list[Wait] = []
    still_open: dict[tuple[Place, int], int] = {}
    rows = [row for row in history.of("log", "batch") if "transactional" in row.detail]
    rows += history.of("log", "marker")
    for row in sorted(rows, key=lambda row: (topic_partition(row), row.offset or 0)):
        key = (topic_partition(row), row.producer_id or 0)
        if row.kind == "batch":
            still_open.setdefault(key, row.offset or 0)
        elif (first := still_open.pop(key, None)) is not None:
            end = times.get((key[0], row.offset or 0))
            waits.append(Wait(key[0], first, times.get((key[0], first), 0), end))
    for (place, _), first in still_open.items():
        waits.append(Wait(place, first, times.get((place, first), 0), None))
    return [wait for wait in waits if wait.from_ns]


def transaction_timeline(rows: Sequence[Event]) -> Picture:
    """The transactions of a run, drawn."""
    of = scene(rows)
    names: list[object] = [*of.producers, "coordinator", *of.places]
    # The coordinator's states stand below its lane, and need some room.
    lanes = {
        name: len(names) - number + (0.0 if name in of.places else 0.35)
        for number, name in enumerate(names)
    }
    traces = [*_asked(of, lanes), *_marked(of, lanes), *_named_lines(of)]
    top, end = max(lanes.values()), max(of.time.width, 1) + 0.8
    drawn = figure(
        traces, plot_px=(top - 0.2) * LANE_PX,
        margins=(104, 92, 66, 84 + LEGEND_PX * (len(traces) // 2)),
        xaxis=of.time.axis(-0.8, end, max(of.time.width / TICK_COLUMNS, 1)),
        yaxis=axis(0.6, top + 0.4, visible=False),
        shapes=_lines(of, lanes), notes=_texts(of, lanes),
    )  # fmt: skip
    return Picture(title(of), drawn, _summary(of), _table(of))


def title(of: Scene) -> str:
    """What became of the transactions of a run, in one sentence without a full stop."""
    if not of.spans:
        return "No transaction was begun"
    stuck = [of.name_of(place) for place, (stop, end) in of.stops.items() if stop < end]
    if stuck:
        is_over = all(span.told in TOLD.values() for span in of.spans)
        what = "A transaction without its marker" if is_over else "An open transaction"
        return f"{what} holds back the readers of {listed(stuck)}"
    if of.torn:
        span, seen, unseen = of.torn[0]
        given, kept_back = (f"order{'s' * (len(it) > 1)} {listed(it)}" for it in (seen, unseen))
        return f"{_told([span]).removesuffix('.')}: {given} can be read, {kept_back} cannot"
    fenced = sorted({it.actor for it in of.spans for row in it.failures if row.error == FENCED})
    if fenced:
        they_are = "were told that they are" if len(fenced) > 1 else "was told that it is"
        return f"{listed(fenced)} {they_are} fenced"
    if waited := max(_waited(of), default=None):
        return f"{waited[1]}; readers of {waited[2]} waited {ms_text(waited[0] / MS)} ms more"
    hidden = sum(mark.kind == "some" for mark in of.marks)
    kept = sum(mark.kind == "all" for mark in of.marks)
    others = f", {hidden} for read_uncommitted only" if hidden else ""
    return f"{counted(kept, 'record')} for every reader{others}"


def _waited(of: Scene) -> Iterator[tuple[int, str, str]]:
    """Commits that a program knew of long before readers were given the records, and where."""
    texts = {(mark.place, mark.offset): mark.text for mark in of.marks}
    for span in (it for it in of.spans if it.end and it.told == TOLD["txn_committed"]):
        for wait in of.waits:
            order = (wait.place[0], texts.get((wait.place, wait.offset)))
            more_ns = (wait.to_ns or 0) - (span.end.at_ns if span.end else 0)
            if order in span.orders and more_ns >= UNREADABLE_MS * MS:
                yield more_ns, _told([span]).removesuffix("."), of.name_of(wait.place)


def _summary(of: Scene) -> str:
    """The picture in sentences, for a reader who cannot see it."""
    alike: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for span in of.spans:
        alike[span.actor, span.told].append(span)
    stops = {of.name_of(place): stop for place, stop in of.stops.items() if place in of.places}
    early = [
        f"In {name} a read_committed reader stops at offset {stop} of {end}."
        for name, (stop, end) in stops.items()
        if stop < end
    ]
    others = ["A read_committed reader reads each partition to its end."] if stops else []
    return (
        " ".join([*map(_told, alike.values()), *(early or others)]) or "There is nothing to draw."
    )


def _told(spans: Sequence[Span]) -> str:
    """What a program was told of transactions that ended alike."""
    first, many = spans[0], len(spans) > 1
    them = f"transaction{'s' * many} {listed([span.number for span in spans])}"
    if first.end:
        return f"{first.actor} was told that {them} {'were' if many else 'was'} {first.told}."
    if first.failures:
        return f"{first.actor} was told of {first.told} in {them}."
    return f"{first.actor} was never told how {them} ended."


def _table(of: Scene) -> Table:
    """Each record and marker, and who is given it."""
    words = {"all": "every reader", "some": "read_uncommitted"}
    rows = [
        (of.name_of(it.place), it.offset, it.text, words.get(it.kind, "nobody"))
        for it in sorted(of.marks, key=lambda it: (of.places.index(it.place), it.offset))
    ]
    return Table(("partition", "offset", "record or marker", "is given to"), rows)


def _asked(of: Scene, lanes: dict[object, float]) -> Iterable[Scatter]:
    """The requests that decide something, from their client to the coordinator."""
    for style, is_late in ((ASKS, False), (LATE, True)):
        ways = []
        for row in of.asks:
            if (row.fate == "held") == is_late:
                start, end = of.time.column(row.at_ns), of.time.column(released_ns(row))
                down = (max(end, start + 0.3), lanes["coordinator"])
                ways.append([(start, lanes[row.actor]), down])
        if ways:
            yield arrows(style, ways, [9] * len(ways))


def _marked(of: Scene, lanes: dict[object, float]) -> Iterable[Scatter]:
    """What programs were told, and what is in the partitions."""
    ends = [row for span in of.spans for row in (span.end, *span.failures) if row]
    found = [
        (row.kind, row.at_ns, lanes[row.actor], row.error or "",
         in_picture(row.detail.get("text", MARKS[row.kind].name), 120))
        for row in ends
    ]  # fmt: skip
    found += [
        (it.kind, it.at_ns, lanes[it.place], "" if it.is_marker else text, _hover(it, of))
        for it, text in _labelled(of.marks)
    ]
    for kind, style in MARKS.items():
        if some := [each[1:] for each in found if each[0] == kind]:
            moments, ys, texts, about = (list(column) for column in zip(*some, strict=True))
            yield points(
                style, [of.time.column(at_ns) for at_ns in moments], ys, about,
                texts=[in_picture(text, 8 if kind in ("all", "some") else 24) for text in texts],
                textposition="top center",
            )  # fmt: skip


def _labelled(marks: Iterable[Mark]) -> Iterable[tuple[Mark, str]]:
    """Each mark and its label: of those in one spot, the first has the label of all."""
    for _, in_one_spot in groupby(marks, key=lambda it: (it.place, it.kind, it.at_ns)):
        first, *more = in_one_spot
        yield first, f"{first.text} to {more[-1].text}" if more else first.text
        yield from ((it, "") for it in more)


def _hover(mark: Mark, of: Scene) -> str:
    what = f"{mark.kind} marker" if mark.is_marker else f"order {mark.text}"
    where = (
        f"offset {mark.offset} of {of.name_of(mark.place)}, {ms_text(of.time.ms(mark.at_ns))} ms"
    )
    return in_picture(f"{what}, {where}: {MARKS[mark.kind].name}", 160)


def _named_lines(of: Scene) -> Iterable[Scatter]:
    """Entries of the legend for what is drawn as shapes."""
    ended = [span.end is not None for span in of.spans]
    drawn = {BAR: any(ended), OPEN: not all(ended), WAITS: bool(of.waits)}
    return (in_legend(style) for style, is_there in drawn.items() if is_there)


def _lines(of: Scene, lanes: dict[object, float]) -> Iterable[Drawn]:
    """Lanes; a bar for each transaction; a line where readers of read_committed wait."""
    last = of.time.width + 0.8
    for height in lanes.values():
        yield line((-0.8, last), (height, height))
    for span in of.spans:
        start, at = of.time.column(span.begin.at_ns), lanes[span.actor]
        end = of.time.column(span.end.at_ns) if span.end else last
        style = BAR if span.end else OPEN
        yield line((start, end), (at, at), style.colour, style.width, style.dash)
    for wait in of.waits:
        start, at = of.time.column(wait.from_ns), lanes[wait.place] - 0.17
        end = last if wait.to_ns is None else of.time.column(wait.to_ns)
        yield line((start, end), (at, at), WAITS.colour, WAITS.width, WAITS.dash)


def _texts(of: Scene, lanes: dict[object, float]) -> Iterable[Drawn]:
    """The names of lanes, transactions, requests and states, and where readers stop."""
    names: dict[object, str] = {place: of.name_of(place) for place in of.places}
    for name, height in lanes.items():
        yield beside(height, in_picture(names.get(name, name), 15))
    for place, (stop, end) in of.stops.items():
        if place in lanes:
            yield note(1, lanes[place], f"LSO {stop} of {end}", xref="paper", xanchor="left",
                       xshift=8)  # fmt: skip
    for span in of.spans:
        yield note(of.time.column(span.begin.at_ns), lanes[span.actor],
                   f"transaction {span.number}", size=11, yshift=9, xanchor="left",
                   yanchor="bottom")  # fmt: skip
    for row in of.asks:
        ends = {"True": "commit", "False": "abort"}.get(row.detail.get("committed", ""), row.api)
        late = row.fate == "held"
        how = {"held": ", late", "replayed": ", a copy"}.get(row.fate or "", "")
        # A late one begins among the labels of others, and so stands below them.
        yield note(of.time.column(row.at_ns), lanes[row.actor], f"{ends}{how}",
                   size=11, colour=palette.GREY, yanchor="top", yshift=-20 if late else -6,
                   bgcolor=palette.WHITE,  # the line of a late one may pass behind it
                   xanchor="right" if late else "left", xshift=-4 if late else 4)  # fmt: skip
    # The coordinator's states are on three heights by turns, so that they do not meet.
    for number, row in enumerate(of.entries):
        state = row.detail["state"]
        epoch = f", epoch {row.producer_epoch}" if state == "Empty" else ""
        yield note(of.time.column(row.at_ns), lanes["coordinator"], state + epoch, size=11,
                   xanchor="center", yanchor="top", yshift=-9 - 13 * (number % 3))  # fmt: skip
