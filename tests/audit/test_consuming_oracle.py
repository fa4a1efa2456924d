"""The oracle of consuming on the literal histories. No Spark."""

import pytest

from tests.audit.consuming_cases import CASES
from tests.histories import in_run
from tests.oracle_consuming import oracle_of_consuming


@pytest.mark.parametrize("name", CASES)
def test_smallest_history(name: str) -> None:
    """The smallest history of a finding has it."""
    finding, smallest, _ = CASES[name]

    assert finding in {found[0] for found in oracle_of_consuming(in_run("05-a", smallest))}


@pytest.mark.parametrize("name", CASES)
def test_near_miss(name: str) -> None:
    """The near miss of a finding does not have it."""
    finding, _, near_miss = CASES[name]

    assert finding not in {found[0] for found in oracle_of_consuming(in_run("05-a", near_miss))}
