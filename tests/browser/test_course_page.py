"""JupyterLab opens on the course page, from which a notebook is one click away."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from lab_utils import course
from lab_utils.working_folder import hand_out
from tests.browser import rig

pytestmark = [
    pytest.mark.browser,
    pytest.mark.usefixtures("stage_of_three"),  # with its worker, or there were two JupyterLabs
]


def test_it_opens_on_the_course_page(browser: Browser, lab: rig.Lab) -> None:
    """A table of labs, shown as a page; its first link opens the first notebook."""
    hand_out(lab.folder)
    course.write(lab.folder)
    asked: list[str] = []
    with rig.new_page(browser, asked) as page:
        page.goto(f"{lab.address}/?token={lab.token}")
        page.get_by_role("heading", name="What does Kafka really promise?").wait_for()
        entries = [*course.entries(), *course.further()]
        assert {each.question for each in entries} == {
            text.partition(" ")[2]
            for text in page.get_by_role("row").get_by_role("link").all_inner_texts()
        }
        page.get_by_role("link", name="00 Where is my message?").first.click()
        page.locator(".jp-Notebook").get_by_text("A program calls").last.wait_for()

    assert [] == rig.elsewhere(asked)
