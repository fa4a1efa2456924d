"""A figure in a real browser with the network closed: it is drawn, and believes no value."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import plotly
import pytest
from playwright.sync_api import Page, sync_playwright

from lab_utils.ledger.events import Event
from lab_utils.views.picture import PLOTLY, Picture
from lab_utils.views.replicas import replicas
from lab_utils.views.timeline import timeline
from tests.views import histories, replica_histories
from tests.views.histories import acked, log, request, response, sent

pytestmark = pytest.mark.browser

SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
HOSTILE = ("<b>0</b>", "<script>1", "$x^2$", "&lt;", "<a href=x>")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"],
        )
        yield browser.new_page(viewport={"width": 900, "height": 600})
        browser.close()


def show(
    page: Page, rows: list[Event], draw: Callable[[list[Event]], Picture] = timeline
) -> list[str]:
    """Draw a picture of these rows as JupyterLab's extension does; return its texts."""
    bundle: dict[str, Any] = draw(rows).bundle()[PLOTLY]
    page.set_content('<meta charset="utf-8"><div id="here"></div>')
    page.add_script_tag(path=SCRIPT)
    page.evaluate(f"Plotly.newPlot('here', {json.dumps(bundle)})")
    page.wait_for_selector("#here .annotation-text")
    return page.locator("#here text").all_text_contents()


def test_drawn_without_a_network(page: Page) -> None:
    """The figure shows its finding, its lanes and its fault, and asks nobody for anything."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    texts = show(page, histories.lost_answer())

    expected = {"client", "proxy", "broker 1", "↻2", '▼ drop_response("Produce", nth=3)'}
    assert expected <= set(texts)
    assert "Order 2 was stored twice: its answer was lost and the client sent it again" in texts
    assert [] == asked


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_value_is_text(page: Page, value: str) -> None:
    """A value that is markup to Plotly or to the browser is shown letter by letter."""
    rows = [sent(0, value), request(1, value, 1), response(2, 1, 0), *log(value, value)]
    texts = show(page, rows)

    assert value in texts
    assert 0 == page.locator("#here a").count()


def test_arrows_are_visible(page: Page) -> None:
    """Each arrow that arrives has a head, and the one that does not has a cross."""
    show(page, histories.lost_answer())
    heads = page.locator("#here .points path").evaluate_all(
        "paths => paths.filter(path => path.getBBox().width > 4).length"
    )

    # Eleven arrows arrive; twelve moments at the proxy are dots or the cross.
    assert 11 + 12 == heads


def test_replicas_are_drawn(page: Page) -> None:
    """The picture of the replicas shows its finding, lanes, roles, faults and acks."""
    texts = show(page, replica_histories.acked_alone(), replicas)

    expected = {"broker 1", "leader", "in the ISR", "killed", "cut", "0 @ 0"}
    assert expected <= set(texts)
    assert any("Orders 0 and 1 were acked by broker 1 alone" in text for text in texts)


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_value_among_the_replicas_is_text(page: Page, value: str) -> None:
    """A value that is markup is shown letter by letter above its ack."""
    rows = [*replica_histories.ends(0, 0, 0, 0), acked(1, value[:8], 0), *log(ms=5)]
    texts = show(page, rows, replicas)

    assert f"{value[:8]} @ 0" in texts
    assert 0 == page.locator("#here a, #here b").count()
