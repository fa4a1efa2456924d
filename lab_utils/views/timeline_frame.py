"""What stands around the arrows of a timeline: lanes, labels, marks, pauses and the time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lab_utils.views import palette
from lab_utils.views.elastic_time import ms_text
from lab_utils.views.scene import LETTER_PX, Label, Scene, are_turned, stacked
from lab_utils.views.timeline_paths import PROXY
from lab_utils.views.wording import in_picture

TICK_PX: Final = 60
TITLE_LINE_PX: Final = 23
ROW_PX: Final = 20
TURNED: Final = 0.87  # how much of its length a turned label takes in height

Drawn = dict[str, Any]


def above_px(shown: Scene, heading: str) -> int:
    """The room above the lanes: the title's lines, the marks, and the labels of the requests."""
    title = 20 + TITLE_LINE_PX * (1 + heading.count("<br>"))
    rows = _rows(shown.errors(), shown) + _rows(_marks(shown), shown)
    return int(title + ROW_PX * rows + _label_px(shown) + 14)


def time_axis(shown: Scene) -> Drawn:
    """The axis of the time; its labels tell what its scale does not."""
    ticks = shown.time.ticks(TICK_PX / shown.column_px)
    return {
        "title": {"text": "milliseconds since the first of these requests, not to scale",
                  "font": {"size": 12, "color": palette.GREY}, "standoff": 4},
        "range": [-1, max(shown.time.width, 1) + 1], "fixedrange": True, "zeroline": False,
        "showgrid": False, "ticks": "",
        "tickvals": [column for column, _ in ticks], "ticktext": [text for _, text in ticks],
        "tickfont": {"size": 11, "color": palette.GREY}, "ticklabelstandoff": 12,
    }  # fmt: skip


def shapes(shown: Scene) -> list[Drawn]:
    """Lanes, pauses, and a line across all lanes at each mark."""
    low, high = shown.where.bottom, shown.where.top
    heights = [*shown.where.clients.values(), PROXY, *shown.where.brokers.values()]
    lanes = [_line(0, height, 1, height, palette.GREY, 1, "x domain") for height in set(heights)]
    bands = [
        {"type": "rect", "x0": start + 0.5, "x1": end - 0.5, "y0": low, "y1": high,
         "fillcolor": palette.PALE, "line": {"width": 0}, "layer": "below"}
        for start, end, _ in shown.time.pauses()
    ]  # fmt: skip
    columns = {shown.time.column(mark.at_ns) for mark in shown.marks}
    return [*bands, *lanes, *(_line(at, low, at, high, palette.BLACK, 1.2, "x") for at in columns)]


def texts(shown: Scene) -> list[Drawn]:
    """The names of lanes, requests, offsets, errors, marks and pauses."""
    requests, offsets = shown.requests(), shown.offsets()
    return [
        *_lane_names(shown),
        *_labels(requests, "bottom", are_turned(requests, shown.column_px)),
        *_labels(offsets, "top", False),
        *_errors(shown),
        *_mark_names(shown),
        *_pause_names(shown),
    ]


def _labels(labels: Sequence[Label], anchor: str, turned: bool) -> list[Drawn]:
    return [
        {
            "x": label.column, "y": label.height, "text": _text(label), "showarrow": False,
            "xanchor": "left" if turned else "center", "yanchor": anchor,
            "yshift": 3 if anchor == "bottom" else -2, "xshift": -6 if turned else 0,
            "textangle": -60 if turned else 0,
            "font": {"color": palette.VERMILLION if label.is_loud else palette.BLACK, "size": 12},
        }
        for label in labels
    ]  # fmt: skip


def _text(label: Label) -> str:
    text = in_picture(label.text)
    return f"<b>{text}</b>" if label.is_loud else text


def _errors(shown: Scene) -> list[Drawn]:
    """The errors that clients were told, in a row of their own above the labels."""
    return _stack(shown.errors(), palette.ORANGE, _label_px(shown) + 2, shown)


def _lane_names(shown: Scene) -> list[Drawn]:
    clients, brokers = shown.where.clients, shown.where.brokers
    alone = len(clients) == 1
    names = [] if alone else [(height, name) for name, height in clients.items()]
    names += [(height, f"broker {name}") for name, height in brokers.items()] + [(PROXY, "proxy")]
    is_crowded = not alone and len(set(clients.values())) == 1
    bold = [(1.0, "client")] if alone else [(1.0, "clients")] if is_crowded else []
    bold += [name for name in names if not (is_crowded and name[1] in clients)]
    return [
        *(_beside(height, in_picture(name, 12), 0) for height, name in bold),
        *(_beside(1.0, in_picture(name, 14), -15) for name in clients if alone),
        _beside(shown.where.top, "request" if shown.with_api else "order", 14),
        *([_beside(shown.where.bottom, "offset", -15)] if shown.offsets() else []),
    ]


def _beside(height: float, text: str, shift: int) -> Drawn:
    """A text left of the lanes: the name of one, or a note above or below it."""
    colour = palette.GREY if shift else palette.BLACK
    return {
        "x": 0, "xref": "paper", "y": height, "text": text if shift else f"<b>{text}</b>",
        "showarrow": False, "xanchor": "right", "xshift": -8, "yshift": shift, "align": "right",
        "font": {"size": 11 if shift else 13, "color": colour},
    }  # fmt: skip


def _mark_names(shown: Scene) -> list[Drawn]:
    """The names of the marks above the rest; marks of one name in one column are one."""
    up = _label_px(shown) + 2 + ROW_PX * _rows(shown.errors(), shown)
    return _stack(_marks(shown), palette.BLACK, up, shown)


def _marks(shown: Scene) -> list[Label]:
    placed = dict.fromkeys((shown.time.column(mark.at_ns), mark.text) for mark in shown.marks)
    return [Label(column, 0, text) for column, text in placed]


def _rows(labels: Sequence[Label], shown: Scene) -> int:
    """How many rows these names take above the lanes."""
    return max(stacked(labels, shown.column_px), default=-1) + 1


def _stack(labels: Sequence[Label], colour: str, up: float, shown: Scene) -> list[Drawn]:
    """Names above the lanes, in as many rows as they need."""
    rows = stacked(labels, shown.column_px)
    return [
        _named(label.column, label.text, colour, up + ROW_PX * row, shown)
        for label, row in zip(labels, rows, strict=True)
    ]


def _named(column: float, text: str, colour: str, up: float, shown: Scene) -> Drawn:
    """A name above the lanes that points at its column; on the right it stands left of it."""
    is_right = column > shown.time.width * 0.6
    name, tip = in_picture(text, 60), f'<span style="color: {colour}">▼</span>'
    return {
        "x": column, "y": shown.where.top, "text": f"{name} {tip}" if is_right else f"{tip} {name}",
        "showarrow": False, "yshift": up, "yanchor": "bottom", "xshift": 7 if is_right else -7,
        "xanchor": "right" if is_right else "left", "font": {"size": 12},
    }  # fmt: skip


def _pause_names(shown: Scene) -> list[Drawn]:
    wide = [
        (start, end, gap)
        for start, end, gap in shown.time.pauses()
        if (end - start - 1) * shown.column_px > len(ms_text(gap) + " ms") * LETTER_PX
    ]
    return [
        {"x": (start + end) / 2, "y": shown.where.bottom, "yanchor": "bottom", "showarrow": False,
         "text": f"{ms_text(gap)} ms", "font": {"size": 11, "color": palette.GREY}}
        for start, end, gap in wide
    ]  # fmt: skip


def _label_px(shown: Scene) -> float:
    labels = shown.requests()
    if not are_turned(labels, shown.column_px):
        return 18
    longest = max(len(label.text) for label in labels)
    return min(longest, 40) * LETTER_PX * TURNED + 8


def _line(
    x0: float, y0: float, x1: float, y1: float, colour: str, width: float, xref: str
) -> Drawn:
    return {
        "type": "line", "x0": x0, "y0": y0, "x1": x1, "y1": y1, "xref": xref, "layer": "below",
        "line": {"color": colour, "width": width, "dash": "dot" if x0 == x1 else "solid"},
    }  # fmt: skip
