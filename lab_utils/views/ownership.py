"""Ownership: which consumer had which partition, and since when: a lane for each partition.

    partition 0   consumer-1  ━━━━━━━━━━━━  ━━━━━━━━━━━━━━━━━━
    partition 1   consumer-1                ━━━━━━━━━━━━━━━━━━
                  consumer-2  ━━━━━━■━━■━━━━━━━━━━━━✕          it still believed that it had it

What a consumer believes is drawn, as its callbacks were told: from `assigned` to `revoked` or
`lost`, or to the kill of its process. A function of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final

from plotly.graph_objects import Bar, Scatter

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History, topic_partition
from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import (
    MS,
    ElasticTime,
    Picture,
    apart,
    axis,
    beside,
    elastic_time,
    figure,
    line,
    ms_text,
    note,
    points,
)
from lab_utils.views.tables import Table
from lab_utils.views.words import WERE, in_picture, listed, said_of

ROW_PX: Final = 30
BAR_PX: Final = 16
NAME_PX: Final = 26  # the name of a partition, above its rows
WIDTH_PX: Final = 700  # what a notebook of 900 pixels leaves for the lanes
TICK_PX: Final = 52
MARKS_LIMIT: Final = 60
KILLED: Final = "killed"
OPEN: Final = "end of the run"
ENDS: Final = ("revoked", "lost")

# Colour, hatch and colour of the hatch of each consumer, in turn.
OWNERS: Final = (
    (palette.BLUE, ""), (palette.ORANGE, "/"), (palette.PURPLE, "\\"), (palette.GREEN, "x"),
    (palette.SKY, "."), (palette.GREY, "+"),
)  # fmt: skip
MARKS: Final = {
    "once": Style("order processed", palette.BLACK, symbol="square"),
    "again": Style("order processed again", palette.VERMILLION, symbol="diamond"),
    "refused": Style("commit refused", palette.VERMILLION, symbol="x"),
}

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Owned:
    """From one moment to another a consumer had a partition; `end` says what ended that."""

    place: Place
    owner: str
    from_ns: int
    to_ns: int
    end: str


@dataclass(frozen=True, slots=True)
class Mark:
    """What a consumer did with a partition, of a kind in MARKS."""

    place: Place
    owner: str
    at_ns: int
    text: str
    kind: str


class Ownership:
    """Who had what, and what they did with it."""

    def __init__(self, rows: Sequence[Event]) -> None:
        self.history = History(rows)
        given = self.history.of("client", "assigned")
        self.places = sorted({topic_partition(row) for row in given})
        self.owners = sorted({row.actor for row in given})
        self.begun_ns = min((row.at_ns for row in given), default=0)

    @cached_property
    def spans(self) -> list[Owned]:
        """Each time that a consumer had a partition, oldest first."""
        rows = self.history.of("client", "assigned", *ENDS)
        last = {row.actor: row.at_ns for row in self.history.rows if row.source == "client"}
        crashes = [row.at_ns for row in self.history.of("workload", "crashed")]
        over = max((row.at_ns for row in self.history.rows), default=0)
        found = []
        for number, row in enumerate(rows):
            if row.kind != "assigned":
                continue
            mine = (it for it in rows[number + 1 :] if _key(it) == _key(row))
            end = next((it for it in mine if it.kind in ENDS), None)
            # A process that was killed says nothing more.
            dead = next((at for at in crashes if at >= last[row.actor]), None)
            ends = (end.at_ns, end.kind) if end else (dead, KILLED) if dead else (over, OPEN)
            found.append(Owned(topic_partition(row), row.actor, row.at_ns, *ends))
        return found

    @cached_property
    def shared(self) -> list[tuple[Owned, Owned]]:
        """Where two consumers had the same partition at once: the earlier one, and the later."""
        by_start = sorted(self.spans, key=lambda it: it.from_ns)
        return [
            (a, b)
            for a, b in combinations(by_start, 2)
            if a.place == b.place and a.owner != b.owner and b.from_ns < a.to_ns
        ]

    @cached_property
    def marks(self) -> list[Mark]:
        """What was processed, and the commits that were refused, oldest first."""
        done: Counter[tuple[Place, int | None]] = Counter()
        had: dict[tuple[Place, int | None], str] = {}
        # What a consumer took by assign() was not assigned to it, and has no row.
        owned = {(it.place, it.owner) for it in self.spans}
        found = []
        for row in self.history.of("client", "delivered", "processed", "error"):
            if row.kind == "error":
                found += self._refused(row)
                continue
            key = (topic_partition(row), row.offset)
            if row.kind == "delivered":
                had[key] = row.actor
            elif (topic_partition(row), had.get(key)) in owned:
                done[key] += 1
                kind = "once" if done[key] == 1 else "again"
                found.append(Mark(topic_partition(row), had[key], row.at_ns, row.value or "", kind))
        return found

    def _refused(self, row: Event) -> list[Mark]:
        """A refused commit stands on each partition that its consumer believed it had."""
        if row.detail.get("of") != "commit":
            return []
        owned = (it for it in self.spans if it.owner == row.actor)
        places = [it.place for it in owned if it.from_ns <= row.at_ns <= it.to_ns]
        return [Mark(it, row.actor, row.at_ns, row.error or "", "refused") for it in places]

    def name(self, place: Place) -> str:
        """What a partition is called; its topic only if there are several."""
        topic, partition = place
        several = len({it for it, _ in self.places}) > 1
        return f"{topic}-{partition}" if several else f"partition {partition}"

    def ms(self, at_ns: int) -> str:
        """Milliseconds since the first partition was assigned."""
        return ms_text((at_ns - self.begun_ns) / MS)

    def title(self) -> str:
        """What happened, as sentences without the last full stop."""
        said = [*self._two_owners(), *self._deaths()]
        repeated = list(dict.fromkeys(it.text for it in self.marks if it.kind == "again"))
        said += said_of(repeated, "processed more than once", WERE)
        if said or not self.spans:
            return ". ".join(said) or "No partition was assigned"
        owners = {place: {it.owner for it in self.spans if it.place == place}
                  for place in self.places}  # fmt: skip
        moved = [self.name(place) for place, who in owners.items() if len(who) > 1]
        return f"{listed(moved).capitalize()} changed hands" if moved else (
            "Every partition kept its owner"
        )  # fmt: skip

    def _two_owners(self) -> Iterable[str]:
        for a, b in self.shared:
            told = next((it for it in self.marks if it.kind == "refused" and it.owner == a.owner
                         and it.place == a.place and it.at_ns >= b.from_ns), None)  # fmt: skip
            yield (
                f"{self.name(a.place).capitalize()} was given to {b.owner} while {a.owner} still "
                f"believed it had it{f', and its commit was refused: {told.text}' if told else ''}"
            )

    def _deaths(self) -> Iterable[str]:
        for it in self.spans:
            if it.end != KILLED:
                continue
            heirs = (each for each in self.spans if each.place == it.place)
            heir = next((each for each in heirs if each.from_ns > it.to_ns), None)
            name = self.name(it.place)
            if heir is None:
                yield f"{it.owner} was killed, and nobody was given {name}"
            else:
                later = ms_text((heir.from_ns - it.to_ns) / MS)
                yield f"{it.owner} was killed; {later} ms later {heir.owner} was given {name}"

    def summary(self) -> str:
        """The picture in words."""
        said = []
        for place in self.places:
            spans = [f"{it.owner} from {self.ms(it.from_ns)} to {self.ms(it.to_ns)} ms ({it.end})"
                     for it in self.spans if it.place == place]  # fmt: skip
            said.append(f"{self.name(place).capitalize()}: {listed(spans)}.")
        return " ".join(said) or "No consumer was given a partition."

    def table(self) -> Table:
        """The spans as rows."""
        rows = [(self.name(it.place), it.owner, self.ms(it.from_ns), self.ms(it.to_ns), it.end)
                for it in self.spans]  # fmt: skip
        columns = ("partition", "consumer", "from ms", "to ms", "ended by")
        return Table(columns, rows, "Which consumer had which partition.")


def _key(row: Event) -> tuple[str, Place]:
    return row.actor, topic_partition(row)


class _Frame:
    """Where everything is: a lane for each partition, in it a row for each of its consumers."""

    def __init__(self, seen: Ownership) -> None:
        self.seen = seen
        marks = [it for it in seen.marks if it.kind != "once" or len(seen.marks) <= MARKS_LIMIT]
        self.marks = marks
        edges = apart([at for it in seen.spans for at in (it.from_ns, it.to_ns)], MS)
        self.time: ElasticTime = elastic_time([*edges, *(it.at_ns for it in marks)])
        self.rows: dict[tuple[Place, str], float] = {}
        self.tops: dict[Place, float] = {}
        y = 0.0
        for place in seen.places:
            self.tops[place] = y
            y -= NAME_PX
            for owner in sorted({it.owner for it in seen.spans if it.place == place}):
                self.rows[place, owner] = y - ROW_PX / 2
                y -= ROW_PX
        self.bottom = y

    @property
    def width(self) -> float:
        """The columns of the picture."""
        return self.time.width + 0.5


def ownership(rows: Sequence[Event]) -> Picture:
    """Which consumer had which partition, drawn: a lane for each partition."""
    seen = Ownership(rows)
    frame, title = _Frame(seen), seen.title()
    drawn = figure(
        [*_bars(frame), *_marks(frame)], plot_px=-frame.bottom, barmode="overlay",
        margins=(84, 24, 62, 92),
        xaxis=frame.time.axis(-0.5, frame.width, TICK_PX * (frame.width + 0.5) / WIDTH_PX),
        yaxis=axis(frame.bottom, 0, visible=False),
        shapes=_lines(frame),
        notes=[
            *(note(0, y, f"<b>{in_picture(seen.name(place))}</b>", xref="paper", xanchor="left",
                   yanchor="top") for place, y in frame.tops.items()),
            *(beside(y, in_picture(owner), 0) for (_, owner), y in frame.rows.items()),
            *(note(frame.time.column(at), 1, KILLED, yref="paper", yanchor="bottom")
              for at in _deaths(seen)),
        ],
    )  # fmt: skip
    return Picture(title, drawn, seen.summary(), seen.table())


def _deaths(seen: Ownership) -> list[int]:
    return sorted({it.to_ns for it in seen.spans if it.end == KILLED})


def _lines(frame: _Frame) -> list[dict[str, object]]:
    """Between the lanes, and where a process was killed."""
    across = [line((-0.5, frame.width), (y, y), palette.PALE) for y in frame.tops.values()]
    return across + [
        line((frame.time.column(at),) * 2, (0, 1), palette.BLACK, 1.2, "4px,3px", yref="paper")
        for at in _deaths(frame.seen)
    ]


def _bars(frame: _Frame) -> Iterable[Bar]:
    """One entry of the legend for each consumer."""
    for number, owner in enumerate(frame.seen.owners):
        colour, hatch = OWNERS[number % len(OWNERS)]
        spans = [it for it in frame.seen.spans if it.owner == owner]
        starts = [frame.time.column(it.from_ns) for it in spans]
        ends = [frame.time.column(it.to_ns) for it in spans]
        yield Bar(
            x=[end - start for start, end in zip(starts, ends, strict=True)], base=starts,
            y=[frame.rows[it.place, owner] for it in spans], width=BAR_PX, orientation="h",
            name=f"{in_picture(owner)} has it", hoverinfo="text", opacity=0.55,
            hovertext=[f"{in_picture(owner)}, {frame.seen.ms(it.from_ns)} to "
                       f"{frame.seen.ms(it.to_ns)} ms, {it.end}" for it in spans],
            marker={"color": palette.WHITE if hatch else colour, "line": {"width": 1.5,
                    "color": colour},
                    "pattern": {"shape": hatch, "fgcolor": colour, "bgcolor": palette.WHITE,
                                "size": 7, "solidity": 0.3}},
        )  # fmt: skip


def _marks(frame: _Frame) -> Iterable[Scatter]:
    for kind, style in MARKS.items():
        here = [it for it in frame.marks if it.kind == kind]
        if here:
            xs = [frame.time.column(it.at_ns) for it in here]
            ys = [frame.rows[it.place, it.owner] for it in here]
            texts = [in_picture(it.text, 8) if kind != "refused" else "" for it in here]
            about = [f"{style.name}: {in_picture(it.text)}, {frame.seen.ms(it.at_ns)} ms"
                     for it in here]  # fmt: skip
            yield points(style, xs, ys, about, size=9, texts=texts, textposition="top center")
