"""Verdicts as a learner sees them: aligned text, and the same as HTML in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from lab_utils.audit.verdicts import Verdict
from lab_utils.grading.cases import Exercise

INDENT: Final = 19
WIDTH: Final = 100

# Dark enough on white, and the word itself stands beside each.
COLOURS: Final = {"PASS": "#0072b2", "FAIL": "#d55e00", "INCONCLUSIVE": "#767676"}


@dataclass(frozen=True, slots=True)
class Checked:
    """One check and its verdict; its repr is what lab.check shows."""

    item: str
    verdict: Verdict

    @property
    def status(self) -> str:
        """PASS, FAIL or INCONCLUSIVE."""
        return self.verdict.status

    def __repr__(self) -> str:
        head = f"{self.status} {self.item}".ljust(INDENT)
        lines = [self.verdict.reason, *(self.verdict.hint or "").splitlines()]
        wrapped = [part for line in lines for part in textwrap.wrap(line, WIDTH - INDENT)]
        return head + f"\n{' ' * INDENT}".join(wrapped)

    def _repr_html_(self) -> str:
        hint = "".join(f"<br>{escape(line)}" for line in (self.verdict.hint or "").splitlines())
        return (
            f'<div role="status" style="border-left: 0.4em solid {COLOURS[self.status]}; '
            f'padding: 0.2em 0.8em"><strong>{self.status} {escape(self.item)}</strong> '
            f"{escape(self.verdict.reason)}{hint}</div>"
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


def score(lab: str, exercises: Sequence[Exercise], checked: Mapping[str, Checked]) -> Score:
    """The score of a lab from the checks that were made."""
    rows = []
    for each in exercises:
        found = checked.get(each.item)
        status, points = (found.status, found.verdict.points) if found else ("not checked", 0)
        rows.append((each.item, each.title, status, points, each.points))
    return Score(lab, tuple(rows))
