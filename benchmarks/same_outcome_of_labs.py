"""Each run of the labs' notebooks, again and again: does it always have the same outcome?

The workloads and the faults are those of a notebook with its solutions, each round on new brokers;
checks, pictures and panels are left out. An outcome is what the clients were told, what each log
holds, what may be read of it, and how often faults fired. Which outcome is the right one is for
the tests to say. Run with labs and a number, as `python -m benchmarks.same_outcome_of_labs 04 20`.
"""

from __future__ import annotations

import ast
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from benchmarks import Figure
from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import instructor_notebook, read_source, sources
from lab_utils.lab import Lab
from lab_utils.ledger.events import Event
from lab_utils.run import Run

LABS: Final = Path(__file__).parents[1] / "labs"
SOURCES: Final = {str(lab): path for lab, path in sources(LABS).items()}
# What an outcome is made of. Requests, times and producer ids may differ from run to run.
CLIENT: Final = ("acked", "failed", "unknown", "txn_committed", "txn_aborted", "raised")
LOG: Final = ("record", "visible", "effect")

Outcomes = dict[str, Counter[str]]


def same_outcome_of_labs(labs: Sequence[str] = tuple(SOURCES), rounds: int = 2) -> Iterator[Figure]:
    """How many runs had the outcome that most runs of the same cell had."""
    found: Outcomes = defaultdict(Counter)
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for lab in labs:
            begun = time.perf_counter()
            for name, outcome in _round(lab):
                found[name][outcome] += 1
            seconds[lab].append(round(time.perf_counter() - begun, 1))
    different = {name: dict(each) for name, each in found.items() if len(each) > 1}
    equal = sum(max(each.values()) for each in found.values())
    runs = sum(each.total() for each in found.values())
    yield Figure("runs of the labs with the same outcome", equal, f"{runs}", different or None)
    for lab, each in seconds.items():
        yield Figure(f"s of the runs of lab {lab}", min(each), "", each)


def _round(lab: str) -> list[tuple[str, str]]:
    """The outcome of each run of one notebook, by the place of the run in it."""
    outcomes: list[tuple[str, str]] = []
    number = count(1)
    perform: Callable[..., Run] = Lab.run

    def recorded(self: Lab, workload: Callable[..., object], **given: Any) -> Run:
        run = perform(self, workload, **given)
        name = f"{lab} run {next(number)}, {workload.__name__}"
        # Kafka gives no order across partitions, and so none to what is made of several.
        several = given.get("filled", False) and given.get("partitions", 1) > 1
        outcomes.append((name, _outcome(run, is_ordered=not several)))
        return run

    names: dict[str, Any] = {"__name__": "__main__"}
    # No query is asked here: nobody waits for Spark.
    with patch.object(Lab, "run", recorded), patch("lab_utils.lab._load"):
        for statement in _statements(lab):
            exec(compile(ast.Module([statement], []), f"lab {lab}", "exec"), names)
    return outcomes


def _statements(lab: str) -> Iterator[ast.stmt]:
    """What a notebook defines and runs, without what it shows."""
    text = read_source(SOURCES[lab])
    for cell in instructor_notebook(text, lab, exercises(lab)).cells:
        if cell.cell_type == "code":
            for statement in ast.parse(cell.source).body:
                if not isinstance(statement, ast.Expr) or _calls(statement, "run", "close"):
                    yield _unwrapped(statement)


def _unwrapped(statement: ast.stmt) -> ast.stmt:
    """lab.run(…) in place of lab.run(…).findings()."""
    if isinstance(statement, ast.Expr):
        call = statement.value
        while isinstance(call, ast.Call | ast.Attribute) and not _is_call(call, "run", "close"):
            call = call.func if isinstance(call, ast.Call) else call.value
        if _is_call(call, "run", "close"):
            statement.value = call
    return statement


def _calls(statement: ast.AST, *methods: str) -> bool:
    return any(_is_call(node, *methods) for node in ast.walk(statement))


def _is_call(node: ast.AST, *methods: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in methods


def _outcome(run: Run, *, is_ordered: bool) -> str:
    """What happened, in one text; the name of the run is left out."""
    assert not run.trouble, run
    told = [row for row in run.rows if row.source == "client" and row.kind in CLIENT]
    log = [row for row in run.rows if row.source in ("log", "sink") and row.kind in LOG]
    log.sort(key=lambda row: (row.kind, row.topic or "", row.partition or 0, row.offset or 0))
    # Clients side by side report as it comes; each log has its order.
    reports, records = ([_said(row, is_ordered) for row in rows] for rows in (told, log))
    shown = records if is_ordered else sorted(records)
    return f"{run!r} | {', '.join(sorted(reports))} | {', '.join(shown)}".replace(run.run, "")


def _said(row: Event, is_ordered: bool) -> str:
    place = "" if row.partition is None else f" {row.topic}/{row.partition}"
    offset = f":{row.offset}" if place and is_ordered else ""
    return " ".join(filter(None, (row.kind, row.value, row.error))) + place + offset


if __name__ == "__main__":
    *_labs, _rounds = sys.argv[1:] or ["2"]
    for _figure in same_outcome_of_labs(_labs or tuple(SOURCES), int(_rounds)):
        print(_figure)
