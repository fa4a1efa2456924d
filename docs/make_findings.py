"""Makes the sections of docs/findings.md: each finding says its rule where it is written.

    .venv/bin/python -m docs.make_findings

tests/test_docs.py fails when the page is not what this makes of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from lab_utils.audit.contracts import EXEMPTIONS
from lab_utils.audit.finding import RULES, Rule

PAGE = Path(__file__).parent / "findings.md"
FAMILIES = {
    "producing": "Producing",
    "consuming": "Consuming",
    "replication": "Replication",
    "isolation": "Isolation",
    "inconclusive": "What proves nothing",
}
FIRST = f"# {FAMILIES['producing']}\n"
LABEL = re.compile(r"(?<=[.?`*]) (?=(?:Rule|Smallest|Near miss|Allowed by|Source|It is)\b)")


def page() -> str:
    """The page with these sections below what it says of all findings."""
    head = PAGE.read_text(encoding="utf-8").partition(FIRST)[0]
    return head + "\n".join(_sections())


def _sections() -> Iterator[str]:
    for family, title in FAMILIES.items():
        yield f"# {title}\n"
        for rule in RULES.values():
            if rule.family == family:
                yield from _section(rule)


def _section(rule: Rule) -> Iterator[str]:
    text = inspect.cleandoc(rule.function.__doc__ or "")
    yield f"## {rule.name}\n"
    yield from LABEL.sub("\n", " ".join(text.split())).splitlines()
    reasons = dict.fromkeys(it.reason for it in EXEMPTIONS if it.finding == rule.name)
    if reasons:
        yield "\nWhy it may happen:\n"
        yield from (f"- {reason}" for reason in reasons)
    yield ""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
