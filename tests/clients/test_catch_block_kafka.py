"""The Java program of many texts: a transaction in a try, its abort in the catch block."""

from __future__ import annotations

from typing import Any

import pytest

from docs.make_clients import java_program
from lab_utils.clients.live_run import LiveRun
from lab_utils.clients.program import Ended
from lab_utils.ledger.predictions import values

pytestmark = [pytest.mark.kafka, pytest.mark.long]

# How the program ends, what it says, what the log holds, and what a read_committed reader is given.
ENDS = {
    "commit": (0, ["committed"], ["0", "1"], ["0", "1"]),
    "divide": (0, ["caught ArithmeticException", "aborted"], ["0", "1"], []),
    "fenced": (1, ["caught ProducerFencedException"], ["0", "1"], []),
    "fenced before it has sent": (1, ["caught InvalidProducerEpochException"], [], []),
}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return java_program("Transfer", tmp_path_factory.mktemp("classes")) or pytest.skip("no javac")


@pytest.mark.parametrize("how", ENDS)
def test_catch_block(perform: Any, command: list[str], how: str) -> None:
    """It aborts on 1/0. Once fenced, the abort in the catch block fails, too, and ends it."""
    ended: list[Ended] = []

    def transfer(run: LiveRun) -> None:
        ended.append(run.execute([*command, how], name="transfer"))

    rows = perform(transfer, orders=2, until_stable=True)
    said = [line for line in ended[0].output.splitlines()
            if line.split()[0] in ("committed", "caught", "aborted")]  # fmt: skip

    assert ENDS[how] == (ended[0].code, said, values(rows, "record"), values(rows, "visible"))
    if ended[0].code:
        end = 'Exception in thread "main" org.apache.kafka.common.errors.ProducerFencedException'
        assert end in ended[0].output
