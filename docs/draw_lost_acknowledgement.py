"""Draws the README's picture, lost-acknowledgement.svg, from the ledger of a real run.

    .venv/bin/python -m docs.draw_lost_acknowledgement LEDGER_FOLDER

The run is the first broken one of lab 03: five orders, one at a time, and
drop_response("Produce", nth=3). Where things stand is what lab_utils.views.timeline says; this
module writes it down as SVG, with no font, script or style from elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from lab_utils.ledger.events import Event
from lab_utils.ledger.store import read_ledger
from lab_utils.views import palette
from lab_utils.views.timeline import PROXY, SLOPE, WIRE, Scene, paths, scene
from lab_utils.views.timeline import Path as Line
from lab_utils.views.words import headline
from lab_utils.views.words import shown as plain

WIDTH, HEIGHT = 900, 312
LEFT, RIGHT = 96, 28
LANES = {1.0: 118, PROXY: 196, -1.0: 274}


def draw(rows: Sequence[Event]) -> str:
    """The picture of a run as SVG text."""
    view = scene(rows)
    title = headline(rows)
    parts = [*_frame(title), *_pauses(view), *_lanes(), *_marks(view)]
    for line in paths(view):
        parts += _line(line, view)
    parts += [*_labels(view), *_remarks(view)]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-labelledby="title desc" font-family="{escape(palette.FONT)}">\n'
        f'<title id="title">{escape(title)}</title>\n'
        f'<desc id="desc">{escape(view.summary())}</desc>\n{body}\n</svg>\n'
    )


def _frame(title: str) -> Iterator[str]:
    """A white card, as dark pages show it too, and the arrow heads."""
    for name in ("request", "answer"):
        colour = WIRE[name].colour
        yield (
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" '
            f'markerHeight="9" orient="auto" markerUnits="userSpaceOnUse">'
            f'<path d="M0 1 L10 5 L0 9 z" fill="{colour}"/></marker>'
        )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{palette.WHITE}"/>'
    yield _text(24, 38, title, size=19, anchor="start")


def _lanes() -> Iterator[str]:
    for (height, y), name in zip(LANES.items(), ("client", "proxy", "broker"), strict=True):
        yield f'<path d="M{LEFT} {y} H{WIDTH - RIGHT}" stroke="{palette.GREY}"/>'
        yield _text(LEFT - 12, y + 5, name, size=15, anchor="end", bold=True)
        if height != PROXY:
            note, up = ("order", -14) if height > 0 else ("offset", 24)
            yield _text(LEFT - 12, y + up, note, size=12, anchor="end", colour=palette.GREY)


def _pauses(view: Scene) -> Iterator[str]:
    for start, end, gap in view.time.pauses():
        left, right = _x(view, start + 0.5), _x(view, end - 0.5)
        yield (
            f'<rect x="{left}" y="{LANES[1.0]}" width="{round(right - left, 1)}" '
            f'height="{LANES[-1.0] - LANES[1.0]}" fill="{palette.PALE}"/>'
        )
        yield _text((left + right) / 2, 190, gap, size=12, colour=palette.GREY)


def _marks(view: Scene) -> Iterator[str]:
    """The fault, at the frame it acted on."""
    for mark in view.marks:
        x = _x(view, view.time.column(mark.at_ns))
        yield (
            f'<path d="M{x} 90 V{LANES[-1.0]}" stroke="{palette.BLACK}" stroke-dasharray="2 3"/>'
        )
        yield _text(x, 82, mark.text, size=14)


def _line(line: Line, view: Scene) -> Iterator[str]:
    style = WIRE[line.style]
    points = [(_x(view, column), LANES[height]) for column, height in line.points]
    way = " L".join(f"{x} {y}" for x, y in points)
    dash = "" if style.dash == "solid" else ' stroke-dasharray="6 3"'
    is_lost = line.style == "lost"
    is_broken = line.measured == len(line.points) - 1
    head = "" if is_broken else f' marker-end="url(#{"answer" if dash else "request"})"'
    yield (
        f'<path d="M{way}" fill="none" stroke="{style.colour}" '
        f'stroke-width="{style.width}"{dash}{head}/>'
    )
    x, y = points[line.measured]
    if is_lost:
        yield (
            f'<path d="M{x - 7} {y - 7} l14 14 m0 -14 l-14 14" stroke="{style.colour}" '
            'stroke-width="4"/>'
        )
    else:
        yield f'<circle cx="{x}" cy="{y}" r="3" fill="{style.colour}"/>'


def _labels(view: Scene) -> Iterator[str]:
    for label in view.requests + view.offsets:
        y = LANES[1.0] - 10 if label.height > 0 else LANES[-1.0] + 20
        colour = palette.VERMILLION if label.is_loud else palette.BLACK
        text = plain(label.text, 8)
        yield _text(_x(view, label.column), y, text, size=15, colour=colour, bold=label.is_loud)


def _remarks(view: Scene) -> Iterator[str]:
    """What the eye is to see: the second copy, and the clean answer that hides the first."""
    again = next((it for it in view.found if it.is_repeat and it.request and it.response), None)
    if again is None or again.request is None or again.response is None:
        return
    sent = _x(view, view.time.column(again.request.at_ns) - SLOPE)
    stored = _x(view, view.time.column(again.response.at_ns) - SLOPE)
    for x, y, remark in (
        (sent + 16, LANES[1.0] - 11, "sent again"),
        (stored + 11, LANES[-1.0] + 19, "stored again"),
    ):
        yield _text(x, y, remark, size=14, anchor="start", colour=palette.VERMILLION)


def _x(view: Scene, column: float) -> float:
    """A column in pixels."""
    return round(
        LEFT + 8 + (column + 0.6) * (WIDTH - LEFT - RIGHT - 8) / (view.time.width + 1.2), 1
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    colour: str = palette.BLACK,
    anchor: str = "middle",
    bold: bool = False,
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{round(x, 1)}" y="{y}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
    )


if __name__ == "__main__":
    picture = Path(__file__).with_name("lost-acknowledgement.svg")
    picture.write_text(draw(read_ledger(Path(sys.argv[1]))), encoding="utf-8")
