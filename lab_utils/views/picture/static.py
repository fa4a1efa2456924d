"""A figure as SVG, for a page without JavaScript: drawn from the figure's own JSON.

    traces, shapes, notes, axes, legend ──▶ pixels ──▶ SVG, which loads nothing

It knows what the pictures of the lab are made of (the frame), and no more of Plotly than that. The
text of a figure is Plotly's markup; here it becomes text again, and what is written is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape, unescape
from itertools import pairwise
from math import atan2, ceil, cos, degrees, floor, log10, radians, sin
from textwrap import wrap
from typing import Any, Final

from lab_utils.errors import one_of
from lab_utils.views.palette import BLACK, FONT, GREY, WHITE

WIDTH: Final = 900  # for which the views lay out their texts: a narrower page scrolls the picture
TITLE_PX: Final = 17
LETTER: Final = 0.57  # of the size of a letter, its width
LINE: Final = 1.3
LEGEND_ROW_PX: Final = 20
SWATCH_PX: Final = 42
MARKUP: Final = re.compile(r'(</?b>|<span style="color: #\w+">|</span>)')
NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
ANCHORS: Final = {"left": (0.0, "start"), "center": (0.5, "middle"), "right": (1.0, "end")}
TAGS: Final = {"<b>": '<tspan font-weight="bold">', "</b>": "</tspan>", "</span>": "</tspan>"}
RISES: Final = {"top": 0.0, "middle": 0.5, "bottom": 1.0}
# By the symbol, in radii around the place. What has no area is a stroke.
STAR: Final = "0,-1.4 .3,-.4 1.3,-.4 .5,.2 .8,1.1 0,.5 -.8,1.1 -.5,.2 -1.3,-.4 -.3,-.4"
SYMBOLS: Final = {
    "square": "-1,-1 1,-1 1,1 -1,1", "diamond": "0,-1.3 1.3,0 0,1.3 -1.3,0", "star": STAR,
    "triangle-up": "0,-1.2 1.2,.6 -1.2,.6", "triangle-down": "0,1.2 1.2,-.6 -1.2,-.6",
    "triangle-left": "-1.2,0 .6,1.2 .6,-1.2", "triangle-right": "1.2,0 -.6,1.2 -.6,-1.2",
    "x": "-1,-.4 -.4,-1 0,-.6 .4,-1 1,-.4 .6,0 1,.4 .4,1 0,.6 -.4,1 -1,.4 -.6,0",
    "star-triangle-up": "0,-1.6 .4,-.2 1.4,.8 0,.5 -1.4,.8 -.4,-.2", "arrow": "0,0 -.8,2 .8,2",
    "x-thin": "-1,-1 1,1 0,0 -1,1 1,-1 0,0", "line-ns": "0,-1.4 0,1.4",
}  # fmt: skip
HATCHES: Final = {
    "/": "M-2,2L2,-2M0,8L8,0M6,10L10,6", "\\": "M-2,6L2,10M0,0L8,8M6,-2L10,2", "-": "M0,4H8",
    "x": "M0,0L8,8M0,8L8,0", "|": "M4,0V8", "+": "M0,4H8M4,0V8", ".": "M3,4H5",
}  # fmt: skip

Part = Mapping[str, Any]
Place = tuple[float, float]


def as_svg(figure: Part, title: str, summary: str, *, titled: bool) -> str:
    """The figure as one SVG element, with its title above if it is `titled`."""
    drawing = _Drawing(figure, sha256(repr(figure).encode()).hexdigest()[:8])
    lines = wrap(title, int((WIDTH - 20) / (TITLE_PX * LETTER))) if titled else []
    above = TITLE_PX * LINE * len(lines) + 8
    heading = "<br>".join(escape(it, quote=False) for it in lines)
    body, (legend, height) = "".join(drawing.parts()), drawing.legend()
    drawn = _tag(
        "svg",
        _tag("title", escape(title)) + _tag("desc", escape(summary))
        + _tag("rect", width="100%", height="100%", fill=WHITE)
        + _text(12, 8, heading, {"size": TITLE_PX, "color": BLACK}, "left", "top")
        + _tag("g", body + legend, transform=f"translate(0 {_n(above)})"),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {_n(above + height)}",
        width=WIDTH, height=above + height, role="img", font_family=FONT,
    )  # fmt: skip
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", drawn)


class _Axis:
    """An axis: which values it has, in which pixels."""

    def __init__(self, given: Part, start: float, end: float, values: Sequence[Any]) -> None:
        self.given, self.start, self.end = given, start, end
        self.is_log = given.get("type") == "log"
        self.names = list(dict.fromkeys(it for it in values if isinstance(it, str)))
        low, high = given.get("range") or self._around(values)
        self.low, self.high = float(low), float(high)

    def _around(self, values: Sequence[Any]) -> tuple[float, float]:
        """The ends of an axis that leaves them to Plotly: some room around the values."""
        if self.names:
            return -0.15, len(self.names) - 0.85
        numbers = [self._number(it) for it in values if it is not None] or [0, 1]
        if self.is_log:
            return min(numbers) - 0.2, max(numbers) + 0.2
        return min(0, *numbers), max(numbers) * 1.06 or 1

    def _number(self, value: Any) -> float:
        if isinstance(value, str):
            return self.names.index(value)
        return log10(value) if self.is_log else value

    def px(self, value: Any, *, is_power: bool = False) -> float:
        """Where a value is; on a scale of powers of ten, a note's is given as the power."""
        at = value if is_power else self._number(value)
        return self.part((at - self.low) / (self.high - self.low))

    def part(self, share: float) -> float:
        """Where a share of the axis is."""
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """The pixels of its marks, and what stands there."""
        if self.given.get("visible") is False:
            return []
        if "tickvals" in self.given:
            places = zip(self.given["tickvals"], self.given["ticktext"], strict=True)
            return [(self.px(value), text) for value, text in places]
        low, high = sorted((self.low, self.high))
        step = 1 if self.is_log else self.given.get("dtick") or _round((high - low) / 6)
        marks = [at * step for at in range(ceil(low / step), floor(high / step) + 1)]
        values = [10.0**it if self.is_log else it for it in marks]
        return [(self.px(value), _short(value)) for value in values]


def _short(value: float) -> str:
    """A number as a reader of an axis wants it.

    >>> _short(0.1), _short(4000), _short(2e6)
    ('0.1', '4,000', '2M')
    """
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value:,g}"


def _round(least: float) -> float:
    """A round number of at least so much."""
    power = 10.0 ** floor(log10(least))
    return next(it * power for it in (1, 2, 5, 10) if it * power >= least)


class _Drawing:
    """One figure: where its axes are, and its parts as SVG."""

    def __init__(self, figure: Part, key: str) -> None:
        self.layout, self.traces = figure["layout"], figure["data"]
        self.key = key
        margin = self.layout["margin"]
        self.left, self.right = margin["l"], WIDTH - margin["r"]
        self.top, self.bottom = margin["t"], self.layout["height"] - margin["b"]
        names = [it for it in self.layout if re.fullmatch(r"[xy]axis\d*", it)]
        self.axes = {it.replace("axis", ""): self._axis(it) for it in names}
        self.font = {"size": self.layout["font"]["size"], "color": BLACK}

    def parts(self) -> Iterator[str]:
        """From the grid up to the notes."""
        shapes = self.layout.get("shapes", ())
        yield from (it for name, axis in self.axes.items() for it in self._grid(name, axis))
        yield from (self._shape(it) for it in shapes if it.get("layer") != "above")
        for trace in self.traces:
            yield from self._bars(trace) if trace["type"] == "bar" else self._scatter(trace)
        yield from (self._shape(it) for it in shapes if it.get("layer") == "above")
        yield from (it for name, axis in self.axes.items() for it in self._ticks(name, axis))
        yield from map(self._note, self.layout.get("annotations", ()))

    def legend(self) -> tuple[str, float]:
        """The entries in as many rows as they need below the axis, and where all ends."""
        named = [it for it in self.traces if it.get("name") and it.get("showlegend") is not False]
        if not named or self.layout.get("showlegend") is False:
            return "", self.layout["height"]
        found, x, y = "", 8.0, 0.0
        for trace in sorted(named, key=lambda it: it.get("legendrank", 1000)):
            takes = SWATCH_PX + _wide(trace["name"], self.font["size"]) + 18
            if x > 8 and x + takes > WIDTH:
                x, y = 8.0, y + LEGEND_ROW_PX
            found += _tag("g", self._entry(trace), transform=f"translate({_n(x)} {_n(y)})")
            x += takes
        height = max(self.layout["height"], self.bottom + 68 + y)
        return _tag("g", found, transform=f"translate(0 {_n(height - y - LEGEND_ROW_PX)})"), height

    def _entry(self, trace: Part) -> str:
        """A small one of what the trace draws, and its name."""
        name = _text(SWATCH_PX, 9, trace["name"], self.font, "left", "middle")
        marker = trace.get("marker", {})
        if trace["type"] == "bar":
            return self._box((2, 1, 34, 15), trace) + name
        ends = ((2.0, 9.0), (34.0, 9.0))
        way = _way(ends, trace) if "lines" in trace["mode"] else ""
        if "markers" in trace["mode"]:
            places = ends if marker.get("symbol") == "arrow" else (None, (18.0, 9.0))
            way += "".join(_marks(places, {**trace, "marker": {**marker, "size": [0, 11]}}))
        return way + name

    def _axis(self, name: str) -> _Axis:
        given, letter = self.layout[name], name[0]
        its = [it for it in self.traces if (it.get(f"{letter}axis") or letter) == letter + name[5:]]
        values = [value for it in its for value in it.get(letter) or ()]
        if letter == "y":
            return _Axis(given, self.bottom, self.top, values)
        low, high = given.get("domain", (0, 1))
        return _Axis(given, self._paper("x", low), self._paper("x", high), values)

    def _paper(self, letter: str, share: float) -> float:
        start, end = (self.left, self.right) if letter == "x" else (self.bottom, self.top)
        return float(start + share * (end - start))

    def _at(self, part: Part, name: str, *, is_power: bool = False) -> float:
        """The pixels of a value in an axis, in its domain or in the paper."""
        letter, value = name[0], part[name]
        ref, _, domain = part.get(f"{letter}ref", letter).partition(" ")
        if ref == "paper":
            return self._paper(letter, value)
        axis = self.axes[ref]
        return axis.part(value) if domain else axis.px(value, is_power=is_power)

    def _grid(self, name: str, axis: _Axis) -> Iterator[str]:
        if axis.given.get("showline"):
            ends = (axis.start, self.bottom, axis.end, self.bottom)
            yield _line(ends, {"color": axis.given["linecolor"]})
        for at, _ in axis.ticks() if axis.given.get("showgrid", "gridcolor" in axis.given) else ():
            is_x = name[0] == "x"
            ends = (at, self.top, at, self.bottom) if is_x else (self.left, at, self.right, at)
            yield _line(ends, {"color": axis.given["gridcolor"]})

    def _ticks(self, name: str, axis: _Axis) -> Iterator[str]:
        font, is_x, marks = self.font | axis.given.get("tickfont", {}), name[0] == "x", axis.ticks()
        apart = 5 + axis.given.get("ticklabelstandoff", 0)
        for at, text in marks:
            if is_x:
                yield _text(at, self.bottom + apart, text, font, "center", "top")
            else:
                yield _text(self.left - apart, at, text, font, "right", "middle")
        if not (title := axis.given.get("title", {})).get("text"):
            return
        middle, look = axis.part(0.5), self.font | title.get("font", {})
        if is_x:
            lines = max((text.count("<br>") + 1 for _, text in marks), default=1)
            below = self.bottom + apart + lines * self.font["size"] * LINE + 3
            yield _text(middle, below, title["text"], look, "center", "top")
        else:
            wide = max((_wide(text, font["size"]) for _, text in marks), default=0)
            beside = max(self.left - apart - wide - 14, 9)
            yield _text(beside, middle, title["text"], look, "center", "middle", angle=-90)

    def _shape(self, shape: Part) -> str:
        ends = tuple(self._at(shape, name) for name in ("x0", "y0", "x1", "y1"))
        if shape["type"] == "line":
            return _line(ends, shape["line"])
        return _rect(ends, shape["fillcolor"], shape["line"])

    def _note(self, note: Part) -> str:
        x = self._at(note, "x", is_power=True) + note.get("xshift", 0)
        y = self._at(note, "y", is_power=True) - note.get("yshift", 0)
        return _text(x, y, note["text"], note["font"], note.get("xanchor", "center"),
                     note.get("yanchor", "middle"), angle=note.get("textangle", 0),
                     ground=note.get("bgcolor", ""))  # fmt: skip

    def _bars(self, trace: Part) -> Iterator[str]:
        x, y, wide = self.axes["x"], self.axes["y"], trace["width"]
        wides = [wide] * len(trace["x"]) if isinstance(wide, int | float) else wide
        for long, base, at, high in zip(trace["x"], trace["base"], trace["y"], wides, strict=True):
            ends = (x.px(base), y.px(at - high / 2), x.px(base + long), y.px(at + high / 2))
            yield self._box(ends, trace)

    def _box(self, ends: Sequence[float], trace: Part) -> str:
        """A bar of a trace, and its hatch, which is drawn in a pattern of its own."""
        marker = trace["marker"]
        pattern = marker.get("pattern", {})
        look = {"opacity": trace.get("opacity", 1)}
        if not (shape := pattern.get("shape")):
            return _rect(ends, marker["color"], marker["line"], **look)
        ink = _tag("path", d=HATCHES[shape], stroke=pattern["fgcolor"], stroke_width=1)
        paper = _tag("rect", width=8, height=8, fill=pattern["bgcolor"])
        name = f"h{self.key}{sha256((ink + paper).encode()).hexdigest()[:6]}"
        hatch = _tag("pattern", paper + ink, id=name, width=8, height=8,
                     patternUnits="userSpaceOnUse")  # fmt: skip
        return hatch + _rect(ends, f"url(#{name})", marker["line"], **look)

    def _scatter(self, trace: Part) -> Iterator[str]:
        across, up = (self.axes[trace.get(f"{it}axis") or it] for it in "xy")
        pairs = zip(trace["x"], trace["y"], strict=True)
        places = [None if x is None else (across.px(x), up.px(y)) for x, y in pairs]
        if "lines" in trace["mode"]:
            yield _way(places, trace)
        if "markers" in trace["mode"]:
            yield from _marks(places, trace)
        is_above = trace.get("textposition", "").startswith("top")
        for number, text in enumerate(trace.get("text") or ()):
            if text and (place := places[number]):
                y = place[1] - (_size(trace, number) / 2 + 2 if is_above else 0)
                font = self.font | trace.get("textfont", {})
                yield _text(place[0], y, text, font, "center", "bottom" if is_above else "middle")


def _way(places: Sequence[Place | None], trace: Part) -> str:
    """A line with gaps where there is no place; filled, if the trace is."""
    steps, pen = "", "M"
    for place in places:
        if place and pen == "L" and trace["line"].get("shape") == "hv":
            steps += f"H{_n(place[0])}"
        steps += f"{pen}{_n(place[0])},{_n(place[1])}" if place else ""
        pen = "L" if place else "M"
    fill = trace["fillcolor"] if trace.get("fill") else "none"
    return _tag("path", d=steps or "M0,0", fill=fill, **_stroke({"width": 2, **trace["line"]}))


def _marks(places: Sequence[Place | None], trace: Part) -> Iterator[str]:
    """A mark at each place; an arrow points away from the place before it."""
    marker = trace["marker"]
    symbol, colour = marker.get("symbol", "circle"), marker.get("color", BLACK)
    for number, (before, place) in enumerate(pairwise([None, *places])):
        size = _size(trace, number) if marker.get("opacity") != 0 else 0
        if place is None or not size:
            continue
        turn = ""
        if symbol == "arrow" and before:
            turn = f" rotate({_n(degrees(atan2(place[0] - before[0], before[1] - place[1])))})"
        yield _tag("g", _symbol(symbol, size / 2, colour),
                   transform=f"translate({_n(place[0])} {_n(place[1])}){turn}",
                   opacity=trace.get("opacity", 1))  # fmt: skip


def _size(trace: Part, number: int) -> float:
    size = trace["marker"].get("size", 6)
    return float(size if isinstance(size, int | float) else size[number])


def _symbol(name: str, radius: float, colour: str) -> str:
    kind = name.removesuffix("-open")
    paint: dict[str, object] = {"fill": colour}
    if kind != name:
        paint = {"fill": "none", **_stroke({"color": colour, "width": 2.5})}
    if kind == "circle":
        return _tag("circle", r=radius, **paint)
    if kind not in SYMBOLS:
        one_of("the symbol of a style", kind, ["circle", *SYMBOLS])
    corners = re.sub(r"-?[\d.]+", lambda it: _n(float(it[0]) * radius), SYMBOLS[kind])
    return _tag("polygon", points=corners, **paint)


def _line(ends: Sequence[float], line: Part) -> str:
    return _tag("line", **dict(zip(("x1", "y1", "x2", "y2"), ends, strict=True)), **_stroke(line))


def _rect(ends: Sequence[float], fill: str, line: Part, **more: object) -> str:
    (left, right), (top, bottom) = sorted(ends[::2]), sorted(ends[1::2])
    return _tag("rect", x=left, y=top, width=right - left, height=bottom - top, fill=fill,
                **_stroke(line), **more)  # fmt: skip


def _stroke(line: Part) -> dict[str, object]:
    width, dash = line.get("width", 1), line.get("dash", "solid")
    dashes = {"solid": "none", "dot": f"{max(width, 3):g}"}.get(dash, dash.replace("px", ""))
    return {"stroke": line.get("color", GREY), "stroke_width": width, "stroke_dasharray": dashes}


def _text(
    x: float, y: float, text: str, font: Part, anchor: str, rise: str, *, angle: float = 0,
    ground: str = "",
) -> str:  # fmt: skip
    """Lines of text whose box is anchored at a place, and turned in its box if it is."""
    lines, size = text.split("<br>"), font["size"]
    x += {"left": 2, "right": -2}.get(anchor, 0)
    wide, high = max(_wide(it, size) for it in lines), size * LINE * len(lines)
    (share, word), up = ANCHORS[anchor], RISES[rise]
    if angle:
        across, along = abs(cos(radians(angle))), abs(sin(radians(angle)))
        x += (0.5 - share) * (wide * across + high * along)
        y += (0.5 - up) * (wide * along + high * across)
        share, word, up = 0.5, "middle", 0.5
    top, left = y - up * high, x - share * wide
    behind = _rect((left - 1, top, left + wide + 1, top + high), ground, {"width": 0})
    rows = (
        _tag("tspan", _spans(it), x=x, y=top + size * (LINE * number + 1))
        for number, it in enumerate(lines)
    )
    turn = f"rotate({angle} {_n(x)} {_n(y)})"
    return (behind if ground else "") + _tag(
        "text", "".join(rows), font_size=size, fill=font["color"], text_anchor=word, transform=turn
    )


def _spans(text: str) -> str:
    """One line of Plotly's markup as SVG: bold, coloured, and all else as text."""
    texts, tags = MARKUP.split(text)[::2], MARKUP.split(text)[1::2]
    spans = [TAGS.get(it) or f'<tspan fill="{it[20:-2]}">' for it in tags] + [""]
    pairs = zip(texts, spans, strict=True)
    return "".join(escape(unescape(text)) + span for text, span in pairs)


def _wide(text: str, size: float) -> float:
    """About how many pixels a line of markup takes."""
    return len(unescape(MARKUP.sub("", text))) * size * LETTER


def _tag(name: str, within: str = "", /, **attributes: object) -> str:
    """An element of SVG; what is within is SVG already."""
    given = "".join(
        f' {key.replace("_", "-")}="{escape(_n(it) if isinstance(it, float) else str(it))}"'
        for key, it in attributes.items()
    )
    return f"<{name}{given}>{within}</{name}>"


def _n(number: float) -> str:
    """A number of pixels."""
    return f"{round(number, 2):g}"
