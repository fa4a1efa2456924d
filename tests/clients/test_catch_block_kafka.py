"""The Java program of many texts: a transaction in a try, its abort in the catch block."""

from __future__ import annotations

from typing import Any

import pytest

from docs.make_clients import java_program
from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.program import Ended
from lab_utils.ledger.predictions import values

pytestmark = pytest.mark.kafka

ENDS = {
    "commit": (0, ["committed"], ["0", "1"]),
    "divide": (0, ["caught ArithmeticException", "aborted"], []),
    "fenced": (1, ["caught ProducerFencedException"], []),
}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return java_program("Transfer", tmp_path_factory.mktemp("classes")) or pytest.skip("no javac")


@pytest.mark.parametrize(("how", "expected"), ENDS.items(), ids=ENDS)
def test_catch_block(
    perform: Any, command: list[str], how: str, expected: tuple[int, list[str], list[str]]
) -> None:
    """It aborts on 1/0. Once fenced, the abort in the catch block fails, too, and ends it."""
    ended: list[Ended] = []

    def transfer(run: LiveRun) -> None:
        ended.append(run.execute([*command, how], name="transfer"))

    rows = perform(transfer, orders=2, until_stable=True)
    said = [line for line in ended[0].output.splitlines()
            if line.split()[0] in ("committed", "caught", "aborted")]  # fmt: skip

    assert expected == (ended[0].code, said, values(rows, "visible"))
    # An abort takes back what the client had not sent yet: the log has all of it, or less.
    stored = values(rows, "record")
    assert ["0", "1"][: len(stored)] == stored
    if how == "commit":
        assert ["0", "1"] == stored
    if how == "fenced":
        assert 'Exception in thread "main"' in ended[0].output
