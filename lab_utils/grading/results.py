"""Verdicts, scores and the results of a grading as data, and how a learner sees a verdict.

A verdict's PASS and FAIL are statements about what happened. INCONCLUSIVE says that the run proves
nothing: a fault that never fired, a workload that was not alive, a log that was not read to its
end. docs/grading.md describes each field of results.json; every report is a function of it.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Final

SCHEMA: Final = "delivery-lab-results/1"

PASS: Final = "PASS"  # noqa: S105 - a verdict, not a password
FAIL: Final = "FAIL"
INCONCLUSIVE: Final = "INCONCLUSIVE"

GRADED: Final = "graded"
REJECTED: Final = "rejected"
INFRASTRUCTURE: Final = "infrastructure"

INDENT: Final = 19
WIDTH: Final = 100

# Dark enough on white, and the word itself stands beside each.
COLOURS: Final = {PASS: "#0072b2", FAIL: "#d55e00", INCONCLUSIVE: "#767676"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict:
    """What a check or a grade says of one exercise; its repr is what lab.check shows.

    status    PASS, FAIL or INCONCLUSIVE; of a grading INFRASTRUCTURE, too: nobody is to blame
    reason    one sentence with numbers
    hint      for FAIL: a thought and a place to look, line by line; never the answer
    evidence  one line for each run that it rests on
    notes     what a teacher may want to know; it never changes the points
    """

    item: str
    title: str
    kind: str
    status: str
    points: int
    possible: int
    reason: str
    hint: str | None = None
    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.points == 0 or self.status == PASS, (self.status, self.points)

    def __repr__(self) -> str:
        head = f"{self.status} {self.item}".ljust(INDENT)
        lines = [self.reason, *(self.hint or "").splitlines()]
        wrapped = [part for line in lines for part in textwrap.wrap(line, WIDTH - INDENT)]
        return head + f"\n{' ' * INDENT}".join(wrapped)

    def _repr_html_(self) -> str:
        hint = "".join(f"<br>{escape(line)}" for line in (self.hint or "").splitlines())
        return (
            f'<div role="status" style="border-left: 0.4em solid {COLOURS[self.status]}; '
            f'padding: 0.2em 0.8em"><strong>{self.status} {escape(self.item)}</strong> '
            f"{escape(self.reason)}{hint}</div>"
        )


@dataclass(frozen=True, slots=True)
class Score:
    """All exercises of a lab with what lab.check has said of them so far."""

    lab: str
    rows: tuple[tuple[str, str, str, int, int], ...]

    @property
    def points(self) -> int:
        """The points so far."""
        return sum(row[3] for row in self.rows)

    @property
    def possible(self) -> int:
        """The points of the lab."""
        return sum(row[4] for row in self.rows)

    def __repr__(self) -> str:
        lines = [f"{f'{status} {item}':<{INDENT}}{points:>2} of {possible:>2}  {title}"
                 for item, title, status, points, possible in self.rows]  # fmt: skip
        return "\n".join([*lines, f"{'Lab ' + self.lab:<{INDENT}}{self._sum()}"])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(item)}</td><td>{escape(title)}</td><td>{escape(status)}</td>"
            f"<td>{points} of {possible}</td></tr>"
            for item, title, status, points, possible in self.rows
        )
        return (
            "<table><thead><tr><th>check</th><th>exercise</th><th>verdict</th><th>points</th></tr>"
            f"</thead><tbody>{rows}</tbody><tfoot><tr><td></td><td>Lab {escape(self.lab)}</td>"
            f"<td></td><td>{self._sum()}</td></tr></tfoot></table>"
        )

    def _sum(self) -> str:
        return f"{self.points:>2} of {self.possible:>2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResult:
    """One submission: `graded`, `rejected` (no notebook) or `infrastructure` (not its fault)."""

    path: str
    lab: str | None
    status: str
    seconds: float = 0.0
    reason: str | None = None
    items: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        """The points of all items."""
        return sum(item.points for item in self.items)

    @property
    def possible(self) -> int:
        """The points that a full answer has."""
        return sum(item.possible for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One grading: every submission in the order of the paths."""

    nonce: str
    versions: dict[str, str]
    submissions: tuple[SubmissionResult, ...] = ()
    schema: str = field(default=SCHEMA)

    @property
    def infrastructure_failed(self) -> bool:
        """Is there an item or a submission that nobody can be blamed for?"""
        return any(
            each.status == INFRASTRUCTURE
            or any(item.status == "INFRASTRUCTURE" for item in each.items)
            for each in self.submissions
        )

    def to_json(self) -> str:
        """The text of results.json."""
        columns = asdict(self)
        for each, submission in zip(columns["submissions"], self.submissions, strict=True):
            each["points"], each["possible"] = submission.points, submission.possible
        ordered = {"schema": columns.pop("schema"), **columns}
        return json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"
