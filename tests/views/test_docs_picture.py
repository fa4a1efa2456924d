"""The README's picture is drawn from the rows of a run, and stands alone."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from xml.etree import ElementTree

from tests.views import histories

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def test_picture_says_what_it_shows() -> None:
    """Title and description are the finding and the summary, for who cannot see it."""
    draw = run_path(str(DOCS / "draw_lost_acknowledgement.py"))["draw"]
    title, description, *_ = ElementTree.fromstring(draw(histories.lost_answer()))

    assert (
        "Order 2 was stored twice: its answer was lost and the client sent it again" == title.text
    )
    assert "The proxy dropped 1 response." in (description.text or "")


def test_picture_in_the_repository() -> None:
    """The picture that the README shows is one of a lost answer, and loads nothing."""
    text = (DOCS / "lost-acknowledgement.svg").read_text(encoding="utf-8")
    written = [each.text for each in ElementTree.fromstring(text).iter(f"{SVG}text")]

    assert 'drop_response("Produce", nth=3)' in written
    assert {"sent again", "stored again"} <= set(written)
    assert not any(word in text for word in ("href", "<script", "@import", "<style"))
