"""A time axis on which each instant has room: short gaps are widened and long ones shortened.

A lost answer costs 50 ms and its neighbours take half a millisecond each; on a true scale one of
them could not be seen. Order is kept, the labels tell the true time, and long gaps say how long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from statistics import median

MS = 1_000_000
STRETCH = 0.7  # columns for each tenfold of a gap beyond one millisecond
PAUSE_MS = 10  # a gap that is named, if it is also PAUSE_FACTOR times the median gap
PAUSE_FACTOR = 5


@dataclass(frozen=True, slots=True)
class ElasticTime:
    """The instants of a picture, in nanoseconds, and the column where each is drawn."""

    instants: tuple[int, ...]
    columns: tuple[float, ...]

    @property
    def width(self) -> float:
        """The columns that all instants take."""
        return self.columns[-1] - self.columns[0] if self.columns else 0.0

    def column(self, at_ns: int) -> float:
        """Where an instant is drawn; one that is not in the picture, at the one before it."""
        return self.columns[max(bisect_right(self.instants, at_ns) - 1, 0)]

    def ms(self, at_ns: int) -> float:
        """Milliseconds since the first instant."""
        return (at_ns - self.instants[0]) / MS

    def pauses(self) -> list[tuple[float, float, float]]:
        """The long gaps: the columns where each begins and ends, and its milliseconds."""
        pairs = list(pairwise(self.instants))
        gaps = [(after - before) / MS for before, after in pairs]
        least = max(PAUSE_MS, PAUSE_FACTOR * median(gaps)) if gaps else PAUSE_MS
        return [
            (self.columns[number], self.columns[number + 1], gap)
            for number, gap in enumerate(gaps)
            if gap >= least
        ]

    def ticks(self, apart: float) -> list[tuple[float, str]]:
        """Columns and their times as text, at least `apart` columns from each other."""
        found: list[tuple[float, str]] = []
        for column, at_ns in zip(self.columns, self.instants, strict=True):
            if not found or column - found[-1][0] >= apart:
                found.append((column, ms_text(self.ms(at_ns))))
        return found


def elastic_time(instants: Iterable[int]) -> ElasticTime:
    """Give each instant its column; the first one is at 0."""
    ordered = sorted(set(instants))
    columns = [0.0][: len(ordered)]
    for before, after in pairwise(ordered):
        gap_ms = (after - before) / MS
        columns.append(columns[-1] + 1 + STRETCH * max(0.0, log10(max(gap_ms, 1))))
    return ElasticTime(tuple(ordered), tuple(columns))


def ms_text(ms: float) -> str:
    """Milliseconds as a reader wants them.

    >>> ms_text(0), ms_text(1.26), ms_text(61), ms_text(8012)
    ('0', '1.3', '61.0', '8,012')
    """
    return f"{ms:.1f}" if 0 < ms < 99.95 else f"{ms:,.0f}"
