"""The explorer's module in a real browser, on a page without a kernel: runs come from a record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from lab_utils.ledger.events import Event
from lab_utils.views.explorer import CSS, MODULE
from lab_utils.views.explorer.choices import OFFERS
from lab_utils.views.explorer.run_data import run_data, styles
from lab_utils.views.explorer.sweep_table import Cell, grid
from tests.views import histories, replica_histories, transaction_histories

pytestmark = pytest.mark.browser

HOSTILE = '<img src=x onerror="window.hurt = 1"><b>0</b>'
CHOICE = {"idempotence": "false", "in_flight": "1", "fault": "the answer is lost", "nth": "3"}
SAFE = CHOICE | {"idempotence": "true"}
EXPLORE = """async ([module, given, runs]) => {
    const { explore, recorded } = await load(module);
    explore(place(), { ...given, source: recorded(runs) });
}"""
# A kernel that begins a run, and is restarted before it answers: its manager tells each model so.
RESTARTED = """async ([module, given]) => {
    const widget = (await load(module)).default();
    const heard = new Map();
    const model = {
        get: (name) => given[name],
        on: (name, hear) => heard.set(name, hear),
        off: (name, hear) => heard.get(name) === hear && heard.delete(name),
        send: ({ number }) => {
            heard.get("msg:custom")({ number, begun: true });
            setTimeout(() => heard.get("comm_live_update")?.());
        },
    };
    widget.initialize({ model });
    widget.render({ model, el: place() });
}"""
# A source that answers when the test says so: with a run, or that it cannot.
HELD = """async ([module, given]) => {
    const ask = (_, tell) =>
        new Promise((done, fail) => Object.assign(window, { done, fail, tell }));
    (await load(module)).explore(place(), { ...given, source: { ask } });
}"""
TABULATE = "async ([module, given]) => (await load(module)).tabulate(place(), given)"


def recorded(rows: list[Event], choice: dict[str, str], **more: Any) -> dict[str, Any]:
    return run_data(rows, choice=choice, code="run = lab.run(send_orders)\n", **more)


def given(*runs: dict[str, Any]) -> dict[str, Any]:
    """What an explorer of lab 03 with these runs is given."""
    return {"offer": OFFERS["03"].to_json(), "styles": styles(), "runs": list(runs)}


def show(page: Page, *runs: dict[str, Any], first: int = 1) -> None:
    """Show an explorer that has the first of these runs, and a source that has them all."""
    page.add_style_tag(content=CSS)
    page.evaluate(EXPLORE, [MODULE, given(*runs[:first]), list(runs)])
    page.wait_for_selector(".step.now")


def log(page: Page) -> list[str]:
    return page.locator(".log tbody tr").first.locator("td").all_inner_texts()


@pytest.fixture
def both(page: Page) -> Page:
    """The page with the duplicate of lab 03 on it, and the run with idempotence in the record."""
    lost = recorded(histories.lost_answer(), CHOICE, chosen=OFFERS["03"].words(CHOICE))
    show(page, lost, recorded(histories.recognised(), SAFE))
    return page


def test_kernel_that_is_restarted_within_a_run(page: Page) -> None:
    """Nobody answers any more: the explorer says what to press, and waits for no run."""
    page.evaluate(RESTARTED, [MODULE, given(recorded(histories.lost_answer(), CHOICE))])
    page.get_by_role("button", name="Run again").click()

    page.get_by_text("has ended or was restarted. Run the notebook's first cell").wait_for()
    assert 0 == page.locator(".lab-explorer[aria-busy]").count()


def test_a_run_that_takes_long_says_so(page: Page) -> None:
    """Whoever waits for a run is told why; what waits for the kernel is no run that takes long."""
    page.clock.install()
    page.evaluate(HELD, [MODULE, given(recorded(histories.lost_answer(), CHOICE))])
    page.get_by_role("button", name="Run again").click()
    status = page.locator(".status")
    page.clock.run_for(14_000)
    assert "A run is being made: a real client, a real broker." == status.inner_text()
    page.clock.run_for(2_000)
    assert status.inner_text().endswith("to end it now, press ■ in the toolbar.")
    page.evaluate("tell('The kernel is busy.')")
    page.clock.run_for(20_000)
    assert "The kernel is busy." == status.inner_text()


def test_choice_that_was_not_recorded_says_so(both: Page) -> None:
    """What the record does not have is said; the run that is shown stays, beside its own choice."""
    both.get_by_role("slider", name="At which Produce request?").press("Home")

    both.get_by_text("This choice was not recorded.").wait_for()
    said = both.locator(".status").inner_text()
    assert said.endswith("max.in.flight 1 · goes wrong: the answer is lost · at 3.")
    assert "2" == log(both)[3]


def test_without_a_run_the_first_is_made(page: Page) -> None:
    """An explorer that is given no run asks its source for the one of the first choices."""
    show(page, recorded(histories.lost_answer(), CHOICE), first=0)

    assert page.locator(".finding").inner_text().startswith("Order 2 was stored twice")


def test_earlier_run_comes_back_with_its_choices(both: Page) -> None:
    """A click on an earlier run shows it and what was chosen for it."""
    both.get_by_role("radio", name="true").check()
    both.get_by_text("the broker knew its sequence number").first.wait_for()
    both.locator(".earlier button").last.click()

    assert both.get_by_role("radio", name="false").is_checked()
    assert 6 == len(log(both))


def test_a_run_that_arrives_brings_its_choice(page: Page) -> None:
    """Also where an earlier run was looked at while it was made."""
    plain = recorded(histories.lost_answer(), CHOICE, chosen="idempotence false")
    safe = recorded(histories.recognised(), SAFE, chosen="idempotence true")
    page.evaluate(HELD, [MODULE, given(plain, safe)])
    page.get_by_role("button", name="Run again").click()
    page.locator(".earlier button").last.click()
    page.evaluate("run => done(run)", safe)
    page.wait_for_selector(".lab-explorer:not([aria-busy])")

    assert page.get_by_role("radio", name="true").is_checked()

    page.get_by_role("radio", name="false").check()
    page.evaluate("fail(new Error('The broker is away.'))")
    page.get_by_text("The broker is away.").wait_for()
    page.locator(".earlier button").last.click()

    assert "" == page.locator(".status").inner_text()


def test_arrow_is_a_handle(both: Page) -> None:
    """A click on an arrow goes to its step."""
    both.locator('.step[data-step="8"] .band').click()

    assert "The producer sends order 2 again." == both.locator(".said").inner_text()


def test_same_as_text(both: Page) -> None:
    """Who cannot see the diagram has its finding, and each step as a row of a table."""
    both.get_by_text("The same as text").click()
    rows = both.locator(".steps tbody tr").all_inner_texts()
    picture = both.get_by_role("img", name="Order 2 was stored twice: its answer was lost")

    assert 18 == len(rows)
    assert "8\t2.8\tbroker 1 → proxy\tBroker 1 has stored order 2" in rows[7]
    assert 1 == picture.count()


def test_code_is_shown(both: Page) -> None:
    """The program of the run that is shown stands below it, to be copied."""
    both.get_by_text("The code that does the same").click()

    assert "run = lab.run(send_orders)" == both.locator("pre").inner_text().strip()
    assert both.get_by_role("button", name="Copy").is_visible()


def test_hostile_text_is_text(page: Page) -> None:
    """Markup in an order, an error or a choice is shown letter by letter."""
    rows = [
        histories.sent(0, HOSTILE), histories.request(1, HOSTILE, 1),
        histories.response(2, 1, error=HOSTILE), histories.unknown(3, HOSTILE, HOSTILE),
        *histories.log(HOSTILE),
    ]  # fmt: skip
    show(page, recorded(rows, CHOICE | {"fault": HOSTILE}))

    assert 0 == page.locator(".lab-explorer img, .log b").count()
    assert page.evaluate("window.hurt === undefined")


@pytest.mark.parametrize(
    ("rows", "about", "width"),
    [(histories.hole, "orders", 390), (replica_histories.acked_alone, "replicas", 390),
     (replica_histories.acked_alone, "replicas", 290),
     (transaction_histories.torn, "transactions", 390)],
)  # fmt: skip
def test_narrow_page_does_not_scroll(page: Page, rows: Any, about: str, width: int) -> None:
    """On a phone nothing is wider than the page; no name is cut off, that of the last lane neither.

    In JupyterLab an explorer has 290 pixels there.
    """
    page.set_viewport_size({"width": width, "height": 800})
    show(page, recorded(rows(), CHOICE, about=about, apis=("Produce", "EndTxn")))
    ends = page.locator(".lane").evaluate_all(
        "all => all.map(it => it.getBoundingClientRect().right)"
    )

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert max(ends) <= page.locator(".heading").evaluate("it => it.getBoundingClientRect().right")
    assert not any("…" in name for name in page.locator(".lane").all_text_contents())


def test_cell_of_a_sweep_shows_its_run(page: Page) -> None:
    """Each cell says what became of the orders; a click shows the run step by step."""
    runs = [run_data(rows) for rows in (histories.last(), histories.calm(), histories.hole())]
    words = (("out of sequence",), ("stored once",), ("lost",))
    places = (("plain", "1"), ("plain", "2"), ("safe", "1"))
    cells = [
        Cell(setting, "corrupt_request(…)", nth, said, run)
        for (setting, nth), said, run in zip(places, words, runs, strict=True)
    ]
    cells.append(Cell("safe", "corrupt_request(…)", "2", ("stored once",), runs[1]))
    table = {"grid": grid(cells), "styles": styles(), "runs": [cell.data for cell in cells]}
    page.add_style_tag(content=CSS)
    page.evaluate(TABULATE, [MODULE, json.loads(json.dumps(table))])
    page.get_by_role("button", name="lost: safe; corrupt_request(…), nth=1").click()

    assert "Order 0 was acked and is not in the log" in page.locator(".finding").inner_text()
    assert 4 == page.locator(".sweep button").count()
