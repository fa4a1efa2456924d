"""Where everything of the replicas' picture is: lanes from the top down, and columns of time.

A unit of the vertical axis is a pixel. Moments that lie close together share a column, so that a
long run fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.views.elastic_time import MS, ElasticTime, elastic_time
from lab_utils.views.replication import Replication
from lab_utils.views.scene import Label, stacked
from lab_utils.views.wording import shown

WIDTH_PX: Final = 770  # of the plot, where the picture has 900
LETTER_PX: Final = 6.6
COLUMNS_LIMIT: Final = 44
LOG_PX: Final = 64  # the room for a log to grow in
ROLE_PX: Final = 20
LANE_PX: Final = LOG_PX + ROLE_PX + 26
LINK_PX: Final = 24
REPORT_PX: Final = 18
REPORT_ROWS: Final = 5


@dataclass(frozen=True)
class Report:
    """What clients were told in one column of the picture."""

    column: float
    rows: tuple[Event, ...]

    @property
    def is_ack(self) -> bool:
        """Were all of these orders acked?"""
        return all(row.kind == "acked" for row in self.rows)

    @property
    def text(self) -> str:
        """The orders, and their offsets if they were acked."""
        names = _few([shown(row.value, 8) for row in self.rows])
        if not self.is_ack:
            return f"{names}: not acked"
        return (
            f"{names} @ {_few(['?' if it.offset is None else str(it.offset) for it in self.rows])}"
        )


class Frame:
    """The places of a picture."""

    def __init__(self, seen: Replication) -> None:
        self.seen = seen
        self.time = _fitting(seen.instants)
        self.width = self.time.width + 1.5
        self.column_px = WIDTH_PX / (self.width + 0.5)
        most = [step.offset for step in (*seen.ends, *seen.watermarks)]
        self.most = max([*most, 1])

    @cached_property
    def reports(self) -> list[Report]:
        """What clients were told; acks and others apart."""
        found: dict[tuple[float, bool], list[Event]] = {}
        for row in self.seen.reports:
            found.setdefault((self.column(row.at_ns), row.kind == "acked"), []).append(row)
        return [Report(column, tuple(rows)) for (column, _), rows in found.items()]

    @cached_property
    def report_rows(self) -> list[int]:
        """For each report the row of text in which it has room, from the tick upwards."""
        labels = [Label(report.column, 0, report.text) for report in self.reports]
        return stacked(labels, self.column_px)

    @property
    def ticks_y(self) -> float:
        """Where the reports' ticks are; all else is below."""
        rows = min(max(self.report_rows, default=-1) + 1, REPORT_ROWS)
        return -(rows * REPORT_PX + 8)

    def link_y(self, number: int) -> float:
        """The middle of a link's bar."""
        return self.ticks_y - 20 - number * LINK_PX

    @property
    def top(self) -> float:
        """Above the first lane."""
        return self.ticks_y - 30 - len(self.seen.links) * LINK_PX

    @property
    def finished(self) -> float | None:
        """The column where the workload was done, if something came after it."""
        finished = self.seen.finished_ns
        if finished is None or not self.seen.instants or finished >= self.seen.instants[-1]:
            return None
        return self.column(finished)

    @property
    def healing(self) -> float | None:
        """The column where the lab began to mend what was broken."""
        at_ns = self.seen.healing_ns
        return None if at_ns is None else self.column(at_ns)

    def log_y(self, number: int, offset: int = 0) -> float:
        """Where an offset is in the lane of a broker."""
        return self.top - number * LANE_PX - LOG_PX + (LOG_PX - 16) * min(offset / self.most, 1)

    def role_y(self, number: int) -> float:
        """The middle of a broker's bar of roles."""
        return self.log_y(number) - ROLE_PX / 2 - 2

    @property
    def bottom(self) -> float:
        """Below the last lane."""
        return self.role_y(max(len(self.seen.replicas) - 1, 0)) - ROLE_PX / 2 - 20

    def column(self, at_ns: int) -> float:
        """Where a moment is drawn."""
        return self.time.column(at_ns)

    def ends_at(self, at_ns: int) -> float:
        """Where a span that ends then is drawn to; one that never ended reaches the edge."""
        last = not self.time.instants or at_ns >= min(self.seen.end_ns, self.time.instants[-1] + 1)
        return self.width if last else self.column(at_ns)

    def fits(self, text: str, start: float, end: float) -> bool:
        """Is there room for this text between two columns?"""
        return len(text) * LETTER_PX + 8 <= (end - start) * self.column_px


def _fitting(instants: Sequence[int]) -> ElasticTime:
    """A time axis of a limited number of columns."""
    apart = MS
    while len(kept := _thinned(instants, apart)) > COLUMNS_LIMIT:
        apart *= 2
    return elastic_time(kept)


def _thinned(instants: Sequence[int], apart_ns: int) -> list[int]:
    kept: list[int] = []
    for at_ns in instants:
        if not kept or at_ns - kept[-1] >= apart_ns:
            kept.append(at_ns)
    return kept


def _few(names: Sequence[str]) -> str:
    """Up to two names, or the first and the last of them.

    >>> _few(["1", "2"]), _few(["1", "2", "3"])
    ('1, 2', '1…3')
    """
    return ", ".join(names) if len(names) < 3 else f"{names[0]}…{names[-1]}"
