"""A stage that was left says so, however it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils.errors import BadArgument, StageError
from lab_utils.stage.client import Brokers, Stage


def left() -> Stage:
    """The stage of a lab that was closed."""
    address = {"url": "http://127.0.0.1:1", "token": "x", "pid": 1, "brokers": 1}
    stage = Stage("left", {**address, "bootstrap": "127.0.0.1:2", "direct": "127.0.0.1:3"})
    stage.leave()
    return stage


@pytest.mark.parametrize("broker", [0, -1, 1.5, "x", None])
def test_a_broker_that_cannot_be(broker: Any) -> None:
    """It is refused before the stage is asked, which would know no such address."""
    with pytest.raises(BadArgument, match="broker must be a whole number from 1 to"):
        Brokers(left()).kill(broker)
    with pytest.raises(BadArgument, match="broker must be a whole number from 1 to"):
        Brokers(left()).cut_link(1, broker)


def test_a_topic_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, with where the names of the topics are."""
    monkeypatch.setattr(Stage, "partitions", lambda *_: [])
    with pytest.raises(BadArgument, match=r"no partition 0 of a topic 'x'.* is run\.topic"):
        Brokers(left()).leader("x")


def test_a_stage_that_was_left() -> None:
    """After lab.close() every call says what to do; to close again does nothing."""
    stage = left()

    with pytest.raises(StageError, match=r"lab\.close\(\).*first cell again"):
        stage.state()
    stage.shutdown()
