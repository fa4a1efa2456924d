"""A blank page for the tests of pictures and panels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.browser import rig

SIZE: ViewportSize = {"width": 900, "height": 700}
# What a script needs: an element to draw in, and what a module of JavaScript exports.
BLANK = """<html lang="en"><meta charset="utf-8"><body><script>
const place = () => document.body.appendChild(document.createElement("div"));
const load = (module) =>
    import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
</script></body></html>"""


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One tab for all tests of a module: a process of its own costs more than what is tested."""
    with rig.new_page(browser, offline=True, viewport=SIZE) as page:
        yield page


@pytest.fixture
def page(tab: Page) -> Page:
    """A new document in the tab: nothing of an earlier one runs on, or is defined."""
    tab.goto("about:blank")
    tab.set_viewport_size(SIZE)
    tab.set_content(BLANK)
    return tab


@pytest.fixture
def clocked(browser: Browser) -> Iterator[Page]:
    """A page whose clock the test sets; it has its own tab: a clock outlives a document."""
    with rig.new_page(browser, offline=True, viewport=SIZE) as page:
        page.set_content(BLANK)
        page.clock.install()
        yield page
