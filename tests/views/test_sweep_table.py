"""A sweep's table: what its columns and rows are called, and what a page is given."""

from __future__ import annotations

from typing import Any

import pytest

from lab_utils import corrupt_request, crash_client, cut_link, drop_response, kill_broker
from lab_utils.errors import BadArgument
from lab_utils.sweep import columns_of, require_settings, rows_of
from lab_utils.views.explorer.run_data import OUTCOME_STYLES, run_data
from lab_utils.views.explorer.sweep_table import Cell, SweepTable
from tests.views import histories

DROP = 'drop_response("Produce")'
COLUMNS: dict[str, tuple[list[Any], list[tuple[str, str]]]] = {
    "one fault at several positions": (
        [drop_response("Produce", nth=nth) for nth in (1, 3)], [(DROP, "1"), (DROP, "3")],
    ),
    "a list within the list is one run": (
        [[cut_link(1, 2), kill_broker(1)]], [("cut_link(1, 2), kill_broker(1)", "")],
    ),
    "without a fault a run is calm": ([], [("no fault", "")]),
    "a crash keeps its point": (
        [crash_client("after_ack", nth=2)], [('crash_client("after_ack")', "2")],
    ),
    "a cell stands for one run": ([drop_response("Produce")] * 2, [(DROP, "1")]),
}  # fmt: skip


@pytest.mark.parametrize(("faults", "columns"), COLUMNS.values(), ids=COLUMNS)
def test_columns(faults: list[Any], columns: list[tuple[str, str]]) -> None:
    """What differs in its position alone is one fault; the page finds a run by its column."""
    assert columns == [(it.fault, it.position) for it in columns_of(faults)]


@pytest.mark.parametrize("faults", [drop_response("Produce"), "drop", [1]])
def test_what_is_no_list_of_faults(faults: object) -> None:
    with pytest.raises(BadArgument, match="Write it as in"):
        columns_of(faults)


def test_rows_are_settings() -> None:
    """A row is called by its settings, or as the caller says."""
    assert ["enable.idempotence=true", "the client's defaults"] == list(
        rows_of([{"enable.idempotence": True}, {}])
    )
    assert ["safe"] == list(rows_of({"safe": {"acks": "all"}}))
    assert ["the client's defaults"] == list(rows_of([]))
    with pytest.raises(BadArgument, match="a client's configuration"):
        rows_of(["acks=all"])


@pytest.mark.parametrize("workload", [lambda run: run, "send", None])
def test_workload_that_takes_no_settings(workload: object) -> None:
    """What lab.run takes is not what a sweep takes; the error shows how to write it."""
    require_settings(lambda run, settings: (run, settings))
    with pytest.raises(BadArgument, match="def send\\(run, settings\\)"):
        require_settings(workload)


def test_table_has_a_cell_for_each_run() -> None:
    """The page is given the words of each cell; a terminal gets the same as text."""
    broken = corrupt_request("Produce").code
    cells = [
        Cell("plain", broken, "1", ("out of sequence",), run_data(histories.last())),
        Cell("plain", broken, "2", ("stored once",), run_data(histories.calm())),
        Cell("safe", broken, "1", ("lost",), run_data(histories.hole())),
        Cell("safe", broken, "2", ("stored once",), run_data(histories.calm())),
    ]
    table = SweepTable(cells)

    assert [{"name": broken, "positions": ["1", "2"]}] == table.grid["faults"]
    assert [["lost"], ["stored once"]] == table.grid["words"][1]
    assert "safe      lost" in repr(table)
    assert 4 == len(table.runs)
    assert {word for cell in cells for word in cell.words} <= OUTCOME_STYLES.keys()
