"""Verdicts, scores and the results of a grading as data, and how a learner sees a verdict.

A verdict's PASS and FAIL are statements about what happened. INCONCLUSIVE says that the run proves
nothing: a fault that never fired, a workload that was not alive, a log that was not read to its
end. docs/grading.md describes each field of results.json; every report is a function of it.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, Final

from lab_utils.audit.report import plain

SCHEMA: Final = "delivery-lab-results/1"

PASS: Final = "PASS"  # noqa: S105 - a verdict, not a password
FAIL: Final = "FAIL"
INCONCLUSIVE: Final = "INCONCLUSIVE"

GRADED: Final = "graded"
REJECTED: Final = "rejected"
INFRASTRUCTURE: Final = "infrastructure"

# Of a text that a submission has a say in, in characters, and how many lines of such.
LONGEST: Final = 1_000
LINES: Final = 100

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
    card      of a report card, a row for each schedule: schedule, status, finding, claim, reason,
              hint; each that passed has its share of the points
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
    card: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        has_its_points = self.points == 0 or self.status == PASS or bool(self.card)
        assert has_its_points, (self.status, self.points)

    def __repr__(self) -> str:
        head = f"{self.status} {self.item}".ljust(INDENT)
        lines = [self.reason, *map(_row_in_words, self.card), *(self.hint or "").splitlines()]
        wrapped = [part for line in lines for part in textwrap.wrap(line, WIDTH - INDENT)]
        return head + f"\n{' ' * INDENT}".join(wrapped)

    def _repr_html_(self) -> str:
        hint = "".join(f"<br>{in_html(line)}" for line in (self.hint or "").splitlines())
        return (
            f'<div role="status" style="border-left: 0.4em solid {COLOURS[self.status]}; '
            f'padding: 0.2em 0.8em"><strong>{self.status} {escape(self.item)}</strong> '
            f"{in_html(self.reason)}{hint}{card_table(self.card, claims=CLAIMS)}</div>"
        )


CODE: Final = re.compile("`([^`]+)`")


def in_html(text: str) -> str:
    """Text as HTML; what stands between two backticks is code.

    >>> in_html("Replace `...` by <a> value.")
    'Replace <code>...</code> by &lt;a&gt; value.'
    """
    return CODE.sub(r"<code>\1</code>", escape(text))


COLUMNS: Final = ("schedule", "verdict", "finding", "claim")
CLAIMS: Final = "Claims.md"  # beside each notebook that is handed out; a heading for each claim
LEFT: Final = 'style="text-align: left"'


def card_table(card: Iterable[Mapping[str, str]], claims: str = "") -> str:
    """A report card as a table of HTML, empty where there is none; a reason has its own row.

    Each claim is a link into the page `claims`, if one is named.
    """
    rows = "".join(_card_row(row, claims) for row in card)
    heads = "".join(f"<th {LEFT}>{name}</th>" for name in COLUMNS)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""


def _card_row(row: Mapping[str, str], claims: str) -> str:
    texts = [escape(row[name]) for name in ("schedule", "status", "finding", "claim")]
    if claims:
        texts[-1] = f'<a href="{claims}#{texts[-1]}">{texts[-1]}</a>'
    cells = "".join(f"<td {LEFT}>{text}</td>" for text in texts)
    told = "<br>".join(map(in_html, filter(None, [row["reason"], *row["hint"].splitlines()])))
    below = f'<tr><td {LEFT} colspan="4"><small>{told}</small></td></tr>' if told else ""
    return f"<tr>{cells}</tr>{below}"


def _row_in_words(row: Mapping[str, str]) -> str:
    told = ": ".join(filter(None, (row["finding"], row["reason"])))
    return f"{row['status']}: {row['schedule']} ({row['claim']}){'. ' * bool(told)}{told}"


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
            f"<tr><td {LEFT}>{escape(item)}</td><td {LEFT}>{escape(title)}</td>"
            f"<td {LEFT}>{escape(status)}</td><td>{points} of {possible}</td></tr>"
            for item, title, status, points, possible in self.rows
        )
        heads = "".join(f"<th {LEFT}>{name}</th>" for name in ("check", "exercise", "verdict"))
        return (
            f"<table><thead><tr>{heads}<th>points</th></tr></thead><tbody>{rows}</tbody>"
            f"<tfoot><tr><td></td><td {LEFT}>Lab {escape(self.lab)}</td>"
            f"<td></td><td>{self._sum()}</td></tr></tfoot></table>"
        )

    def _sum(self) -> str:
        return f"{self.points:>2} of {self.possible:>2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """One question of a prediction in a notebook: what was expected, and what was then shown.

    cell      the cell that asks, as it was handed out; `where` is the heading above it
    observed  what the notebook's own output says happened; None if it has no such output
    """

    cell: str
    where: str
    question: str
    predicted: str
    observed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResult:
    """One submission: `graded`, `rejected` (no notebook) or `infrastructure` (not its fault).

    What the file says of itself (learner, predictions, answers, worked_s) decides no point.

    name        the file that keeps it, without its ending; unique within a grading
    wanted_lab  the lab that was asked for, if one was
    handed_in   the time of the file
    worked_s    seconds between the runs of cells, by item, where the notebook has such times
    earlier     the verdicts before this one, oldest first
    """

    path: str
    lab: str | None
    status: str
    seconds: float = 0.0
    reason: str | None = None
    items: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    isolation: str | None = None
    name: str = ""
    learner: str | None = None
    wanted_lab: str | None = None
    handed_in: str | None = None
    graded_at: str | None = None
    sha256: str | None = None
    nonce: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    predictions: tuple[Believed, ...] = ()
    worked_s: Mapping[str, float] = field(default_factory=dict)
    earlier: tuple[Mapping[str, Any], ...] = ()

    @property
    def points(self) -> int:
        """The points of all items."""
        return sum(item.points for item in self.items)

    @property
    def possible(self) -> int:
        """The points that a full answer has."""
        return sum(item.possible for item in self.items)

    @property
    def is_nobodys_fault(self) -> bool:
        """Did the machinery fail, so that it should be graded again?"""
        items = (item.status == "INFRASTRUCTURE" for item in self.items)
        return self.status == INFRASTRUCTURE or any(items)

    @property
    def score(self) -> str:
        """The points, or why there are none."""
        return f"{self.points}/{self.possible}" if self.status == GRADED else self.status

    def to_json(self) -> dict[str, Any]:
        """What stands in results.json; the sums are there for whoever does not add."""
        return asdict(self) | {"points": self.points, "possible": self.possible}


def read_submission_result(columns: Mapping[str, Any]) -> SubmissionResult:
    """What `to_json` made; raises ValueError, KeyError or TypeError for anything else."""
    given = {name: value for name, value in columns.items() if name not in ("points", "possible")}
    given["items"] = tuple(
        Verdict(**it | {name: tuple(it.get(name, ())) for name in ("evidence", "notes", "card")})
        for it in given["items"]
    )
    given["predictions"] = tuple(Believed(**it) for it in given["predictions"])
    for name in ("notes", "earlier"):
        given[name] = tuple(given[name])
    return SubmissionResult(**given)


def presentable(result: SubmissionResult) -> SubmissionResult:
    """The result with every text that a submission has a say in bounded, and safe to show.

    Control characters, escape sequences and what is no Unicode stand there as text.
    """
    items = tuple(
        replace(
            item,
            reason=plain(item.reason, LONGEST),
            hint=None if item.hint is None else "\n".join(_plain_lines(item.hint.splitlines())),
            evidence=_plain_lines(item.evidence),
            notes=_plain_lines(item.notes),
            card=tuple(
                {name: plain(text, LONGEST) for name, text in row.items() if name != "hint"}
                | {"hint": "\n".join(_plain_lines(row["hint"].splitlines()))}
                for row in item.card
            ),
        )
        for item in result.items
    )
    return replace(
        result,
        path=plain(result.path, LONGEST),
        learner=None if result.learner is None else plain(result.learner, LONGEST),
        reason=None if result.reason is None else plain(result.reason, LONGEST),
        items=items,
        notes=_plain_lines(result.notes),
    )


def safe_name(path: bytes) -> str:
    """A name for the files about the file at this path, which no other path has.

    Also where the system knows no upper case, or no name longer than 255 bytes.

    >>> safe_name(b"ada/03.ipynb"), safe_name(b"Ada/03.ipynb")
    ('ada-03-f915a037cf03', 'Ada-03-7fe1984e68b2')
    """
    parts = path.decode("ascii", errors="replace").removesuffix(".ipynb").split("/")[-2:]
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(parts)).strip("-")[:60]
    return f"{readable}-{hashlib.sha256(path).hexdigest()[:12]}".lstrip("-")


def _plain_lines(lines: Iterable[str]) -> tuple[str, ...]:
    kept = [plain(line, LONGEST) for line in lines]
    more = len(kept) - LINES
    return tuple(kept) if more <= 0 else (*kept[: LINES - 1], f"and {more + 1:,} lines more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One grading: its submissions in the order of their paths.

    nonce, versions, isolation  those of the last submission that was graded; each has its own
    """

    nonce: str
    versions: Mapping[str, str]
    submissions: tuple[SubmissionResult, ...] = ()
    isolation: str | None = None
    schema: str = field(default=SCHEMA)

    @property
    def infrastructure_failed(self) -> bool:
        """Is there an item or a submission that nobody can be blamed for?"""
        return any(each.is_nobodys_fault for each in self.submissions)

    def to_json(self) -> str:
        """The text of results.json."""
        head = {"schema": self.schema, "nonce": self.nonce, "isolation": self.isolation}
        submissions = [each.to_json() for each in self.submissions]
        written = {**head, "versions": dict(self.versions), "submissions": submissions}
        return json.dumps(written, indent=2, ensure_ascii=False) + "\n"
