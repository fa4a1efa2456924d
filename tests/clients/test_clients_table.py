"""docs/clients.md says what five clients do under each of its faults; the runs are made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docs.make_clients import FAULTS, IN_SEQUENCE, ORDERS, PAGE, page, read_table, table
from lab_utils.clients.live_run import LiveRun
from lab_utils.ledger.events import Event
from lab_utils.proxy.faults import WireFault

CLIENTS = ("librdkafka", "Java", "kafka-python", "aiokafka", "kcat")


def test_the_page_is_whole() -> None:
    """Every fault and every client has its cell, and the page is what its table makes."""
    rows = read_table()

    assert [fault.code for fault in FAULTS] == list(rows)
    assert {CLIENTS} == {tuple(name.split()[0] for name in cells) for cells in rows.values()}
    assert page(rows) == PAGE.read_text(encoding="utf-8")


def test_lost_answer_tells_the_defaults_apart() -> None:
    """An idempotent client stores the order once, another twice: what the page says in words."""
    cells = read_table()['drop_response("Produce", nth=2)']
    stored = {name.split()[0]: cell.strip("*`") for name, cell in cells.items()}

    assert {"Java": IN_SEQUENCE, "kafka-python": IN_SEQUENCE} == {
        name: stored[name] for name in ("Java", "kafka-python")
    }
    assert ["0 1 1 2 3"] * 2 == [stored[name] for name in ("librdkafka", "aiokafka")]


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_runs_are_what_the_page_says(perform: Any) -> None:
    """Each client at hand, in the version that the page names, does what its cells say."""

    def again(workload: Callable[[LiveRun], object], fault: WireFault) -> list[Event]:
        rows: list[Event] = perform(workload, fault, orders=ORDERS)
        return rows

    made, written = table(again), read_table()
    wrong = {
        (call, name): (written[call].get(name, "not on the page"), cell)
        for call, cells in made.items()
        for name, cell in cells.items()
        if written[call].get(name) != cell
    }

    assert {} == wrong
    there = {name.split()[0] for cells in made.values() for name in cells}
    if left_out := sorted(set(CLIENTS) - there):
        pytest.skip(f"compared without {left_out}: docs/make_clients.py says what they need")
