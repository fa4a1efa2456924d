"""The replicas of a partition over time: a lane a broker, its log, and what it was to the others.

A lane has the log as a filled line of steps, hatched while the broker does not run, and below it
the role that the controller gave it. A gap between log and high watermark is what no reader may
read. A function of rows; the shaping is in replication.py, the words in replicas_words.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Final

from plotly.graph_objects import Bar, Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette, replicas_words
from lab_utils.views.elastic_time import ms_text
from lab_utils.views.picture import Picture
from lab_utils.views.replicas_frame import LETTER_PX, LOG_PX, REPORT_PX, REPORT_ROWS, ROLE_PX, Frame
from lab_utils.views.replication import ELIGIBLE, IN_SYNC, LEADER, OUT, Replication, Span, Step
from lab_utils.views.wording import in_picture, title_lines

AXIS_PX: Final = 62
LEGEND_ROW_PX: Final = 20
LEGEND_COLUMNS: Final = 4
TICK_PX: Final = 60
FILL: Final = "rgba(0, 114, 178, 0.16)"
# Fill, hatch and colour of the hatch: no two are alike without their colours.
BARS: Final = {
    LEADER: (palette.BLUE, "", palette.WHITE),
    IN_SYNC: ("#cfe3f1", "", palette.BLACK),
    ELIGIBLE: (palette.WHITE, "\\", palette.PURPLE),
    OUT: (palette.WHITE, "/", palette.VERMILLION),
    "killed": ("rgba(255,255,255,0)", "x", palette.GREY),
    "died": ("rgba(255,255,255,0)", "x", palette.VERMILLION),
    "power cut": ("rgba(255,255,255,0)", "+", palette.VERMILLION),
    "stopped": ("rgba(255,255,255,0)", "-", palette.GREY),
    "paused": ("rgba(255,255,255,0)", "|", palette.ORANGE),
    "starting": ("rgba(255,255,255,0)", "\\", palette.GREY),
    "fenced": ("rgba(255,255,255,0)", ".", palette.PURPLE),
    "cut": (palette.WHITE, "x", palette.VERMILLION),
    "held": (palette.WHITE, "|", palette.SKY),
    "slow": (palette.WHITE, "/", palette.SKY),
}

TICKS: Final = (
    ("ack", True, "line-ns", palette.GREEN),
    ("no ack", False, "x-thin", palette.VERMILLION),
)

Drawn = dict[str, Any]


def replicas(rows: Sequence[Event], partition: int = 0) -> Picture:
    """What became of the replicas of one partition, drawn: a lane a broker."""
    seen = Replication(rows, partition)
    title = replicas_words.title(seen)
    return Picture(title, _figure(Frame(seen), title), replicas_words.summary(seen),
                   replicas_words.table(seen))  # fmt: skip


def _figure(frame: Frame, title: str) -> Figure:
    heading = title_lines(title)
    above = 44 + 23 * heading.count("<br>")
    figure = Figure([*_bars(frame), *_logs(frame), *_watermark(frame), *_reports(frame)])
    entries = sum(trace.showlegend is not False for trace in figure.data)
    below = AXIS_PX + LEGEND_ROW_PX * ceil(entries / LEGEND_COLUMNS)
    figure.update_layout(
        palette.layout(heading, int(above + below - frame.bottom)),
        barmode="overlay",
        showlegend=True,
        margin={"l": 96, "r": 24, "t": above, "b": below},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom",
                "traceorder": "normal"},
        xaxis=_time_axis(frame),
        yaxis={"visible": False, "fixedrange": True, "range": [frame.bottom, 0]},
        shapes=_shapes(frame),
        annotations=[*_names(frame), *_words(frame), *_numbers(frame), *_pause_names(frame)],
    )  # fmt: skip
    return figure


Bars = tuple[str, float, float, Span]


def _spans(frame: Frame) -> list[Bars]:
    """Each bar: its word, its height in pixels, the middle of it, and its time."""
    found: list[Bars] = []
    for number, broker in enumerate(frame.seen.replicas):
        found += [(it.word, ROLE_PX, frame.role_y(number), it) for it in frame.seen.roles(broker)]
        middle = frame.log_y(number) + LOG_PX / 2
        found += [(it.word, LOG_PX, middle, it) for it in frame.seen.states(broker)]
    for number, spans in enumerate(frame.seen.links.values()):
        found += [(it.word, 14, frame.link_y(number), it) for it in spans]
    return found


def _bars(frame: Frame) -> list[Bar]:
    """One entry of the legend for each role and each thing that was broken."""
    spans = _spans(frame)
    return [_bar(word, [it for it in spans if it[0] == word], frame)
            for word in BARS if any(it[0] == word for it in spans)]  # fmt: skip


def _bar(word: str, spans: Sequence[Bars], frame: Frame) -> Bar:
    fill, hatch, colour = BARS[word]
    starts = [frame.column(span.start_ns) for *_, span in spans]
    ends = [frame.ends_at(span.end_ns) for *_, span in spans]
    return Bar(
        x=[end - start for start, end in zip(starts, ends, strict=True)], base=starts,
        y=[middle for _, _, middle, _ in spans], width=[height for _, height, _, _ in spans],
        orientation="h", name=_in_legend(word), hoverinfo="text",
        hovertext=[_about(word, span, frame) for *_, span in spans],
        marker={"color": fill, "line": {"width": 1, "color": _edge(word)},
                "pattern": {"shape": hatch, "fgcolor": colour, "bgcolor": fill, "size": 8,
                            "solidity": 0.22}},
    )  # fmt: skip


def _edge(word: str) -> str:
    _, hatch, colour = BARS[word]
    return colour if hatch else palette.BLUE


def _in_legend(word: str) -> str:
    return {"cut": "link cut", "held": "link held", "slow": "link slow",
            ELIGIBLE: "out, but eligible (ELR)", "power cut": "power cut (a simulation)",
            }.get(word, word)  # fmt: skip


def _about(word: str, span: Span, frame: Frame) -> str:
    start, end = (replicas_words.ms(at, frame.seen) for at in (span.start_ns, span.end_ns))
    return f"{_in_legend(word)}, {start} to {end} ms"


def _logs(frame: Frame) -> list[Scatter]:
    """How far each log reaches, filled down to offset 0."""
    drawn: list[Scatter] = []
    for number, broker in enumerate(frame.seen.replicas):
        steps = [it for it in frame.seen.ends if it.broker == broker]
        if steps:
            line = _stairs(frame, number, steps, frame.width)
            line |= {"name": "log end", "legendgroup": "log", "showlegend": not drawn}
            base = [frame.log_y(number)] * 2
            xs, ys = line.pop("x"), line.pop("y")
            drawn.append(
                Scatter(x=[*xs, xs[-1], xs[0]], y=[*ys, *base], mode="lines", fill="toself",
                        fillcolor=FILL, line={"color": palette.BLUE, "width": 2},
                        hoverinfo="skip", **line)
            )  # fmt: skip
    return drawn


def _watermark(frame: Frame) -> list[Scatter]:
    """The high watermark in the lane of whoever led and said so."""
    drawn: list[Scatter] = []
    for number, broker in enumerate(frame.seen.replicas):
        for steps in _reigns(frame, broker):
            after = [it.at_ns for it in frame.seen.watermarks if it.at_ns > steps[-1].at_ns]
            roles = (it for it in frame.seen.roles(broker) if it.word == LEADER)
            over = [it.end_ns for it in roles if it.end_ns >= steps[-1].at_ns]
            # A leader that does not run tells nobody where the watermark is.
            over += [it.start_ns for it in frame.seen.states(broker)
                     if it.start_ns >= steps[-1].at_ns]  # fmt: skip
            until = frame.ends_at(min([*over, *after[:1], frame.seen.end_ns]))
            line = _stairs(frame, number, steps, until)
            drawn.append(
                Scatter(mode="lines", name="high watermark", legendgroup="mark", hoverinfo="skip",
                        showlegend=not drawn, **line,
                        line={"color": palette.VERMILLION, "width": 2.4, "dash": "5px,3px"})
            )  # fmt: skip
    return drawn


def _reigns(frame: Frame, broker: int) -> list[list[Step]]:
    """The watermarks that a broker told, apart where another one told some between."""
    found: list[list[Step]] = []
    last = None
    for step in frame.seen.watermarks:
        if step.broker == broker:
            if last != broker:
                found.append([])
            found[-1].append(step)
        last = step.broker
    return found


def _stairs(frame: Frame, number: int, steps: Sequence[Step], until: float) -> Drawn:
    """A line that holds its height until the next step."""
    xs: list[float] = []
    ys: list[float] = []
    for step in steps:
        column, y = frame.column(step.at_ns), frame.log_y(number, step.offset)
        xs += [column, column] if ys else [column]
        ys += [ys[-1], y] if ys else [y]
    return {"x": [*xs, until], "y": [*ys, ys[-1]]}


def _reports(frame: Frame) -> list[Scatter]:
    """A tick where a client heard of an ack, a cross where it heard of none."""
    lost = {id(row) for row in frame.seen.lost}
    drawn = []
    for name, is_ack, symbol, colour in TICKS:
        found = [it for it in frame.reports if it.is_ack is is_ack]
        if found:
            told = [[in_picture(replicas_words.report(row, lost), 120) for row in it.rows[:8]]
                    for it in found]  # fmt: skip
            drawn.append(
                Scatter(x=[it.column for it in found], y=[frame.ticks_y] * len(found), name=name,
                        mode="markers", cliponaxis=False, hoverinfo="text",
                        hovertext=["<br>".join(lines) for lines in told],
                        marker={"symbol": symbol, "size": 11, "opacity": 1, "color": colour,
                                "line": {"width": 2.6, "color": colour}})
            )  # fmt: skip
    return drawn


def _time_axis(frame: Frame) -> Drawn:
    ticks = frame.time.ticks(TICK_PX / frame.column_px)
    return {
        "title": {"text": "milliseconds, not to scale; what happened close together is one column",
                  "font": {"size": 12, "color": palette.GREY}, "standoff": 4},
        "range": [-0.5, frame.width], "fixedrange": True, "zeroline": False, "showgrid": False,
        "ticks": "", "tickvals": [column for column, _ in ticks],
        "ticktext": [text for _, text in ticks], "tickfont": {"size": 11, "color": palette.GREY},
    }  # fmt: skip


def _shapes(frame: Frame) -> list[Drawn]:
    """Offset 0 of each log, the line of the reports, the end of the workload, and the mending."""
    lines = [_line(-0.5, frame.log_y(number), frame.width, frame.log_y(number), palette.GREY)
             for number, _ in enumerate(frame.seen.replicas)]  # fmt: skip
    lines.append(_line(-0.5, frame.ticks_y, frame.width, frame.ticks_y, palette.PALE))
    ends = [at for at in (frame.finished, frame.healing) if at is not None]
    return lines + [
        _line(at, frame.bottom + 12, at, frame.top + 4, palette.BLACK, "4px,3px") for at in ends
    ]


def _line(x0: float, y0: float, x1: float, y1: float, colour: str, dash: str = "solid") -> Drawn:
    return {"type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "layer": "below",
            "line": {"width": 1, "color": colour, "dash": dash}}  # fmt: skip


def _names(frame: Frame) -> list[Drawn]:
    """What each lane is."""
    names = [(frame.ticks_y, "<b>clients</b>"), (frame.ticks_y + 15, "order @ offset")]
    names = names if frame.reports else []
    names += [(frame.link_y(number), f"link {'-'.join(map(str, pair))}")
              for number, pair in enumerate(frame.seen.links)]  # fmt: skip
    for number, broker in enumerate(frame.seen.replicas):
        names += [(frame.log_y(number) + LOG_PX / 2, f"<b>broker {broker}</b>"),
                  (frame.log_y(number) + LOG_PX / 2 - 16, "its log"),
                  (frame.role_y(number), "its role")]  # fmt: skip
    return [
        {"x": 0, "xref": "paper", "y": y, "text": text, "showarrow": False, "xanchor": "right",
         "xshift": -8, "font": {"size": 13 if "<b>" in text else 11, "color":
                                palette.BLACK if "<b>" in text else palette.GREY}}
        for y, text in names
    ]  # fmt: skip


def _words(frame: Frame) -> list[Drawn]:
    """The word of each bar that has room for it."""
    found = []
    for word, height, middle, span in _spans(frame):
        start, end = frame.column(span.start_ns), frame.ends_at(span.end_ns)
        name = "out" if word == OUT and not frame.fits(word, start, end) else word
        if frame.fits(name, start, end):
            is_leader, is_state = word == LEADER, height == LOG_PX
            found.append(
                {"x": end if is_state else start, "xanchor": "right" if is_state else "left",
                 "xshift": -4 if is_state else 4, "y": middle, "showarrow": False, "text": name,
                 "font": {"size": 11, "color": palette.WHITE if is_leader else palette.BLACK},
                 "bgcolor": palette.BLUE if is_leader else BARS[word][0] if word == IN_SYNC
                 else palette.WHITE}
            )  # fmt: skip
    return found


def _numbers(frame: Frame) -> list[Drawn]:
    """The log ends where they change, what clients were told, and the workload's end."""
    found = []
    for number, broker in enumerate(frame.seen.replicas):
        taken = -1.0
        for step in (it for it in frame.seen.ends if it.broker == broker):
            column, text = frame.column(step.at_ns), str(step.offset)
            if (column - taken) * frame.column_px >= len(text) * LETTER_PX + 4 or taken < 0:
                taken = column
                found.append(_text(column, frame.log_y(number, step.offset) + 8, f"<b>{text}</b>",
                                   palette.BLUE, "left"))  # fmt: skip
    if frame.finished is not None:
        found.append(_text(frame.finished, frame.top + 10, "workload done", palette.BLACK, "right"))
    if frame.healing is not None:
        found.append(_text(frame.healing, frame.top + 10, "healing", palette.BLACK, "left"))
    for report, row in zip(frame.reports, frame.report_rows, strict=True):
        if row < REPORT_ROWS:
            colour = palette.BLACK if report.is_ack else palette.VERMILLION
            y = frame.ticks_y + 14 + row * REPORT_PX
            found.append(_text(report.column, y, in_picture(report.text), colour, "center"))
    return found


def _text(x: float, y: float, text: str, colour: str, anchor: str) -> Drawn:
    return {"x": x, "y": y, "text": text, "showarrow": False, "xanchor": anchor,
            "font": {"size": 11, "color": colour}}  # fmt: skip


def _pause_names(frame: Frame) -> list[Drawn]:
    """How long the long gaps are, between the lanes and the axis."""
    return [
        _text((start + end) / 2, frame.bottom + 8, f"{ms_text(gap)} ms", palette.GREY, "center")
        for start, end, gap in frame.time.pauses()
        if frame.fits(f"{ms_text(gap)} ms", start, end)
    ]
