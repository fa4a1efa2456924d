"""A picture without JavaScript: each text and each mark of the figure is in its SVG, as text."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Page

from docs.draw_lost_acknowledgement import PICTURE, draw
from lab_utils.errors import BadArgument
from lab_utils.views.orders import orders_by_offset
from lab_utils.views.palette import BLUE, Style
from lab_utils.views.picture import PLOTLY, Picture, axis, figure, points
from lab_utils.views.picture.static import WIDTH
from lab_utils.views.tables import Table
from tests.views.histories import log, sent
from tests.views.test_picture import WORDS

TAG = re.compile(r'<br>|</?b>|<span style="color: #\w+">|</span>')
ELEMENTS = {
    "svg", "title", "desc", "g", "rect", "line", "path", "circle", "polygon", "text", "tspan",
    "pattern",
}  # fmt: skip
HOSTILE = ("<script>1", "</svg>", '"&amp;', "$x^2$", "\x00\x1b", "<br>1")


def drawn(picture: Picture) -> ElementTree.Element:
    """The picture as XML, which is well-formed or not read."""
    return ElementTree.fromstring(picture.static())


def elements(svg: ElementTree.Element, *names: str) -> list[ElementTree.Element]:
    """The elements of these names."""
    return [it for name in names for it in svg.iter(f"{{http://www.w3.org/2000/svg}}{name}")]


def texts(svg: ElementTree.Element) -> list[str]:
    """What a reader reads, a line each."""
    lines = [it for text in elements(svg, "text") for it in text]
    return ["".join(line.itertext()) for line in lines]


def lines_of(markup: str) -> Iterator[str]:
    """The lines of Plotly's markup, as a reader reads them."""
    for line in markup.split("<br>"):
        yield unescape(TAG.sub("", line))


def said(figure: dict[str, Any]) -> Iterator[str]:
    """What Plotly writes: notes, axes, the legend, and what stands at marks."""
    layout = figure["layout"]
    yield from (it["text"] for it in layout.get("annotations", ()))
    for name in (it for it in layout if re.fullmatch(r"[xy]axis\d*", it)):
        if layout[name].get("visible") is not False:
            yield from layout[name].get("ticktext", ())
        yield layout[name].get("title", {}).get("text", "")
    for trace in figure["data"]:
        if layout["showlegend"] and trace.get("showlegend") is not False:
            yield trace.get("name", "")
        yield from trace.get("text") or ()


@pytest.mark.parametrize("name", WORDS)
def test_each_text_is_there(name: str) -> None:
    """Title and summary say the picture to who cannot see it; the SVG has every text, as often."""
    draw, given, title, summary = WORDS[name]
    picture = draw(given)
    svg = drawn(picture)
    left = texts(svg)
    for line in (it for text in said(picture.figure.to_plotly_json()) for it in lines_of(text)):
        if line:
            left.remove(line)

    assert (title, summary) == (picture.title, picture.summary)
    assert f"<p>{summary}</p>" in picture._repr_html_()
    assert "<caption" in picture._repr_html_() or not picture.table.about
    assert title in " ".join(texts(svg))
    assert [title, summary] == [it.text for it in elements(svg, "title", "desc")]


@pytest.mark.parametrize("name", WORDS)
def test_each_mark_is_there(name: str) -> None:
    """A mark for each that has a size and a place, a bar for each, and the legend's own."""
    draw, given, *_ = WORDS[name]
    picture = draw(given)
    figure, svg = picture.figure.to_plotly_json(), drawn(picture)
    marks = bars = 0
    for trace in figure["data"]:
        is_named = figure["layout"]["showlegend"] and trace.get("showlegend") is not False
        if trace["type"] == "bar":
            bars += len(trace["x"]) + is_named
        elif "markers" in trace["mode"] and trace["marker"].get("opacity") != 0:
            sizes = trace["marker"]["size"]
            sizes = [sizes] * len(trace["x"]) if isinstance(sizes, int | float) else sizes
            places = zip(trace["x"], sizes, strict=False)
            marks += sum(x is not None and size > 0 for x, size in places) + is_named
    boxes = [it for it in figure["layout"].get("shapes", ()) if it["type"] == "rect"]
    grounds = [it for it in figure["layout"].get("annotations", ()) if it.get("bgcolor")]
    hatches = len(elements(svg, "pattern"))

    assert marks == len(elements(svg, "circle", "polygon"))
    assert 1 + bars + len(boxes) + len(grounds) + hatches == len(elements(svg, "rect"))


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("name", ["timeline", "orders", "replicas", "transactions", "bookmarks"])
def test_hostile_value(name: str, value: str) -> None:
    """A value is shown and never interpreted, by Plotly, by the browser, or in the SVG.

    There it makes no element, and loads and runs nothing.
    """
    draw, rows, *_ = WORDS[name]
    old = next(row.value for row in rows if row.value)
    picture = draw([replace(row, value=value) if row.value == old else row for row in rows])
    svg = drawn(picture)
    found = {it.tag.rpartition("}")[2] for it in svg.iter()}
    links = [it for each in svg.iter() for it in each.attrib.values() if "url(" in it]

    assert value[0] not in "<$" or value not in str(picture.bundle()[PLOTLY])
    assert "<" not in value or value not in picture._repr_html_()
    assert found <= ELEMENTS
    assert [] == [it for each in svg.iter() for it in each.attrib if it.startswith(("on", "href"))]
    assert [] == [it for it in links if not re.fullmatch(r"url\(#\w+\)", it)]


def test_value_is_read_letter_by_letter() -> None:
    """What is markup to Plotly stands in the SVG as it was sent."""
    draw, rows, *_ = WORDS["timeline"]
    svg = drawn(draw([replace(row, value="<b>7") if row.value == "0" else row for row in rows]))

    assert "<b>7" in texts(svg)


def test_symbol_that_cannot_be_drawn() -> None:
    """A symbol that Plotly has and the SVG has not is refused by its name, with those it has."""
    lanes = axis(0, 2)
    cross = points(Style("acked", BLUE, symbol="cross"), [1], [1])
    picture = figure([cross], plot_px=100, margins=(60, 20, 60, 60), xaxis=lanes, yaxis=lanes)

    with pytest.raises(BadArgument, match=r"the symbol of a style must be one of .*; got 'cross'"):
        Picture("Nothing", picture, "", Table((), ())).static()


def test_pictures_share_a_page() -> None:
    """The hatches of two pictures have names of their own."""
    names = [
        {it.attrib["id"] for it in elements(drawn(WORDS[name][0](WORDS[name][1])), "pattern")}
        for name in ("replicas", "ownership")
    ]

    assert all(names)
    assert not names[0] & names[1]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1400])
def test_title_has_the_lines_it_needs(page: Page, width: int) -> None:
    """However narrow a notebook is, a long title stands above the figure and is not cut off."""
    values = [f"an-order-{number}-with-a-long-name" for number in range(4)]
    rows = [*(sent(at, it) for at, it in enumerate(values)), *log(*values, *values)]
    parts: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("IPython.display.display", lambda part, **_: parts.append(part))
        orders_by_offset(rows)._ipython_display_()
    page.set_viewport_size({"width": width, "height": 700})
    page.evaluate("html => { document.body.innerHTML = html }", parts[0].data)
    title = page.locator("p")

    assert PLOTLY in parts[1]
    assert orders_by_offset(rows).title == title.inner_text()
    assert title.evaluate("it => it.scrollWidth <= it.clientWidth")


@pytest.mark.browser
@pytest.mark.parametrize("name", WORDS)
def test_static_picture_is_whole(page: Page, name: str) -> None:
    """Drawn without JavaScript no text and no mark leaves the sheet."""
    draw, given, *_ = WORDS[name]
    page.evaluate("svg => { document.body.innerHTML = svg }", draw(given).static())
    sheet = page.locator("svg").bounding_box()
    drawn = page.locator("svg :is(text, circle, polygon, line)")
    boxes = drawn.evaluate_all("all => all.map(it => it.getBoundingClientRect().toJSON())")

    assert sheet is not None
    assert sheet["width"] == WIDTH
    assert [] == [
        box for box in boxes
        if not (sheet["x"] <= box["left"] and box["right"] <= sheet["x"] + sheet["width"]
                and sheet["y"] <= box["top"] and box["bottom"] <= sheet["y"] + sheet["height"])
    ]  # fmt: skip


def test_picture_in_the_repository() -> None:
    """The README's is what `python -m docs.draw_lost_acknowledgement` draws; it loads nothing."""
    text = PICTURE.read_text(encoding="utf-8")

    assert draw() == text
    assert 'drop_response("Produce", nth=3)' in "".join(ElementTree.fromstring(text).itertext())
    assert not any(word in text for word in ("href", "<script", "@import", "<style"))


def test_exported_notebook_has_it() -> None:
    """Exported to HTML, a notebook has the picture as an image, which needs no script."""
    draw, rows, *_ = WORDS["timeline"]
    picture = draw(rows)
    shown = nbformat.v4.new_output("display_data", picture.bundle())
    cell = nbformat.v4.new_code_cell("run.timeline()", outputs=[shown])
    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))

    assert b64encode(picture.static(titled=False).encode()).decode() in page
