"""The replicas of a partition over time: a lane a broker, its log, and what it was to the others.

A lane has the log as a filled line of steps, hatched while the broker does not run, and below it
the role that the controller gave it. A gap between log and high watermark is what no reader may
read. A function of rows; what they say is in replica_history.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import ceil
from typing import Final

from plotly.graph_objects import Bar, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette, replica_history
from lab_utils.views.palette import Style
from lab_utils.views.picture import (
    MS,
    Drawn,
    ElasticTime,
    Label,
    Picture,
    apart,
    axis,
    beside,
    elastic_time,
    figure,
    line,
    note,
    points,
    stacked,
)
from lab_utils.views.replica_history import ELIGIBLE, IN_SYNC, LEADER, OUT, Replication, Span, Step
from lab_utils.views.words import in_picture, shown

WIDTH_PX: Final = 770  # of the plot, where the picture has 900
LETTER_PX: Final = 6.6
COLUMNS_LIMIT: Final = 44
LOG_PX: Final = 64  # the room for a log to grow in
ROLE_PX: Final = 20
LANE_PX: Final = LOG_PX + ROLE_PX + 26
LINK_PX: Final = 24
REPORT_PX: Final = 18
REPORT_ROWS: Final = 5
AXIS_PX: Final = 62
LEGEND_ROW_PX: Final = 20
LEGEND_COLUMNS: Final = 4
TICK_PX: Final = 60
FILL: Final = "rgba(0, 114, 178, 0.16)"
CLEAR: Final = "rgba(255,255,255,0)"
# Fill, hatch and colour of the hatch: no two are alike without their colours.
BARS: Final = {
    LEADER: (palette.BLUE, "", palette.WHITE),
    IN_SYNC: ("#cfe3f1", "", palette.BLACK),
    ELIGIBLE: (palette.WHITE, "\\", palette.PURPLE),
    OUT: (palette.WHITE, "/", palette.VERMILLION),
    "killed": (CLEAR, "x", palette.GREY),
    "died": (CLEAR, "x", palette.VERMILLION),
    "power cut": (CLEAR, "+", palette.VERMILLION),
    "stopped": (CLEAR, "-", palette.GREY),
    "paused": (CLEAR, "|", palette.ORANGE),
    "starting": (CLEAR, "\\", palette.GREY),
    "fenced": (CLEAR, ".", palette.PURPLE),
    "cut": (palette.WHITE, "x", palette.VERMILLION),
    "held": (palette.WHITE, "|", palette.SKY),
    "slow": (palette.WHITE, "/", palette.SKY),
}
IN_LEGEND: Final = {
    "cut": "link cut", "held": "link held", "slow": "link slow",
    ELIGIBLE: "out, but eligible (ELR)", "power cut": "power cut (a simulation)",
}  # fmt: skip
ACKS: Final = {
    True: Style("ack", palette.GREEN, symbol="line-ns-open"),
    False: Style("no ack", palette.VERMILLION, symbol="x-thin-open"),
}


@dataclass(frozen=True, slots=True)
class Lane:
    """One bar: its height and its middle in pixels, its time, and its word in BARS."""

    height: float
    middle: float
    span: Span


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
        offsets = _few(["?" if it.offset is None else str(it.offset) for it in self.rows])
        return f"{names} @ {offsets}" if self.is_ack else f"{names}: not acked"


class Frame:
    """Where everything is: lanes from the top down, columns of time.

    A unit of the vertical axis is a pixel. Moments that lie close together share a column, so that
    a long run fits.
    """

    def __init__(self, seen: Replication) -> None:
        self.seen = seen
        self.time = _fitting(seen.instants)
        self.width = self.time.width + 1.5
        self.column_px = WIDTH_PX / (self.width + 0.5)
        self.most = max([1, *(step.offset for step in (*seen.ends, *seen.watermarks))])

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
    def bottom(self) -> float:
        """Below the last lane."""
        return self.role_y(max(len(self.seen.replicas) - 1, 0)) - ROLE_PX / 2 - 20

    def log_y(self, number: int, offset: int = 0) -> float:
        """Where an offset is in the lane of a broker."""
        return self.top - number * LANE_PX - LOG_PX + (LOG_PX - 16) * min(offset / self.most, 1)

    def role_y(self, number: int) -> float:
        """The middle of a broker's bar of roles."""
        return self.log_y(number) - ROLE_PX / 2 - 2

    @property
    def moments(self) -> list[tuple[float, str, str]]:
        """The columns where the workload was done, if something came after it, and of healing."""
        finished, healing = self.seen.finished_ns, self.seen.healing_ns
        found = []
        if finished and self.seen.instants and finished < self.seen.instants[-1]:
            found.append((self.column(finished), "workload done", "right"))
        if healing is not None:
            found.append((self.column(healing), "healing", "left"))
        return found

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

    @cached_property
    def lanes(self) -> list[Lane]:
        """Every bar: the roles and the states of each broker, and the links."""
        found = []
        for number, broker in enumerate(self.seen.replicas):
            role, log = self.role_y(number), self.log_y(number) + LOG_PX / 2
            found += [Lane(ROLE_PX, role, it) for it in self.seen.roles(broker)]
            found += [Lane(LOG_PX, log, it) for it in self.seen.states(broker)]
        for number, spans in enumerate(self.seen.links.values()):
            found += [Lane(14, self.link_y(number), it) for it in spans]
        return found


def _fitting(instants: Sequence[int]) -> ElasticTime:
    """A time axis of a limited number of columns."""
    least_ns = MS
    while len(kept := apart(instants, least_ns)) > COLUMNS_LIMIT:
        least_ns *= 2
    return elastic_time(kept)


def _few(names: Sequence[str]) -> str:
    """Up to two names, or the first and the last of them.

    >>> _few(["1", "2"]), _few(["1", "2", "3"])
    ('1, 2', '1…3')
    """
    return ", ".join(names) if len(names) < 3 else f"{names[0]}…{names[-1]}"


def replicas(rows: Sequence[Event], partition: int = 0) -> Picture:
    """What became of the replicas of one partition, drawn: a lane a broker."""
    seen = Replication(rows, partition)
    frame, title = Frame(seen), replica_history.title(seen)
    traces = [*_bars(frame), *_logs(frame), *_watermark(frame), *_reports(frame)]
    entries = sum(trace.showlegend is not False for trace in traces)
    edges = [frame.log_y(number) for number, _ in enumerate(seen.replicas)]
    drawn = figure(
        traces, plot_px=-frame.bottom, barmode="overlay",
        margins=(96, 24, 44, AXIS_PX + LEGEND_ROW_PX * ceil(entries / LEGEND_COLUMNS)),
        xaxis=frame.time.axis(-0.5, frame.width, TICK_PX / frame.column_px),
        yaxis=axis(frame.bottom, 0, visible=False),
        # Offset 0 of each log, the line of the reports, the end of the workload, and the repair.
        shapes=[
            *(line((-0.5, frame.width), (y, y)) for y in edges),
            line((-0.5, frame.width), (frame.ticks_y,) * 2, palette.PALE),
            *(line((at, at), (frame.bottom + 12, frame.top + 4), palette.BLACK, dash="4px,3px")
              for at, *_ in frame.moments),
        ],
        notes=[*_names(frame), *_words(frame), *_numbers(frame)],
    )  # fmt: skip
    return Picture(title, drawn, replica_history.summary(seen), replica_history.table(seen))


def _bars(frame: Frame) -> Iterable[Bar]:
    """One entry of the legend for each role and each thing that was broken."""
    for word, (fill, hatch, colour) in BARS.items():
        lanes = [it for it in frame.lanes if it.span.word == word]
        if lanes:
            starts = [frame.column(it.span.start_ns) for it in lanes]
            ends = [frame.ends_at(it.span.end_ns) for it in lanes]
            yield Bar(
                x=[end - start for start, end in zip(starts, ends, strict=True)], base=starts,
                y=[it.middle for it in lanes], width=[it.height for it in lanes],
                orientation="h", name=IN_LEGEND.get(word, word), hoverinfo="text",
                hovertext=[_about(it, frame) for it in lanes],
                marker={"color": fill,
                        "line": {"width": 1, "color": colour if hatch else palette.BLUE},
                        "pattern": {"shape": hatch, "fgcolor": colour, "bgcolor": fill, "size": 8,
                                    "solidity": 0.22}},
            )  # fmt: skip


def _about(lane: Lane, frame: Frame) -> str:
    moments = (lane.span.start_ns, lane.span.end_ns)
    start, end = (replica_history.ms(at_ns, frame.seen) for at_ns in moments)
    return f"{IN_LEGEND.get(lane.span.word, lane.span.word)}, {start} to {end} ms"


def _logs(frame: Frame) -> list[Scatter]:
    """How far each log reaches, filled down to offset 0."""
    drawn: list[Scatter] = []
    for number, broker in enumerate(frame.seen.replicas):
        steps = [it for it in frame.seen.ends if it.broker == broker]
        if steps:
            xs, ys = _stairs(frame, number, steps, frame.width)
            base = [frame.log_y(number)] * 2
            drawn.append(
                Scatter(x=[*xs, xs[-1], xs[0]], y=[*ys, *base], mode="lines", fill="toself",
                        fillcolor=FILL, line={"color": palette.BLUE, "width": 2, "shape": "hv"},
                        name="log end", legendgroup="log", showlegend=not drawn, hoverinfo="skip")
            )  # fmt: skip
    return drawn


def _watermark(frame: Frame) -> list[Scatter]:
    """The high watermark in the lane of the broker that led and told it."""
    drawn: list[Scatter] = []
    for number, broker in enumerate(frame.seen.replicas):
        # Apart where another broker told some between.
        reigns = groupby(frame.seen.watermarks, key=lambda step: step.broker)
        for steps in [list(its) for teller, its in reigns if teller == broker]:
            last_ns = steps[-1].at_ns
            after = [it.at_ns for it in frame.seen.watermarks if it.at_ns > last_ns]
            roles = (it for it in frame.seen.roles(broker) if it.word == LEADER)
            over = [it.end_ns for it in roles if it.end_ns >= last_ns]
            # A leader that does not run tells nobody where the watermark is.
            over += [it.start_ns for it in frame.seen.states(broker) if it.start_ns >= last_ns]
            until = frame.ends_at(min([*over, *after[:1], frame.seen.end_ns]))
            xs, ys = _stairs(frame, number, steps, until)
            drawn.append(
                Scatter(x=xs, y=ys, mode="lines", name="high watermark", legendgroup="mark",
                        hoverinfo="skip", showlegend=not drawn,
                        line={"color": palette.VERMILLION, "width": 2.4, "dash": "5px,3px",
                              "shape": "hv"})
            )  # fmt: skip
    return drawn


def _stairs(
    frame: Frame, number: int, steps: Sequence[Step], until: float
) -> tuple[list[float], list[float]]:
    """The corners of a line that holds its height until the next step: its shape is "hv"."""
    xs = [frame.column(step.at_ns) for step in steps]
    ys = [frame.log_y(number, step.offset) for step in steps]
    return [*xs, until], [*ys, ys[-1]]


def _reports(frame: Frame) -> Iterable[Scatter]:
    """A tick where a client heard of an ack, a cross where it heard of none."""
    lost = {id(row) for row in frame.seen.lost}
    for is_ack, style in ACKS.items():
        found = [it for it in frame.reports if it.is_ack is is_ack]
        told = [[in_picture(replica_history.report(row, lost), 120) for row in it.rows[:8]]
                for it in found]  # fmt: skip
        if found:
            yield points(style, [it.column for it in found], [frame.ticks_y] * len(found),
                         ["<br>".join(lines) for lines in told])  # fmt: skip


def _names(frame: Frame) -> Iterable[Drawn]:
    """What each lane is."""
    if frame.reports:
        yield beside(frame.ticks_y, "clients")
        yield beside(frame.ticks_y, "order @ offset", 15)
    for number, pair in enumerate(frame.seen.links):
        yield beside(frame.link_y(number), f"link {'-'.join(map(str, pair))}", 0)
    for number, broker in enumerate(frame.seen.replicas):
        yield beside(frame.log_y(number) + LOG_PX / 2, f"broker {broker}")
        yield beside(frame.log_y(number) + LOG_PX / 2, "its log", -16)
        yield beside(frame.role_y(number), "its role", 0)


def _words(frame: Frame) -> Iterable[Drawn]:
    """The word of each bar that has room for it."""
    for it in frame.lanes:
        word = it.span.word
        start, end = frame.column(it.span.start_ns), frame.ends_at(it.span.end_ns)
        name = "out" if word == OUT and not frame.fits(word, start, end) else word
        if frame.fits(name, start, end):
            is_leader, is_state = word == LEADER, it.height == LOG_PX
            yield note(
                end if is_state else start, it.middle, name, size=11,
                colour=palette.WHITE if is_leader else palette.BLACK,
                xanchor="right" if is_state else "left", xshift=-4 if is_state else 4,
                bgcolor=BARS[word][0] if word in (LEADER, IN_SYNC) else palette.WHITE,
            )  # fmt: skip


def _numbers(frame: Frame) -> Iterable[Drawn]:
    """The log ends where they change, what clients were told, the workload's end, long gaps."""
    for number, broker in enumerate(frame.seen.replicas):
        taken = -1.0
        for step in (it for it in frame.seen.ends if it.broker == broker):
            column, text = frame.column(step.at_ns), str(step.offset)
            if (column - taken) * frame.column_px >= len(text) * LETTER_PX + 4 or taken < 0:
                taken = column
                yield note(column, frame.log_y(number, step.offset) + 8, f"<b>{text}</b>", size=11,
                           colour=palette.BLUE, xanchor="left")  # fmt: skip
    for at, text, anchor in frame.moments:
        yield note(at, frame.top + 10, text, size=11, xanchor=anchor)
    for report, row in zip(frame.reports, frame.report_rows, strict=True):
        if row < REPORT_ROWS:
            colour = palette.BLACK if report.is_ack else palette.VERMILLION
            yield note(report.column, frame.ticks_y + 14 + row * REPORT_PX, in_picture(report.text),
                       size=11, colour=colour, xanchor="center")  # fmt: skip
    for start, end, gap in frame.time.pauses():
        if frame.fits(gap, start, end):
            yield note((start + end) / 2, frame.bottom + 8, gap, size=11, colour=palette.GREY,
                       xanchor="center")  # fmt: skip
