"""The verdict: what a check or a grade says of one exercise.

PASS and FAIL are statements about what happened. INCONCLUSIVE says that the run proves nothing:
a fault that never fired, a workload that was not alive, a log that was not read to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PASS: Final = "PASS"  # noqa: S105 - a verdict, not a password
FAIL: Final = "FAIL"
INCONCLUSIVE: Final = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict with its numbers.

    reason    one sentence
    hint      for FAIL: a thought and a place to look, line by line; never the answer
    evidence  one line for each run that it rests on
    """

    status: str
    reason: str
    points: int
    possible: int
    hint: str | None = None
    evidence: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert self.status in (PASS, FAIL, INCONCLUSIVE), self.status
        assert self.points == 0 or self.status == PASS, (self.status, self.points)
