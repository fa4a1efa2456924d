"""A run on the shared stage, as a workload holds it in hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.clients.opened import Opened
from tests.clients.postgres import Server

NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL of the tests' own; a test that uses it is marked with needs_postgres."""
    server = Server()
    try:
        server.make()
        yield server
    finally:
        server.remove()


@pytest.fixture
def opened(stage: Any, reader: Any, tmp_path: Path) -> Iterator[Opened]:
    """A run that is open at the stage, with three orders and one partition."""
    from lab_utils.experiment import Experiment

    name = f"c{next(NUMBERS)}-a"
    opened = Opened(Experiment(stage, reader, name, tmp_path / name, ("0", "1", "2")))
    yield opened
    opened.finish()
