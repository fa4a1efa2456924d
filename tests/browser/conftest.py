"""One JupyterLab for all tests of this folder: to load it takes longest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import rig


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give all tests to one worker, or there were two JupyterLabs."""
    item.add_marker("browser")
    item.add_marker("jupyterlab")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rig.Lab]:
    with rig.jupyterlab(tmp_path_factory.mktemp("jupyterlab")) as lab:
        yield lab
