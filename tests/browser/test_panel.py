"""The panel in a real JupyterLab: a click acts while a cell is running, and nothing goes out.

All but the last share a page and a kernel: to load JupyterLab takes as long as what is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from lab_utils.stage.client import Stage
from lab_utils.views.picture import SMALLEST
from lab_utils.views.picture.static import WIDTH
from tests.browser import rig

# What the other cells need, and then a cell or two for each test.
BEGIN = """\
from pathlib import Path
from lab_utils import Lab
from lab_utils.waiting import wait_until
lab = Lab({stage.name!r})
"""
SHOW = "lab.panel()"
# It ends when a fault has fired, which somebody has to arm while it runs.
PRODUCE = """\
def until_it_fires(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
        if any(fault["fired"] for fault in lab.stage.state()["faults"]):
            break

run = lab.run(until_it_fires, orders=20_000)
print([row.kind for row in run.rows if row.source == "fault"])
print(len(run.log) - len(set(run.log)), "stored twice")
"""
SHOW_GONE = """\
def send(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order)
    producer.flush()

gone = Lab("gone")
gone.panel()"""
WAIT = 'wait_until(Path("go").exists, "the test", timeout_s=60)\nPath("go").unlink()'
PICTURE = """\
from lab_utils.views.picture import Picture, figure
from lab_utils.views.tables import Table
Picture("A title", figure([], plot_px=60, margins=(0, 0, 40, 0)), "", Table(["a"], []))
"""


@pytest.fixture(scope="module")
def page(browser: Browser, stage: Stage, lab: rig.Lab) -> Iterator[Page]:
    """A notebook that has shown the panel of a stage."""
    with rig.new_page(browser) as page:
        rig.open_notebook(page, lab, lab.write("panel.ipynb", BEGIN.format(stage=stage), SHOW))
        rig.run_all(page)
        shown(page)
        rig.wait_for_idle(page)
        yield page


def shown(page: Page, number: int = 0) -> Locator:
    """The first panel of the page, or another one, as soon as it knows its stage."""
    panel = page.locator(".lab-panel").nth(number)
    panel.locator(".brokers button").first.wait_for()
    return panel


def test_click_acts_while_a_cell_is_running(page: Page, tmp_path: Path) -> None:
    """The next answer is dropped in the middle of a run, and its order is stored twice."""
    rig.run_new_cell(page, PRODUCE)
    panel = shown(page)
    panel.locator(".picture .step").first.wait_for()
    panel.get_by_role("button", name="Drop the next answer").click()
    rig.wait_for_text(page, panel.inner_text, "fired once")
    panel.screenshot(path=tmp_path / "fired.png")
    rig.wait_for_idle(page)

    assert "['fired']\n1 stored twice\n" == rig.texts(page)[-1]


def test_broker_is_paused_and_resumed(page: Page, tmp_path: Path) -> None:
    """The keyboard reaches each button, and keeps its place when the state changes."""
    panel = shown(page)
    panel.get_by_role("button", name="pause broker 1").press("Enter")
    panel.get_by_text("Broker 1 is paused.").wait_for()
    panel.screenshot(path=tmp_path / "paused.png")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    panel.get_by_text("Broker 1 is running again.").wait_for()

    assert "resume broker 1" == page.evaluate("document.activeElement.ariaLabel")


def test_closed_lab_starts_again(page: Page) -> None:
    """A panel whose lab is closed says so, and its button starts the lab for all cells.

    It is told, and asks nothing of a stage that has ended: Jupyter would answer with status 500.
    """
    answered: list[int] = []
    page.on("response", lambda response: answered.append(response.status))
    rig.run_new_cell(page, SHOW_GONE)
    rig.wait_for_idle(page)
    panel = shown(page, -1)
    rig.run_in_kernel(page, "gone.run(send, orders=2)")
    rig.wait_for_text(page, panel.inner_text, "none broken")
    rig.run_in_kernel(page, "gone.close()")

    rig.wait_for_text(page, panel.inner_text, "This lab is closed: Kafka has ended.")
    assert "none broken" in panel.inner_text()
    assert [] == [status for status in answered if status >= 500]
    panel.get_by_role("button", name="Start the lab again").click()
    panel.get_by_role("button", name="kill broker 1").wait_for()
    rig.run_new_cell(page, "print(gone.run(send, orders=2).log)\ngone.close()")
    rig.wait_for_idle(page)

    assert "['0', '1']\n" == rig.texts(page)[-1]


def test_pictures_in_the_dark_and_on_a_phone(page: Page) -> None:
    """There a picture of the lab's is dark, or scrolls; a learner's own figure stays as it is."""
    filters = "it => it.map(plot => getComputedStyle(plot).filter)"
    size = page.viewport_size
    assert size is not None
    for cell in (PICTURE, "from plotly.graph_objects import Figure\nFigure(layout={'height': 60})"):
        rig.run_new_cell(page, cell)
        rig.wait_for_idle(page)
    page.locator(".js-plotly-plot").nth(1).wait_for()
    light = page.locator(".js-plotly-plot").evaluate_all(filters)
    with rig.in_the_dark(page):
        dark = page.locator(".js-plotly-plot").evaluate_all(filters)
        page.set_viewport_size({"width": 390, "height": 900})
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot')[1].clientWidth < 390")
        reach = page.locator(".jp-OutputArea-child:has(> .js-plotly-plot)").evaluate_all(
            "all => all.map(it => [getComputedStyle(it).overflowX, it.scrollWidth])"
        )
    page.set_viewport_size(size)

    assert ["auto", WIDTH * SMALLEST] == reach[0]
    assert reach[1][1] < 390
    assert ["none", "none"] == light
    assert [True, False] == ["invert" in it for it in dark]


def test_panel_outlives_its_kernel(page: Page) -> None:
    """The stage and the panel's way to it do not need the kernel that made them."""
    panel = shown(page)
    panel.get_by_text("Connected past the kernel").wait_for()
    rig.end_kernel(page)
    panel.get_by_role("button", name="Drop the next Produce request").click()

    rig.wait_for_text(page, panel.inner_text, 'drop_request("Produce") is armed')


@pytest.mark.long
def test_kernel_is_the_other_way(
    browser: Browser, stage: Stage, lab: rig.Lab, tmp_path: Path
) -> None:
    """Without jupyter-server-proxy the kernel does what is clicked, when its cell is done."""
    path = lab.write("kernel.ipynb", BEGIN.format(stage=stage), SHOW, WAIT)
    with rig.new_page(browser) as page:
        page.route("**/proxy/**", lambda route: route.fulfill(status=404))
        page.emulate_media(color_scheme="dark")
        rig.open_notebook(page, lab, path)
        rig.run_all(page)
        panel = page.locator(".lab-panel")
        panel.get_by_text("The kernel is busy").wait_for()
        panel.get_by_role("button", name="Refuse the next").click()
        (lab.folder / "go").touch()
        rig.wait_for_text(page, panel.inner_text, 'refuse("Produce") is armed')
        rig.wait_for_text(page, panel.inner_text, "Connected through the kernel")
        panel.screenshot(path=tmp_path / "dark.png")
        rig.wait_for_idle(page)
