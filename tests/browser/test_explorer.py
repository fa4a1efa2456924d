"""The explorer of lab 03 in a real JupyterLab: a choice makes a real run, keys step through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from lab_utils.stage.client import Stage
from tests.browser import rig

SHOW = """\
from lab_utils import Lab
lab = Lab({stage.name!r})
lab.explorer("03")
"""
WAIT = """\
from pathlib import Path
from time import sleep
for _ in range(400):
    if not Path("go on").exists():
        sleep(0.05)
"""


@pytest.fixture(scope="module")
def page(browser: Browser, stage: Stage, lab: rig.Lab) -> Iterator[Page]:
    """A notebook that shows the explorer with its first run."""
    with rig.new_page(browser) as page:
        rig.open_notebook(page, lab, lab.write("explorer.ipynb", SHOW.format(stage=stage)))
        rig.run_all(page)
        explorer(page).locator(".step.now").wait_for()
        yield page


def explorer(page: Page) -> Locator:
    return page.locator(".lab-explorer")


def log(page: Page) -> str:
    """The values of the log, as it was at the step that is shown."""
    row = explorer(page).locator(".log tbody tr").filter(has_text="log").first
    return " ".join(row.locator("td").all_inner_texts()).strip()


def test_a_choice_makes_a_run(page: Page, tmp_path: Path) -> None:
    """The first run has a duplicate; with idempotence a new run has none; nothing goes out.

    What the kernel made before the page was there is shown, and not made again.
    """
    assert "0 1 2 2 3" == log(page)
    explorer(page).get_by_text("Order 2 was stored twice").first.wait_for()
    explorer(page).get_by_role("radio", name="true").press("Space")

    explorer(page).get_by_text("was stored once: the broker knew").first.wait_for()
    assert "0 1 2 3" == log(page)
    assert 2 == explorer(page).locator(".earlier button").count()
    explorer(page).screenshot(path=tmp_path / "explorer.png")


def test_keyboard_steps_through_the_run(page: Page) -> None:
    """Sentence, arrow and cell of the log follow the scrubber; the notebook hears no key of it."""
    cells = page.locator(".jp-Cell").count()
    scrubber = explorer(page).get_by_role("slider", name="Step of the run")
    scrubber.focus()
    scrubber.press("Home")
    first = explorer(page).locator(".said").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("x")  # it would cut a cell

    assert "The producer sends order 0." == first
    assert "0" == log(page)
    assert ["0"] == explorer(page).locator(".log td.lit").all_inner_texts()
    said = explorer(page).locator(".said").inner_text()
    assert said == scrubber.get_attribute("aria-valuetext") != first
    assert "1" == explorer(page).locator(".step.now").get_attribute("data-step")
    assert "Step of the run" == page.evaluate("document.activeElement.ariaLabel")
    assert cells == page.locator(".jp-Cell").count()


def test_a_choice_waits_for_a_cell(page: Page, lab: rig.Lab) -> None:
    """While a cell runs no run is made beside it; the explorer says so, and then makes it."""
    earlier = explorer(page).locator(".earlier button")
    runs = earlier.count()
    rig.run_new_cell(page, WAIT)
    explorer(page).get_by_role("radio", name="nothing").press("Space")
    explorer(page).get_by_text("The kernel is busy").wait_for(timeout=15_000)
    assert runs == earlier.count()
    (lab.folder / "go on").touch()

    rig.wait_for_text(page, explorer(page).inner_text, "4 orders sent, and each is stored once")
    assert runs + 1 == earlier.count()


def test_closed_lab_says_so(page: Page) -> None:
    """When the lab has been closed the explorer says what to run, and keeps its runs.

    When a panel's button has started it again, the explorer no longer says that it is closed.
    """
    closed = explorer(page).get_by_text("This lab is closed: Kafka has ended.")
    rig.run_in_kernel(page, "lab.stage.shutdown = lambda: None\nlab.close()")
    closed.wait_for()
    explorer(page).get_by_role("radio", name="it is refused").press("Space")
    closed.wait_for()
    rig.run_in_kernel(page, "lab._explorer.tell('')")
    closed.wait_for(state="detached")

    assert 3 == explorer(page).locator(".earlier button").count()


@pytest.mark.long
def test_all_cells_at_once(browser: Browser, stage: Stage, lab: rig.Lab) -> None:
    """Also where the lab is closed before the page can draw, the first run is there."""
    close = "lab.stage.shutdown = lambda: None\nlab.close()"
    with rig.new_page(browser) as other:
        rig.open_notebook(other, lab, lab.write("all.ipynb", SHOW.format(stage=stage), close))
        rig.run_all(other)
        explorer(other).get_by_text("This lab is closed: Kafka has ended.").wait_for()

        assert "0 1 2 2 3" == log(other)


def test_ended_kernel_is_said_in_words(page: Page) -> None:
    """A choice that no kernel hears says what to run."""
    rig.end_kernel(page)
    explorer(page).get_by_role("radio", name="false").press("Space")

    rig.wait_for_text(
        page, explorer(page).locator(".status").inner_text, "the notebook's first cell, then"
    )


def test_opened_again_it_says_what_it_was(page: Page, browser: Browser, lab: rig.Lab) -> None:
    """Without its kernel a widget of a saved notebook is a sentence; with it, there is none."""
    gone = "This was an explorer, which is shown while its kernel runs."
    assert 0 == page.get_by_text(gone).locator("visible=true").count()
    rig.save(page)
    with rig.new_page(browser) as later:
        rig.open_notebook(later, lab, "explorer.ipynb")
        later.get_by_text(gone).wait_for()
        later.get_by_text("Error displaying widget").wait_for(state="hidden")
