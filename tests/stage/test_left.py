"""A stage that was left says so, however it is asked."""

from __future__ import annotations

import pytest

from lab_utils.errors import StageError
from lab_utils.stage.client import Stage


def test_a_stage_that_was_left() -> None:
    """After lab.close() every call says what to do; to close again does nothing."""
    address = {"url": "http://127.0.0.1:1", "token": "x", "pid": 1, "brokers": 1}
    stage = Stage("left", {**address, "bootstrap": "127.0.0.1:2", "direct": "127.0.0.1:3"})
    stage.leave()

    with pytest.raises(StageError, match=r"lab\.close\(\).*first cell again"):
        stage.state()
    stage.shutdown()
