"""A prediction beside what was observed: differences are marked, and nothing is scored."""

from __future__ import annotations

from collections.abc import Sequence

from lab_utils.ledger.predictions import Compared
from lab_utils.views.table import Table

NOTHING = "nothing"


def prediction_table(compared: Sequence[Compared]) -> Table:
    """One row for each question that was predicted."""
    rows = [
        (
            each.question,
            each.yours or NOTHING,
            each.observed or NOTHING,
            _verdict(each),
        )
        for each in compared
    ]
    odd = frozenset(number for number, each in enumerate(compared) if each.differs)
    return Table(("", "yours", "observed", ""), rows, "Your prediction and the run.", odd)


def _verdict(compared: Compared) -> str:
    if not compared.was_answered:
        return ""
    return "differs" if compared.differs else "as predicted"
