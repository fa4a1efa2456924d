"""The panel's module in a real browser, on a page without Jupyter: a stage is played to it.

What comes back as an answer is hostile, or late, or nothing; the real stage is in tests/browser.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from lab_utils.proxy.faults import Fault, cut_link, drop_response, kill_broker, to_json
from lab_utils.views.panel import PANEL_FAULTS, Panel
from tests.views.test_panel import gone_stage

pytestmark = pytest.mark.browser

LINK = {"brokers": [2, 3], "state": "cut"}
HOSTILE = '<img src=x onerror="window.hurt = 1"><b>0</b>'
# A kernel, and a place that anywidget would give. It answers with `answer`, the part that is asked
# for, and a click with `after`; a state in it holds from then on, as a stage's does.
SETTING = """async ([module, traits]) => {
    const widget = (await load(module)).default();
    window.sent = [];
    window.hear = new Set();
    const heard = {};
    const changes = name => heard[name] ??= new Set();
    window.set = (name, value) => {
        traits[name] = value;
        changes(`change:${name}`).forEach(hear => hear());
    };
    window.model = {
        get: name => traits[name],
        on: (name, hear) => (name === "msg:custom" ? window.hear : changes(name)).add(hear),
        off: (_, hear) => window.hear.delete(hear),
        send: message => {
            window.sent.push(message);
            const after = message.method === "POST" && window.after;
            window.answer = after?.state ? after : window.answer;
            const { state, events, ...error } = after || window.answer || {};
            const said = message.path?.startsWith("/events") ? { events } : state;
            const answer = { number: message.number, said, ...error };
            if (window.answer) window.hear.forEach(hear => hear(answer));
        },
    };
    window.life = new AbortController();
    widget.initialize({ model, signal: window.life.signal });
    window.show = () => {
        const view = new AbortController();
        widget.render({ model, el: place(), signal: view.signal });
        return view;
    };
    window.views = [window.show()];
}"""


def answer(*events: dict[str, Any], **state: Any) -> dict[str, Any]:
    """What a kernel says: one broker that runs, nothing armed, and these events."""
    brokers = [{"id": 1, "state": "running", "connections": 0}]
    numbered = [
        {"number": 1 + number, "at_ns": number * 1_000_000, **event}
        for number, event in enumerate(events)
    ]
    known = {"brokers": brokers, "faults": [], "seen": len(events), **state}
    return {"state": known, "events": numbered}


def armed(fault: Fault) -> dict[str, Any]:
    return {"run": "", "fault": to_json(fault), "code": fault.code}


def wire(kind: str, **columns: Any) -> dict[str, Any]:
    """A frame as the stage tells of it."""
    place = {"connection": "b1-1", "broker": "1"}
    said = {"source": "wire", "kind": kind, "actor": "producer-1", "api": "Produce"}
    return {**said, "correlation_id": 4, "fate": "forwarded", "detail": place, **columns}


def show(page: Page, said: dict[str, Any] | None, after: dict[str, Any] | None = None) -> str:
    """Show a panel whose kernel gives this answer, and to a click the one `after` it.

    Returns its text, once it has the first.
    """
    shown = Panel(gone_stage(), PANEL_FAULTS)
    names = ("lab", "port", "token", "faults", "left", "styles")
    page.evaluate("given => Object.assign(window, given)", {"answer": said, "after": after})
    page.evaluate(SETTING, [shown._esm, {name: getattr(shown, name) for name in names}])
    page.add_style_tag(content=shown._css)
    page.wait_for_selector("text=Connected through the kernel" if said else "text=not known")
    return page.locator("body").inner_text()


def test_each_control_has_a_name(page: Page) -> None:
    """Who cannot see the panel hears its name, each button's, and each change.

    On a stage with one broker there is neither a link nor a role to show.
    """
    text = show(page, answer())
    tree = page.locator("body").aria_snapshot()

    assert 'region "Panel of lab 03"' in tree
    assert 'button "pause broker 1"' in tree
    assert 'button "Drop the next answer to a Produce request, drop_response' in tree
    assert "- status:" in tree
    assert "Links between brokers" not in text
    assert "in the ISR" not in text


def told(page: Page) -> list[str]:
    """The steps that are drawn, in words."""
    return page.locator(".steps .text").all_text_contents()


def orders(run: str, *values: int) -> list[dict[str, Any]]:
    """Orders of a run that went through, each with its answer."""
    return [
        wire(kind, run=run, correlation_id=value, fate="forwarded",
             **({"value": str(value), "records": 1} if kind == "request" else {"offset": value}))
        for value in values for kind in ("request", "response")
    ]  # fmt: skip


FATES = {
    "the answer is dropped": (
        [wire("request", value="2", records=1), wire("response", fate="dropped")],
        ["producer-1 → broker 1: order 2",
         "broker 1 → proxy: answer to order 2: ok, dropped by the proxy"],
    ),
    "the request is dropped": (
        [wire("request", value="2", records=1, fate="dropped"), wire("closed")],
        ["producer-1 → proxy: order 2, dropped by the proxy"],
    ),
    "the client has given up": (
        [wire("request", value="2", records=1), wire("response", fate="undelivered")],
        ["producer-1 → broker 1: order 2",
         "broker 1 → proxy: answer to order 2: ok, came when the client had gone"],
    ),
    "it is refused, and counted once": (
        [wire("request", value="2", records=1, fate="dropped"),
         wire("response", fate="replaced", error="NOT_ENOUGH_REPLICAS")],
        ["producer-1 → proxy: order 2, answered by the proxy",
         "proxy → producer-1: answer to order 2: NOT_ENOUGH_REPLICAS, answered by the proxy"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "steps"), FATES.values(), ids=FATES)
def test_fate_is_said_in_words(page: Page, events: list[dict[str, Any]], steps: list[str]) -> None:
    """Each step says what the proxy did, as the legend does; one that ends there, ends it."""
    text = show(page, answer(*({**event, "run": "03-a"} for event in events)))

    assert steps == told(page)
    assert "Run 03-a: 1 request, 1 broken" in text
    assert steps[-1].rpartition(", ")[2] in text


def test_what_a_consumer_leaves_behind_is_not_broken(page: Page) -> None:
    """It closes with a Fetch under way, to which the broker answers when it has gone."""
    left = [wire("request", api="Fetch"), wire("response", api="Fetch", fate="undelivered")]
    events = ({**event, "run": "03-a", "actor": "consumer-1"} for event in left)
    text = show(page, answer(*events))

    assert "Run 03-a: 1 request, none broken" in text
    assert told(page)[-1].endswith("came when the client had gone")


def test_what_was_broken_stays_on_top(page: Page) -> None:
    """The lost answer and its retry stay above the latest requests, however many come after."""
    lost = wire("response", run="03-a", correlation_id=1, fate="dropped", offset=1)
    again = wire("request", run="03-a", correlation_id=40, value="1", records=1)
    events = [*orders("03-a", 0, 1)[:-1], lost, again, *orders("03-a", *range(2, 30))]
    text = show(page, answer(*events))

    first = [step for step in told(page) if "…" not in step][:3]
    assert [
        "producer-1 → broker 1: order 1",
        "broker 1 → proxy: answer to order 1: @1, dropped by the proxy",
        "producer-1 → broker 1: ↻order 1",
    ] == first
    assert "broker 1 → producer-1: answer to order 29: @29" == told(page)[-1]
    assert "Run 03-a: 31 requests, 1 broken" in text


def test_only_this_run_is_counted(page: Page) -> None:
    """What an earlier run did is gone as soon as the next one begins."""
    lost = wire("request", run="03-a", correlation_id=9, value="9", records=1, fate="dropped")
    text = show(page, answer(*orders("03-a", 0, 1), lost, *orders("03-b", 7)))

    assert "Run 03-b: 1 request, none broken" in text
    assert not any("order 9" in step for step in told(page))


def test_count_says_when_events_are_missing(page: Page) -> None:
    """A stage keeps its latest events only: who comes too late for some says "at least"."""
    said = answer(*orders("03-a", 0, 1))
    show(page, said)
    later = answer(*orders("03-a", *range(2, 9)))
    later["state"]["seen"] += 50
    for event in later["events"]:
        event["number"] += 50
    page.evaluate(f"window.answer = {json.dumps(later)}")

    page.wait_for_selector("text=Run 03-a: at least 9 requests, none broken")


def test_requests_of_other_apis_are_folded(page: Page) -> None:
    """Metadata is counted, and shown when it is asked for."""
    other = wire("request", run="03-a", api="Metadata", correlation_id=1)
    show(page, answer(other, *orders("03-a", 2)))
    before = told(page)
    page.get_by_label("Also the 1 other requests").check()

    assert not any("Metadata" in step for step in before)
    assert any("Metadata" in step for step in told(page))


def test_broker_that_is_killed_is_drawn(page: Page) -> None:
    """What a button does to a broker is a mark on its lane, between the requests."""
    killed = {"source": "broker", "actor": "broker-1", "kind": "killed", "run": ""}
    show(page, answer(*orders("03-a", 0), killed))

    assert "broker 1 is killed" == told(page)[-1]
    assert 1 == page.locator(".picture .down").count()


@pytest.mark.parametrize(
    ("fired", "expected", "other"),
    [((), None, "fired"), ((0,), "armed", "fired"), ((1,), "fired once", "armed"),
     ((1, 0), "armed", "fired")],
)  # fmt: skip
def test_fault_is_armed_or_has_fired(
    page: Page, fired: tuple[int, ...], expected: str | None, other: str
) -> None:
    """A button says one of the two; what has fired and is armed again is armed."""
    fault = armed(drop_response("Produce"))
    faults = [{**fault, "id": f"f{it}", "fired": it, "matched": 1} for it in fired]
    show(page, answer(faults=faults))
    button = page.get_by_role("button", name="Drop the next answer")

    assert expected is None or expected in button.inner_text()
    assert other not in button.inner_text()
    assert str(expected == "armed").lower() == button.get_attribute("aria-pressed")


def test_closed_lab_offers_to_start_again(page: Page) -> None:
    """When the stage has ended the panel says so, and its button asks the kernel for another."""
    show(page, answer())
    page.evaluate('window.answer = { error: "no stage", kind: "StageError" }')
    page.wait_for_selector("text=This lab is closed: Kafka has ended.")
    hidden = page.get_by_role("button", name="kill broker 1").count()
    page.get_by_role("button", name="Start the lab again").click()

    assert 0 == hidden
    assert "again" in page.evaluate("window.sent.map(message => message.verb)")


def test_panel_that_is_told_asks_no_more(clocked: Page) -> None:
    """Told that its lab is closed it says so, keeps the picture of the last run, and asks nothing.

    Told that the lab has started again it follows again.
    """
    show(clocked, answer(*orders("03-a", 0)))
    clocked.evaluate("window.set('closed', true)")
    clocked.wait_for_selector("text=This lab is closed: Kafka has ended.")
    before = clocked.evaluate("window.sent.length")
    clocked.clock.run_for(60_000)
    after = clocked.evaluate("window.sent.length")
    steps = told(clocked)
    clocked.evaluate("window.set('closed', false)")

    assert before == after
    assert 2 == len(steps)
    clocked.wait_for_selector("text=Connected through the kernel")


def test_panel_that_saw_no_run_says_so(page: Page) -> None:
    """One that is first looked at when its lab is closed draws no lanes, and says what to press."""
    show(page, None)
    page.evaluate("window.set('closed', true)")
    page.wait_for_selector("text=This lab is closed: Kafka has ended.")
    text = page.locator("body").inner_text()

    assert "No run to show" in text
    assert 'Press "Start the lab again"' in text
    assert "No run yet" not in text
    assert page.locator(".picture").is_hidden()


def test_hostile_text_is_text(page: Page) -> None:
    """Markup in a value, a client, an error, a state or a link is shown letter by letter."""
    events = (
        wire("request", actor=HOSTILE, value=HOSTILE, records=1, topic=HOSTILE),
        wire("response", error=HOSTILE),
    )
    brokers = [{"id": HOSTILE, "state": "running", "leads": HOSTILE}, {"id": 2, "state": HOSTILE}]
    links = [{"brokers": [HOSTILE, 2], "state": HOSTILE}]
    faults = [{"id": HOSTILE, "run": HOSTILE, "fault": {"fault": HOSTILE, "api": HOSTILE}}]
    text = show(page, answer(*events, brokers=brokers, faults=faults, links=links))

    assert text.count("<img src=x") >= 10
    assert 0 == page.locator(".lab-panel img, .lab-panel b").count()
    assert page.evaluate("window.hurt === undefined")


def test_refusal_is_shown(page: Page) -> None:
    """What the kernel refuses is told in its own words, and the panel goes on."""
    show(page, answer(), after={"error": "broker 1 is busy.", "kind": "StageError"})
    page.get_by_role("button", name="kill broker 1").click()

    page.wait_for_selector("text=Not done: broker 1 is busy.")


def test_armed_fault_is_disarmed(page: Page) -> None:
    """A second click on a fault that waits takes it back; two would meet the same request."""
    fault = armed(PANEL_FAULTS[0]) | {"id": "f1", "fired": 0, "matched": 0}
    show(page, answer(faults=[fault]))
    page.get_by_role("button", name="Drop the next answer").click()
    page.wait_for_selector("text=is disarmed")
    sent = page.evaluate("window.sent.map(({ method, path }) => `${method} ${path}`)")

    assert "DELETE /faults/f1" in sent
    assert "POST /faults" not in sent


def test_views_share_what_is_known(clocked: Page) -> None:
    """Two views of one widget show the same, and ask once a second."""
    show(clocked, answer())
    clocked.evaluate("window.views.push(window.show())")
    before = clocked.evaluate("window.sent.length")
    clocked.clock.run_for(10_000)

    assert 2 == clocked.locator(".brokers .state").count()
    assert 10 == clocked.evaluate("window.sent.length") - before


def test_removed_view_asks_no_more(clocked: Page) -> None:
    """When the last view is removed nothing is asked, and nobody listens to the kernel.

    A view that comes after it is live, until the widget is closed.
    """

    def asked() -> int:
        before: int = clocked.evaluate("window.sent.length")
        clocked.clock.run_for(10_000)
        return clocked.evaluate("window.sent.length") - before

    show(clocked, answer())
    clocked.evaluate("window.views.forEach(view => view.abort())")
    removed = asked(), clocked.evaluate("window.hear.size")
    clocked.evaluate("window.views = [window.show()]")
    again = asked()
    clocked.evaluate("window.life.abort()")

    assert (0, 0) == removed
    assert again > 1
    assert 0 == asked()


def test_silent_kernel_is_said_in_words(page: Page) -> None:
    """A kernel that does not answer is busy, and the panel says what a click does then."""
    show(page, None)
    page.wait_for_selector("text=The kernel is busy: a click acts when the running cell is done.")

    assert page.get_by_text("not known").count() == 1


def test_narrow_page_scrolls_nothing_but_the_table(page: Page) -> None:
    """On a page as narrow as a phone the panel is as wide as the page."""
    page.set_viewport_size({"width": 380, "height": 700})
    show(page, answer(wire("request", value="2", records=1)))
    wide = page.evaluate("document.documentElement.scrollWidth")

    assert wide <= 380


def three(*, links: list[dict[str, Any]] | None = None, **first: Any) -> dict[str, Any]:
    """What a kernel says of three brokers: the first leads two partitions, all are in sync."""
    roles = {"connections": 0, "in_sync": 2, "replicates": 2}
    brokers = [
        {"id": broker, "state": "running", "leads": 2 if broker == 1 else 0, **roles}
        for broker in (1, 2, 3)
    ]
    brokers[0] |= first
    return answer(brokers=brokers, links=links or [])


def test_each_broker_and_each_pair_has_a_tile(page: Page) -> None:
    """A broker's has its state and its role, a link's its state, and only what fits is clicked."""
    show(page, three(state="paused", in_sync=1, links=[{"brokers": [1, 2], "state": "cut"}]))
    tiles = page.locator(".tiles > div").all_inner_texts()
    links = [text.split("\n") for text in page.locator(".links > div").all_inner_texts()]

    assert 3 == len(tiles)
    assert "paused" in tiles[0]
    assert "leads 2, in the ISR of 1 of 2 partitions" in tiles[0]
    assert "leads 0, in the ISR of 2 of 2 partitions" in tiles[1]
    assert ["link 1-2", "link 1-3", "link 2-3"] == [name.strip() for name, *_ in links]
    assert "cut" in links[0][1]
    assert page.get_by_role("button", name="cut link 1-2").is_disabled()
    assert page.get_by_role("button", name="heal link 1-2").is_enabled()
    assert page.get_by_role("button", name="heal link 1-3").is_disabled()


def test_click_cuts_a_link(page: Page) -> None:
    """The button of a link asks for that link, and its answer is shown."""
    show(page, three(), after=three(links=[LINK]))
    page.get_by_role("button", name="cut link 2-3").click()
    page.wait_for_selector("text=The link 2-3 is cut: what was in flight is lost.")

    asked = page.evaluate("window.sent.filter(({ method }) => method === 'POST')")
    assert ["/links/2/3/cut"] == [message["path"] for message in asked]
    assert page.get_by_role("button", name="heal link 2-3").is_enabled()


def test_what_does_not_fit_is_said_and_not_asked(page: Page) -> None:
    """A link that is open is not healed: the panel says so, and asks for nothing."""
    show(page, three())
    page.get_by_role("button", name="heal link 1-2").press("Enter")
    page.wait_for_selector("text=The link 1-2 is open: there is nothing to heal.")

    assert {"GET"} == set(page.evaluate("window.sent.map(message => message.method)"))


def test_fault_of_a_broker_is_named_by_its_call(page: Page) -> None:
    """A fault of a run that no button has is written as its call."""
    faults = [
        armed(fault) | {"id": str(at), "run": "02-a", "fired": 0, "matched": 0}
        for at, fault in enumerate((kill_broker(1, api="Produce", nth=3), cut_link(1, 2)))
    ]
    text = show(page, answer(faults=faults))

    assert 'kill_broker(1, api="Produce", nth=3' in text
    assert "cut_link(1, 2) of run 02-a" in text
