"""The transaction timeline in a real browser with the network closed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import plotly
import pytest
from playwright.sync_api import Page, sync_playwright

from lab_utils.ledger.events import Event
from lab_utils.views.picture import PLOTLY
from lab_utils.views.transaction_timeline import transaction_timeline
from tests.views.transaction_histories import commit_and_abort, left_open, torn

pytestmark = pytest.mark.browser

SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
HOSTILE = "<b>0</b>"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"],
        )
        yield browser.new_page(viewport={"width": 900, "height": 600})
        browser.close()


def show(page: Page, rows: list[Event]) -> list[str]:
    """Draw the picture as JupyterLab's extension does; return its texts."""
    bundle = transaction_timeline(rows).bundle()[PLOTLY]
    page.set_content('<meta charset="utf-8"><div id="here"></div>')
    page.add_script_tag(path=SCRIPT)
    page.evaluate(f"Plotly.newPlot('here', {json.dumps(bundle)})")
    page.wait_for_selector("#here .annotation-text")
    return page.locator("#here text").all_text_contents()


def test_finding_lanes_and_legend(page: Page) -> None:
    """The title is the finding; each lane has its name, and each symbol an entry."""
    texts = set(show(page, torn()))

    assert "Transaction 2 of producer-1 was told aborted: order 1 can be read, order 2 cannot" in (
        texts
    )
    assert {"producer-1", "coordinator", "orders 0", "orders 1", "LSO 4 of 4"} <= texts
    assert {"EndTxn that was late", "record for read_uncommitted only", "told: aborted"} <= texts


@pytest.mark.parametrize("history", [commit_and_abort, torn, left_open])
def test_nothing_is_cut_off(page: Page, history: Callable[[], list[Event]]) -> None:
    """The names of the lanes and of the diary's states are inside the picture."""
    show(page, history())
    frame = page.locator("#here .main-svg").first.bounding_box()
    assert frame is not None
    boxes = [box.bounding_box() for box in page.locator("#here .annotation-text").all()]

    assert [] == [
        box for box in boxes
        if box and not (frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"]
                        + frame["width"] + 1)
    ]  # fmt: skip


def test_hostile_value(page: Page) -> None:
    """What an order holds is text, whatever it says."""
    rows = [replace(row, value=HOSTILE) if row.value == "0" else row for row in commit_and_abort()]

    assert HOSTILE in show(page, rows)
