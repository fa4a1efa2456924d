"""The kernel's half of the panel: what the browser is given, and what it may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab_utils.proxy.faults import (
    Fault,
    corrupt_request,
    delay_response,
    drop_request,
    drop_response,
    refuse,
    to_json,
)
from lab_utils.stage.client import Stage
from lab_utils.views.panel import PANEL_FAULTS, Panel, panel, tell_closed

SENTENCES = [
    (drop_response("Produce"), "Drop the next answer to a Produce request"),
    (drop_response("OffsetCommit"), "Drop the next answer to an OffsetCommit request"),
    (drop_request("Fetch", nth=3), "Drop the 3rd next Fetch request"),
    (corrupt_request("Produce", once=False), "Flip one byte of each Produce request"),
    (refuse("Produce"), "Refuse the next Produce request with NOT_ENOUGH_REPLICAS"),
    (delay_response("Produce", by_ms=2500), "Hold the next answer to a Produce request for 2.5 s"),
    (drop_request("Produce", topic="bills"), 'drop_request("Produce", topic="bills")'),
]
STATE = {"method": "GET", "path": "/state"}
HOSTILE: list[dict[str, Any]] = [
    {},
    {"method": "POST", "path": "/shutdown"},
    {"method": "GET", "path": "http://127.0.0.1:9/state"},
    {"method": "GET", "path": "/log?topic=03-a-orders"},
    {"method": ["GET"], "path": "/state"},
    {"method": "GET", "path": "/state\n"},
    {"method": "DELETE", "path": "/faults"},
    {"method": "DELETE", "path": "/faults/../runs/03-a"},
    {"method": "GET", "path": "/events?after=x"},
]


def gone_stage() -> Stage:
    """A stage that has ended: nobody listens on its port."""
    address = {"url": "http://127.0.0.1:9", "token": "t", "pid": 0, "brokers": 1}
    return Stage("03", {**address, "bootstrap": "", "direct": ""})


gone = pytest.fixture(gone_stage, name="gone")


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Callable[[Panel, object], list[Any]]:
    """Hand a message of the browser to a panel; return what it answers."""

    def told(shown: Panel, message: object) -> list[Any]:
        answers: list[Any] = []
        monkeypatch.setattr(
            shown.comm,
            "publish_msg",
            lambda _, data, **__: answers.append(data.get("content", data)),
        )
        shown._handle_custom_msg(message, [])
        return answers

    return told


@pytest.mark.parametrize(("fault", "sentence"), SENTENCES)
def test_fault_is_said_in_a_sentence(fault: Fault, sentence: str) -> None:
    """A button says what its fault will do, and what narrows it down is never left out."""
    assert sentence == fault.words


def test_browser_is_given_the_way_to_the_stage(gone: Stage) -> None:
    """The widget holds port, token and buttons before any message has been exchanged."""
    shown = Panel(gone, [drop_response("Produce")])

    assert ("03", 9, "t") == (shown.lab, shown.port, shown.token)
    assert ['drop_response("Produce")'] == [button["code"] for button in shown.faults]


def test_repeated_cell_shows_the_same_widget(gone: Stage) -> None:
    """A cell that is run again makes no second widget, unless the first was closed."""
    first, second = panel(gone), panel(gone)
    first.close()

    assert first is second
    assert first is not panel(gone)


def test_stage_that_has_ended_is_said_in_words(gone: Stage, tell: Any) -> None:
    """The answer of a stage that is gone names the command that fixes it."""
    shown = Panel(gone)
    (not_there,) = tell(shown, {"number": 1, **STATE})
    gone._http.close()
    (closed,) = tell(shown, {"number": 2, **STATE})

    assert "Run the notebook's first cell again" in not_there["error"]
    assert "Run the notebook's first cell again" in closed["error"]


def test_start_that_is_interrupted_is_answered(gone: Stage, tell: Any) -> None:
    """Kernel, Interrupt while a lab is starting: the browser does not wait for ever."""

    def start() -> Stage:
        raise KeyboardInterrupt

    *_, answer = tell(Panel(gone, start=start), {"number": 1, "verb": "again"})

    assert "interrupted" in answer["error"]


def test_panel_is_told_that_its_lab_is_closed(gone: Stage) -> None:
    """It is told of its own stage alone; a lab without a panel is closed as well."""
    shown, other = panel(gone), Panel(gone)
    tell_closed(gone_stage())
    before = shown.closed
    tell_closed(gone)

    assert (False, True, False) == (before, shown.closed, other.closed)


@pytest.mark.parametrize("message", ["text", None, [], {}, STATE, {"number": "1"}])
def test_message_without_a_number_is_left_alone(gone: Stage, tell: Any, message: object) -> None:
    """What no panel sends is neither done nor answered."""
    assert [] == tell(Panel(gone), message)


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_message_is_refused(gone: Stage, tell: Any, message: dict[str, Any]) -> None:
    """What a panel may not ask for is answered in words, and the stage is not asked."""
    (answer,) = tell(Panel(gone), {"number": 1, **message})

    assert "BadArgument" == answer["kind"]


@pytest.fixture
def ask(tell: Any) -> Callable[..., Any]:
    """Let a panel pass a request on; return what the stage said."""
    return lambda shown, method, path, body=None: tell(
        shown, {"number": 1, "method": method, "path": path, "body": body}
    )[0]["said"]


@pytest.mark.kafka
def test_kernel_passes_on_what_is_clicked(stage: Any, ask: Any) -> None:
    """A button's fault is armed for every client and taken off; a broker pauses and goes on."""
    shown = Panel(stage, PANEL_FAULTS)
    ask(shown, "POST", "/faults", {"run": "", "fault": shown.faults[0]["fault"]})
    (armed,) = ask(shown, "GET", "/state")["faults"]
    ask(shown, "DELETE", f"/faults/{armed['id']}")
    paused = ask(shown, "POST", "/brokers/1/pause")
    healed = ask(shown, "POST", "/reset")
    news = ask(shown, "GET", f"/events?after={paused['seen']}")["events"]

    assert ("", to_json(PANEL_FAULTS[0])) == (armed["run"], armed["fault"])
    assert ([], "paused") == (paused["faults"], paused["brokers"][0]["state"])
    assert "running" == healed["brokers"][0]["state"]
    assert ["resumed"] == [event["kind"] for event in news]


def links(state: dict[str, Any]) -> list[tuple[list[int], str]]:
    return [(each["brokers"], each["state"]) for each in state["links"]]


@pytest.mark.kafka
def test_links_and_brokers_of_three(stage_of_three: Any, ask: Any) -> None:
    """A link or a broker is what the panel says it is, the others are left alone, reset heals."""
    shown = Panel(stage_of_three)
    *done, paused, healed = [ask(shown, "POST", path) for path in (
        "/links/2/1/cut", "/links/1/2/hold", "/links/1/2/heal", "/links/1/3/cut",
        "/brokers/3/pause", "/reset",
    )]  # fmt: skip
    states = [[each["state"] for each in it["brokers"]] for it in (paused, healed)]

    assert [[([1, 2], "cut")], [([1, 2], "held")], [], [([1, 3], "cut")]] == list(map(links, done))
    assert [["running", "running", "paused"], ["running"] * 3] == states
    assert [] == links(healed)
