r"""The timeline: what crossed the wire, drawn as arrows between client, proxy and broker.

    y = +1   client     o─\                 /─▶
    y =  0   proxy         ●─\      /─x    ●        the proxy's moment is measured;
    y = -1   broker           ▶    /      /         the slope beside it is drawn

`scene` decides what is in the picture and where, `timeline` draws it. A function of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Final

from plotly.graph_objects import Scatter

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import Exchange, carried, exchanges, released_ns
from lab_utils.views import palette
from lab_utils.views.palette import AGAIN, Style
from lab_utils.views.picture import (
    LETTER_PX,
    LINE_PX,
    MS,
    TURNED,
    Drawn,
    ElasticTime,
    Label,
    Picture,
    are_turned,
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
    stacked,
    thinned,
)
from lab_utils.views.tables import Table
from lab_utils.views.words import counted, headline, in_picture, listed, shown

# What crosses the wire, by what became of it; the first is drawn below the others.
WIRE: Final = {
    "held": Style("held by the proxy", palette.SKY, symbol="square", width=5),
    "request": Style("request", palette.BLUE),
    "answer": Style("answer", palette.GREEN, dash="6px,3px"),
    "error": Style("answer with an error", palette.ORANGE, "10px,3px,2px,3px", "triangle-up"),
    "lost": Style("dropped by the proxy", palette.VERMILLION, symbol="x", width=2.6),
    "undelivered": Style("came when the client had gone", palette.GREY, "2px,3px", "x"),
    "replayed": Style("sent again by the proxy", palette.PURPLE, "6px,2px", "triangle-down", 2.6),
    "corrupted": Style("corrupted", palette.PURPLE, "2px,3px", "star-triangle-up", 2.6),
    "replaced": Style("answered by the proxy", palette.PURPLE, "10px,4px", "diamond", 2.6),
}
USUAL: Final = ("forwarded", "held", None)
ENDS_AT_PROXY: Final = {"dropped": "lost", "undelivered": "undelivered"}
BROKER_KINDS: Final = ("killed", "stopped", "paused", "resumed", "died", "started")
PAUSE: Final = Style("a pause", palette.PALE, symbol="square")

EXCHANGES_LIMIT: Final = 60
BEFORE_ODD: Final = 15
REPORTS_LIMIT: Final = 3
CLIENTS_LIMIT: Final = 4  # so many have a lane of their own
HOVER_LINES: Final = 6
AFTER_NS: Final = 2_000 * MS  # what comes this soon after the last frame is in the picture

# Half the columns that a frame takes from client to broker: less than half a column, so that
# what arrived before is drawn before.
SLOPE: Final = 0.42
LANE_GAP: Final = 0.5
PROXY: Final = 0.0

# What a notebook of 900 pixels leaves for the lanes.
WIDTH_PX: Final = 770
LANE_PX: Final = 95
ROW_PX: Final = 20  # of the names above the lanes, and of the legend
AXIS_PX: Final = 64  # what the axis takes above the legend
CROWDED_PX: Final = 12  # where columns are narrower, symbols are smaller
TICK_PX: Final = 60


@dataclass(frozen=True, slots=True)
class Path:
    """One line: its style in WIRE, its corners, and the number of the measured one."""

    style: str
    points: tuple[tuple[float, float], ...]
    measured: int
    event: Event


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment, to be marked across all lanes."""

    at_ns: int
    text: str


@dataclass(frozen=True)
class Scene:
    """What is in the picture. `of` is how many exchanges the run has.

    clients, brokers   the height at which each is drawn
    """

    found: list[Exchange]
    of: int
    first: int
    time: ElasticTime
    clients: dict[str, float]
    brokers: dict[str, float]
    marks: list[Mark]
    reports: list[Event]
    with_api: bool

    @property
    def column_px(self) -> float:
        """How wide a column is."""
        return WIDTH_PX / (self.time.width + 2)

    @property
    def top(self) -> float:
        """The height of the topmost lane."""
        return max(self.clients.values(), default=1.0)

    @property
    def bottom(self) -> float:
        """The height of the lowest lane."""
        return min(self.brokers.values(), default=-1.0)

    def exchange_of(self, row: Event) -> Exchange:
        """The exchange that a frame is part of."""
        return next(it for it in self.found if row in it.requests or row in it.responses)

    @cached_property
    def requests(self) -> list[Label]:
        """What each request is called, where it leaves the client."""
        named = [
            self._label(row, self._sender(row), name_of(it, with_api=self.with_api), it)
            for it in self.found
            if (row := it.request)
        ]
        return thinned(named, self.column_px, turned=are_turned(named, self.column_px))

    @cached_property
    def offsets(self) -> list[Label]:
        """The offset that each answer names, where it leaves the broker."""
        named = [
            self._label(row, self.brokers[broker_of(row)], text, it)
            for it in self.found
            if (row := it.response) and (text := answer_of(it))
        ]
        return thinned(named, self.column_px, turned=False)

    def _sender(self, row: Event) -> float:
        """The height of whoever sent a request: its client, or the proxy a copy of it."""
        return PROXY if row.fate == "replayed" else self.clients[row.actor]

    def _label(self, row: Event, height: float, text: str, exchange: Exchange) -> Label:
        return Label(self.time.column(row.at_ns) - SLOPE, height, text, is_odd(exchange))

    @cached_property
    def errors(self) -> list[Label]:
        """What went wrong as the client was told, and then the program, in sequence of time."""
        told = [it for it in self.found if it.error and it.response]
        told.sort(key=lambda it: released_ns(it.responses[0]))
        labels = [
            Label(self.time.column(row.at_ns), PROXY, f"order {row.value} {row.kind}: {row.error}")
            for row in self.reports
        ]
        # Neighbours with the same error are one label, where the middle one arrives.
        for error, group in groupby(told, key=_error_text):
            same = list(group)
            times = f" ({len(same)} times)" if len(same) > 1 else ""
            row = same[len(same) // 2].responses[0]
            place = self.time.column(released_ns(row)) + SLOPE
            labels.append(Label(place, self.clients[row.actor], error + times, True))
        return sorted(labels, key=lambda label: label.column)

    def summary(self) -> str:
        """The picture in sentences, for a reader who cannot see it."""
        if not self.found:
            return "There is nothing to draw."
        names = sorted({it.first.api or "unread" for it in self.found})
        kind = f"{names[0]} request" if len(names) == 1 else "request"
        ends = [released_ns(row) for it in self.found for row in _frames(it)]
        lasted = ms_text((max(ends) - self.time.instants[0]) / MS)
        told = [f"{counted(self.of, kind)} crossed the wire in {lasted} ms."]
        if self.of > len(self.found):
            last = self.first + len(self.found)
            told = [f"Of {counted(self.of, kind)}, {self.first + 1} to {last} are shown."]
        told += [f"{what}." for what in self._what_happened()]
        return " ".join(told)

    def _what_happened(self) -> Iterable[str]:
        frames = [row for it in self.found for row in _frames(it)]
        for kind in ("request", "response"):
            for fate in ("dropped", "corrupted"):
                if number := sum((row.kind, row.fate) == (kind, fate) for row in frames):
                    yield f"The proxy {fate} {counted(number, kind)}"
        if number := sum(row.fate == "undelivered" for row in frames):
            yield f"{counted(number, 'answer')} came when the client had gone"
        if number := sum(row.fate == "replaced" for row in frames):
            yield f"The proxy wrote {counted(number, 'answer')} itself"
        if number := sum(row.fate == "replayed" for row in frames):
            yield f"The proxy sent {counted(number, 'copy', 'copies')} itself"
        if number := sum(not it.responses for it in self.found):
            yield f"{counted(number, 'request')} got no answer in this time"
        if number := sum(it.is_repeat for it in self.found):
            yield f"{counted(number, 'request')} came again ({AGAIN})"
        yield "Each arrow passes the proxy at the measured moment; its slope is drawn, not measured"


def scene(rows: Sequence[Event], apis: Sequence[str] | None = ("Produce",)) -> Scene:
    """Set the scene; a long run is shown around the first exchange that went wrong."""
    everything = exchanges(rows, apis)
    odd = next((number for number, it in enumerate(everything) if is_odd(it)), 0)
    first = max(0, min(odd - BEFORE_ODD, len(everything) - EXCHANGES_LIMIT))
    found = everything[first : first + EXCHANGES_LIMIT]
    reports = [row for row in rows if row.source == "client" and row.kind in ("failed", "unknown")]
    reports, events = reports[:REPORTS_LIMIT], _marks(rows, found)
    time = _time_of(found, [it.at_ns for it in reports] + [it.at_ns for it in events])
    clients = list(dict.fromkeys(it.first.actor for it in found))
    brokers = sorted({broker_of(it.first) for it in found})
    step = LANE_GAP if len(clients) <= CLIENTS_LIMIT else 0.0
    lanes = {name: 1 + step * place for place, name in enumerate(reversed(clients))}
    of = Scene(
        found, len(everything), first, time, lanes,
        {name: -1 - LANE_GAP * place for place, name in enumerate(brokers)},
        [mark for mark in events if mark.at_ns in time.instants],
        [row for row in reports if row.at_ns in time.instants],
        with_api=apis is None or tuple(apis) != ("Produce",),
    )  # fmt: skip
    wider = max(1.0, _label_px(of) / (LANE_GAP * LANE_PX))  # a turned name ends below the next lane
    return replace(of, clients={name: 1 + (at - 1) * wider for name, at in lanes.items()})


def _time_of(found: Sequence[Exchange], others: Sequence[int]) -> ElasticTime:
    """The time axis of these exchanges, with room for other moments among them, in nanoseconds."""
    moments = [ns for it in found for row in _frames(it) for ns in (row.at_ns, released_ns(row))]
    if not moments:
        return elastic_time([])
    start, end = min(moments), max(moments) + AFTER_NS
    return elastic_time([*moments, *(at_ns for at_ns in others if start <= at_ns <= end)])


def paths(of: Scene) -> list[Path]:
    """All lines of the picture."""
    return [path for it in of.found for path in (*_request_paths(it, of), *_response_paths(it, of))]


def _request_paths(exchange: Exchange, of: Scene) -> list[Path]:
    row = exchange.request
    if row is None:
        return []
    comes, goes = of.time.column(row.at_ns), of.time.column(released_ns(row))
    client = (comes - SLOPE, of.clients[row.actor])
    if row.fate == "dropped":
        return [Path("lost", (client, (comes, PROXY)), 1, row)]
    if row.fate == "replayed":
        copy = ((comes, PROXY), (comes + SLOPE, of.brokers[broker_of(row)]))
        return [Path("replayed", copy, 0, row)]
    style = "corrupted" if row.fate == "corrupted" else "request"
    return _through(style, row, client, (comes, goes), (goes + SLOPE, of.brokers[broker_of(row)]))


def _response_paths(exchange: Exchange, of: Scene) -> list[Path]:
    row, request = exchange.response, exchange.request
    if row is None:
        return []
    comes, goes = of.time.column(row.at_ns), of.time.column(released_ns(row))
    broker = (comes - SLOPE, of.brokers[broker_of(row)])
    client = (goes + SLOPE, of.clients[row.actor])
    if style := ENDS_AT_PROXY.get(row.fate or ""):
        end = ((goes, PROXY),) if goes > comes else ()
        return [Path(style, (broker, (comes, PROXY), *end), 1, row), *_wait(row, comes, goes)]
    if row.fate == "replaced":
        was_asked = request is not None and request.fate != "dropped"
        asked = [Path("answer", (broker, (comes, PROXY)), 1, row)] if was_asked else []
        return [*asked, Path("replaced", ((goes, PROXY), client), 0, row), *_wait(row, comes, goes)]
    return _through("error" if row.error else "answer", row, broker, (comes, goes), client)


def _through(
    style: str, row: Event, start: tuple[float, float], proxy: tuple[float, float],
    end: tuple[float, float],
) -> list[Path]:  # fmt: skip
    """A frame on its way through the proxy: in one line, or in two with a wait between."""
    comes, goes = (proxy[0], PROXY), (proxy[1], PROXY)
    if comes == goes:
        return [Path(style, (start, comes, end), 1, row)]
    first, second = Path(style, (start, comes), 1, row), Path(style, (goes, end), 0, row)
    return [first, second, *_wait(row, *proxy)]


def _wait(row: Event, comes: float, goes: float) -> list[Path]:
    """How long the proxy held a frame, if it did."""
    return [Path("held", ((comes, PROXY), (goes, PROXY)), 1, row)] if goes > comes else []


def broker_of(row: Event) -> str:
    """The number of the broker that a frame goes to or comes from."""
    return row.detail.get("broker", "1")


def _frames(exchange: Exchange) -> list[Event]:
    return [row for row in (exchange.request, exchange.response) if row]


def is_odd(exchange: Exchange) -> bool:
    """Did something happen to this exchange, or has it crossed the wire before?"""
    is_hurt = not all(row.fate in USUAL for row in _frames(exchange)) and not exchange.is_left
    return exchange.is_repeat or bool(exchange.error) or is_hurt


def _error_text(exchange: Exchange) -> str:
    """The error of an answer; that to a copy is told to nobody."""
    return f"{exchange.error} to the copy" if exchange.is_replay else exchange.error or ""


def name_of(exchange: Exchange, *, with_api: bool = False) -> str:
    """What a request is called in the picture: its orders, or its API."""
    row = exchange.first
    name = batch_text(exchange.values, sum(it.records or 0 for it in exchange.requests))
    if row.api != "Produce" or not exchange.requests:
        name = row.api or "?"
    elif with_api:
        name = f"Produce {name}"
    return f"{AGAIN}{name}" if exchange.is_repeat else name


def batch_text(values: Sequence[str], records: int) -> str:
    """The values of a batch, the first and last of many, or only their number.

    >>> batch_text(["0"], 1), batch_text(["0", "1", "2", "3"], 4), batch_text([], 500)
    ('0', '0…3', '500 records')
    """
    if not values:
        return f"{records} records"
    names = [shown(value, 16) for value in values]
    return " ".join(names) if len(names) <= 3 else f"{names[0]}…{names[-1]}"


def answer_of(exchange: Exchange) -> str:
    """What the broker answered to a Produce request: the offsets of the records, if it did."""
    records = {row.partition: row.records or 1 for row in exchange.requests}
    answers = [row for row in exchange.responses if row.api == "Produce" and row.fate != "replaced"]
    places = [(row.offset, records.get(row.partition, 1)) for row in answers]
    return " ".join(
        str(offset) if many == 1 else f"{offset}…{offset + many - 1}"
        for offset, many in places
        if offset is not None
    )


def _marks(rows: Sequence[Event], found: Sequence[Exchange]) -> list[Mark]:
    """Where faults fired, clients crashed, and brokers were killed, paused or resumed."""
    marks = []
    for row in rows:
        if (row.source, row.kind) == ("fault", "fired"):
            marks.append(_fault_mark(row, found))
        elif row.source == "broker" and row.kind in BROKER_KINDS:
            marks.append(Mark(row.at_ns, f"{row.actor} {row.kind}"))
    return sorted(marks, key=lambda mark: mark.at_ns)


def _fault_mark(row: Event, found: Sequence[Exchange]) -> Mark:
    """A fault that fired, at the frame it acted on; it may have waited before it did."""
    given = row.detail
    of_client = f'{row.actor}("{given.get("at", "")}", nth={given.get("nth", "1")})'
    text = given.get("call", of_client)
    # What it acted on: the request, or the copy it made.
    number = int(given["copy"]) if "copy" in given else row.correlation_id
    for exchange in found:
        first = exchange.first
        place = (first.correlation_id, first.detail.get("connection"))
        if place == (number, given.get("connection")):
            struck = _struck(exchange)
            return Mark(struck.at_ns if struck else row.at_ns, text)
    return Mark(row.at_ns, text)


def _struck(exchange: Exchange) -> Event | None:
    """The frame of an exchange that a fault acted on; an answer may not have come yet."""
    request = exchange.request
    return exchange.response if request is None or request.fate == "forwarded" else request


def timeline(rows: Sequence[Event], apis: Sequence[str] | None = ("Produce",)) -> Picture:
    """The requests of a run and their answers, drawn; `apis` None shows every API."""
    of = scene(rows, apis)
    title = _title(rows, apis, len(of.found))
    lines = paths(of)
    by_style = {name: [path for path in lines if path.style == name] for name in WIRE}
    columns = {of.time.column(mark.at_ns) for mark in of.marks}
    above = 57 + ROW_PX * (_rows(of.errors, of) + _rows(_mark_labels(of), of)) + _label_px(of)
    traces = [trace for name, some in by_style.items() if some for trace in _traces(name, some, of)]
    if of.time.pauses():
        traces.append(points(PAUSE, [None], [None], size=14, legendrank=1002))
    # Two long entries of the legend are a row.
    below = AXIS_PX + ROW_PX * max(2, (1 + sum(it.showlegend is not False for it in traces)) // 2)
    drawn = figure(
        traces,
        plot_px=(of.top - of.bottom) * LANE_PX,
        margins=(max(92, 26 + 8 * max(len(name) for _, name in _lanes(of))), 16, int(above), below),
        xaxis=of.time.axis(-1, max(of.time.width, 1) + 1, TICK_PX / of.column_px)
        | {"ticklabelstandoff": 12},
        yaxis=axis(of.bottom - 0.08, of.top + 0.02, visible=False),
        shapes=[
            *({"type": "rect", "x0": start + 0.5, "x1": end - 0.5, "y0": of.bottom, "y1": of.top,
               "fillcolor": palette.PALE, "line": {"width": 0}, "layer": "below"}
              for start, end, _ in of.time.pauses()),
            *(line((0, 1), (height, height), xref="x domain")
              for height in {*of.clients.values(), PROXY, *of.brokers.values()}),
            *(line((at, at), (of.bottom, of.top), palette.BLACK, 1.2, "dot") for at in columns),
        ],
        notes=[
            *_lane_names(of),
            *_labels(of.requests, "bottom", are_turned(of.requests, of.column_px)),
            *_labels(of.offsets, "top", False),
            *_stack(of.errors, palette.ORANGE, _label_px(of) + 2, of),
            *_stack(_mark_labels(of), palette.BLACK,
                    _label_px(of) + 2 + ROW_PX * _rows(of.errors, of), of),
            *(note((start + end) / 2, of.bottom, gap, size=11, colour=palette.GREY,
                   yanchor="bottom")
              for start, end, gap in of.time.pauses()
              if (end - start - 1) * of.column_px > len(gap) * LETTER_PX),
        ],
    )  # fmt: skip
    return Picture(title, drawn, of.summary(), _table(of))


def _title(rows: Sequence[Event], apis: Sequence[str] | None, requests: int) -> str:
    """The finding of the run, where the requests that are shown can have to do with it."""
    if not requests:
        return "No such request crossed the wire"
    if apis is None or "Produce" in apis:
        return headline(rows)
    return f"{listed(apis)}: {counted(requests, 'request')} crossed the wire"


def _traces(name: str, lines: Sequence[Path], of: Scene) -> list[Scatter]:
    """All lines of one style, the points that were measured, and an entry for the legend."""
    style, is_wide = WIRE[name], of.column_px > CROWDED_PX
    is_arrow = style.symbol == "arrow"
    mark = replace(style, symbol="circle") if is_arrow else style
    head_px = 10 if is_wide else 7
    measured = [path.points[path.measured] for path in lines]
    return [
        # What ends at the proxy has no head.
        arrows(style, [it.points for it in lines],
               [head_px * (it.measured < len(it.points) - 1) for it in lines], showlegend=False),
        points(mark, [x for x, _ in measured], [y for _, y in measured],
               [hover(it.event, of.exchange_of(it.event), of.time) for it in lines],
               size=11 if not is_arrow else 6 if is_wide else 4, showlegend=False),
        in_legend(style, mode="lines+markers", legendrank=1001 if name == "held" else 1000,
                  marker={"size": 9, "color": style.colour, "symbol": mark.symbol}),
    ]  # fmt: skip


def _labels(labels: Sequence[Label], anchor: str, turned: bool) -> list[Drawn]:
    return [
        note(label.column, label.height, f"<b>{text}</b>" if label.is_loud else text,
             colour=palette.VERMILLION if label.is_loud else palette.BLACK,
             xanchor="left" if turned else "center", yanchor=anchor, xshift=-6 if turned else 0,
             yshift=3 if anchor == "bottom" else -2, textangle=-60 if turned else 0)
        for label in labels if (text := in_picture(label.text)) is not None
    ]  # fmt: skip


def _lanes(of: Scene) -> list[tuple[float, str]]:
    """The height of each lane, and its name."""
    if len(of.clients) == 1:
        names = [(1.0, "client")]
    elif len(set(of.clients.values())) == 1:
        names = [(1.0, "clients")]
    else:
        names = [(height, shown(name, 12)) for name, height in of.clients.items()]
    brokers = [(height, f"broker {name}") for name, height in of.brokers.items()]
    return [*names, *brokers, (PROXY, "proxy")]


def _lane_names(of: Scene) -> list[Drawn]:
    return [
        *(beside(height, in_picture(name)) for height, name in _lanes(of)),
        *(beside(1.0, in_picture(name, 14), -15) for name in of.clients if len(of.clients) == 1),
        beside(of.top, "request" if of.with_api else "order", 14) | {"xshift": -8 - _before_px(of)},
        *([beside(of.bottom, "offset", -15)] if of.offsets else []),
    ]


def _mark_labels(of: Scene) -> list[Label]:
    """The names of the marks; those of one name in one column are one."""
    placed = dict.fromkeys((of.time.column(mark.at_ns), mark.text) for mark in of.marks)
    return [Label(column, 0, text) for column, text in placed]


def _rows(labels: Sequence[Label], of: Scene) -> int:
    """How many rows these names take above the lanes."""
    return max(stacked(labels, of.column_px), default=-1) + 1


def _stack(labels: Sequence[Label], colour: str, up: float, of: Scene) -> Iterable[Drawn]:
    """Names above the lanes that point at their columns, in as many rows as they need."""
    tip = f'<span style="color: {colour}">▼</span>'
    for label, row in zip(labels, stacked(labels, of.column_px), strict=True):
        is_right = label.column > of.time.width * 0.6
        name = in_picture(label.text, 60)
        yield note(label.column, of.top, f"{name} {tip}" if is_right else f"{tip} {name}",
                   yshift=up + ROW_PX * row, yanchor="bottom", xshift=7 if is_right else -7,
                   xanchor="right" if is_right else "left")  # fmt: skip


def _label_px(of: Scene) -> float:
    """The height of the requests' labels, which may be turned."""
    if not are_turned(of.requests, of.column_px):
        return 18
    return min(max(len(it.text) for it in of.requests), 40) * LETTER_PX * TURNED + LINE_PX


def _before_px(of: Scene) -> float:
    """How far a label on the topmost lane extends into what is beside the lanes."""
    labels = [] if are_turned(of.requests, of.column_px) else of.requests
    before = [it.half_px - (it.column + 1) * of.column_px for it in labels if it.height == of.top]
    return max([0, *before])


def hover(row: Event, exchange: Exchange, time: ElasticTime) -> str:
    """A decoded frame, line by line, for Plotly."""
    parts = exchange.requests if row.kind == "request" else exchange.responses
    more = len(parts) - HOVER_LINES
    lines = [
        f"{row.api} {row.kind}, {ms_text(time.ms(row.at_ns))} ms",
        f"{row.actor} {'to' if row.kind == 'request' else 'from'} broker {broker_of(row)}",
        *(each for part in parts[:HOVER_LINES] for each in _part_lines(part)),
        f"and {more} partitions more" if more > 0 else "",
        f"connection {row.detail.get('connection', '?')}, correlation id {row.correlation_id}",
        fate_text(row),
    ]
    return "<br>".join(in_picture(each, 90) for each in lines if each)


def _part_lines(row: Event) -> list[str]:
    """What a frame says about one partition."""
    lines = [f"{row.topic or ''}-{row.partition}" if row.partition is not None else row.topic or ""]
    if row.kind == "request" and row.api == "Produce":
        what = batch_text(carried(row), row.records or 0)
        lines.append(f"order {what}" if row.records == 1 else f"orders {what} ({row.records})")
        key = (row.producer_id, row.producer_epoch, row.sequence)
        lines.append("producer id {}, epoch {}, sequence {}".format(*key))
    if row.kind == "response":
        offset = "" if row.offset is None else f", offset {row.offset}"
        lines.append(f"error {row.error}" if row.error else f"no error{offset}")
    return lines


def fate_text(row: Event) -> str:
    """What the proxy did with a frame, in words."""
    held_ms = (released_ns(row) - row.at_ns) / MS
    wait = f"held for {ms_text(held_ms)} ms" if held_ms > 0 else ""
    fate = "" if row.fate in USUAL else WIRE[ENDS_AT_PROXY.get(row.fate, row.fate)].name
    return ", ".join(filter(None, (fate, wait)))


def _table(of: Scene) -> Table:
    """The exchanges as a table, one row each; those that went wrong or came again are marked."""
    columns = (
        "ms", "client", "connection", "request", "partition", "producer id, epoch, sequence",
        "done to the request", "answer", "done to the answer",
    )  # fmt: skip
    odd = {at for at, exchange in enumerate(of.found) if is_odd(exchange)}
    rows = [_table_row(exchange, of.time) for exchange in of.found]
    return Table(columns, rows, "Requests and their answers, oldest first.", frozenset(odd))


def _table_row(exchange: Exchange, time: ElasticTime) -> tuple[object, ...]:
    row, request, response = exchange.first, exchange.request, exchange.response
    keys = [(it.producer_id, it.producer_epoch, it.sequence) for it in exchange.requests]
    has_key = row.api == "Produce" and request is not None
    offsets = answer_of(exchange)
    said = exchange.error or (f"offset {offsets}" if offsets else "no error")
    return (
        ms_text(time.ms(row.at_ns)),
        row.actor,
        row.detail.get("connection"),
        name_of(exchange, with_api=True),
        ", ".join(str(it.partition) for it in exchange.requests if it.partition is not None),
        "; ".join("{}, {}, {}".format(*key) for key in keys) if has_key else "",
        fate_text(request) if request else "",
        said if response else "none",
        fate_text(response) if response else "",
    )
