"""In and out: each order that was to be consumed, and how often each reader of a topic has it.

Exactly once, Kafka to Kafka, is decided as Kafka's own system tests do it: out equals in, with no
duplicate, for a read_committed reader that reads along and for one that reads when all is over. A
function of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plotly.graph_objects import Scatter

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import History
from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture, axis, figure, points, ticks
from lab_utils.views.tables import Table
from lab_utils.views.words import counted, in_picture, listed, said_of

ROW_PX: Final = 46
STYLES: Final = (
    Style("never", palette.BLACK, symbol="x-thin-open"),
    Style("once", palette.BLUE, symbol="square"),
    Style("more than once", palette.VERMILLION, symbol="diamond"),
)
READERS: Final = ("in the log", "concurrent reader", "final reader")


@dataclass(frozen=True, slots=True)
class InOut:
    """The orders in their sequence, and for each reader how often it has them.

    in the log         everything that was written, aborted or not: a read_uncommitted reader's view
    concurrent reader  read_committed, while the workload ran; final reader: when it was over
    """

    topic: str
    orders: tuple[str, ...]
    copies: dict[str, Counter[str]]

    @property
    def is_equal(self) -> bool:
        """Do both read_committed readers have each order once, and nothing else?"""
        wanted = Counter(self.orders)
        return all(self.copies[reader] == wanted for reader in READERS[1:])

    def missing(self, reader: str) -> list[str]:
        """The orders that a reader never has."""
        return [order for order in self.orders if not self.copies[reader][order]]

    def repeated(self, reader: str) -> list[str]:
        """The orders that a reader has more than once."""
        return [order for order in self.orders if self.copies[reader][order] > 1]

    def title(self) -> str:
        """What the picture shows, in sentences; of the final reader, if the two differ."""
        if self.is_equal:
            equal = f"Out equals in: {counted(len(self.orders), 'order')}, each once"
            again = self.repeated(READERS[0])
            return ". ".join([equal, *said_of(again, "there again for a read_uncommitted reader")])
        final = READERS[-1]
        gone = self.missing(READERS[0])
        hidden = [order for order in self.missing(final) if order not in gone]
        said = [
            *said_of(gone, f"missing in {self.topic}"),
            *said_of(hidden, f"in {self.topic}, but not for the final reader"),
            *said_of(self.repeated(final), f"in {self.topic} more than once"),
        ]
        return ". ".join(said) or "The two readers were given different things"

    def summary(self) -> str:
        """The picture in words."""
        told = [
            f"{self.copies[it].total()} {'to the ' if it.endswith('reader') else ''}{it}"
            for it in READERS
        ]
        return f"{counted(len(self.orders), 'order')} in; out: {listed(told)}."

    def table(self) -> Table:
        """A row for each order."""
        rows = [
            (order, 1, *(self.copies[reader][order] for reader in READERS)) for order in self.orders
        ]
        wrong = {n for n, row in enumerate(rows) if row[-1] != 1 or row[-2] != 1}
        return Table(("order", "in", *READERS), rows, f"Orders and {self.topic}.", frozenset(wrong))


def in_out(rows: Sequence[Event], topic: str) -> InOut:
    """How often each reader of a topic, by its name in the run, has each order."""
    history = History(rows)

    def had(kind: str) -> Counter[str]:
        here = (row for row in history.of("log", kind) if row.topic == f"{row.run}-{topic}")
        return Counter(row.value or "" for row in here)

    # Where no transaction wrote, every reader is given everything.
    final = had("visible" if had("marker") else "record")
    copies = dict(zip(READERS, (had("record"), had("seen"), final), strict=True))
    return InOut(topic, history.given, copies)


def in_and_out(rows: Sequence[Event], topic: str) -> Picture:
    """Each order that was to be consumed, and how often each reader of the topic has it."""
    found = in_out(rows, topic)
    lanes = {"in": Counter(found.orders), **found.copies}
    places: dict[Style, list[tuple[int, int, int]]] = {style: [] for style in STYLES}
    for row, copies in enumerate(lanes.values()):
        for column, order in enumerate(found.orders):
            places[STYLES[min(copies[order], 2)]].append((column, row, copies[order]))
    drawn = figure(
        [_trace(style, cells) for style, cells in places.items() if cells],
        plot_px=len(lanes) * ROW_PX,
        margins=(150, 20, 62, 100),
        xaxis=axis(-0.6, max(len(found.orders), 1) - 0.4, "order",
                   **ticks((at, in_picture(it, 8)) for at, it in enumerate(found.orders))),
        yaxis=axis(len(lanes) - 0.4, -0.6, showgrid=True, gridcolor=palette.PALE,
                   **ticks(enumerate(lanes))),
    )  # fmt: skip
    return Picture(found.title(), drawn, found.summary(), found.table())


def sinks(rows: Sequence[Event]) -> Table:
    """Each order, and how often each further topic and each sink of the run has it, as a table."""
    history = History(rows)
    given = f"{history.rows[0].run}-orders" if history.rows else ""
    found = dict(history.sinks)
    for row in history.of("log", "record"):
        if row.topic != given:
            name = f"topic {str(row.topic).removeprefix(f'{row.run}-')}"
            found.setdefault(name, Counter())[row.value or ""] += 1
    names = sorted(found, key=lambda name: (not name.startswith("topic"), name))
    cells = [(order, *(found[name][order] for name in names)) for order in history.given]
    wrong = {number for number, row in enumerate(cells) if any(it != 1 for it in row[1:])}
    return Table(("order", *names), cells, "How often each sink has an order.", frozenset(wrong))


def _trace(style: Style, cells: Sequence[tuple[int, int, int]]) -> Scatter:
    columns, rows, numbers = zip(*cells, strict=True)
    is_never = style is STYLES[0]
    return points(
        style, columns, rows, size=14 if is_never else 24,
        texts=["" if is_never else str(number) for number in numbers],
        textfont={"color": palette.WHITE, "size": 12},
    )  # fmt: skip
