"""The README's picture is the timeline of a recorded run, and stands alone."""

from __future__ import annotations

from xml.etree import ElementTree

from docs.draw_lost_acknowledgement import PICTURE, draw


def test_picture_in_the_repository() -> None:
    """It is what `python -m docs.draw_lost_acknowledgement` draws, and loads nothing."""
    text = PICTURE.read_text(encoding="utf-8")
    written = "".join(ElementTree.fromstring(text).itertext())

    assert draw() == text
    assert 'drop_response("Produce", nth=3)' in written
    assert not any(word in text for word in ("href", "<script", "@import", "<style"))
