"""One JupyterLab for all tests of this folder: to load it takes longest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import rig


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give all tests to one worker, that of the three brokers, or there were two JupyterLabs."""
    item.add_marker("browser")
    item.add_marker("stage_of_three")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rig.Lab]:
    with rig.jupyterlab(tmp_path_factory.mktemp("jupyterlab")) as lab:
        yield lab
