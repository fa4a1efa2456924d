"""What an audit says: the findings in a few rows, what was left out, what nobody can know; a page.

The page holds everything it shows, loads and runs nothing, and escapes what comes from a ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from lab_utils.audit.contracts import BREACH
from lab_utils.audit.declared import misspelt
from lab_utils.audit.facts import sql
from lab_utils.audit.ledgers import Rejected, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# So many of the findings of a name and a judgement are told in the table, and on the page.
TOLD: Final = 3
TOLD_ON_THE_PAGE: Final = 50
# So many different settings of a ledger are looked at for a misspelt one.
MANY: Final = 10_000
# Of a value, a name or a sentence; a ledger may hold megabytes.
LONGEST: Final = 400

# A log that was read to its end, and holds nothing.
CAME_TO_THE_END: Final = (
    "kind = 'end' AND 'true' IN (detail['drained'], detail['committed_drained'])"
)
# What no run can tell whose events lack this, as SQL and as a sentence.
MISSING: Final = (
    ("source = 'client' AND kind = 'sent'",
     "Nobody recorded what was sent: a copy that Kafka made cannot be told from a second send, and "
     "no sequence of sends is known (duplicate, nonmonotonic-send)."),
    ("source = 'client' AND kind IN ('acked', 'failed', 'unknown')",
     "Nobody recorded delivery reports: what was promised is unknown (lost-write, unseen, phantom, "
     "unavailable)."),
    (f"source = 'log' AND (kind IN ('record', 'visible') OR {CAME_TO_THE_END})",
     "The log was not read back: what Kafka holds is unknown (lost-write, duplicate, phantom)."),
    ("source = 'client' AND kind = 'delivered'",
     "No consumer recorded what it was given (unseen, duplicate-delivery, nonmonotonic-poll, "
     "poll-skip)."),
    ("kind IN ('processed', 'effect')",
     "Nobody recorded what was done with a record (skipped-processing, duplicate-effect)."),
    ("source = 'wire'",
     "Nobody recorded the wire: which request or answer was lost, and what was sent again, is "
     "unknown."),
    ("source = 'client' AND kind = 'created'",
     "The settings of the clients are unknown: a finding that they decide stays undecided. "
     "Declare them: --contract FILE."),
    ("source = 'workload' AND kind = 'topic'",
     "The settings of the topics are unknown, and Kafka's defaults stand in for them. Declare "
     "them: --contract FILE."),
)  # fmt: skip

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 1rem 0.3rem 0;
         border-bottom: 1px solid #ccc; overflow-wrap: anywhere; }
section { border-left: 0.4rem solid #767676; padding: 0.1rem 1rem; margin: 1.5rem 0; }
section.breach { border-color: #d55e00; }
h2 { font-size: 1.2rem; } h3 { font-size: 1rem; }
"""
NOTHING_IS_LOADED: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one name with one judgement; `first` are some of their rows."""

    finding: str
    judgement: str
    reason: str
    count: int
    first: list[dict[str, Any]]

    @property
    def is_breach(self) -> bool:
        """Does the configuration rule these findings out?"""
        return self.judgement == BREACH

    def told(self) -> list[str]:
        """The first sentences, each with its run, and how many more there are."""
        told = [sentence(row) for row in self.first[:TOLD]]
        more = self.count - len(told)
        return [*told, f"and {more:,} more"] if more else told


@dataclass(frozen=True, slots=True)
class Report:
    """What an audit found.

    unsaid   what the ledger cannot know, a sentence each
    unknown  columns that were not read
    unread   files that were not read, and may be a ledger
    """

    paths: Sequence[str]
    events: int
    runs: int
    groups: list[Group]
    rejected: Rejected
    unknown: Sequence[str]
    unsaid: Sequence[str]
    unread: Sequence[str] = ()

    @property
    def breaches(self) -> int:
        """How many findings the configuration rules out."""
        return sum(group.count for group in self.groups if group.is_breach)

    def summary(self) -> str:
        """The audit in a sentence."""
        found = sum(group.count for group in self.groups)
        return (
            f"{self.events:,} events, {counted(self.runs, 'run')}: {counted(found, 'finding')}, "
            f"{counted(self.breaches, 'breach', 'breaches')}; "
            f"{counted(sum(self.rejected.counts.values()), 'line')} left out."
        )

    def left_out(self) -> Iterator[str]:
        """What no finding rests on: how much, why, and where the first of it is."""
        files: Counter[str] = Counter()
        lines: Counter[str] = Counter()
        for (_, reason), count in self.rejected.counts.items():
            files[reason] += 1
            lines[reason] += count
        for reason, count in lines.most_common():
            yield f"{count:,} times: {reason} ({counted(files[reason], 'file')})"
        for file, line, reason, excerpt in sorted(self.rejected.first):
            yield plain(f"{readable(file)}:{line}: {reason}{': ' if excerpt else ''}{excerpt}")
        for file in self.unread[:TOLD]:
            yield plain(f"{file}: not read, for its name is not *.jsonl, *.jsonl.gz or *.parquet")
        if more := len(self.unread[TOLD:]):
            yield f"and {counted(more, 'more file')} that may be a ledger, and were not read"
        if self.unknown:
            names = plain(", ".join(self.unknown))
            yield f"columns that were not read, in a sample of the lines: {names}"


def groups(findings: DataFrame) -> list[Group]:
    """The findings by name and judgement, breaches first."""
    said = (
        "*", "if(allowed_by IS NULL, judgement, judgement || ' by ' || allowed_by) AS said"
    )  # fmt: skip
    rows = findings.selectExpr(*said)
    counts = rows.groupBy("finding", "said", "judgement").count().collect()
    place = (
        "row_number() OVER (PARTITION BY finding, said "
        "ORDER BY run, topic, partition, value, evidence) AS place"
    )
    first = rows.selectExpr("*", place).where(f"place <= {TOLD_ON_THE_PAGE}").collect()
    found = []
    for finding, said_of_it, judgement, count in counts:
        mine = [row for row in first if (row["finding"], row["said"]) == (finding, said_of_it)]
        mine.sort(key=lambda row: row["place"])
        shown = BREACH if judgement == BREACH else said_of_it
        reason = mine[0]["reason"] or ""
        found.append(Group(finding, shown, reason, count, [row.asDict() for row in mine]))
    return sorted(found, key=lambda group: (not group.is_breach, group.finding, group.judgement))


def unsaid(events: DataFrame) -> list[str]:
    """What the ledger cannot know, by the kinds of events that its runs do not have."""
    lacks = [f"count_if({has}) = 0 AS lacks_{at}" for at, (has, _) in enumerate(MISSING)]
    sums = [f"count_if(lacks_{at})" for at in range(len(MISSING))]
    ((everything, *missing),) = sql(events, ["run"], *lacks).selectExpr("count(*)", *sums).collect()
    return [
        f"{'Every run' if count == everything else f'{count:,} of {everything:,} runs'}: {sentence}"
        for count, (_, sentence) in zip(missing, MISSING, strict=True)
        if count
    ]


def strange(events: DataFrame) -> list[str]:
    """The settings of `created` and `topic` that are probably misspelt, a sentence each."""
    said = events.where("kind IN ('created', 'topic')").selectExpr(
        "explode(detail) AS (name, text)"
    )
    rows = said.distinct().limit(MANY).collect()
    settings = ({row["name"].strip().replace("_", "."): row["text"] or ""} for row in rows)
    names = sorted({name for it in settings for name, _ in misspelt(it)})
    return [f"The setting {it!r} has a name or a value that it cannot have." for it in names]


def sentence(row: dict[str, Any]) -> str:
    """One finding as a line of text: its run, topic and partition, and what proves it."""
    place = "/".join(str(row[it]) for it in ("run", "topic", "partition") if row[it] is not None)
    return plain(f"{place}: {row['evidence'] or ''}")


def plain(text: str, longest: int = LONGEST) -> str:
    r"""A text in one line, without what would steer a terminal, and not longer than `longest`.

    What is plain already stays as it is.

    >>> plain("a\x1b[31m\nb")
    'a\\x1b[31m\\nb'
    """
    # Escapes are longer than what they stand for.
    shown = "".join(it if it.isprintable() else ascii(it)[1:-1] for it in text[:longest])
    if len(text) <= longest >= len(shown):
        return shown
    how_long = f" … ({len(text):,} characters)"
    return shown[: longest - len(how_long)] + how_long


def page(report: Report) -> str:
    """The report as one page of HTML."""
    rows = "".join(
        f'<tr><th scope="row">{escape(group.finding)}</th><td>{group.count:,}</td>'
        f"<td>{'<br>'.join(map(escape, group.told()))}</td>"
        f"<td>{_shown(group.judgement)}</td></tr>\n"
        for group in report.groups
    )
    found = (
        '<table><thead><tr><th scope="col">finding</th><th scope="col">how many</th>'
        f'<th scope="col">evidence</th><th scope="col">judgement</th></tr></thead>\n<tbody>\n{rows}'
        "</tbody></table>"
        if rows
        else "<p>The audit found nothing.</p>"
    )
    body = (
        f"<p><strong>{_shown(report.summary())}</strong></p>\n"
        f"<h2>Findings</h2>\n{found}\n{''.join(map(_section, report.groups))}"
        f"{_listed('What was left out', report.left_out())}"
        f"{_listed('What this ledger cannot say', report.unsaid)}"
    )
    title = "Audit: " + ", ".join(map(plain, report.paths))
    return document(plain(title), body.rstrip(), STYLE)


def document(title: str, body: str, style: str, *, aside: str = "") -> str:
    """A complete page of HTML that loads nothing; `body` is HTML, and `title` is text.

    aside  what the page's name in a browser says beside its title
    """
    name = escape(f"{title}: {aside}" if aside else title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{NOTHING_IS_LOADED}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(group: Group) -> str:
    lines = "".join(f"<li>{escape(sentence(row))}</li>\n" for row in group.first)
    more = group.count - len(group.first)
    rest = f"<p>{more:,} more are in the Parquet files beside this page.</p>\n" if more else ""
    return (
        f'<section class="{BREACH if group.is_breach else "allowed"}">\n'
        f"<h3>{escape(group.finding)}: {_shown(group.judgement)}</h3>\n"
        f"<p>{_shown(group.reason)}</p>\n<ol>\n{lines}</ol>\n{rest}</section>\n"
    )


def _listed(title: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{_shown(line)}</li>\n" for line in lines)
    return f"<h2>{title}</h2>\n<ul>\n{items}</ul>\n" if items else ""


def _shown(text: str) -> str:
    return escape(plain(text))


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
