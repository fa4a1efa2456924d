"""JupyterLab opens on the course page, from which a notebook is one click away.

So is the claim behind a row of a report card.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from lab_utils import course
from lab_utils.working_folder import hand_out
from tests.browser import rig

IN_VIEW = """heading => {
    const { top, bottom } = heading.getBoundingClientRect();
    return 0 < top && bottom < innerHeight;
}"""
CARD = """\
from lab_utils.grading.results import Verdict
row = dict.fromkeys("schedule status finding reason hint".split(), "") | {"claim": "E13"}
Verdict(item="07.2", title="", kind="", status="FAIL", points=0, possible=3, reason="", card=(row,))
"""


@pytest.fixture(scope="module")
def page(browser: Browser, lab: rig.Lab) -> Iterator[Page]:
    """JupyterLab, as it opens on what has been handed out."""
    hand_out(lab.folder)
    course.write(lab.folder)
    with rig.new_page(browser) as page:
        page.goto(f"{lab.address}/?token={lab.token}")
        yield page


def test_it_opens_on_the_course_page(page: Page) -> None:
    """A table of labs, shown as a page; its first link opens the first notebook."""
    page.get_by_role("heading", name="What does Kafka really promise?").wait_for()
    entries = [*course.entries(), *course.further()]
    assert {each.question for each in entries} == {
        text.partition(" ")[2]
        for text in page.get_by_role("row").get_by_role("link").all_inner_texts()
    }
    page.get_by_role("link", name="00 Where is my message?").first.click()
    page.locator(".jp-Notebook").get_by_text("A program calls").last.wait_for()


def test_a_claim_of_a_card_is_one_click_away(page: Page, lab: rig.Lab, tmp_path: Path) -> None:
    """The page of claims opens beside the notebook, and shows the claim that was clicked."""
    rig.open_beside(page, lab.write("card.ipynb", CARD))
    rig.run_all(page)
    page.get_by_role("link", name="E13").click()
    heading = page.get_by_role("heading", name="E13", exact=True)
    heading.wait_for()
    page.wait_for_function(IN_VIEW, arg=heading.element_handle())
    page.screenshot(path=tmp_path / "claim.png")
