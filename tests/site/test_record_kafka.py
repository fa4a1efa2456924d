"""A recording is a real run: made again on a broker, it says the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab_utils import Lab
from lab_utils.lab import perform_choice
from lab_utils.site.recordings import _proof, keep, recorded
from lab_utils.views.explorer.offers import offer_of
from lab_utils.views.explorer.run_data import offered

pytestmark = pytest.mark.kafka


def test_a_run_that_is_recorded_today(stage: Any, tmp_path: Path) -> None:
    """The ledger of a new run has the finding and the counts of the recorded one."""
    offer = offer_of("03")
    code, choice = offer.code({}), offer.chosen({})
    keep("03", [_proof(code, partial(perform_choice, Lab(stage.name), offer, choice))], tmp_path)
    (found,) = recorded("03", tmp_path).values()
    now = offered(offer, choice, found.rows, found.trouble)
    before = offered(offer, choice, recorded("03")[code].rows)

    for name in ("choice", "code", "finding", "outcomes", "counts", "lanes"):
        assert before[name] == now[name], name
