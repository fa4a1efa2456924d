"""A blank page for the tests of pictures and panels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 900, "height": 700})
    page.set_default_timeout(60_000)
    page.set_content('<html lang="en"><meta charset="utf-8"><body></body></html>')
    yield page
    page.close()
