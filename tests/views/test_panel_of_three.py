"""The kernel's half of the panel on three real brokers: tiles and links."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils.views.panel import Panel

pytestmark = pytest.mark.kafka


@pytest.fixture
def shown(stage_of_three: Any) -> Panel:
    """A panel on three brokers."""
    return Panel(stage_of_three)


def links(answer: dict[str, Any]) -> list[tuple[list[int], str]]:
    return [(each["brokers"], each["state"]) for each in answer["state"]["links"]]


def test_link_is_cut_held_and_healed(shown: Panel) -> None:
    """A link is what the panel says it is, and the others are left alone."""
    cut = shown.perform({"verb": "cut", "link": [2, 1]})
    held = shown.perform({"verb": "hold", "link": [1, 2]})
    healed = shown.perform({"verb": "heal", "link": [1, 2], "after": held["state"]["seen"]})

    assert [([1, 2], "cut")] == links(cut)
    assert [([1, 2], "held")] == links(held)
    assert [] == links(healed)
    assert ["link_open"] == [event["kind"] for event in healed["events"]]


def test_broker_is_killed_and_started_again(shown: Panel) -> None:
    """Each broker has its own verbs; what one suffers does not touch the others."""
    killed = shown.perform({"verb": "kill", "broker": 2})["state"]["brokers"]
    started = shown.perform({"verb": "start", "broker": 2})["state"]["brokers"]

    assert ["running", "stopped", "running"] == [broker["state"] for broker in killed]
    assert ["running"] * 3 == [broker["state"] for broker in started]


def test_reset_makes_all_whole(shown: Panel) -> None:
    """One button mends brokers and links."""
    shown.perform({"verb": "cut", "link": [1, 3]})
    shown.perform({"verb": "pause", "broker": 3})
    healed = shown.perform({"verb": "reset"})

    assert [] == links(healed)
    assert ["running"] * 3 == [broker["state"] for broker in healed["state"]["brokers"]]
