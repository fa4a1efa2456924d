"""Bookmarks: where the work of a consumer was and where its bookmark stood, step by step.

A row is an offset of one partition, a column a step. The bookmark is a line *between* the rows:
what is below it will not be read again. A commit counts from when its request was forwarded to
the broker, by a call or by the timer: a client that is killed takes its own report along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from plotly.graph_objects import Scatter

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History, identity
from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture, axis, figure, line, note, points
from lab_utils.views.tables import Table
from lab_utils.views.words import WERE, counted, in_picture, listed, said_of

STEPS_MAX: Final = 120
ROW_PX: Final = 34
OF_CLIENTS: Final = ("delivered", "processed", "stored", "sought", "assigned", "revoked", "lost")
STYLES: Final = {
    "delivered": Style("delivered", palette.GREY, symbol="circle-open"),
    "processed": Style("processed", palette.BLUE, symbol="square"),
    "repeated": Style("processed again", palette.VERMILLION, symbol="diamond"),
    "stored": Style("stored for the next commit", palette.PURPLE, symbol="triangle-up-open"),
    "sought": Style("seek", palette.ORANGE, symbol="triangle-left-open"),
}
BOOKMARK: Final = Style("committed: read on above this line", palette.GREEN, width=2.6)
NO_WORK: Final = "No call of run.processed was recorded, so no work is drawn"
PROCESSED: Final = "Every order before the bookmark was processed once"
LINE: Final = ("committed", "expired")
NAMED_STEPS: Final = ("killed", "started again", "lost")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what happened, by whom, and at which offset, if at one."""

    kind: str
    actor: str
    offset: int | None
    value: str | None


@dataclass(frozen=True)
class Bookmarks:
    """The steps of one partition, oldest first, and what became of its records.

    values    of its records, by offset
    repeated  the offsets of orders for which the work was done more often than it was given
    skipped   the offsets after which a group reads on, and for which nobody did the work
    """

    partition: int
    steps: tuple[Step, ...]
    values: dict[int, str]
    repeated: list[int]
    skipped: list[int]

    @property
    def drawn(self) -> tuple[Step, ...]:
        """As many steps as a picture has room for."""
        return self.steps[:STEPS_MAX]

    @property
    def committed(self) -> int | None:
        """The last offset that was committed; None if it has expired since."""
        return next((s.offset for s in reversed(self.steps) if s.kind in LINE), None)

    def title(self) -> str:
        """What the picture shows, as a sentence."""
        was_killed = any(step.kind == "killed" for step in self.steps)
        why = "the bookmark had not reached the work" if was_killed else "they were read again"
        if any(step.kind == "processed" for step in self.steps):
            said = [
                *self._were(self.skipped, "skipped: the bookmark was ahead of the work"),
                *self._were(self.repeated, f"processed more than once: {why}"),
            ]
            is_nowhere = self.committed is None
            return ". ".join(said) or (self._stands() if is_nowhere else PROCESSED)
        given = Counter(step.offset or 0 for step in self.steps if step.kind == "delivered")
        again = sorted(offset for offset, times in given.items() if times > 1)
        return ". ".join((*self._were(again, "delivered again"), self._stands(), NO_WORK))

    def _stands(self) -> str:
        at = "nowhere" if self.committed is None else f"at offset {self.committed}"
        return f"The bookmark stands {at}"

    def _were(self, offsets: list[int], what: str) -> list[str]:
        """What became of the orders at these offsets, if there are any."""
        return said_of([self.values.get(it, f"at {it}") for it in offsets], what, WERE)

    def summary(self) -> str:
        """The picture in words."""
        counts = Counter(step.kind for step in self.steps)
        nouns = {
            "delivered": ("delivery", "deliveries"),
            "processed": ("record processed", "records processed"),
            "committed": ("commit", ""),
            "killed": ("kill", ""),
        }
        told = [counted(counts[kind], *words) for kind, words in nouns.items() if counts[kind]]
        cut = f" The first {STEPS_MAX} of {len(self.steps)} steps are drawn."
        rest = cut if len(self.steps) > STEPS_MAX else ""
        done = listed(told) or "no delivery"
        return f"Partition {self.partition}: {done}. {self._stands()}.{rest}"

    def table(self) -> Table:
        """The steps as rows."""
        rows: list[tuple[object, ...]] = [
            (number, step.actor, step.kind, step.offset, step.value)
            for number, step in enumerate(self.drawn, start=1)
        ]
        columns = ("step", "who", "what", "offset", "order")
        return Table(columns, rows, f"The steps of partition {self.partition}.")


def bookmarks(rows: Sequence[Event], partition: int = 0) -> Bookmarks:
    """The history of one partition of the topic that was consumed."""
    history = History(rows)
    topic = next((row.topic for row in history.of("client", "delivered")), None)

    here = (topic, partition)

    def offsets(rows: Iterable[Event]) -> list[int]:
        return sorted({row.offset or 0 for row in rows if (row.topic, row.partition) == here})

    again = set(history.repeated)
    about = (row for row in history.rows if (row.topic, row.partition) in (here, (None, None)))
    values = {
        row.offset: row.value or ""
        for row in history.log
        if (row.topic, row.partition) == here and row.offset is not None
    }
    return Bookmarks(
        partition,
        tuple(_steps(about)),
        values,
        offsets(row for row in history.of("client", "processed") if identity(row) in again),
        offsets(history.skipped),
    )


def _steps(rows: Iterable[Event]) -> Iterator[Step]:
    """What these rows show; where a process stays away for long, its bookmark expires."""
    expires = False
    for row in rows:
        expires |= row.kind == "fired" and row.detail.get("until_expired") == "True"
        if step := _step(row):
            yield step
            if expires and step.kind == "killed":
                yield Step("expired", step.actor, None, None)
                expires = False


def _step(row: Event) -> Step | None:
    if row.source == "client" and row.kind in OF_CLIENTS:
        return Step(row.kind, row.actor, row.offset, row.value)
    if _is_commit(row):
        return Step("committed", row.actor, row.offset, None)
    if (row.source, row.kind) == ("workload", "crashed"):
        return Step("killed", row.actor, None, None)
    if (row.source, row.kind) == ("workload", "started") and (row.attempt or 1) > 1:
        return Step("started again", row.actor, None, None)
    return None


def _is_commit(row: Event) -> bool:
    """Is it a commit on its way to the broker? Of one partition, which is all that a row names."""
    is_request = (row.source, row.kind) == ("wire", "request") and row.fate == "forwarded"
    return is_request and row.api in ("OffsetCommit", "TxnOffsetCommit") and row.offset is not None


def offset_diagram(rows: Sequence[Event], partition: int = 0) -> Picture:
    """Where the work was and where the bookmark stood, step by step, in one partition."""
    found = bookmarks(rows, partition)
    height, steps = max([*found.values, 0]) + 1, len(found.drawn)
    named = [(n, it.kind) for n, it in enumerate(found.drawn, start=1) if it.kind in NAMED_STEPS]
    drawn = figure(
        [*_marks(found), *_bookmark(found)], plot_px=(height + 1) * ROW_PX,
        margins=(66, 20, 84, 104),
        xaxis=axis(0.3, steps + 0.7, "step", dtick=1 if steps <= 24 else 5),
        yaxis=axis(-0.85, height - 0.15, "offset", dtick=1, showgrid=True, gridcolor=palette.PALE),
        shapes=[line((at, at), (0, 1), palette.BLACK, 1.2, "4px,3px", yref="paper")
                for at, _ in named],
        notes=[note(at, 1, kind, yref="paper", yanchor="bottom",
                    xanchor="left" if kind == "started again" else "right") for at, kind in named],
    )  # fmt: skip
    return Picture(found.title(), drawn, found.summary(), found.table())


def _marks(found: Bookmarks) -> list[Scatter]:
    """One entry of the legend for each kind of step that has an offset."""
    places: dict[str, list[tuple[int, float, str]]] = {}
    done: set[int] = set()
    for number, step in enumerate(found.drawn, start=1):
        if step.kind in STYLES and step.offset is not None:
            is_again = step.kind == "processed" and step.offset in done & {*found.repeated}
            kind = "repeated" if is_again else step.kind
            done |= {step.offset} if step.kind == "processed" else set()
            # An offset to read on from lies between two records, as the bookmark does.
            above = step.offset - 0.5 if kind in ("stored", "sought") else step.offset
            about = f"step {number}: {step.actor}, {kind} {step.value or step.offset}"
            places.setdefault(kind, []).append((number, above, in_picture(about, 80)))
    return [
        points(style, *zip(*places[kind], strict=True), size=13)
        for kind, style in STYLES.items()
        if kind in places
    ]


def _bookmark(found: Bookmarks) -> list[Scatter]:
    """The committed offset as a line of steps, from a commit on until its bookmark expires."""
    places: list[tuple[float | None, float | None, int]] = []
    stands = None
    for number, step in enumerate(found.drawn, start=1):
        if step.kind == "expired" and stands is not None:
            places += [(number, stands, 0), (None, None, 0)]
            stands = None
        if step.kind == "committed" and step.offset is not None:
            stands = step.offset - 0.5
            places.append((number, stands, 7))
    if not places:
        return []
    if stands is not None:
        places.append((len(found.drawn) + 0.5, stands, 0))
    steps, offsets, sizes = zip(*places, strict=True)
    return [
        Scatter(
            x=steps, y=offsets, mode="lines+markers", name=BOOKMARK.name, hoverinfo="skip",
            line={"shape": "hv", "width": BOOKMARK.width, "color": BOOKMARK.colour},
            marker={"size": sizes, "color": BOOKMARK.colour},
        )
    ]  # fmt: skip
