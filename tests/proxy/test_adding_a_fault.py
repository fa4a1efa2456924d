"""The page on adding a fault is true: its faults are run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab_utils.proxy.faults import Fault, from_json, to_json
from tests.proxy import wire
from tests.proxy.rig import Rig

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-fault.md"


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page's code defines; its faults are forgotten after the test."""
    monkeypatch.setattr(Fault, "kinds", dict(Fault.kinds))
    names: dict[str, Any] = {"__name__": __name__}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)
    return names


def test_fault_that_does_nothing(rig: Rig, page: dict[str, Any]) -> None:
    """It fires at the second Produce, and nobody notices."""
    rig.arm(page["do_nothing"]("Produce", nth=2))
    client = rig.client()
    client.send(wire.produce(1), wire.produce(2))

    assert [wire.produce_answer(1), wire.produce_answer(2)] == [client.receive() for _ in range(2)]
    assert [2] == [event.correlation_id for event in rig.events_of("fault", "fired")]
    assert [wire.produce(1), wire.produce(2)] == rig.received


def test_fault_with_a_parameter(rig: Rig, page: dict[str, Any]) -> None:
    """It has a repr and JSON of its own accord, and holds the answer."""
    fault = page["slow_answer"]("Produce", steps=2)
    rig.arm(from_json(to_json(fault)))
    client = rig.client()
    client.send(wire.produce(1))
    client.receive()
    (response,) = rig.events_of("wire", "response")

    assert "slow_answer('Produce', steps=2)" == repr(fault)
    assert 200_000_000 <= int(response.detail["released_at_ns"]) - response.at_ns
