"""Figures in a real browser with the network closed: they are drawn, and believe no value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import plotly
import pytest
from playwright.sync_api import Browser, Page

from lab_utils.ledger.events import Event
from lab_utils.views.ownership import ownership
from lab_utils.views.picture import PLOTLY, Picture
from lab_utils.views.replicas import replicas
from lab_utils.views.timeline import timeline
from lab_utils.views.transaction_timeline import transaction_timeline
from tests.browser import rig
from tests.views import consuming_histories, histories, replica_histories, transaction_histories
from tests.views.conftest import SIZE
from tests.views.histories import log, request, response, sent

pytestmark = pytest.mark.browser

SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
HOSTILE = ("<b>0</b>", "<script>1", "$x^2$", "&lt;", "<a href=x>")
DRAWN: list[tuple[Callable[[list[Event]], Picture], list[Event], set[str]]] = [
    (
        timeline, histories.lost_answer(),
        {"client", "proxy", "broker 1", "↻2", '▼ drop_response("Produce", nth=3)'},
    ),
    (
        replicas, replica_histories.acked_alone(),
        {"broker 1", "leader", "in the ISR", "killed", "cut", "0 @ 0"},
    ),
    (
        transaction_timeline, transaction_histories.torn(),
        {"producer-1", "coordinator", "orders-0", "orders-1", "LSO 4 of 4", "told: aborted",
         "EndTxn that was late", "record for read_uncommitted only"},
    ),
    (transaction_timeline, transaction_histories.left_open(), {"LSO 0 of 2"}),
    (ownership, consuming_histories.taken_away()[:6], {"partition 0", "consumer-1", "0"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """A page that has loaded Plotly, which takes seconds; each picture replaces the last one."""
    with rig.new_page(browser, offline=True, viewport=SIZE) as page:
        page.set_content('<meta charset="utf-8"><div id="here"></div>')
        page.add_script_tag(path=SCRIPT)
        yield page


def show(
    page: Page, rows: list[Event], draw: Callable[[list[Event]], Picture] = timeline
) -> list[str]:
    """Draw a picture of these rows as JupyterLab's extension does; return its texts."""
    bundle: dict[str, Any] = draw(rows).bundle()[PLOTLY]
    page.evaluate("Plotly.purge('here'); document.body.innerHTML = '<div id=\"here\"></div>'")
    page.evaluate(f"Plotly.newPlot('here', {json.dumps(bundle)})")
    page.wait_for_selector("#here .annotation-text")
    return page.locator("#here text").all_text_contents()


@pytest.mark.parametrize(("draw", "rows", "expected"), DRAWN)
def test_drawn_without_a_network(
    page: Page, draw: Callable[[list[Event]], Picture], rows: list[Event], expected: set[str]
) -> None:
    """The figure shows its lanes, and cuts no text off."""
    texts = show(page, rows, draw)
    frame = page.locator("#here .main-svg").first.bounding_box()
    boxes = [box.bounding_box() for box in page.locator("#here .annotation-text").all()]

    assert expected <= set(texts)
    assert frame is not None
    assert [] == [
        box for box in boxes
        if box and not (frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"]
                        + frame["width"] + 1)
    ]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_value_is_text(page: Page, value: str) -> None:
    """A value that is markup to Plotly or to the browser is shown letter by letter.

    That no other picture gives one to Plotly as it is, test_static.py shows.
    """
    wire = [sent(0, value), request(1, value, 1), response(2, 1, 0), *log(value, value)]

    assert value in show(page, wire)
    assert 0 == page.locator("#here a").count()


def test_head_of_the_labels_stands_beside_the_first(page: Page) -> None:
    """A long label begins left of its arrow, and of the lanes: what is there makes room."""
    rows = [request(ms, None, ms, api="OffsetCommit", records=None) for ms in range(0, 800, 100)]
    show(page, rows, partial(timeline, apis=["OffsetCommit"]))
    texts = page.locator("#here .annotation-text")
    head = texts.filter(has_text=re.compile("^request$")).bounding_box()
    label = texts.filter(has_text="OffsetCommit").first.bounding_box()

    assert head
    assert label
    assert head["x"] + head["width"] <= label["x"]


def test_arrows_are_visible(page: Page) -> None:
    """Each arrow that arrives has a head, and the one that does not has a cross."""
    show(page, histories.lost_answer())
    heads = page.locator("#here .points path").evaluate_all(
        "paths => paths.filter(path => path.getBBox().width > 4).length"
    )

    # Eleven arrows arrive; twelve moments at the proxy are dots or the cross.
    assert 11 + 12 == heads


# What JupyterLab puts around a picture: a row with its title, and a row with a prompt and a figure.
ROWS = """
<style>
  body { margin: 0; --jp-cell-prompt-width: 64px } .jp-OutputArea-child { display: flex }
  .jp-OutputPrompt { flex: 0 0 64px } .jp-OutputArea-output { width: 100%; overflow: auto }
</style>
<div class="jp-OutputArea-child"><div>HEAD</div></div>
<div class="jp-OutputArea-child"><div class="jp-OutputPrompt"></div>
  <div id="here" class="jp-OutputArea-output js-plotly-plot"></div></div>
<div id="words">words</div>"""


@pytest.mark.parametrize(("width", "shown"), [(1100, 1036), (900, 836), (800, 736), (600, 720)])
def test_picture_fits_its_cell(page: Page, width: int, shown: int) -> None:
    """A cell of 784 pixels and more shows all of a figure, which is then smaller; others scroll it.

    What is below it follows at once, and what a mark is about is shown where the mark is.
    """
    picture = timeline(histories.lost_answer())
    page.set_viewport_size({"width": width, "height": SIZE["height"]})
    page.evaluate("Plotly.purge('here')")
    rows = ROWS.replace("HEAD", picture.heading() + picture.look())
    page.evaluate("rows => { document.body.innerHTML = rows }", rows)
    page.evaluate(f"Plotly.newPlot('here', {json.dumps(picture.bundle()[PLOTLY])})")
    page.wait_for_selector("#here .annotation-text")
    row, figure = page.locator("#here").locator(".."), page.locator("#here").bounding_box()
    words = page.locator("#words").bounding_box()
    assert figure
    assert words
    mark = page.locator("#here .points path").last
    mark.hover(force=True)
    page.locator("#here .hovertext").wait_for()

    assert shown == pytest.approx(figure["width"], abs=1)
    assert (width < 784) == row.evaluate("it => it.scrollWidth > it.clientWidth")
    assert words["y"] == pytest.approx(figure["y"] + figure["height"], abs=1)
