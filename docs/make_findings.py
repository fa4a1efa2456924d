"""Makes docs/findings.md from the findings themselves: each says its rule where it is written.

    .venv/bin/python -m docs.make_findings

tests/test_docs.py fails when the page is not what this makes of them.
"""

# ruff: noqa: E501 - the page has one sentence a line
from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from lab_utils.audit.contracts import EXEMPTIONS
from lab_utils.audit.finding import RULES, Rule

PAGE = Path(__file__).parent / "findings.md"
HEAD = """\
# Findings

A finding is something that happened, proved by events of the ledger.
Whether it was allowed is another question: the **contract** of the configuration answers it.
This page is made from `lab_utils/audit/findings`, where each finding stands with its rule; print one with `source(...)`, and see [adding a finding](adding-a-finding.md).
`tests/oracle.py` states each rule again in plain Python, and the two must agree on random histories.

These hold for all of them.

- **Unknown** counts neither as lost nor as failed.
- A loss is never inferred from a gap in offsets: transaction markers occupy offsets. Orders are counted.
- An order is its topic, its key and its value. Equal orders are counted; a null value, a tombstone and an empty text are values like others.
- What happened once may be several findings, and each is judged by itself.
- What the log does not hold is known only for a partition that was read to its end (`end`, drained). What a read_committed reader is not given is known only where that reader came to the end, too.

The judgement is **allowed**, with the setting that allows it, or with what the program or the client did; **required**, where a setting demands it; **breach**, where nothing allows it; or **undecided**, where nobody recorded the configuration of the client or the number of sends that decides.
The settings that decide are those of the clients that a finding names, and of the finding's own topic.
One that was not recorded among a client's or a topic's settings has its default: librdkafka's for a client, Kafka's for a topic.
The queries run in a local Spark that the notebooks of one user share; `SPARK_REMOTE=sc://host:port` or `SPARK_MASTER=spark://host:port` sends the same ones to a cluster that reads the same files.

The names are those of Jepsen's Kafka checker where it has one.
In the histories below `log(a, b)` is the log of one partition, read to its end; [the ledger](ledger.md) says what each event and column is.
"""
FAMILIES = {
    "producing": "Producing",
    "consuming": "Consuming",
    "replication": "Replication",
    "isolation": "Isolation",
    "inconclusive": "What proves nothing",
}
LABEL = re.compile(r"(?<=[.?`*]) (?=(?:Rule|Smallest|Near miss|Allowed by|Source|It is)\b)")


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *_sections()])


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
