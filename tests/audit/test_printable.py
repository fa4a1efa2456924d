"""What a learner may print must fit a page."""

import inspect

import pytest

from lab_utils.audit import findings

FINDINGS = [
    findings.lost_writes,
    findings.unseen,
    findings.duplicates,
    findings.duplicate_deliveries,
    findings.phantoms,
    findings.nonmonotonic_sends,
    findings.unavailable,
    findings.inconclusive,
    findings.located,
]


@pytest.mark.parametrize("finding", FINDINGS)
def test_a_finding_fits_a_page(finding: object) -> None:
    """The source of a finding is at most 25 lines."""
    assert callable(finding)
    assert len(inspect.getsource(finding).splitlines()) <= 25
