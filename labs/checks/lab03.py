"""The checks of lab 03: Why did the order arrive twice, and why last?"""

from collections import Counter
from math import inf

from lab_utils.grading.cases import Exercise, Mistake, Trial, drawn
from lab_utils.grading.rules import (
    after_crash,
    answer_equals,
    each_order_is_stored,
    missing,
    no_order_is_stored_twice,
    nothing_else_is_stored,
    repeated,
    rows_equal,
    taken_back,
    taken_back_alone,
    the_process_was_restarted,
)
from lab_utils.ledger.events import NOT_DELIVERED
from lab_utils.ledger.history import released_ns
from lab_utils.proxy.faults import crash_client, delay_response, drop_request, drop_response

# A process is killed long before it would have the answer.
LATE_MS = 2000
STORED_ONCE = (nothing_else_is_stored, each_order_is_stored, no_order_is_stored_twice)


def one_at_a_time(run):
    """The lab's first workload."""
    producer = run.producer({"acks": "all"})
    for order in run.orders:
        producer.produce(run.topic, order, partition=0)
        producer.flush()


def with_and_without_a_key(run):
    """Two producers on two partitions: one idempotent, one not, and both have something re-sent."""
    for configuration in ({"enable.idempotence": True}, {"acks": "all"}):
        producer = run.producer(configuration)
        for number, order in enumerate(run.orders):
            producer.produce(run.topic, order, partition=number % 2)
        producer.flush()


def on_two_partitions(run):
    """Several in flight, not idempotent; an order keeps to its partition."""
    producer = run.producer({"acks": "all"})
    for number, order in enumerate(run.orders):
        producer.produce(run.topic, order, partition=number % 2)
    producer.flush()


def the_lie(evidence):
    """The order that is stored twice, where its first copy is, and what its report said."""
    order = next(iter(evidence.history.duplicated))
    first, report = order.copies[0], order.acked[-1]
    return {"order": order.value, "first_copy": first.offset, "reported": report.offset}


# What a broker knows a batch by.
KEY = ("partition", "producer_id", "producer_epoch", "sequence")


def key_of(row):
    """The key of the batch of an event."""
    return tuple(getattr(row, name) for name in KEY)


def keys(evidence):
    """How often each batch with a producer id crossed the wire."""
    sent = [row for row in evidence.requests() if row.producer_id is not None]
    return Counter(key_of(row) for row in sent if row.producer_id >= 0)


def resent(evidence):
    """The batches that crossed the wire more than once."""
    return [
        {**dict(zip(KEY, key, strict=True)), "times": times}
        for key, times in keys(evidence).items()
        if times > 1
    ]


def is_over_all_partitions(evidence, returned):
    """Does a returned row count a sequence number on several partitions as one?"""
    sent = keys(evidence)
    partition, *wanted = (returned.get(name) for name in KEY)
    everywhere = sum(times for (_, *key), times in sent.items() if key == wanted)
    return returned.get("times") == everywhere != sent[(partition, *wanted)]


def counts_the_log(evidence, returned):
    """Does each returned row count what the log holds in addition to what crossed the wire?"""
    sent, stored = keys(evidence), Counter(map(key_of, evidence.history.of("log", "batch")))
    counted = [(tuple(row.get(name) for name in KEY), row.get("times")) for row in returned]
    return counted and all(times == sent[key] + stored[key] for key, times in counted)


def sent_by_hand(evidence):
    """Was an order that is stored twice sent as two batches, each with a key of its own?"""
    twice = {value for value, times in Counter(evidence.stored).items() if times > 1}
    batches = {
        (row.value, row.producer_id, row.producer_epoch, row.sequence)
        for row in evidence.requests()
        if row.value in twice and row.producer_id != -1
    }
    return len(batches) > len({value for value, *_ in batches})


def first_copies(evidence):
    """Each order once, with the place of its first copy."""
    first = [order.copies[0] for order in evidence.history.orders.values() if order.copies]
    return [{"value": row.value, "partition": row.partition, "offset": row.offset} for row in first]


def lost(answer_at, request_at):
    """One run that loses an answer, one that loses a request."""
    faults = {
        "a lost answer": drop_response("Produce", nth=answer_at),
        "a lost request": drop_request("Produce", nth=request_at),
    }
    return tuple(Trial(name=it, faults=(faults[it],), assumes=taken_back) for it in faults)


def answers_lost(nth, orders=6):
    """The producer with a key loses two answers, the second to a retry; the other one loses one.

    All orders have been sent when the first answer is lost, so the next request is a retry.
    """
    faults = (
        drop_response("Produce", nth=nth, client_id="producer-1", sent=orders),
        drop_response("Produce", nth=orders + 1, client_id="producer-1"),
        drop_response("Produce", nth=1, client_id="producer-2"),
    )
    return Trial(
        name="lost answers",
        faults=faults,
        orders=orders,
        partitions=2,
        workload=with_and_without_a_key,
    )


def stored_twice(nth, orders=6):
    """A run whose log holds orders twice, on two partitions."""
    return Trial(
        name="a lost answer",
        faults=(drop_response("Produce", nth=nth),),
        orders=orders,
        partitions=2,
        workload=on_two_partitions,
    )


def crashed(acked, sent):
    """Three runs whose processes are killed and started again.

    After an ack the log holds something, so who begins anew stores it twice. Before the answer it
    holds what the process was not told of, so who has written down what was acked stores that
    twice; and the last orders were never handed over, so who gives up leaves them out. What is sent
    first may not reach the broker, so who has written down that it was sent leaves it out, too. So
    it is for one process after another: the last one is killed with the last order, and nobody can
    be careful in the first processes only.
    """
    lost, order = ("0", str(sent), "5"), str(sent)
    deaths = {
        "a crash after an ack": (crash_client("after_ack", nth=acked),),
        "a crash before the answer": (
            crash_client("after_send", value=order),
            delay_response("Produce", value=order, by_ms=LATE_MS),
        ),
        "crashes before the broker has it": (
            *(crash_client("after_send", value=order) for order in lost),
            *(drop_request("Produce", value=order, once=False) for order in lost),
        ),
    }
    return tuple(Trial(name=it, faults=deaths[it], assumes=killed_in_time) for it in deaths)


def killed_in_time(evidence):
    """What a crash lacks if no record was lost by it, or if the process had the late answer.

    It says itself that it has sent, and who says so late has written down what was acked.
    """
    late = [fault.value for fault in evidence.trial.faults if isinstance(fault, delay_response)]
    died_ns = min((row.at_ns for row in evidence.crashes), default=0)
    for exchange in evidence.history.exchanges:
        told = (released_ns(row) for row in exchange.responses if row.fate not in NOT_DELIVERED)
        if not set(late).isdisjoint(exchange.values) and min(told, default=inf) < died_ns:
            return f"the program had its answer when it said that order {late[0]} was sent"
    return taken_back_alone(evidence)


EXERCISES = {
    "03.1": Exercise(
        title="Which report lied?",
        points=3,
        kind="value",
        answer="answer_1",
        public=(
            Trial(
                name="a lost answer",
                faults=(drop_response("Produce", nth=3),),
                orders=5,
                workload=one_at_a_time,
            ),
        ),
        rules=(answer_equals(the_lie),),
        mistakes={
            "order as a number": Mistake(
                is_made=lambda answer, _: isinstance(answer["order"], int),
                likely="your order is a number, and in the ledger a value is text.",
            ),
            "another order": Mistake(
                is_made=lambda answer, seen: answer["order"] != the_lie(seen)["order"],
                likely="that order is in the log once.",
                look="Look at twice.log: which order is there twice?",
            ),
            "the other way round": Mistake(
                is_made=lambda answer, seen: (
                    (answer["reported"], answer["first_copy"])
                    == (the_lie(seen)["first_copy"], the_lie(seen)["reported"])
                ),
                likely="you took the report for the one that got lost.",
                look="Look at which of the two answers reached the client in twice.timeline().",
            ),
            "the lost answer's offset": Mistake(
                is_made=lambda answer, seen: answer["reported"] == the_lie(seen)["first_copy"],
                likely="that offset stood in an answer that nobody received.",
                look="Look at the offset of the acked event of that order.",
            ),
            "counted requests": Mistake(
                is_made=lambda answer, seen: (
                    (answer["first_copy"], answer["reported"])
                    == (the_lie(seen)["first_copy"] + 1, the_lie(seen)["reported"] + 1)
                ),
                likely="you counted requests from 1; offsets are counted from 0.",
                look="Look at twice.orders_by_offset().",
            ),
            "the second copy": Mistake(
                is_made=lambda answer, seen: answer["first_copy"] == the_lie(seen)["reported"],
                likely="your first copy is the one that the client's retry left.",
                look="Look at both offsets of that order in twice.orders_by_offset().",
            ),
            "offset as text": Mistake(
                is_made=lambda answer, _: (
                    isinstance(answer["first_copy"], str) or isinstance(answer["reported"], str)
                ),
                likely="your offset is text, and in the ledger an offset is a number.",
            ),
        },
        blank='Fill in answer_1 = {"order": "...", "first_copy": ..., "reported": ...}.',
    ),
    "03.2": Exercise(
        title="Store each order once",
        points=5,
        kind="workload",
        answer="send_once",
        public=lost(answer_at=3, request_at=2),
        # At the first request nothing can have been sent in vain, to meet the fault.
        unseen=drawn(lambda place: lost(place.randint(2, 6), place.randint(2, 6))),
        rules=STORED_ONCE,
        mistakes={
            "no producer id": Mistake(
                is_made=lambda _, seen: (
                    len(seen.stored) > len(set(seen.stored))
                    and all(row.producer_id == -1 for row in seen.requests())
                ),
                likely="the retry carried no producer id, so the broker could not recognise it.",
                look="Look at the second Produce request of that order in the timeline.",
            ),
            "sent again by hand": Mistake(
                is_made=lambda _, seen: sent_by_hand(seen),
                likely="your program sent an order again by itself; to the broker that is new.",
                look="Look at the sequence numbers of the two requests in the timeline.",
            ),
            "gave up": Mistake(
                is_made=lambda _, seen: not set(seen.orders) <= set(seen.stored),
                likely="a request was lost, and the client did not send it again.",
                look="Look at what your settings say about acks and retries.",
            ),
        },
        blank="Look at what the last line of the workload waits for, and whether it is there.",
    ),
    "03.3": Exercise(
        title="Find what was sent twice",
        points=4,
        kind="query",
        answer="resent",
        public=(answers_lost(3),),
        unseen=drawn(lambda place: [answers_lost(place.choice((2, 4, 5)))]),
        rules=(rows_equal(resent),),
        mistakes={
            "no producer id": Mistake(
                is_made=lambda _, seen: not {-1, None}.isdisjoint(seen.column("producer_id")),
                likely="-1 is not a producer id; two batches without one have nothing in common.",
                look="Look at the rows that your query returns for the second producer.",
            ),
            "counted the log, too": Mistake(
                is_made=lambda _, seen: counts_the_log(seen, seen.returned or ()),
                likely="your query counts the batches of the log, too: they crossed no wire.",
                look="Look at the `source` and the `kind` of the rows that it counts.",
            ),
            "without the partition": Mistake(
                is_made=lambda _, seen: any(
                    is_over_all_partitions(seen, row) for row in seen.returned or ()
                ),
                likely="the key leaves something out: each partition counts its own sequence.",
                look="Look at the batches with sequence 0.",
            ),
            "just twice": Mistake(
                is_made=lambda _, seen: 3 not in seen.column("times"),
                likely="a batch whose answer was lost twice crossed the wire three times.",
                look="Look at how often your query lets a batch cross the wire.",
            ),
            "everything": Mistake(
                is_made=lambda _, seen: 1 in seen.column("times"),
                likely="your query also returns what was sent once.",
            ),
        },
    ),
    "03.4": Exercise(
        title="Deduplicate after the fact",
        points=4,
        kind="query",
        answer="first_copies",
        public=(stored_twice(3),),
        unseen=drawn(lambda place: [stored_twice(place.randint(3, 6), orders=8)]),
        rules=(rows_equal(first_copies),),
        mistakes={
            "every copy": Mistake(
                is_made=lambda _, seen: len(seen.column("value")) == len(seen.stored),
                likely="your query still returns every record of the log.",
                look="Look for an order that is in your result more than once.",
            ),
            "the last copy": Mistake(
                is_made=lambda _, seen: (
                    len(seen.column("value")) == len(set(seen.stored))
                    and any(
                        row.get("offset") != _first_offset(seen, row) for row in seen.returned or ()
                    )
                ),
                likely="you kept a later copy; a reader that has gone on has used the first.",
                look="Look at the offsets of an order that is there twice.",
            ),
            "only the doubled ones": Mistake(
                is_made=lambda _, seen: len(seen.column("value")) < len(set(seen.stored)),
                likely="orders are missing from your result; those stored once belong to it, too.",
            ),
        },
    ),
    "03.5": Exercise(
        title="Survive a restart",
        points=4,
        kind="workload",
        answer="send_the_rest",
        public=crashed(acked=3, sent=2),
        unseen=drawn(lambda place: crashed(place.randint(1, 5), place.choice((2, 3)))),
        rules=(*STORED_ONCE, the_process_was_restarted),
        mistakes={
            "gave up": Mistake(
                is_made=lambda _, seen: (
                    missing(seen, Counter(seen.stored))
                    and seen.requests()[-1].at_ns < seen.crashes[0].at_ns
                ),
                likely="the second process sent nothing, and the first had not finished.",
                look="Look at what is missing from the log.",
            ),
            "wrote it down first": Mistake(
                is_made=lambda _, seen: not set(seen.orders) <= set(seen.stored),
                likely="you took an order for stored that was sent, and that no broker had acked.",
                look="Look at which orders were in the log when the second process started.",
            ),
            "began anew": Mistake(
                is_made=lambda _, seen: len(after_crash(seen, "Produce")) >= len(seen.orders),
                likely="the second process sent every order; its producer id is new.",
                look="Look at which orders were in the log when it started.",
            ),
            "wrote down the acks": Mistake(
                is_made=lambda _, seen: repeated(seen, Counter(seen.stored)),
                likely="the broker had stored an order, and no process had its answer.",
                look="Look at which orders were in the log when the second process started.",
            ),
        },
        blank="Look at which orders your function sends, and at what its last line waits for.",
    ),
}


def _first_offset(evidence, returned):
    """The offset of the first copy of the order in a returned row."""
    return next((row.offset for row in evidence.log if row.value == returned.get("value")), None)
