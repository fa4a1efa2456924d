"""The lab's figures: each is a count, or a ratio of two things that were measured in turn.

./lab bench [NAME …] prints them as a table. Machines are shared and noisy: no test asserts a time,
and before each benchmark the table says how quick the machine is then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, Final, NamedTuple

from lab_utils.errors import one_of

# Where each is measured: a function of its name there gives its figures. The name of such a place
# stands for all that is measured in it.
MODULES: Final = {
    "first_cell": "house",
    "lines": "house",
    "suite": "house",
    "broker_start": "starts",
    "cluster_start": "starts",
    "proxy_throughput": "throughput",
    "recording_producer": "throughput",
    "same_outcome_of_labs": "same_outcome_of_labs",
    "stage_at_rest": "stage_at_rest",
    "run_findings": "audit",
    "audit_growth": "audit",
    "audit_of_jsonl": "audit",
    "cluster": "audit",
    "duckdb": "audit",
    "class_analysis": "classes",
    "grading": "grading",
    "beside_nbgrader": "grading",
}
NAMES: Final = tuple(dict.fromkeys([*MODULES, *MODULES.values()]))
TURNS: Final = 5_000_000


class Figure(NamedTuple):
    """One row of the table; `detail` is what it was made of."""

    what: str
    measured: float
    to_reach: str
    detail: Any = None

    def __str__(self) -> str:
        detail = "" if self.detail is None else f"   {self.detail}"
        return f"{self.what:<52} {self.measured:>10.4g}   {self.to_reach:<14}{detail}"


def run_benchmarks(names: Sequence[str], say: Callable[[str], object]) -> list[dict[str, Any]]:
    """Run the named benchmarks, or all of them; say each figure, and return all of them."""
    asked = [one_of("benchmark", name, NAMES) for name in names] or list(MODULES)
    chosen = [[name] if name in MODULES else [it for it, at in MODULES.items() if at == name]
              for name in asked]  # fmt: skip
    figures = []
    for name in chain.from_iterable(chosen):
        measure: Callable[[], Iterator[Figure]]
        measure = getattr(import_module(f"benchmarks.{MODULES[name]}"), name)
        for figure in chain([speed()], measure()):
            say(str(figure))
            figures.append(figure._asdict())
    return figures


def speed() -> Figure:
    """What one and the same loop takes now: two tables are alike only where this is.

    A machine that is shared is half as quick in one hour as in another, by processor time too.
    """
    before = time.process_time()
    for _ in range(TURNS):
        pass
    return Figure("ns of an empty turn of a loop", (time.process_time() - before) / TURNS * 1e9, "")
