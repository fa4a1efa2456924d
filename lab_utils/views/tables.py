"""Tables and cards: a notebook shows them as HTML, a terminal as text, and every cell is escaped.

Findings, predictions, the transaction coordinator's log, the state of a stage, and source code.
Functions of what they are given; they judge nothing.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import orjson

from lab_utils.ledger.events import COLUMNS, KINDS, Event
from lab_utils.ledger.predictions import Compared
from lab_utils.views import palette
from lab_utils.views.progress import doing
from lab_utils.views.words import counted, shown

if TYPE_CHECKING:
    from lab_utils.audit.queries import Batch

CELL_LIMIT: Final = 400
SENTENCE: Final = 40  # letters: what is longer is one
LEFT: Final = "text-align: left; vertical-align: top"
EVIDENCE_LIMIT: Final = 3
NOTHING_FOUND: Final = ("none", 0, "The audit found nothing.", "")
# What stands in the judgement for a finding that the configuration rules out.
BREACH: Final = "breach"
REPAIR: Final = {
    "paused": "It answers again when it is resumed, in the panel.",
    "starting": "Look again in a moment.",
}
REPAIR_OTHERS: Final = 'Start it in the panel, or run "./lab down" and then the first cell again.'

Finding = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of text; `marked` are the numbers of the rows that stand out.

    A cell may be a tuple, one line of text each. `about` says what the table holds, for a reader
    who cannot see it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    about: str = ""
    marked: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        rows = [[(name,) for name in self.columns], *(map(_lines, row) for row in self.rows)]
        lines = [line for row in rows for line in zip_longest(*row, fillvalue="")]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        caption = f'<caption style="text-align: left">{escape(self.about)}</caption>'
        head = "".join(f'<th scope="col" style="{LEFT}">{escape(it)}</th>' for it in self.columns)
        body = "".join(self._row(number, row) for number, row in enumerate(self.rows))
        return (
            f'<div style="overflow-x: auto"><table>{caption if self.about else ""}'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _row(self, number: int, row: Sequence[object]) -> str:
        style = f"{LEFT}; font-weight: bold" if number in self.marked else LEFT
        return f"<tr>{''.join(_cell(_lines(it), style) for it in row)}</tr>"


def _cell(lines: tuple[str, ...], style: str) -> str:
    """A cell; a sentence has room for a few words a line, on a phone, too."""
    room = "; min-width: 14em" if max(map(len, lines)) > SENTENCE else ""
    return f'<td style="{style}{room}">{"<br>".join(map(escape, lines))}</td>'


def _lines(cell: object) -> tuple[str, ...]:
    if isinstance(cell, tuple):
        return tuple(shown(line, CELL_LIMIT) for line in cell) or ("",)
    return ("" if cell is None else shown(cell, CELL_LIMIT),)


def findings_table(findings: Iterable[Finding]) -> Table:
    """One row for each finding of a name and a judgement, breaches first.

    Reads finding, evidence and, where present, judgement and allowed_by.
    """
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[str(finding["finding"]), _judgement(finding)].append(finding)
    ordered = sorted(groups.items(), key=lambda group: (not _is_breach(group[1][0]), group[0]))
    rows = [(name, len(some), _evidence(some), said) for (name, said), some in ordered]
    breaches = frozenset(at for at, (_, some) in enumerate(ordered) if _is_breach(some[0]))
    columns = ("finding", "how many", "evidence", "judgement")
    return Table(columns, rows or [NOTHING_FOUND], "Findings of this run.", breaches)


def _is_breach(finding: Finding) -> bool:
    """Does the configuration rule this finding out?"""
    return str(finding.get("judgement") or "").lower() == BREACH


def _judgement(finding: Finding) -> str:
    """Whether the finding is allowed, and the setting that allows it."""
    said, setting = str(finding.get("judgement") or ""), finding.get("allowed_by")
    return f"{said} by {setting}" if said and setting and not _is_breach(finding) else said


def _evidence(findings: list[Finding]) -> tuple[str, ...]:
    """The first sentences, and how many more there are."""
    sentences = [str(finding.get("evidence") or "") for finding in findings]
    more = len(sentences) - EVIDENCE_LIMIT
    rest = [f"and {counted(more, 'more', 'more')}"] if more > 0 else []
    return (*sentences[:EVIDENCE_LIMIT], *rest)


def prediction_table(compared: Sequence[Compared]) -> Table:
    """One row for each question that was predicted; differences are marked, nothing is scored."""
    verdicts = [
        "" if not it.was_answered else "differs" if it.differs else "as predicted"
        for it in compared
    ]
    rows = [
        (it.question, it.yours or "nothing", it.observed or "nothing", verdict)
        for it, verdict in zip(compared, verdicts, strict=True)
    ]
    odd = frozenset(number for number, verdict in enumerate(verdicts) if verdict == "differs")
    return Table(("", "yours", "observed", ""), rows, "Your prediction and the run.", odd)


def coordinator_log(rows: Iterable[Event]) -> Table:
    """What the transaction coordinator wrote into `__transaction_state`, in sequence."""
    entries = [row for row in rows if (row.source, row.kind) == ("log", "transaction")]
    entries.sort(key=lambda row: (row.partition or 0, row.offset or 0))
    about = f"{counted(len(entries), 'entry', 'entries')} of __transaction_state."
    columns = (
        "partition", "offset", "transactional.id", "state", "producer id", "epoch", "writes to"
    )  # fmt: skip
    return Table(columns, [_entry(row) for row in entries], about)


def _entry(row: Event) -> tuple[object, ...]:
    places: list[str] = orjson.loads(row.detail["partitions"])
    return (
        row.partition, row.offset, row.detail["transactional_id"], row.detail["state"],
        row.producer_id, row.producer_epoch,
        tuple(place.removeprefix(f"{row.run}-") for place in places),
    )  # fmt: skip


def status_card(lab: str, state: Mapping[str, Any]) -> str:
    """The state of a stage as HTML; what is unwell is named with what fixes it.

    Reads of the stage server's state `bootstrap` (the proxy's address), `brokers` (each with `id`
    and `state`) and `faults` (what is armed). What is absent is not shown.
    """
    brokers: Sequence[Mapping[str, Any]] = state.get("brokers", ())
    faults: Sequence[object] = state.get("faults", ())
    troubles = [trouble for broker in brokers if (trouble := _trouble(broker))]
    if state.get("controller") == "died":
        troubles.append("The controller has died. Run the first cell again for a new stage.")
    colour = palette.VERMILLION if troubles else palette.BLUE
    said = " ".join(troubles) or "The stage is ready."
    rows = [(f"broker {broker.get('id', '')}", broker.get("state")) for broker in brokers]
    if "bootstrap" in state:
        rows.append(("proxy", f"your clients connect to {state['bootstrap']}"))
    rows.append(("faults", f"{counted(len(faults), 'fault')} armed" if faults else "none armed"))
    table = Table(("", ""), rows)._repr_html_()
    return (
        f'<div role="status" style="border-left: 0.4em solid {colour}; padding: 0.2em 0.8em">'
        f"<strong>Lab {escape(lab)}</strong> {escape(said)}{table}</div>"
    )


def _trouble(broker: Mapping[str, Any]) -> str:
    """What is wrong with a broker and what fixes it; empty if it runs."""
    state = str(broker.get("state"))
    if state == "running":
        return ""
    said = "has died" if state == "died" else f"is {state}"
    return f"Broker {broker.get('id', '')} {said}. {REPAIR.get(state, REPAIR_OTHERS)}"


@dataclass(frozen=True, slots=True)
class SourceCode:
    """Python text; JupyterLab shows it in colour, a terminal as it is."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        # The fence is longer than any run of backticks in the text, so that nothing ends it early.
        ticks = max((len(run) for run in re.findall("`+", self.text)), default=0)
        fence = "`" * max(3, ticks + 1)
        return f"{fence}python\n{self.text}\n{fence}"


def source_code(function: Callable[..., Any]) -> SourceCode:
    """The text of a function or class. Raises TypeError for what has none."""
    return SourceCode(textwrap.dedent(inspect.getsource(function)).strip())


def ledger_card() -> Table:
    """The columns of run.events(), each with what it is, and which kinds each source has."""
    columns = [(name, about) for name, about in COLUMNS.items()]
    kinds = [(f"kind, where source = {it!r}", ", ".join(KINDS[it])) for it in KINDS]
    return Table(("column", "what it is"), [*columns, *kinds], "the columns of the ledger")


def show_tables_of_spark() -> None:
    """Let a notebook say that Spark is at work on a table it shows, and run its query once.

    IPython asks an object for its text and then for its HTML, and pyspark runs the query for each.
    The head of a column says what the ledger keeps in it, where the pointer rests on it.
    """
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    if (shell := get_ipython()) is not None:
        bundle = shell.display_formatter.mimebundle_formatter
        bundle.for_type_by_name("pyspark.sql.connect.dataframe", "DataFrame", _bundle)


def tell_when_spark_works(frames: type[Any]) -> None:
    """Let the methods with which a DataFrame of this class runs a query say so in a notebook."""
    for name in ("collect", "count", "show", "toPandas"):
        method = getattr(frames, name)
        if not hasattr(method, "__wrapped__"):
            setattr(frames, name, doing("Spark runs the query")(method))


def _bundle(table: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The rows of a query as HTML and as text; nothing where Spark is told to show no rows."""
    try:
        with doing("Spark runs the query"):
            found = table._repr_html_()
    except Exception as error:
        if not type(error).__module__.startswith("pyspark."):
            raise
        sys.modules["IPython"].get_ipython().showtraceback()
        return {"text/plain": ""}, {}  # without it IPython would ask for the text, and fail again
    if not found:
        return {}, {}
    head, *rows = (
        [unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr>(.*?)</tr>", found, re.DOTALL)
    )
    # Below the table Spark says how many rows it shows, if there are more.
    text = f"{Table(head, rows)!r}\n{found.rpartition('</table>')[2]}".strip()
    explained = re.sub(r"<th>(\w+)</th>", _with_hover, found)
    return {"text/html": explained, "text/plain": text}, {}


def _with_hover(head: re.Match[str]) -> str:
    about = COLUMNS.get(head[1])
    return f'<th title="{escape(about)}">{head[1]}</th>' if about else head[0]


def batches_table(batches: Iterable[Batch]) -> Table:
    """The batches of a streaming query: what each read, what came out, and what it remembers."""
    rows = [
        (
            number,
            "none" if each.watermark[:4] in ("", "1970") else each.watermark[11:16],
            tuple(f"{value} {at[11:16]}" for value, at in each.records) or "none",
            tuple(str(row.get("value", row)) for row in each.rows) or "none",
            each.state,
        )
        for number, each in enumerate(batches)
    ]
    columns = ("batch", "watermark before it", "records", "out", "rows of state after it")
    return Table(columns, rows, "A streaming query, batch by batch; times are UTC.")
