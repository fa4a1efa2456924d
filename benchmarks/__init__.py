"""The README's figures: each is a ratio of two things that were measured in turn, in one run.

./lab bench [NAME …] prints them. Machines are shared and noisy: no test asserts a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from lab_utils.errors import one_of

# Each module has a function `measure() -> dict` with `figure` and what was measured.
NAMES: Final = (
    "broker_start",
    "cluster_start",
    "proxy_throughput",
    "recording_producer",
    "same_outcome",
    "same_outcome_of_labs",
    "stage_at_rest",
    "audit_scaling",
)


def run_benchmarks(names: Sequence[str], say: Callable[[str], object]) -> list[dict[str, Any]]:
    """Run the named benchmarks, or all of them; return what each measured."""
    chosen = [one_of("benchmark", name, NAMES) for name in names] or list(NAMES)
    figures = []
    for name in chosen:
        say(f"{name} …")
        figures.append(import_module(f"benchmarks.{name}").measure())
        for column, value in figures[-1].items():
            say(f"  {column}: {round(value, 3) if isinstance(value, float) else value}")
    return figures
