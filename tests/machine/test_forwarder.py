"""The forwarder: what it leaves behind when it is stopped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lab_utils.machine.forwarder import Forwarder


def test_a_connection_that_comes_at_the_very_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins before it is cancelled; else Python prints a traceback in the middle of a class."""
    begun: list[str] = []
    last: list[Any] = []
    all_tasks = asyncio.all_tasks

    async def carry() -> None:
        begun.append("begun")
        await asyncio.Event().wait()

    def with_another() -> set[Any]:
        last[:] = last or [asyncio.ensure_future(carry())]
        return all_tasks()

    monkeypatch.setattr(asyncio, "all_tasks", with_another)
    forwarder = Forwarder({})
    forwarder.start()
    forwarder.stop()

    assert begun == ["begun"]
