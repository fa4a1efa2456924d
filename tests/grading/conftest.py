"""The labs of the tests are read by the grader, and not collected by pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab_utils import waiting

collect_ignore = ["files"]


@pytest.fixture(scope="session", autouse=True)
def suite_is_no_crowd() -> Iterator[None]:
    """The suite keeps the processors busy itself: what it grades is judged as on a machine at rest.

    The tests of a machine that stands still choose how long that is.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "SCARCE_S_MIN", float("inf"))
        yield
