"""The findings of a run as a table: what was found, how often, what proves it, and whose fault.

A function of rows that the audit made; it judges nothing itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lab_utils.views.table import Table
from lab_utils.views.wording import counted

EVIDENCE_LIMIT: Final = 3
COLUMNS: Final = ("finding", "how many", "evidence", "judgement")
NOTHING: Final = ("none", 0, "The audit found nothing.", "")

# What stands in the judgement for a finding that the configuration rules out.
BREACH: Final = "breach"

Finding = Mapping[str, Any]


def findings_table(findings: Iterable[Finding]) -> Table:
    """One row for each finding of a name and a judgement, breaches first.

    Reads finding, evidence and, where present, judgement and allowed_by.
    """
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[str(finding["finding"]), judgement(finding)].append(finding)
    ordered = sorted(groups.items(), key=lambda group: (not is_breach(group[1][0]), group[0]))
    rows = [(name, len(some), _evidence(some), said) for (name, said), some in ordered]
    breaches = {number for number, (_, some) in enumerate(ordered) if is_breach(some[0])}
    return Table(COLUMNS, rows or [NOTHING], "Findings of this run.", frozenset(breaches))


def is_breach(finding: Finding) -> bool:
    """Does the configuration rule this finding out?"""
    return str(finding.get("judgement") or "").lower() == BREACH


def judgement(finding: Finding) -> str:
    """Whether the finding is allowed, and the setting that allows it."""
    said, setting = finding.get("judgement"), finding.get("allowed_by")
    if not said:
        return ""
    return f"{said} by {setting}" if setting and not is_breach(finding) else str(said)


def _evidence(findings: list[Finding]) -> tuple[str, ...]:
    """The first sentences, and how many more there are."""
    sentences = [str(finding.get("evidence") or "") for finding in findings]
    more = len(sentences) - EVIDENCE_LIMIT
    rest = [f"and {counted(more, 'more', 'more')}"] if more > 0 else []
    return (*sentences[:EVIDENCE_LIMIT], *rest)
