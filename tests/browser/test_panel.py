"""The panel in a real JupyterLab: a click acts while a cell is running, and nothing goes out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from lab_utils.stage.client import Stage
from tests.browser import rig

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

BEGIN = "from lab_utils import Lab\nlab = Lab({stage.name!r})"
SHOW = "lab.panel()"
THREE = """\
from lab_utils import Lab
lab = Lab({stage.name!r}, brokers=3)
run = lab.run(lambda run: None, orders=0)
"""
# It ends when a fault has fired, which somebody has to arm while it runs.
WAIT = """\
from pathlib import Path
from lab_utils.waiting import wait_until
wait_until(Path("go").exists, "the test", timeout_s=60)
"""
PRODUCE = """\
def until_it_fires(run):
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()
        if any(fault["fired"] for fault in lab.stage.faults()):
            break

run = lab.run(until_it_fires, orders=20_000)
print([row.kind for row in run.rows if row.source == "fault"])
print(len(run.log) - len(set(run.log)), "stored twice")
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with rig.chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rig.Lab]:
    with rig.jupyterlab(tmp_path_factory.mktemp("jupyterlab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def lab_without_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rig.Lab]:
    home = tmp_path_factory.mktemp("without-proxy")
    with rig.jupyterlab(home, dark=True, proxy=False) as lab:
        yield lab


@pytest.fixture
def asked() -> list[str]:
    """Every address that the page has asked for."""
    return []


@pytest.fixture
def page(chromium: Browser, asked: list[str]) -> Iterator[Page]:
    with rig.new_page(chromium, asked) as page:
        yield page


def shown(page: Page) -> Locator:
    """The panel, as soon as it knows its stage."""
    page.wait_for_selector(".lab-panel .brokers button")
    return page.locator(".lab-panel")


def test_click_acts_while_a_cell_is_running(
    page: Page, stage: Stage, lab: rig.Lab, asked: list[str], tmp_path: Path
) -> None:
    """The next answer is dropped in the middle of a run, and its order is stored twice."""
    rig.open_notebook(page, lab, lab.write("click.ipynb", BEGIN.format(stage=stage), SHOW, PRODUCE))
    rig.run_all(page)
    panel = shown(page)
    panel.get_by_text("Produce order").first.wait_for()
    panel.get_by_role("button", name="Drop the next answer").click()
    rig.wait_for_text(page, panel.inner_text, 'drop_response("Produce") has fired once')
    panel.screenshot(path=tmp_path / "fired.png")
    rig.wait_for_idle(page)

    assert "['fired']\n1 stored twice\n" == rig.texts(page)[-1]
    assert [] == rig.elsewhere(asked)


def test_broker_is_paused_and_resumed(
    page: Page, stage: Stage, lab: rig.Lab, tmp_path: Path
) -> None:
    """The keyboard reaches each button, and keeps its place when the state changes."""
    rig.open_notebook(page, lab, lab.write("pause.ipynb", BEGIN.format(stage=stage), SHOW))
    rig.run_all(page)
    panel = shown(page)
    panel.get_by_role("button", name="pause broker 1").press("Enter")
    panel.get_by_text("Broker 1 is paused.").wait_for()
    panel.screenshot(path=tmp_path / "paused.png")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    panel.get_by_text("Broker 1 is running again.").wait_for()

    assert "resume broker 1" == page.evaluate("document.activeElement.ariaLabel")


def test_stage_that_has_ended_is_said_in_words(page: Page, lab: rig.Lab) -> None:
    """A panel whose stage is closed says what to do."""
    end = 'gone = Lab("gone")'
    path = lab.write("gone.ipynb", "from lab_utils import Lab\n" + end, "gone.panel()")
    rig.open_notebook(page, lab, path)
    rig.run_all(page)
    panel = shown(page)
    rig.run_in_kernel(page, "gone.close()")

    rig.wait_for_text(page, panel.inner_text, "Run the notebook's first cell again")
    assert "Not connected." in panel.inner_text()


def test_panel_outlives_its_kernel(page: Page, stage: Stage, lab: rig.Lab) -> None:
    """The stage and the panel's way to it do not need the kernel that made them."""
    rig.open_notebook(page, lab, lab.write("restart.ipynb", BEGIN.format(stage=stage), SHOW))
    rig.run_all(page)
    panel = shown(page)
    rig.wait_for_idle(page)
    rig.end_kernel(page)
    panel.get_by_role("button", name="Drop the next Produce request").click()

    rig.wait_for_text(page, panel.inner_text, 'drop_request("Produce") is armed, and has not')


def test_kernel_is_the_other_way(
    page: Page, stage: Stage, lab_without_proxy: rig.Lab, asked: list[str], tmp_path: Path
) -> None:
    """Without jupyter-server-proxy the kernel does what is clicked, when its cell is done."""
    path = lab_without_proxy.write("kernel.ipynb", BEGIN.format(stage=stage), SHOW, WAIT)
    rig.open_notebook(page, lab_without_proxy, path)
    rig.run_all(page)
    panel = page.locator(".lab-panel")
    panel.get_by_text("The kernel is busy").wait_for()
    panel.get_by_role("button", name="Refuse the next").click()
    (lab_without_proxy.folder / "go").touch()
    rig.wait_for_text(page, panel.inner_text, 'refuse("Produce") is armed, and has not fired')
    rig.wait_for_text(page, panel.inner_text, "Connected through the kernel")
    panel.screenshot(path=tmp_path / "dark.png")

    assert [] == rig.elsewhere(asked)


def test_links_and_brokers_of_three(
    page: Page, stage_of_three: Stage, lab: rig.Lab, tmp_path: Path
) -> None:
    """A link is cut and a broker killed while a cell is running; the roles follow."""
    (lab.folder / "go").unlink(missing_ok=True)
    path = lab.write("three.ipynb", THREE.format(stage=stage_of_three), SHOW, WAIT)
    rig.open_notebook(page, lab, path)
    rig.run_all(page)
    panel = shown(page)
    panel.get_by_text("in the ISR of").first.wait_for()
    panel.get_by_role("button", name="cut link 2-3").click()
    panel.get_by_role("button", name="kill broker 1").click()
    panel.get_by_role("group", name="link 2-3").get_by_text("cut", exact=True).first.wait_for()
    rig.wait_for_text(page, panel.inner_text, "leads 0, in the ISR of 0 of")
    followers = stage_of_three.state()["brokers"][1:]
    roles = [f"leads {it['leads']}, in the ISR of {it['in_sync']} of" for it in followers]
    for role in roles:
        rig.wait_for_text(page, panel.inner_text, role)
    panel.screenshot(path=tmp_path / "three.png")
    (lab.folder / "go").touch()
    rig.wait_for_idle(page)

    assert any(broker["leads"] for broker in followers)
