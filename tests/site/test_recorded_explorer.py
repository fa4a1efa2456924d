"""The explorer of lab 03 as a page has it, opened from a folder by a browser without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from lab_utils.site import pages
from lab_utils.views.explorer import CSS
from tests.browser import rig
from tests.views.test_explorer_in_browser import log

pytestmark = pytest.mark.browser

PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><style>{}</style><body>{}</body></html>'
)


@pytest.fixture
def address(tmp_path: Path) -> str:
    """Where the page is."""
    path = tmp_path / "03.html"
    path.write_text(PAGE.format(CSS, pages.explorer("03")), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page, shown; no error is raised on it."""
    wrong: list[str] = []
    with rig.new_page(browser, offline=True) as page:
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address)
        page.wait_for_selector(".step.now")
        yield page
    assert [] == wrong


def test_without_javascript(browser: Browser, address: str) -> None:
    """The first run is drawn, with its finding; a narrow page scrolls it in a box of its own."""
    phone = {"width": 390, "height": 700}
    with rig.new_page(browser, offline=True, java_script_enabled=False, viewport=phone) as page:
        page.goto(address)
        finding = page.locator("p", has_text="Order 2 was stored twice: its answer was lost")

        assert finding.is_visible()
        assert page.locator("svg text").filter(has_text="dropped by the proxy").is_visible()
        assert finding.bounding_box()["width"] <= 390  # type: ignore[index]
        assert page.locator("div:has(> svg)").bounding_box()["width"] <= 390  # type: ignore[index]


def test_choice_shows_its_recorded_run(page: Page) -> None:
    """Another choice shows another log and another finding, at once, and the first run stays.

    A record has one run for a choice: it is listed once, and nothing offers to run it again.
    """
    before = page.locator(".finding").inner_text(), log(page)
    page.get_by_role("radio", name="true").check()
    page.get_by_text("and was stored once").first.wait_for()

    assert ("Order 2 was stored twice", ["0", "1", "2", "2", "3"]) == (before[0][:24], before[1])
    assert ["0", "1", "2", "3"] == log(page)
    assert "" == page.locator(".status").inner_text()
    for option in ("false", "true"):
        page.get_by_role("radio", name=option).check()

    assert 2 == page.locator(".earlier button").count()
    assert 1 == page.locator('.earlier [aria-pressed="true"]').count()
    assert 0 == page.get_by_role("button", name="Run again").count()
