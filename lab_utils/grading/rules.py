"""Rules that exercises are made of: each says what is wrong in one sentence, or None.

A rule takes the learner's answer and the evidence of one trial. Those on the log and the wire
read only what the broker, the proxy and the honest reader wrote down. A lab may add its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from lab_utils.audit.report import counted
from lab_utils.grading.cases import Evidence, Rule
from lab_utils.ledger.events import (
    CLIENTS_NEED,
    EXAMINED_BYTES,
    EXAMINED_GROUPS,
    EXAMINED_NUMBERS,
    EXAMINED_PARTITIONS,
    EXAMINED_RECORDS,
    Event,
)

FENCED: Final = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
BECAME: Final = ("once", "lost", "twice")
Copies = Callable[[Evidence], Mapping[Any, int]]  # how often each order is somewhere


def each_order_is_stored(_: Any, evidence: Evidence) -> str | None:
    """Is every order in the log at least once, and in no transaction that was not committed?"""
    absent = missing(evidence, Counter(evidence.stored))
    if absent:
        return f"{_orders(absent)} not in the log: {len(absent)} of {len(evidence.orders)} missing."
    if not is_transactional(evidence):
        return None
    visible = Counter(row.value for row in evidence.history.of("log", "visible"))
    hidden = missing(evidence, visible)
    if not hidden:
        return None
    what = "it" if len(hidden) == 1 else "them"
    return (
        f"{_orders(hidden)} in the log, in a transaction that was not committed: a read_committed "
        f"reader is not given {what}."
    )


def no_order_is_stored_twice(_: Any, evidence: Evidence) -> str | None:
    """Is no order in the log more than once, whatever its key? What was aborted is no order."""
    copies = defaultdict[tuple[Any, ...], list[Event]](list)
    for row in readable(evidence):
        copies[row.topic, row.value].append(row)
    twice = [(value, rows) for (_, value), rows in copies.items() if len(rows) > 1]
    if not twice:
        return None
    value, rows = twice[0]
    others = f" {len(twice)} orders are stored more than once." if len(twice) > 1 else ""
    return f"order {value} is in the log {times(len(rows))}, at {_offsets(rows)}.{others}"


def nothing_else_is_stored(_: Any, evidence: Evidence) -> str | None:
    """Does the log hold nothing but the orders of the run?"""
    strange = sorted(set(evidence.stored) - set(evidence.orders))
    if not strange:
        return None
    what = "a value that is no order" if len(strange) == 1 else f"{len(strange)} values, no orders"
    shown = ", ".join(map(repr, strange[:3]))
    return Misshapen(f"the log holds {what} of this run: {shown}.")


def the_process_was_restarted(_: Any, evidence: Evidence) -> str | None:
    """Did a second process take part, after the first had been killed?"""
    if after_crash(evidence):
        return None
    return "no request of a restarted process ever came to the wire."


def everything_crossed_the_proxy(_: Any, evidence: Evidence) -> str | None:
    """Does the log hold no more records than Produce requests have carried to the broker?"""
    carried: Counter[tuple[str | None, int | None]] = Counter()
    for row in evidence.requests("Produce"):
        if row.fate != "dropped":
            carried[row.topic, row.partition] += row.records or 0
    for end in evidence.history.ends.values():
        if end is not None and "start" in end.detail:
            return (
                f"partition {end.partition} begins at offset {end.detail['start']}: what was "
                "before it has been deleted."
            )
    held = Counter((row.topic, row.partition) for row in evidence.log)
    for (topic, partition), stored in held.items():
        if stored > carried[topic, partition]:
            return (
                f"partition {partition} holds {stored} records, but only "
                f"{carried[topic, partition]} crossed the proxy."
            )
    return None


def no_order_is_added(_: Any, evidence: Evidence) -> str | None:
    """Did the workload leave alone the topic that it reads its orders from?

    What it writes there looks like an order to a fault and to a crash, and no reader of its work
    sees it.
    """
    is_written = any(map(evidence.is_given, evidence.requests()))
    if not is_written and len(evidence.given) <= len(evidence.orders):
        return None
    return (
        "your function wrote to run.topic, which holds the orders that it is to read. Write what "
        "becomes of them to another topic."
    )


def only_what_clients_need(_: Any, evidence: Evidence) -> str | None:
    """Did the workload ask for nothing that changes topics, groups or the cluster itself?

    Whoever deletes a topic and makes it anew leaves a log in which nothing went wrong.
    """
    for row in evidence.history.of("wire", "request", "opaque"):
        if row.api is None:
            return "a request crossed the wire that nobody can read."
        if row.kind == "request" and row.api not in CLIENTS_NEED:
            return (
                f"your function asked the broker for {row.api}, which no producer and no "
                "consumer needs."
            )
        if row.api == "Produce" and "outside" in row.detail:
            return (
                f"a client that calls itself {row.actor!r} wrote to {row.topic}: it is none of "
                "this run's. Take run.producer(), or name it by run.client_id(name)."
            )
        # Of the others as many partitions are read as the first has.
        if row.api == "CreatePartitions" and row.topic != f"{row.run}-orders":
            return "your function gave partitions to another topic than run.topic."
    return None


def it_can_be_examined(evidence: Evidence) -> str | None:
    """Did the workload make of its run what can be looked at?

    It sends so much and no more, and nothing that is compressed; of several processes each joins.
    """
    requests = evidence.requests()
    # One that is about several partitions is as many events.
    frames = {
        (row.detail.get("connection"), row.correlation_id): int(row.detail.get("bytes", 0))
        for row in requests
    }
    for row in requests:
        if name := row.detail.get("compression"):
            return (
                f"your function compresses what it sends (compression.type={name}), and an "
                "examination takes nothing that is compressed. Leave compression.type out."
            )
    # A batch says itself how many it holds, and a broker refuses one that says -1.
    records = sum(max(0, row.records or 0) for row in requests)
    asked = evidence.history.of("wire", "request")
    groups = {row.detail["group_id"] for row in asked if "group_id" in row.detail}
    there = {(row.topic, row.partition) for row in evidence.history.of("broker", "partition")}
    topics = Counter(topic for topic, _ in there)
    numbers = Counter((row.detail.get("connection"), row.correlation_id) for row in asked)
    for did, many, what, most in (
        ("sent", records, "records", EXAMINED_RECORDS),
        ("sent", sum(frames.values()), "bytes", EXAMINED_BYTES),
        ("asked for", len(groups), "groups", EXAMINED_GROUPS),
        ("gave its topic", max(topics.values(), default=0), "partitions", EXAMINED_PARTITIONS),
        ("gave one number to", max(numbers.values(), default=0), "requests", EXAMINED_NUMBERS),
    ):
        if many > most:
            return f"your function {did} {many:,} {what}, and {most:,} are looked at in one run."
    return _all_join(evidence, asked) if evidence.trial.members > 1 and evidence.trouble else None


def _all_join(evidence: Evidence, asked: Sequence[Event]) -> str | None:
    """Has each of several consumers joined a group?"""
    consumers = {row.actor for row in asked if row.actor.startswith("consumer-")}
    joined = {row.actor for row in asked if row.api in ("JoinGroup", "ConsumerGroupHeartbeat")}
    wanted = evidence.trial.members
    if len(consumers) < wanted or len(consumers & joined) >= wanted:
        return None
    return (
        f"{wanted} processes were to share the partitions, and {len(consumers & joined)} joined a "
        "group. Only who subscribes does."
    )


class Misshapen(str):
    """A breach of the form that was asked for, which no mistake with a name explains."""

    __slots__ = ()


def answer_equals(expected: Callable[[Evidence], Any]) -> Rule:
    """The answer is the value that `expected` reads from the evidence."""

    def equals(answer: Any, evidence: Evidence) -> str | None:
        right = expected(evidence)
        if not isinstance(right, dict) or not isinstance(answer, dict):
            said = f"your answer is {answer!r}, and that is not what happened."
            is_other = Misshapen(said) if isinstance(right, dict) else said
            return None if _is_same(answer, right) else is_other
        wrong = [it for it in right if it not in answer or not _is_same(answer[it], right[it])]
        if not wrong:
            return None
        said = " ".join(_differences(wrong, answer))
        is_in_form = all(_is_plain(answer.get(it)) == _is_plain(right[it]) for it in wrong)
        return said if is_in_form else Misshapen(said)

    return equals


def what_became(evidence: Evidence, copies: Mapping[str, int]) -> str:
    """Is one of the orders "lost" among these copies, is one there "twice", or is each "once"?"""
    is_lost, is_repeated = missing(evidence, copies), repeated(evidence, copies)
    return "lost" if is_lost else "twice" if is_repeated else "once"


def names_what_became(copies: Copies) -> Rule:
    """The answer says under the trial's name what became of the orders."""

    def names(answer: Any, evidence: Evidence) -> str | None:
        name = evidence.trial.name
        if name not in answer:
            return Misshapen(f"your answer does not name {name!r}.")
        said = answer[name]
        if said == what_became(evidence, copies(evidence)):
            return None
        if said not in BECAME:
            return Misshapen(f"{name!r}: you said {said!r}, and that is none of the three words.")
        return f"{name!r}: you said {said!r}, and that is not what happened."

    return names


def rows_equal(expected: Callable[[Evidence], Iterable[dict[str, Any]]]) -> Rule:
    """The rows that the learner's query returned are those that `expected` finds, in any order."""

    def equals(_: Any, evidence: Evidence) -> str | None:
        wanted = list(expected(evidence))
        right = Counter(_row(row, None) for row in wanted)
        columns = sorted(wanted[0]) if wanted else None
        returned = evidence.returned or ()
        if columns and (absent := [c for c in columns if returned and c not in returned[0]]):
            there = ", ".join(returned[0])
            return Misshapen(f"the column {absent[0]!r} is missing; there are {there}.")
        yours = Counter(_row(row, columns) for row in returned)
        if yours == right:
            return None
        return _difference(yours, right)

    return equals


def orders_in_runs(what: str) -> Callable[[Any, Sequence[Evidence]], str]:
    """Say of a workload that passed how many orders there were in how many runs, and this."""

    def said(_: Any, evidence: Sequence[Evidence]) -> str:
        orders = sum(len(each.orders) for each in evidence)
        return f"{orders} orders in {len(evidence)} {what}"

    return said


def low_acks(evidence: Evidence) -> list[str]:
    """The acks that requests asked for, where that is less than every in-sync replica."""
    return sorted({"0", "1"} & {row.detail.get("acks") for row in evidence.requests()})


def after_crash(evidence: Evidence, api: str = "") -> list[Event]:
    """The requests, of one API if it is named, that crossed the wire after the last crash."""
    if not evidence.crashes:
        return []
    end = evidence.crashes[-1].at_ns
    rows = evidence.history.of("wire", "request")
    return [row for row in rows if row.at_ns > end and api in ("", row.api)]


def _difference(yours: Counter[Any], right: Counter[Any]) -> str:
    text = f"your query returns {counted(yours.total(), 'row')}; there should be {right.total()}."
    if yours.total() == right.total():
        is_wrong = "it is another one" if yours.total() == 1 else "not all are right"
        text = f"your query returns {counted(yours.total(), 'row')}, but {is_wrong}."
    for title, rows in (("Not right", yours - right), ("Not found", right - yours)):
        if rows:
            text += f" {title}: {dict(next(iter(rows)))}."
    return text


def _row(row: dict[str, Any], columns: Iterable[str] | None) -> tuple[tuple[str, Any], ...]:
    """A row that can be counted; of `columns` only, if they are given."""
    names = sorted(row) if columns is None else columns
    return tuple((name, _plain(row.get(name))) for name in names)


def _plain(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict) else value


def _orders(values: list[str]) -> str:
    shown = ", ".join(values[:3]) + (", …" if len(values) > 3 else "")
    return f"order {shown} is" if len(values) == 1 else f"orders {shown} are"


def _offsets(rows: list[Event]) -> str:
    numbers = [str(row.offset) for row in rows]
    place = "" if len({row.partition for row in rows}) == 1 else " on several partitions"
    return f"offsets {', '.join(numbers[:-1])} and {numbers[-1]}{place}"


def times(number: int) -> str:
    """A number of times as one says it."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _is_same(answer: Any, right: Any) -> bool:
    return type(answer) is type(right) and answer == right


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list | tuple | set)


def _differences(wrong: list[str], answer: dict[str, Any]) -> Iterator[str]:
    """A sentence about the names whose values are wrong, and one about those that are not there."""
    given = [name for name in wrong if name in answer]
    if given:
        what = f"{given[0]!r} is" if len(given) == 1 else f"{', '.join(map(repr, given))} are"
        values = ", ".join(f"{name} = {answer[name]!r}" for name in given)
        yield f"{what} not what happened: {values}."
    if absent := ", ".join(repr(name) for name in wrong if name not in answer):
        yield f"your answer does not name {absent}."


# How often each order is somewhere.


def had(evidence: Evidence, topic: str, *kinds: str) -> Counter[str | None]:
    """How often a topic of the run, by its short name, has each order: events of these kinds."""
    rows = evidence.history.of("log", *kinds)
    return Counter(row.value for row in rows if row.topic == f"{row.run}-{topic}")


def final(evidence: Evidence, topic: str) -> Counter[str | None]:
    """How often a read_committed reader has each order of a topic, when all is over."""
    return had(evidence, topic, "visible" if is_transactional(evidence) else "record")


def is_transactional(evidence: Evidence) -> bool:
    """Does the log hold a transaction, ended by a marker or still open?"""
    return any(
        row.source == "log" and (row.kind == "marker" or "transactional" in row.detail)
        for row in evidence.rows
    )


def acked(evidence: Evidence) -> set[str | None]:
    """The orders that have an acked event; only trials of our own have these rows."""
    return {row.value for row in evidence.history.of("client", "acked")}


def missing(evidence: Evidence, copies: Mapping[Any, int]) -> list[str]:
    """The orders of which there is none."""
    return [order for order in evidence.orders if not copies.get(order)]


def repeated(evidence: Evidence, copies: Mapping[Any, int]) -> list[str]:
    """The orders of which there is more than one."""
    return [order for order in evidence.orders if copies.get(order, 0) > 1]


def invoices(evidence: Evidence) -> Counter[str | None]:
    """How often a read_committed reader has the invoice of each order, when all is over."""
    return final(evidence, "invoices")


def unbilled(evidence: Evidence) -> list[str]:
    """The orders of which such a reader has no invoice."""
    return missing(evidence, invoices(evidence))


def billed_twice(evidence: Evidence) -> list[str]:
    """The orders of which it has more than one."""
    return repeated(evidence, invoices(evidence))


def effects(evidence: Evidence) -> Mapping[Any, int]:
    """How often the database has each order."""
    return evidence.history.effects


def each_has_one(what: str, copies: Copies, where: str = "") -> Rule:
    """Each order has one of these: none has lost it, and none has several."""

    def has_one(_: Any, evidence: Evidence) -> str | None:
        found = copies(evidence)
        if lost := missing(evidence, found):
            return f"order {lost[0]} has no {what}{where}{and_more(lost)}."
        if twice := repeated(evidence, found):
            return f"order {twice[0]} has {found[twice[0]]} {what}s{where}{and_more(twice)}."
        return None

    return has_one


def and_more(orders: Sequence[str]) -> str:
    """How many there are, if it is not the one that was named."""
    return f"; {len(orders)} such orders" if len(orders) > 1 else ""


# Transactions: what a read_committed reader was given, and who was fenced.


def readable(evidence: Evidence) -> list[Event]:
    """The records of the log that a read_committed reader is given, when all is over."""
    if not is_transactional(evidence):
        return evidence.log
    places = {_place(row) for row in evidence.history.of("log", "visible")}
    return [row for row in evidence.log if _place(row) in places]


def taken_back(evidence: Evidence) -> str | None:
    """What a trial lacks if records were not committed: its fault may have met no others."""
    hidden = len(evidence.log) - len(readable(evidence))
    return f"the program never committed {counted(hidden, 'record')}" if hidden else None


def taken_back_alone(evidence: Evidence) -> str | None:
    """What it lacks if they alone were in a transaction: who dies in one has lost nothing."""
    batches = _batches(evidence).values()
    is_plain = any("transactional" not in row.detail for row in batches)
    return taken_back(evidence) if is_plain else None


def taken_back_by_another(evidence: Evidence) -> str | None:
    """What it lacks if they are a producer's that commits none: who dies in it is in no work.

    Nor is who dies in a transaction that it would abort: none is aborted but by a kill within it.
    """
    ends = [row.detail.get("type") for row in evidence.history.of("log", "marker")]
    within = [row for row in evidence.crashes if row.detail.get("point") != "after_commit"]
    if (more := ends.count("ABORT") - len(within)) > 0:
        return f"the program aborted {counted(more, 'transaction')} itself"
    batches, seen = _batches(evidence), {_place(row) for row in readable(evidence)}
    writers = {it: batches[it].producer_id for it in map(_place, evidence.log) if it in batches}
    commits = {writer for place, writer in writers.items() if place in seen}
    strange = [writer for writer in writers.values() if writer not in commits]
    many = counted(len(strange), "record")
    return f"a producer that commits nothing wrote {many}" if strange else None


def committed_by_then(evidence: Evidence) -> str | None:
    """What a trial lacks if a process had committed when it was killed after an answer.

    The process says itself when it has the answer, and one that says it late loses nothing.
    """
    commits = [
        *evidence.requests("OffsetCommit"),
        *(row for row in evidence.requests("EndTxn") if row.detail.get("committed") == "True"),
    ]
    for crash in evidence.crashes:
        acks = [row for row in answers(evidence) if row.api == "Produce" and not row.error]
        asked_ns, told_ns = (
            max((row.at_ns for row in rows if row.at_ns < crash.at_ns), default=0)
            for rows in (commits, acks)
        )
        if crash.detail.get("point") == "after_ack" and asked_ns > told_ns:
            return "the program had committed when it came to after_ack"
    return None


def _batches(evidence: Evidence) -> dict[tuple[Any, ...], Event]:
    """The batch of each record, by the record's place."""
    return {
        (row.topic, row.partition, row.offset + number): row
        for row in evidence.history.of("log", "batch")
        if row.offset is not None
        for number in range(row.records or 0)
    }


def _place(row: Event) -> tuple[Any, ...]:
    return row.topic, row.partition, row.offset


def visible(evidence: Evidence, topic: str = "-orders", partition: int | None = None) -> list[str]:
    """The values that a read_committed reader was given, in the order of the log."""
    rows = [
        row for row in evidence.history.of("log", "visible")
        if (row.topic or "").endswith(topic) and partition in (None, row.partition)
    ]  # fmt: skip
    rows.sort(key=lambda row: (row.partition or 0, row.offset or 0))
    return [row.value or "" for row in rows]


def visible_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """What a read_committed reader was given, as rows."""
    return [
        {"topic": row.topic, "partition": row.partition, "offset": row.offset, "value": row.value}
        for row in evidence.history.of("log", "visible")
    ]


def aborts(evidence: Evidence) -> list[Event]:
    """The requests that end a transaction with an abort."""
    return [row for row in evidence.requests("EndTxn") if row.detail["committed"] == "False"]


def pairs_that_can_be_read(_: Any, evidence: Sequence[Evidence]) -> str:
    """How many orders and invoices a read_committed reader is given, run by run."""
    runs = [f"{each.trial.name}: {len(visible(each))}" for each in evidence]
    return f"each readable order is there once, with its invoice. Orders: {', '.join(runs)}."


def answers(evidence: Evidence) -> list[Event]:
    """The responses that crossed the wire, oldest first."""
    return evidence.history.of("wire", "response")


def fenced(evidence: Evidence) -> list[dict[str, Any]]:
    """Each fenced client, the request that told it, and who had taken its name."""
    told: dict[str, Event] = {}
    for row in answers(evidence):
        if row.error in FENCED:
            told.setdefault(row.actor, row)
    return [
        {"fenced": actor, "api": row.api, "by": _last_taker(evidence, row)}
        for actor, row in told.items()
    ]


def strangers(evidence: Evidence, returned: dict[str, Any]) -> set[str]:
    """The clients that never had the producer id of a returned row's fenced client."""
    ids = {row.producer_id for row in names_given(evidence) if row.actor == returned.get("fenced")}
    return {row.actor for row in names_given(evidence) if row.producer_id not in ids}


def each_order_has_its_invoice(_: Any, evidence: Evidence) -> str | None:
    """Is each order visible exactly once in both topics, or in neither?"""
    orders, invoices = Counter(visible(evidence)), Counter(visible(evidence, "-invoices"))
    for order in evidence.orders:
        if orders[order] != invoices[order]:
            return (
                f"order {order} can be read {times(orders[order])}, "
                f"and its invoice {times(invoices[order])}."
            )
        if orders[order] > 1:
            return f"order {order} and its invoice can be read {times(orders[order])}."
    return None


def all_that_should_be_there(_: Any, evidence: Evidence) -> str | None:
    """Is each order visible; if the producer was fenced, each one before that?"""
    wanted = evidence.orders[: _committed_before_the_end(evidence)]
    missing = [order for order in wanted if order not in visible(evidence)]
    if not missing:
        return None
    return f"order {missing[0]} cannot be read{and_more(missing)}."


def nothing_after_the_end(_: Any, evidence: Evidence) -> str | None:
    """Did the program stop when its producer had been fenced?"""
    end = _end(evidence)
    if end is None:
        return None
    asked = evidence.requests("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")
    later = [row for row in asked if row.at_ns > end.at_ns]
    if not later:
        return None
    return f"after it was fenced, {later[0].actor} went on: {later[0].api} crossed the wire."


def names_given(evidence: Evidence) -> list[Event]:
    """The answers that gave a client its producer id."""
    return [row for row in answers(evidence) if row.api == "InitProducerId" and not row.error]


def _last_taker(evidence: Evidence, refused: Event) -> str | None:
    mine = {row.producer_id for row in names_given(evidence) if row.actor == refused.actor}
    takers = [
        row.actor
        for row in names_given(evidence)
        if row.producer_id in mine and row.at_ns < refused.at_ns and row.actor != refused.actor
    ]
    return takers[-1] if takers else None


def _end(evidence: Evidence) -> Event | None:
    """The answer that told the producer that it was fenced."""
    return next((row for row in answers(evidence) if row.error in FENCED), None)


def _committed_before_the_end(evidence: Evidence) -> int:
    end = _end(evidence)
    if end is None:
        return len(evidence.orders)
    return int(evidence.trial.faults[0].nth) - 1
