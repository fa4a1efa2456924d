"""The results of a grading as data: what results.json holds, and nothing else.

docs/grading.md describes each field. Every report is a function of this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

SCHEMA: Final = "delivery-lab-results/1"

GRADED: Final = "graded"
REJECTED: Final = "rejected"
INFRASTRUCTURE: Final = "infrastructure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """One exercise of one submission."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResult:
    """One submission: `graded`, `rejected` (no notebook) or `infrastructure` (not its fault)."""

    path: str
    lab: str | None
    status: str
    seconds: float
    reason: str | None = None
    items: tuple[ItemResult, ...] = ()
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

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The results that `to_json` wrote; raises ValueError for another schema."""
        columns: dict[str, Any] = json.loads(text)
        if columns.pop("schema", None) != SCHEMA:
            raise ValueError(f"results.json must have the schema {SCHEMA}.")
        submissions = [_submission(each) for each in columns.pop("submissions")]
        return cls(**columns, submissions=tuple(submissions))


def read_results(path: Path) -> Results:
    """The results in a file."""
    return Results.from_json(path.read_text(encoding="utf-8"))


def _submission(columns: dict[str, Any]) -> SubmissionResult:
    given = {name: it for name, it in columns.items() if name not in ("points", "possible")}
    items = [ItemResult(**_tuples(item, "evidence", "notes")) for item in given.pop("items")]
    return SubmissionResult(**_tuples(given, "notes"), items=tuple(items))


def _tuples(columns: dict[str, Any], *names: str) -> dict[str, Any]:
    lists: dict[str, Sequence[str]] = {name: tuple(columns[name]) for name in names}
    return {**columns, **lists}
