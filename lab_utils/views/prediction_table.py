"""A prediction beside what was observed: differences are marked, and nothing is scored."""

from __future__ import annotations

from collections.abc import Sequence

from lab_utils.ledger.predictions import Compared
from lab_utils.views.table import Table


def prediction_table(compared: Sequence[Compared]) -> Table:
    """One row for each question that was predicted."""
    rows = [
        (each.question, each.yours, each.observed, "differs" if each.differs else "as predicted")
        for each in compared
    ]
    odd = frozenset(number for number, each in enumerate(compared) if each.differs)
    return Table(("", "yours", "observed", ""), rows, "Your prediction and the run.", odd)
