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

from plotly.graph_objects import Figure, Scatter

from lab_utils.ledger.events import Event
from lab_utils.views import palette
from lab_utils.views.palette import Style
from lab_utils.views.picture import Picture
from lab_utils.views.table import Table
from lab_utils.views.wording import counted, in_picture, listed, title_lines

NAMED_MAX: Final = 4
ROW_PX: Final = 46
STYLES: Final = {
    "once": Style("once", palette.BLUE, symbol="square"),
    "more": Style("more than once", palette.VERMILLION, symbol="diamond"),
    "never": Style("never", palette.BLACK, symbol="x-thin-open"),
}
READERS: Final = ("in the log", "concurrent reader", "final reader")


@dataclass(frozen=True, slots=True)
class InOut:
    """The orders in their order, and for each reader how often it has them.

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
        """What the picture shows, as a sentence; of the final reader, if the two differ."""
        if self.is_equal:
            return f"Out equals in: {counted(len(self.orders), 'order')}, each once"
        final = READERS[-1]
        said = [
            f"{_named(orders)} {'is' if len(orders) == 1 else 'are'} {what}"
            for orders, what in (
                (self.missing(final), f"missing in {self.topic}"),
                (self.repeated(final), f"in {self.topic} more than once"),
            )
            if orders
        ]
        sentence = "; ".join(said)
        return sentence[:1].upper() + sentence[1:] or "The two readers were given different things"

    def summary(self) -> str:
        """The picture in words."""
        told = [
            f"{sum(self.copies[it].values())} {'to the ' if it.endswith('reader') else ''}{it}"
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


def in_and_out(rows: Sequence[Event], topic: str) -> Picture:
    """Each order that was to be consumed, and how often each reader of the topic has it."""
    found = in_out(rows, topic)
    return Picture(found.title(), _figure(found), found.summary(), found.table())


def in_out(rows: Sequence[Event], topic: str) -> InOut:
    """How often each reader of a topic, by its name in the run, has each order."""
    orders = tuple(row.value or "" for row in rows if row.kind == "order")
    here = [row for row in rows if row.source == "log" and row.topic == f"{row.run}-{topic}"]

    def had(kind: str) -> Counter[str]:
        return Counter(row.value or "" for row in here if row.kind == kind)

    # Where no transaction wrote, every reader is given everything.
    is_transactional = any(row.kind == "marker" for row in here)
    final = had("visible" if is_transactional else "record")
    return InOut(
        topic, orders, dict(zip(READERS, (had("record"), had("seen"), final), strict=True))
    )


def _figure(found: InOut) -> Figure:
    heading = title_lines(found.title())
    above = 62 + 23 * heading.count("<br>")
    rows = ("in", *READERS)
    figure = Figure([_trace(name, found) for name in STYLES if _cells(name, found)])
    figure.update_layout(
        palette.layout(heading, above + len(rows) * ROW_PX + 100),
        showlegend=True,
        margin={"l": 150, "r": 20, "t": above, "b": 100},
        legend={"orientation": "h", "x": 0, "y": 0.01, "yref": "container", "yanchor": "bottom"},
        xaxis={"title": {"text": "order"}, "tickvals": list(range(len(found.orders))),
               "ticktext": [in_picture(order, 8) for order in found.orders],
               "range": [-0.6, max(len(found.orders), 1) - 0.4],
               "showgrid": False, "zeroline": False},
        yaxis={"tickvals": list(range(len(rows))), "ticktext": list(rows),
               "range": [len(rows) - 0.4, -0.6], "gridcolor": palette.PALE, "zeroline": False},
    )  # fmt: skip
    return figure


def _cells(name: str, found: InOut) -> list[tuple[int, int, int]]:
    """Column, row and number of the cells of one style."""
    readers = [Counter(found.orders), *(found.copies[reader] for reader in READERS)]
    cells = [
        (column, row, copies[order])
        for row, copies in enumerate(readers)
        for column, order in enumerate(found.orders)
    ]
    return [cell for cell in cells if name == ("never", "once", "more")[min(cell[2], 2)]]


def _trace(name: str, found: InOut) -> Scatter:
    style = STYLES[name]
    columns, rows, numbers = zip(*_cells(name, found), strict=True)
    is_open = "open" in style.symbol
    return Scatter(
        x=columns, y=rows, mode="markers+text", name=style.name, hoverinfo="skip",
        text=["" if is_open else str(number) for number in numbers],
        textfont={"color": palette.WHITE, "size": 12},
        marker={"symbol": style.symbol, "size": 14 if is_open else 24, "color": style.colour,
                "line": {"width": 2.5 if is_open else 0, "color": style.colour}},
    )  # fmt: skip


def _named(orders: Sequence[str]) -> str:
    more = ["others"] if len(orders) > NAMED_MAX else []
    return f"order{'s' if len(orders) > 1 else ''} {listed([*orders[:NAMED_MAX], *more])}"
