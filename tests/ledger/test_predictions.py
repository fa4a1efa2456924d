"""A prediction is stored before the run, compared after it, and never scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from lab_utils.errors import BadArgument
from lab_utils.ledger.predictions import predict
from lab_utils.run import Predicted
from tests.histories import record

LOG = [record("2", 1), record("1", 0), record("3", 0, partition=1)]
# a question, an answer, and how it is shown beside the observation; what was left blank by None
COMPARED = [
    *(("log", log, "1 2 3", "1 2 3", False)
      for log in ("1 2 3", "1, 2, 3", ["1", "2", "3"], [1, 2, 3])),
    *(("log", log, None, "1 2 3", False) for log in (..., "...", "0 ... 0 ...", None)),
    ("log", "2 1 3", "2 1 3", "1 2 3", True),
    ("visible", "1 2 3", "1 2 3", "1 2 3", False),  # as in run.visible: no transaction hides one
    ("stored", 5, "5", "3", True),
]  # fmt: skip


@pytest.mark.parametrize(("question", "answer", "yours", "observed", "differs"), COMPARED)
def test_compared(
    question: str, answer: Any, yours: str | None, observed: str, differs: bool
) -> None:
    """Rows come in any order; the log is what the offsets say, partition by partition.

    A learner may write text or a list, with commas or without; dots predict nothing.
    """
    (found,) = predict({question: answer}, "").compare(LOG)

    assert (observed, differs) == (found.observed, found.differs)
    assert yours == (found.yours if found.was_answered else None)


NO_COUNT = "acked is a whole number, 0 or more, as in acked=3;"
NO_LOG = 'log is the orders in sequence, as in log="0 1 2"; got'
REFUSED = [
    *(("acked", given, NO_COUNT) for given in ([0, 1, 2], "0 1 2", "most", -1, True, 2.5)),
    *(("log", given, NO_LOG) for given in ((it for it in "01"), {"0", "1"}, {"0": 1})),
    ("duplicates", 1, "Did you mean 'duplicated'"),
]


@pytest.mark.parametrize(("question", "given", "said"), REFUSED)
def test_refused(question: str, given: Any, said: str) -> None:
    """What would differ, also where it is right, and a misspelt question with the nearest one."""
    with pytest.raises(BadArgument, match=said):
        predict({question: given}, "")


def test_a_prediction_without_a_reason_is_refused() -> None:
    """It is told what it lacks, with an example."""
    with pytest.raises(BadArgument, match="this one has no because"):
        predict({"acked": 3}, None)


@pytest.mark.parametrize("committed", [0, "7", "nothing", ..., "..."])
def test_a_bookmark_is_a_number_or_nothing(committed: Any) -> None:
    """A blank says nothing, and nothing may have been committed."""
    assert "committed" in predict({"committed": committed}, "").expected


def test_compare_needs_a_run() -> None:
    """A cell that was not run, or run in another sequence, may have left something else there."""
    with pytest.raises(BadArgument, match=r"needs a run, as lab\.run returns it; got None"):
        Predicted(predict({}, "")).compare(None)  # type: ignore[arg-type]


def test_stored_at_once(tmp_path: Path) -> None:
    """The file holds every prediction in the order in which they were made."""
    predict({"acked": 10}, "the retry").store(tmp_path)
    predict({"acked": 9}, "no retry").store(tmp_path)

    lines = (tmp_path / "predictions.jsonl").read_bytes().splitlines()
    assert ["10", "9"] == [orjson.loads(line)["expected"]["acked"] for line in lines]
