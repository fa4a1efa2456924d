r"""The lines of a timeline: where each request and each answer begins, bends and ends.

    y = +1   client     o─\                 /─▶
    y =  0   proxy         ●─\      /─x    ●        the proxy's moment is measured;
    y = -1   broker           ▶    /      /         the slope beside it is drawn

Pure shaping: exchanges in, paths out. It knows no Plotly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.views.elastic_time import MS, ElasticTime, elastic_time
from lab_utils.views.exchanges import Exchange

# Half the columns that a frame takes from client to broker: less than half a column, so that
# what arrived before is drawn before.
SLOPE: Final = 0.42
LANE_GAP: Final = 0.5
CLIENTS_LIMIT: Final = 4
PROXY: Final = 0.0
AFTER_NS: Final = 2_000 * MS  # what comes this soon after the last frame is in the picture

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Path:
    """One line: its style in palette.WIRE, its corners, and the number of the measured one."""

    style: str
    points: tuple[Point, ...]
    measured: int
    event: Event


@dataclass(frozen=True, slots=True)
class Lanes:
    """The height at which each client and each broker is drawn."""

    clients: dict[str, float]
    brokers: dict[str, float]

    @property
    def top(self) -> float:
        """The height of the topmost lane."""
        return max(self.clients.values(), default=1.0)

    @property
    def bottom(self) -> float:
        """The height of the lowest lane."""
        return min(self.brokers.values(), default=-1.0)


def lanes(found: Sequence[Exchange]) -> Lanes:
    """A lane for each client, unless they are many, and for each broker."""
    clients = list(dict.fromkeys(exchange.first.actor for exchange in found))
    brokers = sorted({broker_of(exchange.first) for exchange in found})
    step = LANE_GAP if len(clients) <= CLIENTS_LIMIT else 0.0
    return Lanes(
        {name: 1 + step * place for place, name in enumerate(reversed(clients))},
        {name: -1 - LANE_GAP * place for place, name in enumerate(brokers)},
    )


def broker_of(row: Event) -> str:
    """The number of the broker that a frame goes to or comes from."""
    return row.detail.get("broker", "1")


def released_ns(row: Event) -> int:
    """When the proxy let the frame go: later than it came, if it was held."""
    return int(row.detail.get("released_at_ns", row.at_ns))


def time_of(found: Sequence[Exchange], others: Sequence[int] = ()) -> ElasticTime:
    """The time axis of these exchanges, with room for other moments among them, in nanoseconds."""
    frames = [row for exchange in found for row in (exchange.request, exchange.response) if row]
    if not frames:
        return elastic_time([])
    moments = [at_ns for row in frames for at_ns in (row.at_ns, released_ns(row))]
    start, end = min(moments), max(moments) + AFTER_NS
    return elastic_time([*moments, *(at_ns for at_ns in others if start <= at_ns <= end)])


def paths(found: Sequence[Exchange], time: ElasticTime, where: Lanes) -> list[Path]:
    """All lines of the picture."""
    drawn = []
    for exchange in found:
        drawn += _request_paths(exchange, time, where)
        drawn += _response_paths(exchange, time, where)
    return drawn


def _request_paths(exchange: Exchange, time: ElasticTime, where: Lanes) -> list[Path]:
    row = exchange.request
    if row is None:
        return []
    comes, goes = time.column(row.at_ns), time.column(released_ns(row))
    client = (comes - SLOPE, where.clients[row.actor])
    broker = (goes + SLOPE, where.brokers[broker_of(row)])
    if row.fate == "dropped":
        return [Path("lost", (client, (comes, PROXY)), 1, row)]
    style = "corrupted" if row.fate == "corrupted" else "request"
    return _through(style, row, client, (comes, goes), broker)


def _response_paths(exchange: Exchange, time: ElasticTime, where: Lanes) -> list[Path]:
    row, request = exchange.response, exchange.request
    if row is None:
        return []
    comes, goes = time.column(row.at_ns), time.column(released_ns(row))
    broker = (comes - SLOPE, where.brokers[broker_of(row)])
    client = (goes + SLOPE, where.clients[row.actor])
    if row.fate == "dropped":
        return [Path("lost", (broker, (comes, PROXY)), 1, row)]
    if row.fate == "replaced":
        was_asked = request is not None and request.fate != "dropped"
        asked = [Path("answer", (broker, (comes, PROXY)), 1, row)] if was_asked else []
        given = Path("replaced", ((goes, PROXY), client), 0, row)
        return [*asked, given, *_wait(row, comes, goes)]
    style = "error" if row.error else "answer"
    return _through(style, row, broker, (comes, goes), client)


def _through(
    style: str, row: Event, start: Point, proxy: tuple[float, float], end: Point
) -> list[Path]:
    """A frame on its way through the proxy: in one line, or in two with a wait between."""
    comes, goes = (proxy[0], PROXY), (proxy[1], PROXY)
    if comes == goes:
        return [Path(style, (start, comes, end), 1, row)]
    first, second = Path(style, (start, comes), 1, row), Path(style, (goes, end), 0, row)
    return [first, second, *_wait(row, *proxy)]


def _wait(row: Event, comes: float, goes: float) -> list[Path]:
    """How long the proxy held a frame, if it did."""
    return [Path("held", ((comes, PROXY), (goes, PROXY)), 1, row)] if goes > comes else []
