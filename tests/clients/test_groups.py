"""What is asked of the broker about groups: a question that is left open ends."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from lab_utils.clients import groups
from lab_utils.clients.groups import Groups
from lab_utils.errors import StageError


class Silent:
    """A client that takes questions and never answers, as librdkafka was seen to do."""

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        """A future that nobody will resolve."""
        return Future()


@pytest.mark.kafka
def test_another_client_is_asked(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is well: a new client has the answer."""
    monkeypatch.setattr(groups, "LOST_S", 3)
    asked = Groups(stage.direct)
    asked._opened = Silent()  # type: ignore[assignment]

    assert [] == asked.of("nobody")


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what was asked and what to do; a cell does not wait for ever."""
    monkeypatch.setattr(groups, "LOST_S", 0.01)
    monkeypatch.setattr(groups, "AdminClient", lambda _: Silent())
    with pytest.raises(StageError, match="asked 2 times for its consumer groups"):
        Groups("127.0.0.1:1").of("nobody")
