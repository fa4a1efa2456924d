"""The transaction timeline: programs, coordinator and partitions, and who may read what.

The scene says what is where (transaction_scene.py); this draws it. A function of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette
from lab_utils.views.elastic_time import ms_text
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture
from lab_utils.views.table import Table
from lab_utils.views.transaction_scene import Mark, Scene, Span, arrived_ns, scene
from lab_utils.views.wording import counted, in_picture, listed, title_lines

LANE_PX: Final = 74
ABOVE_PX: Final = 66
BELOW_PX: Final = 84
ROW_PX: Final = 20
FENCED: Final = "_FENCED"
STATES_ROOM: Final = 0.35
TICK_COLUMNS: Final = 14  # so many times are written below the axis, at most

MARKS: Final = {
    "all": Style("record that every reader is given", palette.BLUE, symbol="square"),
    "some": Style("record for read_uncommitted only", palette.ORANGE, symbol="circle-open"),
    "COMMIT": Style("COMMIT marker", palette.GREEN, symbol="diamond"),
    "ABORT": Style("ABORT marker", palette.VERMILLION, symbol="diamond-open"),
}
TOLD: Final = {
    "txn_committed": Style("told: committed", palette.GREEN, symbol="triangle-right"),
    "txn_aborted": Style("told: aborted", palette.VERMILLION, symbol="triangle-left-open"),
    "txn_failed": Style("told: an error", palette.PURPLE, symbol="x"),
}
BAR: Final = Style("transaction, as its program sees it", palette.SKY, width=7)
WAITS: Final = Style("read_committed readers wait", palette.ORANGE, dash="dot", width=3)
LATE: Final = Style("EndTxn that was late", palette.VERMILLION, dash="6px,3px", width=2.4)
ASKS: Final = Style("request to the coordinator", palette.BLUE, width=1.4)

Drawn = dict[str, Any]


def transaction_timeline(rows: Sequence[Event]) -> Picture:
    """The transactions of a run, drawn."""
    shown = scene(rows)
    title = headline(shown)
    return Picture(title, draw(shown, title), summary(shown), table(shown))


def headline(shown: Scene) -> str:
    """The picture in one sentence."""
    if not shown.spans:
        return "No transaction was begun"
    stuck = [shown.name_of(place) for place, (stop, end) in shown.stops.items() if stop < end]
    if stuck:
        is_over = all(_told_of(span) in ("committed", "aborted") for span in shown.spans)
        what = "A transaction without its marker" if is_over else "An open transaction"
        return f"{what} holds back the readers of {listed(stuck)}"
    if shown.torn:
        span, seen, unseen = shown.torn[0]
        told = f"was told {_told_of(span)}"
        return (
            f"Transaction {span.number} of {span.actor} {told}: "
            f"order {listed(seen)} can be read, order {listed(unseen)} cannot"
        )
    fenced = sorted({it.actor for it in shown.spans for row in it.failures if row.error == FENCED})
    if fenced:
        return f"{listed(fenced)} was told that it is fenced"
    hidden = sum(mark.kind == "some" for mark in shown.marks)
    kept = sum(mark.kind == "all" for mark in shown.marks)
    return f"{counted(kept, 'record')} for every reader, {hidden} for read_uncommitted only"


def summary(shown: Scene) -> str:
    """The picture in sentences, for whoever cannot see it."""
    told = [_sentence(span) for span in shown.spans]
    stops = [
        f"In {shown.name_of(place)} a read_committed reader stops at offset {stop} of {end}."
        for place, (stop, end) in shown.stops.items()
        if place in shown.places
    ]
    return " ".join([*told, *stops]) or "There is nothing to draw."


def table(shown: Scene) -> Table:
    """Each record and marker, and who is given it."""
    words = {"all": "every reader", "some": "read_uncommitted"}
    marks = [
        (shown.name_of(mark.place), mark.offset, mark.text, words.get(mark.kind, "nobody"))
        for mark in sorted(shown.marks, key=lambda it: (shown.places.index(it.place), it.offset))
    ]
    return Table(("partition", "offset", "record or marker", "is given to"), marks)


def draw(shown: Scene, title: str) -> Figure:
    """The figure of a scene."""
    lanes = _lanes(shown)
    traces = [*_asks(shown, lanes), *_told(shown, lanes), *_marks(shown, lanes)]
    figure = Figure([*traces, *_named_lines(shown)])
    heading = title_lines(title)
    below = BELOW_PX + ROW_PX * (len(figure.data) // 2)
    height = int((max(lanes.values()) - 0.2) * LANE_PX) + ABOVE_PX + below
    figure.update_layout(
        palette.layout(heading, height),
        margin={"l": 104, "r": 92, "t": ABOVE_PX, "b": below},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom"},
        showlegend=True,
        xaxis=_time_axis(shown),
        yaxis={"visible": False, "fixedrange": True, "range": [0.6, max(lanes.values()) + 0.4]},
        shapes=_shapes(shown, lanes),
        annotations=_texts(shown, lanes),
    )
    return figure


def _lanes(shown: Scene) -> dict[object, float]:
    """The height of each producer, of the coordinator and of each partition."""
    names: list[object] = [*shown.producers, "coordinator", *shown.places]
    heights = {name: float(len(names) - number) for number, name in enumerate(names)}
    # The coordinator's states stand below its lane, and need some room.
    return {
        name: height + (STATES_ROOM if name not in shown.places else 0.0)
        for name, height in heights.items()
    }


def _marks(shown: Scene, lanes: dict[object, float]) -> Iterable[Scatter]:
    for kind, style in MARKS.items():
        some = [mark for mark in shown.marks if mark.kind == kind]
        if some:
            yield _points(
                style,
                [shown.time.column(mark.at_ns) for mark in some],
                [lanes[mark.place] for mark in some],
                [_hover(mark, shown) for mark in some],
                ["" if kind in ("COMMIT", "ABORT") else in_picture(mark.text, 8) for mark in some],
            )


def _told(shown: Scene, lanes: dict[object, float]) -> Iterable[Scatter]:
    ends = [row for span in shown.spans for row in (span.end, *span.failures) if row]
    for kind, style in TOLD.items():
        some = [row for row in ends if row.kind == kind]
        if some:
            yield _points(
                style,
                [shown.time.column(row.at_ns) for row in some],
                [lanes[row.actor] for row in some],
                [in_picture(row.detail.get("text", style.name), 120) for row in some],
                [in_picture(row.error or "", 24) for row in some],
            )


def _asks(shown: Scene, lanes: dict[object, float]) -> Iterable[Scatter]:
    """The requests that decide something, from their client to the coordinator."""
    down = lanes["coordinator"]
    for style, is_late in ((ASKS, False), (LATE, True)):
        some = [row for row in shown.asks if (row.fate == "held") == is_late]
        xs: list[float | None] = []
        ys: list[float | None] = []
        for row in some:
            start, end = shown.time.column(row.at_ns), shown.time.column(arrived_ns(row))
            xs += [start, max(end, start + 0.3), None]
            ys += [lanes[row.actor], down, None]
        if some:
            yield Scatter(
                x=xs, y=ys, mode="lines+markers", name=style.name, hoverinfo="skip",
                line={"color": style.colour, "dash": style.dash, "width": style.width},
                marker={"symbol": "arrow", "angleref": "previous", "color": style.colour,
                        "size": [0, 9, 0] * len(some), "opacity": 1, "line": {"width": 0}},
            )  # fmt: skip


def _named_lines(shown: Scene) -> Iterable[Scatter]:
    """Entries of the legend for what is drawn as shapes."""
    for style, is_there in ((BAR, shown.spans), (WAITS, shown.waits)):
        line = {"color": style.colour, "dash": style.dash, "width": min(style.width, 5)}
        if is_there:
            yield Scatter(x=[None], y=[None], mode="lines", name=style.name, line=line)


def _points(
    style: Style, xs: list[float], ys: list[float], hovers: list[str], texts: list[str]
) -> Scatter:
    return Scatter(
        x=xs, y=ys, mode="markers+text", name=style.name, cliponaxis=False,
        text=texts, textposition="top center", textfont={"size": 12},
        hovertext=hovers, hoverinfo="text",
        marker={"symbol": style.symbol, "size": 11, "color": style.colour, "opacity": 1,
                "line": {"width": 1.6, "color": style.colour}},
    )  # fmt: skip


def _shapes(shown: Scene, lanes: dict[object, float]) -> list[Drawn]:
    """Lanes; a bar for each transaction; a line where readers of read_committed wait."""
    last = shown.time.width + 0.8
    lines = [
        _line(-0.8, height, last, height, palette.GREY, 1, "solid") for height in lanes.values()
    ]
    for span in shown.spans:
        end = shown.time.column(span.end.at_ns) if span.end else last
        at, dash = lanes[span.actor], "solid" if span.end else "dot"
        lines.append(
            _line(shown.time.column(span.begin.at_ns), at, end, at, BAR.colour, BAR.width, dash)
        )
    for wait in shown.waits:
        start = shown.time.column(wait.from_ns)
        end = last if wait.to_ns is None else shown.time.column(wait.to_ns)
        at = lanes[wait.place] - 0.17
        lines.append(_line(start, at, end, at, WAITS.colour, WAITS.width, WAITS.dash))
    return lines


def _texts(shown: Scene, lanes: dict[object, float]) -> list[Drawn]:
    names = [(lanes[name], name) for name in shown.producers]
    names += [(lanes["coordinator"], "coordinator")]
    names += [(lanes[place], shown.name_of(place)) for place in shown.places]
    return [
        *(_beside(height, f"<b>{in_picture(name, 15)}</b>", 0) for height, name in names),
        *(
            _beside(lanes[place], f"LSO {stop} of {end}", 1)
            for place, (stop, end) in shown.stops.items()
            if place in lanes
        ),
        *_numbers(shown, lanes),
        *_asked(shown, lanes),
        *_states(shown, lanes),
    ]


def _numbers(shown: Scene, lanes: dict[object, float]) -> Iterable[Drawn]:
    for span in shown.spans:
        yield _text(
            shown.time.column(span.begin.at_ns), lanes[span.actor], f"transaction {span.number}",
            yshift=9, xanchor="left",
        )  # fmt: skip


def _asked(shown: Scene, lanes: dict[object, float]) -> Iterable[Drawn]:
    """What each request asks for, where its arrow begins."""
    for row in shown.asks:
        ends = {"True": "commit", "False": "abort"}.get(row.detail.get("committed", ""))
        is_late = row.fate == "held"
        yield _text(
            shown.time.column(row.at_ns), lanes[row.actor],
            f"{ends or row.api}{', late' if is_late else ''}",
            # A late one begins among the labels of others, and so stands below them.
            yshift=-20 if is_late else -6, xanchor="right" if is_late else "left",
            colour=palette.GREY,
        ) | {"xshift": -4 if is_late else 4}  # fmt: skip


def _states(shown: Scene, lanes: dict[object, float]) -> Iterable[Drawn]:
    """The states of the diary, on two heights by turns so that they do not meet."""
    for number, row in enumerate(shown.entries):
        epoch = f", epoch {row.producer_epoch}" if row.detail["state"] == "Empty" else ""
        yield _text(
            shown.time.column(row.at_ns), lanes["coordinator"], row.detail["state"] + epoch,
            yshift=-9 - 13 * (number % 3), xanchor="center",
        )  # fmt: skip


def _text(
    x: float, y: float, text: str, *, yshift: int, xanchor: str, colour: str = palette.BLACK
) -> Drawn:
    return {
        "x": x, "y": y, "text": text, "showarrow": False, "yshift": yshift, "xanchor": xanchor,
        "yanchor": "bottom" if yshift > 0 else "top",
        "font": {"size": 11, "color": colour},
    }  # fmt: skip


def _beside(height: float, text: str, side: int) -> Drawn:
    return {
        "x": side, "xref": "paper", "y": height, "text": text, "showarrow": False,
        "xanchor": "left" if side else "right", "xshift": 8 if side else -8,
        "font": {"size": 12},
    }  # fmt: skip


def _time_axis(shown: Scene) -> Drawn:
    ticks = shown.time.ticks(max(shown.time.width / TICK_COLUMNS, 1))
    return {
        "title": {"text": "milliseconds since the first of these events, not to scale",
                  "font": {"size": 12, "color": palette.GREY}, "standoff": 4},
        "range": [-0.8, max(shown.time.width, 1) + 0.8], "fixedrange": True, "zeroline": False,
        "showgrid": False, "ticks": "",
        "tickvals": [column for column, _ in ticks], "ticktext": [text for _, text in ticks],
        "tickfont": {"size": 11, "color": palette.GREY},
    }  # fmt: skip


def _hover(mark: Mark, shown: Scene) -> str:
    what = f"{mark.kind} marker" if mark.kind in ("COMMIT", "ABORT") else f"order {mark.text}"
    style = MARKS[mark.kind].name
    return in_picture(
        f"{what}, offset {mark.offset} of {shown.name_of(mark.place)}, "
        f"{ms_text(shown.time.ms(mark.at_ns))} ms: {style}",
        160,
    )


def _sentence(span: Span) -> str:
    return f"Transaction {span.number} of {span.actor} was told: {_told_of(span)}."


def _told_of(span: Span) -> str:
    """What the program was told of the end of a transaction."""
    words = {"txn_committed": "committed", "txn_aborted": "aborted"}
    errors = [row.error or "" for row in span.failures]
    return words[span.end.kind] if span.end else listed(errors) if errors else "nothing"


def _line(
    x0: float, y0: float, x1: float, y1: float, colour: str, width: float, dash: str
) -> Drawn:
    return {
        "type": "line", "x0": x0, "y0": y0, "x1": x1, "y1": y1, "layer": "below",
        "line": {"color": colour, "width": width, "dash": dash},
    }  # fmt: skip
