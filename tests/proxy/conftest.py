"""The rig: a real proxy between plain sockets, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proxy.rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A proxy and its listener, ended after the test."""
    rig = Rig()
    yield rig
    rig.close()
