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

# The same hues on a dark page, lighter.
DARK: Final = {
    BLACK: "#e8e8e8", GREY: "#a8a8a8", BLUE: "#56b4e9", GREEN: "#4cc79f", VERMILLION: "#ff8a4c",
    PURPLE: "#dc9cc0", ORANGE: "#e6b53c", SKY: "#8fcaf0",
}  # fmt: skip

FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

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
