"""What became of each order of a run: its facts, computed once from the rows of the ledger.

    sent ──▶ acked, failed or unknown ──▶ copies in the log ──▶ delivered ──▶ processed
      └──▶ exchanges: the requests that carried it, and what was answered

Counts, headlines, pictures and the rules of the checks read this. An order is a key and a value in
one topic. It states what the rows say and judges nothing.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final

from lab_utils.ledger.events import NOT_DELIVERED, Event

REPORTS: Final = ("acked", "failed", "unknown")
LEFT: Final = ("Fetch", "Heartbeat", "LeaveGroup")  # by a consumer that closes; as panel.js has it
# Which list of an order a row is kept in.
PARTS: Final = {
    **{("client", kind): kind for kind in ("sent", *REPORTS, "delivered", "processed")},
    **{("log", kind): "copies" for kind in ("record", "visible")},
}

Partition = tuple[str | None, int | None]
Identity = tuple[str | None, str | None, str | None]  # topic, key, value


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer; either may be missing, as when the run began in between.

    is_repeat   did all that it carries cross the wire before, in an earlier request?
    """

    requests: tuple[Event, ...]
    responses: tuple[Event, ...]
    is_repeat: bool = False

    @property
    def request(self) -> Event | None:
        """The request, as the event of its first partition."""
        return self.requests[0] if self.requests else None

    @property
    def response(self) -> Event | None:
        """The answer, as the event of its first partition that has an error, or of its first."""
        with_error = [row for row in self.responses if row.error]
        return next(iter(with_error or self.responses), None)

    @property
    def first(self) -> Event:
        """The request, or the answer if there is no request."""
        return (self.requests or self.responses)[0]

    @property
    def values(self) -> tuple[str, ...]:
        """The values that the request carries, as far as the proxy unpacked them."""
        return tuple(value for row in self.requests for value in carried(row))

    @property
    def error(self) -> str | None:
        """The error of the answer."""
        return self.response.error if self.response else None

    @property
    def is_lost(self) -> bool:
        """Did the client get nothing, as the request or its answer ended at the proxy?"""
        response = self.response
        if response is None:
            return self.request is not None and self.request.fate == "dropped"
        return response.fate in NOT_DELIVERED

    @property
    def is_left(self) -> bool:
        """Has its consumer closed without waiting for the answer, as it may?"""
        is_undelivered = self.response is not None and self.response.fate == "undelivered"
        return is_undelivered and self.first.api in LEFT

    @property
    def is_replay(self) -> bool:
        """Is it a copy that the proxy sent, of which the client knows nothing?"""
        return self.request is not None and self.request.fate == "replayed"

    @property
    def reached_broker(self) -> bool:
        """Did the proxy pass the request on unharmed, and did the broker accept it?"""
        request, response = self.request, self.response
        if request is None or request.fate in ("dropped", "corrupted"):
            return False
        # What the proxy answers says nothing about what the broker did.
        return response is None or response.fate == "replaced" or response.error is None

    def told_stored(self, row: Event, fates: Sequence[str] = ("forwarded",)) -> bool:
        """Was the client told that this part is stored? With acks=0 it takes that for granted.

        fates   what may have been done to an answer that counts
        """
        here = (row.topic, row.partition)
        answers = [it for it in self.responses if (it.topic, it.partition) == here]
        return row.detail.get("acks") == "0" or any(
            it.error is None and it.fate in fates for it in answers
        )


@dataclass(slots=True)
class Order:
    """One key and value in one topic, and every row that is about it.

    copies     its records in the log, whoever read them, each place once, by partition and offset
    lost       its acks beyond its copies, where the log of their partition was read to its end
    exchanges  the Produce requests that carried it, oldest first
    """

    topic: str | None
    key: str | None
    value: str
    sent: list[Event] = field(default_factory=list)
    acked: list[Event] = field(default_factory=list)
    failed: list[Event] = field(default_factory=list)
    unknown: list[Event] = field(default_factory=list)
    copies: list[Event] = field(default_factory=list)
    delivered: list[Event] = field(default_factory=list)
    processed: list[Event] = field(default_factory=list)
    lost: list[Event] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """One call of produce(): the report on it, if one came, and the copies that are its own."""

    order: Order
    attempt: int = 1
    report: Event | None = None
    copies: list[Event] = field(default_factory=list)

    @property
    def is_acked(self) -> bool:
        """Did the client report success?"""
        return self.report is not None and self.report.kind == "acked"


class History:
    """The facts of one run, from its rows in any sequence."""

    def __init__(self, rows: Iterable[Event]) -> None:
        self.rows = sorted(rows, key=lambda row: row.at_ns)
        self._by_source: dict[str, list[Event]] = defaultdict(list)
        for row in self.rows:
            self._by_source[row.source].append(row)

    def of(self, source: str, *kinds: str) -> list[Event]:
        """The rows of one source and of these kinds, oldest first."""
        return [row for row in self._by_source.get(source, ()) if row.kind in kinds]

    @cached_property
    def given(self) -> tuple[str, ...]:
        """The values of the orders that the run was given."""
        return tuple(row.value or "" for row in self.of("workload", "order"))

    @cached_property
    def ends(self) -> dict[Partition, Event | None]:
        """For each partition that was read back: the last time that this was to its end, if any."""
        found: dict[Partition, Event | None] = {}
        for row in self.of("log", "end"):
            place = row.topic, row.partition
            found[place] = row if row.detail.get("drained") == "true" else found.get(place)
        return found

    @cached_property
    def is_drained(self) -> bool:
        """Was every partition of the log read to its end?"""
        return bool(self.ends) and all(self.ends.values())

    @cached_property
    def is_unproven(self) -> bool:
        """Was a fault armed that never fired?"""
        armed, fired, unfired = (self.of("fault", kind) for kind in ("armed", "fired", "unfired"))
        return bool(unfired) or bool(armed and not fired)

    @cached_property
    def orders(self) -> dict[Identity, Order]:
        """Each order, in the sequence in which the rows name them."""
        found: dict[Identity, Order] = {}
        named: dict[tuple[str | None, str], list[Order]] = defaultdict(list)

        def order(topic: str | None, key: str | None, value: str | None) -> Order:
            if (topic, key, value) not in found:
                found[topic, key, value] = Order(topic, key, value or "")
                named[topic, value or ""].append(found[topic, key, value])
            return found[topic, key, value]

        for row in self.rows:
            if part := PARTS.get((row.source, row.kind)):
                getattr(order(*identity(row)), part).append(row)
        for exchange in self.exchanges:
            for row in exchange.requests:
                for value in dict.fromkeys(carried(row)):
                    # The proxy unpacks no keys.
                    for each in named[row.topic, value] or [order(row.topic, None, value)]:
                        each.exchanges.append(exchange)
        for each in found.values():
            each.copies = _places(each.copies)
            each.lost = [
                row for partition in dict.fromkeys(it.partition for it in each.acked)
                for row in _uncovered(each, partition, self._read_back(each.topic, partition))
            ]  # fmt: skip
        return found

    def _read_back(self, topic: str | None, partition: int | None) -> list[Event]:
        """The ends of this partition, or of all if it is None; none if one was not reached."""
        ends = [
            end for (of, number), end in self.ends.items()
            if of == topic and partition in (number, None)
        ]  # fmt: skip
        return [end for end in ends if end] if all(ends) else []

    @cached_property
    def log(self) -> list[Event]:
        """The records of the log, topic by topic, by partition and offset."""
        return _places(self.of("log", "record", "visible"))

    @cached_property
    def lost(self) -> list[Event]:
        """The acks of orders that are not in the log, oldest first."""
        rows = (row for order in self.orders.values() for row in order.lost)
        return sorted(rows, key=lambda row: row.at_ns)

    @cached_property
    def duplicated(self) -> list[Order]:
        """The orders that are stored more than once."""
        return [order for order in self.orders.values() if len(order.copies) > 1]

    @cached_property
    def reordered(self) -> list[tuple[Order, str]]:
        """The orders that are stored after one that was sent later, each with that one's value.

        Only what was sent once has a place in the sequence, and only in that of its producer.
        """
        number = {id(row): at for at, row in enumerate(self.of("client", "sent"))}
        place = {
            which: number[id(order.sent[0])]
            for which, order in self.orders.items() if len(order.sent) == 1
        }  # fmt: skip
        latest: dict[tuple[object, ...], Identity] = {}
        late: dict[Identity, tuple[Order, str]] = {}
        for which, row in ((identity(row), row) for row in self.log):
            if which in place:
                sent = self.orders[which].sent[0]
                here = row.topic, row.partition, sent.actor, sent.producer_id
                ahead = latest.setdefault(here, which)
                if place[which] < place[ahead]:
                    late.setdefault(which, (self.orders[which], self.orders[ahead].value))
                else:
                    latest[here] = which
        return list(late.values())

    @cached_property
    def work(self) -> Counter[str]:
        """How often the work was done for each value."""
        return Counter(row.value or "" for row in self.of("client", "processed"))

    @cached_property
    def repeated(self) -> list[Identity]:
        """The orders for which the work was done more often than groups were given them."""
        created = self.of("client", "created")
        group_of = {row.actor: row.detail.get("group.id") for row in created}
        groups: dict[Identity, set[str | None]] = defaultdict(set)
        for row in self.of("client", "delivered"):
            groups[identity(row)].add(group_of.get(row.actor))
        done = Counter(map(identity, self.of("client", "processed")))
        return [order for order, times in done.items() if times > max(1, len(groups[order]))]

    @cached_property
    def skipped(self) -> list[Event]:
        """The records that a group reads on after, and for which nobody did the work.

        Of a topic for which nobody did any, none.
        """
        marks: dict[Partition, int] = defaultdict(int)
        for row in self.committed:
            here = topic_partition(row)
            marks[here] = max(marks[here], row.offset or 0)
        work = self.of("client", "processed")
        places = {(topic_partition(row), row.offset) for row in work}
        # Another order may have been at a place when its work was done: logs are truncated.
        there = (row for row in self.log if (topic_partition(row), row.offset) in places)
        topics, done = {row.topic for row in work}, {identity(row) for row in (*work, *there)}
        visible = {(topic_partition(row), row.offset) for row in self.of("log", "visible")}
        has_transactions = {row.topic for row in self.of("log", "marker", "visible")}
        return [
            row
            for row in self.log
            if row.topic in topics and (row.offset or 0) < marks[topic_partition(row)]
            if identity(row) not in done
            if row.topic not in has_transactions or (topic_partition(row), row.offset) in visible
        ]

    @cached_property
    def effects(self) -> Counter[str]:
        """How many effects each value has in the database of the run."""
        return self.sinks.get("bookings", Counter())

    @cached_property
    def sinks(self) -> dict[str, Counter[str]]:
        """How many effects each value has, by the sink that holds them."""
        found: dict[str, Counter[str]] = {}
        for row in self.of("sink", "effect"):
            found.setdefault(row.actor, Counter())[row.value or ""] += row.records or 0
        return found

    @cached_property
    def committed(self) -> list[Event]:
        """Where each group reads on when the run is over, by group, topic and partition."""
        ends = (row for row in self.of("log", "committed") if row.detail.get("when") == "end")
        last = {(row.actor, *topic_partition(row)): row for row in ends}
        return [last[it] for it in sorted(last)]

    @cached_property
    def told_stored(self) -> set[str]:
        """The values that a client was told are stored, as the answers on the wire say."""
        return {
            value
            for exchange in self.exchanges
            for row in exchange.requests
            if exchange.told_stored(row)
            for value in carried(row)
        }

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """The Produce requests and their answers, in the sequence of their first event."""
        return exchanges(self.rows)

    @cached_property
    def calls(self) -> list[Call]:
        """Each call of produce(), oldest first; then one for each order that nobody sent."""
        calls: list[Call] = []
        of_order: dict[Identity, list[Call]] = defaultdict(list)
        waiting: dict[tuple[object, ...], list[Call]] = defaultdict(list)
        for row in self.rows:
            key = identity(row)
            who = (row.actor, *key)
            if (row.source, row.kind) == ("workload", "crashed"):
                waiting.clear()  # no report comes for what a dead process sent
            elif (row.source, row.kind) == ("client", "sent"):
                calls.append(Call(self.orders[key], row.attempt or 1))
                waiting[who].append(calls[-1])
                of_order[key].append(calls[-1])
            elif row.source == "client" and row.kind in REPORTS and waiting[who]:
                waiting[who].pop(0).report = row
        for key, order in self.orders.items():
            if order.copies and key not in of_order:
                calls.append(Call(order))
                of_order[key].append(calls[-1])
            _divide(order.copies, of_order[key])
        return calls

    def log_ends(self, topic: str | None) -> dict[str, int]:
        """Where each broker's log of a topic ended before the lab repaired the cluster."""
        healing = min((row.at_ns for row in self.of("broker", "healing")), default=None)
        return {
            row.actor: row.offset
            for row in self.of("broker", "log_end")
            if row.topic == topic and row.offset is not None
            and (healing is None or row.at_ns < healing)
        }  # fmt: skip


def exchanges(rows: Iterable[Event], apis: Sequence[str] | None = ("Produce",)) -> list[Exchange]:
    """The exchanges of these APIs (None is every one), in the sequence of their first event."""
    frames = [row for row in rows if row.source == "wire" and row.kind in ("request", "response")]
    wanted = [row for row in frames if apis is None or row.api in apis]
    groups = (tuple(group) for _, group in groupby(sorted(wanted, key=_frame), key=_frame))
    found = [
        Exchange(
            tuple(row for row in group if row.kind == "request"),
            tuple(row for row in group if row.kind == "response"),
        )
        for group in groups
    ]
    return _with_repeats(sorted(found, key=lambda exchange: exchange.first.at_ns))


def identity(row: Event) -> Identity:
    """The order that a row is about."""
    return row.topic, row.key, row.value


def topic_partition(row: Event) -> tuple[str, int]:
    """The topic and the partition that a row is about."""
    return row.topic or "", row.partition or 0


def carried(row: Event) -> list[str]:
    """The values that one Produce request carries to one partition; "" for none."""
    return [value or "" for _, value in carried_records(row)]


def carried_records(row: Event) -> list[tuple[str | None, str | None]]:
    """Key and value of each record that one Produce request carries to one partition."""
    if row.value is not None:
        return [(row.key, row.value)]
    values = json.loads(row.detail.get("values", "[]"))
    keys = json.loads(row.detail.get("keys", "[]")) or [None] * len(values)
    return list(zip(keys, values, strict=True))


def released_ns(row: Event) -> int:
    """When the proxy let the frame go: later than it came, if it was held."""
    return int(row.detail.get("released_at_ns", row.at_ns))


def _frame(row: Event) -> tuple[str, str, int]:
    """What a request has in common with its answer and with no other request."""
    place = row.detail
    return place.get("broker", ""), place.get("connection", ""), row.correlation_id or 0


def _with_repeats(found: list[Exchange]) -> list[Exchange]:
    seen: set[tuple[object, ...]] = set()
    marked = []
    for exchange in found:
        keys = {key for row in exchange.requests for key in _contents(row)}
        marked.append(Exchange(exchange.requests, exchange.responses, bool(keys) and keys <= seen))
        seen |= keys
    return marked


def _contents(row: Event) -> list[tuple[object, ...]]:
    """What a Produce request carries, by value; by the broker's key where no value is known."""
    if row.api != "Produce":
        return []
    values = carried(row)
    if not values and row.producer_id is not None and row.producer_id >= 0:
        return [(row.partition, row.producer_id, row.producer_epoch, row.sequence)]
    return [(row.topic, row.partition, value) for value in values]


def _uncovered(order: Order, partition: int | None, ends: Sequence[Event]) -> list[Event]:
    """The acks of an order in a partition beyond its copies there; first those without a place.

    ends  where the partition was read to. What was acked later may have been stored later.
    """
    acks = [
        row for row in order.acked
        if row.partition == partition and ends and all(_is_before(row, end) for end in ends)
    ]  # fmt: skip
    held = [row.offset for row in order.copies if partition in (row.partition, None)]
    acks.sort(key=lambda row: (row.offset in held, row.at_ns))
    return acks[: max(0, len(acks) - len(held))]


def _is_before(ack: Event, end: Event) -> bool:
    """Must the reader who came to this end have met what was acked?"""
    is_read = None not in (ack.offset, end.offset) and (ack.offset or 0) < (end.offset or 0)
    return ack.at_ns <= end.at_ns or is_read


def _places(records: Sequence[Event]) -> list[Event]:
    """Each place of the log once, as it was first read, by topic, partition and offset."""
    found = {
        (*topic_partition(row), row.offset or 0, str(row.key), str(row.value)): row
        for row in reversed(records)
    }
    return [found[place] for place in sorted(found)]


def _divide(copies: Sequence[Event], calls: Sequence[Call]) -> None:
    """Give each copy of one order to a call: first to the one whose report names its place.

    What is left goes to the calls that have none yet, in sequence; the rest to the first call.
    """
    rest = []
    for copy in copies:
        place = (copy.partition, copy.offset)
        named = [
            it for it in calls if it.report and (it.report.partition, it.report.offset) == place
        ]
        if named:
            named[0].copies.append(copy)
        else:
            rest.append(copy)
    for copy in rest:
        without = [call for call in calls if not call.copies]
        [*without, calls[0]][0].copies.append(copy)
    for call in calls:
        call.copies.sort(key=lambda row: (row.partition or 0, row.offset or 0))
