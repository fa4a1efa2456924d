"""A prediction is stored before the run, compared after it, and never scored."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from lab_utils.errors import BadArgument
from lab_utils.ledger.events import Event
from lab_utils.ledger.predictions import predict
from lab_utils.run import Predicted


def record(value: str, offset: int, partition: int = 0) -> Event:
    return Event(run="r", source="log", actor="reader", kind="record", value=value,
                 offset=offset, partition=partition, topic="t")  # fmt: skip


def test_log_is_compared_in_the_order_of_offsets() -> None:
    """Rows may come in any order; the log is what the offsets say, partition by partition."""
    rows = [record("2", 1), record("1", 0), record("3", 0, partition=1)]
    (compared,) = predict({"log": "1, 2, 3"}, "order is kept").compare(rows)

    assert ("1 2 3", "1 2 3", False) == (compared.yours, compared.observed, compared.differs)


@pytest.mark.parametrize("log", ["1 2", "1, 2", ["1", "2"], [1, 2]])
def test_one_spelling_for_every_way_to_write_a_log(log: object) -> None:
    """A learner may write text or a list, with commas or without."""
    (compared,) = predict({"log": log}, "").compare([record("1", 0), record("2", 1)])  # type: ignore[dict-item]

    assert not compared.differs


@pytest.mark.parametrize("log", [..., "...", "0 ... 0 ...", None])
def test_what_was_left_blank_does_not_differ(log: object) -> None:
    """Dots in place of an answer, bare or in a text, predict nothing."""
    (compared,) = predict({"log": log}, "").compare([record("1", 0)])  # type: ignore[dict-item]

    assert (False, False) == (compared.was_answered, compared.differs)


def test_difference_is_shown() -> None:
    """What was expected stands beside what was observed."""
    (compared,) = predict({"stored": 5}, "").compare([record("1", 0)])

    assert ("5", "1", True) == (compared.yours, compared.observed, compared.differs)


def test_question_nobody_asked() -> None:
    """A misspelt question is refused at once, with the nearest right one."""
    with pytest.raises(BadArgument, match="Did you mean 'duplicated'"):
        predict({"duplicates": 1}, "")


@pytest.mark.parametrize("acked", [[0, 1, 2], "0 1 2", "most", -1, True, 2.5])
def test_a_count_is_a_number(acked: object) -> None:
    """The orders that are acked would differ from their number, also where they are right."""
    with pytest.raises(BadArgument, match="acked is a whole number, 0 or more, as in acked=3;"):
        predict({"acked": acked}, "")  # type: ignore[dict-item]


@pytest.mark.parametrize("log", [(it for it in "01"), {"0", "1"}, {"0": 1}])
def test_a_log_is_a_sequence(log: object) -> None:
    """What has no sequence would differ from the log, also where its orders are right."""
    with pytest.raises(BadArgument, match='log is the orders in sequence, as in log="0 1 2"; got'):
        predict({"log": log}, "")  # type: ignore[dict-item]


@pytest.mark.parametrize("committed", [0, "7", "nothing", ..., "..."])
def test_a_bookmark_is_a_number_or_nothing(committed: object) -> None:
    """A blank says nothing, and nothing may have been committed."""
    assert "committed" in predict({"committed": committed}, "").expected  # type: ignore[dict-item]


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
