"""Answers of the stage's HTTP server that are as long as they take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.netutil import bind_sockets

from lab_utils.stage import routes
from lab_utils.stage.routes import PIECE, PROCESSING, http_server
from tests.called import result_of

ROWS = 3 * [{"batch": "x" * PIECE}]
ASKED = (
    b"GET /log?topic=a HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Lab-Token: t\r\nConnection: close\r\n\r\n"
)


def port_of(batches: Iterable[dict[str, Any]]) -> int:
    """A port of this process where these are the batches of every topic."""
    cluster: Any = SimpleNamespace(batches=lambda _: batches)
    end: Any = SimpleNamespace(is_over=False)
    (bound,) = bind_sockets(0, "127.0.0.1")
    http_server(cluster, end, "own", "t").add_sockets([bound])
    port: int = bound.getsockname()[1]
    return port


def test_nothing_is_told_within_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is slow is sent no sign of life between the pieces of its answer."""
    monkeypatch.setattr(routes, "SIGN_S", 0)

    async def asked() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(ROWS))
        writer.write(ASKED)
        return await reader.read()

    answer = result_of(asked())

    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert PROCESSING not in answer
    assert answer.count(b"x" * PIECE) == len(ROWS)
