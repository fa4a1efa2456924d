"""One look for all pictures: a colour, a dash and a symbol for each thing that can happen.

The colours are Okabe and Ito's, which colour-blind readers can tell apart. No picture leans on
them alone: what differs in colour differs in dash or symbol too. It knows no event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLACK: Final = "#222222"
GREY: Final = "#767676"
PALE: Final = "#ececec"
WHITE: Final = "#ffffff"

BLUE: Final = "#0072b2"
GREEN: Final = "#007a5a"  # darker than Okabe and Ito's, for text on white
VERMILLION: Final = "#d55e00"
PURPLE: Final = "#a3527f"
ORANGE: Final = "#b87a00"
SKY: Final = "#3b93c9"

FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
FONT_SIZE: Final = 13

# What stands before the name of a batch that crossed the wire before.
AGAIN: Final = "\N{CLOCKWISE OPEN CIRCLE ARROW}"


@dataclass(frozen=True, slots=True)
class Style:
    """How one kind of thing is drawn, and what the legend calls it."""

    name: str
    colour: str
    dash: str = "solid"
    symbol: str = "arrow"
    width: float = 1.6


# What crosses the wire, by what became of it; the first is drawn below the others.
WIRE: Final = {
    "held": Style("held by the proxy", SKY, symbol="square", width=5),
    "request": Style("request", BLUE),
    "answer": Style("answer", GREEN, dash="6px,3px"),
    "error": Style("answer with an error", ORANGE, dash="10px,3px,2px,3px", symbol="triangle-up"),
    "lost": Style("dropped by the proxy", VERMILLION, symbol="x", width=2.6),
    "corrupted": Style("corrupted", PURPLE, dash="2px,3px", symbol="star-triangle-up", width=2.6),
    "replaced": Style(
        "answered by the proxy", PURPLE, dash="10px,4px", symbol="diamond", width=2.6
    ),
}

# What became of an order, as a cell of a picture.
ORDER: Final = {
    "once": Style("stored", BLUE, symbol="square"),
    "twice": Style("stored more than once", VERMILLION, symbol="diamond"),
    "unacked": Style("stored, and not acked", ORANGE, symbol="circle-open"),
    "lost": Style("acked, not in the log", BLACK, symbol="x-thin-open"),
    "foreign": Style("stored, and never sent", PURPLE, symbol="star"),
    "marker": Style("transaction marker", GREY, symbol="square-open"),
}


def layout(title: str, height: int) -> dict[str, object]:
    """What all pictures share; white in a dark notebook too, so that the colours hold."""
    top = 14 + 12 * title.count("<br>")  # Plotly centres the lines around the first
    return {
        "title": {
            "text": title, "x": 0.012, "xref": "container", "xanchor": "left",
            "y": 1, "yanchor": "top", "pad": {"t": top}, "font": {"size": 17},
        },
        "font": {"family": FONT, "size": FONT_SIZE, "color": BLACK},
        "height": height,
        "paper_bgcolor": WHITE,
        "plot_bgcolor": WHITE,
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "bgcolor": WHITE, "font": {"size": 12, "color": BLACK}},
        "template": None,
    }  # fmt: skip
