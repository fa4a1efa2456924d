"""Draws the README's picture, lost-acknowledgement.svg: the recorded run that lab 03 begins with.

    .venv/bin/python -m docs.draw_lost_acknowledgement

It is drawn as run.timeline() draws it, and loads nothing.
"""

from __future__ import annotations

from pathlib import Path

from lab_utils.site.recordings import first_picture

PICTURE = Path(__file__).with_name("lost-acknowledgement.svg")


def draw() -> str:
    """The picture as SVG text."""
    return first_picture("03").static() + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
