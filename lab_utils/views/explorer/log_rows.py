"""The log of a run and what else a step can change, as rows of cells with a state at each moment.

    offset           0  1  2  3  4
    log              0  1  2  2  3        the fourth appears when the broker says that it has it
    work             1  2  1              how often it was done
    committed           ▲                 where the group reads on

A cell is empty until its first state. When the log has been read back, it says what is there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lab_utils.ledger.events import Event
from lab_utils.ledger.history import Call, History, carried, exchanges, topic_partition
from lab_utils.views import palette
from lab_utils.views.orders import OUTCOMES, Place, outcome, place_of
from lab_utils.views.palette import Style
from lab_utils.views.replica_history import Replication
from lab_utils.views.transaction_timeline import orders_first
from lab_utils.views.words import shown

END_NS: Final = 1 << 62  # when the log is read back
BEGIN_NS: Final = 0
MISSING: Final = "acked, not in the log"
CELLS_LIMIT: Final = 40
POINTER: Final = "\N{BLACK UP-POINTING TRIANGLE}"
TIMES: Final = "\N{MULTIPLICATION SIGN}"
DASH: Final = "\N{EN DASH}"
LATE: Final = "late"

# What a cell can be: what the picture of orders by offset has, and what a consumer does.
CELLS: Final = {
    **OUTCOMES,
    LATE: Style("stored after an order that was sent later", palette.ORANGE, symbol="square"),
    "there": Style("in the topic from the start", palette.GREY, symbol="square-open"),
    "done": Style("work done once", palette.BLUE, symbol="square"),
    "again": Style("work done more than once", palette.VERMILLION, symbol="diamond"),
    "never": Style("skipped: never processed", palette.BLACK, symbol="x-thin-open"),
    "pointer": Style("the group reads on here", palette.GREEN, symbol="triangle"),
    "visible": Style("given to every reader", palette.GREEN, symbol="square"),
    "hidden": Style("for read_uncommitted only", palette.ORANGE, symbol="circle-open"),
    "copy": Style("seen on this broker (a look every 50 ms)", palette.SKY, symbol="square"),
}


@dataclass(frozen=True, slots=True)
class State:
    """What a cell shows from a moment on: a text, and what that is, a key of CELLS or nothing."""

    at_ns: int
    text: str
    kind: str


@dataclass(slots=True)
class Row:
    """A row of cells by their column."""

    name: str
    cells: dict[int, list[State]] = field(default_factory=lambda: defaultdict(list))

    def put(self, column: int, at_ns: int, text: str, kind: str) -> None:
        """From this moment on the cell shows this."""
        if column < CELLS_LIMIT:
            self.cells[column].append(State(at_ns, shown(text, 8), kind))


def log_rows(rows: Sequence[Event]) -> list[Row]:
    """The rows of a run: the log, or each broker's, then the work and the readers."""
    run = History(rows)
    replication = Replication(rows)
    several = len(replication.replicas) > 1
    replicas = _replica_rows(run, replication) if several else []
    found = list(_topic_rows(run, is_read_back=several))
    found += _work_rows(run) if run.work or run.of("client", "delivered") else []
    found += _visible_rows(run)
    found += _effect_rows(run)
    return [*replicas, *(row for row in found if row.cells)]


def stored_ns(run: History) -> dict[Place, int]:
    """When each place of the log was known to be written: the broker had answered so."""
    found: dict[Place, int] = {}
    of_value: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for exchange in exchanges(run.rows):
        answers = {(row.topic, row.partition): row for row in exchange.responses}
        for row in exchange.requests:
            answer = answers.get((row.topic, row.partition))
            at_ns = answer.at_ns if answer else row.at_ns
            if answer and answer.offset is not None and not answer.error:
                for number in range(row.records or 1):
                    place = (row.topic or "", row.partition or 0, answer.offset + number)
                    found.setdefault(place, at_ns)
            elif exchange.reached_broker:
                for value in carried(row):
                    of_value[row.topic or "", row.partition or 0, value].append(at_ns)
    for row in run.log:
        unplaced = of_value[row.topic or "", row.partition or 0, row.value or ""]
        if place_of(row) not in found and unplaced:
            found[place_of(row)] = unplaced.pop(0)
    return found


def _topic_rows(run: History, *, is_read_back: bool) -> Iterable[Row]:
    """A row for each partition that was read back, and one for what is missing there.

    Of several replicas each has a row of its own, and this one is what is left in the end.
    """
    known, kinds = {} if is_read_back else stored_ns(run), _kinds(run)
    written = {row.topic for row in run.of("client", "sent")}
    names = _names(run)
    end = " read back" if is_read_back else ""
    found = {place: Row(f"{name}{end}") for place, name in names.items()}
    seen: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for row in sorted(run.log, key=lambda it: known.get(place_of(it), END_NS)):
        topic, partition, offset = place_of(row)
        into, value = found[topic, partition], row.value or ""
        at_ns = known.get((topic, partition, offset), END_NS if topic in written else BEGIN_NS)
        earlier = seen[topic, partition, value]
        kind = kinds.get((topic, partition, offset), "there")
        if kind == "twice" and not earlier:
            into.put(offset, at_ns, value, "once")
        else:
            into.put(offset, at_ns, value, kind)
            if len(earlier) == 1:
                into.put(earlier[0], at_ns, value, kind)
        earlier.append(offset)
    for row in run.of("log", "marker"):
        topic, partition, offset = place_of(row)
        text = row.detail.get("type", "?")[:1]
        found[topic, partition].put(offset, END_NS, text, "marker")
    return [*found.values(), _missing(run)]


def _kinds(run: History) -> dict[Place, str]:
    """What each record of the log is in the end."""
    written = {row.topic for row in run.of("client", "sent")}
    late = {place_of(copy) for order, _ in run.reordered for copy in order.copies}

    def kind(call: Call, place: Place) -> str:
        if place[0] not in written:
            return "there"
        found = outcome(call)
        return LATE if found == "once" and place in late else found

    places = ((call, place_of(copy)) for call in run.calls for copy in call.copies)
    return {place: kind(call, place) for call, place in places}


def _names(run: History) -> dict[tuple[str, int], str]:
    """The partitions that were read back, and what each is called."""
    places = {topic_partition(row) for row in run.of("log", "end", "record")}
    prefix = f"{run.rows[0].run}-" if run.rows else ""
    partitions = Counter(topic for topic, _ in places)

    def name(topic: str, partition: int) -> str:
        short = "log" if len(partitions) == 1 else f"log of {topic.removeprefix(prefix)}"
        return f"{short}, partition {partition}" if partitions[topic] > 1 else short

    return {place: name(*place) for place in sorted(places, key=orders_first)}


def _missing(run: History) -> Row:
    """The orders that were acked and are not in the log."""
    row = Row(MISSING)
    for number, lost in enumerate(run.lost):
        row.put(number, END_NS, lost.value or "", "lost")
    return row


def _replica_rows(run: History, seen: Replication) -> list[Row]:
    """How far the log of each broker reached, with the values where they are known."""
    answered = _answered(run, seen)
    found = {broker: Row(f"broker {broker}") for broker in seen.replicas}
    reach: Counter[int] = Counter()
    for step in seen.ends:
        if seen.healing_ns is not None and step.at_ns >= seen.healing_ns:
            continue
        row, before = found[step.broker], reach[step.broker]
        leader = seen.leader(step.at_ns) or step.broker
        for offset in range(before, step.offset):
            row.put(offset, step.at_ns, _value(answered[offset], leader), "copy")
        for offset in range(step.offset, before):
            row.put(offset, step.at_ns, "", "")
        reach[step.broker] = step.offset
    return list(found.values())


def _answered(run: History, seen: Replication) -> dict[int, dict[int, str]]:
    """The value at each offset, by the broker that led when it was answered or reported."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    leaders = {it.leader for it in seen.decisions if it.leader}
    for row in run.log if len(leaders) == 1 else ():
        if row.partition == seen.partition:
            found[row.offset or 0][min(leaders)] = row.value or ""
    for exchange in run.exchanges:
        for row in exchange.responses:
            if row.offset is not None and not row.error and row.partition == seen.partition:
                asked = (it for it in exchange.requests if it.partition == seen.partition)
                values = [value for it in asked for value in carried(it)]
                for number, value in enumerate(values):
                    found[row.offset + number][int(row.detail.get("broker", "1"))] = value
    for row in seen.reports:
        leader = seen.leader(row.at_ns)
        if row.offset is not None and leader:
            found[row.offset].setdefault(leader, row.value or "")
    return found


def _value(by_broker: dict[int, str], leader: int) -> str:
    """What a broker has at an offset: what the leader of the time has there, or all that answered.

    Where two leaders have answered and neither leads now, nobody has said which it is.
    """
    values = set(by_broker.values())
    return by_broker.get(leader) or (values.pop() if len(values) == 1 else "?")


def _work_rows(run: History) -> list[Row]:
    """What was handed out, what was done, and where the group reads on."""
    given, work, marks = Row("delivered"), Row("work done"), Row("committed")
    delivered: Counter[int] = Counter()
    done: Counter[int] = Counter()
    for row in run.of("client", "delivered", "processed"):
        offset, times = row.offset or 0, delivered if row.kind == "delivered" else done
        times[offset] += 1
        into = given if row.kind == "delivered" else work
        kind = "there" if row.kind == "delivered" else "done" if times[offset] == 1 else "again"
        into.put(offset, row.at_ns, f"{times[offset]}{TIMES}", kind)
    at = None
    for at_ns, offset in _commits(run):
        if at is not None:
            marks.put(at, at_ns, "", "")
        marks.put(offset, at_ns, POINTER, "pointer")
        at = offset
    for row in run.skipped:
        work.put(row.offset or 0, END_NS, f"0{TIMES}", "never")
    return [given, work, marks]


def _commits(run: History) -> list[tuple[int, int]]:
    """When the broker had moved the bookmark of the group, and to where.

    An offset that is part of a transaction moves it when the transaction is committed.
    """
    moved: list[tuple[int, int]] = []
    pending: dict[str, list[int]] = {}
    for it in exchanges(run.rows, ("OffsetCommit", "TxnOffsetCommit", "EndTxn")):
        row = it.first
        if it.error is not None or not it.reached_broker:
            continue
        offsets = [each.offset for each in it.requests if each.offset is not None]
        if row.api == "TxnOffsetCommit":
            pending[row.actor] = offsets
            continue
        if row.api == "EndTxn":
            taken = pending.pop(row.actor, [])
            offsets = taken if row.detail.get("committed") == "True" else []
        moved += [(it.response.at_ns if it.response else row.at_ns, offset) for offset in offsets]
    return moved


def _visible_rows(run: History) -> list[Row]:
    """What a read_committed reader is given in the end, where there were transactions."""
    if not (run.of("log", "transaction", "marker") or run.of("client", "txn_began")):
        return []
    names = _names(run)
    visible = {place_of(row) for row in run.of("log", "visible")}
    found = {place: Row(f"read_committed: {name}") for place, name in names.items()}
    for row in run.log:
        topic, partition, offset = place_of(row)
        is_seen = (topic, partition, offset) in visible
        kind, text = ("visible", row.value or "") if is_seen else ("hidden", DASH)
        found[topic, partition].put(offset, END_NS, text, kind)
    written = {row.topic for row in run.of("client", "sent")}
    return [row for (topic, _), row in found.items() if topic in written]


def _effect_rows(run: History) -> list[Row]:
    """How many rows of the database each order has in the end."""
    if not run.of("sink", "effect"):
        return []
    row = Row("rows in the database")
    for column, value in enumerate(run.given):
        times = run.effects[value]
        kind = {0: "never", 1: "done"}.get(times, "again")
        row.put(column, END_NS, f"{times}{TIMES}", kind)
    return [row]
