"""The kernel's half of the panel: what the browser is given, and what it may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab_utils.errors import BadArgument
from lab_utils.lab import PANEL_FAULTS
from lab_utils.proxy.faults import (
    Fault,
    corrupt_request,
    delay_response,
    drop_request,
    drop_response,
    from_json,
    refuse,
    to_json,
)
from lab_utils.stage.client import Stage
from lab_utils.views.panel import Panel, panel

SENTENCES = [
    (drop_response("Produce"), "Drop the next answer to a Produce request"),
    (drop_response("OffsetCommit"), "Drop the next answer to an OffsetCommit request"),
    (drop_request("Fetch", nth=3), "Drop the 3rd next Fetch request"),
    (corrupt_request("Produce", once=False), "Flip one byte of each Produce request"),
    (refuse("Produce"), "Refuse the next Produce request with NOT_ENOUGH_REPLICAS"),
    (
        delay_response("Produce", by_ms=2500),
        "Hold the next answer to a Produce request for 2.5 s",
    ),
    (drop_request("Produce", topic="bills"), 'drop_request("Produce", topic="bills")'),
]
HOSTILE: list[dict[str, Any]] = [
    {"verb": "shutdown"},
    {"verb": ["arm"]},
    {"verb": "arm", "fault": 99},
    {"verb": "arm", "fault": -1},
    {"verb": "arm", "fault": True},
    {"verb": "arm", "fault": {"fault": "drop_request", "api": "Fetch"}},
    {"verb": "disarm", "id": "../runs/03-a"},
    {"verb": "disarm", "id": None},
    {"verb": "kill", "broker": "1"},
    {"verb": "pause", "broker": 7},
    {"verb": "cut"},
    {"verb": "cut", "link": "12"},
    {"verb": "cut", "link": [1, 1]},
    {"verb": "hold", "link": [1, True]},
    {"verb": "heal", "link": [1, 2, 3]},
    {"verb": "cut", "link": [1, 7]},
    {"verb": "state", "after": "0"},
    {},
]


@pytest.fixture
def gone() -> Stage:
    """A stage that has ended: nobody listens on its port."""
    address = {"url": "http://127.0.0.1:9", "token": "t", "pid": 0, "brokers": 1}
    return Stage("03", {**address, "bootstrap": "", "direct": ""})


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


@pytest.mark.parametrize("fault", PANEL_FAULTS)
def test_button_arms_the_fault_that_it_names(fault: Fault) -> None:
    """What the browser sends for a button is the fault whose call stands on it."""
    assert fault == from_json(to_json(fault))
    assert repr(fault) == fault.code.replace('"', "'")


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
    (not_there,) = tell(shown, {"number": 1, "verb": "state"})
    gone._http.close()
    (closed,) = tell(shown, {"number": 2, "verb": "state"})

    assert "Run the notebook's first cell again" in not_there["error"]
    assert "Run the notebook's first cell again" in closed["error"]


@pytest.mark.parametrize("message", ["text", None, [], {}, {"verb": "reset"}, {"number": "1"}])
def test_message_without_a_number_is_left_alone(gone: Stage, tell: Any, message: object) -> None:
    """What no panel sends is neither done nor answered."""
    assert [] == tell(Panel(gone), message)


@pytest.mark.kafka
@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_message_is_refused(stage: Any, tell: Any, message: dict[str, Any]) -> None:
    """What a panel may not ask for is answered in words, and nothing is armed or stopped."""

    def of_the_panel() -> list[object]:
        """Armed faults and brokers; others may speak to these meanwhile."""
        state = stage.state()
        return [state["faults"], *(broker["state"] for broker in state["brokers"])]

    before = of_the_panel()
    (answer,) = tell(Panel(stage, PANEL_FAULTS), {"number": 1, **message})

    assert "BadArgument" == answer["kind"]
    assert before == of_the_panel()


@pytest.mark.kafka
def test_kernel_arms_and_disarms(stage: Any) -> None:
    """A fault of the panel is armed for every client, and taken off by its id."""
    shown = Panel(stage, PANEL_FAULTS)
    (armed,) = shown.perform({"verb": "arm", "fault": 0})["state"]["faults"]
    left = shown.perform({"verb": "disarm", "id": armed["id"]})["state"]["faults"]

    assert ("", to_json(PANEL_FAULTS[0])) == (armed["run"], armed["fault"])
    assert [] == left


@pytest.mark.kafka
def test_kernel_pauses_and_heals(stage: Any) -> None:
    """A broker does what the panel says, and reset makes it run again."""
    shown = Panel(stage, PANEL_FAULTS)
    paused = shown.perform({"verb": "pause", "broker": 1})
    healed = shown.perform({"verb": "reset", "after": paused["state"]["seen"]})

    assert "paused" == paused["state"]["brokers"][0]["state"]
    assert "running" == healed["state"]["brokers"][0]["state"]
    assert ["resumed"] == [event["kind"] for event in healed["events"]]


@pytest.mark.kafka
def test_panel_refuses_what_no_fault_of_it_is(stage: Any) -> None:
    """A panel without buttons arms nothing."""
    with pytest.raises(BadArgument, match="this panel has 0 faults"):
        Panel(stage).perform({"verb": "arm", "fault": 0})


def links(answer: dict[str, Any]) -> list[tuple[list[int], str]]:
    return [(each["brokers"], each["state"]) for each in answer["state"]["links"]]


@pytest.mark.kafka
def test_link_is_cut_held_and_healed(stage_of_three: Any) -> None:
    """A link is what the panel says it is, and the others are left alone."""
    shown = Panel(stage_of_three)
    cut = shown.perform({"verb": "cut", "link": [2, 1]})
    held = shown.perform({"verb": "hold", "link": [1, 2]})
    healed = shown.perform({"verb": "heal", "link": [1, 2], "after": held["state"]["seen"]})

    assert [([1, 2], "cut")] == links(cut)
    assert [([1, 2], "held")] == links(held)
    assert [] == links(healed)
    assert ["link_open"] == [event["kind"] for event in healed["events"]]


@pytest.mark.kafka
def test_broker_is_killed_and_started_again(stage_of_three: Any) -> None:
    """Each broker has its own verbs; what one suffers does not touch the others."""
    shown = Panel(stage_of_three)
    killed = shown.perform({"verb": "kill", "broker": 2})["state"]["brokers"]
    started = shown.perform({"verb": "start", "broker": 2})["state"]["brokers"]

    assert ["running", "killed", "running"] == [broker["state"] for broker in killed]
    assert ["running"] * 3 == [broker["state"] for broker in started]


@pytest.mark.kafka
def test_reset_makes_all_whole(stage_of_three: Any) -> None:
    """One button repairs brokers and links."""
    shown = Panel(stage_of_three)
    shown.perform({"verb": "cut", "link": [1, 3]})
    shown.perform({"verb": "pause", "broker": 3})
    healed = shown.perform({"verb": "reset"})

    assert [] == links(healed)
    assert ["running"] * 3 == [broker["state"] for broker in healed["state"]["brokers"]]
